"""Producers with transactions: what a snapshot, a leader's word and the bounds keep of them."""

from __future__ import annotations

import struct
from random import Random

import pytest
from crc32c import crc32c

from dataplane.core.producer_state import (
    CorruptProducerSnapshot,
    ProducerStates,
    decode_producer_states,
    decode_told_states,
)
from dataplane.core.transactions import (
    AbortedEntry,
    MarkerToWrite,
    PartitionTransactions,
    decode_entries,
    encode_entry,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Marker, Outcome
from springtide.wire.record_batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL, BatchHeader

ABORT = Marker(Outcome.ABORT, 3)
COMMIT = Marker(Outcome.COMMIT, 3)


def header(sequence: int, *, offset: int, pid: int = 7, epoch: int = 0, attributes: int = 0) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, attributes, 0, 50, 50 + offset, pid, epoch, sequence, 1)


def data(sequence: int, *, offset: int, pid: int = 7, epoch: int = 0) -> BatchHeader:
    return header(sequence, offset=offset, pid=pid, epoch=epoch, attributes=ATTRIBUTE_TRANSACTIONAL)


def end(*, offset: int, pid: int = 7, epoch: int = 0) -> BatchHeader:
    attributes = ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL
    return header(-1, offset=offset, pid=pid, epoch=epoch, attributes=attributes)


def states_after(*batches: BatchHeader, marker: Marker = ABORT) -> ProducerStates:
    states = ProducerStates()
    for batch in batches:
        states.update(batch, now_ms=1_000 + batch.base_offset, marker=marker if batch.is_control else None)
    return states


def marker_of(
    coordinator_epoch: int = 3, *, epoch: int = 0, attempt: int = -1, version: int = 0
) -> MarkerToWrite:
    return MarkerToWrite(
        producer_id=7,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        outcome=Outcome.ABORT,
        transaction_version=version,
        attempt=attempt,
    )


def content(states: ProducerStates) -> object:
    transactions = states.transactions
    return (
        states.active_producers(),
        dict(transactions.open),
        transactions.ended,
        states.end_offset,
        states.is_whole,
    )


# Snapshots.


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_snapshot_keeps_what_is_open_what_has_ended_and_who_ended_it(is_whole: bool) -> None:
    states = states_after(
        data(0, offset=0), data(0, offset=1, pid=8), data(0, offset=2, pid=9), end(offset=3)
    )
    states.update(header(0, offset=4, pid=10), now_ms=1)
    states.is_whole = is_whole
    encoded = states.encode()
    assert encoded[4:6] == b"\0\4"
    again = decode_producer_states(encoded)
    assert content(again) == content(states)
    assert not again.is_late(marker_of(attempt=0)), "the numbers of requests are not kept"
    assert again.transactions.open == {8: 1, 9: 2}
    assert again.transactions.last_stable_offset(3) == 0, "its marker is not committed"
    assert again.transactions.last_stable_offset(4) == 1


def test_a_partition_without_transactions_has_the_snapshots_of_earlier_releases() -> None:
    states = states_after(header(0, offset=0), header(1, offset=1))
    assert states.encode()[4:6] == b"\0\2"
    states.is_whole = False
    assert states.encode()[4:6] == b"\0\3"


def test_what_has_ended_is_in_the_snapshot_though_its_producer_is_forgotten() -> None:
    states = ProducerStates(producers_max=1)
    states.update(data(0, offset=0), now_ms=0)
    states.update(end(offset=1), now_ms=0, marker=ABORT)
    states.update(header(0, offset=2, pid=8), now_ms=0)
    assert (len(states), states.transactions.ended) == (1, ((0, 1),))
    assert decode_producer_states(states.encode()).transactions.ended == ((0, 1),)


def test_a_marker_at_the_first_offset_is_in_the_snapshot() -> None:
    states = states_after(end(offset=0))
    assert states.last_batches_from == 0
    again = decode_producer_states(states.encode())
    assert again.check_marker(marker_of(coordinator_epoch=2)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_marker_alone_is_in_the_snapshot() -> None:
    states = states_after(end(offset=5, epoch=4))
    again = decode_producer_states(states.encode())
    assert content(again) == content(states)
    late = data(0, offset=-1, epoch=3)
    assert again.check(late) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_damaged_snapshot_is_skipped_whatever_byte_has_changed() -> None:
    encoded = states_after(data(0, offset=0), data(0, offset=1, pid=8), end(offset=2)).encode()
    for place in range(len(encoded)):
        flipped = bytearray(encoded)
        flipped[place] ^= 1
        with pytest.raises(CorruptProducerSnapshot):
            decode_producer_states(bytes(flipped))
        with pytest.raises(CorruptProducerSnapshot):
            decode_producer_states(encoded[:place])


def sealed(covered: bytes) -> bytes:
    return struct.pack(">4sHI", b"SPRD", 4, crc32c(covered, crc32c(b"\0\4"))) + covered


@pytest.mark.parametrize(
    "transactions",
    [
        struct.pack(">?III", True, 1, 0, 0) + struct.pack(">qiq", 99, 1, 1),
        struct.pack(">?III", True, 0, 1, 0) + struct.pack(">qq", 99, 0),
        struct.pack(">?III", True, 0, 2**32 - 1, 0),
        struct.pack(">?III", True, 0, 0, 1),
        b"",
    ],
)
def test_what_does_not_fit_together_is_damage(transactions: bytes) -> None:
    covered = states_after(header(0, offset=0)).encode()[10:]
    with pytest.raises(CorruptProducerSnapshot):
        decode_producer_states(sealed(covered + transactions))


def test_before_transactions_the_version_was_not_in_the_crc() -> None:
    states = states_after(header(0, offset=0))
    states.is_whole = False
    encoded = states.encode()
    assert encoded[4:6] == b"\0\3"
    assert encoded[6:10] == struct.pack(">I", crc32c(encoded[10:]))
    assert not decode_producer_states(encoded).is_whole


@pytest.mark.parametrize("version", [0, 1])
def test_the_first_version_is_1_and_knows_nobody_who_was_forgotten(version: int) -> None:
    covered = states_after(header(0, offset=0)).encode()[10:-4]
    encoded = struct.pack(">4sHI", b"SPRD", version, crc32c(covered)) + covered
    if version:
        assert len(decode_producer_states(encoded)) == 1
    else:
        with pytest.raises(CorruptProducerSnapshot):
            decode_producer_states(encoded)


# What a leader tells.


def test_who_has_everything_is_told_everything() -> None:
    """Also of more batches in a row than are kept one by one."""
    states = states_after(*(data(n, offset=n) for n in range(9)))
    assert states.below(9).encode() == states.encode()


def told(leader: ProducerStates, start: int) -> ProducerStates:
    return decode_told_states(leader.below(start).encode(), log_offset=start)


def test_a_copy_that_begins_in_the_middle_is_told_what_is_open_there() -> None:
    leader = states_after(
        data(0, offset=0), *(data(1 + n, offset=5 + n) for n in range(8)), end(offset=14, pid=8, epoch=2)
    )
    copy = ProducerStates()
    copy.clear(is_whole=False)
    copy.learn(told(leader, 5))
    assert copy.transactions.open == {7: 0}, "also of a producer whose last batches all lie above"
    for n in range(8):
        copy.update(data(1 + n, offset=5 + n), now_ms=1)
    copy.update(end(offset=14, pid=8, epoch=2), now_ms=1, marker=ABORT)
    assert copy.transactions.open == leader.transactions.open
    entry = copy.update(end(offset=15), now_ms=1, marker=ABORT)
    assert entry == AbortedEntry(7, 0, 15, 16)


def test_a_copy_is_told_of_markers_below_where_it_begins() -> None:
    leader = states_after(data(0, offset=0), end(offset=1, epoch=3), data(0, offset=6, epoch=3))
    known = told(leader, 5)
    assert known.check(data(0, offset=-1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert known.end_offset == 2
    assert known.transactions.open == {}
    asked = MarkerToWrite(producer_id=7, producer_epoch=4, coordinator_epoch=2, outcome=Outcome.ABORT)
    assert known.check_marker(asked) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


LYING = states_after(data(0, offset=0, pid=8), data(0, offset=5))
LYING._end_offset = 5


@pytest.mark.parametrize(
    "states",
    [
        states_after(data(0, offset=5)),
        states_after(end(offset=5)),
        states_after(data(0, offset=0), end(offset=5)),
        LYING,
    ],
)
def test_what_lies_beyond_the_copys_end_is_not_taken(states: ProducerStates) -> None:
    encoded = states.encode()
    assert decode_told_states(encoded, log_offset=6)
    with pytest.raises(CorruptProducerSnapshot):
        decode_told_states(encoded, log_offset=5)


def test_a_copy_that_begins_within_a_transactions_first_batch_is_told_of_the_transaction() -> None:
    """Kafka's log may begin within a batch (DeleteRecords). What is open there has not ended by the marker of
    the transaction before it."""
    first = data(1, offset=4)._replace(last_offset_delta=1)
    known = told(states_after(data(0, offset=2), end(offset=3), first), 5)
    assert (known.transactions.open, known.end_offset) == ({7: 4}, 5)
    assert known.check_marker(marker_of()) is ErrorCode.NONE
    assert len(states_after(first).below(4)) == 0, "nothing of it lies below"


def test_who_learns_is_told_by_whom_the_transaction_before_its_log_was_ended() -> None:
    ours = states_after(data(1, offset=2))
    ours.learn(states_after(data(0, offset=0), end(offset=1)))
    assert ours.check_marker(marker_of(coordinator_epoch=2)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    later = states_after(data(1, offset=2), end(offset=3), marker=Marker(Outcome.ABORT, 4))
    later.learn(states_after(data(0, offset=0), end(offset=1)))
    assert later.check_marker(marker_of()) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


# What a leader does with a marker.


def test_a_marker_is_not_written_again_only_if_nothing_came_after_it() -> None:
    states = states_after(data(0, offset=0), end(offset=1))
    assert [states.check_marker(marker_of(3 + n)) for n in range(2)] == [2, ErrorCode.NONE]
    assert states.check_marker(marker_of(4, version=2)) == 2
    states.update(header(1, offset=2), now_ms=1)
    assert states.check_marker(marker_of()) is ErrorCode.NONE
    assert states_after(end(offset=0)).check_marker(marker_of()) == 1


@pytest.mark.parametrize("coordinator_epoch", [2, 4])
def test_the_requests_of_another_coordinator_are_not_counted(coordinator_epoch: int) -> None:
    states = states_after(end(offset=0))
    assert states.epoch_of(7) == 0
    assert states.epoch_of(8) == -1
    states.note_attempt(marker_of(coordinator_epoch, attempt=5))
    assert not states.is_late(marker_of(attempt=0))
    states.note_attempt(marker_of(attempt=0))
    assert states.is_late(marker_of(attempt=0))
    assert not states.is_late(marker_of(attempt=1))


@pytest.mark.parametrize(
    ("sequence", "attributes"),
    [(-1, ATTRIBUTE_TRANSACTIONAL), (0, ATTRIBUTE_TRANSACTIONAL | ATTRIBUTE_CONTROL)],
)
def test_only_records_with_a_sequence_open_a_transaction(sequence: int, attributes: int) -> None:
    assert states_after(data(0, offset=0)).transactions.open == {7: 0}
    states = ProducerStates()
    for offset in range(2):
        states.update(header(sequence, offset=offset, attributes=attributes), now_ms=0)
    assert states.transactions.open == {}


def test_who_learns_keeps_what_its_own_log_says() -> None:
    ours = states_after(data(3, offset=4), data(0, offset=5, pid=8), data(0, offset=6, pid=8))
    theirs = states_after(data(2, offset=1), data(0, offset=2, pid=9))
    ours.learn(theirs)
    assert ours.transactions.open == {7: 1, 9: 2, 8: 5}
    ended = states_after(data(3, offset=4), end(offset=5))
    ended.learn(states_after(data(2, offset=1)))
    assert ended.transactions.open == {}


def test_who_learns_of_a_later_marker_has_nothing_open_before_it() -> None:
    ours = states_after(data(0, offset=1))
    ours.learn(states_after(data(0, offset=1), end(offset=3)))
    assert ours.transactions.open == {}
    assert [view.coordinator_epoch for view in ours.active_producers()] == [3]


def test_copies_of_random_histories_have_open_what_the_leader_has() -> None:
    for seed in range(60):
        random = Random(seed)
        batches: list[BatchHeader] = []
        sequences = dict.fromkeys(range(4), 0)
        for offset in range(40):
            pid = random.randrange(4)
            if random.random() < 0.3:
                batches.append(end(offset=offset, pid=pid))
            else:
                batches.append(data(sequences[pid], offset=offset, pid=pid))
                sequences[pid] += 1
        leader = states_after(*batches)
        start = random.randrange(1, 40)
        copy = ProducerStates()
        copy.clear(is_whole=False)
        copy.learn(told(leader, start))
        for batch in batches[start:]:
            copy.update(batch, now_ms=1, marker=ABORT if batch.is_control else None)
        assert dict(copy.transactions.open) == dict(leader.transactions.open), seed
        mine, theirs = copy.active_producers(), leader.active_producers()
        assert [view.current_txn_start_offset for view in mine] == [
            view.current_txn_start_offset for view in theirs
        ]
        assert [view.producer_epoch for view in mine] == [view.producer_epoch for view in theirs]


# Bounds.


def test_a_producer_with_an_open_transaction_neither_expires_nor_is_evicted() -> None:
    states = ProducerStates(producers_max=2)
    states.update(data(0, offset=0), now_ms=0)
    states.update(header(0, offset=1, pid=8), now_ms=1)
    states.update(header(0, offset=2, pid=9), now_ms=2)
    assert [view.producer_id for view in states.active_producers()] == [7, 9]
    assert states.expire(now_ms=100, expiration_ms=10) == 1, "it is younger than what is open"
    assert [view.producer_id for view in states.active_producers()] == [7]
    states.update(end(offset=3), now_ms=50, marker=ABORT)
    assert states.expire(now_ms=55, expiration_ms=10) == 0
    assert states.expire(now_ms=60, expiration_ms=10) == 1


def test_what_is_open_hides_no_younger_producer_from_its_expiry() -> None:
    states = states_after(data(0, offset=0), header(0, offset=1, pid=8))
    assert states.expire(now_ms=5_000, expiration_ms=10) == 1


def test_if_all_have_open_transactions_none_is_evicted() -> None:
    states = ProducerStates(producers_max=1)
    for pid in (7, 8, 9):
        states.update(data(pid, offset=pid, pid=pid), now_ms=0)
    assert (len(states), states.evictions) == (3, 0)


def test_what_has_ended_is_forgotten_when_it_is_committed() -> None:
    transactions = PartitionTransactions()
    for n in range(10):
        transactions.on_data(data(n, offset=2 * n))
        transactions.on_marker(end(offset=2 * n + 1), COMMIT)
    transactions.on_high_watermark(11)
    assert transactions.ended == tuple((2 * n, 2 * n + 1) for n in range(5, 10))
    assert transactions.last_stable_offset(100) == 100
    assert transactions.ended == ()


def test_the_last_batches_of_producers_begin_with_their_data_or_else_with_their_markers() -> None:
    """A round of compaction keeps them: they are what a log that is read again knows of the producer."""
    other = end(offset=6, pid=9)
    assert states_after(data(0, offset=3), end(offset=8), other).last_batches_from == 3
    assert states_after(data(0, offset=3), end(offset=8, epoch=1), other).last_batches_from == 6


# Entries.


def test_entries_are_kafkas() -> None:
    entry = AbortedEntry(1, 2, 3, 4)
    assert encode_entry(entry) == struct.pack(">hqqqq", 0, 1, 2, 3, 4)
    assert decode_entries(encode_entry(entry) * 2) == [entry, entry]
    for bad in (encode_entry(entry)[:-1], b"\0\1" + encode_entry(entry)[2:]):
        with pytest.raises(ValueError):
            decode_entries(bad)


def test_the_stable_offset_of_an_entry_is_that_of_what_stays_open() -> None:
    states = states_after(data(0, offset=0), data(0, offset=1, pid=8))
    assert states.update(end(offset=2), now_ms=1, marker=ABORT) == AbortedEntry(7, 0, 2, 1)
    assert states.update(end(offset=3, pid=8), now_ms=1, marker=ABORT) == AbortedEntry(8, 1, 3, 4)
    assert states.update(end(offset=4, pid=8), now_ms=1, marker=ABORT) is None, "it had no records"
