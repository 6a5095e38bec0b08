"""What became of each integer, from the history and from what the controller showed meanwhile. Pure.

Three numbers are those of 2013: acknowledged, read back, lost. The others say why: what the isolated leader
acknowledged although nobody followed it, how it refused otherwise, how the healthy partitions fared, and how
soon after the network was whole all partitions took writes again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.checker.history import NO_OFFSET, Function, Operation, Outcome
from tests.faults.jepsen2013.schedule import PARTITIONS, integer_of, is_writer

_NUMBER = re.compile(r"[^/]+/[^/]+/(\d+)@")


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the controller said at a time: each partition's leader and ISR."""

    at_ns: int
    leaders: tuple[int | None, ...]
    isr: tuple[frozenset[int], ...]

    def led_by(self, broker: int) -> frozenset[int]:
        return frozenset(partition for partition, leader in enumerate(self.leaders) if leader == broker)


@dataclass(frozen=True, slots=True)
class Course:
    """What was done to the network, by the history's clock. victim_led: at the first cut."""

    victim: int
    victim_led: frozenset[int]
    started_ns: int
    first_cut_ns: int
    second_cut_ns: int
    healed_ns: int
    seen: Sequence[Sighting]

    @property
    def alone_ns(self) -> int | None:
        """When the ISR of a partition of its own was first seen to be the victim alone."""
        for seen in self.seen:
            if any(seen.isr[partition] == {self.victim} for partition in seen.led_by(self.victim)):
                return seen.at_ns
        return None

    def last_led_ns(self, partition: int) -> int:
        """When the victim was last seen to lead this partition before the network was whole again."""
        times = (
            seen.at_ns
            for seen in self.seen
            if seen.at_ns <= self.healed_ns and seen.leaders[partition] == self.victim
        )
        return max(times, default=self.first_cut_ns)

    @property
    def seconds_to_new_leaders(self) -> float:
        """From the second cut until the victim was last seen to lead something."""
        last = max((self.last_led_ns(partition) for partition in self.victim_led), default=self.first_cut_ns)
        return max(0.0, (last - self.second_cut_ns) / 1e9)


@dataclass(frozen=True, slots=True, order=True)
class Write:
    """An acknowledged integer and where it was said to be."""

    integer: int
    partition: int
    offset: int
    value: str

    def __str__(self) -> str:
        return f"{self.integer} at offset {self.offset} of partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Tally:
    """total, acked, read, lost: of integers, as Jepsen counts them. read: of whatever was sent, acknowledged
    or not.

    alone: acknowledged by the victim although it had no follower any more.
    refused: how the victim's partitions answered from the first cut until they had another leader, by the
        client's error.
    outlasted: sends of that time that were acknowledged after all, by the next leader.
    healthy_*: of the partitions that the victim did not lead at the first cut, over the whole run.
    writable_seconds: by partition, from the healing to the first acknowledgement of a send that began since;
        None: there was none.
    twice: integers that were read at several offsets.
    """

    total: int
    acked: int
    read: int
    lost: tuple[Write, ...]
    alone: tuple[Write, ...]
    refused: Mapping[str, int]
    outlasted: int
    healthy_total: int
    healthy_acked: int
    writable_seconds: Mapping[int, float | None]
    twice: int

    @property
    def healthy_percent(self) -> float:
        return 100.0 * self.healthy_acked / self.healthy_total if self.healthy_total else 0.0

    @property
    def writable_seconds_max(self) -> float | None:
        """Of the slowest partition; None when one took no write any more."""
        known = [seconds for seconds in self.writable_seconds.values() if seconds is not None]
        return max(known) if len(known) == len(self.writable_seconds) and known else None


def integer_in(operation: Operation) -> int:
    """Which integer a writer's send carried."""
    matched = _NUMBER.match(operation.items[0][1])
    assert matched is not None, f"{operation.items[0][1]!r} is not of a writer"
    return integer_of(operation.process, int(matched[1]))


def tally(operations: Iterable[Operation], course: Course) -> Tally:
    """Counts; the final read must be among the operations."""
    operations = list(operations)
    sends = [operation for operation in operations if operation.f is Function.SEND]
    written = [operation for operation in sends if is_writer(operation.process)]
    sent = {operation.items[0][1] for operation in written}
    places: Counter[str] = Counter()
    for operation in operations:
        if operation.f is Function.POLL and operation.final:
            places.update(value for _, value in operation.items if value in sent)
    acked = [_write(operation) for operation in written if operation.type is Outcome.OK]
    healthy = [operation for operation in written if _partition(operation) not in course.victim_led]
    isolated = [operation for operation in written if _is_isolated(operation, course)]
    refused = Counter(o.error or "no answer" for o in isolated if o.type is not Outcome.OK)
    alone = [
        _write(operation)
        for operation in isolated
        if operation.type is Outcome.OK and operation.t_return_ns <= course.last_led_ns(_partition(operation))
    ]
    return Tally(
        total=len(written),
        acked=len(acked),
        read=len(places),
        lost=tuple(sorted(write for write in acked if write.value not in places)),
        alone=tuple(sorted(alone)),
        refused=dict(sorted(refused.items())),
        outlasted=len(isolated) - len(alone) - refused.total(),
        healthy_total=len(healthy),
        healthy_acked=sum(operation.type is Outcome.OK for operation in healthy),
        writable_seconds={
            partition: _seconds_to_next_write(sends, partition, course.healed_ns)
            for partition in range(PARTITIONS)
        },
        twice=sum(count > 1 for count in places.values()),
    )


def _partition(operation: Operation) -> int:
    assert operation.key is not None
    return operation.key[1]


def _write(operation: Operation) -> Write:
    ((offset, value),) = operation.items
    assert offset != NO_OFFSET, "an acknowledgement of acks=all has an offset"
    return Write(integer_in(operation), _partition(operation), offset, value)


def _is_isolated(operation: Operation, course: Course) -> bool:
    """A send that began after the victim had lost its followers and before it was last seen to lead.

    Packets are dropped from the moment of the cut on, so nothing that was sent later can have been copied.
    """
    partition = _partition(operation)
    return (
        partition in course.victim_led
        and course.first_cut_ns <= operation.t_invoke_ns <= course.last_led_ns(partition)
    )


def _seconds_to_next_write(sends: Iterable[Operation], partition: int, healed_ns: int) -> float | None:
    answered = [
        operation.t_return_ns
        for operation in sends
        if operation.type is Outcome.OK
        and operation.t_invoke_ns >= healed_ns
        and _partition(operation) == partition
    ]
    return (min(answered) - healed_ns) / 1e9 if answered else None
