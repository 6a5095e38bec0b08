"""Batches, logs and directories for the storage tests: values in, no mocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from dataplane.core.log_port import LogChanged, LogSlice
from dataplane.storage.disk import Disk
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_settings import LogOptions, LogSettings, PartitionId
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import DamagedLog, OpenedLog, open_partition_log
from dataplane.storage.tail_cache import TailBudget
from springtide.contract.session import ShutdownKind
from springtide.wire.framing import FileChunk
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.record_batch import BatchHeader, decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.memory.disk import MemoryDisk
from tests.kit.memory.log import MemoryLog

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
PARTITION = PartitionId(TOPIC_ID, "orders", 0)
DIRECTORY = "/data/orders-0.AAAAAAAAAAAAAAAAAAAAAA"
SMALL = LogOptions(segment_bytes=600, index_interval_bytes=150, tail_bytes_max=8192)
NO_TAIL = replace(SMALL, tail_bytes_max=0)
"""Every read goes to the file."""


def batch(
    base_offset: int,
    *,
    records: int = 1,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = -1,
    timestamp: int = 1000,
    value: bytes = b"v",
    is_control: bool = False,
    is_transactional: bool = False,
) -> bytes:
    return encode_batch(
        [NewRecord(value=value, timestamp=timestamp + index) for index in range(records)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=base_sequence,
        is_control=is_control,
        is_transactional=is_transactional,
    )


def marker(
    base_offset: int,
    producer_id: int,
    outcome: Outcome = Outcome.ABORT,
    *,
    producer_epoch: int = 0,
    coordinator_epoch: int = 1,
    leader_epoch: int = 0,
    timestamp: int = 1000,
) -> bytes:
    return encode_marker(
        outcome,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        timestamp_ms=timestamp,
    )


def header_of(encoded: bytes) -> BatchHeader:
    return decode_header(encoded)


def append(log: PartitionLog | MemoryLog, *batches: bytes, now_ms: int = 1000) -> None:
    log.append([decode_header(encoded) for encoded in batches], list(batches), now_ms=now_ms, are_read=True)


def settings_for(disk: Disk, *, options: LogOptions = SMALL, lowered: list[int] | None = None) -> LogSettings:
    """`lowered` counts the calls that persist a lowered recovery point."""
    calls = [] if lowered is None else lowered
    return LogSettings(
        disk,
        options,
        DirectoryHealth("/data"),
        TailBudget(),
        lambda: calls.append(1),
        lambda _partition, _end_offset: None,
    )


def open_log(
    disk: Disk,
    *,
    last_shutdown: ShutdownKind = ShutdownKind.CLEAN,
    recovery_point: int = 0,
    high_watermark: int = 0,
    log_start_offset: int = 0,
    options: LogOptions = SMALL,
    settings: LogSettings | None = None,
) -> OpenedLog | DamagedLog:
    disk.mkdir(DIRECTORY)
    disk.fsync_dir("")
    disk.fsync_dir("/data")
    return open_partition_log(
        settings or settings_for(disk, options=options),
        DIRECTORY,
        partition=PARTITION,
        last_shutdown=last_shutdown,
        recovery_point=recovery_point,
        high_watermark=high_watermark,
        log_start_offset=log_start_offset,
        now_ms=1000,
    )


def opened(entry: OpenedLog | DamagedLog) -> PartitionLog:
    assert isinstance(entry, OpenedLog), entry
    return entry.log


def new_log(options: LogOptions = SMALL) -> tuple[MemoryDisk, PartitionLog]:
    disk = MemoryDisk()
    return disk, opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, options=options))


def filled(count: int = 20, options: LogOptions = NO_TAIL) -> tuple[MemoryDisk, PartitionLog]:
    """A log of `count` batches in segments of about four."""
    disk, log = new_log(options)
    for offset in range(count):
        append(log, batch(offset, value=b"v" * 60))
    return disk, log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def content(piece: LogSlice) -> bytes:
    """The bytes of a slice, from wherever they are."""
    parts: list[bytes] = []
    for part in piece.parts:
        if isinstance(part, FileChunk):
            parts.append(part.source.pread(part.length, part.position))
        else:
            parts.append(bytes(part))
    joined = b"".join(parts)
    assert len(joined) == piece.size_bytes
    return joined


def read_all(log: PartitionLog, *, start: int | None = None, max_bytes: int = 10_000) -> bytes:
    """Everything from the log's start on, slice by slice."""
    log_offset = log.log_start_offset if start is None else start
    parts: list[bytes] = []
    while True:
        piece = log.read(log_offset, max_bytes=max_bytes, end_offset=log.log_end_offset)
        if not piece.size_bytes:
            return b"".join(parts)
        parts.append(content(piece))
        assert piece.next_offset > log_offset
        log_offset = piece.next_offset


def joined(batches: Iterable[bytes]) -> bytes:
    return b"".join(batches)


@contextmanager
def at_each_operation(disk: MemoryDisk, read: Callable[[], None]) -> Iterator[list[str]]:
    """Read as a thread would, before and after each operation on the disk that is made within. A reader may
    be told to look again. Yield the operations."""
    operations: list[str] = []

    def come_between(operation: str, _path: str, _is_done: bool) -> None:
        operations.append(operation)
        disk.on_operation = None
        with suppress(LogChanged):
            read()
        disk.on_operation = come_between

    disk.on_operation = come_between
    yield operations
    disk.on_operation = None
