"""Transactions of logs on disk: they are what the bytes say, whatever has happened to the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest
from crc32c import crc32c

from dataplane.core.producer_state import ProducerStates, decode_told_states
from dataplane.core.transactions import ENTRY_BYTES, AbortedEntry, encode_entry, marker_in
from dataplane.storage.aborted_index import (
    HELD_MAX,
    AbortedIndex,
    TornAbortedIndex,
    aborted_path,
    open_aborted_index,
)
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.segment import log_path
from springtide.contract.session import ShutdownKind
from springtide.wire.markers import Outcome
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    SMALL,
    append,
    batch,
    header_of,
    marker,
    new_log,
    open_log,
    opened,
)
from tests.kit.memory.disk import MemoryDisk
from tests.kit.memory.log import MemoryLog


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    marker_offset: int | None
    is_aborted: bool


def transactions_of(batches: Sequence[bytes]) -> list[Transaction]:
    """What the batches say, by the plainest of rules."""
    found: list[Transaction] = []
    open_: dict[int, int] = {}
    for encoded in batches:
        header = header_of(encoded)
        ended = marker_in(header, encoded)
        if ended is not None:
            if header.producer_id in open_:
                first = open_.pop(header.producer_id)
                is_aborted = ended.outcome is Outcome.ABORT
                found.append(Transaction(header.producer_id, first, header.base_offset, is_aborted))
        elif header.is_transactional:
            open_.setdefault(header.producer_id, header.base_offset)
    return found + [Transaction(producer_id, first, None, False) for producer_id, first in open_.items()]


def last_stable_offset(found: Sequence[Transaction], high_watermark: int) -> int:
    return min(
        high_watermark,
        *(
            each.first_offset
            for each in found
            if each.marker_offset is None or each.marker_offset >= high_watermark
        ),
        high_watermark,
    )


def overlapping(found: Sequence[Transaction], start: int, end: int) -> list[tuple[int, int, int]]:
    return sorted(
        (each.first_offset, each.producer_id, each.marker_offset)
        for each in found
        if each.is_aborted
        and each.marker_offset is not None
        and each.first_offset < end
        and each.marker_offset >= start
    )


class History:
    """A log's batches: five producers that begin, write, abort, commit, and write outside of transactions."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.batches: list[bytes] = []
        self.leader_epoch = 0

    @property
    def end(self) -> int:
        return header_of(self.batches[-1]).next_offset if self.batches else 0

    def grow(self) -> None:
        random, base, producer_id = self._random, self.end, self._random.randrange(5)
        mine = [b for b in self.batches if header_of(b).producer_id == producer_id]
        epoch = header_of(mine[-1]).producer_epoch if mine else 0
        kind = random.choice(("data", "data", "data", "abort", "abort", "commit", "plain"))
        if kind in ("abort", "commit"):
            is_next = random.random() < 0.5
            outcome = Outcome.ABORT if kind == "abort" else Outcome.COMMIT
            self.batches.append(
                marker(
                    base,
                    producer_id,
                    outcome,
                    producer_epoch=epoch + is_next,
                    leader_epoch=self.leader_epoch,
                )
            )
            return
        is_open = any(t.producer_id == producer_id and t.marker_offset is None for t in self.transactions)
        self.batches.append(
            batch(
                base,
                records=random.randint(1, 3),
                producer_id=-1 if kind == "plain" and not is_open else producer_id,
                producer_epoch=epoch,
                base_sequence=-1 if kind == "plain" and not is_open else len(mine),
                is_transactional=kind == "data" or is_open,
                leader_epoch=self.leader_epoch,
                value=b"v" * random.choice((1, 60)),
            )
        )

    def cut(self, count: int) -> int:
        """Forget the last batches; return where the log ends now."""
        del self.batches[len(self.batches) - count :]
        self.leader_epoch += 1
        return self.end

    @property
    def transactions(self) -> list[Transaction]:
        return transactions_of(self.batches)


def check(log: PartitionLog | MemoryLog, history: History, random: Random, high_watermark: int) -> None:
    found = history.transactions
    transactions = log.producers.transactions
    assert transactions.open == {t.producer_id: t.first_offset for t in found if t.marker_offset is None}
    assert list(transactions.open.values()) == sorted(transactions.open.values())
    assert transactions.last_stable_offset(high_watermark) == last_stable_offset(found, high_watermark)
    for _ in range(4):
        start = random.randint(0, history.end)
        end = random.randint(start, history.end)
        aborted = log.aborted_in(start, end)
        assert sorted((e.first_offset, e.producer_id, e.last_offset) for e in aborted) == overlapping(
            found, start, end
        )
        firsts = [entry.first_offset for entry in aborted]
        assert firsts == sorted(firsts), "franz-go 1.21.4"


@pytest.mark.parametrize("seed", range(20))
def test_leader_follower_and_a_log_that_was_opened_again_agree(seed: int) -> None:
    """I33: at equal offsets they have the same open transactions, last stable offset and aborted entries."""
    random = Random(seed)
    options = replace(random.choice((SMALL, NO_TAIL)), segment_bytes=random.choice((250, 600, 100_000)))
    disk, follower = new_log(options)
    leader = MemoryLog()
    history = History(random)
    high_watermark = recovery_point = 0

    def open_again(kind: ShutdownKind) -> PartitionLog:
        return opened(open_log(disk, last_shutdown=kind, recovery_point=recovery_point, options=options))

    def catch_up() -> None:
        """The logs end where batches end: what lies behind is appended, a few batches at a time."""
        for log in (leader, follower):
            behind = [b for b in history.batches if header_of(b).base_offset >= log.log_end_offset]
            while behind:
                count = random.randint(1, 4)
                append(log, *behind[:count])
                del behind[:count]

    for _ in range(20):
        for _ in range(random.randint(1, 6)):
            history.grow()
        catch_up()
        committed = random.choice([header_of(b).next_offset for b in history.batches])
        high_watermark = max(high_watermark, committed)
        match random.randrange(9):
            case 0:
                follower.roll(now_ms=1000)
            case 1:
                recovery_point = follower.durability.flush()
            case 2:
                follower.close_cleanly()
                recovery_point = follower.recovery_point
                follower = open_again(ShutdownKind.CLEAN)
            case 3:
                disk.crash_process()
                follower = open_again(ShutdownKind.PROCESS_CRASH)
            case 4:
                follower.durability.flush()
                recovery_point = follower.recovery_point
                disk.crash_machine(random)
                follower = open_again(ShutdownKind.MACHINE_CRASH)
                catch_up()
            case 5:
                committed_batches = sum(header_of(b).next_offset <= high_watermark for b in history.batches)
                end = history.cut(random.randint(0, len(history.batches) - committed_batches))
                follower.truncate_to(end)
                recovery_point = min(recovery_point, follower.recovery_point)
                leader.truncate_to(end)
                leader.begin_leader_epoch(history.leader_epoch)
            case 6:
                leader.recover()
        check(leader, history, random, high_watermark)
        check(follower, history, random, high_watermark)
        ends = (0, history.end)
        assert list(leader.aborted_in(*ends)) == list(follower.aborted_in(*ends))


def test_the_last_stable_offset_never_goes_back_while_the_high_watermark_rises() -> None:
    for seed in range(15):
        random = Random(seed)
        log, history = MemoryLog(), History(random)
        high_watermark = stable = 0
        for _ in range(80):
            history.grow()
            append(log, history.batches[-1])
            if random.random() < 0.4:
                ends = [header_of(b).next_offset for b in history.batches]
                high_watermark = random.choice([end for end in ends if end >= high_watermark])
            now = log.producers.transactions.last_stable_offset(high_watermark)
            assert stable <= now <= high_watermark
            stable = now


# The files.


def ended(*, options: object = NO_TAIL) -> tuple[MemoryDisk, PartitionLog]:
    """Ten aborted transactions of two batches each, in several segments; one is open."""
    disk, log = new_log(NO_TAIL)
    for number in range(10):
        append(log, batch(2 * number, producer_id=7, base_sequence=number, is_transactional=True))
        append(log, marker(2 * number + 1, 7))
    append(log, batch(20, producer_id=7, base_sequence=10, is_transactional=True))
    return disk, log


EXPECTED = [AbortedEntry(7, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(10)]


def test_closed_segments_have_files_of_kafkas_entries_and_a_crc() -> None:
    disk, log = ended()
    base = log.segments[0].base_offset
    raw = bytes(disk.content(aborted_path(DIRECTORY, base)))
    here = [entry for entry in EXPECTED if entry.last_offset < log.segments[0].next_offset]
    encoded = b"".join(map(encode_entry, here))
    assert ENTRY_BYTES == 34
    assert raw == encoded + crc32c(encoded).to_bytes(4, "big")
    assert encoded[:34] == b"\0\0" + b"".join(n.to_bytes(8, "big") for n in (7, 0, 1, 2))
    assert not disk.exists(aborted_path(DIRECTORY, log.segments[-1].base_offset))


def test_a_log_without_aborted_transactions_has_no_such_file_and_no_new_snapshot() -> None:
    disk, log = new_log(NO_TAIL)
    for offset in range(20):
        append(log, batch(offset, producer_id=1, base_sequence=offset, value=b"v" * 60))
    log.close_cleanly()
    names = disk.listdir(DIRECTORY)
    assert not [name for name in names if name.endswith(".txnindex")]
    for name in names:
        if name.endswith(".snapshot"):
            assert disk.content(f"{DIRECTORY}/{name}")[4:6] == b"\0\2"
    assert log.aborted_in(0, 20) == ()


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH])
@pytest.mark.parametrize("damage", ["flip", "empty", "short", "missing entry", "lost"])
def test_a_torn_file_is_built_again_from_the_batches(kind: ShutdownKind, damage: str) -> None:
    disk, log = ended()
    base = log.segments[1].base_offset
    log.durability.flush()
    recovery_point = log.recovery_point
    if kind is ShutdownKind.CLEAN:
        log.close_cleanly()
    content = disk.content(aborted_path(DIRECTORY, base))
    if damage == "lost":
        disk.unlink(aborted_path(DIRECTORY, base))
    elif damage == "flip":
        content[5] ^= 1
    elif damage == "empty":
        content.clear()
    elif damage == "short":
        del content[-1:]
    else:
        del content[:34]
    log = opened(open_log(disk, last_shutdown=kind, recovery_point=recovery_point, options=NO_TAIL))
    assert log.aborted_in(0, 30) == EXPECTED
    open_again = open_aborted_index(disk, aborted_path(DIRECTORY, base))
    assert list(open_again.entries()) == [
        e for e in EXPECTED if base <= e.last_offset < log.segments[2].base_offset
    ]


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_last_segments_file_is_built_again_as_well(is_lost: bool) -> None:
    disk, log = ended()
    path = aborted_path(DIRECTORY, log.segments[-1].base_offset)
    end_offset = log.log_end_offset
    log.close_cleanly()
    if is_lost:
        disk.unlink(path)
    else:
        disk.content(path)[5] ^= 1
    log = opened(open_log(disk, recovery_point=end_offset, options=NO_TAIL))
    assert log.aborted_in(0, 30) == EXPECTED


def test_a_file_that_rots_under_a_running_process_is_built_again() -> None:
    disk, log = ended()
    segment = log.segments[1]
    disk.content(aborted_path(DIRECTORY, segment.base_offset))[7] ^= 1
    assert log.aborted_in(0, 30) == EXPECTED


def test_a_cut_drops_entries_also_of_a_file() -> None:
    disk, log = ended()
    assert len(log.segments) > 2
    log.truncate_to(5)
    assert log.producers.transactions.open == {7: 4}
    assert log.aborted_in(0, 30) == EXPECTED[:2]
    append(log, marker(5, 7, Outcome.COMMIT))
    log.close_cleanly()
    log = opened(open_log(disk, recovery_point=6, options=NO_TAIL))
    assert log.aborted_in(0, 30) == EXPECTED[:2]
    assert log.producers.transactions.open == {}


def test_a_stale_file_of_a_segment_that_was_cut_is_not_believed_after_a_crash() -> None:
    disk, log = ended()
    log.durability.flush()
    log.truncate_to(1)
    append(log, marker(1, 7, Outcome.COMMIT))
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert list(log.aborted_in(0, 30)) == []
    log.roll(now_ms=1000)
    log.durability.flush()
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, recovery_point=2, options=NO_TAIL))
    assert list(log.aborted_in(0, 30)) == []


def test_retention_drops_the_files_with_their_segments() -> None:
    disk, log = ended()
    log.advance_log_start(20)
    log.unlink_detached(log.detach_old_segments())
    first = log.segments[0].base_offset
    left = [name for name in disk.listdir(DIRECTORY) if name.endswith((".txnindex", ".aborted"))]
    assert all(int(name[:20]) >= first for name in left)
    assert log.aborted_in(0, 30) == [e for e in EXPECTED if e.last_offset >= first]


def test_a_restart_elsewhere_forgets_all() -> None:
    disk, log = ended()
    log.restart_at(100)
    assert log.aborted_in(0, 200) == []
    assert log.producers.transactions.open == {}
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".txnindex", ".aborted"))]


def test_an_open_transaction_survives_the_deletion_of_its_records_and_a_restart() -> None:
    """redpanda#30003: one without data must not be left out of the snapshot."""
    disk, log = new_log(NO_TAIL)
    append(log, batch(0, producer_id=7, base_sequence=0, is_transactional=True))
    for offset in range(1, 20):
        append(log, batch(offset, value=b"v" * 60))
    log.advance_log_start(19)
    log.unlink_detached(log.detach_old_segments())
    for kind in (ShutdownKind.PROCESS_CRASH, ShutdownKind.CLEAN, ShutdownKind.CLEAN):
        if kind is ShutdownKind.CLEAN:
            log.close_cleanly()
        else:
            disk.crash_process()
        log = opened(
            open_log(disk, last_shutdown=kind, recovery_point=0, log_start_offset=19, options=NO_TAIL)
        )
        assert log.producers.transactions.open == {7: 0}
        assert log.producers.transactions.last_stable_offset(20) == 0, "redpanda#30124: valid at once"
    append(log, marker(20, 7))
    assert log.aborted_in(19, 21) == [AbortedEntry(7, 0, 20, 21)]


def test_a_transaction_whose_marker_is_not_committed_stays_unstable_after_a_restart() -> None:
    disk, log = new_log(NO_TAIL)
    append(log, batch(0, producer_id=7, base_sequence=0, is_transactional=True), marker(1, 7))
    log.close_cleanly()
    log = opened(open_log(disk, recovery_point=2, options=NO_TAIL))
    assert log.producers.transactions.last_stable_offset(1) == 0
    assert log.producers.transactions.last_stable_offset(2) == 2


def test_markers_in_one_append_are_taken_in_order() -> None:
    _, log = new_log(SMALL)
    append(
        log,
        batch(0, producer_id=7, base_sequence=0, is_transactional=True),
        marker(1, 7),
        batch(2, producer_id=7, base_sequence=1, is_transactional=True),
        batch(3, producer_id=8, base_sequence=0, is_transactional=True),
        marker(4, 8, Outcome.COMMIT),
    )
    assert log.aborted_in(0, 10) == [AbortedEntry(7, 0, 1, 2)]
    assert log.producers.transactions.open == {7: 2}


def test_a_control_batch_of_a_producer_that_is_no_marker_changes_nothing() -> None:
    disk, log = new_log(SMALL)
    append(log, batch(0, producer_id=7, base_sequence=0, is_transactional=True))
    append(log, batch(1, producer_id=7, is_control=True, is_transactional=True))
    assert log.producers.transactions.open == {7: 0}
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH))
    assert log.producers.transactions.open == {7: 0}


def test_a_lookup_ends_where_no_later_entry_can_begin_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _, log = ended()
    read: list[AbortedIndex] = []
    entries = AbortedIndex.entries

    def note(index: AbortedIndex) -> Sequence[AbortedEntry]:
        read.append(index)
        return entries(index)

    monkeypatch.setattr(AbortedIndex, "entries", note)
    assert log.aborted_in(0, 2) == EXPECTED[:1]
    assert set(read) == {log.segments[0].aborted}


def test_few_closed_indexes_are_held_in_memory() -> None:
    from dataplane.storage import aborted_index

    disk = MemoryDisk()
    disk.mkdir("/data")
    disk.mkdir(DIRECTORY)
    for base in range(HELD_MAX + 5):
        index = AbortedIndex(disk, aborted_path(DIRECTORY, base))
        index.append(AbortedEntry(1, base, base, base))
        index.write()
        assert list(index.entries()) == [AbortedEntry(1, base, base, base)]
    assert len(aborted_index._HELD) <= HELD_MAX


def test_a_version_that_is_not_known_is_torn() -> None:
    disk = MemoryDisk()
    disk.mkdir("/data")
    disk.mkdir(DIRECTORY)
    path = aborted_path(DIRECTORY, 0)
    index = AbortedIndex(disk, path)
    index.append(EXPECTED[0])
    index.write()
    content = disk.content(path)
    content[1] = 1
    content[-4:] = crc32c(bytes(content[:-4])).to_bytes(4, "big")
    with pytest.raises(TornAbortedIndex):
        open_aborted_index(disk, path).entries()
    assert log_path(DIRECTORY, 0) != path


@pytest.mark.parametrize("kind", [ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH])
def test_a_copy_that_begins_in_the_middle_keeps_what_it_was_told_is_open(kind: ShutdownKind) -> None:
    leader = ProducerStates()
    leader.update(
        header_of(batch(3, producer_id=7, base_sequence=0, is_transactional=True)), now_ms=1, marker=None
    )
    disk, log = new_log(NO_TAIL)
    log.restart_at(10)
    log.learn_producers(decode_told_states(leader.below(10).encode(), log_offset=10))
    append(log, batch(10, producer_id=8, base_sequence=0, is_transactional=True))
    log.durability.flush()
    recovery_point = log.recovery_point
    if kind is ShutdownKind.CLEAN:
        log.close_cleanly()
    else:
        disk.crash_process()
    log = opened(
        open_log(
            disk, last_shutdown=kind, recovery_point=recovery_point, log_start_offset=10, options=NO_TAIL
        )
    )
    assert log.producers.transactions.open == {7: 3, 8: 10}
    append(log, marker(11, 7))
    assert log.aborted_in(10, 12) == [AbortedEntry(7, 3, 11, 10)]
    log.truncate_to(11)
    assert log.producers.transactions.open == {7: 3, 8: 10}
    assert list(log.aborted_in(10, 12)) == []
