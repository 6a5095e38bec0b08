"""What a run is judged by and what of it is shown: recovery after each fault, the part, the report. Pure."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tests.checker.history import Function, Key, Operation, Outcome
from tests.checker.verdict import Kind, Verdict
from tests.faults.nemesis.schedule import Done
from tests.proof.part import Figure, Part

PART = "tier-c"
INCONSISTENT = (Kind.INCONSISTENT_OFFSETS, Kind.REPLICAS_DIFFER, Kind.PLACEMENT_DIFFERS)
NS_PER_SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Course:
    """What became of the cluster. elections, metadata_changes: over all partitions. whole_seconds: from the
    last heal until every replica was in sync."""

    elections: int
    metadata_changes: int
    whole_seconds: float


class Acknowledged:
    """For each partition: when the first record produced after a moment was acknowledged."""

    def __init__(self, operations: Iterable[Operation], keys: Iterable[Key]) -> None:
        by_key: dict[Key, list[tuple[int, int]]] = {key: [] for key in keys}
        for operation in operations:
            if operation.f is Function.SEND and operation.type is Outcome.OK and operation.key in by_key:
                by_key[operation.key].append((operation.t_invoke_ns, operation.t_return_ns))
        self._invoked: list[list[int]] = []
        self._returned: list[list[int]] = []
        for sends in by_key.values():
            sends.sort()
            earliest = [returned for _, returned in sends]
            for index in range(len(earliest) - 2, -1, -1):
                earliest[index] = min(earliest[index], earliest[index + 1])
            self._invoked.append([invoked for invoked, _ in sends])
            self._returned.append(earliest)

    def everywhere_ns(self, since_ns: int) -> int | None:
        """When every partition had acknowledged a record that was produced since; None: some never did."""
        latest = since_ns
        for invoked, returned in zip(self._invoked, self._returned, strict=True):
            index = bisect.bisect_left(invoked, since_ns)
            if index == len(invoked):
                return None
            latest = max(latest, returned[index])
        return latest


def recoveries(faults: Sequence[Done], acknowledged: Acknowledged) -> list[float]:
    """Seconds from each heal until every partition took writes again. Counted only where no other fault held
    meanwhile: what one fault breaks is not another's recovery."""
    seconds = []
    for fault in faults:
        recovered_ns = acknowledged.everywhere_ns(fault.healed_ns)
        if recovered_ns is None:
            continue
        is_alone = all(
            other is fault or other.healed_ns <= fault.healed_ns or other.struck_ns >= recovered_ns
            for other in faults
        )
        if is_alone:
            seconds.append((recovered_ns - fault.healed_ns) / NS_PER_SECOND)
    return seconds


def to_part(
    *,
    seed: int,
    seconds: float,
    minutes: float,
    faults: Sequence[Done],
    verdict: Verdict,
    course: Course,
    recovered: Sequence[float],
    failures: Sequence[str],
) -> Part:
    counted = verdict.figures
    figures: dict[str, Figure] = {
        "minutes under faults": round(minutes, 1),
        "seed": seed,
        "faults": len(faults),
        "kinds of faults": len({fault.kind for fault in faults}),
        "records acknowledged": counted.acked,
        "records unanswered": counted.unknown,
        "duplicates": counted.duplicated,
        "elections": course.elections,
        "other changes of ISR and ELR": course.metadata_changes - course.elections,
        "availability %": round(counted.availability_percent or 0.0, 2),
        "longest stall s": round(counted.longest_stall_ms / 1000, 1),
        "all in sync after the last heal s": round(course.whole_seconds, 1),
    }
    if recovered:
        figures["recovery p50 s"] = round(median(recovered), 2)
        figures["recovery max s"] = round(max(recovered), 2)
    return Part(
        name=PART,
        seconds=round(seconds, 1),
        figures=figures,
        faults=dict(sorted(Counter(fault.kind for fault in faults).items())),
        failures=[*failures, *(f"{kind}: {count}" for kind, count in verdict.bad.items())],
        lost=counted.lost,
        inconsistent=sum(verdict.bad.get(kind, 0) for kind in INCONSISTENT),
    )


def transactions_of(operations: Iterable[Operation], *, version_2: str) -> dict[str, Figure]:
    """Return how many transactions ended how. version_2: how names begin of processes that speak it."""
    ends = [operation for operation in operations if operation.f is Function.TRANSACTION]
    count = Counter(end.type for end in ends)
    committed = sorted((end.t_return_ns, end.process) for end in ends if end.type is Outcome.OK)
    pauses_ns = [after[0] - before[0] for before, after in pairwise(committed)]
    return {
        "transactions committed": count[Outcome.OK],
        "of them under version 2": sum(process.startswith(version_2) for _, process in committed),
        "transactions aborted": count[Outcome.FAIL],
        "transactions of unknown outcome": count[Outcome.INFO],
        "longest time without a commit s": round(max(pauses_ns, default=0) / NS_PER_SECOND, 1),
    }


def render_part(part: Part) -> list[str]:
    width = max(map(len, part.figures))
    lines = [f"  {name:<{width}}  {figure}" for name, figure in part.figures.items()]
    struck: Mapping[str, int] = part.faults
    lines.append("  " + ", ".join(f"{kind} {count}" for kind, count in struck.items()))
    return lines


def render_faults(faults: Sequence[Done], *, started_ns: int) -> list[str]:
    """When each fault held, in seconds since the start."""
    return [
        f"  {(fault.struck_ns - started_ns) / NS_PER_SECOND:7.1f} .. "
        f"{(fault.healed_ns - started_ns) / NS_PER_SECOND:7.1f}  {fault.note}"
        for fault in faults
    ]
