"""Compaction of transactional logs: what readers of committed records get stays, what was aborted goes, and a
log that is read again finds nothing open that is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import Round, encode_round, next_round
from dataplane.core.producer_state import ProducerStates
from dataplane.core.transactions import AbortedRanges, marker_in
from dataplane.storage.aborted_index import aborted_path
from dataplane.storage.partition_log import PartitionLog
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from springtide.wire.record_batch import BatchHeader, decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.dataplane.storage import (
    DIRECTORY,
    NO_TAIL,
    append,
    marker,
    new_log,
    open_log,
    opened,
    read_all,
)
from tests.kit.memory.disk import MemoryDisk
from tests.kit.memory.log import MemoryLog

DELETE_RETENTION_MS = 3


def keyed(offset: int, keys: Sequence[int], producer_id: int = -1, *, sequence: int = 0) -> bytes:
    return encode_batch(
        [NewRecord(b"key %d" % key, b"%d" % (offset + n), 1000) for n, key in enumerate(keys)],
        base_offset=offset,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
    )


def round_batch(round_: Round, offset: int) -> bytes:
    return encode_round(round_, leader_epoch=LeaderEpoch(0), base_offset=offset)


def split(data: bytes) -> list[bytes]:
    found = []
    while data:
        size = decode_header(data).size_bytes
        found.append(data[:size])
        data = data[size:]
    return found


def batches_of(log: PartitionLog | MemoryLog) -> list[bytes]:
    if isinstance(log, MemoryLog):
        return [data for _, data in log.batches]
    return split(read_all(log))


def committed_table(log: PartitionLog | MemoryLog, end: int) -> dict[bytes, bytes]:
    """The newest record of each key for a reader of committed records."""
    aborted = AbortedRanges(log.aborted_in(0, end))
    table = {}
    for data in batches_of(log):
        header = decode_header(data)
        if header.base_offset >= end or header.is_control or aborted.hold(header):
            continue
        for record in iter_records(data):
            table[record.key or b""] = record.value or b""
    return table


def replayed(batches: Iterable[bytes]) -> ProducerStates:
    states = ProducerStates()
    for data in batches:
        header = decode_header(data)
        states.update(header, now_ms=0, marker=marker_in(header, data))
    return states


def compact(log: PartitionLog | MemoryLog, placed: PlacedRound, keys_max: int) -> None:
    while log.rounds.applied is None or log.rounds.applied.offset < placed.offset:
        if isinstance(log, MemoryLog):
            log.compact(placed, keys_max=keys_max)
            continue
        begun = log.begin_compaction(placed, now_ms=1000, keys_max=keys_max)
        begun.write()
        begun.commit()
        log.finish_compaction()
        begun.release()


def reopened(disk: MemoryDisk, log: PartitionLog, random: Random) -> PartitionLog:
    """The process may end, cleanly or not."""
    kind = random.choice((None, ShutdownKind.CLEAN, ShutdownKind.PROCESS_CRASH))
    if kind is None:
        return log
    recovery_point = 0
    if kind is ShutdownKind.CLEAN:
        log.close_cleanly()
        recovery_point = log.recovery_point
    else:
        disk.crash_process()
    again = open_log(disk, last_shutdown=kind, recovery_point=recovery_point, options=NO_TAIL)
    return opened(again)


@pytest.mark.parametrize("seed", range(25))
def test_readers_of_committed_records_get_the_same_and_no_aborted_record_stays(seed: int) -> None:
    random = Random(seed)
    disk, on_disk = new_log(NO_TAIL)
    in_memory, whole = MemoryLog(), MemoryLog()
    sequences: dict[int, int] = {}
    last_round: Round | None = None
    now_ms = 0

    def add(data: bytes) -> None:
        for log in (on_disk, in_memory, whole):
            append(log, data)

    for _ in range(6):
        for _ in range(random.randint(5, 25)):
            base, producer_id = in_memory.log_end_offset, random.randrange(-1, 4)
            is_open = in_memory.producers.transactions.is_open(producer_id)
            if producer_id >= 0 and is_open and random.random() < 0.4:
                add(marker(base, producer_id, random.choice(list(Outcome))))
                continue
            keys = [random.randrange(6) for _ in range(random.randint(1, 3))]
            sequence = sequences.get(producer_id, 0)
            sequences[producer_id] = sequence + len(keys)
            add(keyed(base, keys, producer_id, sequence=sequence))
        end = in_memory.log_end_offset
        stable = in_memory.producers.transactions.last_stable_offset(end)
        on_disk.roll(now_ms=1000)
        ends = [s.next_offset for s in on_disk.segments if s.next_offset <= stable]
        if not ends or (last_round is not None and ends[-1] <= last_round.end_offset):
            continue
        now_ms += random.randint(1, 3)
        last_round = next_round(
            last_round,
            end_offset=ends[-1],
            now_ms=now_ms,
            delete_retention_ms=DELETE_RETENTION_MS,
            log_ends=[end],
            producers_floor=in_memory.producers.last_batches_from,
        )
        placed = PlacedRound(end, last_round)
        add(round_batch(last_round, end))
        expected = committed_table(whole, stable)
        open_before = dict(in_memory.producers.transactions.open)
        aborted = AbortedRanges(whole.aborted_in(0, last_round.end_offset))
        keys_max = random.choice((3, 100))
        for log in (in_memory, on_disk):
            compact(log, placed, keys_max)
        on_disk = reopened(disk, on_disk, random)
        for log in (in_memory, on_disk):
            left = batches_of(log)
            assert log.producers.transactions.open == open_before
            assert committed_table(log, stable) == expected
            for data in left:
                header = decode_header(data)
                if header.base_offset < last_round.end_offset and aborted.hold(header):
                    assert header.record_count == 0
            assert replayed(left).transactions.open == open_before, "crabka#528: a marker that is needed went"
        assert [decode_header(data) for data in batches_of(on_disk)] == [
            decode_header(data) for data in batches_of(in_memory)
        ]


# One thing at a time.


def compacted(
    *batches: bytes, end: int | None = None, tombstone_floor: int = 0, producers_floor: int = 0
) -> tuple[MemoryDisk, PartitionLog]:
    """A log with these batches, a segment up to `end`, and a round that is applied."""
    disk, log = new_log(NO_TAIL)
    end_offset = decode_header(batches[-1]).next_offset if end is None else end
    for data in batches:
        if decode_header(data).base_offset == end_offset:
            log.roll(now_ms=1000)
        append(log, data)
    round_ = Round(end_offset, 0, tombstone_floor, producers_floor)
    placed = PlacedRound(log.log_end_offset, round_)
    append(log, round_batch(round_, placed.offset))
    compact(log, placed, 100)
    return disk, log


def shapes(log: PartitionLog) -> list[tuple[int, int, bool]]:
    """(base offset, records, is a marker) of each batch but rounds."""
    found: list[BatchHeader] = [decode_header(data) for data in batches_of(log)]
    return [
        (header.base_offset, header.record_count, header.is_control)
        for header in found
        if header.producer_id >= 0 or not header.is_control
    ]


def test_an_aborted_record_replaces_no_older_one() -> None:
    _, log = compacted(keyed(0, [1]), keyed(1, [1], 7), marker(2, 7), keyed(3, [2]))
    assert shapes(log) == [(0, 1, False), (1, 0, False), (2, 1, True), (3, 1, False)]


def test_a_committed_record_replaces_an_older_one() -> None:
    _, log = compacted(keyed(0, [1]), keyed(1, [1], 7), marker(2, 7, Outcome.COMMIT), keyed(3, [2]))
    assert shapes(log) == [(1, 1, False), (2, 1, True), (3, 1, False)]


def test_records_go_whose_abort_marker_lies_above_the_rounds_end() -> None:
    """KAFKA-13727: a transaction is cleaned in part, because its marker lies in a later segment."""
    _, log = compacted(keyed(0, [1]), keyed(1, [1], 7), keyed(2, [2]), marker(3, 7), end=3)
    assert shapes(log) == [(0, 1, False), (1, 0, False), (2, 1, False), (3, 1, True)]
    assert log.aborted_in(0, 10)[0][:3] == (7, 1, 3)


def test_entries_whose_records_are_gone_leave_the_index() -> None:
    disk, log = compacted(keyed(0, [1], 7), marker(1, 7), keyed(2, [1], 8), marker(3, 8))
    assert list(log.aborted_in(0, 10)) == []
    path = aborted_path(DIRECTORY, 0)
    assert len(disk.content(path)) == 4, "it takes the place of the old one"
    log.close_cleanly()
    log = opened(open_log(disk, recovery_point=5, options=NO_TAIL))
    assert list(log.aborted_in(0, 10)) == []


def test_a_marker_goes_when_it_is_old_nothing_of_it_is_left_and_its_producer_has_gone_on() -> None:
    first = (keyed(0, [1], 7), marker(1, 7, Outcome.COMMIT))
    then = (keyed(2, [1], 7, sequence=1), marker(3, 7, Outcome.COMMIT), keyed(4, [2]))
    _, young = compacted(*first, *then, tombstone_floor=1)
    assert shapes(young) == [(1, 1, True), (2, 1, False), (3, 1, True), (4, 1, False)]
    _, old = compacted(*first, *then, tombstone_floor=5)
    assert shapes(old) == [(2, 1, False), (3, 1, True), (4, 1, False)]


def test_of_the_transactions_of_one_producer_each_keeps_its_own_marker() -> None:
    _, log = compacted(
        keyed(0, [3], 7),
        marker(1, 7, Outcome.COMMIT),
        keyed(2, [1], 7, sequence=1),
        marker(3, 7, Outcome.COMMIT),
        keyed(4, [1], 7, sequence=2),
        marker(5, 7, Outcome.COMMIT),
        tombstone_floor=6,
    )
    assert shapes(log) == [(0, 1, False), (1, 1, True), (4, 1, False), (5, 1, True)]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_marker_stays_while_a_batch_of_its_transaction_does_even_an_empty_one(outcome: Outcome) -> None:
    """The last batch of all stays, empty; a log that is read again must not find it open."""
    batches = [keyed(0, [1], 7), marker(1, 7, outcome), keyed(2, [1]), keyed(3, [1], 7, sequence=1)]
    _, log = compacted(*batches, marker(4, 7, outcome), tombstone_floor=5)
    assert (4, 1, True) in shapes(log)
    assert replayed(batches_of(log)).transactions.open == {}


def test_the_last_marker_of_a_producer_stays_and_fences_after_the_loss_of_all_snapshots() -> None:
    disk, log = compacted(
        keyed(0, [1], 7),
        marker(1, 7, producer_epoch=5, coordinator_epoch=9),
        keyed(2, [1]),
        tombstone_floor=3,
    )
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.unlink(f"{DIRECTORY}/{name}")
    log.abandon()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    (view,) = log.producers.active_producers()
    assert (view.producer_epoch, view.coordinator_epoch) == (5, 9)


def test_a_producer_goes_on_in_its_sequence_after_the_loss_of_all_snapshots() -> None:
    """Its last batch stays behind its marker, empty: under version 1 the next transaction has the same epoch,
    and its first batch does not begin at sequence 0."""
    disk, log = compacted(keyed(0, [1], 7), marker(1, 7, Outcome.COMMIT), keyed(2, [1]))
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.unlink(f"{DIRECTORY}/{name}")
    log.abandon()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert log.producers.check(decode_header(keyed(4, [2], 7, sequence=1))) is ErrorCode.NONE
    assert shapes(log) == [(0, 0, False), (1, 1, True), (2, 1, False)]


def test_of_an_earlier_epoch_no_batch_stays() -> None:
    """Under version 2 a marker has the next transaction's epoch."""
    _, log = compacted(keyed(0, [1], 7), marker(1, 7, Outcome.COMMIT, producer_epoch=1), keyed(2, [1]))
    assert shapes(log) == [(1, 1, True), (2, 1, False)]


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_committed_pass_keeps_its_index_over_a_crash(is_swapped: bool) -> None:
    """The new file takes the place of the old one with its segment, also at the next start."""
    disk, log = new_log(NO_TAIL)
    batches = [keyed(0, [1], 7), marker(1, 7), keyed(2, [1], 8), keyed(3, [2]), marker(4, 8)]
    for data in batches:
        append(log, data)
    round_ = Round(2, 0, 0, 0)
    log.roll(now_ms=1000)
    append(log, round_batch(round_, 5))
    before = list(log.aborted_in(0, 10))
    begun = log.begin_compaction(PlacedRound(5, round_), now_ms=1000)
    begun.write()
    begun.commit()
    if is_swapped:
        log.finish_compaction()
        assert list(log.aborted_in(0, 10)) == before[1:]
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert [entry[:3] for entry in before] == [(7, 0, 1), (8, 2, 4)]
    assert list(log.aborted_in(0, 10)) == before[1:]
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]


def test_a_pass_keeps_the_order_of_markers_in_its_index() -> None:
    """A look-up ends with the first entry whose last stable offset is far enough: entries in the order of
    their first offsets hid one transaction within another, and its aborted records were read."""
    _, log = new_log(NO_TAIL)
    for data in (
        keyed(0, [1]),
        keyed(1, [1]),
        keyed(2, [2], 7),
        keyed(3, [3], 8),
        marker(4, 8),
        marker(5, 7),
    ):
        append(log, data)
    log.roll(now_ms=1000)
    round_ = Round(2, 0, 0, 0)
    append(log, round_batch(round_, 6))
    before = list(log.aborted_in(2, 4))
    assert [entry[:3] for entry in before] == [(7, 2, 5), (8, 3, 4)]
    begun = log.begin_compaction(PlacedRound(6, round_), now_ms=1000)
    begun.write()
    begun.commit()
    log.finish_compaction()
    assert list(log.aborted_in(2, 4)) == before


def test_a_pass_that_is_given_up_leaves_the_index() -> None:
    disk, log = new_log(NO_TAIL)
    for data in (keyed(0, [1], 7), marker(1, 7), keyed(2, [1])):
        append(log, data)
    log.roll(now_ms=1000)
    round_ = Round(3, 0, 0, 0)
    append(log, round_batch(round_, 3))
    before = list(log.aborted_in(0, 10))
    log.begin_compaction(PlacedRound(3, round_), now_ms=1000).write()
    disk.crash_process()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert list(log.aborted_in(0, 10)) == before
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith(".cleaned")]
