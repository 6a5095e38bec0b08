"""The data directory as the running broker sees it: opened, recovered, and worked on in threads.

Everything that fsyncs, scans or unlinks is handed to a thread here; what a replica waits for comes back
to the loop through a callback. Which log may be created or deleted is decided elsewhere (partitions.py);
how bytes reach the disk is storage's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import trio
from prometheus_client.metrics_core import Metric

from dataplane.core.effects import CopyDivergent
from dataplane.core.log_port import LogChanged, LogError, RottenBytes
from dataplane.core.room import reserve_of
from dataplane.core.titles import CorruptTitle, with_title, without_title
from dataplane.shell.config import TopicSettings
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.seals import Seals
from dataplane.storage.checkpoints import (
    CHECKPOINT_BYTES_MAX,
)
from dataplane.storage.disk import Disk, read_whole, replace_durably
from dataplane.storage.divergent import NotWritten, copy_divergent
from dataplane.storage.health import ClosedLog
from dataplane.storage.log_dir import DIVERGENT, LogDir
from dataplane.storage.log_settings import PartitionId
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.partition_state import PartitionKey, PartitionState, TopicState
from springtide.contract.session import DiskSpace
from springtide.levels import UNTOLD, Level
from springtide.node.clock import Clock
from springtide.node.controller_client import Seen
from springtide.node.status import gauge
from springtide.node.threads import Threads

_log = logging.getLogger(__name__)

CONTROLLER_EPOCH_FILE = "controller-epoch"
CONTROLLER_EPOCH_BYTES_MAX = 256
PERSIST_EPOCHS_PAUSE_MS: Final = 1_000
"""A broker that takes thousands of leaderships over serves them first."""
SAVE_RECORDS_EVERY_MS = 1_000
"""A witness of the last second is worth less than a durable write for each change in the cluster."""
SCRUB_FILE = "scrub-checkpoint"
UNLINKED_AT_ONCE: Final = 64
"""Logs that are unlinked in one go of a thread: they share an fsync of the directory."""
CREATING_THREADS: Final = 4
"""Threads that make logs side by side, so that one waits for its fsync while another works; one is enough
where none waits."""


def encode_seen(seen: Seen) -> bytes:
    """Return what `read_seen` reads, without its title. At level 0 it is what release 0.1 wrote.

    The level stands in front, where 0.1 looks for an epoch and finds none: it forgets what the file says.
    Behind the lineage it would take it for a part of that, and a broker that is started again with 0.1 would
    witness a lineage that never was, which stops the whole cluster."""
    level = f"{seen.level}: " if seen.level else ""
    return f"{level}{seen.controller_epoch} {seen.records} {seen.lineage}".encode()


def read_seen(disk: Disk, path: str) -> Seen:
    """Return the newest that this directory's broker heard from a controller (I5, one writer of metadata). A
    file with a flipped bit says nothing: a higher epoch than any controller's would stop the whole cluster.
    Older releases wrote no title, at first the controller epoch alone. Raise OSError, NewerFormat."""
    encoded = read_whole(disk, f"{path}/{CONTROLLER_EPOCH_FILE}", bytes_max=CONTROLLER_EPOCH_BYTES_MAX)
    with suppress(CorruptTitle):
        encoded = without_title(CONTROLLER_EPOCH_FILE, encoded or b"")
    try:
        before, is_told, behind = (encoded or b"").partition(b":")  # a level, since level 1
        level = Level(int(before)) if is_told else UNTOLD
        match (behind if is_told else before).split():
            case [epoch]:
                return Seen(ControllerEpoch(int(epoch)))
            case [epoch, records, *lineage]:
                named = b"".join(lineage).decode("ascii")
                return Seen(ControllerEpoch(int(epoch)), named, int(records), level)
    except ValueError:
        pass
    if encoded:
        _log.warning(
            "controller_epoch_unreadable path=%s consequence=%s", path, "what it witnessed is forgotten"
        )
    return Seen()


def _why_cut(effect: CopyDivergent) -> str:
    if effect.cut_offset >= effect.next_offset:
        return "the leader has deleted these offsets; whether it had the same records here is not known"
    if effect.cut_offset < effect.high_watermark:
        return "below the high watermark: an unclean election, or this replica starts again without a seat"
    return "the leader's log has other records here"


class DataDirectory:
    """The work of the table, maintenance and shutdown on the log directory: on the loop, with threads."""

    def __init__(
        self,
        *,
        broker_id: int,
        disk: Disk,
        log_dir: LogDir,
        settings_for: Callable[[str], TopicSettings],
        clock: Clock,
        threads: Threads,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        on_storage_error: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self.log_dir = log_dir
        self._settings_for = settings_for
        self._clock = clock
        self._threads = threads
        self._spawn = spawn
        self.on_storage_error = on_storage_error
        self._was_short = False
        self.seals = Seals(
            broker_id=broker_id, threads=threads, spawn=spawn, on_storage_error=on_storage_error
        )
        self._copying: dict[tuple[PartitionKey, int], None] = {}
        self._epochs_unpersisted: dict[PartitionKey, PartitionLog] = {}
        self._is_persisting_epochs = False
        self._log_starts_moved: dict[PartitionKey, tuple[PartitionLog, Callable[[int], None]]] = {}
        self._is_storing_log_starts = False
        self.is_first_high_watermark_due = False
        """True if some partition has a high watermark that no checkpoint of this process holds."""
        self.met_failure = trio.Event()
        """Set once a replica has gone offline on the directory's failure."""
        self._deleted: list[str] = []
        self._is_unlinking = False
        self._kept: list[PartitionLog] = []
        self._is_flushing_kept = False
        #: The highest that was to be saved.
        self._seen = Seen()
        self._is_saving_seen = False

    def collect(self) -> Iterator[Metric]:
        """Yield the directory's metrics. The file system answers from memory, so this waits for no disk."""
        yield gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Log directories that failed",
            int(self.failure is not None),
        )
        space = self.space()
        if space is not None:
            yield gauge("springtide_log_dir_free_bytes", "Bytes left where the logs are", space.free_bytes)
            yield gauge(
                "springtide_log_dir_total_bytes", "Size of the file system of the logs", space.total_bytes
            )
            yield gauge(
                "springtide_log_dir_reserve_bytes",
                "With fewer bytes left no records are taken",
                space.reserve_bytes,
            )
            yield gauge(
                "springtide_log_dir_is_short",
                "1 while no records are taken, because fewer bytes than the reserve are left",
                int(space.is_short),
            )

    @property
    def failure(self) -> str | None:
        return self.log_dir.health.failure

    def offline_ids(self) -> tuple[str, ...]:
        return () if self.failure is None else (self.log_dir.claim.meta.dir_id,)

    def space(self) -> DiskSpace | None:
        """Return the free and whole space of the directory's file system, which answers from memory, or None
        if it can't be read."""
        try:
            free, total = self._disk.free_bytes(self.log_dir.path), self._disk.total_bytes(self.log_dir.path)
        except OSError:
            return None
        if total <= 0:
            return None
        room = self.log_dir.health.room
        return DiskSpace(
            free_bytes=free,
            total_bytes=total,
            reserve_bytes=room.reserve_bytes,
            is_short=room.is_short,
        )

    def look_for_room(self, reserve_bytes: int) -> bool:
        """Look how much room is left; return whether there is too little since the last look, or enough
        again. Between two looks the room counts what is appended. A file system that does not tell has no
        reserve. reserve_bytes: -1: what suits the file system."""
        space = self.space()
        room = self.log_dir.health.room
        if space is None:
            room.on_look(free_bytes=0, reserve_bytes=0)
        else:
            reserve = reserve_of(space.total_bytes) if reserve_bytes < 0 else reserve_bytes
            room.on_look(free_bytes=space.free_bytes, reserve_bytes=reserve)
        if room.is_short is self._was_short:
            return False
        self._was_short = room.is_short
        if room.is_short:
            _log.error("log_dir_short path=%s cause=%s", self.log_dir.path, room)
        else:
            _log.info("log_dir_has_room path=%s free_bytes=%d", self.log_dir.path, room.left_bytes)
        return True

    # Logs

    async def create_logs(self, states: Sequence[PartitionState]) -> Sequence[PartitionLog]:
        """Make empty logs, in this order, with durable directories and id files. Raises LogError."""
        partitions = [PartitionId(state.topic_id, state.topic, state.partition) for state in states]
        make = partial(self.log_dir.make, now_ms=self._clock.wall_ms())
        logs: list[PartitionLog | None] = [None] * len(partitions)
        failures: list[LogError] = []

        width = 1 if self.log_dir.syncs_all else CREATING_THREADS

        async def make_some(first: int) -> None:
            numbers = range(first, len(partitions), width)
            try:
                some = await self._threads.run(lambda: [make(partitions[number]) for number in numbers])
            except LogError as failure:
                failures.append(failure)
            else:
                logs[first::width] = some

        async with trio.open_nursery() as nursery:
            for first in range(min(width, len(partitions))):
                nursery.start_soon(make_some, first)
        if failures:
            raise failures[0]
        await self._threads.run(self.log_dir.sync_names)
        made = [log for log in logs if log is not None]
        for state, log in zip(states, made, strict=True):
            log.options = self._settings_for(state.topic_id).log
        return made

    def start_copying(
        self, hosted: HostedPartition, effect: CopyDivergent, done: Callable[[str | None], None]
    ) -> None:
        """Copy a range to `divergent/` in a thread; `done` gets None or what went wrong."""
        token = (hosted.key, effect.hold_id)
        if token in self._copying:
            return
        self._copying[token] = None
        wall_ms = self._clock.wall_ms()
        reason = _why_cut(effect)

        def copy() -> str | None:
            written = copy_divergent(
                self._disk,
                f"{self.log_dir.path}/{DIVERGENT}",
                hosted.log,
                first_offset=effect.first_offset,
                high_watermark=effect.high_watermark,
                leader_epoch=effect.leader_epoch,
                reason=reason,
                now_ms=wall_ms,
                health=self.log_dir.health,
            )
            if isinstance(written, NotWritten):
                return written.reason
            _log.info(
                "divergence_kept topic=%s partition=%d first_offset=%d next_offset=%d path=%s cause=%s",
                hosted.topic,
                hosted.partition,
                effect.first_offset,
                effect.next_offset,
                written.path,
                reason,
            )
            return None

        async def work() -> None:
            try:
                error = await self._threads.run(copy)
            except LogError as failure:
                error = str(failure)
                if not isinstance(failure, ClosedLog | LogChanged | RottenBytes):
                    self.on_storage_error(error)
            finally:
                self._copying.pop(token, None)
            done(error)

        self._spawn(work)

    def start_persist_epochs(self, hosted: HostedPartition) -> None:
        """One round at a time, of all that were asked for during the last one and the pause after it."""
        self._epochs_unpersisted[hosted.key] = hosted.log
        if not self._is_persisting_epochs:
            self._is_persisting_epochs = True
            self._spawn(self._persist_epochs)

    async def _persist_epochs(self) -> None:
        try:
            while self._epochs_unpersisted:
                logs = list(self._epochs_unpersisted.values())
                self._epochs_unpersisted.clear()
                await self._threads.run(partial(self.log_dir.persist_epochs, logs))
                if self._epochs_unpersisted:
                    await self._clock.sleep_ms(PERSIST_EPOCHS_PAUSE_MS)
        except LogError as failure:
            if self.failure is not None:
                self.on_storage_error(str(failure))
        finally:
            self._is_persisting_epochs = False

    def start_storing_log_start(self, hosted: HostedPartition, done: Callable[[int], None]) -> None:
        """Make the log start durable, with all others that moved, in a thread; then call `done` with it. One
        write at a time: what is asked for meanwhile goes with the next."""
        self._log_starts_moved[hosted.key] = (hosted.log, done)
        if not self._is_storing_log_starts:
            self._is_storing_log_starts = True
            self._spawn(self._store_log_starts)

    async def _store_log_starts(self) -> None:
        try:
            while self._log_starts_moved:
                moved, self._log_starts_moved = self._log_starts_moved, {}
                stored = [(log.log_start_offset, done) for log, done in moved.values()]
                cuts = self.log_dir.offsets.cuts
                await self._threads.run(self.log_dir.offsets.checkpoint_log_starts)
                if (
                    self.log_dir.offsets.cuts != cuts
                ):  # a log may have begun anew, lower, before it was written
                    self._log_starts_moved = moved | self._log_starts_moved
                    continue
                for offset, done in stored:
                    done(offset)
        except LogError as failure:
            self.on_storage_error(str(failure))
        finally:
            self._is_storing_log_starts = False

    def start_vouching(self, hosted: HostedPartition, done: Callable[[], None]) -> None:
        """Open a sealed log, or make it durable, in a thread; then call `done`."""
        self.seals.start_vouching(hosted, done)

    def start_disowning(self) -> None:
        """Note that the machine went back (3.10, a host that goes back): no later process may vouch for these
        logs."""

        async def work() -> None:
            try:
                await self.disown()
            except LogError as failure:
                self.on_storage_error(str(failure))

        self._spawn(work)

    async def delete_log(self, log: PartitionLog) -> None:
        """Take the log out of sight at once (rename); it is unlinked later."""
        self._deleted.append(self.log_dir.delete((log.partition.topic_id, log.partition.partition)))
        if not self._is_unlinking:
            self._is_unlinking = True
            self._spawn(self._unlink_deleted)

    async def _unlink_deleted(self) -> None:
        try:
            while self._deleted:
                paths, self._deleted = self._deleted[:UNLINKED_AT_ONCE], self._deleted[UNLINKED_AT_ONCE:]
                await self._threads.run(partial(self.log_dir.unlink_deleted, paths))
        except LogError as failure:
            self.on_storage_error(str(failure))
        finally:
            self._is_unlinking = False

    def keep_log(self, log: PartitionLog, high_watermark: int) -> None:
        """Make a log durable that no replica writes to any more, and remember its high watermark."""
        self.log_dir.offsets.keep(
            (log.partition.topic_id, log.partition.partition), high_watermark=high_watermark
        )
        self._kept.append(log)
        if not self._is_flushing_kept:
            self._is_flushing_kept = True
            self._spawn(self._flush_kept)

    async def _flush_kept(self) -> None:
        try:
            while self._kept:
                log = self._kept.pop()
                try:
                    await self._threads.run(log.durability.flush)
                except LogError as failure:  # deleted meanwhile, or damaged: the next start finds that
                    if self.failure is not None:
                        self.on_storage_error(str(failure))
        finally:
            self._is_flushing_kept = False

    async def quarantine_log(
        self,
        log: PartitionLog,
        reason: str,
        *,
        high_watermark: int,
        state: PartitionState | None,
        topic_state: TopicState | None,
    ) -> None:
        """Move the log into quarantine, durably, with what is known of it."""
        key = (log.partition.topic_id, log.partition.partition)
        quarantine = partial(
            self.log_dir.quarantine,
            key,
            why=reason,
            now_ms=self._clock.wall_ms(),
            high_watermark=high_watermark,
            state=state,
            topic_state=topic_state,
        )
        moved = await self._threads.run(quarantine)
        _log.warning(
            "log_set_aside topic=%s partition=%d path=%s cause=%s", log.partition.topic, key[1], moved, reason
        )

    def set_aside(self) -> Sequence[SetAsideLog]:
        """Return all that is in quarantine."""
        return [note.log for _, note in sorted(self.log_dir.quarantined.notes.items())]

    async def take_up_log(self, key: PartitionKey) -> PartitionLog | None:
        """Bring the log back from quarantine. Return None, and leave it there, if it is not what was set
        aside."""
        take_up = partial(self.log_dir.take_up, key, now_ms=self._clock.wall_ms())
        log = await self._threads.run(take_up)
        if log is None:
            _log.warning("log_not_taken_up topic_id=%s partition=%d cause=%s", *key, "not what was set aside")
        else:
            _log.info("log_taken_up topic_id=%s partition=%d", *key)
        return log

    # Registration, checkpoints, the clean stop

    async def on_registering(self, incarnation_id: str) -> None:
        """Write down this incarnation before the first request for an epoch: a successor must be able to name
        it."""
        await self._threads.run(partial(self.log_dir.claim.on_registering, incarnation_id))

    async def disown(self) -> None:
        """Note durably that this process went back in time: the next one must not vouch for these logs."""
        await self._threads.run(self.log_dir.claim.disown)

    async def on_registered(self, *, cluster_id: str, broker_epoch: BrokerEpoch) -> None:
        """Store the registration durably before the new incarnation does anything. Raise LogDirRefused."""
        await self._threads.run(
            lambda: self.log_dir.on_registered(cluster_id=cluster_id, broker_epoch=broker_epoch)
        )
        if not self.log_dir.claim.is_mount_marked:
            _log.warning(
                "kills_look_like_power_losses path=%s cause=%s consequence=%s",
                self.log_dir.path,
                "this kernel or file system can't prove that what a killed process wrote is still there",
                "after each unclean stop this broker gives up its seats",
            )

    def start_saving_seen(self, seen: Seen) -> None:
        """One write at a time: of two threads the earlier could else be done last."""
        self._seen = seen
        if not self._is_saving_seen:
            self._is_saving_seen = True
            self._spawn(self._save_seen)

    async def _save_seen(self) -> None:
        path = f"{self.log_dir.path}/{CONTROLLER_EPOCH_FILE}"
        saved = Seen()
        try:
            while saved != self._seen:
                if saved.controller_epoch == self._seen.controller_epoch:
                    await self._clock.sleep_ms(SAVE_RECORDS_EVERY_MS)
                saved = self._seen
                content = with_title(CONTROLLER_EPOCH_FILE, encode_seen(saved))
                await self._threads.run(partial(replace_durably, self._disk, path, content))
        except OSError as error:
            self.on_storage_error(str(error))
        finally:
            self._is_saving_seen = False

    def read_scrub_progress(self) -> bytes:
        """Return the progress as it was written last; empty if never, or if it can't be read. Thread."""
        path = f"{self.log_dir.path}/{SCRUB_FILE}"
        try:
            return read_whole(self._disk, path, bytes_max=CHECKPOINT_BYTES_MAX) or b""
        except OSError as error:
            _log.warning("scrub_progress_unreadable path=%s cause=%s", path, error)
            return b""

    def write_scrub_progress(self, encoded: bytes) -> None:
        """Thread. Raises OSError."""
        replace_durably(self._disk, f"{self.log_dir.path}/{SCRUB_FILE}", encoded)

    async def close_cleanly(self, high_watermarks: dict[PartitionKey, int]) -> bool:
        return await self._threads.run(partial(self.log_dir.close_cleanly, high_watermarks))
