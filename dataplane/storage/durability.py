"""What makes a log durable, in threads: flushes, and the recovery point that tells how far they came."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Lock

from dataplane.core.producer_state import ProducerStates
from dataplane.storage.disk import Disk
from dataplane.storage.epoch_file import EpochFile
from dataplane.storage.health import LogHealth
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.round_file import RoundFile
from dataplane.storage.segment_list import SegmentList, Unflushed


class RecoveryPoint:
    """Everything below `offset` was fsynced *after* its last change (KAFKA-10101).

    A flush in a thread raises it, a cut on the loop lowers it. A cut that happens while a flush runs holds
    the flush back, for what the flush syncs from the cut on is gone. `on_lowered` makes a lowered offset
    durable before it returns.
    """

    __slots__ = ("_cut_under_way", "_lock", "_lowest_cut", "_on_lowered", "offset")

    def __init__(self, offset: int, on_lowered: Callable[[], None]) -> None:
        self.offset = offset
        self._on_lowered = on_lowered
        self._lock = Lock()  # never held over I/O
        self._lowest_cut: int | None = None  # since the running flush began
        self._cut_under_way: int | None = None

    def begin_flush(self) -> None:
        """Note the cuts from now on. The caller looks afterwards at what there is to be flushed."""
        with self._lock:
            self._lowest_cut = self._cut_under_way

    def end_flush(self, end_offset: int) -> int:
        """Raise the recovery point to the end of what was flushed, or to the lowest cut since. Return it."""
        with self._lock:
            if self._lowest_cut is not None:
                end_offset = min(end_offset, self._lowest_cut)
            self.offset = max(self.offset, end_offset)
            return self.offset

    @contextmanager
    def cutting(self, log_offset: int) -> Iterator[None]:
        """Mark a cut as under way, from before the recovery point is lowered until all is cut. This holds
        back a concurrent flush, also one that begins and ends meanwhile: what it syncs from this offset on is
        cut.
        """
        with self._lock:
            self._cut_under_way = log_offset
            if self._lowest_cut is None or log_offset < self._lowest_cut:
                self._lowest_cut = log_offset
        try:
            yield
        finally:
            with self._lock:
                self._cut_under_way = None

    def lower(self, log_offset: int) -> None:
        """Lower the recovery point, on disk before anything is cut; a later torn tail would else pass for
        flushed data.
        """
        with self._lock:
            self.offset = min(self.offset, log_offset)
        self._on_lowered()


class Durability:
    """The flushes of one log."""

    __slots__ = (
        "_disk",
        "_epoch_file",
        "_health",
        "_last_flush_ms",
        "_round_file",
        "_segments",
        "lock",
        "recovery_point",
    )

    def __init__(
        self,
        disk: Disk,
        health: LogHealth,
        segments: SegmentList,
        epoch_file: EpochFile,
        recovery_point: RecoveryPoint,
        *,
        round_file: RoundFile,
        now_ms: int,
    ) -> None:
        self._disk = disk
        self._health = health
        self._segments = segments
        self._epoch_file = epoch_file
        self._round_file = round_file
        self._last_flush_ms = now_ms
        self.recovery_point = recovery_point
        self.lock = Lock()  # one flush at a time

    def is_flush_due(self, options: LogOptions, *, log_end_offset: int, now_ms: int) -> bool:
        """Return whether flush.messages, flush.ms or a waiting closed segment makes a flush due."""
        if self._segments.has_unflushed:
            return True
        if options.flush_messages is None and options.flush_ms is None:
            return False
        unflushed = log_end_offset - self.recovery_point.offset
        return unflushed > 0 and (
            (options.flush_messages is not None and unflushed >= options.flush_messages)
            or (options.flush_ms is not None and now_ms - self._last_flush_ms >= options.flush_ms)
        )

    def flush(self, *, include_active: bool = True, now_ms: int | None = None) -> int:
        """fsync what was written until now, raise the recovery point and return it. Thread: the loop may go
        on appending, rolling, truncating and deleting. Without `include_active`, flush only what rolls left
        behind. The recovery point is durable when the directory writes its checkpoint.
        """
        with self.lock:
            self._health.check()
            unflushed = self._begin(include_active=include_active)
            with self._health.guarded("flushing"):
                are_names_new = self._segments.fsync(unflushed)
                are_names_new = self._round_file.fsync() or are_names_new
                if self._epoch_file.fsync() or are_names_new:
                    self._disk.fsync_dir(self._health.path)
            if now_ms is not None:
                self._last_flush_ms = now_ms
            return self.end(unflushed)

    def begin_with_others(self) -> Unflushed:
        """Begin a flush by writing what is only in memory: the caller, who holds `lock`, makes it durable."""
        unflushed = self._begin(include_active=True)
        self._epoch_file.on_syncing()
        self._round_file.on_syncing()
        return unflushed

    def _begin(self, *, include_active: bool) -> Unflushed:
        self.recovery_point.begin_flush()
        return self._segments.take_unflushed(include_active=include_active)

    def end(self, unflushed: Unflushed) -> int:
        """Note that these files are durable. Return the recovery point."""
        self._segments.on_flushed(unflushed)
        return self.recovery_point.end_flush(unflushed.end_offset)

    def persist_epochs(self) -> None:
        """Write the leader-epoch file if it is behind, and make it durable. Thread."""
        self._health.check()
        with self._health.guarded("persisting epochs of"):
            if self._epoch_file.fsync():
                self._disk.fsync_dir(self._health.path)

    def on_syncing_epochs(self) -> None:
        """See EpochFile.on_syncing."""
        self._epoch_file.on_syncing()

    def settle_after_recovery(self, producers: ProducerStates) -> None:
        """Write what a scan found good, so that the next scan can begin later. A flush follows."""
        with self._health.guarded("recovering"):
            self._epoch_file.settle()
            self._round_file.settle()
            self._segments.write_snapshot(producers)
        self._segments.distrust()


def flush_together(logs: Sequence[Durability], sync_all: Callable[[], None]) -> None:
    """Flush many logs at the price of one: `sync_all` makes everything durable that they have written.
    Thread.
    """
    with ExitStack() as locks:
        for log in logs:
            locks.enter_context(log.lock)
        flushes = [(log, log.begin_with_others()) for log in logs]
        sync_all()
        for log, unflushed in flushes:
            log.end(unflushed)
