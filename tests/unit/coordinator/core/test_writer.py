"""What a writer sends, what the leader's answers mean to it, and when it has too much to do."""

from __future__ import annotations

import pytest

from coordinator.core.machine import ShardRecord
from coordinator.core.shard_ports import LOST, AppendBatch, BatchAnswered
from coordinator.core.writer import WAITING_BYTES_MAX, WAITING_MAX, ShardWriter, Stand
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import HEADER_BYTES, decode_header

RECORD_BYTES = 32
"""What a record without key and value counts for."""
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FIRST_OFFSET = 10


def record(size_bytes: int = 0) -> ShardRecord:
    return ShardRecord(b"k", b"v" * (size_bytes - 1 - RECORD_BYTES))


def new_writer(*, batch_bytes_max: int = 10_000) -> ShardWriter:
    return ShardWriter(
        WriterId(7, 0), next_offset=FIRST_OFFSET, batch_bytes_max=batch_bytes_max, first_attempt=0
    )


def send(writer: ShardWriter) -> AppendBatch:
    """One batch of one record."""
    writer.add([record(100)])
    (append,) = writer.due(0, 0)
    return append


def stand_of(writer: ShardWriter, append: AppendBatch, error: ErrorCode, base_offset: int = -1) -> Stand:
    return writer.on_answer(BatchAnswered(append.attempt, error, base_offset))[0]


def counts(appends: list[AppendBatch]) -> list[int]:
    return [decode_header(append.batch).record_count for append in appends]


# How much.


@pytest.mark.parametrize(("too_many", "batches"), [(0, [2]), (1, [1, 1])])
def test_a_batch_is_filled_to_the_last_byte_and_no_further(too_many: int, batches: list[int]) -> None:
    writer = new_writer(batch_bytes_max=HEADER_BYTES + 200)
    writer.add([record(100)])
    writer.add([record(100 + too_many)])
    assert counts(writer.due(0, 0)) == batches


def test_a_deletion_counts_for_its_key() -> None:
    writer = new_writer(batch_bytes_max=HEADER_BYTES + 200)
    writer.add([ShardRecord(b"k" * (100 - RECORD_BYTES), None)])
    writer.add([record(100)])
    assert counts(writer.due(0, 0)) == [2]


def test_a_writer_is_full_when_as_many_batches_wait_as_may() -> None:
    writer = new_writer(batch_bytes_max=1)  # a batch for each record
    for _ in range(WRITER_BATCHES_MAX):
        send(writer)
    for _ in range(WAITING_MAX):
        assert not writer.is_full
        writer.add([record(100)])
    assert writer.is_full and not writer.due(0, 0)


@pytest.mark.parametrize(("missing", "is_full"), [(0, True), (1, False)])
def test_a_writer_is_full_when_as_many_bytes_wait_as_may(missing: int, is_full: bool) -> None:
    writer = new_writer(batch_bytes_max=WAITING_BYTES_MAX)
    writer.add([record(WAITING_BYTES_MAX - HEADER_BYTES - missing)])
    assert writer.is_full is is_full


# Where the records stand.


@pytest.mark.parametrize(
    ("base_offset", "stand", "next_offset"),
    [
        (FIRST_OFFSET, Stand.GOES_ON, FIRST_OFFSET + 1),
        (FIRST_OFFSET + 5, Stand.GOES_ON, FIRST_OFFSET + 6),  # records of the leader's own before it
        (-1, Stand.GOES_ON, FIRST_OFFSET + 1),  # a repetition, whose place the leader does not know any more
        (FIRST_OFFSET - 1, Stand.BROKEN, None),
        (0, Stand.BROKEN, None),
    ],
)
def test_a_batch_stands_where_it_was_counted_or_higher_and_never_lower(
    base_offset: int, stand: Stand, next_offset: int | None
) -> None:
    writer = new_writer()
    append = send(writer)
    assert stand_of(writer, append, ErrorCode.NONE, base_offset) is stand
    assert next_offset in (None, writer.next_offset)


def test_records_under_way_keep_their_offsets_when_one_before_them_is_committed() -> None:
    writer = new_writer()
    first, second = send(writer), send(writer)
    stand_of(writer, first, ErrorCode.NONE, FIRST_OFFSET + 5)
    assert writer.next_offset == FIRST_OFFSET + 2
    stand_of(writer, second, ErrorCode.NONE, FIRST_OFFSET + 6)
    assert writer.next_offset == FIRST_OFFSET + 7


# Failures.


def test_an_answer_to_an_attempt_that_it_did_not_make_changes_nothing() -> None:
    writer = new_writer()
    append = send(writer)
    for error in (ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, LOST):
        assert writer.on_answer(BatchAnswered(append.attempt + 1, error)) == (Stand.GOES_ON, [])
    assert not writer.is_empty


def test_nothing_is_decided_before_all_attempts_have_come_back() -> None:
    writer = new_writer()
    first, second = send(writer), send(writer)
    assert stand_of(writer, first, REFUSED) is Stand.GOES_ON
    writer.add([record(100)])
    assert not writer.due(0, 0), "nothing goes out behind a failure"
    assert stand_of(writer, second, OUT_OF_ORDER) is Stand.REFUSED


@pytest.mark.parametrize("is_later_first", [True, False])
def test_a_later_batch_that_is_committed_shows_that_one_whose_answer_was_lost_is_too(
    is_later_first: bool,
) -> None:
    writer = new_writer()
    first, second = send(writer), send(writer)
    answers = [BatchAnswered(first.attempt, LOST), BatchAnswered(second.attempt, ErrorCode.NONE, 11)]
    if is_later_first:
        answers.reverse()
    told = [writer.on_answer(answer) for answer in answers]
    assert [stand for stand, _ in told] == [Stand.GOES_ON, Stand.FAILED], "the connection is a new one"
    assert [batch.first_offset for _, committed in told for batch in committed] == [10, 11]
    writer.send_again()
    third = send(writer)
    assert (third.connection, decode_header(third.batch).base_sequence) == (first.connection + 1, 2)


def test_what_waits_is_taken_back_with_what_was_refused_and_its_sequences_are_used_again() -> None:
    writer = new_writer(batch_bytes_max=1)
    appends = [send(writer) for _ in range(WRITER_BATCHES_MAX)]
    writer.add([record(100)])
    stands = [stand_of(writer, append, REFUSED) for append in appends]
    assert stands[-1] is Stand.REFUSED
    assert [batch.first_offset for batch in writer.take_back()] == list(range(10, 11 + len(appends)))
    assert writer.is_empty and not writer.has_waiting and writer.next_offset == FIRST_OFFSET
    writer.send_again()
    again = send(writer)
    assert decode_header(again.batch).base_sequence == decode_header(appends[0].batch).base_sequence
