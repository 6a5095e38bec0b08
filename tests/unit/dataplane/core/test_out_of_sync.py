"""Which partitions make a broker's `/readyz?in-sync` red, and for how long."""

from __future__ import annotations

from typing import Any

from dataplane.core.out_of_sync import OutOfSync, own_ids
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.session import worker_id
from springtide.contract.updates import UpdateBatch
from tests.kit.dataplane.replica import partition_state

BROKER = 3
BOUND_MS = 600_000


def state(partition: int = 0, **changes: Any) -> PartitionState:
    return partition_state(**{"topic_id": "t", "partition": partition, "replicas": (1, 2, 3), **changes})


def told(*batches: UpdateBatch, own: int | None = None) -> OutOfSync:
    """Batches that came a second apart, from 1,000 ms on."""
    seats = OutOfSync(own_ids(BROKER, own))
    for number, batch in enumerate(batches, 1):
        seats.apply(batch, now_ms=1_000 * number)
    return seats


def full(*partitions: PartitionState) -> UpdateBatch:
    return UpdateBatch(full=True, partitions=partitions)


def delta(*partitions: PartitionState) -> UpdateBatch:
    return UpdateBatch(partitions=partitions)


def is_green(seats: OutOfSync, *, now_ms: int = 2_000, is_current: bool = True) -> bool:
    return seats.verdict(now_ms=now_ms, is_current=is_current, red_ms_max=BOUND_MS)[0]


MISSING = state(isr=(1, 2))
BACK = state(isr=(1, 2, 3))


def test_it_is_red_while_one_isr_lacks_this_broker() -> None:
    assert is_green(told(full(BACK)))
    assert not is_green(told(full(BACK, state(1, isr=(1, 2)))))
    assert not is_green(told(full(BACK), delta(MISSING)))
    assert is_green(told(full(MISSING), delta(BACK)))
    assert not is_green(told(full(MISSING, state(1, isr=(1, 2))), delta(BACK)))
    assert is_green(told(full(state(isr=(2, 3)))))  # another broker's trouble is not this one's


def test_a_learner_and_a_replica_that_goes_do_not_count() -> None:
    moving: dict[str, Any] = {
        "replicas": (1, 3, 2),
        "adding_replicas": (3,),
        "removing_replicas": (2,),
        "isr": (1,),
    }
    assert is_green(told(full(state(**moving))))
    assert not is_green(told(full(state(**{**moving, "adding_replicas": ()}))))
    assert is_green(told(full(state(**{**moving, "adding_replicas": (2,), "removing_replicas": (3,)}))))


def test_a_partition_that_is_deleted_or_not_told_any_more_does_not_count() -> None:
    assert is_green(told(full(MISSING), UpdateBatch(deleted_topics=("t",))))
    assert is_green(told(full(MISSING), UpdateBatch(kept_topics=("t",))))  # deleted, its logs are kept
    dying = TopicState(topic_id="t", topic="orders", partitions=1, replication_factor=3, deleting=True)
    assert is_green(told(full(MISSING), UpdateBatch(topics=(dying,))))
    assert is_green(told(UpdateBatch(full=True, partitions=(MISSING,), topics=(dying,))))
    assert is_green(told(full(MISSING), full()))
    assert not is_green(told(full(MISSING), UpdateBatch(deleted_topics=("another",))))


def test_it_counts_for_a_bounded_time_from_when_the_broker_fell_behind() -> None:
    seats = told(full(BACK), delta(MISSING), delta(state(1, isr=(1,))))
    red = seats.verdict(now_ms=2_000 + BOUND_MS - 1, is_current=True, red_ms_max=BOUND_MS)
    assert red == (False, "out of sync in 2 partitions for 599 s")
    green = seats.verdict(now_ms=2_000 + BOUND_MS, is_current=True, red_ms_max=BOUND_MS)
    assert green == (
        True,
        "out of sync in 2 partitions for 600 s, and this answer is red for 600 s at most",
    )
    assert is_green(seats, now_ms=2_000 + BOUND_MS)
    seats.apply(delta(BACK, state(1, isr=(1, 2, 3))), now_ms=700_000)
    assert seats.verdict(now_ms=700_000, is_current=True, red_ms_max=0) == (True, "in sync")
    seats.apply(delta(MISSING), now_ms=701_000)
    assert not is_green(seats, now_ms=702_000)  # it counts anew


def test_a_new_session_does_not_begin_the_time_anew() -> None:
    assert is_green(told(full(MISSING), full(MISSING)), now_ms=1_000 + BOUND_MS)


def test_what_may_be_old_is_red_without_a_bound() -> None:
    assert not is_green(told(full(BACK)), is_current=False)
    assert not is_green(told(full(MISSING)), now_ms=10 * BOUND_MS, is_current=False)


def test_a_worker_answers_for_the_whole_broker() -> None:
    of_another_worker = state(replicas=(1, worker_id(BROKER, 2)), isr=(1,))
    assert is_green(told(full(of_another_worker)))
    assert not is_green(told(full(of_another_worker), own=BROKER))
    for other in (2, 4):
        assert is_green(told(full(state(replicas=(1, worker_id(other, 2)), isr=(1,))), own=BROKER))
