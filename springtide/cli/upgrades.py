"""An upgrade's status as lines for a person: the level, each process, what stands in the way, the next step.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from springtide.cli.tables import Table, columns, describe, printable

_PROCESSES: Final = columns("process=name kind version levels running=is_running active=is_active")


def upgrade_lines(status: Mapping[str, Any], *, width: int | None) -> list[str]:
    """Return the lines of an answer to GET /clusters/{cluster}/upgrade."""
    level, target = status["level"], status["target_level"]
    head = {"level": f"{level} (release {status['release']})"}
    if target != level:
        head["next-level"] = f"{target} (release {status['target_release']})"
    table = Table(_PROCESSES, width=width)
    rows = [{**process, "levels": _levels(process)} for process in status["processes"]]
    lines = [*describe(head), "", *table.lines(rows), ""]
    blockers = status["blockers"]
    if blockers:
        lines.append(f"{len(blockers)} in the way of level {target}:")
        lines += [f"  {printable(blocker['name'])} {printable(blocker['reason'])}" for blocker in blockers]
        lines.append("")
    return [*lines, _next_step(status)]


def _levels(process: Mapping[str, Any]) -> str:
    lowest, highest = process["lowest_level"], process["highest_level"]
    if lowest is None:
        return "not told"
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _next_step(status: Mapping[str, Any]) -> str:
    if status["target_level"] == status["level"]:
        return "Nothing is left to be finalized."
    if status["blockers"]:
        return (
            "Until it is finalized, each process can go back to the release before. "
            "Next: bring what is in the way to the new release."
        )
    return (
        "Each process can go back to the release before until you finalize; then there is no way back. "
        "Next: `springtide upgrade finalize --dry-run`, then without --dry-run."
    )
