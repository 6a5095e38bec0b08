"""What a log knows of its rotten bytes: noted once, mended or refused, told to readers, forgotten."""

from __future__ import annotations

import errno
from collections.abc import Callable

import msgspec
import pytest

from dataplane.core.log_port import LogChanged, LogError, RottenBytes, SuspectBytes
from dataplane.storage import rot
from dataplane.storage.disk import File, read_whole, replace_durably
from dataplane.storage.health import ClosedLog, CorruptLog
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import DamagedLog
from dataplane.storage.rot import ROTTEN_FILE, ScrubPlace, read_at_rest, read_rotten
from dataplane.storage.segment import Hole
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import DIRECTORY, NO_TAIL, append, batch, new_log, open_log, opened
from tests.kit.memory.disk import MemoryDisk

COUNT = 24


def stored() -> tuple[MemoryDisk, PartitionLog]:
    """In segments of a few batches each, all of one size."""
    disk, log = new_log(NO_TAIL)
    for number in range(COUNT):
        append(log, batch(number, value=b"v" * 40))
    log.durability.flush()
    return disk, log


SIZE = len(batch(0, value=b"v" * 40))


def hole_at(log: PartitionLog, offset: int, *, batches: int = 1) -> Hole:
    base = log.holes.place_near(offset).base_offset
    position = (offset - base) * SIZE
    return Hole(base, position, position + batches * SIZE, offset, offset + batches, f"rotten at {offset}")


def note(log: PartitionLog, *holes: Hole) -> None:
    for hole in holes:
        log.holes.note(hole, log_start_offset=log.log_start_offset)


def second_base(log: PartitionLog) -> int:
    return log.segments[1].base_offset


def test_a_scrub_can_begin_near_any_offset_and_where_the_index_lies_with_the_segment() -> None:
    disk, log = stored()
    for offset in range(COUNT):
        place = log.holes.place_near(offset)
        assert place.next_offset <= offset < place.next_offset + 3
        assert place.position == (place.next_offset - place.base_offset) * SIZE
    base = second_base(log)
    place = log.holes.place_near(base + 3)
    assert place.position
    disk.flip_bit(f"{DIRECTORY}/{base:020d}.log", place.position + 7)
    assert log.holes.place_near(base + 3) == ScrubPlace(base, 0, base)


def test_holes_are_noted_once_each_in_any_order_and_known_to_the_next_process() -> None:
    disk, log = stored()
    base = second_base(log)
    late, early, other = hole_at(log, base + 2), hole_at(log, base), hole_at(log, 1)
    note(log, late, early, other, late, other._replace(base_offset=77))
    assert log.holes.all == [other, early, late]
    assert [found.first_offset for found in log.rotten] == [1, base, base + 2]
    log.close_cleanly()
    disk.synced_paths.clear()
    again = opened(open_log(disk, last_shutdown=ShutdownKind.CLEAN, recovery_point=COUNT, options=NO_TAIL))
    assert again.holes.all == [other, early, late]
    assert not [path for path in disk.synced_paths if ROTTEN_FILE in path], "the file says it already"


def test_a_flipped_bit_in_the_list_of_holes_hides_none_and_ends_this_log_alone() -> None:
    """A hole that is forgotten, or that lies elsewhere, leaves damage where the log is taken for whole."""
    disk, log = stored()
    hole = hole_at(log, second_base(log))
    note(log, hole)
    log.close_cleanly()
    path = f"{DIRECTORY}/{ROTTEN_FILE}"
    written = read_whole(disk, path, bytes_max=1000)
    assert written is not None
    for at in range(len(written)):
        for bit in range(8):
            disk.flip_bit(path, at, bit=bit)
            try:
                assert read_rotten(disk, DIRECTORY) == (hole,)
            except CorruptLog:
                entry = open_log(
                    disk, last_shutdown=ShutdownKind.CLEAN, recovery_point=COUNT, options=NO_TAIL
                )
                assert isinstance(entry, DamagedLog)
            disk.flip_bit(path, at, bit=bit)
    assert read_rotten(disk, DIRECTORY) == (hole,)


def test_a_list_of_holes_of_an_older_release_is_believed_and_ours_is_read_by_it() -> None:
    disk, log = stored()
    holes = hole_at(log, 1), hole_at(log, 3)
    replace_durably(disk, f"{DIRECTORY}/{ROTTEN_FILE}", msgspec.json.encode(holes))
    assert read_rotten(disk, DIRECTORY) == holes
    note(log, *holes)
    written = read_whole(disk, f"{DIRECTORY}/{ROTTEN_FILE}", bytes_max=1000)
    assert written is not None
    found = msgspec.json.decode(written, type=tuple[Hole, ...])
    bases = [segment.base_offset for segment in log.segments]
    assert tuple(hole for hole in found if hole.base_offset in bases) == holes


def test_holes_below_the_log_start_are_forgotten_also_by_the_next_process() -> None:
    disk, log = stored()
    first, second = hole_at(log, 1), hole_at(log, 3)
    note(log, first, second)
    log.holes.forget_gone(log_start_offset=1)
    assert log.holes.all == [first, second]
    log.close_cleanly()
    again = opened(
        open_log(
            disk,
            last_shutdown=ShutdownKind.CLEAN,
            recovery_point=COUNT,
            log_start_offset=2,
            options=NO_TAIL,
        )
    )
    assert again.holes.all == [second]
    assert read_rotten(disk, DIRECTORY) == (second,)
    again.holes.forget_gone(log_start_offset=4)
    assert (again.holes.all, read_rotten(disk, DIRECTORY)) == ([], ())


def test_a_read_ends_before_the_next_hole_or_where_it_is_asked_to() -> None:
    _, log = stored()
    note(log, hole_at(log, 3))
    assert [log.holes.good_until(0, end_offset=end) for end in (1, 3, 9)] == [1, 3, 3]
    assert log.holes.good_until(4, end_offset=9) == 9
    with pytest.raises(RottenBytes):
        log.holes.good_until(3, end_offset=9)


USES: list[Callable[[PartitionLog, Hole], object]] = [
    lambda log, hole: log.holes.check(ScrubPlace(0, 0, 0), end_offset=COUNT, bytes_max=100),
    lambda log, hole: log.holes.note(hole, log_start_offset=0),
    lambda log, hole: log.holes.mend(hole, b""),
    lambda log, hole: log.holes.close(hole, size_bytes=SIZE, next_offset=2, log_start_offset=0),
]


@pytest.mark.parametrize("use", USES)
def test_a_closed_log_is_not_scrubbed_nor_mended(use: Callable[[PartitionLog, Hole], object]) -> None:
    _, log = stored()
    hole = hole_at(log, 1)
    note(log, hole)
    log.abandon()
    with pytest.raises(ClosedLog):
        use(log, hole)


# ---- errors of reads


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    "error", [None, OSError(errno.EIO, "bad sector"), CorruptLog("no bytes of a compaction")]
)
def test_an_error_of_a_scrub_counts_unless_the_log_was_cut_under_it(
    error: Exception | None, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, log = stored()

    def read(file: File, length: int, position: int) -> bytes:
        if is_cut:
            log.truncate_to(2)
        if error is not None:
            raise error
        return read_at_rest(file, length, position)

    monkeypatch.setattr(rot, "read_at_rest", read)
    if not is_cut and error is None:
        assert log.holes.check(ScrubPlace(0, 0, 0), end_offset=COUNT, bytes_max=100).hole is None
        return
    with pytest.raises(LogError) as raised:
        log.holes.check(ScrubPlace(0, 0, 0), end_offset=COUNT, bytes_max=100)
    assert isinstance(raised.value, LogChanged) is is_cut
    assert disk.exists(f"{DIRECTORY}/damaged") is (isinstance(error, CorruptLog) and not is_cut)


@pytest.mark.parametrize("is_known", [False, True])
def test_damage_that_a_thread_meets_ends_the_log_unless_it_has_holes(is_known: bool) -> None:
    disk, log = stored()
    if is_known:
        note(log, hole_at(log, 1))
    with pytest.raises(LogError) as raised, log.holes.reading(None):
        raise CorruptLog("no batch here")
    assert isinstance(raised.value, RottenBytes) is is_known
    assert disk.exists(f"{DIRECTORY}/damaged") is not is_known


def test_a_reader_tells_a_scrub_where_to_look() -> None:
    _, log = stored()
    base = second_base(log)
    for base_offset, position, first_offset, suspect in (
        (77, 0, 2, (2, 2)),  # the segment is gone
        (base, 3 * SIZE, 2, (base, base + 3)),
        (base, 3 * SIZE, base + 1, (base + 1, base + 3)),
        (base, SIZE, base + 2, (base + 2, base + 2)),
    ):
        with pytest.raises(SuspectBytes) as raised, log.holes.reading(first_offset):
            raise CorruptLog("no batch here", base_offset=base_offset, position=position)
        assert (raised.value.first_offset, raised.value.bad_offset) == suspect


# ---- mending


def test_a_hole_is_mended_durably_and_piece_by_piece() -> None:
    disk, log = stored()
    base = second_base(log)
    hole = hole_at(log, base + 1, batches=2)
    path = f"{DIRECTORY}/{base:020d}.log"
    whole = bytes(disk.content(path))
    note(log, hole)
    disk.content(path)[hole.position : hole.end_position] = bytes(2 * SIZE)
    for offset in (base + 1, base + 2):
        (known,) = log.holes.all
        log.holes.mend(known, batch(offset, value=b"v" * 40))
        assert disk.is_clean(path)
        log.holes.close(known, size_bytes=SIZE, next_offset=offset + 1, log_start_offset=0)
        left = [found.first_offset for found in log.rotten]
        assert left == ([base + 2] if offset == base + 1 else [])
    assert disk.content(path) == whole


def test_nothing_is_written_over_what_is_no_hole_or_a_smaller_one() -> None:
    disk, log = stored()
    hole = hole_at(log, second_base(log) + 1)
    note(log, hole)
    before = {path: bytes(disk.content(path)) for path in disk.files()}
    for wrong, size in (
        (hole, SIZE + 1),
        (hole._replace(position=hole.position + SIZE, end_position=hole.end_position + SIZE), SIZE),
        (hole._replace(base_offset=77), SIZE),
    ):
        with pytest.raises(LogChanged, match="nothing to mend"):
            log.holes.mend(wrong, bytes(size))
    assert {path: bytes(disk.content(path)) for path in disk.files()} == before


@pytest.mark.parametrize("what", ["a cut", "rot"])
def test_a_mend_is_not_believed_if_the_log_was_cut_or_the_bytes_are_others_again(what: str) -> None:
    disk, log = stored()
    hole = hole_at(log, 1)
    note(log, hole)

    def come_between(operation: str, path: str, is_done: bool) -> None:
        if operation == "fsync" and is_done:
            disk.on_operation = None
            if what == "a cut":
                log.truncate_to(10)
            else:
                disk.rot_bit(path, hole.position + 70)

    disk.on_operation = come_between
    with pytest.raises(LogError) as raised:
        log.holes.mend(hole, batch(1, value=b"v" * 40))
    assert isinstance(raised.value, LogChanged) is (what == "a cut")
    assert ("rots again" in str(raised.value)) is (what == "rot")
