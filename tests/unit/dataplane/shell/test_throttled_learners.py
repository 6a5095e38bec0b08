"""A follower that is being added copies at its rate; one that is in sync knows nothing of rates."""

from __future__ import annotations

import trio

from dataplane.core.learner_turns import LearnerTurns
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import MoveThrottle, PartitionState
from springtide.contract.throttles import FOLLOWER_RATE
from springtide.contract.updates import BrokerEndpoint
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import FetchedPartition
from tests.kit.dataplane.fetching import Bench, following, on_a_follower
from tests.kit.dataplane.fetching import data as answered
from tests.kit.dataplane.node import OTHER_ID, TOPIC_ID, batch_of, endpoint, state

RATE = 2_000
THROTTLE = MoveThrottle(rate=RATE, operation="m")


def learning(
    *,
    topic_id: str = TOPIC_ID,
    throttle: MoveThrottle | None = THROTTLE,
    isr: tuple[int, ...] = (2, 3),
    epoch: int = 1,
    leader: int = 2,
    leader_epoch: int = 1,
) -> PartitionState:
    """Broker 1 is being added."""
    return state(
        topic_id=topic_id,
        topic="orders" if topic_id == TOPIC_ID else "other",
        replicas=(2, 1, 3),
        adding_replicas=(1,),
        removing_replicas=(3,),
        original_replicas=(2, 3),
        new_replicas=(),
        throttle=throttle,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=epoch,
    )


def brokers(**configs: str) -> tuple[BrokerEndpoint, ...]:
    me = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(10), host="h", port=9092, configs=configs)
    return (me, endpoint(2, port=9002), endpoint(3, port=9003))


def bytes_of(end_offset: int, size: int) -> bytes:
    return batch_of(1, size=size, base_offset=end_offset, leader_epoch=1)


def data(records: bytes = b"", *, topic_id: str = TOPIC_ID, high_watermark: int = 10**6) -> FetchedPartition:
    """What a leader sends that has committed much more, unless said otherwise."""
    return answered(records, topic_id=topic_id, high_watermark=high_watermark)


async def pass_ms(ms: int) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    for _ in range(0, ms, 50):
        clock.jump(0.05)
        await trio.testing.wait_all_tasks_blocked()


def test_a_learner_asks_for_what_it_may_have_and_waits_for_what_it_owes() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        end = bench.end(9002)
        assert end.requests[0].partitions[0].max_bytes == RATE, "a second's worth"
        batch = bytes_of(0, 5_000)
        await end.answer(data(batch))  # KIP-74: a batch of any size
        assert bench.node.log().log_end_offset == 1
        assert bench.node.counters.reassignment_bytes_in == len(batch)
        owed_ms = 1_000 * (len(batch) - RATE) // RATE
        await pass_ms(owed_ms)
        assert len(end.requests) == 1, "it owes"
        assert not end.is_closed, "and keeps its connection"
        await pass_ms(1_200)
        assert len(end.requests) == 2
        assert end.mentioned() == {TOPIC_ID: 1}
        assert 0 < end.requests[1].partitions[0].max_bytes <= RATE
        await pass_ms(1_000)
        await end.answer(data(bytes_of(1, 100)))
        assert len(end.requests) == 3, "what it did not use is not lost"
        await end.answer(data(bytes_of(2, 5_000)))
        assert len(end.requests) == 3
        await pass_ms(5_000)
        assert end.mentioned() == {TOPIC_ID: 3}

    on_a_follower(test)


def test_one_that_is_in_sync_goes_on_while_a_learner_waits() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        await end.answer(data(bytes_of(0, 9_000)), data(topic_id=OTHER_ID))
        for offset in range(5):
            assert end.mentioned().get(OTHER_ID, offset) == offset
            assert end.requests[-1].partitions == [] or TOPIC_ID not in end.mentioned()
            await end.answer(data(bytes_of(offset, 500_000), topic_id=OTHER_ID))
        assert bench.node.log(OTHER_ID).log_end_offset == 5
        assert end.mentioned() == {OTHER_ID: 5}
        assert end.requests[-1].partitions[0].max_bytes == 1024 * 1024
        await pass_ms(5_000)
        await end.answer(data(topic_id=OTHER_ID))
        assert end.mentioned()[TOPIC_ID] == 1, "its turn has come"

    on_a_follower(test)


def test_a_learner_that_joins_the_isr_is_bounded_no_longer_from_that_moment() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        end = bench.end(9002)
        await end.answer(data(bytes_of(0, 100_000)))
        assert len(end.requests) == 1
        await bench.apply(learning(isr=(2, 3, 1), epoch=2))
        assert end.mentioned() == {TOPIC_ID: 1}
        assert end.requests[-1].partitions[0].max_bytes == 1024 * 1024
        assert len(bench.fetchers.turns.throttle) == 0
        for offset in range(1, 4):
            await end.answer(data(bytes_of(offset, 100_000)))
        assert bench.node.log().log_end_offset == 4

    on_a_follower(test)


def test_a_learner_that_reached_the_high_watermark_is_bounded_no_longer_in_that_epoch() -> None:
    """Its leader may count it in the maximal ISR from its next fetch on, and producers wait for it."""

    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        end = bench.end(9002)
        await end.answer(data(bytes_of(0, 10_000), high_watermark=2))
        assert len(end.requests) == 1
        await pass_ms(6_000)
        await end.answer(data(bytes_of(1, 10_000), high_watermark=2))
        for offset in range(2, 6):
            assert end.mentioned() == {TOPIC_ID: offset}
            assert end.requests[-1].partitions[0].max_bytes == 1024 * 1024
            await end.answer(data(bytes_of(offset, 10_000)))
        await bench.apply(learning(epoch=2))
        assert len(bench.fetchers.turns.throttle) == 0, "the same leader epoch"
        assert bench.node.counters.reassignment_bytes_in > 60_000, "but it is a learner's traffic still"
        await bench.apply(learning(epoch=3, leader=3, leader_epoch=2))
        assert len(bench.fetchers.turns.throttle) == 1, "the next leader has promised nothing"

    on_a_follower(test)


def test_an_answer_that_proves_nothing_lifts_nothing() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        await bench.end(9002).answer(answered(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, high_watermark=-1))
        assert len(bench.fetchers.turns.throttle) == 1
        await bench.apply(learning(epoch=2))
        await pass_ms(1_000)
        await bench.end(9002).answer(answered(error=ErrorCode.UNKNOWN_SERVER_ERROR))
        assert len(bench.fetchers.turns.throttle) == 1

    on_a_follower(test)


def test_a_lifted_rate_and_another_rate_count_at_once() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(throttle=MoveThrottle(rate=1, operation="m")), full=True)
        end = bench.end(9002)
        await end.answer(data(bytes_of(0, 10_000)))
        assert len(end.requests) == 1
        await bench.apply(learning(throttle=None, epoch=2))
        assert end.mentioned() == {TOPIC_ID: 1}
        assert end.requests[-1].partitions[0].max_bytes == 1024 * 1024

    on_a_follower(test)


def test_the_brokers_own_rate_bounds_all_its_learners_together() -> None:
    async def test(bench: Bench) -> None:
        learners = (learning(throttle=None), learning(topic_id=OTHER_ID, throttle=None))
        await bench.node.apply(*learners, full=True, brokers=brokers(**{FOLLOWER_RATE: str(RATE)}))
        await trio.testing.wait_all_tasks_blocked()
        end = bench.end(9002)
        assert end.mentioned() == {TOPIC_ID: 0}, "the first has all there is"
        await end.answer(data(bytes_of(0, 100)))
        await pass_ms(400)
        await bench.node.apply(full=False, brokers=brokers())  # the operator lifts it
        await trio.testing.wait_all_tasks_blocked()
        await end.answer(data(topic_id=OTHER_ID), data())
        assert bench.fetchers.turns.throttle.waiting == 0
        assert end.requests[-1].session_epoch > 1

    on_a_follower(test)


def test_a_learner_whose_leader_is_lost_asks_again_within_its_grant() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        bench.end(9002).close()
        assert bench.end(9002).on_ready is not None
        bench.end(9002)._incoming.clear()
        bench.fetchers._following.leaders[2]._close_channel()
        await pass_ms(1_000)
        assert len(bench.net.ends) == 2
        assert bench.end(9002).requests[0].partitions[0].max_bytes <= RATE

    on_a_follower(test)


def test_a_move_that_is_cancelled_ends_the_waiting() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(learning(), full=True)
        await bench.end(9002).answer(data(bytes_of(0, 100_000)))
        assert bench.fetchers.turns.throttle.waiting == 1
        await bench.apply(
            state(replicas=(2, 3), isr=(2, 3), new_replicas=(), leader=2, leader_epoch=2, partition_epoch=2)
        )
        assert (len(bench.fetchers.turns.throttle), len(bench.node.table)) == (0, 0)
        assert bench.end(9002).is_closed, "there is nothing left to ask for"

    on_a_follower(test)


def test_who_is_in_sync_never_meets_the_throttle() -> None:
    """The fetch loop of an in-sync replica: one look at `is_learner` for each answered partition."""

    async def test(bench: Bench) -> None:
        await bench.node.apply(following(), full=True, brokers=brokers(**{FOLLOWER_RATE: "1"}))
        await trio.testing.wait_all_tasks_blocked()
        end = bench.end(9002)

        class Untouchable(LearnerTurns):
            def __getattribute__(self, name: str) -> object:
                raise AssertionError(f"an in-sync replica's fetch asked the throttle for {name}")

        fetcher = bench.fetchers._following.leaders[2]
        real, fetcher._turns = fetcher._turns, object.__new__(Untouchable)
        for offset in range(20):
            await end.answer(data(bytes_of(offset, 50_000), high_watermark=offset))
        fetcher._turns = real
        assert bench.node.log().log_end_offset == 20
        assert bench.node.counters.replication_bytes_in > 1_000_000
        assert bench.node.counters.reassignment_bytes_in == 0

    on_a_follower(test)
