"""The work of a broker on its own: ticks, flushes, retention, checkpoints.

Work that may block for long (fsync, unlink, checkpoint files) runs in threads, a few at a time; decisions
are made on the loop, from values taken there. A storage error from any of it takes the directory's replicas
offline at once. Nothing here is needed for safety but the flush before a clean shutdown, which
data_directory does: a broker that is killed at any moment recovers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import trio

from dataplane.core.follower import Follower
from dataplane.core.log_port import LogChanged, LogError
from dataplane.shell.config import BrokerConfig, TopicSettings
from dataplane.shell.data_directory import DataDirectory
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.partitions import PartitionTable
from dataplane.shell.seals import ROUND_MS
from dataplane.storage.fresh_mark import FRESH_MARK_MS
from dataplane.storage.health import ClosedLog
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.timestamp_reading import TimestampReading
from springtide.node.clock import BrokerClock, sleep_to_beat
from springtide.node.threads import Threads

_log = logging.getLogger(__name__)

TICK_WAITING_MS = 100
TICK_ALL_MS = 500
BACKGROUND_THREADS_MAX = 2
READ_SLICE_BYTES = 1024 * 1024
"""Of records that are read before they go for their age, between two rests."""
FIRST_CHECKPOINT_MS = 500
"""Within so long the first high watermark of a partition that a process has is stored. What a follower
refuses to cut (I15, no cut below the high watermark) must not be less because a process is young."""


class Maintenance:
    def __init__(
        self,
        *,
        table: PartitionTable,
        effects: EffectRunner,
        directory: DataDirectory,
        config: BrokerConfig,
        settings_for: Callable[[str], TopicSettings],
        clock: BrokerClock,
        threads: Threads,
    ) -> None:
        self._table = table
        self._effects = effects
        self._directory = directory
        self._config = config
        self._settings_for = settings_for
        self._clock = clock
        self._threads = threads
        self._limiter = trio.CapacityLimiter(BACKGROUND_THREADS_MAX)
        self._reported_failure = False
        self._scope = trio.CancelScope()

    def stop(self) -> None:
        """Touch the logs no more: the clean shutdown closes them."""
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            self.look_for_room()
            async with trio.open_nursery() as nursery:
                self._start(nursery)

    def _start(self, nursery: trio.Nursery) -> None:
        number = self._config.number
        nursery.start_soon(self._await_failure)
        nursery.start_soon(self._tick_waiting)
        nursery.start_soon(self._every, TICK_ALL_MS, self._tick_all)
        nursery.start_soon(self._every, number("log.flush.scheduler.interval.ms"), self.flush_due)
        nursery.start_soon(self._every, number("log.retention.check.interval.ms"), self.apply_retention)
        nursery.start_soon(
            self._every,
            number("replica.high.watermark.checkpoint.interval.ms"),
            self.checkpoint_high_watermarks,
        )
        nursery.start_soon(self._every, FIRST_CHECKPOINT_MS, self.checkpoint_first_high_watermarks)
        nursery.start_soon(
            self._every,
            number("log.flush.offset.checkpoint.interval.ms"),
            self.checkpoint_recovery_points,
        )
        nursery.start_soon(
            self._every, number("producer.id.expiration.check.interval.ms"), self.expire_producers
        )
        nursery.start_soon(self._every, ROUND_MS, self.seal_idle)
        nursery.start_soon(self._every, FRESH_MARK_MS, self.renew_fresh_mark)

    async def _every(self, interval_ms: int, work: Callable[[], object]) -> None:
        while True:
            await sleep_to_beat(self._clock, interval_ms)
            try:
                await work()  # type: ignore[misc]
            except (LogError, OSError) as error:
                self.on_storage_error(str(error))

    def on_log_error(self, hosted: HostedPartition, error: LogError) -> None:
        """Work on one log failed: its replica is over if its bytes are damaged, all are if the disk
        failed."""
        if isinstance(error, ClosedLog):
            return  # deleted or set aside while a thread worked on it
        if self._directory.failure is not None:
            self.on_storage_error(str(error))
            return
        _log.error("log_failed topic=%s partition=%d cause=%s", hosted.topic, hosted.partition, error)
        self._table.on_storage_failure(lambda other: other is hosted, str(error))

    def on_storage_error(self, detail: str) -> None:
        """The first failed write or fsync ends the directory for this process's life."""
        failure = self._directory.failure
        if failure is None:
            _log.error("log_failed cause=%s", detail)
            return
        if self._reported_failure:
            return
        self._reported_failure = True
        _log.error(
            "log_directory_failed path=%s cause=%s consequence=%s",
            self._directory.log_dir.path,
            failure,
            "its replicas are offline until this process is restarted on a working disk",
        )
        self._table.on_storage_failure(lambda _hosted: True, failure)

    # The loop's own

    async def _tick_all(self) -> None:
        self._tell_failure()
        self.look_for_room()
        self._table.tick()

    def look_for_room(self) -> None:
        """Look how much room is left on the disk. The file system answers from memory."""
        if self._directory.look_for_room(self._config.number("log.dir.reserve.bytes")):
            self._effects.fetching.on_room_changed()

    async def _tick_waiting(self) -> None:
        """Tick often while clients wait, and not at all while none does."""
        while True:
            await self._table.until_clients_wait()
            await self._clock.sleep_ms(TICK_WAITING_MS)
            self._table.tick_waiting()

    async def _await_failure(self) -> None:
        """Take the other replicas offline as soon as one has met the directory's failure."""
        await self._directory.met_failure.wait()
        self._tell_failure()

    def _tell_failure(self) -> None:
        if self._directory.failure is not None:
            self.on_storage_error(self._directory.failure)

    # Disk work

    async def flush_due(self) -> None:
        now_ms = self._clock.wall_ms()
        for hosted in [hosted for hosted in self._table if _is_flush_due(hosted.log, now_ms)]:
            options = hosted.log.options
            include_active = options.flush_messages is not None or options.flush_ms is not None
            try:
                await self._in_thread(
                    partial(hosted.log.durability.flush, include_active=include_active, now_ms=now_ms)
                )
            except LogError as error:  # one log's damage must not keep the others from their flush
                self.on_log_error(hosted, error)

    async def apply_retention(self) -> None:
        """A leader deletes by its limits, never beyond the high watermark (I26, start, high watermark and end
        in order), by time only what its clocks agree on, and not while it is silenced; a follower drops what
        its leader has dropped."""
        for number, hosted in enumerate(self._table, start=1):
            await self._table.take_turn(number)
            try:
                await self._read_what_looks_expired(hosted)
                detached = self._detach_expired(hosted)
                if detached:
                    _log.info(
                        "segments_deleted topic=%s partition=%d files=%d",
                        hosted.topic,
                        hosted.partition,
                        len(detached),
                    )
                    await self._in_thread(partial(hosted.log.unlink_detached, detached))
            except LogError as error:
                self.on_log_error(hosted, error)

    async def _read_what_looks_expired(self, hosted: HostedPartition) -> None:
        """Read, once, the records of the segments that only headers call old (I41, no header deletes
        records): slice by slice, with a rest as long as the slice took, for half of one processor at most."""
        while (reading := self._due_to_be_read(hosted)) is not None:
            is_whole = False
            while not is_whole:
                began_ms = self._clock.mono_ms()
                work = partial(hosted.log.read_timestamps, reading, bytes_max=READ_SLICE_BYTES)
                try:
                    is_whole = await self._threads.run(work, limiter=self._limiter)
                except LogChanged:
                    return  # the next round of retention reads anew
                if (spent_ms := self._clock.mono_ms() - began_ms) > 0:
                    await self._clock.sleep_ms(spent_ms)
            if hosted.is_forgotten or not reading.settle():
                return

    def _due_to_be_read(self, hosted: HostedPartition) -> TimestampReading | None:
        replica = hosted.replica
        if isinstance(replica.role, Follower) or not replica.role.may_serve(self._clock.mono_ms()):
            return None
        settings = self._settings_for(hosted.topic_id)
        return hosted.log.due_to_be_read(
            expiry_ms=self._clock.expiry_ms(),
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            high_watermark=replica.high_watermark,
        )

    def _detach_expired(self, hosted: HostedPartition) -> list[str]:
        replica = hosted.replica
        if isinstance(replica.role, Follower):
            return hosted.log.detach_old_segments()
        if not replica.role.may_serve(self._clock.mono_ms()):
            return []
        settings = self._settings_for(hosted.topic_id)
        before = hosted.log.log_start_offset
        detached = hosted.log.apply_retention(
            now_ms=self._clock.wall_ms(),
            expiry_ms=self._clock.expiry_ms(),  # asked again: a thread may have kept us long
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            high_watermark=replica.high_watermark,
        )
        if hosted.log.log_start_offset > before:
            self._effects.tell_log_start(hosted)
        return detached

    async def expire_producers(self) -> None:
        """Forget idle producers (6.6, forgetting producers): those that have been silent for so long by a
        time that was counted through all of it, in this process's life. A retry of a producer that was
        forgotten too early would be stored twice."""
        for number, hosted in enumerate(self._table, start=1):
            await self._table.take_turn(number)
            expiry_ms = self._clock.expiry_ms()
            log = hosted.log
            expiration_ms = log.options.producer_expiration_ms
            if expiry_ms is None or self._clock.agreed_for_ms() < expiration_ms:
                continue
            expired = log.producers.expire(now_ms=expiry_ms, expiration_ms=expiration_ms)
            if expired:
                _log.info(
                    "idle_producers_forgotten topic=%s partition=%d producers=%d",
                    hosted.topic,
                    hosted.partition,
                    expired,
                )

    async def seal_idle(self) -> None:
        await self._directory.seals.seal_idle(self._table)

    async def checkpoint_high_watermarks(self) -> None:
        self._directory.is_first_high_watermark_due = False
        stored = [(hosted, hosted.replica.high_watermark) for hosted in self._table]
        offsets = {hosted.key: high_watermark for hosted, high_watermark in stored}
        log_dir = self._directory.log_dir
        work = partial(log_dir.offsets.checkpoint_high_watermarks, offsets, cuts=log_dir.offsets.cuts)
        if await self._threads.run(work, limiter=self._limiter):
            for hosted, high_watermark in stored:
                hosted.is_high_watermark_stored = hosted.is_high_watermark_stored or high_watermark > 0
        else:
            self._directory.is_first_high_watermark_due = True

    async def checkpoint_first_high_watermarks(self) -> None:
        if self._directory.is_first_high_watermark_due:
            await self.checkpoint_high_watermarks()

    async def checkpoint_recovery_points(self) -> None:
        await self._in_thread(self._directory.log_dir.offsets.checkpoint_recovery_points)

    async def renew_fresh_mark(self) -> None:
        """In the loop, as an append is, which waits for no more: ten times a second the way to a thread and
        back would cost more than the mark."""
        log_dir = self._directory.log_dir
        if log_dir.must_renew_fresh_mark:
            log_dir.renew_fresh_mark()

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await self._threads.run(work, limiter=self._limiter)


def _is_flush_due(log: PartitionLog, now_ms: int) -> bool:
    return log.durability.is_flush_due(log.options, log_end_offset=log.log_end_offset, now_ms=now_ms)
