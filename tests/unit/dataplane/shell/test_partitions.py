"""The metadata stream, entry by entry: what is created, refused, deleted, set aside, and reported."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from dataplane.core.effects import BackOff, Remark
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.leader import Leader
from dataplane.core.leader_epochs import UNDEFINED_EPOCH
from dataplane.core.reports import UNREPORTED_PROBLEMS_MAX
from dataplane.core.results import LeaderAnswer
from dataplane.shell.log_creator import CREATIONS_AT_ONCE
from springtide.contract.epochs import ControllerEpoch, LeaderEpoch
from springtide.contract.lag_report import CreatedLogs, LagReportResponse
from springtide.contract.partition_state import NO_LEADER, PartitionState, TopicState
from springtide.contract.updates import UpdateBatch
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from tests.kit.dataplane.node import OTHER_ID, PATH, TOPIC_ID, Node, batch_of, endpoint, state
from tests.kit.dataplane.replica import as_follower
from tests.kit.memory.disk import MemoryDisk

THIRD_ID = "CCCCCCCCCCCCCCCCCCCCCC"
DIRECTORY = f"orders-0.{TOPIC_ID}"


def following(**changes: object) -> PartitionState:
    return state(**{"replicas": (2, 1), "isr": (2, 1), "new_replicas": (1, 2), "leader": 2, **changes})


def test_i25_one_bad_entry_fails_alone_and_is_reported() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        failures = await node.apply(
            state(),
            following(topic_id=OTHER_ID, topic="lost", new_replicas=()),  # in the ISR, and nothing on disk
            state(topic_id=THIRD_ID, topic="third"),
            full=True,
        )
        assert [(failure.topic_id, failure.code) for failure in failures] == [(OTHER_ID, "log_missing")]
        assert [hosted.topic for hosted in node.table] == ["orders", "third"]
        assert node.produce().error is ErrorCode.NONE
        (problem,) = node.reports.untold.unreported_problems()
        assert (problem.topic_id, problem.code) == (OTHER_ID, "log_missing")
        assert not node.disk.is_dir(f"{PATH}/lost-0.{OTHER_ID}")
        assert node.reports_wanted > 0

    trio.run(test)


@pytest.mark.parametrize(
    ("changes", "is_created"),
    [
        ({"new_replicas": (1,)}, True),
        ({"isr": (2,), "new_replicas": ()}, True),  # wiped, and the controller knows
        ({"isr": (2, 1), "new_replicas": ()}, False),
        ({"isr": (2,), "elr": (1,), "new_replicas": ()}, False),
        ({"isr": (), "leader": 1, "new_replicas": ()}, False),
    ],
)
def test_an_empty_log_is_made_only_where_nobody_will_take_it_for_a_full_one(
    changes: dict[str, object], is_created: bool
) -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        failures = await node.apply(following(**changes), full=True)
        assert (failures == []) is is_created
        assert node.disk.is_dir(f"{PATH}/{DIRECTORY}") is is_created

    trio.run(test)


@pytest.mark.parametrize(
    ("seats", "is_created"),
    [({"isr": (2, 1)}, False), ({"isr": (2,), "elr": (1,)}, False), ({"isr": (2,)}, True)],
)
def test_a_log_that_was_set_aside_as_damaged_is_not_begun_anew_under_its_seat_though_it_be_new(
    seats: dict[str, object], is_created: bool
) -> None:
    """The controller may not have noted yet that this replica had made its log."""

    async def test() -> None:
        disk = MemoryDisk()
        before = Node(disk)
        await before.apply(state(), full=True)
        before.produce(3)
        disk.crash_process()
        disk.flip_bit(f"{PATH}/{DIRECTORY}/{0:020d}.log", 70)  # in the first of three batches
        node = Node(disk)  # adds what was found to its table
        assert [problem.code for problem in node.problems] == ["log_missing"]
        failures = await node.apply(following(new_replicas=(1, 2), **seats), full=True)
        assert [failure.code for failure in failures] == ([] if is_created else ["log_missing"])
        assert (len(node.table) == 1) is is_created

    trio.run(test)


def test_an_entry_whose_directory_can_not_be_made_fails_and_the_broker_goes_on() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        assert await node.apply(state(), full=True) == []
        disk.fail_next("mkdir", OSError(28, "full"), path_contains=OTHER_ID)
        assert await node.apply(state(topic_id=OTHER_ID, topic="other", leader_epoch=4)) == []
        (problem,) = node.reports.untold.unreported_problems()
        assert (problem.topic_id, problem.code, problem.leader_epoch) == (OTHER_ID, "storage_error", 4)
        assert node.directory.failure is not None

    trio.run(test)


def test_i21_a_topic_is_deleted_by_its_id_and_its_namesake_stays() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(), full=True)
        node.produce(3)
        await node.apply(state(topic_id=OTHER_ID), deleted_topics=(TOPIC_ID,))
        assert [(hosted.topic_id, hosted.log.log_end_offset) for hosted in node.table] == [(OTHER_ID, 0)]
        named = node.table.get_by_name("orders", 0)
        assert named is not None and named.topic_id == OTHER_ID
        assert not node.disk.is_dir(f"{PATH}/{DIRECTORY}")
        await node.apply(deleted_topics=(TOPIC_ID,))  # told until acknowledged: again is nothing
        assert len(node.table) == 1

    trio.run(test)


def test_a_deleted_topic_fails_its_waiting_producers() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(replicas=(1, 2), isr=(1, 2), new_replicas=(1, 2)), full=True)
        assert node.produce().is_waiting
        assert node.hosted().replica.has_waiters
        replica = node.hosted().replica
        await node.apply(deleted_topics=(TOPIC_ID,))
        assert not replica.has_waiters
        assert node.fetching.told[-1] == ("unfollow", (TOPIC_ID, 0))

    trio.run(test)


def test_i22_what_a_delta_does_not_mention_stays_and_what_a_full_state_does_not_is_set_aside() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(), full=True)
        node.produce(3)
        disk.crash_process()
        again = Node(disk)
        await again.apply(state(topic_id=OTHER_ID, topic="other"))
        assert disk.is_dir(f"{PATH}/{DIRECTORY}")
        content = bytes(disk.content(f"{PATH}/{DIRECTORY}/{0:020d}.log"))
        await again.apply(state(topic_id=OTHER_ID, topic="other"), full=True)
        assert not disk.is_dir(f"{PATH}/{DIRECTORY}")
        assert bytes(disk.content(f"{PATH}/quarantine/{DIRECTORY}/{0:020d}.log")) == content
        await again.apply(full=True)  # the same for one that is hosted
        assert len(again.table) == 0
        assert disk.is_dir(f"{PATH}/quarantine/other-0.{OTHER_ID}")

    trio.run(test)


def test_a_log_that_was_set_aside_is_told_and_taken_up_when_a_newer_state_names_it() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        topic = TopicState(topic_id=TOPIC_ID, topic="orders", partitions=1, replication_factor=1)
        await node.apply(state(leader_epoch=4), topics=(topic,), full=True)
        assert node.reports.untold.take_set_aside()
        assert node.reports.set_aside() == ()
        node.produce(3)
        held = node.hosted().replica.state
        await node.apply(full=True)
        assert node.reports.untold.take_set_aside()
        (told,) = node.reports.set_aside()
        assert (told.log_end_offset, told.leader_epoch, told.is_whole) == (3, 4, True)
        assert (told.state, told.topic_state) == (held, topic)
        assert not node.reports.untold.take_set_aside()
        later = {"partition_epoch": 1_014, "new_replicas": ()}
        stale = await node.apply(state(leader_epoch=4, **later))  # a seat that was not given for this log
        assert [failure.code for failure in stale] == ["log_missing"]
        assert await node.apply(state(leader_epoch=1_004, **later)) == []
        assert node.log().log_end_offset == 3
        assert isinstance(node.hosted().replica.role, Leader)
        assert node.reports.untold.take_set_aside()
        assert node.reports.set_aside() == ()
        assert not node.disk.is_dir(f"{PATH}/quarantine/{DIRECTORY}")

    trio.run(test)


def test_the_log_of_a_kept_topic_stays_over_a_restart_and_is_served_again_or_deleted() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(leader_epoch=4), full=True)
        node.produce(3)
        await node.apply(kept_topics=(TOPIC_ID,))
        assert len(node.table) == 0 and disk.is_dir(f"{PATH}/{DIRECTORY}")
        disk.crash_process()
        again = Node(disk)
        await again.apply(full=True, kept_topics=(TOPIC_ID,))
        assert len(again.table) == 0 and again.reports.set_aside() == ()
        await again.apply(state(leader_epoch=6, partition_epoch=9))
        assert again.log().log_end_offset == 3 and isinstance(again.hosted().replica.role, Leader)
        await again.apply(kept_topics=(TOPIC_ID,))
        await again.apply(deleted_topics=(TOPIC_ID,))
        assert not disk.is_dir(f"{PATH}/{DIRECTORY}")

    trio.run(test)


def test_a_replica_without_a_seat_begins_with_the_log_that_was_set_aside() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(leader_epoch=4), full=True)
        node.produce(3)
        await node.apply(full=True)
        await node.apply(following(isr=(2,), new_replicas=(), leader_epoch=4, partition_epoch=9))
        assert node.log().log_end_offset == 3

    trio.run(test)


def test_a_session_that_ends_in_the_middle_of_a_batch_leaves_no_log_between_two_chairs() -> None:
    """Else the log would be neither found nor hosted, and in the way of the next full state."""

    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(), full=True)
        with trio.CancelScope() as session:
            session.cancel()
            await node.apply(full=True)
        assert disk.is_dir(f"{PATH}/quarantine/{DIRECTORY}")
        assert await node.apply(state(partition_epoch=2), full=True) == []
        assert isinstance(node.hosted().replica.role, Leader)

    trio.run(test)


def test_a_copy_that_a_reassignment_made_superfluous_is_deleted() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(), full=True)
        await node.apply(following(replicas=(2, 3), isr=(2, 3), partition_epoch=2))
        assert len(node.table) == 0
        assert not node.disk.is_dir(f"{PATH}/{DIRECTORY}")
        assert not node.disk.is_dir(f"{PATH}/quarantine")

    trio.run(test)


def test_a_copy_that_became_superfluous_while_the_broker_was_away_is_set_aside() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        await Node(disk).apply(following(), full=True)
        disk.crash_process()
        again = Node(disk)
        await again.apply(following(replicas=(2, 3), isr=(2, 3), partition_epoch=2), full=True)
        assert len(again.table) == 0
        assert disk.is_dir(f"{PATH}/quarantine/{DIRECTORY}")

    trio.run(test)


def test_s33_a_state_that_comes_twice_repeats_what_stands() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(), full=True)
        await node.apply(following())
        follow = ("follow", (TOPIC_ID, 0), 2, 1)
        assert [told for told in node.fetching.told if told[0] == "follow"] == [follow, follow]

    trio.run(test)


def test_brokers_that_changed_are_named_to_the_fetchers_and_to_leaders() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(), full=True)
        node.fetching.told.clear()
        await node.apply(brokers=(endpoint(2, 11),))
        assert node.fetching.told == [("changed", 2)]
        await node.apply(brokers=(endpoint(2, 11),))
        assert node.fetching.told == [("changed", 2)]

    trio.run(test)


def test_l6_a_leaders_error_pauses_the_partition_and_never_drops_it() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(), full=True)
        hosted = node.hosted()
        effects = as_follower(hosted.replica).on_fetched(
            LeaderAnswer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
            asked=FetchPosition(0, LeaderEpoch(UNDEFINED_EPOCH), LeaderEpoch(1), 0),
            now_ms=0,
            wall_ms=0,
        )
        node.effects.run(hosted, effects)
        assert node.fetching.told[-1] == ("back_off", (TOPIC_ID, 0), 200)
        assert effects == (BackOff(200, ErrorCode.NOT_LEADER_OR_FOLLOWER),)
        assert hosted.replica.next_fetch() is not None

    trio.run(test)


def test_a_divergent_end_is_durable_aside_before_it_is_cut_and_fetching_begins_again() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(replicas=(1, 2), isr=(1, 2), new_replicas=(1, 2)), full=True)
        node.produce(3)  # never committed
        await node.apply(following(leader_epoch=2, partition_epoch=2))
        hosted = node.hosted()
        effects = as_follower(hosted.replica).on_fetched(
            LeaderAnswer(diverging=EpochEnd(1, 1)),
            asked=FetchPosition(3, LeaderEpoch(1), LeaderEpoch(2), 0),
            now_ms=0,
            wall_ms=0,
        )
        node.effects.run(hosted, effects)
        assert (hosted.log.log_end_offset, hosted.replica.next_fetch()) == (3, None)
        await node.work()
        assert hosted.log.log_end_offset == 1
        assert node.fetching.told[-1] == ("follow", (TOPIC_ID, 0), 2, 2)
        names = disk.listdir(f"{PATH}/divergent")
        synced = {path.removesuffix(".tmp") for path in disk.synced_paths}
        assert {f"{PATH}/divergent/{name}" for name in names} <= synced
        (batches,) = [name for name in names if not name.endswith(".json")]
        content = bytes(disk.content(f"{PATH}/divergent/{batches}"))
        assert content == batch_of(base_offset=1, leader_epoch=1) + batch_of(base_offset=2, leader_epoch=1)
        assert [problem.code for problem in node.reports.untold.unreported_problems()] == ["divergent"]

    trio.run(test)


def test_problems_wait_for_a_controller_within_a_bound() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(topic_id=OTHER_ID, topic="lost", new_replicas=()), full=True)
        (problem,) = node.reports.untold.unreported_problems()
        for _ in range(UNREPORTED_PROBLEMS_MAX + 5):
            node.table.add_problem(problem)
        problems = node.reports.untold.unreported_problems()
        assert len(problems) == UNREPORTED_PROBLEMS_MAX
        node.reports.untold.on_problems_reported(problems)
        node.reports.on_report_answered(LagReportResponse(), 0)
        assert node.reports.untold.unreported_problems() == ()

    trio.run(test)


def test_a_replica_without_a_leader_tells_its_log_end_once_and_again_to_a_new_controller() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(replicas=(1, 2), isr=(1, 2), new_replicas=(1, 2), leader_epoch=3), full=True)
        node.produce(3)
        assert node.reports.untold.untold_log_ends(count_max=9) == []
        orphan = state(
            replicas=(1, 2), isr=(1, 2), leader=NO_LEADER, leader_epoch=4, partition_epoch=2, new_replicas=()
        )
        wanted = node.reports_wanted
        await node.apply(orphan)
        assert node.reports_wanted == wanted + 1
        (told,) = node.reports.untold.untold_log_ends(count_max=9)
        assert (told.topic_id, told.partition, told.leader_epoch) == (TOPIC_ID, 0, 4)
        assert (told.log_start_offset, told.log_end_offset, told.high_watermark) == (0, 3, 0)
        assert told.epochs == ((3, 0),)
        assert node.reports.untold.untold_log_ends(count_max=0) == []
        assert node.reports.untold.untold_log_ends(count_max=9) == [told]  # until somebody has heard
        node.reports.untold.on_log_ends_told([told])
        assert node.reports.untold.untold_log_ends(count_max=9) == []
        await node.apply(orphan, full=True)
        assert node.reports.untold.untold_log_ends(count_max=9) == [told]
        await node.apply(state(replicas=(1, 2), isr=(1,), leader_epoch=5, partition_epoch=3))
        assert node.reports.untold.untold_log_ends(count_max=9) == []

    trio.run(test)


def test_a_controller_that_took_over_is_told_of_idle_partitions_too() -> None:
    """Else it would know neither their sizes nor how far their followers are, until somebody writes."""

    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(), full=True)
        assert len(node.reports.untold.changed_lags(0, count_max=9)) == 1
        assert node.reports.untold.changed_lags(500, count_max=9) == []
        await node.apply(state(partition_epoch=2))
        assert node.reports.untold.changed_lags(1_000, count_max=9) == []
        await node.apply(state(partition_epoch=2), full=True)
        assert len(node.reports.untold.changed_lags(1_500, count_max=9)) == 1
        node.table.note_read(node.hosted(), 70)
        (read,) = node.reports.untold.changed_lags(2_000, count_max=9)
        assert (read.bytes_in, read.bytes_out) == (node.hosted().bytes_in, 70), "a consumer has read it"

    trio.run(test)


def test_a_state_that_goes_back_changes_nothing() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(state(partition_epoch=5, leader_epoch=3), full=True)
        await node.apply(following(partition_epoch=4, leader_epoch=4))
        assert isinstance(node.hosted().replica.role, Leader)
        effects = node.hosted().replica.on_partition_state(
            state(partition_epoch=6, leader_epoch=2), now_ms=node.clock.now_ms
        )
        assert isinstance(effects[0], Remark)
        assert node.hosted().replica.leader_epoch == 3

    trio.run(test)


def many(count: int, **changes: object) -> list[PartitionState]:
    return [following(topic_id=OTHER_ID, topic="many", partition=n, **changes) for n in range(count)]


async def begin(node: Node, *states: PartitionState, **fields: object) -> None:
    """A batch is applied; no log is made yet."""
    batch = UpdateBatch(
        controller_epoch=ControllerEpoch(1), sequence=1, brokers=(endpoint(1), endpoint(2)), partitions=states
    )
    assert await node.table.apply(msgspec.structs.replace(batch, **fields)) == []


def partitions_hosted(node: Node) -> list[int]:
    return [hosted.partition for hosted in node.table if hosted.topic_id == OTHER_ID]


def test_s57_a_change_of_leader_overtakes_the_creation_of_logs() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await node.apply(following(), full=True)
        await begin(node, *many(3 * CREATIONS_AT_ONCE))
        assert partitions_hosted(node) == []
        await begin(node, following(leader=1, isr=(1,), leader_epoch=2, partition_epoch=2))
        assert isinstance(node.hosted().replica.role, Leader)
        assert partitions_hosted(node) == []
        assert await node.table.creator.make_next()
        assert partitions_hosted(node) == list(range(CREATIONS_AT_ONCE))

    trio.run(test)


def test_s57_a_log_begins_under_the_latest_state_that_was_told_of_it() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await begin(node, state(), full=True)
        await begin(node, state(leader=NO_LEADER, leader_epoch=3, partition_epoch=3, isr=()))
        await begin(node, state(leader_epoch=2, partition_epoch=2))
        await node.apply()
        applied = node.hosted().replica.state
        assert applied is not None and (applied.partition_epoch, applied.leader) == (3, NO_LEADER)

    trio.run(test)


def hold_creation(disk: MemoryDisk) -> tuple[Event, Event]:
    """Have the disk wait when it begins to make a log of `many`; return when it does, when it may go on."""
    reached, may_go_on = Event(), Event()

    def hold(operation: str, path: str, is_done: bool) -> None:
        if operation == "mkdir" and OTHER_ID in path and not is_done:
            reached.set()
            assert may_go_on.wait(10)

    disk.on_operation = hold
    return reached, may_go_on


@pytest.mark.parametrize(
    "given_up",
    [
        {"deleted_topics": (OTHER_ID,)},
        {"partitions": (following(topic_id=OTHER_ID, topic="many", replicas=(2,), partition_epoch=2),)},
        {"full": True},
    ],
)
def test_s57_a_log_that_is_not_wanted_any_more_is_gone_when_that_is_applied(given_up: dict[str, Any]) -> None:
    """Also when it is just being made: what is applied must have had its effect (I25, applied is said
    afterwards)."""

    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(full=True)
        await begin(node, *many(1))
        reached, may_go_on = hold_creation(disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.table.creator.make_next)
            await trio.to_thread.run_sync(reached.wait)
            nursery.start_soon(partial(begin, node, **given_up))
            await trio.testing.wait_all_tasks_blocked()
            may_go_on.set()
        await node.work()
        assert partitions_hosted(node) == []
        assert not disk.is_dir(f"{PATH}/many-0.{OTHER_ID}")

    trio.run(test)


def test_a_log_that_is_not_begun_yet_is_never_made_when_it_is_given_up() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await begin(node, *many(2), full=True)
        await node.apply(deleted_topics=(OTHER_ID,))
        assert partitions_hosted(node) == []
        assert not node.disk.is_dir(f"{PATH}/many-0.{OTHER_ID}")

    trio.run(test)


def test_s56_logs_are_told_of_by_name_once_to_each_controller_until_they_are_new_no_more() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await begin(node, *many(2), full=True)
        assert node.reports.untold.untold_creations(count_max=10) == ()
        await node.apply()
        told = node.reports.untold.untold_creations(count_max=10)
        assert told == (CreatedLogs(topic_id=OTHER_ID, partitions=(0, 1)),)
        node.reports.untold.on_creations_told(told)
        assert node.reports.untold.untold_creations(count_max=10) == ()
        await node.apply(*many(2), full=True)  # another controller
        assert node.reports.untold.untold_creations(count_max=10) == told
        await node.apply(*many(1, new_replicas=(2,), partition_epoch=2))
        assert node.reports.untold.untold_creations(count_max=10) == (
            CreatedLogs(topic_id=OTHER_ID, partitions=(1,)),
        )

    trio.run(test)


def test_a_broker_that_ends_while_a_log_is_made_makes_it_whole_and_begins_nothing_with_it() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await begin(node, *many(1), full=True)
        reached, may_go_on = hold_creation(disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.table.creator.make_next)
            await trio.to_thread.run_sync(reached.wait)
            nursery.cancel_scope.cancel()
            may_go_on.set()
        assert partitions_hosted(node) == []
        assert disk.is_dir(f"{PATH}/many-0.{OTHER_ID}")

    trio.run(test)


def test_no_log_is_begun_once_the_broker_stops() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        await begin(node, *many(1), full=True)
        await node.table.creator.stop()
        await node.apply()
        assert partitions_hosted(node) == []

    trio.run(test)


def test_replicas_are_ticked_often_from_the_first_client_that_waits_to_the_last() -> None:
    async def test() -> None:
        node = Node(MemoryDisk())
        assert await node.apply(state(), full=True) == []
        has_begun: list[bool] = []

        async def wait() -> None:
            await node.table.until_clients_wait()
            has_begun.append(True)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            assert not has_begun
            node.table.note_waiters(node.hosted())
            await wait()
        assert has_begun == [True, True]
        node.table.tick_waiting()  # no client waits any more
        with trio.move_on_after(0) as scope:
            await node.table.until_clients_wait()
        assert scope.cancelled_caught

    trio.run(test)
