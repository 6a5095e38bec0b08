"""Markers in their order, and the index of aborted transactions against the bytes of the log."""

from __future__ import annotations

from pipeline.records.headers import scan_headers
from pipeline.verify.findings import Flaw
from pipeline.verify.transactions import ABORTED_MAX, AbortedSpan, RangeTransactions, WrongMarker, differences
from springtide.wire.markers import Outcome, encode_marker
from springtide.wire.records import NewRecord, encode_batch


def records(offset: int, producer_id: int = 7, *, is_transactional: bool = True) -> bytes:
    return encode_batch(
        [NewRecord(b"k", b"v", 1)],
        base_offset=offset,
        leader_epoch=1,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=is_transactional,
    )


def marker(offset: int, outcome: Outcome, producer_id: int = 7, *, coordinator_epoch: int = 3) -> bytes:
    return encode_marker(
        outcome,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=offset,
        leader_epoch=1,
        timestamp_ms=1,
    )


def followed(*batches: bytes) -> tuple[RangeTransactions, list[WrongMarker]]:
    transactions = RangeTransactions()
    wrong: list[WrongMarker] = []
    for half in (batches[: len(batches) // 2], batches[len(batches) // 2 :]):
        data = memoryview(b"".join(half))
        wrong += transactions.follow(data, scan_headers(data), 0, len(half))
    return transactions, wrong


def test_an_aborted_transaction_begins_with_its_first_record_and_ends_with_its_marker() -> None:
    transactions, wrong = followed(
        records(0, is_transactional=False),
        records(1),
        records(2, 8),
        records(3),
        marker(4, Outcome.ABORT),
        marker(5, Outcome.COMMIT, 8),
        records(6),
        marker(7, Outcome.COMMIT),
        marker(8, Outcome.ABORT),  # of a transaction without records here
        records(9),
    )
    assert wrong == []
    assert transactions.aborted == [AbortedSpan(7, 1, 4)]


def test_a_marker_of_a_fenced_coordinator_is_found() -> None:
    _, wrong = followed(
        marker(0, Outcome.COMMIT, coordinator_epoch=5),
        marker(1, Outcome.COMMIT, 8, coordinator_epoch=4),
        marker(2, Outcome.ABORT, coordinator_epoch=4),
    )
    assert [(one.kind, one.offset) for one in wrong] == [(Flaw.COORDINATOR_EPOCH_GOES_BACK, 2)]


def test_of_many_aborted_transactions_a_bounded_number_is_kept_and_the_others_are_counted() -> None:
    batches = [
        batch
        for offset in range(0, 4 * ABORTED_MAX, 2)
        for batch in (records(offset), marker(offset + 1, Outcome.ABORT))
    ]
    transactions, _ = followed(*batches)
    assert (len(transactions.aborted), transactions.left_out) == (ABORTED_MAX, ABORTED_MAX)
    assert transactions.aborted[0].first_offset == 0
    assert transactions.aborted[-1].first_offset == 4 * ABORTED_MAX - 2


def test_an_index_that_lacks_an_aborted_transaction_or_has_another_is_found() -> None:
    span, other = AbortedSpan(7, 10, 14), AbortedSpan(8, 12, 15)
    known = (span, other)
    assert list(differences(span, ((7, 10), (8, 12)), known, start_offset=5)) == []
    assert (
        list(differences(span, ((7, 10), (9, 3)), known, start_offset=5)) == []
    )  # it began before the range
    (lacking,) = differences(span, ((8, 12),), known, start_offset=5)
    assert (lacking.kind, lacking.offset) == (Flaw.ABORTED_NOT_TOLD, 10)
    (invented,) = differences(span, ((7, 10), (9, 11)), known, start_offset=5)
    assert (invented.kind, invented.offset) == (Flaw.ABORTED_WRONGLY, 11)
