"""Retention, flushes and checkpoints of a broker, on real logs over a disk in memory."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.testing

from dataplane.core.fetch import ReplicaFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogError
from dataplane.core.results import LeaderAnswer
from dataplane.core.role import Offline
from dataplane.shell.partitions import PartitionTable
from dataplane.storage.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, read_checkpoint
from dataplane.storage.timestamp_reading import TimestampReading
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import TopicState
from springtide.wire.compression import Compression
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, decode_header, stamp_head
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from tests.kit.clocks import WALL_START_MS, VirtualClock
from tests.kit.dataplane.node import (
    OTHER_ID,
    PATH,
    SMALL_SEGMENTS,
    TOPIC_ID,
    Node,
    batch_of,
    state,
)
from tests.kit.dataplane.replica import as_follower
from tests.kit.memory.disk import MemoryDisk

KEY = (TOPIC_ID, 0)


def topic(**configs: str) -> TopicState:
    return TopicState(
        topic_id=TOPIC_ID,
        topic="orders",
        partitions=1,
        replication_factor=1,
        configs={name.replace("_", "."): value for name, value in configs.items()},
    )


async def leading(disk: MemoryDisk, *, configs: dict[str, str] | None = None, **of_topic: str) -> Node:
    """A sole leader with small segments."""
    node = Node(disk, configs={**SMALL_SEGMENTS, **(configs or {})})
    assert await node.apply(state(), topics=(topic(**of_topic),), full=True) == []
    assert isinstance(node.hosted().replica.role, Leader)
    return node


def test_records_older_than_retention_ms_are_deleted_and_their_files_unlinked() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk, retention_ms="60000")
        node.produce(20)
        assert len(node.log_files()) > 2
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        node.pass_ms(61_000)
        await node.maintenance.apply_retention()
        assert (node.log().log_start_offset, node.log().log_end_offset, node.log().size_bytes) == (20, 20, 0)
        assert node.log_files() == [f"{20:020d}.log"]
        assert not [name for name in disk.listdir(node.log().directory) if "deleted" in name]

    trio.run(test)


def test_the_oldest_segments_go_when_a_log_is_larger_than_retention_bytes() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_bytes="2000")
        node.produce(40)
        before = node.log().size_bytes
        await node.maintenance.apply_retention()
        assert before > 4_000
        assert 2_000 <= node.log().size_bytes < 2_000 + 1_024
        assert node.log().log_start_offset == node.log().segments[0].base_offset > 0
        assert node.log_files()[0] == f"{node.log().log_start_offset:020d}.log"

    trio.run(test)


def test_followers_and_consumers_are_told_what_retention_has_deleted_though_nobody_writes() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="60000")
        node.produce(20)
        told: list[tuple[str, int]] = []
        with patch.object(node.fetches, "on_high_watermark_moved", told.append):
            await node.maintenance.apply_retention()
            assert told == []
            node.pass_ms(61_000)
            await node.maintenance.apply_retention()
            assert told == [KEY]
            await node.maintenance.apply_retention()
        assert told == [KEY]

    trio.run(test)


def test_i26_what_is_not_committed_stays_however_old_it_is() -> None:
    async def test() -> None:
        node = Node(
            MemoryDisk(), configs={**SMALL_SEGMENTS, "log.retention.ms": "1", "log.retention.bytes": "0"}
        )
        await node.apply(state(replicas=(1, 2), isr=(1, 2), new_replicas=(1, 2)), full=True)
        node.produce(20)
        assert node.hosted().replica.high_watermark == 0
        node.pass_ms(10_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        replica = node.hosted().replica
        # The follower has twelve: so many are committed.
        fetch = ReplicaFetch(
            2, BrokerEpoch(10), FetchPosition(12, LeaderEpoch(1), LeaderEpoch(1)), max_bytes=1
        )
        replica.role.on_replica_fetch(fetch, now_ms=node.clock.now_ms)
        assert replica.high_watermark == 12
        await node.maintenance.apply_retention()
        assert 0 < node.log().log_start_offset <= 12
        assert node.log().log_end_offset == 20

    trio.run(test)


def test_a_leader_that_is_silenced_deletes_nothing() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_bytes="0")
        node.produce(20)
        node.clock.now_ms += 2**41  # the lease is over, and an in-sync set of one does not stand in for it
        assert not node.hosted().replica.role.may_serve(node.clock.now_ms)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0

    trio.run(test)


def test_a_follower_keeps_what_its_limits_would_delete_and_drops_what_its_leader_dropped() -> None:
    async def test() -> None:
        node = Node(MemoryDisk(), configs={**SMALL_SEGMENTS, "log.retention.bytes": "0"})
        await node.apply(state(replicas=(2, 1), isr=(2, 1), new_replicas=(1, 2), leader=2), full=True)
        replica = node.hosted().replica

        def fetched(count: int, *, high_watermark: int, log_start_offset: int) -> None:
            start = node.log().log_end_offset
            records = b"".join(batch_of(base_offset=start + index, leader_epoch=1) for index in range(count))
            as_follower(replica).on_fetched(
                LeaderAnswer(
                    records=records, high_watermark=high_watermark, log_start_offset=log_start_offset
                ),
                asked=FetchPosition(start, LeaderEpoch(node.log().epochs.latest), LeaderEpoch(1), 0),
                now_ms=0,
                wall_ms=0,
            )

        for _ in range(20):
            fetched(1, high_watermark=min(15, node.log().log_end_offset), log_start_offset=0)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        assert node.log_files()[0] == f"{0:020d}.log"
        fetched(1, high_watermark=15, log_start_offset=18)  # its start may not pass our high watermark
        assert node.log().log_start_offset == 15
        await node.maintenance.apply_retention()
        first = node.log().segments[0]
        assert first.base_offset <= 15 < node.log().segments[1].base_offset
        assert node.log_files()[0] == f"{first.base_offset:020d}.log"
        assert first.base_offset > 0

    trio.run(test)


def test_a_closed_segment_is_flushed_and_the_recovery_point_follows_and_is_written_down() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(20)
        active = node.log().segments[-1].base_offset
        assert node.log().recovery_point < active
        await node.maintenance.flush_due()
        assert node.log().recovery_point == active
        assert f"{node.log().directory}/{0:020d}.log" in disk.synced_paths
        await node.maintenance.checkpoint_recovery_points()
        assert read_checkpoint(disk, PATH, RECOVERY_POINTS).offsets == {KEY: active}

    trio.run(test)


@pytest.mark.parametrize("limit", [{"flush_messages": "5"}, {"flush_ms": "1000"}])
def test_flush_messages_and_flush_ms_sync_the_active_segment_too(limit: dict[str, str]) -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), configs=None, **limit)
        node.produce(4)
        node.clock.now_ms += 999
        await node.maintenance.flush_due()
        assert node.log().recovery_point == 0
        node.clock.now_ms += 1
        node.produce(1)
        await node.maintenance.flush_due()
        assert node.log().recovery_point == 5

    trio.run(test)


def test_without_limits_the_operating_system_decides_when_the_active_segment_is_written() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(3)
        disk.synced_paths.clear()
        node.clock.now_ms += 10**9
        await node.maintenance.flush_due()
        assert disk.synced_paths == []

    trio.run(test)


def test_high_watermarks_outlive_a_kill() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(7)
        await node.maintenance.checkpoint_high_watermarks()
        node.produce(2)  # not checkpointed: the next life begins a little lower
        disk.crash_process()
        again = Node(disk)
        await again.apply(
            state(replicas=(2, 1), isr=(2, 1), new_replicas=(), leader=2, leader_epoch=2, partition_epoch=2),
            full=True,
        )
        assert (again.hosted().replica.high_watermark, again.log().log_end_offset) == (7, 9)

    trio.run(test)


def test_the_first_high_watermark_of_a_young_process_is_stored_early() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        await node.maintenance.checkpoint_first_high_watermarks()
        assert read_checkpoint(disk, PATH, HIGH_WATERMARKS).offsets.get(KEY, 0) == 0
        node.produce(7)
        await node.maintenance.checkpoint_first_high_watermarks()
        assert read_checkpoint(disk, PATH, HIGH_WATERMARKS).offsets == {KEY: 7}
        node.produce(2)  # from now on the interval is soon enough
        with patch.object(PartitionTable, "__iter__", side_effect=AssertionError("nothing is due")):
            await node.maintenance.checkpoint_first_high_watermarks()
        assert read_checkpoint(disk, PATH, HIGH_WATERMARKS).offsets == {KEY: 7}

    trio.run(test)


def test_a_checkpoint_before_the_controller_has_spoken_keeps_the_marks_of_the_last_life() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(7)
        await node.maintenance.checkpoint_high_watermarks()
        disk.crash_process()
        waiting = Node(disk)  # nobody has said yet which replicas are here
        await waiting.maintenance.checkpoint_high_watermarks()
        await waiting.maintenance.checkpoint_recovery_points()
        assert read_checkpoint(disk, PATH, HIGH_WATERMARKS).offsets == {KEY: 7}
        await waiting.apply(
            state(replicas=(2, 1), isr=(2, 1), new_replicas=(), leader=2, leader_epoch=2, partition_epoch=2),
            full=True,
        )
        assert waiting.hosted().replica.high_watermark == 7

    trio.run(test)


def test_a_clean_stop_before_the_controller_has_spoken_keeps_them_too() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(7)
        await node.maintenance.checkpoint_high_watermarks()
        disk.crash_process()
        waiting = Node(disk)
        assert await waiting.directory.close_cleanly({})
        assert read_checkpoint(disk, PATH, HIGH_WATERMARKS).offsets == {KEY: 7}

    trio.run(test)


class PausingDisk(MemoryDisk):
    """Runs `meanwhile` in the middle of an operation: what the loop does while a thread is at it."""

    def __init__(self) -> None:
        super().__init__()
        self.at: tuple[str, str] = ("", "")
        self.meanwhile: Callable[[], Any] | None = None

    def check(self, operation: str, path: str) -> None:
        meanwhile = self.meanwhile
        if meanwhile is not None and operation == self.at[0] and self.at[1] in path:
            self.meanwhile = None
            meanwhile()
        super().check(operation, path)


@pytest.mark.parametrize(
    ("operation", "path"), [("fsync", ".log"), ("open", "leader-epochs"), ("fsync_dir", "orders-0")]
)
def test_a_topic_deleted_while_its_log_is_flushed_harms_nobody(operation: str, path: str) -> None:
    async def test() -> None:
        disk = PausingDisk()
        node = await leading(disk)
        node.produce(20)
        node.log()._epoch_file._is_unsynced = True
        disk.at = (operation, path)
        disk.meanwhile = lambda: node.log_dir.delete(KEY)
        await node.maintenance.flush_due()
        assert disk.meanwhile is None
        assert node.directory.failure is None

    trio.run(test)


@pytest.mark.parametrize(
    ("operation", "path"),
    [("open", "leader-epochs.tmp"), ("rename", "leader-epochs"), ("fsync", "leader-epochs")],
)
def test_a_topic_deleted_while_a_new_epoch_is_persisted_harms_nobody(operation: str, path: str) -> None:
    async def test() -> None:
        disk = PausingDisk()
        node = await leading(disk)
        node.log().begin_leader_epoch(LeaderEpoch(99))
        node.directory.start_persist_epochs(node.hosted())
        disk.at = (operation, path)
        disk.meanwhile = lambda: node.log_dir.delete(KEY)
        await node.work()
        assert disk.meanwhile is None
        assert node.directory.failure is None

    trio.run(test)


def test_a_topic_deleted_while_retention_unlinks_its_files_harms_nobody() -> None:
    async def test() -> None:
        disk = PausingDisk()
        node = await leading(disk, retention_bytes="0")
        node.produce(20)
        disk.at = ("unlink", ".log.deleted")
        disk.meanwhile = lambda: node.log_dir.delete(KEY)
        await node.maintenance.apply_retention()
        assert disk.meanwhile is None
        assert node.directory.failure is None

    trio.run(test)


def test_a_failed_fsync_takes_every_replica_of_the_directory_offline_and_is_reported_once() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        await node.apply(state(topic_id=OTHER_ID, topic="other"))
        node.produce(20)
        disk.fail_next("fsync", OSError(errno.EIO, "broken"), path_contains=".log")
        await node.maintenance.flush_due()
        await node.maintenance.flush_due()
        await node.maintenance.apply_retention()
        assert [type(hosted.replica.role) for hosted in node.table] == [Offline, Offline]
        assert node.directory.offline_ids() == ("dir-1",)
        assert [problem.code for problem in node.reports.untold.unreported_problems()] == [
            "storage_error"
        ] * 2
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR

    trio.run(test)


def test_damage_in_one_log_ends_that_replica_and_the_others_are_flushed() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        await node.apply(state(topic_id=OTHER_ID, topic="other"))
        node.produce(20)
        node.produce(20, topic_id=OTHER_ID)
        node.log().condemn("found by a reader in a thread")
        await node.maintenance.flush_due()
        assert isinstance(node.hosted().replica.role, Offline)
        assert isinstance(node.hosted(OTHER_ID).replica.role, Leader)
        assert node.log(OTHER_ID).recovery_point == node.log(OTHER_ID).segments[-1].base_offset
        assert node.directory.failure is None
        (problem,) = node.reports.untold.unreported_problems()
        assert (problem.topic_id, problem.code) == (TOPIC_ID, "storage_error")

    trio.run(test)


def test_a_disk_that_is_full_never_acknowledges_and_the_process_lives() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        node.produce(3)
        disk.free_bytes_left = 50
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
        assert isinstance(node.hosted().replica.role, Offline)
        assert node.log().log_end_offset == 3
        disk.free_bytes_left = None  # room again changes nothing: what was half written is not known
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
        (problem,) = node.reports.untold.unreported_problems()
        assert (problem.code, problem.topic_id) == ("storage_error", TOPIC_ID)
        assert node.directory.offline_ids() == ("dir-1",)
        for work in (node.maintenance.checkpoint_high_watermarks, node.maintenance.flush_due):
            try:
                await work()
            except LogError as error:
                node.maintenance.on_storage_error(str(error))  # as the loops do
        assert len(node.reports.untold.unreported_problems()) == 1

    trio.run(test)


def test_s28_below_the_reserve_writes_are_refused_and_go_on_when_retention_has_made_room() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk, configs={"log.dir.reserve.bytes": "10000"}, retention_ms="60000")
        node.produce(20)
        disk.free_bytes_left = 9_999
        node.maintenance.look_for_room()
        node.maintenance.look_for_room()
        assert node.fetching.told[-1] == ("room",)
        assert node.fetching.told.count(("room",)) == 1
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
        assert (node.log().log_end_offset, node.directory.failure) == (20, None)
        space = node.directory.space()
        assert space is not None
        assert (space.reserve_bytes, space.is_short) == (10_000, True)
        node.pass_ms(61_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 20
        await node.maintenance.checkpoint_high_watermarks()
        disk.free_bytes_left = 12_500
        node.maintenance.look_for_room()
        assert node.fetching.told.count(("room",)) == 2
        assert node.produce().error is ErrorCode.NONE
        assert node.reports.untold.unreported_problems() == ()

    trio.run(test)


def test_a_file_system_that_does_not_tell_what_is_free_has_no_reserve() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        disk.told_free_bytes = 0
        node.maintenance.look_for_room()
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
        with patch.object(MemoryDisk, "free_bytes", side_effect=OSError(errno.EIO, "not told")):
            node.maintenance.look_for_room()
        assert node.produce(100, size=1_000).error is ErrorCode.NONE
        assert node.fetching.told.count(("room",)) == 2

    trio.run(test)


def test_s28_a_burst_between_two_looks_stops_at_the_reserve() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk, configs={"log.dir.reserve.bytes": "10000"})
        disk.free_bytes_left = 15_000
        node.maintenance.look_for_room()
        assert node.produce(200).error is ErrorCode.KAFKA_STORAGE_ERROR
        assert disk.free_bytes_left > 9_000
        assert 20 < node.log().log_end_offset < 40
        assert node.directory.failure is None

    trio.run(test)


def test_a_write_that_fails_takes_every_replica_of_the_directory_offline_at_once() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk, configs=SMALL_SEGMENTS, clock=VirtualClock())
        await node.apply(state(), state(topic_id=OTHER_ID, topic="other"), full=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.maintenance.run)
            await trio.testing.wait_all_tasks_blocked()
            disk.free_bytes_left = 50
            assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
            assert isinstance(node.hosted(OTHER_ID).replica.role, Leader)
            await trio.testing.wait_all_tasks_blocked()
            assert isinstance(node.hosted(OTHER_ID).replica.role, Offline)
            node.maintenance.stop()

    trio.run(test, clock=trio.testing.MockClock())


def test_a_topic_deleted_on_a_failed_disk_goes_from_the_table_and_nothing_else_happens() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        disk.free_bytes_left = 0
        assert node.produce().error is ErrorCode.KAFKA_STORAGE_ERROR
        assert await node.apply(deleted_topics=(TOPIC_ID,)) == []
        assert node.table.get(*KEY) is None
        assert disk.is_dir(f"{PATH}/orders-0.{TOPIC_ID}")

    trio.run(test)


def test_a_full_state_without_it_on_a_failed_disk_likewise() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = await leading(disk)
        disk.free_bytes_left = 0
        node.produce()
        assert await node.apply(full=True) == []
        assert node.table.get(*KEY) is None

    trio.run(test)


DAYS_8_MS = 8 * 24 * 60 * 60 * 1000


def test_i36_a_leap_of_one_clock_deletes_nothing_and_when_it_is_over_what_has_expired_goes() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms=str(DAYS_8_MS // 2))
        node.produce(20)
        for ahead_ms in (DAYS_8_MS, -DAYS_8_MS):
            node.clock.wall_ahead_ms = ahead_ms
            await node.maintenance.apply_retention()
            node.pass_ms(7_000)
            await node.maintenance.apply_retention()
            assert node.timekeeper.leap() is not None
            node.clock.wall_ahead_ms = 0
            node.hear_controller(ahead_ms=ahead_ms)
            await node.maintenance.apply_retention()
            assert node.timekeeper.leap() is not None
            node.hear_controller()
            await node.maintenance.apply_retention()
            assert node.timekeeper.leap() is None
            assert node.log().log_start_offset == 0
        node.pass_ms(DAYS_8_MS // 2)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 20

    trio.run(test)


def test_without_the_controllers_clock_nothing_is_deleted_by_time() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="60000")
        node.produce(20)
        node.clock.now_ms += 61_000  # and no heartbeat is answered
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        node.hear_controller()
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 20

    trio.run(test)


@pytest.mark.parametrize("leap_ms", [DAYS_8_MS, -DAYS_8_MS])
def test_records_that_a_leader_stamps_while_its_clock_is_wrong_get_the_time_that_others_tell(
    leap_ms: int,
) -> None:
    """S78 (stamped while a clock leaps): neither gone at once nor kept for days."""

    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="60000", message_timestamp_type="LogAppendTime")
        node.clock.wall_ahead_ms = leap_ms
        node.produce(20)
        node.clock.wall_ahead_ms = 0
        node.hear_controller()
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        node.pass_ms(61_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 20

    trio.run(test)


def test_a_record_dated_ahead_keeps_its_segment_until_then_and_takes_no_other_with_it() -> None:
    """S79 (a producer's clock is ahead): by an hour, as much as message.timestamp.after.max.ms allows."""

    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="60000")
        node.produce(10)
        node.produce(ahead_ms=60 * 60_000)
        node.produce(10)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        node.pass_ms(61_000)
        await node.maintenance.apply_retention()
        assert 0 < node.log().log_start_offset <= 10
        node.pass_ms(60 * 60_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 21

    trio.run(test)


def test_idle_producers_are_forgotten_after_their_time_and_not_by_a_wall_clock_that_leaps() -> None:
    async def test() -> None:
        node = Node(MemoryDisk(), configs={"producer.id.expiration.ms": "60000"})
        await node.apply(state(), topics=(topic(),), full=True)
        states = node.log().producers

        def write(producer_id: int) -> None:
            header = BatchHeader(0, 100, 0, 2, 0, 0, 0, 0, 0, producer_id, 0, 0, 1)
            states.update(header, now_ms=node.timekeeper.wall_ms())

        write(1)
        node.pass_ms(30_000)
        write(2)
        for leap_ms in (10**9, -(10**9)):
            node.clock.wall_ahead_ms = leap_ms
            write(2)
            await node.maintenance.expire_producers()
            node.clock.wall_ahead_ms = 0
            await node.maintenance.expire_producers()
            assert [view.producer_id for view in states.active_producers()] == [1, 2]
        node.pass_ms(29_999)
        await node.maintenance.expire_producers()
        assert len(states) == 2
        node.pass_ms(1)
        await node.maintenance.expire_producers()
        assert [view.producer_id for view in states.active_producers()] == [2]

    trio.run(test)


def store_as_earlier_releases(node: Node, *batches: bytes) -> None:
    """Append batches that no leader of this process has read, with whatever header they have."""
    log = node.log()
    for batch in batches:
        head = stamp_head(base_offset=log.log_end_offset, header=decode_header(batch), leader_epoch=1)
        stored = head + batch[len(head) :]
        log.append((decode_header(stored),), (stored,), now_ms=node.timekeeper.wall_ms())
    node.produce()  # the high watermark follows


def claiming(max_timestamp: int, data: bytes) -> bytes:
    return seal_batch(decode_header(data)._replace(max_timestamp=max_timestamp), data[HEADER_BYTES:])


@pytest.mark.parametrize("claimed", [-1, 0, WALL_START_MS - DAYS_8_MS])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_i36_a_header_of_an_earlier_release_deletes_no_record_that_is_young(
    claimed: int, compression: Compression
) -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="3600000")
        old = encode_batch([NewRecord(None, b"v" * 900, WALL_START_MS - DAYS_8_MS)])
        young = encode_batch(
            [NewRecord(None, b"v" * 900, WALL_START_MS), NewRecord(None, b"w", 5)], compression=compression
        )
        store_as_earlier_releases(node, old, old, claiming(claimed, young), old)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 2, "what is old goes, what only claims to be stays"
        with patch.object(TimestampReading, "read_on", side_effect=AssertionError("read twice")):
            await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 2
        node.pass_ms(3_700_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == node.log().log_end_offset

    trio.run(test)


def test_i36_records_that_cannot_be_read_are_as_young_as_their_segments_last_append() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="3600000")
        poison = encode_batch([NewRecord(None, b"v" * 900, 0)])
        poison = seal_batch(decode_header(poison)._replace(attributes=1), poison[HEADER_BYTES:])
        store_as_earlier_releases(node, poison)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 0
        node.pass_ms(3_700_000)
        await node.maintenance.apply_retention()
        assert node.log().log_start_offset == node.log().log_end_offset

    trio.run(test)


def test_what_this_leader_has_appended_is_not_read_again() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="60000")
        node.produce(20)
        node.pass_ms(61_000)
        with patch.object(TimestampReading, "read_on", side_effect=AssertionError("read again")):
            await node.maintenance.apply_retention()
        assert node.log().log_start_offset == 20

    trio.run(test)


def test_a_reading_in_which_the_log_was_changed_counts_for_nothing() -> None:
    async def test() -> None:
        node = await leading(MemoryDisk(), retention_ms="3600000")
        old = encode_batch([NewRecord(None, b"v" * 900, WALL_START_MS - DAYS_8_MS)])
        store_as_earlier_releases(node, old, old, old)
        log = node.log()
        limits = {"expiry_ms": WALL_START_MS, "retention_ms": 3_600_000, "retention_bytes": -1}
        reading = log.due_to_be_read(**limits, high_watermark=2)
        assert reading is not None
        assert log.read_timestamps(reading, bytes_max=1)
        log.truncate_to(2)
        assert not reading.settle()
        assert log.segments[0].is_unread

    trio.run(test)
