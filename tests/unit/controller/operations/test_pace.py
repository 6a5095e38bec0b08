"""The pace of an operation as a whole, from samples of what is left."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from controller.core.planning.plan import Move
from controller.core.reassignment_progress import ReassignmentProgress, TargetProgress
from controller.database.rows import MoveRow
from controller.operations.model import (
    BrokerDrain,
    Execution,
    Fate,
    Reassignment,
    ReassignmentMove,
    Work,
    begun,
)
from controller.operations.pace import OperationPace, Sample, pace_of, sampled, watched, with_sample
from springtide.contract.epochs import PartitionEpoch

MIB = 2**20


def samples(*left: int, every_ms: int = 5_000, total: int = 100 * MIB) -> tuple[Sample, ...]:
    found: tuple[Sample, ...] = ()
    for number, bytes_left in enumerate(left):
        found = with_sample(found, Sample(number * every_ms, total - bytes_left, bytes_left))
    return found


class Executor:
    """Copies moves, eight at a time, over one network; each takes a while besides its bytes."""

    def __init__(self, sizes: list[int], *, bytes_per_s: int, move_s: float) -> None:
        self.waiting, self.current = list(sizes), list[list[float]]()
        self.bytes_per_s, self.move_s = bytes_per_s, move_s

    def left(self) -> tuple[int, int]:
        moves = len(self.waiting) + len(self.current)
        return int(sum(self.waiting) + sum(size for size, _ in self.current)), moves

    def step(self, seconds: float) -> None:
        while self.waiting and len(self.current) < 8:
            self.current.append([float(self.waiting.pop(0)), self.move_s])
        copying = [one for one in self.current if one[0] > 0]
        for one in copying:
            one[0] = max(0.0, one[0] - self.bytes_per_s * seconds / len(copying))
        for one in self.current:
            one[1] -= seconds
        self.current = [one for one in self.current if one[0] > 0 or one[1] > 0]


def looks_of(executor: Executor, rate_max: int | None = None) -> list[tuple[float, int | None]]:
    """Let it end; return what was told of the time left, each second."""
    looks, found, now_ms = list[tuple[float, int | None]](), tuple[Sample, ...](), 0
    total = executor.left()[0]
    while executor.left()[1]:
        if now_ms % 1_000 == 0:
            left_bytes, left_moves = executor.left()
            found = with_sample(found, Sample(now_ms, total - left_bytes, left_bytes, left_moves, rate_max))
            looks.append((now_ms, pace_of(found).eta_ms_p50))
        executor.step(0.05)
        now_ms += 50
    return [(now_ms - at_ms, told) for at_ms, told in looks]


@pytest.mark.parametrize("bytes_per_s", [50 * MIB, 110 * MIB])
@pytest.mark.parametrize("order", ["mixed", "small first", "large first"])
def test_the_time_left_is_within_a_factor_of_two_from_the_tenth_second_on(
    order: str, bytes_per_s: int
) -> None:
    """Three hundred partitions of up to a megabyte and forty large ones: by bytes alone an operation of nine
    minutes was said to take 3,163 hours."""
    random = Random(7)
    sizes = [random.randrange(1, MIB) for _ in range(300)] + [
        random.randrange(1, 2_048) * MIB for _ in range(40)
    ]
    if order == "mixed":
        random.shuffle(sizes)
    elif order == "large first":
        sizes.reverse()
    looks = looks_of(Executor(sizes, bytes_per_s=bytes_per_s, move_s=2.0))
    length_ms = looks[0][0]
    wrong = [
        (left_ms, told)
        for left_ms, told in looks
        if length_ms - left_ms >= 10_000 and left_ms > 5_000
        if told is None or not 0.5 <= told / left_ms <= 2
    ]
    assert wrong == []


@pytest.mark.parametrize("bytes_per_s", [600_000, 5_000_000])
def test_a_throttle_is_known_before_the_large_ones_have_begun(bytes_per_s: int) -> None:
    """Eight small moves and two large ones at a low rate: what was seen first were moves, not bytes."""
    sizes = [100_000] * 8 + [14 * bytes_per_s] * 2
    looks = looks_of(Executor(sizes, bytes_per_s=bytes_per_s, move_s=1.0), bytes_per_s)
    length_ms = looks[0][0]
    wrong = [
        (left_ms, told)
        for left_ms, told in looks
        if length_ms - left_ms >= 10_000 and left_ms > 5_000
        if told is None or not 0.5 <= told / left_ms <= 2
    ]
    assert length_ms > 25_000
    assert wrong == []


def test_the_receivers_limits_add_up_and_count_once_for_each_broker() -> None:
    def throttled(partition: int, broker_id: int, rate: int | None) -> ReassignmentProgress:
        found = on_its_way(partition, 300, 120)
        target = msgspec.structs.replace(found.targets[0], broker_id=broker_id, throttled_rate=rate)
        return msgspec.structs.replace(found, targets=(target,))

    work = drain(bytes_total=1_000)
    current = [row(n, 200, Fate.MOVING) for n in range(3)]
    live = {("t", 0): throttled(0, 3, 50), ("t", 1): throttled(1, 3, 50), ("t", 2): throttled(2, 4, 70)}
    sample = sampled(work, current, live, now_ms=7)
    assert sample is not None
    assert sample.rate_max == 120
    unbound = sampled(work, current, live | {("t", 2): throttled(2, 4, None)}, now_ms=7)
    assert unbound is not None
    assert unbound.rate_max is None


def test_nothing_is_told_before_some_seconds_were_watched() -> None:
    assert pace_of(()) == OperationPace()
    assert pace_of(samples(100 * MIB)) == OperationPace()
    assert pace_of(samples(100 * MIB, 90 * MIB, every_ms=2_999)) == OperationPace()


def test_the_time_left_is_what_is_left_over_the_speed_of_the_whole_operation() -> None:
    soon = pace_of(samples(100 * MIB, 90 * MIB))
    assert soon == OperationPace(rate=2 * MIB, eta_ms_p50=45_000, eta_ms_p90=None)
    steady = pace_of(samples(100 * MIB, 90 * MIB, 80 * MIB, 70 * MIB))
    assert steady == OperationPace(rate=2 * MIB, eta_ms_p50=35_000, eta_ms_p90=35_000)
    uneven = pace_of(samples(100 * MIB, 95 * MIB, 75 * MIB, 70 * MIB))
    assert uneven == OperationPace(rate=2 * MIB, eta_ms_p50=35_000, eta_ms_p90=70_000)


def test_an_operation_that_does_not_get_on_has_no_end_in_sight() -> None:
    assert pace_of(samples(*[MIB] * 4)) == OperationPace(rate=0, eta_ms_p50=None, eta_ms_p90=None)
    assert pace_of(samples(2 * MIB, 2 * MIB, 2 * MIB, MIB)).eta_ms_p90 is None, "it stood still for long"
    growing = pace_of((Sample(0, 0, MIB), Sample(5_000, 5 * MIB, 2 * MIB)))
    assert growing == OperationPace(rate=MIB), "producers write more than is copied"


def test_with_nothing_left_it_is_there() -> None:
    assert pace_of(samples(10 * MIB, 0)) == OperationPace(rate=2 * MIB, eta_ms_p50=0)


def test_the_samples_are_of_the_last_minute_and_the_newest_is_among_them() -> None:
    found = samples(*range(1_000, 0, -1), every_ms=200)
    assert len(found) == 13
    assert found[-1].at_ms == 999 * 200
    assert 55_000 <= found[-1].at_ms - found[0].at_ms <= 65_000


def move(partition: int, planned: int) -> Move:
    return Move(
        topic_id="t",
        topic="orders",
        partition=partition,
        partition_epoch=PartitionEpoch(1),
        replicas_before=(1, 2),
        replicas_after=(3, 2),
        reasons=(),
        size_bytes=planned,
        bytes=planned,
    )


def row(partition: int, planned: int, fate: Fate) -> MoveRow:
    return MoveRow(position=partition, move=move(partition, planned), fate=fate.value)


def on_its_way(partition: int, size: int, left: int | None, **more: Any) -> ReassignmentProgress:
    copied = None if left is None else size - left
    target = TargetProgress(
        broker_id=3, is_learner=True, in_sync=False, copied_bytes=copied, remaining_bytes=left
    )
    return ReassignmentProgress(
        topic_id="t",
        topic="orders",
        partition=partition,
        partition_epoch=PartitionEpoch(1),
        original_replicas=(1, 2),
        target_replicas=(3, 2),
        targets=(target,),
        size_bytes=size,
        **more,
    )


def drain(**fields: Any) -> Work:
    execution = Execution(plan_id="p", outcome="ready", moves_total=4, **fields)
    return msgspec.structs.replace(begun(BrokerDrain(broker_id=1), "move"), execution=execution)


def test_a_plan_has_left_what_has_not_begun_and_what_those_on_their_way_lack() -> None:
    work = drain(bytes_total=1_000, bytes_moved=100, bytes_dropped=50)
    current = [row(1, 200, Fate.MOVING), row(2, 200, Fate.MOVING), row(3, 200, Fate.STARTING)]
    # Partition 1 has grown since it was planned; of 2 there is no report yet.
    live = {("t", 1): on_its_way(1, 300, 120), ("t", 2): on_its_way(2, 200, None)}
    assert sampled(work, current, live, now_ms=7) == Sample(7, 100 + 180, 850 - 200 + 120, 4)
    assert sampled(work, [], {}, now_ms=8) == Sample(8, 100, 850, 4)


def test_a_plan_without_known_sizes_has_no_sample() -> None:
    assert sampled(drain(), [row(1, 0, Fate.MOVING)], {}, now_ms=7) is None
    assert sampled(drain(ended={Fate.MOVED: 4}), [], {}, now_ms=7) == Sample(7, 0, 0)


def test_a_reassignment_has_left_what_its_moves_lack() -> None:
    moves = tuple(
        ReassignmentMove(topic="orders", topic_id="t", partition=n, original=(1, 2), replicas=(3, 2))
        for n in range(2)
    )
    work = msgspec.structs.replace(begun(Reassignment(moves=moves)), fates=(Fate.MOVING, Fate.MOVED))
    assert sampled(work, (), {("t", 0): on_its_way(0, 300, 120)}, now_ms=7) == Sample(7, -120, 120, 1)
    assert sampled(work, (), {("t", 0): on_its_way(0, 300, None)}, now_ms=7) is None


def test_samples_belong_to_one_plan_at_one_rate() -> None:
    assert watched(drain(throttle_bytes_per_s=7), {}) == ("p", 7)
    moves = tuple(
        ReassignmentMove(topic="orders", topic_id="t", partition=n, original=(1, 2), replicas=(3, 2))
        for n in range(2)
    )
    work = begun(Reassignment(moves=moves))
    found = on_its_way(0, 300, 120)
    (target,) = found.targets
    slow = msgspec.structs.replace(found, targets=(msgspec.structs.replace(target, throttled_rate=5),))
    assert watched(work, {("t", 0): found}) == ("", None)
    assert watched(work, {("t", 0): found, ("t", 1): slow, ("t", 2): slow}) == ("", 5)


def test_what_has_no_data_to_move_has_no_pace() -> None:
    assert sampled(begun(BrokerDrain(broker_id=1), "mark"), (), {}, now_ms=7) is None


def test_a_learner_in_sync_has_all_bytes() -> None:
    found = on_its_way(0, 300, 120)
    joined = TargetProgress(broker_id=4, is_learner=True, in_sync=True)
    both = msgspec.structs.replace(found, targets=(*found.targets, joined))
    assert (both.copied_bytes, both.remaining_bytes) == (480, 120)
