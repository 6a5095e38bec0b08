"""Bounds of what a start believes, scans and cuts, each found by a mutant that no other test noticed
(tests/mutation)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Round, encode_round
from dataplane.core.log_port import LogError
from dataplane.storage.disk import DELETED_SUFFIX
from dataplane.storage.health import DAMAGED_FILE
from dataplane.storage.manifest import read_manifest
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import DamagedLog, OpenedLog
from dataplane.storage.round_file import ROUNDS_FILE
from dataplane.storage.scan import ScanStop
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.fetch_response import Compacted
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    SMALL,
    append,
    batch,
    filled,
    new_log,
    open_log,
    opened,
    read_all,
    settings_for,
)
from tests.kit.memory.disk import MemoryDisk

KINDS = [ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH]


def name(base: int) -> str:
    return f"{DIRECTORY}/{base:020d}.log"


def in_segments(count: int = 20) -> tuple[MemoryDisk, list[int]]:
    """A log of `count` batches that nothing of was flushed, and the bases of its segments, four at least."""
    disk, log = filled(count, SMALL)
    assert len(log.segments) >= 4
    return disk, [segment.base_offset for segment in log.segments]


def files(disk: MemoryDisk) -> dict[str, bytes]:
    return {
        path: bytes(disk.content(f"{DIRECTORY}/{path}"))
        for path in disk.listdir(DIRECTORY)
        if path.endswith(".log")
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_costs_a_scan_from_the_segment_of_the_recovery_point_on(kind: ShutdownKind) -> None:
    disk, bases = in_segments()
    sizes = [len(disk.content(name(base))) for base in bases]
    for point, first in ((bases[2], 2), (bases[2] - 1, 1), (bases[2] + 1, 2), (0, 0)):
        entry = open_log(disk, last_shutdown=kind, recovery_point=point)
        assert isinstance(entry, OpenedLog)
        assert entry.report.scanned_bytes == sum(sizes[first:])


def test_what_no_dying_process_leaves_is_damage_and_stays_as_it_was_found() -> None:
    """A file that was torn while later ones have something: the process had written on."""
    disk, bases = in_segments()
    del disk.content(name(bases[1]))[-5:]
    before = files(disk)
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)
    assert isinstance(entry, DamagedLog)
    assert (entry.valid_end_offset, entry.refutes) == (bases[2] - 1, True)
    assert files(disk) == before
    after = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(after, OpenedLog)
    assert (after.report.log_end_offset, after.report.cut_reason) == (bases[2] - 1, ScanStop.TORN)


def test_a_torn_append_below_the_high_watermark_is_not_cut() -> None:
    disk, bases = in_segments()
    del disk.content(name(bases[-1]))[-5:]
    before = files(disk)
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, high_watermark=20)
    assert isinstance(entry, DamagedLog)
    assert files(disk) == before


def test_that_a_segment_was_dropped_is_reported() -> None:
    disk, bases = in_segments()
    disk.unlink(name(bases[1]))
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(entry, OpenedLog)
    assert (entry.report.log_end_offset, entry.report.cut_reason) == (bases[1], ScanStop.CORRUPT)


def test_a_log_without_any_segment_could_be_read_up_to_nothing() -> None:
    disk, bases = in_segments()
    for base in bases:
        disk.unlink(name(base))
    entry = open_log(disk, recovery_point=20)
    assert isinstance(entry, DamagedLog)
    assert entry.valid_end_offset == 0


STRANGERS = ["7.log", "7.index", "abc.snapshot", f"{'a' * 20}.log", f"{0:021d}.log", f"{0:020d}.bak"]


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, ShutdownKind.MACHINE_CRASH])
@pytest.mark.parametrize("file", STRANGERS)
def test_a_strangers_file_is_no_segment_and_stays(file: str, kind: ShutdownKind) -> None:
    disk, _ = in_segments()
    stranger = f"{DIRECTORY}/{file}"
    disk.open(stranger, create=True).pwrite(b"mine", 0)
    log = opened(open_log(disk, last_shutdown=kind))
    assert log.log_end_offset == 20
    assert disk.content(stranger) == b"mine"


def test_a_log_of_which_all_was_deleted_is_nothing_to_tell_of() -> None:
    disk, _ = in_segments()
    for start, told in ((20, 0), (21, 1)):
        entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, log_start_offset=start)
        assert isinstance(entry, OpenedLog)
        assert (entry.log.log_start_offset, entry.log.log_end_offset) == (start, start)
        assert sum("begins again" in note for note in entry.report.notes) == told


def test_batches_whose_epochs_go_back_are_damage_where_no_scan_looks() -> None:
    """After a clean stop, with an epoch file that rotted: the epochs come from the batches."""
    disk, log = new_log()
    for offset in range(3):
        append(log, batch(offset, leader_epoch=5))
    log.close_cleanly()
    disk.content(name(0)).extend(batch(3, leader_epoch=4))
    disk.content(f"{DIRECTORY}/leader-epochs")[3] ^= 1
    entry = open_log(disk, recovery_point=4)
    assert isinstance(entry, DamagedLog)
    assert ("epoch goes back at offset 3" in entry.reason, entry.refutes) == (True, False)


def test_an_index_without_its_segment_is_removed_and_no_other() -> None:
    disk, bases = in_segments()
    stray = f"{DIRECTORY}/{99:020d}.index"
    disk.open(stray, create=True).pwrite(b"left", 0)
    opened(open_log(disk))
    assert not disk.exists(stray)
    assert all(disk.exists(name(base).replace(".log", ".index")) for base in bases)


def test_what_a_crash_left_half_made_is_removed_and_told() -> None:
    disk, _ = in_segments()
    disk.open(f"{DIRECTORY}/leader-epochs.tmp", create=True).pwrite(b"half", 0)
    entry = open_log(disk)
    assert isinstance(entry, OpenedLog)
    assert entry.report.notes == ["removed leftover leader-epochs.tmp"]
    assert not disk.exists(f"{DIRECTORY}/leader-epochs.tmp")


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH])
def test_a_first_segment_that_is_gone_is_no_retention(kind: ShutdownKind) -> None:
    """A leader whose log begins later makes its followers delete what they have below that."""
    disk, bases = in_segments()
    disk.unlink(name(bases[0]))
    entry = open_log(disk, last_shutdown=kind, recovery_point=bases[2], log_start_offset=0)
    assert isinstance(entry, DamagedLog)
    assert (entry.reason, entry.valid_end_offset) == (f"segment {bases[0]} is lost, its index is there", 0)


def test_a_retention_that_a_crash_cut_short_or_that_the_log_start_tells_of_is_no_damage() -> None:
    disk, bases = in_segments()
    disk.rename(name(bases[0]), name(bases[0]) + DELETED_SUFFIX)
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=bases[2]))
    assert log.log_start_offset == bases[1]
    disk, bases = in_segments()
    disk.unlink(name(bases[0]))
    log = opened(open_log(disk, recovery_point=bases[2], log_start_offset=bases[1]))
    assert log.log_start_offset == bases[1]


def test_after_a_clean_stop_a_segment_that_is_gone_is_damage() -> None:
    disk, bases = in_segments()
    disk.unlink(name(bases[1]))
    entry = open_log(disk, recovery_point=20)
    assert isinstance(entry, DamagedLog)
    assert (entry.valid_end_offset, entry.refutes) == (bases[1], True)
    assert "does not begin where" in entry.reason


@pytest.mark.parametrize(
    ("kind", "refutes"),
    [
        (ShutdownKind.CLEAN, True),
        (ShutdownKind.PROCESS_CRASH, True),
        (ShutdownKind.MACHINE_CRASH, False),  # it said itself that something may be gone
    ],
)
def test_a_tail_that_is_gone_refutes_that_nothing_can_be(kind: ShutdownKind, refutes: bool) -> None:
    disk, bases = in_segments()
    disk.unlink(name(bases[-1]))
    entry = open_log(disk, last_shutdown=kind, recovery_point=20)
    assert isinstance(entry, DamagedLog)
    assert entry.refutes == refutes


def test_damage_that_was_found_in_use_says_nothing_of_other_logs() -> None:
    disk, _ = in_segments()
    disk.open(f"{DIRECTORY}/{DAMAGED_FILE}", create=True).pwrite(b"rot at 7", 0)
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)
    assert isinstance(entry, DamagedLog)
    assert (entry.reason, entry.valid_end_offset, entry.refutes) == (
        "found while it was in use: rot at 7",
        0,
        False,
    )


@pytest.mark.parametrize(("timestamp", "first_ms"), [(0, 0), (400, 400), (1_000, 1_000), (9_000, 1_000)])
def test_a_restart_does_not_put_off_the_roll_of_a_segment(timestamp: int, first_ms: int) -> None:
    disk, log = new_log()
    append(log, batch(0, timestamp=timestamp))
    append(log, batch(1, timestamp=5_000))
    for kind in (ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH):
        log = opened(open_log(disk, last_shutdown=kind))
        assert log.segments[-1].first_append_ms == first_ms


# Leader epochs.


@pytest.mark.parametrize(("lost", "epochs"), [(0, ((1, 0), (6, 4))), (1, ((1, 0),))])
def test_an_epoch_without_batches_counts_where_it_begins_at_the_logs_end(
    lost: int, epochs: tuple[tuple[int, int], ...]
) -> None:
    disk, log = new_log()
    encoded = [batch(offset, leader_epoch=1) for offset in range(4)]
    for each in encoded:
        append(log, each)
    log.begin_leader_epoch(LeaderEpoch(6))
    log.durability.persist_epochs()
    content = disk.content(name(0))
    del content[len(content) - lost * len(encoded[-1]) :]
    log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH))
    assert log.epochs.entries == epochs


def test_epochs_below_the_log_start_are_forgotten() -> None:
    disk, log = new_log()
    for offset in range(6):
        append(log, batch(offset, leader_epoch=offset // 2))
    log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, log_start_offset=3))
    assert log.epochs.entries == ((1, 3), (2, 4))


def test_epochs_that_were_rebuilt_are_written_back_and_told() -> None:
    disk, log = new_log()
    for offset in range(6):
        append(log, batch(offset, leader_epoch=offset // 2))
    log.close_cleanly()
    path = f"{DIRECTORY}/leader-epochs"
    sound = bytes(disk.content(path))
    disk.content(path)[3] ^= 1
    entry = open_log(disk, recovery_point=6)
    assert isinstance(entry, OpenedLog)
    assert [note for note in entry.report.notes if "leader epochs rebuilt" in note]
    assert bytes(disk.content(path)) == sound


# After a compaction.


FOUR_KEYS = [offset % 4 for offset in range(30)]


def with_a_round(
    *, is_applied: bool, keys: Sequence[int] = FOUR_KEYS, keys_max: int = 100
) -> tuple[MemoryDisk, PartitionLog, list[bytes]]:
    """Thirty batches of these keys, a round of compaction over them, and a batch more; all flushed. The first
    batch has a producer, and is rewritten without its record."""
    disk, log = new_log(NO_TAIL)
    round_ = Round(30, 0, tombstone_floor=0, producers_floor=30)
    batches = [
        encode_batch(
            [NewRecord(b"key %d" % keys[offset], b"value", timestamp=1_000)],
            base_offset=offset,
            leader_epoch=0,
            producer_id=-1 if offset else 7,
            producer_epoch=-1 if offset else 0,
            base_sequence=-1 if offset else 0,
        )
        for offset in range(30)
    ]
    batches += [encode_round(round_, leader_epoch=LeaderEpoch(0), base_offset=30), batch(31)]
    for offset, each in enumerate(batches):
        if offset == 30:
            log.roll(now_ms=1000)
        append(log, each)
    if is_applied:
        begun = log.begin_compaction(PlacedRound(30, round_), now_ms=1000, keys_max=keys_max)
        begun.write()
        begun.commit()
        log.finish_compaction()
        begun.release()
    log.durability.flush()
    return disk, log, batches


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_rewritten_segments_without_one_behind_them_are_damage(kind: ShutdownKind) -> None:
    """A pass never rewrites the last segment: what was behind is gone."""
    disk, log, _ = with_a_round(is_applied=True)
    manifest = read_manifest(disk, DIRECTORY)
    assert manifest is not None
    for base in [segment.base_offset for segment in log.segments]:
        if base >= manifest.end_offset:
            disk.unlink(name(base))
    entry = open_log(disk, last_shutdown=kind, options=log.options)
    assert isinstance(entry, DamagedLog)
    assert "not what a compaction left" in entry.reason


def test_rot_in_a_rewritten_segment_refutes_nothing() -> None:
    disk, log, _ = with_a_round(is_applied=True)
    disk.content(name(log.segments[0].base_offset))[-1] ^= 1
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=log.options)
    assert isinstance(entry, DamagedLog)
    assert (entry.refutes, "rewritten" in entry.reason) == (False, True)


def test_that_the_rounds_were_found_in_the_batches_is_told() -> None:
    disk, log, batches = with_a_round(is_applied=False)
    disk.content(f"{DIRECTORY}/{ROUNDS_FILE}")[-1] ^= 1
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, options=log.options)
    assert isinstance(entry, OpenedLog)
    assert any("rounds of compaction found in the batches" in note for note in entry.report.notes)
    assert read_all(entry.log) == b"".join(batches)


# What a start leaves behind it.


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_after_a_start_closed_segments_have_their_index_in_a_file_and_the_active_one_in_memory(
    kind: ShutdownKind,
) -> None:
    disk, bases = in_segments()
    if kind is ShutdownKind.CLEAN:
        opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)).close_cleanly()
    else:
        for base in bases:
            if disk.exists(name(base).replace(".log", ".index")):
                disk.unlink(name(base).replace(".log", ".index"))
    log = opened(open_log(disk, last_shutdown=kind))
    assert [disk.exists(name(base).replace(".log", ".index")) for base in bases[:-1]] == [True] * len(
        bases[:-1]
    )
    *closed, active = log.segments
    assert [segment.index.is_in_memory for segment in (*closed, active)] == [*[False] * len(closed), True]
    assert active.bytes_since_index == active.size_bytes - active.index.last().position


def test_a_disk_that_fails_during_a_start_ends_the_directory() -> None:
    disk, _ = in_segments()
    disk.fail_next("pread", OSError(5, "broken"))
    settings = settings_for(disk)
    with pytest.raises(LogError, match="recovering"):
        open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, settings=settings)
    assert settings.health.failure is not None


def test_damage_refutes_a_stop_only_where_a_stop_was_told() -> None:
    disk, bases = in_segments()
    disk.unlink(name(bases[1]))
    for kind, refutes in ((ShutdownKind.PROCESS_CRASH, True), (ShutdownKind.MACHINE_CRASH, False)):
        entry = open_log(disk, last_shutdown=kind, recovery_point=20)
        assert isinstance(entry, DamagedLog)
        assert (entry.refutes, entry.valid_end_offset) == (refutes, bases[1])


def test_a_snapshot_beyond_what_was_scanned_is_not_believed() -> None:
    """It may tell of a log that was truncated since."""
    disk, log = new_log()
    append(log, batch(0, producer_id=7, base_sequence=0))
    log.learn_producers(log.producers)
    stale = bytes(disk.content(f"{DIRECTORY}/{1:020d}.snapshot"))
    log.producers.clear(is_whole=True)
    log.truncate_to(0)
    append(log, batch(0), batch(1))
    disk.open(f"{DIRECTORY}/{1:020d}.snapshot", create=True).pwrite(stale, 0)
    for kind in KINDS:
        assert not opened(open_log(disk, last_shutdown=kind)).producers


def test_a_cut_is_noted_and_a_file_of_another_kind_is_no_snapshot() -> None:
    disk, bases = in_segments()
    disk.open(f"{DIRECTORY}/{5:020d}.text", create=True)
    del disk.content(name(bases[-1]))[-5:]
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH)
    assert isinstance(entry, OpenedLog)
    assert any(note.startswith(f"cut to offset {entry.log.log_end_offset}: ") for note in entry.report.notes)
    assert 5 not in entry.log._segments.snapshots.offsets
    assert disk.exists(f"{DIRECTORY}/{5:020d}.text")


def test_a_compacted_log_of_which_no_segment_is_left_is_damaged() -> None:
    disk, log, _ = with_a_round(is_applied=True)
    for segment in log.segments:
        disk.unlink(name(segment.base_offset))
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=log.options)
    assert isinstance(entry, DamagedLog)
    assert "not what a compaction left" in entry.reason


def test_a_batch_without_a_timestamp_does_not_make_its_segment_old() -> None:
    disk, log = new_log()
    append(log, encode_batch([NewRecord(b"value", timestamp=-1)], base_offset=0, leader_epoch=0))
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH))
    assert log.segments[0].first_append_ms == 1000


def test_a_rewritten_segment_that_has_grown_is_damage() -> None:
    disk, log, _ = with_a_round(is_applied=True)
    disk.content(name(0)).append(0)
    entry = open_log(disk, options=log.options)
    assert isinstance(entry, DamagedLog)
    assert "not what a compaction left" in entry.reason


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_a_rewritten_segment_ends_where_it_did_though_its_last_batches_are_gone(kind: ShutdownKind) -> None:
    twice = range(100, 107)
    disk, log, _ = with_a_round(is_applied=True, keys=[*range(7), *twice, *range(7, 16), *twice])
    first, second = log.segments[:2]
    assert [header.next_offset for _, header in first.walk()][-1] < second.base_offset
    log.close_cleanly()
    assert opened(open_log(disk, last_shutdown=kind, options=log.options)).log_end_offset == 32


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_a_log_that_ends_before_the_round_that_was_applied_to_it_is_damage(kind: ShutdownKind) -> None:
    disk, log, batches = with_a_round(is_applied=True)
    active = log.segments[-1]
    assert active.base_offset <= 30
    lost = sum(map(len, batches[30:]))
    log.abandon()
    del disk.content(name(active.base_offset))[-lost:]
    entry = open_log(disk, last_shutdown=kind, options=log.options)
    assert isinstance(entry, DamagedLog)
    assert "below the round that was applied" in entry.reason


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_each_round_that_was_not_applied_as_a_whole_is_known_once(kind: ShutdownKind) -> None:
    disk, log, _ = with_a_round(is_applied=True, keys_max=2)
    log.roll(now_ms=1000)
    later = Round(32, 0, tombstone_floor=0, producers_floor=0)
    append(log, encode_round(later, leader_epoch=LeaderEpoch(0), base_offset=32))
    log.durability.flush()
    begun, reaches = log.rounds.pending, log.rounds.reaches
    assert [placed.offset for placed in begun] == [30, 32]
    assert 0 < reaches < 30
    for point in (0, 32):
        entry = open_log(disk, last_shutdown=kind, recovery_point=point, options=log.options)
        rounds = opened(entry).rounds
        assert (rounds.pending, rounds.reaches) == (begun, reaches)


@pytest.mark.parametrize(("kind", "floor"), [(ShutdownKind.CLEAN, 40), *[(kind, 32) for kind in KINDS]])
def test_what_is_known_of_a_leaders_tombstones_ends_with_a_log_that_may_have_lost_its_end(
    kind: ShutdownKind, floor: int
) -> None:
    disk, log = new_log()
    log.note_compacted(Compacted(tombstone_floor=40, end_offset=0))
    append(log, *[batch(offset) for offset in range(32)])
    log.close_cleanly()
    assert opened(open_log(disk, last_shutdown=kind)).rounds.floor_known == floor


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, *KINDS])
def test_snapshots_of_rewritten_segments_are_kept_and_that_of_the_end(kind: ShutdownKind) -> None:
    disk, log, _ = with_a_round(is_applied=True)
    log.close_cleanly()
    log = opened(open_log(disk, last_shutdown=kind, options=log.options))
    assert [each.producer_id for each in log.producers.active_producers()] == [7]
    assert log._segments.snapshots.offsets[-1] == 32


def test_an_overlapping_segment_is_damage() -> None:
    disk, bases = in_segments()
    disk.content(name(bases[0])).extend(batch(bases[1]))
    disk.unlink(name(bases[0]).replace(".log", ".index"))
    entry = open_log(disk)
    assert isinstance(entry, DamagedLog)
    assert "does not begin where the one before it ends" in entry.reason


def test_all_segments_behind_a_torn_one_are_dropped_and_counted() -> None:
    disk, bases = in_segments()
    dropped = [len(disk.content(name(base))) for base in bases[2:]]
    torn = len(batch(0, value=b"v" * 60)) - 5
    del disk.content(name(bases[1]))[-5:]
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH)
    assert isinstance(entry, OpenedLog)
    assert sorted(files(disk)) == [f"{base:020d}.log" for base in bases[:2]]
    assert entry.report.cut_bytes == sum(dropped) + torn


def test_an_empty_log_begins_at_its_start_without_a_word() -> None:
    disk = MemoryDisk()
    entry = open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, log_start_offset=21)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.log_end_offset, entry.report.notes) == (21, [])


def test_a_new_logs_file_survives_a_power_cut() -> None:
    disk, _ = new_log()
    images = [disk.power_cut_image(Random(seed)) for seed in range(20)]
    assert all(image.exists(name(0)) for image in images)


def test_snapshots_that_a_killed_process_left_are_made_durable() -> None:
    disk, bases = in_segments()
    snapshots = [f"{DIRECTORY}/{base:020d}.snapshot" for base in bases[1:]]
    assert not any(map(disk.is_clean, snapshots))
    entry = open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=bases[-1])
    assert isinstance(entry, OpenedLog)
    assert all(map(disk.is_clean, snapshots))
