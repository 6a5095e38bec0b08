"""Passes of compaction: what they leave, how readers meet it, and what else happens to the log meanwhile."""

from __future__ import annotations

import errno
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import msgspec
import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Dirt, Round, encode_round
from dataplane.core.leader_epochs import EpochStart
from dataplane.core.log_port import LogChanged, LogError, SuspectBytes
from dataplane.storage import rewritten_files
from dataplane.storage.compaction import PassPutOff
from dataplane.storage.epoch_file import EPOCHS_FILE
from dataplane.storage.health import ClosedLog, CorruptLog
from dataplane.storage.log_settings import LogOptions
from dataplane.storage.manifest import (
    MANIFEST_FILE,
    CompactionManifest,
    RewrittenSegment,
    finish_pass,
    read_manifest,
    take_places,
    write_manifest,
)
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import DamagedLog, OpenedLog
from dataplane.storage.retention import SegmentView, segments_to_delete
from dataplane.storage.rot import ScrubPlace
from dataplane.storage.round_file import ROUNDS_FILE
from dataplane.storage.segment import log_path
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import decode_header, iter_headers
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    SMALL,
    append,
    at_each_operation,
    batch,
    new_log,
    open_log,
    opened,
    read_all,
)
from tests.kit.memory.disk import MemoryDisk

KEYS = 4
KINDS = [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH]


def keyed(offset: int, *, key: int | None = None, leader_epoch: int = 0, producer_id: int = -1) -> bytes:
    """A batch of one record, whose key comes back after KEYS others."""
    value = b"value of %d" % offset
    name = b"key %d" % (offset % KEYS if key is None else key)
    return encode_batch(
        [NewRecord(name, value, timestamp=1000 + offset)],
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=min(0, producer_id),
        base_sequence=-1 if producer_id < 0 else offset,
    )


@dataclass
class World:
    disk: MemoryDisk
    log: PartitionLog
    batches: list[bytes]
    placed: PlacedRound

    @property
    def bases(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    def compact(self, **how: Any) -> None:
        begun = self.log.begin_compaction(self.placed, now_ms=1000, **how)
        begun.write()
        begun.commit()
        self.log.finish_compaction()
        begun.release()

    def reopen(self, kind: ShutdownKind) -> PartitionLog:
        """With the recovery point 0, so that all is scanned after a crash."""
        if kind is ShutdownKind.CLEAN:
            self.log.close_cleanly()
        elif kind is ShutdownKind.MACHINE_CRASH:
            self.log.durability.flush()
            self.disk.crash_machine(Random(0))
        self.log = opened(open_log(self.disk, last_shutdown=kind, options=self.log.options))
        return self.log


def world(count: int = 30, *, end: int | None = None, options: LogOptions = NO_TAIL) -> World:
    """`count` batches in segments of about six, an epoch every ten, then a round up to `end` (all of them),
    and one batch more."""
    disk, log = new_log(options)
    batches = [keyed(i, leader_epoch=i // 10) for i in range(count)]
    round_ = Round(count if end is None else end, 0, tombstone_floor=0, producers_floor=0)
    epoch = (count - 1) // 10
    batches.append(encode_round(round_, leader_epoch=LeaderEpoch(epoch), base_offset=count))
    batches.append(keyed(count + 1, key=9, leader_epoch=epoch))
    for each in batches:
        append(log, each)
    return World(disk, log, batches, PlacedRound(count, round_))


def headers(log: PartitionLog) -> list[tuple[int, int]]:
    """(base offset, records) of each batch that a reader meets, in small reads."""
    return [
        (header.base_offset, header.record_count)
        for _, header in iter_headers(memoryview(read_all(log, max_bytes=150)))
    ]


LEFT = [(9, 0), (19, 0), (26, 1), (27, 1), (28, 1), (29, 1), (30, 1), (31, 1)]
"""Of `world()`: the newest of four keys, the last batches of two epochs without records, and what is above
the round's end."""


def test_a_pass_leaves_the_newest_of_each_key_in_fewer_segments() -> None:
    found = world()
    log = found.log
    before = found.bases
    assert len(before) > 4
    found.compact()
    assert headers(log) == LEFT
    assert len(found.bases) < len(before)
    assert (log.log_start_offset, log.log_end_offset, found.bases[0]) == (0, 32, 0)
    assert log.size_bytes == sum(len(found.disk.content(log_path(DIRECTORY, base))) for base in found.bases)
    assert [name for name in found.disk.listdir(DIRECTORY) if name.endswith(".cleaned")] == []
    logs = [name for name in found.disk.listdir(DIRECTORY) if name.endswith(".log")]
    assert logs == [f"{base:020d}.log" for base in found.bases]
    assert log.compacted is not None
    assert (log.compacted.applied_at, log.compacted.reaches) == (30, 30)


@pytest.mark.parametrize("kind", KINDS)
def test_a_compacted_log_is_the_same_after_a_restart(kind: ShutdownKind) -> None:
    found = world()
    found.compact()
    seen = (headers(found.log), found.log.log_end_offset, found.log.epochs.entries, found.bases)
    manifest = found.log.compacted
    log = found.reopen(kind)
    assert (headers(log), log.log_end_offset, log.epochs.entries, found.bases) == seen
    assert log.compacted == manifest
    append(log, keyed(32, leader_epoch=2))
    assert headers(log)[-1] == (32, 1)


def test_every_read_in_a_gap_returns_the_next_batch() -> None:
    found = world()
    found.compact()
    log = found.log
    for offset in range(log.log_end_offset):
        piece = log.read(offset, max_bytes=1, end_offset=log.log_end_offset)
        expected = next(base for base, _ in LEFT if base >= offset)
        (chunk,) = piece.parts
        first = decode_header(chunk.source.pread(chunk.length, chunk.position))  # type: ignore[union-attr]
        assert first.base_offset == expected
        assert piece.next_offset > offset


def test_lookups_pass_over_gaps_and_batches_without_records() -> None:
    found = world()
    found.compact()
    log = found.log
    assert log.find_timestamp(1009, end_offset=32).offset == 26  # type: ignore[union-attr]
    assert log.find_timestamp(1027, end_offset=32).offset == 27  # type: ignore[union-attr]
    # The largest timestamp below 20 was that of a batch that has no records any more.
    assert log.find_max_timestamp(end_offset=20) is None
    assert log.find_max_timestamp(end_offset=28).offset == 27  # type: ignore[union-attr]
    assert [h.base_offset for h in log.last_batches(31) or ()] == [27, 28, 29, 30]
    assert [h.base_offset for h in log.last_batches(32, first_offset=10) or ()] == [b for b, _ in LEFT[1:]]
    assert [h.base_offset for h in log.last_data_batches(3)] == [28, 29, 31]


def test_passes_go_on_where_the_map_of_keys_was_full() -> None:
    found = world()
    reached: list[int] = []
    while not reached or reached[-1] < found.placed.round_.end_offset:
        found.compact(keys_max=2)
        assert found.log.compacted is not None
        reached.append(found.log.compacted.reaches)
    assert len(reached) > 2
    assert reached == sorted(set(reached))
    assert headers(found.log) == LEFT


def test_a_later_round_compacts_what_an_earlier_one_left() -> None:
    found = world(end=17)
    found.compact()
    assert [base for base, _ in headers(found.log)][:3] == [9, 13, 14]
    found.placed = PlacedRound(30, found.placed.round_._replace(end_offset=30))
    found.compact()
    assert headers(found.log) == LEFT


def crashed(found: World, *, is_committed: bool) -> PartitionLog:
    """After a kill before the new segments took their place."""
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    if is_committed:
        begun.commit()
    return found.reopen(ShutdownKind.PROCESS_CRASH)


def test_a_pass_that_was_not_committed_leaves_nothing() -> None:
    found = world()
    assert read_all(crashed(found, is_committed=False)) == b"".join(found.batches)
    assert not [name for name in found.disk.listdir(DIRECTORY) if "cleaned" in name]
    assert found.log.compacted is None


def test_a_committed_pass_is_finished_by_the_next_start() -> None:
    found = world()
    assert headers(crashed(found, is_committed=True)) == LEFT
    assert not [name for name in found.disk.listdir(DIRECTORY) if "cleaned" in name]


def test_a_cut_within_a_rewritten_segment_takes_it_out_of_the_manifest() -> None:
    found = world(end=29)  # the segment that holds the round's end goes up to the log's end
    found.compact()
    manifest = found.log.compacted
    assert manifest is not None
    assert manifest.end_offset == 32
    found.log.truncate_to(31)
    assert found.log.compacted is not None
    assert len(found.log.compacted.segments) == len(manifest.segments) - 1
    append(found.log, keyed(31, leader_epoch=3), keyed(32, leader_epoch=3))
    seen = headers(found.log)
    for kind in KINDS:
        assert headers(found.reopen(kind)) == seen


def test_cuts_ever_farther_back_take_one_rewritten_segment_after_another_out_of_the_manifest() -> None:
    found = distinct(30)
    disk, log = found.disk, found.log
    found.compact()
    rewritten = found.bases[:-1]
    assert len(rewritten) > 3
    for end in (31, rewritten[2] + 1, rewritten[1] + 1, 1, 0):
        log.truncate_to(end)
        listed = [base for base in rewritten if base + 1 < end]
        for stood in (log.compacted, read_manifest(disk, DIRECTORY)):
            assert stood is not None
            assert [each.base_offset for each in stood.segments] == (rewritten if end == 31 else listed)


def test_what_a_pass_does_not_replace_keeps_its_index_its_flush_and_its_snapshot() -> None:
    found = world(end=15)
    log, segments = found.log, found.log._segments
    begun = log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    log.roll(now_ms=1000)
    append(log, keyed(32, leader_epoch=2))
    kept = [segment for segment in log.segments if segment.base_offset >= begun._inputs[-1].next_offset]
    indexes = [segment.index for segment in kept]
    begun.commit()
    log.finish_compaction()
    assert list(log.segments[-len(kept) :]) == kept
    assert [segment.index for segment in kept] == indexes
    assert segments.take_unflushed(include_active=False).closed == (kept[-2],)
    assert segments.snapshots.offsets == [segment.base_offset for segment in kept]


def test_a_cut_finishes_a_committed_pass_first() -> None:
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    append(found.log, keyed(32, leader_epoch=2))
    begun.commit()
    found.log.truncate_to(32)
    assert headers(found.log) == LEFT
    found.log.finish_compaction()
    assert headers(found.reopen(ShutdownKind.PROCESS_CRASH)) == LEFT


@pytest.mark.parametrize("change", ["truncate", "delete", "restart"])
def test_a_pass_gives_up_when_the_log_is_changed(change: str) -> None:
    found = world()
    log = found.log
    append(log, keyed(32, leader_epoch=2))
    begun = log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    if change == "truncate":
        log.truncate_to(32)
    elif change == "delete":
        log.advance_log_start(found.bases[1])
        log.unlink_detached(log.detach_old_segments())
    else:
        log.restart_at(50)
    with pytest.raises(LogChanged):
        begun.commit()
    assert log.compacted is None
    assert not [name for name in found.disk.listdir(DIRECTORY) if "cleaned" in name]
    found.reopen(ShutdownKind.PROCESS_CRASH)


def test_readers_that_come_while_a_pass_takes_its_place_look_again() -> None:
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    begun.commit()

    def read() -> None:
        for segment in found.log.segments:
            place = ScrubPlace(segment.base_offset, 0, segment.base_offset)
            assert found.log.holes.check(place, end_offset=30, bytes_max=10_000).hole is None
        found.log.find_timestamp(1_030, end_offset=30)

    with at_each_operation(found.disk, read) as operations:
        found.log.finish_compaction()
    assert operations
    read()
    assert found.log.compacted is not None


def test_a_pass_gives_up_when_the_log_is_closed() -> None:
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    found.log.abandon()
    with pytest.raises(ClosedLog):
        begun.commit()
    assert not found.disk.exists(f"{DIRECTORY}/{MANIFEST_FILE}")


def test_segments_below_the_log_start_are_deleted_and_not_missed() -> None:
    found = world(options=replace(NO_TAIL, segment_bytes=300))
    found.compact()
    log = found.log
    assert log.compacted is not None
    assert len(log.compacted.segments) > 1
    log.advance_log_start(found.bases[1])
    log.unlink_detached(log.detach_old_segments())
    assert found.bases[0] == log.log_start_offset > 0
    seen = headers(log)
    assert headers(found.reopen(ShutdownKind.PROCESS_CRASH)) == seen


@pytest.mark.parametrize("steps", range(12))
def test_a_restart_forgets_the_manifest_first(steps: int) -> None:
    """Killed after any of its steps, the log opens, and is empty or as it was."""
    found = world(options=replace(NO_TAIL, segment_bytes=300))
    found.compact()
    left = headers(found.log)
    done = 0

    class Killed(Exception):
        pass

    def kill(_operation: str, _path: str, is_done: bool) -> None:
        nonlocal done
        done += is_done
        if done > steps:
            raise Killed

    found.disk.on_operation = kill
    with suppress(Killed):
        found.log.restart_at(100)
    found.disk.on_operation = None
    found.disk.crash_process()
    log = found.reopen(ShutdownKind.PROCESS_CRASH)
    assert headers(log) in (left, [])
    assert (log.compacted is None) == (headers(log) == [])


def damage(found: World, segment: int, *, is_gone: bool) -> OpenedLog | DamagedLog:
    path = log_path(DIRECTORY, found.bases[segment])
    found.log.close_cleanly()
    if is_gone:
        found.disk.unlink(path)
    else:
        del found.disk.content(path)[-len(keyed(0)) :]
    return open_log(found.disk, recovery_point=32, options=found.log.options)


@pytest.mark.parametrize(("segment", "is_gone"), [(0, False), (1, False), (1, True)])
def test_a_listed_file_that_is_gone_or_shorter_is_damage(segment: int, is_gone: bool) -> None:
    found = world(options=replace(NO_TAIL, segment_bytes=300))
    found.compact()
    assert len(found.bases) > 2
    assert isinstance(damage(found, segment, is_gone=is_gone), DamagedLog)


def test_a_manifest_that_rots_is_damage() -> None:
    found = world()
    found.compact()
    found.log.close_cleanly()
    found.disk.flip_bit(f"{DIRECTORY}/{MANIFEST_FILE}", 40)
    entry = open_log(found.disk, recovery_point=32)
    assert isinstance(entry, DamagedLog)
    assert "CRC" in entry.reason


def test_epochs_of_batches_that_are_gone_outlive_a_torn_epoch_file() -> None:
    found = world()
    found.compact()
    seen = found.log.epochs.entries
    assert seen == (EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 20))
    found.disk.content(f"{DIRECTORY}/{EPOCHS_FILE}")[:] = b""
    for kind in KINDS[::-1]:
        assert found.reopen(kind).epochs.entries == seen


def test_nothing_is_compacted_while_bytes_are_rotten() -> None:
    found = world()
    log = found.log
    found.disk.flip_bit(log_path(DIRECTORY, found.bases[1]), 66)
    checked = log.holes.check(ScrubPlace(found.bases[1], 0, found.bases[1]), end_offset=32, bytes_max=10_000)
    assert checked.hole is not None
    begun = log.begin_compaction(found.placed, now_ms=1000)
    log.holes.note(checked.hole, log_start_offset=0)
    with pytest.raises(PassPutOff):
        begun.write()


def test_a_full_disk_puts_a_pass_off_and_ends_nothing() -> None:
    found = world()
    log = found.log
    found.disk.fail_next("pwrite", OSError(errno.ENOSPC, "no space"), path_contains="cleaned")
    begun = log.begin_compaction(found.placed, now_ms=1000)
    with pytest.raises(PassPutOff):
        begun.write()
    assert not [name for name in found.disk.listdir(DIRECTORY) if "cleaned" in name]
    found.compact()
    assert headers(log) == LEFT


def test_a_pass_is_given_up_before_it_takes_the_reserve() -> None:
    found = world()
    room = found.log.room
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    assert not begun.advance()
    room.on_look(free_bytes=499, reserve_bytes=1_000)
    with pytest.raises(PassPutOff, match="no room to compact: no space: 499 bytes free"):
        begun.write()
    assert not [name for name in found.disk.listdir(DIRECTORY) if "cleaned" in name]
    room.on_look(free_bytes=500, reserve_bytes=1_000)
    found.compact()
    assert headers(found.log) == LEFT


def scrubbed(log: PartitionLog) -> list[int]:
    """First offsets of the holes that one pass of a scrub finds."""
    holes, place = [], ScrubPlace(0, 0, 0)
    while True:
        checked = log.holes.check(place, end_offset=log.log_end_offset, bytes_max=100)
        if checked.hole is not None:
            holes.append(checked.hole.first_offset)
        if checked.place is None:
            return holes
        place = checked.place


def test_a_header_that_rots_during_a_pass_drops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that goes is not read again: its header is all that says where its records end."""
    monkeypatch.setattr(rewritten_files, "SLICE_BYTES", 100)
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    content = found.disk.content(log_path(DIRECTORY, found.bases[1]))
    while not [name for name in found.disk.listdir(DIRECTORY) if name.endswith(".cleaned")]:
        assert not begun.advance()
    position = [position for position, _ in iter_headers(content)][-1]
    content[position + 26] ^= 1  # the last offset's delta: it reaches into the next segment
    with pytest.raises(SuspectBytes, match="headers are others"):
        begun.write()
    assert not [name for name in found.disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


def test_a_scrub_takes_no_gap_for_rot_and_finds_every_byte_of_it() -> None:
    found = world(end=18)
    found.compact()
    log = found.log
    assert scrubbed(log) == []
    beside_gaps = {base for base, _ in headers(log) if base <= 18}
    for segment in log.segments:
        path = log_path(DIRECTORY, segment.base_offset)
        for position, header in list(segment.walk()):
            base_offset = range(8) if header.base_offset in beside_gaps else ()
            for at in range(header.size_bytes):
                if at not in base_offset:
                    found.disk.flip_bit(path, position + at, bit=at % 8)
                    assert scrubbed(log) != [], (segment.base_offset, position, at)
                    found.disk.flip_bit(path, position + at, bit=at % 8)
    assert scrubbed(log) == []


@pytest.mark.parametrize("is_reopened", [False, True])
def test_an_offset_that_rots_beside_a_gap_ends_the_log(is_reopened: bool) -> None:
    """It fits, so that no hole shows; the manifest's CRC does not."""
    found = world()
    found.compact()
    log = found.reopen(ShutdownKind.PROCESS_CRASH) if is_reopened else found.log
    assert scrubbed(log) == []
    found.disk.flip_bit(log_path(DIRECTORY, 0), 7, bit=0)
    assert headers(log)[0] == (8, 0)
    with pytest.raises(CorruptLog):
        scrubbed(log)
    assert isinstance(open_log(found.disk, recovery_point=32), DamagedLog)


def test_a_reader_in_a_thread_goes_on_with_the_segments_that_it_took() -> None:
    found = world()
    old = found.log.segments
    found.compact()
    values = [
        record.value
        for segment in old
        for position, header in segment.walk()
        for record in iter_records(segment.read_batch(position, header))
        if not header.is_control
    ]
    assert values == [b"value of %d" % i for i in (*range(30), 31)]
    assert old[1].find(old[1].base_offset + 1) is not None
    assert [segment.find(9) for segment in found.log.segments[:1]] != [None]


def test_a_log_without_a_manifest_has_no_other_files() -> None:
    disk, log = new_log(SMALL)
    for i in range(30):
        append(log, keyed(i))
    log.truncate_to(20)
    log.restart_at(40)
    log.close_cleanly()
    assert {name.partition(".")[2] for name in disk.listdir(DIRECTORY)} <= {"log", "index", "snapshot", ""}


def test_retention_does_not_stop_at_a_first_segment_that_holds_nothing() -> None:
    views = [SegmentView(0, 10, 0, 0), SegmentView(10, 20, 5, 0), SegmentView(20, 20, 0, 0)]
    count = segments_to_delete(views, expiry_ms=None, retention_ms=-1, retention_bytes=0, high_watermark=20)
    assert count == 2


def test_epochs_of_a_copy_of_a_compacted_log_begin_where_the_batch_before_ends() -> None:
    """Also when a power cut took the file that says so."""
    disk, log = new_log(NO_TAIL)
    append(log, keyed(3), keyed(9, leader_epoch=1))
    append(log, keyed(20, leader_epoch=2))
    seen = log.epochs.entries
    assert seen == (EpochStart(0, 0), EpochStart(1, 4), EpochStart(2, 10))
    disk.content(f"{DIRECTORY}/{EPOCHS_FILE}")[:] = b""
    for kind in (ShutdownKind.PROCESS_CRASH, ShutdownKind.MACHINE_CRASH):
        assert opened(open_log(disk, last_shutdown=kind, options=NO_TAIL)).epochs.entries == seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_is_due_again_after_a_restart_until_it_was_applied(kind: ShutdownKind) -> None:
    found = world()
    assert found.log.rounds.pending == (found.placed,)
    log = found.reopen(kind)
    assert log.rounds.due(31) == found.placed
    assert log.rounds.due(30) is None, "it is not committed"
    found.compact(keys_max=2)
    halfway = log.rounds.reaches
    assert 0 < halfway < 30
    log = found.reopen(kind)
    assert (log.rounds.due(31), log.rounds.reaches) == (found.placed, halfway)
    while log.rounds.due(31) is not None:
        found.compact(keys_max=2)
    log = found.reopen(kind)
    assert (log.rounds.applied, log.rounds.reaches, log.rounds.is_settled) == (found.placed, 30, True)
    assert log.rounds.last == found.placed.round_, "a leader goes on from it"
    assert headers(log) == LEFT


@pytest.mark.parametrize("kind", KINDS)
def test_a_rounds_file_that_was_torn_is_made_anew_from_the_batches(kind: ShutdownKind) -> None:
    found = world()
    found.log.durability.flush()
    found.disk.content(f"{DIRECTORY}/{ROUNDS_FILE}")[:] = b"to"
    log = opened(open_log(found.disk, last_shutdown=kind, recovery_point=32, options=NO_TAIL))
    assert log.rounds.pending == (found.placed,)


def test_what_a_leaders_log_lacks_is_known_after_a_power_cut_and_forgotten_with_the_log() -> None:
    disk, log = new_log(NO_TAIL)
    told = Compacted(tombstone_floor=4, end_offset=20)
    log.note_compacted(told)
    append(log, keyed(3))
    disk.crash_machine(Random(0))
    log = opened(open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, options=NO_TAIL))
    assert log.rounds.compacted is not None and log.rounds.compacted.end_offset == 20
    assert log.rounds.is_spoilt_by_cut(19)
    log.restart_at(0)
    log.close_cleanly()
    assert opened(open_log(disk, last_shutdown=ShutdownKind.CLEAN)).rounds.compacted is None


def test_a_log_that_ends_below_the_round_that_was_applied_to_it_is_damaged() -> None:
    """All was flushed before the pass: no crash takes it."""
    found = world(end=12)
    found.compact()
    found.log.close_cleanly()
    for base in found.bases[-3:]:
        found.disk.content(log_path(DIRECTORY, base))[:] = b""
    assert isinstance(open_log(found.disk, last_shutdown=ShutdownKind.MACHINE_CRASH), DamagedLog)


def test_a_committed_pass_that_a_deletion_puts_in_place_is_known_at_once() -> None:
    """A follower that fetches now is told of it."""
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    assert found.log.rounds.is_spoilt_by_cut(30), "it may be committed by the time of a cut"
    begun.write()
    begun.commit()
    assert found.log.rounds.compacted is None
    found.log.advance_log_start(27)
    found.log.detach_old_segments()
    assert found.log.rounds.compacted == Compacted(0, 30)
    assert found.log.rounds.is_settled


def test_a_pass_is_written_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewritten_files, "SLICE_BYTES", 2_000)
    found = world(300)
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    slices = 1
    while not begun.advance():
        slices += 1
    assert slices > begun.bytes_before // 2_000 > 10
    begun.commit()
    found.log.finish_compaction()
    assert begun.bytes_after == sum(segment.size_bytes for segment in found.log.segments[:-1])


def test_dirt_ends_before_what_is_young_uncommitted_or_in_the_active_segment() -> None:
    found = world()
    log = found.log
    sizes = {segment.base_offset: segment.size_bytes for segment in log.segments}

    def dirt(**changes: Any) -> Dirt:
        asked = {"clean_to": 0, "high_watermark": 32, "young_ms": None, "has_max_lag": False}
        return log.measure_dirt(**{**asked, **changes})

    *closed, active = found.bases
    assert dirt() == Dirt(active, 0, sum(sizes[base] for base in closed), None)
    assert dirt(high_watermark=closed[2] + 1).end_offset == closed[2]
    assert dirt(young_ms=1000 + closed[3]).end_offset == closed[3]
    assert dirt(has_max_lag=True).oldest_dirty_ms == 1000
    later = dirt(clean_to=closed[2], has_max_lag=True)
    assert later.clean_bytes == sum(sizes[base] for base in closed[:2])
    assert later.oldest_dirty_ms == 1000 + closed[2]
    assert dirt(clean_to=active) == Dirt(active, sum(sizes[base] for base in closed), 0, None)


def test_the_active_segment_is_closed_for_the_greatest_lag_but_not_for_a_round_alone() -> None:
    _, log = new_log(NO_TAIL)
    append(log, keyed(0))
    log.roll_for_compaction(now_ms=1500, max_lag_ms=600)
    assert len(log.segments) == 1
    log.roll_for_compaction(now_ms=1700, max_lag_ms=600)
    assert len(log.segments) == 2
    append(log, encode_round(Round(1, 0, 0, 0), leader_epoch=0, base_offset=1))
    log.roll_for_compaction(now_ms=9000, max_lag_ms=600)
    assert len(log.segments) == 2
    append(log, keyed(2))
    log.roll_for_compaction(now_ms=9000, max_lag_ms=600)
    assert len(log.segments) == 3


# What happens on the disk, and in which order.


def watched(disk: MemoryDisk) -> list[tuple[str, str]]:
    """The operations from now on: (operation, file name), each when it is done."""
    operations: list[tuple[str, str]] = []

    def note(operation: str, path: str, is_done: bool) -> None:
        if is_done:
            operations.append((operation, path.rpartition("/")[2]))

    disk.on_operation = note
    return operations


FOLDER = DIRECTORY.rpartition("/")[2]


def positions(operations: list[tuple[str, str]], operation: str, suffix: str) -> list[int]:
    return [at for at, (done, name) in enumerate(operations) if done == operation and name.endswith(suffix)]


def test_a_restart_removes_the_manifest_once_all_else_is_gone_durably() -> None:
    found = world()
    found.compact()
    operations = watched(found.disk)
    found.log.restart_at(50)
    assert (found.log.compacted, read_manifest(found.disk, DIRECTORY)) == (None, None)
    unlinked = max(*positions(operations, "unlink", ".log"), *positions(operations, "unlink", ".snapshot"))
    (removed,) = positions(operations, "unlink", MANIFEST_FILE)
    assert any(unlinked < at < removed for at in positions(operations, "fsync_dir", FOLDER))
    created = max(positions(operations, "create", ".log"))
    assert any(at > created for at in positions(operations, "fsync_dir", FOLDER))


def test_a_restart_that_a_crash_broke_off_is_finished_in_the_same_order() -> None:
    found = world()
    found.compact()
    manifest = read_manifest(found.disk, DIRECTORY)
    assert manifest is not None
    write_manifest(found.disk, DIRECTORY, msgspec.structs.replace(manifest, is_restarting=True))
    operations = watched(found.disk)
    assert finish_pass(found.disk, DIRECTORY) is None
    unlinked = max(*positions(operations, "unlink", ".log"), *positions(operations, "unlink", ".snapshot"))
    (removed,) = positions(operations, "unlink", MANIFEST_FILE)
    assert any(unlinked < at < removed for at in positions(operations, "fsync_dir", FOLDER))
    assert finish_pass(found.disk, DIRECTORY) is None
    assert not [path for path in found.disk.files() if path.endswith((".log", MANIFEST_FILE))]


def test_a_cut_has_dropped_later_segments_durably_before_it_cuts_within_one() -> None:
    found = world()
    operations = watched(found.disk)
    found.log.truncate_to(found.bases[1] + 1)
    unlinked = max(positions(operations, "unlink", ".log"))
    cut = max(positions(operations, "truncate", ".log"))
    assert any(unlinked < at < cut for at in positions(operations, "fsync_dir", FOLDER))


def test_a_pass_flushes_what_it_reads_and_its_own_files_with_their_names() -> None:
    found = world()
    assert found.log.recovery_point == 0
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    operations = watched(found.disk)
    begun.write()
    assert found.log.recovery_point == found.log.log_end_offset
    assert operations[-1] == ("fsync_dir", FOLDER)
    assert begun.reaches == found.placed.round_.end_offset
    assert begun.bytes_before > begun.bytes_after > 0
    begun.release()
    assert begun.bytes_before == 0


def test_only_what_lies_within_a_rewritten_segment_gives_way_to_it() -> None:
    disk = MemoryDisk()
    disk.mkdir(DIRECTORY)
    names = [f"{base:020d}" for base in (5, 10, 15, 20, 25, 30)]
    for name in (*names, "a-strangers"):
        disk.open(f"{DIRECTORY}/{name}.log", create=True)
    manifest = CompactionManifest(
        number=1,
        applied_at=40,
        round_=Round(30, 0, tombstone_floor=0, producers_floor=0),
        reaches=30,
        tombstone_floor=0,
        segments=(RewrittenSegment(10, 20, 0, 0), RewrittenSegment(20, 30, 0, 0)),
    )
    take_places(disk, DIRECTORY, manifest)
    left = [name.removesuffix(".log") for name in disk.listdir(DIRECTORY)]
    assert left == [*(names[index] for index in (0, 1, 3, 5)), "a-strangers"]
    assert manifest.end_offset == 30
    assert msgspec.structs.replace(manifest, segments=()).end_offset == 0


def test_the_floor_of_tombstones_is_the_highest_of_all_rounds() -> None:
    found = world()
    for end, floor, highest in ((12, 3, 3), (20, 9, 9), (30, 4, 9)):
        found.placed = PlacedRound(30, Round(end, 0, tombstone_floor=floor, producers_floor=0))
        found.compact()
        assert found.log.compacted is not None
        assert found.log.compacted.tombstone_floor == highest
    found = world(end=0)
    found.compact()  # nothing to rewrite
    assert found.log.compacted is not None
    assert (found.log.compacted.tombstone_floor, found.log.compacted.segments) == (0, ())


def test_a_pass_is_not_committed_over_what_was_found_rotten_meanwhile() -> None:
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    found.disk.flip_bit(log_path(DIRECTORY, found.bases[1]), 66)
    holes = found.log.holes
    hole = holes.check(holes.place_near(found.bases[1]), end_offset=30, bytes_max=10_000).hole
    assert hole is not None
    holes.note(hole, log_start_offset=0)
    with pytest.raises(PassPutOff, match="until it is mended"):
        begun.commit()
    assert not [path for path in found.disk.files() if path.endswith(".cleaned")]


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_pass_leaves_the_files_of_a_log_that_has_ended_alone(is_closed: bool) -> None:
    """Its directory may be another log's by now, or its disk broken."""
    found = world()
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    begun.write()
    cleaned = [path for path in found.disk.files() if path.endswith(".cleaned")]
    assert cleaned
    if is_closed:
        found.log.abandon()
    else:
        found.log._health.directory.fail(OSError(errno.EIO, "broken"), "writing")
    with pytest.raises(LogError):
        begun.commit()
    assert [path for path in found.disk.files() if path.endswith(".cleaned")] == cleaned


# What is written.


def distinct(count: int = 12) -> World:
    """A log of that many keys, of which a round takes nothing away."""
    disk, log = new_log(NO_TAIL)
    placed = PlacedRound(count, Round(count, 0, tombstone_floor=0, producers_floor=0))
    batches = [keyed(offset, key=offset) for offset in range(count)]
    batches.append(encode_round(placed.round_, leader_epoch=LeaderEpoch(0), base_offset=count))
    for each in batches:
        append(log, each)
    return World(disk, log, batches, placed)


@pytest.mark.parametrize("segment_bytes", [10, 2 * 83, 2 * 83 - 1, 600])
def test_a_rewritten_segment_is_as_full_as_an_append_makes_it_however_large_the_buffer_is(
    monkeypatch: pytest.MonkeyPatch, segment_bytes: int
) -> None:
    """Also where no batch fits: then each has a segment of its own."""
    assert len(distinct().batches[0]) == 83
    left: list[tuple[list[int], bytes]] = []
    for buffer_bytes in (rewritten_files.WRITE_BUFFER_BYTES, 150, 1):
        monkeypatch.setattr(rewritten_files, "WRITE_BUFFER_BYTES", buffer_bytes)
        found = distinct()
        log = found.log
        log.options = replace(NO_TAIL, segment_bytes=segment_bytes)
        sizes = [len(each) for each in found.batches]
        found.compact()
        rewritten = log.segments[:-1]
        assert len({segment.base_offset for segment in log.segments}) == len(log.segments)
        for segment, following in zip(rewritten, log.segments[1:], strict=True):
            held = sizes[segment.base_offset : following.base_offset]
            assert segment.size_bytes == sum(held)
            assert len(held) == 1 or sum(held) <= segment_bytes
            assert following is log.segments[-1] or sum(held) + sizes[following.base_offset] > segment_bytes
        left.append(([segment.base_offset for segment in rewritten], read_all(log)))
    assert left[0] == left[1] == left[2]


def test_a_rewritten_segment_ends_where_its_index_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as it is written: what is in the buffer has no entries yet."""
    monkeypatch.setattr(rewritten_files, "WRITE_BUFFER_BYTES", 1)
    found = distinct()
    found.log.options = replace(NO_TAIL, index_interval_bytes=1, index_bytes_max=16)
    found.compact()
    assert len(found.bases) > 3


@pytest.mark.parametrize(("at", "epoch_of"), [(7, 0), (15, 0), (15, 12), (15, 22)])
def test_a_header_that_does_not_continue_the_log_is_not_rewritten(at: int, epoch_of: int) -> None:
    """The batch's CRC covers neither its base offset (bytes 0 to 7) nor its leader epoch (12 to 15)."""
    found = world()
    base = max(base for base in found.bases if base <= epoch_of)
    size = len(keyed(base, leader_epoch=base // 10))
    found.disk.content(log_path(DIRECTORY, base))[size + at] ^= 1 if at == 15 else 0x40
    if at == 7:
        found.disk.content(log_path(DIRECTORY, base))[size + at] = 0
    begun = found.log.begin_compaction(found.placed, now_ms=1000)
    with pytest.raises(SuspectBytes):
        begun.write()


def test_batches_below_the_log_start_have_no_epoch_to_be_checked_by() -> None:
    found = world()
    found.log.advance_log_start(3)
    found.compact()
    assert headers(found.log)[-1] == (31, 1)


def test_dirt_is_told_in_proportion_within_a_segment_and_by_the_first_header_of_each() -> None:
    _, log = new_log(NO_TAIL)
    for offset in range(12):
        append(log, batch(offset, timestamp=40 - offset, value=b"v" * 60))
    first, second = log.segments[:2]
    assert first.next_offset == 4

    def dirt(clean_to: int, young_ms: int | None = None) -> Dirt:
        return log.measure_dirt(clean_to=clean_to, high_watermark=8, young_ms=young_ms, has_max_lag=True)

    size = first.size_bytes
    assert second.size_bytes == size
    assert dirt(0) == Dirt(8, 0, 2 * size, 36)
    assert dirt(1) == Dirt(8, size // 4, 2 * size - size // 4, 36)
    assert dirt(5) == Dirt(8, size + size // 4, size - size // 4, 36)
    assert [dirt(0, young_ms).end_offset for young_ms in (40, 41)] == [0, 8]
    _, log = new_log(NO_TAIL)
    append(log, batch(0, timestamp=0))
    log.roll(now_ms=0)
    assert (
        log.measure_dirt(clean_to=0, high_watermark=1, young_ms=None, has_max_lag=True).oldest_dirty_ms == 0
    )
