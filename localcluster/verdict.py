"""Compares what was acknowledged with what can be read: the oracle of the demo and of the fault rounds. Pure.

A record is *lost* when its write was acknowledged and no reader finds it; *duplicated* when a value, each
of which was sent once, is found at two offsets; *misplaced* when it is found, but not where its
acknowledgement said (then some consumer has seen, or will see, two different records at one offset). A
value that was read without an acknowledgement is none of these: its answer was on the way when a process
died.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

EXAMPLES_MAX = 10
UNKNOWN_OFFSET = -1
"""Of an acknowledged record: the broker has found an old batch that was sent again, and tells no offset of
it."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class AcknowledgedWrite:
    """One delivery report that said yes. Times are seconds of one monotonic clock."""

    value: bytes
    place: RecordPlace
    produced_at: float
    """The moment at which the application handed the record to the producer."""
    acknowledged_at: float


@dataclass(frozen=True, slots=True)
class ReadRecord:
    value: bytes
    place: RecordPlace


@dataclass(frozen=True, slots=True)
class WriteVerdict:
    """The fate of the acknowledged writes. Counts are of values."""

    acknowledged: int
    read: int
    lost: tuple[AcknowledgedWrite, ...]
    duplicated: tuple[bytes, ...]
    misplaced: tuple[AcknowledgedWrite, ...]

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicated or self.misplaced)

    def describe(self) -> str:
        """One line, and a few examples of each kind of fault."""
        lines = [
            f"acknowledged {self.acknowledged}, read {self.read}, lost {len(self.lost)}, "
            f"duplicated {len(self.duplicated)}, misplaced {len(self.misplaced)}"
        ]
        lines += [f"  lost: {write.value[:40]!r} at {write.place}" for write in self.lost[:EXAMPLES_MAX]]
        lines += [f"  duplicated: {value[:40]!r}" for value in self.duplicated[:EXAMPLES_MAX]]
        lines += [
            f"  misplaced: {write.value[:40]!r}, not at {write.place}"
            for write in self.misplaced[:EXAMPLES_MAX]
        ]
        return "\n".join(lines)


def judge(acknowledged: Sequence[AcknowledgedWrite], read: Iterable[ReadRecord]) -> WriteVerdict:
    """Find every lost, duplicated and misplaced record. Values must be unique among all that were sent."""
    places: defaultdict[bytes, list[RecordPlace]] = defaultdict(list)
    records_read = 0
    for record in read:
        records_read += 1
        places[record.value].append(record.place)
    return WriteVerdict(
        acknowledged=len(acknowledged),
        read=records_read,
        lost=tuple(write for write in acknowledged if write.value not in places),
        duplicated=tuple(value for value, found in places.items() if len(found) > 1),
        misplaced=tuple(
            write
            for write in acknowledged
            if write.value in places
            and write.place.offset != UNKNOWN_OFFSET
            and write.place not in places[write.value]
        ),
    )


def seconds_to_next_write(acknowledged: Iterable[AcknowledgedWrite], *, after: float) -> dict[int, float]:
    """Return by partition the seconds from `after` to the first acknowledgement of a record produced since.

    Counting from the production leaves out acknowledgements that were already on their way. A partition
    that took no write since is absent.
    """
    first: dict[int, float] = {}
    for write in acknowledged:
        if write.produced_at >= after:
            partition, waited = write.place.partition, write.acknowledged_at - after
            first[partition] = min(waited, first.get(partition, waited))
    return first


def longest_silence(acknowledged: Iterable[AcknowledgedWrite], *, since: float, until: float) -> float:
    """The longest time within [since, until] in which some partition acknowledged nothing, in seconds."""
    times: defaultdict[int, list[float]] = defaultdict(list)
    for write in acknowledged:
        times[write.place.partition].append(write.acknowledged_at)
    longest = 0.0
    for of_one_partition in times.values():
        edges = [since, *sorted(at for at in of_one_partition if since < at < until), until]
        longest = max(longest, *(later - earlier for earlier, later in pairwise(edges)))
    return longest


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, to be shown under the timeline."""

    at: float
    text: str


BARS = "▁▂▃▄▅▆▇█"
NO_WRITES = "·"
BUCKET_MS, COLUMNS = 100, 80


def render_timeline(
    acknowledged_at: Iterable[float],
    *,
    since: float,
    until: float,
    marks: Sequence[Mark] = (),
) -> str:
    """Acknowledgements per bucket as a row of bars, a dot where there was none, and the marks below.

    Times are seconds of one clock; buckets count from `since`.
    """
    buckets = max(1, -int(-(until - since) * 1000 // BUCKET_MS))
    counts = [0] * buckets
    for at in acknowledged_at:
        index = int((at - since) * 1000 // BUCKET_MS)
        if 0 <= index < buckets:
            counts[index] += 1
    peak = max(counts)
    bars = "".join(
        BARS[min(len(BARS) - 1, count * len(BARS) // (peak + 1))] if count else NO_WRITES for count in counts
    )
    lines: list[str] = []
    for start in range(0, buckets, COLUMNS):
        lines.append(f"{start * BUCKET_MS / 1000:6.1f} s  {bars[start : start + COLUMNS]}")
        for mark in marks:
            column = int((mark.at - since) * 1000 // BUCKET_MS) - start
            if 0 <= column < COLUMNS:
                lines.append(f"{'':10}{'':{column}}^ {mark.text}")
    lines.append(f"{'':10}one column = {BUCKET_MS} ms, highest = {peak} acknowledgements, {NO_WRITES} = none")
    return "\n".join(lines)
