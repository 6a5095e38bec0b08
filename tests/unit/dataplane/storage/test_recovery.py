"""What opening a log believes, cuts and refuses, by how the last process stopped."""

from __future__ import annotations

import errno
from random import Random

import pytest

from dataplane.core.log_port import LogError, SuspectBytes
from dataplane.core.producer_state import Duplicate
from dataplane.storage.health import CorruptLog
from dataplane.storage.recovery import DamagedLog, OpenedLog
from dataplane.storage.scan import ScanStop
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import HEADER_BYTES, decode_header
from tests.kit.dataplane.storage import (
    DIRECTORY,
    SMALL,
    append,
    batch,
    content,
    new_log,
    open_log,
    opened,
    read_all,
    settings_for,
)
from tests.kit.memory.disk import MemoryDisk

FIRST_LOG = f"{DIRECTORY}/00000000000000000000.log"
CRASHES = [ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH]


def written(count: int, *, flushed: int = 0, value: bytes = b"v") -> tuple[MemoryDisk, list[bytes]]:
    """A log of `count` batches in one segment, the first `flushed` of them fsynced."""
    disk, log = new_log(options=type(SMALL)(index_interval_bytes=150))
    batches = [batch(i, value=value) for i in range(count)]
    for i, encoded in enumerate(batches):
        append(log, encoded)
        if i + 1 == flushed:
            assert log.durability.flush() == flushed
    return disk, batches


@pytest.mark.parametrize("kind", CRASHES)
@pytest.mark.parametrize("torn", [1, 20, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 3])
def test_a_torn_last_append_is_cut_and_reported(kind: ShutdownKind, torn: int) -> None:
    disk, batches = written(3, flushed=2)
    disk.content(FIRST_LOG).extend(batch(3, value=b"x" * 50)[:torn])
    entry = open_log(disk, last_shutdown=kind, recovery_point=2, high_watermark=3)
    assert isinstance(entry, OpenedLog)
    assert (entry.report.cut_bytes, entry.report.cut_reason) == (torn, ScanStop.TORN)
    assert entry.report.log_end_offset == entry.log.log_end_offset == 3
    assert read_all(entry.log) == b"".join(batches)
    assert disk.content(FIRST_LOG) == b"".join(batches)
    assert entry.log.recovery_point == 3


def test_a_tail_of_zeros_is_an_end_after_a_power_cut() -> None:
    disk, batches = written(2, flushed=2)
    disk.content(FIRST_LOG).extend(bytes(3000))
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=2)
    assert isinstance(entry, OpenedLog)
    assert entry.report.cut_reason is ScanStop.ZEROS
    assert read_all(entry.log) == b"".join(batches)


def flip(disk: MemoryDisk, batches: list[bytes], index: int) -> None:
    disk.content(FIRST_LOG)[sum(map(len, batches[:index])) + HEADER_BYTES] ^= 1


def test_a_flipped_bit_beyond_the_recovery_point_is_cut_after_a_power_cut_only() -> None:
    disk, batches = written(5, flushed=2)
    flip(disk, batches, 3)
    damaged = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=2)
    assert isinstance(damaged, DamagedLog)  # the page cache was intact, and offset 3 was acknowledged
    assert damaged.valid_end_offset == 3
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=2)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.log_end_offset, entry.report.cut_reason) == (3, ScanStop.CORRUPT)


@pytest.mark.parametrize("kind", CRASHES)
def test_a_flipped_bit_below_the_recovery_point_is_damage_and_nothing_is_cut(kind: ShutdownKind) -> None:
    disk, batches = written(5, flushed=4)
    flip(disk, batches, 1)
    before = bytes(disk.content(FIRST_LOG))
    damaged = open_log(disk, last_shutdown=kind, recovery_point=4)
    assert isinstance(damaged, DamagedLog)
    assert (damaged.valid_end_offset, damaged.recovery_point) == (1, 4)
    assert disk.content(FIRST_LOG) == before


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *CRASHES])
def test_a_flushed_tail_that_is_gone_is_damage(kind: ShutdownKind) -> None:
    disk, batches = written(3, flushed=3)
    del disk.content(FIRST_LOG)[sum(map(len, batches[:2])) :]
    assert isinstance(open_log(disk, last_shutdown=kind, recovery_point=3), DamagedLog)


def test_a_cut_below_the_high_watermark_after_a_process_crash_is_damage() -> None:
    disk, _batches = written(3)
    del disk.content(FIRST_LOG)[-5:]
    assert isinstance(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, high_watermark=3), DamagedLog)


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH])
def test_a_log_that_ends_below_its_high_watermark_refutes_that_only_a_process_stopped(
    kind: ShutdownKind,
) -> None:
    """What was committed here can't be missing after such a stop: something else happened to this disk."""
    disk, _ = written(3)
    before = bytes(disk.content(FIRST_LOG))
    entry = open_log(disk, last_shutdown=kind, high_watermark=5)
    assert isinstance(entry, DamagedLog)
    assert (entry.valid_end_offset, entry.high_watermark, entry.refutes) == (3, 5, True)
    assert bytes(disk.content(FIRST_LOG)) == before


def test_after_a_machine_crash_what_is_known_to_be_committed_and_is_missing_is_told() -> None:
    disk, _ = written(3)
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, high_watermark=5)
    assert isinstance(entry, OpenedLog)
    assert entry.report.missing == (3, 5)


def test_rot_refutes_nothing_but_its_own_log() -> None:
    disk, batches = written(5, flushed=4)
    flip(disk, batches, 1)
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=4, high_watermark=5)
    assert isinstance(entry, DamagedLog)
    assert not entry.refutes


def test_no_segment_left_of_a_flushed_log_is_damage_and_of_a_new_one_is_not() -> None:
    disk, _ = written(3, flushed=3)
    disk.unlink(FIRST_LOG)
    assert isinstance(open_log(disk, last_shutdown=ShutdownKind.CLEAN, recovery_point=3), DamagedLog)
    assert opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)).log_end_offset == 0


def test_a_batch_whose_offset_goes_back_ends_the_scan() -> None:
    disk, _ = written(2)
    disk.content(FIRST_LOG).extend(batch(1))
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.log_end_offset, entry.report.cut_reason) == (2, ScanStop.CORRUPT)


def test_a_claimed_length_beyond_the_file_is_not_allocated() -> None:
    disk, _ = written(1)
    bad = bytearray(batch(1))
    bad[8:12] = (2**31 - 1).to_bytes(4, "big")
    disk.content(FIRST_LOG).extend(bad)
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(entry, OpenedLog)
    assert entry.report.cut_reason is ScanStop.TORN


def test_a_segment_that_does_not_continue_the_log_is_dropped_after_a_power_cut() -> None:
    """A dropped segment that a power cut brings back is no data."""
    disk, batches = written(3)
    stray = disk.open(f"{DIRECTORY}/00000000000000000009.log", create=True)
    stray.pwrite(batch(9), 0)
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(entry, OpenedLog)
    assert read_all(entry.log) == b"".join(batches)
    assert entry.report.cut_bytes == len(batch(9))
    assert not disk.exists(f"{DIRECTORY}/00000000000000000009.log")


def test_a_torn_or_lying_index_costs_time_and_no_data() -> None:
    disk, log = new_log()
    batches = [batch(i, value=b"v" * 40) for i in range(40)]
    for encoded in batches:
        append(log, encoded)
    log.close_cleanly()
    indexes = [name for name in disk.listdir(DIRECTORY) if name.endswith(".index")]
    assert len(indexes) > 3
    del disk.content(f"{DIRECTORY}/{indexes[0]}")[-3:]  # torn
    disk.unlink(f"{DIRECTORY}/{indexes[1]}")
    lying = disk.content(f"{DIRECTORY}/{indexes[2]}")
    lying[0:8] = (1).to_bytes(4, "big") + (7).to_bytes(4, "big")  # no batch begins at position 7
    lying = disk.content(f"{DIRECTORY}/{indexes[3]}")
    lying[-16:-8] = (1).to_bytes(4, "big") + (2**31).to_bytes(4, "big")  # beyond the file
    log = opened(open_log(disk, recovery_point=40, options=type(SMALL)(tail_bytes_max=0)))
    for i, encoded in enumerate(batches):
        assert content(log.read(i, max_bytes=1, end_offset=40)) == encoded
    assert read_all(log, max_bytes=400) == b"".join(batches)


def test_all_five_batches_of_a_producer_survive_a_clean_restart() -> None:
    disk, log = new_log()
    batches = [batch(i, producer_id=5, base_sequence=i) for i in range(8)]
    for encoded in batches:
        append(log, encoded)
    log.close_cleanly()
    log = opened(open_log(disk, recovery_point=8))
    for i in range(3, 8):
        assert log.producers.check(decode_header(batches[i])) == Duplicate(i, i, 1000)


def test_truncation_rolls_producers_back_so_that_a_retry_is_stored_again() -> None:
    """S22 (appended, cut and retried): a retry of a batch that was cut must not be called a duplicate."""
    _, log = new_log()
    for i in range(6):
        append(log, batch(i, producer_id=5, base_sequence=i))
    log.truncate_to(5)
    assert log.producers.check(decode_header(batch(0, producer_id=5, base_sequence=5))) is ErrorCode.NONE
    assert log.producers.check(decode_header(batch(0, producer_id=5, base_sequence=4))) == Duplicate(
        4, 4, 1000
    )


def test_a_corrupt_snapshot_gives_way_to_the_next_older_and_then_to_the_log() -> None:
    disk, log = new_log()
    for i in range(30):
        append(log, batch(i, producer_id=i % 3, base_sequence=i // 3, value=b"v" * 40))
    before = log.producers.active_producers()
    log.close_cleanly()
    snapshots = [name for name in disk.listdir(DIRECTORY) if name.endswith(".snapshot")]
    assert len(snapshots) > 2
    for name in reversed(snapshots):
        disk.content(f"{DIRECTORY}/{name}")[-1] ^= 1
        entry = open_log(disk, recovery_point=30)
        assert isinstance(entry, OpenedLog)
        assert entry.log.producers.active_producers() == before
        assert any(name in note for note in entry.report.notes)


def test_the_epoch_of_a_leader_that_wrote_nothing_survives_a_crash() -> None:
    """S9 (elections without writes): without it the truncation point of the next election is wrong."""
    disk, log = new_log()
    append(log, batch(0, leader_epoch=1))
    log.begin_leader_epoch(LeaderEpoch(4))
    log.durability.persist_epochs()
    disk.crash_process()
    assert opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)).epochs.entries == (
        (1, 0),
        (4, 1),
    )


def test_an_epoch_is_stored_with_its_first_batch_also_if_nothing_asked_for_it_before() -> None:
    disk, log = new_log()
    append(log, batch(0, leader_epoch=1))
    log.begin_leader_epoch(LeaderEpoch(4))
    operations: list[tuple[str, str]] = []
    disk.on_operation = lambda kind, path, _: operations.append((kind, path))
    append(log, batch(1, leader_epoch=4))
    assert [path for kind, path in operations if kind == "rename"]
    operations.clear()
    append(log, batch(2, leader_epoch=4))
    assert not [path for kind, path in operations if kind == "rename"]
    disk.crash_process()
    reopened = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH))
    assert reopened.epochs.entries == ((1, 0), (4, 1))


def test_an_epoch_that_begins_costs_no_write_until_it_is_persisted() -> None:
    disk, log = new_log()
    operations: list[tuple[str, str]] = []
    disk.on_operation = lambda kind, path, _: operations.append((kind, path))
    log.begin_leader_epoch(LeaderEpoch(4))
    assert not operations
    log.durability.flush()
    disk.crash_machine(Random(1))
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert opened(entry).epochs.entries == ((4, 0),)


def test_a_persisted_epoch_survives_a_power_cut() -> None:
    for seed in range(20):
        disk, log = new_log()
        append(log, batch(0, leader_epoch=1))
        log.durability.flush()
        log.begin_leader_epoch(LeaderEpoch(4))
        log.durability.persist_epochs()
        disk.crash_machine(Random(seed))
        entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=1)
        assert opened(entry).epochs.entries == ((1, 0), (4, 1))


def test_that_a_mark_had_its_effect_survives_a_killed_process_and_if_persisted_a_power_cut() -> None:
    disk, log = new_log()
    append(log, batch(0, leader_epoch=1))
    log.note_reconciled(LeaderEpoch(5))
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH))
    assert (log.epochs.reconciled, log.epochs.entries) == (5, ((1, 0),))
    log.restart_at(7)
    log.note_reconciled(LeaderEpoch(6))
    log.durability.persist_epochs()
    disk.crash_machine(Random(1))
    log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=7))
    assert log.epochs.reconciled == 6


def test_a_persisted_epoch_survives_a_power_cut_during_the_recovery_from_another() -> None:
    """A leader of epoch 4 wrote nothing: no batch could bring its epoch back."""
    disk, log = new_log()
    append(log, batch(0, leader_epoch=1))
    log.begin_leader_epoch(LeaderEpoch(4))
    log.durability.flush()
    log.durability.persist_epochs()
    disk.crash_machine(Random(1))
    images: list[MemoryDisk] = []
    disk.on_operation = lambda *_: images.extend(disk.power_cut_image(Random(seed)) for seed in range(20))
    open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=1)
    assert images
    for image in images:
        log = opened(open_log(image, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=1))
        assert log.epochs.entries == ((1, 0), (4, 1))


def test_a_broken_epoch_file_is_rebuilt_from_the_batches() -> None:
    disk, log = new_log()
    for i in range(30):
        append(log, batch(i, leader_epoch=i // 4, value=b"v" * 40))
    before = log.epochs.entries
    log.close_cleanly()
    disk.content(f"{DIRECTORY}/leader-epochs")[3] ^= 1
    assert opened(open_log(disk, recovery_point=30)).epochs.entries == before


def test_an_epoch_left_over_from_a_truncation_does_not_outlive_the_batches() -> None:
    disk, log = new_log()
    for i in range(4):
        append(log, batch(i, leader_epoch=1))
    log.begin_leader_epoch(LeaderEpoch(6))
    stale = bytes(disk.content(f"{DIRECTORY}/leader-epochs"))
    log.truncate_to(4)
    append(log, batch(4, leader_epoch=5))
    append(log, batch(5, leader_epoch=7))
    disk.content(f"{DIRECTORY}/leader-epochs")[:] = stale  # as if the rename had not reached the disk
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH))
    assert log.epochs.entries == ((1, 0), (5, 4), (7, 5))


def test_what_was_flushed_survives_every_power_cut() -> None:
    for seed in range(150):
        random = Random(seed)
        disk, log = new_log()
        batches: list[bytes] = []
        flushed = 0
        for i in range(random.randint(1, 30)):
            batches.append(batch(i, leader_epoch=i // 7, value=bytes([i]) * random.randint(1, 200)))
            append(log, batches[-1])
            if random.random() < 0.2:
                flushed = log.durability.flush()
        disk.crash_machine(random)
        log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=flushed))
        assert flushed <= log.log_end_offset <= len(batches)
        assert read_all(log) == b"".join(batches[: log.log_end_offset])


def test_a_power_cut_never_mixes_what_a_truncation_dropped_with_what_followed() -> None:
    """Batches of whole sectors, the same sizes in both epochs: a lost one in the middle would leave its
    predecessor of the old epoch before its successors of the new, which no leader's log could tell apart."""
    for seed in range(300):
        disk, log = new_log(options=type(SMALL)())
        old = [batch(i, leader_epoch=1, value=b"o" * 442) for i in range(6)]
        new = [batch(i, leader_epoch=2, value=b"n" * 442) for i in range(2, 6)]
        assert {len(encoded) for encoded in old + new} == {512}
        append(log, *old[:2])
        log.durability.flush()
        append(log, *old[2:])
        log.truncate_to(2)
        for encoded in new:
            append(log, encoded)
        disk.crash_machine(Random(seed))
        log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=2))
        found = read_all(log)
        assert b"".join(old).startswith(found) or b"".join(old[:2] + new).startswith(found)


def test_a_truncation_below_the_recovery_point_lowers_it_on_disk_before_it_cuts() -> None:
    disk = MemoryDisk()
    lowered: list[int] = []
    log = opened(
        open_log(disk, last_shutdown=ShutdownKind.FIRST_START, settings=settings_for(disk, lowered=lowered))
    )
    for i in range(5):
        append(log, batch(i))
    assert log.durability.flush() == 5
    log.truncate_to(5)
    assert not lowered
    log.truncate_to(3)
    assert lowered
    assert log.recovery_point <= 3


@pytest.mark.parametrize("operation", ["pwrite", "fsync", "fsync_dir", "rename"])
def test_the_first_failed_write_or_sync_ends_the_directory_for_good(operation: str) -> None:
    """S28, fsyncgate: the next fsync would succeed, and mean nothing."""
    disk, log = new_log()
    append(log, batch(0))
    disk.fail_next(operation, OSError(errno.EIO, "input/output error"))
    with pytest.raises(LogError):
        for i in range(1, 40):
            append(log, batch(i, leader_epoch=i, value=b"v" * 40))
            log.durability.flush()
    recovery_point = log.recovery_point
    for use in (
        lambda: append(log, batch(90, leader_epoch=90)),
        log.durability.flush,
        lambda: log.read(log.log_start_offset, max_bytes=1, end_offset=1),
        lambda: log.truncate_to(0),
        lambda: log.begin_leader_epoch(LeaderEpoch(99)),
        log.close_cleanly,
    ):
        with pytest.raises(LogError):
            use()
    assert log.recovery_point == recovery_point


def test_a_full_disk_leaves_a_torn_tail_that_the_next_start_cuts() -> None:
    disk, log = new_log()
    append(log, batch(0))
    disk.free_bytes_left = 30
    with pytest.raises(LogError):
        append(log, batch(1))
    assert log.log_end_offset == 1
    disk.free_bytes_left = None
    disk.crash_process()
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, high_watermark=1)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.log_end_offset, entry.report.cut_bytes) == (1, 30)


def test_bytes_found_damaged_by_a_read_are_told_where_and_end_nothing() -> None:
    disk, log = new_log(options=type(SMALL)(tail_bytes_max=0))
    append(log, batch(0), batch(1), batch(2))
    size_bytes = log.size_bytes // 3
    disk.content(FIRST_LOG)[size_bytes + 16] = 9  # the magic of the second batch
    with pytest.raises(SuspectBytes) as met:
        log.read(0, max_bytes=1000, end_offset=2)
    assert (met.value.first_offset, met.value.bad_offset) == (0, 1)
    with pytest.raises(SuspectBytes):
        log.read(1, max_bytes=1000, end_offset=3)
    append(log, batch(3))
    assert log._health.directory.failure is None


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *CRASHES])
def test_a_log_found_damaged_stays_so_after_a_restart(kind: ShutdownKind) -> None:
    """The next process would not scan below the recovery point, and would serve what is left."""
    disk, log = new_log(options=type(SMALL)(tail_bytes_max=0))
    append(log, batch(0), batch(1))
    log.durability.flush()
    disk.content(FIRST_LOG)[16] = 9
    log.condemn("no record batch here")
    with pytest.raises(CorruptLog):
        log.read(0, max_bytes=1000, end_offset=2)
    disk.content(FIRST_LOG)[16] = 2  # a disk that sometimes reads well
    for seed in range(20):
        entry = open_log(disk.power_cut_image(Random(seed)), last_shutdown=kind, recovery_point=2)
        assert isinstance(entry, DamagedLog)
        assert "no record batch here" in entry.reason


def test_a_damage_that_cannot_be_marked_ends_the_directory() -> None:
    disk, log = new_log(options=type(SMALL)(tail_bytes_max=0))
    append(log, batch(0))
    disk.content(FIRST_LOG)[16] = 9
    disk.fail_next("create", OSError(errno.ENOSPC, "full"), path_contains="damaged")
    log.condemn("no record batch here")
    assert log._health.directory.failure is not None


def test_a_flush_that_a_truncation_overtakes_does_not_vouch_for_the_new_bytes() -> None:
    _disk, log = new_log()
    for i in range(4):
        append(log, batch(i))
    segment = log.segments[-1]
    fsync = segment.file.fsync

    class Overtaken:
        """The active file, whose fsync returns only after the loop has cut and written again."""

        def fsync(self) -> None:
            segment.file = file
            fsync()
            log.truncate_to(2)
            append(log, batch(2), batch(3), batch(4))

    file = segment.file
    segment.file = Overtaken()  # type: ignore[assignment]
    assert log.durability.flush() <= 2
    assert log.durability.flush() == 5
