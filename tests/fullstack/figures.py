"""What a sweep of seeds comes to: a table for people, and a part for the proof's table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.fullstack.groups import MOMENTS
from tests.fullstack.run import Result
from tests.proof.part import Part

NAME = "tier-b"
COORDINATED_MIN = 60
"""Seeds with coordinators from which on a sweep must have come to each moment of groups."""


def part_of(results: Sequence[Result], *, seconds: float, compared: int, differing: Sequence[int]) -> Part:
    """`compared`: seeds that ran again under another hash seed; `differing`: those whose digests were not
    equal."""
    faults: Counter[str] = Counter()
    for result in results:
        faults.update(result.faults)
    operations: Counter[str] = Counter()
    for result in results:
        operations.update(result.operations)
    simulated_s = sum(result.simulated_ms for result in results) / 1000
    recoveries = sorted(result.recovery_ms for result in results if result.recovery_ms >= 0) or [0]
    failures = [
        f"seed {result.seed}: {failure.splitlines()[0]}" for result in results for failure in result.failures
    ]
    failures += [f"seed {seed}: two runs differ" for seed in differing]
    coordinated = sum(result.options.coordinators > 0 for result in results)
    moments = sum((result.moments for result in results), Counter())
    if coordinated >= COORDINATED_MIN:
        failures += [f"groups never came to: {moment}" for moment in MOMENTS if not moments[moment]]
    return Part(
        name=NAME,
        seconds=round(seconds, 1),
        figures={
            "seeds": len(results),
            "simulated hours": round(simulated_s / 3600, 2),
            "simulated seconds a second": round(simulated_s / max(seconds, 1e-9), 1),
            "records acknowledged": sum(result.acked for result in results),
            "leader elections": sum(result.elections for result in results),
            "partition state changes": sum(result.isr_changes for result in results),
            "controller terms": sum(result.controller_elections for result in results),
            "operations ended": ", ".join(f"{n:,} {state}" for state, n in sorted(operations.items())),
            "recovery ms, median": recoveries[len(recoveries) // 2],
            "recovery ms, worst": recoveries[-1],
            "seeds with coordinators": coordinated,
            "commits of groups answered": moments["commit answered"],
            "assignments of groups": moments["assigned in a later generation"],
            "digests compared": compared,
        },
        faults=dict(faults.most_common()),
        failures=failures,
        lost=sum(result.lost for result in results),
        inconsistent=sum(result.inconsistent for result in results),
    )


def table(part: Part) -> str:
    rows = [*part.figures.items(), ("lost", part.lost), ("inconsistent", part.inconsistent)]
    rows.append(("faults", ", ".join(f"{kind} {count}" for kind, count in part.faults.items())))
    rows.append(("seconds", part.seconds))
    return "\n".join([*(f"{name:<28} {value}" for name, value in rows), *part.failures])
