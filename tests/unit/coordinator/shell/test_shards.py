"""Coordinators' shards over the wire, in virtual time: from being given to serving, and each way on."""

from __future__ import annotations

import pytest
import trio

from coordinator.shell import shard_host
from springtide.contract.partition_state import WRITER_IDS, WriterId
from springtide.contract.updates import UpdateBatch
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.coordinator.counter import (
    OF_A_LATER_RELEASE,
    AwaitNothing,
    Counted,
    CounterMachine,
    News,
    ReadCounter,
)
from tests.kit.coordinator.shard_world import TOPIC_ID, CoordinatorShell, ShardWorld, in_shard_world

ONE, OTHER = 1001, 1002


async def serving(world: ShardWorld) -> CoordinatorShell:
    """Coordinator ONE serves all shards."""
    one = await world.start_coordinator(ONE)
    world.assign(ONE)
    for shard in range(world.count):
        await one.opened(shard)
    return one


async def counted(shell: CoordinatorShell, shard: int = 0, number: int = 1) -> object:
    return await shell.answer(shell.increment(shard, number))


def test_a_shard_that_is_given_is_opened_and_answers_what_is_committed() -> None:
    async def story(world: ShardWorld) -> None:
        one = await world.start_coordinator(ONE)
        assert one.answers[one.increment(0)] is ErrorCode.NOT_COORDINATOR
        assert (one.shards.owned(), one.shards.level()) == ([], ())
        world.assign(ONE)
        assert one.shards.owned() == [0]
        assert one.answers[one.increment(0)] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await one.opened(0)
        assert await counted(one) == Counted(1)
        assert await one.answer(one.submit(0, ReadCounter)) == Counted(1)
        assert world.asked == [], "its writer came with it"
        metrics = one.metrics()
        assert metrics["kafka_server_group_coordinator_metrics_num_partitions/active"] == 1
        assert metrics["springtide_shard_appends_total"] == 2
        assert metrics["springtide_shard_failed_appends_total"] == 0
        assert metrics["kafka_server_group_coordinator_metrics_partition_load_time_max"] > 0
        assert one.turns > 0, "answers leave"

    in_shard_world(story)


def test_many_shards_open_side_by_side_without_a_further_word_of_the_controller() -> None:
    async def story(world: ShardWorld) -> None:
        world.is_controller_down = True
        began_ms = world.world.now_ms
        await serving(world)
        assert world.world.now_ms - began_ms < 50
        assert world.asked == []

    in_shard_world(story, count=50)


def test_many_shards_that_have_to_ask_for_their_writers_open_side_by_side() -> None:
    async def story(world: ShardWorld) -> None:
        world.writer_rtt_ms = 20
        world.assign(ONE)  # before it is there, so that no writer is its own
        began_ms = world.world.now_ms
        await serving(world)
        took_ms = world.world.now_ms - began_ms
        assert len(world.asked) == 50
        assert took_ms < 50 * 20 / 5, "one after the other they would wait a second for the controller alone"

    in_shard_world(story, count=50)


def test_a_process_does_not_open_under_the_writer_of_the_process_before_it() -> None:
    async def story(world: ShardWorld) -> None:
        one = await world.start_coordinator(ONE)
        world.assign(ONE)
        await one.opened(0)
        one.kill()
        again = await world.start_coordinator(ONE)
        await again.opened(0)
        first = WriterId(WRITER_IDS.start + 2)
        assert world.asked == [(ONE, 0, first)]
        openings = [decode_header(made.batch) for made in world.produced]
        assert [header.producer_id for header in openings if header.base_sequence == 0] == [
            first.producer_id,
            first.producer_id + 1,
        ]

    in_shard_world(story)


def test_the_requests_of_a_turn_leave_in_one_batch() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        made = len(world.produced)
        numbers = [one.increment(0, number, ends_turn=False) for number in range(1, 4)]
        one.shards.send_written()
        assert [await one.answer(number) for number in numbers] == [Counted(n) for n in range(1, 4)]
        assert len(world.produced) == made + 1

    in_shard_world(story)


def test_a_batch_whose_leader_is_killed_is_sent_to_the_next_one_with_the_same_bytes() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        leader = world.states[0].leader
        world.brokers[leader].mute.add(0)
        number = one.increment(0)
        await trio.sleep(0.5)
        world.brokers[leader].kill()
        await trio.sleep(0.3)
        assert number not in one.answers
        world.elect(0, leader % 3 + 1)
        assert await one.answer(number) == Counted(1)
        attempts = [made for made in world.produced if decode_header(made.batch).base_sequence == 1]
        assert len({made.batch for made in attempts}) == 1
        assert {made.broker_id for made in attempts} == {leader, leader % 3 + 1}
        assert len(world.logs[0].batches) == 2, "written once"

    in_shard_world(story)


def test_a_batch_goes_to_the_new_leader_at_once_though_the_old_one_says_nothing() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        leader = world.states[0].leader
        world.brokers[leader].power_off()
        number = one.increment(0)
        await trio.sleep(1)
        assert number not in one.answers
        world.elect(0, leader % 3 + 1)
        with trio.fail_after(0.1):
            assert await one.answer(number) == Counted(1)

    in_shard_world(story)


def test_a_leader_that_is_silent_for_long_is_asked_again_over_another_connection() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        leader = world.brokers[world.states[0].leader]
        leader.mute.add(0)
        number = one.increment(0)
        await trio.sleep(6)
        leader.mute.clear()
        with trio.fail_after(3):
            assert await one.answer(number) == Counted(1)

    in_shard_world(story)


def test_an_append_whose_answer_is_lost_is_known_again() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        world.brokers[world.states[0].leader].lost_answers = 2
        assert await counted(one) == Counted(1)
        assert await counted(one, number=2) == Counted(2)
        assert len(world.logs[0].batches) == 3
        assert one.metrics()["springtide_shard_failed_appends_total"] == 2

    in_shard_world(story)


def test_a_definite_refusal_is_told_and_the_shard_goes_on() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        world.logs[0].error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert await counted(one) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await one.answer(one.submit(0, ReadCounter)) == Counted(0)
        world.logs[0].error = ErrorCode.NONE
        assert await counted(one) == Counted(1)

    in_shard_world(story)


def test_a_shard_whose_partition_is_stuck_holds_no_other() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        for broker in world.brokers.values():
            broker.mute.add(0)
        stuck = [one.increment(0, number) for number in range(1, 100)]
        for shard in range(1, 6):
            with trio.fail_after(0.1):
                assert await counted(one, shard) == Counted(1)
        assert not set(stuck) & set(one.answers)
        in_flight = {made.batch for made in world.produced if made.partition == 0}
        assert len(in_flight) <= 1 + 5, "the rest waits here"
        for broker in world.brokers.values():
            broker.mute.clear()
        assert [await one.answer(number) for number in stuck] == [Counted(n) for n in range(1, 100)]

    in_shard_world(story, count=6)


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_host, "REQUESTS_MAX", 3)

    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        parked = [one.submit(0, AwaitNothing) for _ in range(3)]
        assert one.answers[one.submit(0, ReadCounter)] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert one.metrics()["springtide_shard_requests_turned_away_total"] == 1
        world.assign(OTHER)
        assert [one.answers[number] for number in parked] == [ErrorCode.NOT_COORDINATOR] * 3

    in_shard_world(story)


def test_a_shard_that_is_taken_finishes_what_is_under_way_and_its_standby_follows_on() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        parked = one.submit(0, AwaitNothing)
        under_way = one.increment(0)
        await trio.sleep(0.5)
        (level,) = other.shards.level()
        assert (level.topic_id, level.partitions) == (TOPIC_ID, (0,))
        assert other.answers[other.increment(0)] is ErrorCode.NOT_COORDINATOR
        broker = world.brokers[world.states[0].leader]
        broker.mute.add(0)
        last = one.increment(0, 2)
        await trio.sleep(0.1)
        world.assign(OTHER, ONE)
        assert one.answers[parked] is ErrorCode.NOT_COORDINATOR
        assert one.answers[under_way] == Counted(1)
        broker.mute.clear()
        assert await one.answer(last) == Counted(2)
        await other.opened(0)
        assert await counted(other, number=3) == Counted(3)
        await trio.sleep(3)
        assert one.shards.level() == (level,), "the owner of before stands by"
        world.assign(ONE, OTHER)
        await one.opened(0)
        assert await counted(one, number=4) == Counted(4)

    in_shard_world(story)


def test_a_standby_that_is_level_takes_over_within_milliseconds() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        for number in range(1, 50):
            assert await counted(one, number=number) == Counted(number)
        await trio.sleep(0.3)
        one.kill()
        began_ms = world.world.now_ms
        world.assign(OTHER)
        await other.opened(0)
        assert world.world.now_ms - began_ms < 50, "its long poll was cut short"
        assert await counted(other, number=50) == Counted(50)

    in_shard_world(story)


def test_what_is_asked_of_a_standby_that_takes_over_is_answered_once_it_serves() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        assert await counted(one) == Counted(1)
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        await trio.sleep(0.3)
        leader = world.brokers[world.states[0].leader]
        leader.mute.add(0)
        began_ms = world.world.now_ms
        world.assign(OTHER, ONE)
        asked = other.increment(0, 2)
        await trio.sleep(0.06)
        leader.mute.clear()
        assert await other.answer(asked) == Counted(2), "at its first try"
        assert world.world.now_ms - began_ms < 60 + 20, "only the leader takes long"

    in_shard_world(story)


def test_a_standby_of_idle_shards_asks_seldom_over_one_connection_each() -> None:
    async def story(world: ShardWorld) -> None:
        await serving(world)
        await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        await trio.sleep(3)
        fetches = sum(broker.fetches for broker in world.brokers.values())
        connections = sum(broker.connections for broker in world.brokers.values())
        await trio.sleep(60)
        assert sum(broker.fetches for broker in world.brokers.values()) - fetches <= 10 * 60 / 2
        assert sum(broker.connections for broker in world.brokers.values()) == connections
        assert len(world.coordinators[ONE].machine.channels) == 10, "an owner's reads are over"

    in_shard_world(story, count=10)


def test_a_standby_of_a_busy_shard_reads_in_portions_and_stays_level() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        await trio.sleep(1)
        fetches = sum(broker.fetches for broker in world.brokers.values())
        for number in range(1, 1_000):
            await counted(one, number=number)
        assert sum(broker.fetches for broker in world.brokers.values()) - fetches < 100
        await trio.sleep(3)
        assert other.shards.level()
        assert other.metrics()["springtide_shard_replay_lag_max"] == 0
        assert other.metrics()["springtide_shards_followed"] == 1

    in_shard_world(story)


def test_a_standby_that_never_reached_a_leader_tells_no_lag() -> None:
    async def story(world: ShardWorld) -> None:
        await counted(await serving(world))
        leader = world.states[0].leader
        world.unseat(leader)
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        await trio.sleep(1)
        assert other.metrics()["springtide_shards_followed"] == 1
        assert "springtide_shard_replay_lag_max" not in other.metrics()
        world.elect(0, leader)
        await trio.sleep(3)
        assert other.metrics()["springtide_shard_replay_lag_max"] == 0

    in_shard_world(story)


def test_an_owner_that_does_not_know_that_it_was_replaced_is_fenced_and_serves_nobody() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        other = await world.start_coordinator(OTHER)
        del world.coordinators[ONE]  # it hears nothing any more
        world.assign(OTHER)
        await other.opened(0)
        assert await counted(one) is ErrorCode.NOT_COORDINATOR
        await trio.sleep(1)
        assert await counted(one) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert len([asked for asked in world.asked if asked[0] == ONE]) > 1, "it asks, and is named no writer"
        assert await counted(other) == Counted(1)
        world.coordinators[ONE] = one
        one.apply(world.update())
        assert one.answers[one.increment(0)] is ErrorCode.NOT_COORDINATOR

    in_shard_world(story)


def test_an_unclean_election_begins_the_shard_anew() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        assert await counted(one) == Counted(1)
        assert await counted(one, number=2) == Counted(2)
        del world.logs[0].batches[-1]
        world.elect(0, world.states[0].leader % 3 + 1, is_unclean=True)
        assert one.answers[one.submit(0, ReadCounter)] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await one.opened(0)
        assert await one.answer(one.submit(0, ReadCounter)) == Counted(1)
        assert one.metrics()["springtide_shard_endings_total"] == 1

    in_shard_world(story)


def test_a_log_that_is_ahead_of_the_controller_stops_the_shard_until_the_controller_is_beyond_it() -> None:
    async def story(world: ShardWorld) -> None:
        found = WriterId(WRITER_IDS.start + 6)
        opening = encode_batch(
            [NewRecord(b"key", b"value", 0)], producer_id=found.producer_id, producer_epoch=0, base_sequence=0
        )
        world.logs[0].append(opening)
        one = await world.start_coordinator(ONE)
        world.assign(ONE)
        await trio.sleep(1)
        assert world.asked == [(ONE, 0, found)], "it tells the controller, once"
        assert one.answers[one.increment(0)] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert one.metrics()["kafka_server_group_coordinator_metrics_num_partitions/failed"] == 1
        while world.states[0].partition_epoch < found.producer_id - WRITER_IDS.start:
            assert len(world.asked) == 1
            world.name(0, WriterId(WRITER_IDS.start + world.states[0].partition_epoch + 1))
        await one.opened(0)

    in_shard_world(story)


def test_a_shard_with_a_record_of_a_later_release_is_not_served_and_not_tried_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: ShardWorld) -> None:
        record = NewRecord(OF_A_LATER_RELEASE, b"value", 0)
        first = WRITER_IDS.start
        world.logs[0].append(encode_batch([record], producer_id=first, producer_epoch=0, base_sequence=0))
        one = await world.start_coordinator(ONE)
        world.assign(ONE)
        await trio.sleep(60)
        assert one.answers[one.increment(0)] is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert one.metrics()["kafka_server_group_coordinator_metrics_num_partitions/failed"] == 1
        assert one.metrics()["springtide_shard_endings_total"] == 0
        assert list(one.shards.notes()) == [
            "shard 0 of __consumer_offsets is not served: this process can't read all of its log: a record "
            "of a later release. Upgrade it, or give the shard to a coordinator of a later release"
        ]
        assert len([line for line in caplog.records if "shard_stopped" in line.message]) == 1
        assert not [line for line in caplog.records if "shard_failed" in line.message]
        world.assign(OTHER)
        await trio.sleep(1)
        assert list(one.shards.notes()) == []

    in_shard_world(story)


def test_a_shard_that_is_opened_again_waits_for_a_controller_and_owners_do_not_need_one() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        other = await world.start_coordinator(OTHER)
        world.is_controller_down = True
        await trio.sleep(60)
        assert await counted(one) == Counted(1)
        world.assign(OTHER)
        await other.opened(0)
        world.elect(0, world.states[0].leader % 3 + 1, is_unclean=True)
        await trio.sleep(10)
        assert await counted(other) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert 1 < len(world.asked) < 20
        world.is_controller_down = False
        with trio.fail_after(2.5):
            await other.opened(0)

    in_shard_world(story)


def test_a_shard_without_a_leader_waits_for_one() -> None:
    async def story(world: ShardWorld) -> None:
        one = await world.start_coordinator(ONE)
        leader = world.states[0].leader
        world.unseat(leader)
        world.assign(ONE)
        await trio.sleep(5)
        assert world.asked == []
        world.elect(0, leader)
        await one.opened(0)
        world.unseat(leader)
        number = one.increment(0)
        await trio.sleep(5)
        assert number not in one.answers
        world.elect(0, leader)
        with trio.fail_after(0.1):
            assert await one.answer(number) == Counted(1)

    in_shard_world(story)


def test_a_shard_that_fails_begins_anew_from_its_log_and_the_others_go_on() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        assert await counted(one) == Counted(1)
        parked = [one.submit(shard, AwaitNothing) for shard in (0, 1)]
        failed = one.submit(0, lambda _token: "what no machine understands")
        assert one.answers[failed] is one.answers[parked[0]] is ErrorCode.NOT_COORDINATOR
        assert parked[1] not in one.answers
        await one.opened(0)
        assert await counted(one, number=2) == Counted(2)
        assert await counted(one, shard=1) == Counted(1)

    in_shard_world(story, count=2)


def test_an_answer_that_cannot_be_told_ends_no_shard() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)

        def answered(answer: object) -> None:
            raise ValueError(answer)

        one.shards.submit(0, ReadCounter, answered)
        assert await counted(one) == Counted(1)
        assert one.metrics()["springtide_shard_endings_total"] == 0

    in_shard_world(story)


def test_a_topic_that_is_deleted_takes_its_shards_with_it() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        parked = one.submit(0, AwaitNothing)
        one.apply(UpdateBatch(deleted_topics=(TOPIC_ID,)))
        assert one.answers[parked] is ErrorCode.NOT_COORDINATOR
        assert one.answers[one.increment(0)] is ErrorCode.NOT_COORDINATOR
        assert one.shards.owned() == []
        await trio.sleep(0.1)
        assert one.tasks == 0
        one.apply(world.update(full=True))
        await one.opened(0)

    in_shard_world(story)


def test_stop_answers_everything_and_leaves_nothing_behind() -> None:
    async def story(world: ShardWorld) -> None:
        one = await serving(world)
        for broker in world.brokers.values():
            broker.mute.update(range(5))
        waiting = [one.increment(shard) for shard in range(5)]
        waiting.append(one.submit(0, AwaitNothing))
        other = await world.start_coordinator(OTHER)
        world.assign(ONE, OTHER)
        await trio.sleep(1)
        one.shards.stop()
        other.shards.stop()
        assert {one.answers[number] for number in waiting} == {ErrorCode.NOT_COORDINATOR}
        assert one.answers[one.increment(0)] is ErrorCode.NOT_COORDINATOR
        await trio.sleep(0.1)
        assert (one.tasks, other.tasks) == (0, 0)
        world.assign(OTHER, ONE)
        await trio.sleep(1)
        assert (one.tasks, other.tasks) == (0, 0)
        assert all(channel.is_closed for channel in one.machine.channels)

    in_shard_world(story, count=5)


def test_all_machines_hear_of_the_cluster_those_of_later_shards_too() -> None:
    async def story(world: ShardWorld) -> None:
        one = await world.start_coordinator(ONE)
        one.shards.tell(News("first"))
        world.assign(ONE)
        await one.opened(0)
        one.shards.tell(News("second"))
        machine = one.shards.served()[0]
        assert isinstance(machine, CounterMachine)
        assert machine.heard == ["first", "second"]

    in_shard_world(story)
