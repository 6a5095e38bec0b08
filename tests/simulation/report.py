"""What a failing run leaves behind: a report for people, and the run itself as a file that replays it."""

from __future__ import annotations

import dataclasses
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.simulation.corpus import Case, case_of, encode_case
from tests.simulation.run import Verdict

DIRECTORY = Path("build/simulation")


@cache
def commit() -> str:
    """The checked-out commit, marked when files differ from it; "unknown" outside a repository."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return described.stdout.strip()


def report(verdict: Verdict, *, saved: Path | None = None) -> str:
    """Rule, seed, versions, options, the strikes, the last events, and the command that repeats it. saved:
    where `save` has put the run."""
    options = ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(verdict.options).items())
    again = f"--schedule {saved}" if saved is not None else f"--seed {verdict.seed}"
    return "\n".join(
        [
            f"seed {verdict.seed} failed: {verdict.failure or 'it did not'}",
            f"rule: {verdict.rule}",
            f"commit {commit()}, Python {platform.python_version()}, trio {version('trio')}",
            f"options: {options}",
            f"at {verdict.simulated_ms} ms, {verdict.events} events, digest {verdict.digest}, "
            f"history {verdict.history_digest}",
            f"{len(verdict.strikes)} strikes:",
            *(f"  {strike}" for strike in verdict.strikes),
            f"the last {len(verdict.last_events)} events:",
            *verdict.last_events,
            f"replay: python -m tests.simulation run {again}",
            f"shrink: python -m tests.simulation shrink {again}",
        ]
    )


def save(case: Case, *, name: str = "", directory: Path = DIRECTORY) -> Path:
    """Writes the run where `--schedule` finds it. name: of the file, instead of that of its seed."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name or f'seed-{case.seed}'}.json"
    path.write_bytes(encode_case(case) + b"\n")
    return path


def report_and_save(verdict: Verdict, *, directory: Path = DIRECTORY) -> str:
    """The report of a failed run, whose schedule and report now also lie in `directory`."""
    path = save(case_of(verdict), directory=directory)
    text = report(verdict, saved=path)
    path.with_suffix(".txt").write_text(text + "\n")
    return text
