"""The table beside 2013's, the verdict of both runs, and the part for the table of what was tried. Pure.

A run is judged by rules that are written here once: with our defaults nothing is lost and nothing is
acknowledged alone; with the settings of 2013 something is lost, or the schedule proves nothing, and nothing
is lost without a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.checker.verdict import Kind, Verdict
from tests.faults.jepsen2013.divergent_copies import Copy
from tests.faults.jepsen2013.schedule import Plan
from tests.faults.jepsen2013.tally import Course, Tally, Write
from tests.proof.part import Part

PART = "2013-real"
HEALTHY_PERCENT_MIN = 95.0
WRITABLE_SECONDS_MAX = 15.0
LISTED_MAX = 1000
"""Lost records that are named; a run has no more integers than that."""

UNCLEAN_KINDS = frozenset({Kind.LOST_ACKED, Kind.LOST_WRITE, Kind.INCONSISTENT_OFFSETS, Kind.REAL_TIME_ORDER})
"""What an unclean election does to a history: records go, and others take their offsets."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    total: int
    acked: int
    read: int
    lost: int


ORIGINAL = Row("Kafka 0.8 beta, 2013", 1000, 987, 468, 520)
"""As published; among those read was one that had not been acknowledged."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run. unread: partitions whose end the drain did not reach. found: for each lost write the copies
    that hold it."""

    plan: Plan
    is_control: bool
    is_idempotent: bool
    tally: Tally
    course: Course
    verdict: Verdict
    seconds: float
    unread: frozenset[int] = frozenset()
    found: Mapping[Write, Sequence[Copy]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        if self.is_control:
            return "Springtide, settings of 2013"
        return f"Springtide, defaults{', idempotent' if self.is_idempotent else ''}"

    @property
    def row(self) -> Row:
        t = self.tally
        return Row(self.name, t.total, t.acked, t.read, len(t.lost))

    @property
    def lost_silently(self) -> list[Write]:
        return [write for write in self.tally.lost if not self.found.get(write)]


def failures(result: Result) -> list[str]:
    """What must not be, in a line each."""
    t, course = result.tally, result.course
    found = []
    if t.total != result.plan.total:
        found.append(f"{t.total} of {result.plan.total} integers were sent: the schedule did not run")
    if course.alone_ns is None or course.alone_ns > course.second_cut_ns:
        found.append(
            "the ISR never shrank to the isolated leader before the second cut: not the schedule of 2013"
        )
    if result.unread:
        found.append(f"the drain did not reach the end of partitions {sorted(result.unread)}")
    if (slowest := t.writable_seconds_max) is None or slowest > WRITABLE_SECONDS_MAX:
        took = "never" if slowest is None else f"after {slowest:.1f} s"
        found.append(f"all partitions took writes again {took}; {WRITABLE_SECONDS_MAX:g} s are allowed")
    found += _control_failures(result) if result.is_control else _default_failures(result)
    return [f"{'control: ' if result.is_control else ''}{line}" for line in found]


def _default_failures(result: Result) -> list[str]:
    t = result.tally
    found = [f"lost: {write}" for write in t.lost]
    found += [f"acknowledged alone by the isolated leader: {write}" for write in t.alone]
    if t.healthy_percent < HEALTHY_PERCENT_MIN:
        found.append(
            f"{t.healthy_percent:.1f} % of the writes to healthy partitions succeeded; "
            f"{HEALTHY_PERCENT_MIN:g} % is the least"
        )
    if not (t.refused or t.alone or t.outlasted):
        found.append("no write met the isolated leader: the schedule proves nothing")
    found += [f"the checker found {kind}: {count}" for kind, count in result.verdict.bad.items()]
    return found


def _control_failures(result: Result) -> list[str]:
    found = [f"lost silently, no replica has a copy: {write}" for write in result.lost_silently]
    if not result.tally.lost:
        found.append("nothing was lost: the schedule proves nothing")
    found += [
        f"the checker found {kind}: {count}"
        for kind, count in result.verdict.bad.items()
        if kind not in UNCLEAN_KINDS
    ]
    return found


def render_table(rows: Sequence[Row]) -> list[str]:
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}{'total':>8}{'acked':>8}{'read':>8}{'lost':>8}"]
    lines += [f"{row.name:{width}}{row.total:>8}{row.acked:>8}{row.read:>8}{row.lost:>8}" for row in rows]
    return lines


def render_details(result: Result) -> list[str]:
    """What the table has no columns for."""
    t, course = result.tally, result.course
    alone = course.alone_ns
    slowest = t.writable_seconds_max
    refused = ", ".join(f"{count} {name}" for name, count in t.refused.items()) or "none"
    lines = [
        f"{result.name}: broker {course.victim} led partitions {sorted(course.victim_led)} at the first cut",
        f"  ISR shrunk to it alone {_since(course.first_cut_ns, alone)} after the first cut; "
        f"replaced {course.seconds_to_new_leaders:.1f} s after the second",
        f"  acknowledged while alone: {len(t.alone)}; refused or timed out: {refused}; "
        f"acknowledged by the next leader: {t.outlasted}",
        f"  healthy partitions: {t.healthy_acked} of {t.healthy_total} writes acknowledged "
        f"({t.healthy_percent:.1f} %)",
        "  all partitions writable "
        + ("never" if slowest is None else f"{slowest:.1f} s")
        + f" after the healing; integers read twice: {t.twice}",
    ]
    if t.lost:
        silently = len(result.lost_silently)
        lines.append(
            f"  {len(t.lost) - silently} of {len(t.lost)} lost records are in files beside the log of a "
            "replica that had to drop them"
        )
    return lines


def _since(start_ns: int, end_ns: int | None) -> str:
    return "never" if end_ns is None else f"{(end_ns - start_ns) / 1e9:.1f} s"


def render_lost(result: Result) -> list[str]:
    """Each lost record by name, and where it is."""
    lines = []
    for write in result.tally.lost[:LISTED_MAX]:
        holders = ", ".join(
            f"broker {copy.broker}: {copy.path.rpartition('/')[2]}" for copy in result.found.get(write, ())
        )
        lines.append(f"  lost {write}: {holders or 'NOWHERE'}")
    return lines


def to_part(ours: Result, control: Result) -> Part:
    t, c = ours.tally, control.tally
    return Part(
        name=PART,
        seconds=round(ours.seconds + control.seconds, 1),
        figures={
            "rate": ours.plan.rate,
            "total": t.total,
            "acked": t.acked,
            "read": t.read,
            "lost": len(t.lost),
            "acknowledged alone": len(t.alone),
            "refused or timed out at the isolated leader": sum(t.refused.values()),
            "healthy partitions %": round(t.healthy_percent, 1),
            "writable after healing s": _rounded(t.writable_seconds_max),
            "control total": c.total,
            "control acked": c.acked,
            "control read": c.read,
            "control lost": len(c.lost),
            "control lost found in divergent files": len(c.lost) - len(control.lost_silently),
            "original total": ORIGINAL.total,
            "original acked": ORIGINAL.acked,
            "original read": ORIGINAL.read,
            "original lost": ORIGINAL.lost,
        },
        faults={"leader cut off from brokers": 2, "leader cut off from brokers and controllers": 2},
        failures=[*failures(ours), *failures(control)],
        lost=len(t.lost),
        inconsistent=ours.verdict.bad.get(Kind.INCONSISTENT_OFFSETS, 0),
    )


def _rounded(seconds: float | None) -> float | str:
    return "never" if seconds is None else round(seconds, 2)
