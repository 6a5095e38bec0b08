"""What looks odd and is allowed is not flagged; where the excuse does not hold, it is."""

from __future__ import annotations

from tests.checker.builder import HistoryBuilder
from tests.checker.check import check
from tests.checker.history import AdminAction, AdminCall, Batch, Item, Outcome
from tests.checker.options import CheckOptions
from tests.checker.sequences import SEQUENCES
from tests.checker.verdict import Kind

K = ("orders", 0)
RETENTION = CheckOptions(retention=True)


def some_items(b: HistoryBuilder, count: int) -> list[Item]:
    return list(enumerate([b.new_value(K) for _ in range(count)]))


def test_a_deleted_topics_records_are_not_lost() -> None:
    for outcome, lost in ((Outcome.OK, 0), (Outcome.INFO, 0), (Outcome.FAIL, 1)):
        b = HistoryBuilder()
        b.admin("a", AdminCall(action=AdminAction.CREATE, topic="orders"))
        items = some_items(b, 1)
        b.send("p", K, items)
        b.poll("c", K, items)
        b.admin("a", AdminCall(action=AdminAction.DELETE, topic="orders"), type=outcome)
        b.poll("c2", ("other", 0), [], final=True)
        verdict = check(b.history())
        assert (verdict.figures.lost, verdict.figures.retained_away) == (lost, 1 - lost), outcome
        assert verdict.is_bad == bool(lost)


def test_a_record_written_after_the_deletion_is_not_excused_by_it() -> None:
    b = HistoryBuilder()
    b.admin("a", AdminCall(action=AdminAction.CREATE, topic="orders"))
    b.admin("a", AdminCall(action=AdminAction.DELETE, topic="orders"))
    b.send("p", K, some_items(b, 1))
    b.poll("c", K, [], final=True)
    assert check(b.history()).bad == {Kind.LOST_ACKED: 1}


def test_replicas_may_differ_above_their_high_watermarks() -> None:
    b = HistoryBuilder()
    (first, *_), tails = some_items(b, 1), [b.new_value(K) for _ in range(2)]
    b.dump("broker-1", K, [first, (1, tails[0])], high_watermark=1)
    b.dump("broker-2", K, [first, (1, tails[1])], high_watermark=1)
    b.dump("broker-3", K, [first], high_watermark=1)
    assert not check(b.history()).anomalies


def test_a_reader_may_begin_behind_what_retention_took() -> None:
    for options, is_bad in ((RETENTION, False), (CheckOptions(), True)):
        b = HistoryBuilder()
        items = some_items(b, 3)
        b.send("p", K, items)
        b.poll("c1", K, items)
        b.assign("c2", K, from_offset=0)
        b.poll("c2", K, items[2:], final=True, log_start_offset=2)
        assert check(b.history(), options).is_bad == is_bad


def test_retention_excuses_no_skip_of_what_was_still_there() -> None:
    b = HistoryBuilder()
    items = some_items(b, 3)
    b.send("p", K, items)
    b.assign("c1", K, from_offset=0)
    b.poll("c1", K, items[1:])
    b.poll("c2", K, items)
    b.poll("c3", K, items[2:], final=True, log_start_offset=2)
    assert check(b.history(), RETENTION).bad == {Kind.POLL_SKIP: 1}


def test_operations_that_touch_in_time_may_have_been_in_either_order() -> None:
    b = HistoryBuilder()
    first, second = b.new_value(K), b.new_value(K)
    b.send("p1", K, [(1, first)], at=(0, 1))
    b.send("p2", K, [(0, second)], at=(1, 2))
    b.poll("c", K, [(0, second), (1, first)], final=True)
    assert not check(b.history()).anomalies


def test_two_processes_may_see_two_watermarks() -> None:
    b = HistoryBuilder()
    b.list_offsets("c1", K, high_watermark=7)
    b.list_offsets("c2", K, high_watermark=6)
    assert not check(b.history()).anomalies


def a_batch(base_offset: int, sequence: int, *, producer_id: int = 5, epoch: int = 0) -> Batch:
    return Batch(
        base_offset=base_offset,
        record_count=2,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def test_sequences_wrap_and_begin_again_with_an_epoch() -> None:
    b = HistoryBuilder()
    batches = [a_batch(10, SEQUENCES - 2), a_batch(12, 0), a_batch(14, 0, epoch=3)]
    b.dump("broker-1", K, batches=batches, log_start_offset=10)
    assert not check(b.history()).anomalies


def test_batches_without_idempotence_have_no_sequences() -> None:
    b = HistoryBuilder()
    b.dump("broker-1", K, batches=[a_batch(0, -1, producer_id=-1), a_batch(2, -1, producer_id=-1)])
    assert not check(b.history()).anomalies


def test_offsets_that_nobody_ever_read_are_legal_gaps() -> None:
    """Markers and compaction leave such holes."""
    b = HistoryBuilder()
    values = [b.new_value(K) for _ in range(2)]
    b.send("p", K, [(0, values[0])])
    b.send("p", K, [(5, values[1])])
    b.poll("c", K, [(0, values[0]), (5, values[1])], final=True)
    assert not check(b.history()).anomalies


def test_a_reader_that_was_moved_on_purpose_neither_skips_nor_goes_back() -> None:
    b = HistoryBuilder()
    items = some_items(b, 4)
    b.send("p", K, items)
    b.poll("c", K, items[:2])
    b.assign("c", K, from_offset=3)
    b.poll("c", K, items[3:])
    b.assign("c", None)
    b.poll("c", K, items, final=True)
    assert not check(b.history()).anomalies


def test_after_a_poll_of_unknown_outcome_a_reader_may_stand_anywhere() -> None:
    b = HistoryBuilder()
    items = some_items(b, 4)
    b.send("p", K, items, at=(0, 1))
    b.poll("c", K, items[:2], at=(2, 3))
    b.poll("c", K, [], type=Outcome.INFO, at=(4, 5))
    b.poll("c", None, at=(900, 901))
    b.poll("c", K, items[3:], at=(902, 903))
    b.poll("f", K, items, final=True, at=(904, 905))
    verdict = check(b.history(), CheckOptions(real_time_lag_ms_max=100))
    assert not verdict.anomalies, verdict.report()


def test_what_an_unanswered_poll_returned_was_read() -> None:
    b = HistoryBuilder()
    one, other = b.new_value(K), b.new_value(K)
    b.send_unknown("p", K, [one, other])
    b.poll("c", K, [(0, one)], type=Outcome.INFO)
    b.poll("c", K, [(0, other)], final=True)
    assert check(b.history()).bad == {Kind.INCONSISTENT_OFFSETS: 1}
