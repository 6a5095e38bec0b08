"""What a follower sends its leaders, and what becomes of their answers: frames in, frames out."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.fetching import (
    Bench,
    data,
    following,
    on_a_follower,
)
from tests.kit.dataplane.node import (
    OTHER_ID,
    TOPIC_ID,
    batch_of,
)


def test_what_a_leader_sends_is_appended_and_the_next_request_says_so() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        first = end.requests[0]
        assert (first.replica_id, first.broker_epoch, first.session_epoch) == (1, 5, 0)
        assert end.mentioned() == {TOPIC_ID: 0}
        await end.answer(data(batch_of(3, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 3
        assert (end.requests[1].session_id, end.requests[1].session_epoch) == (77, 1)
        assert end.mentioned() == {TOPIC_ID: 3}
        await end.answer(data(high_watermark=3))
        assert bench.node.hosted().replica.high_watermark == 3

    on_a_follower(test)


def test_a_new_leader_gets_the_partition_and_the_old_one_is_told_that_it_is_gone() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        old = bench.end(9002)
        assert old.mentioned() == {TOPIC_ID: 0, OTHER_ID: 0}
        await old.answer(data(), data(topic_id=OTHER_ID))
        await bench.apply(following(leader=3, epoch=2))
        assert bench.end(9003).mentioned() == {TOPIC_ID: 0}
        assert bench.end(9003).requests[-1].partitions[0].leader_epoch == 2
        # Its long poll is answered at last, for both: what it says of the one that left counts no more.
        await old.answer(
            data(batch_of(1, leader_epoch=1)), data(batch_of(1, leader_epoch=1), topic_id=OTHER_ID)
        )
        assert bench.node.log().log_end_offset == 0
        assert bench.node.log(OTHER_ID).log_end_offset == 1
        assert old.forgotten() == [TOPIC_ID]
        assert old.mentioned() == {OTHER_ID: 1}

    on_a_follower(test)


def test_l6_an_erring_partition_rests_and_comes_back_and_the_others_go_on() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        await end.answer(
            data(error=ErrorCode.UNKNOWN_TOPIC_ID),
            data(batch_of(1, leader_epoch=1), topic_id=OTHER_ID),
        )
        assert end.forgotten() == [TOPIC_ID]
        assert end.mentioned() == {OTHER_ID: 1}
        await _later(0.3)
        assert end.requests[-1].session_epoch == -1, "it does not wait for the others' long poll"
        await end.answer(data(topic_id=OTHER_ID), request=1)
        assert end.mentioned() == {TOPIC_ID: 0}
        await end.answer(request=2, session_id=0)
        await end.answer(data(batch_of(2, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 2

    on_a_follower(test)


def test_an_erring_partition_rests_for_a_moment_and_for_longer_with_each_further_error() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)

        async def rest_s() -> float:
            """Answer with an error; return for how long the leader is not asked again, from 5 ms on."""
            asked = len(bench.net.ends)
            await bench.net.ends[-1].answer(data(error=ErrorCode.UNKNOWN_LEADER_EPOCH))
            rested_s = 0.0
            while len(bench.net.ends) == asked:
                await _later(0.005)
                rested_s += 0.005
            return rested_s

        rests = [await rest_s() for _ in range(6)]
        for rest, expected in zip(rests, (0.025, 0.05, 0.1, 0.2, 0.2, 0.2), strict=True):
            assert 0.7 * expected <= rest <= 1.3 * expected + 0.005
        await bench.net.ends[-1].answer(data())
        assert await rest_s() <= 0.04, "a good answer ends the series"

    on_a_follower(test)


async def _later(seconds: float) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.jump(seconds)
    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        pytest.param(9_999, id="of a later release"),
    ],
)
def test_a_lost_session_is_begun_again_in_full(error: int) -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        await end.answer(data(batch_of(2, leader_epoch=1)), data(topic_id=OTHER_ID))
        await end.answer(session_id=0, error=error)
        assert end.requests[-1].session_epoch == 0
        assert end.mentioned() == {TOPIC_ID: 2, OTHER_ID: 0}

    on_a_follower(test)


def test_a_partition_that_joins_hurries_the_leader_and_the_session_goes_on() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        await end.answer(data())
        await bench.apply(following(topic_id=OTHER_ID))
        await bench.apply(following(topic_id=OTHER_ID, epoch=2))
        assert [request.session_epoch for request in end.requests] == [0, 1, -1], "hurried once"
        hurry = end.requests[2]
        assert (hurry.replica_id, hurry.session_id, hurry.partitions, hurry.max_wait_ms) == (1, 0, [], 0)
        await end.answer(request=1)
        assert end.requests[3].session_epoch == 2
        assert end.mentioned() == {OTHER_ID: 0}, "and nothing that the session knows"
        await end.answer(request=2, session_id=0)
        assert len(end.requests) == 4, "the answer of the hurry is no answer of the session"
        await end.answer(data(batch_of(1, leader_epoch=2), topic_id=OTHER_ID))
        assert end.mentioned() == {OTHER_ID: 1}
        assert bench.net.ends == [end]

    on_a_follower(test)


def test_i14_what_a_hurried_leader_says_of_an_earlier_leader_epoch_does_not_count() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        await end.answer(data())
        await bench.apply(following(epoch=2))
        await end.answer(data(batch_of(3, leader_epoch=1), high_watermark=3), request=1)
        assert bench.node.log().log_end_offset == 0
        assert end.mentioned() == {TOPIC_ID: 0}
        assert end.requests[-1].partitions[0].leader_epoch == 2
        await end.answer(data(batch_of(3, leader_epoch=2)))
        assert bench.node.log().log_end_offset == 3

    on_a_follower(test)


def test_a_leader_that_was_hurried_in_vain_is_asked_over_another_connection() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        first = bench.end(9002)
        await first.answer(data())
        await bench.apply(following(topic_id=OTHER_ID))
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert not first.is_closed
        clock.jump(2.0)
        await trio.testing.wait_all_tasks_blocked()
        second = bench.end(9002)
        assert second is not first and first.is_closed
        assert second.requests[-1].session_epoch == 0
        assert second.mentioned() == {TOPIC_ID: 0, OTHER_ID: 0}

    on_a_follower(test)


def test_more_partitions_than_one_request_mentions_come_one_request_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dataplane.core.fetch_session.MENTIONED_MAX", 1)

    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        assert (end.mentioned(), end.requests[-1].max_wait_ms) == ({TOPIC_ID: 0}, 0)
        await end.answer(data())
        assert (end.mentioned(), end.requests[-1].max_wait_ms) == (
            {OTHER_ID: 0},
            bench.node.config.number("replica.fetch.wait.max.ms"),
        )

    on_a_follower(test)


def test_a_leader_that_refuses_is_asked_again_and_again_until_it_is_there() -> None:
    async def test(bench: Bench) -> None:
        bench.net.refusing = (9002,)
        await bench.apply(following(), full=True)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for _ in range(10):
            clock.jump(1.0)
            await trio.testing.wait_all_tasks_blocked()
        assert bench.net.ends == []
        bench.net.refusing = ()
        clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.end(9002).mentioned() == {TOPIC_ID: 0}

    on_a_follower(test)


def test_without_room_a_leader_is_asked_for_no_bytes_and_with_room_for_records_again() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        await end.answer(data(batch_of(2, leader_epoch=1)))
        room = bench.node.log().room
        for free_bytes, is_asking in ((999, False), (2_000, True)):
            room.on_look(free_bytes=free_bytes, reserve_bytes=1_000)
            bench.fetchers.on_room_changed()
            await end.answer(data(high_watermark=2), request=-2)  # the last one hurries the leader
            assert end.mentioned() == {TOPIC_ID: 2}
            assert (end.requests[-1].partitions[0].max_bytes > 0) is is_asking
        assert bench.node.log().log_end_offset == 2

    on_a_follower(test)


def test_a_batch_with_a_wrong_crc_is_not_appended_and_fetched_again() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        broken = bytearray(batch_of(1, leader_epoch=1))
        broken[-1] ^= 1
        await end.answer(data(bytes(broken)))
        assert bench.node.log().log_end_offset == 0
        assert end.is_closed  # nothing else is fetched there, and this partition rests
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(0.3)
        await trio.testing.wait_all_tasks_blocked()
        await bench.end(9002).answer(data(batch_of(1, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 1

    on_a_follower(test)


def test_an_answer_to_a_question_that_was_not_asked_ends_the_connection() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        end._correlation_ids[-1] += 5
        await end.answer(data(batch_of(1, leader_epoch=1)))
        assert end.is_closed
        assert bench.node.log().log_end_offset == 0

    on_a_follower(test)
