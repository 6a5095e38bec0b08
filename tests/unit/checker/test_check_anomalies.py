"""One history by hand for each anomaly: exactly that one is found, and it says where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pytest

from tests.checker.builder import HistoryBuilder
from tests.checker.check import check
from tests.checker.history import AdminAction, AdminCall, Batch, Outcome, Sequence
from tests.checker.options import CheckOptions
from tests.checker.values import make_value
from tests.checker.verdict import Anomaly, Kind, Severity, Verdict

K = ("orders", 0)
OTHER = ("orders", 1)

PARTIAL = CheckOptions(final_read=False)
"""For histories that are about something else than the end."""


@dataclass(frozen=True)
class Expected:
    kind: Kind
    offsets: tuple[int, ...]
    lines: tuple[int, ...]
    severity: Severity = Severity.BAD


Case = Callable[[HistoryBuilder], tuple[CheckOptions, Expected]]


def inconsistent_offsets(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send_unknown("p1", K, [first])
    b.send_unknown("p2", K, [second])
    b.poll("c1", K, [(0, first)])
    b.poll("c2", K, [(0, second)], final=True)
    return CheckOptions(), Expected(Kind.INCONSISTENT_OFFSETS, (0,), (3, 4))


def inconsistent_acknowledgements(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p1", K, [(0, first)], at=(0, 5))
    b.send("p2", K, [(0, second)], at=(0, 6))
    b.poll("c1", K, [(0, first)])
    b.poll("c2", K, [(0, second)])
    return PARTIAL, Expected(Kind.INCONSISTENT_OFFSETS, (0,), (1, 2))


def duplicate(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value), (1, value)], final=True)
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 2))


def duplicate_of_another_offset_than_acknowledged(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(3, value)])
    b.poll("c", K, [(1, value)], final=True)
    return CheckOptions(), Expected(Kind.DUPLICATE, (1, 3), (1, 2))


def duplicate_without_idempotence(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)], idempotent=False)
    b.poll("c", K, [(0, value), (1, value)], final=True)
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 2), Severity.COUNTED)


def duplicate_under_one_identity(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value), (1, value)], final=True)
    batches = [batch(0, sequence=0), batch(1, sequence=1)]
    b.dump("broker-1", K, [(0, value), (1, value)], batches=batches, high_watermark=2)
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 2))


def duplicate_sent_again_under_another_epoch(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    """What librdkafka does when it has lost track of its sequences: no broker can know that it is not new."""
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value), (1, value)], final=True)
    batches = [batch(0, sequence=0), batch(1, sequence=0, epoch=1)]
    b.dump("broker-1", K, [(0, value), (1, value)], batches=batches, high_watermark=2)
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 2), Severity.COUNTED)


def duplicate_under_another_clients_identity(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value, other = b.new_value(K), b.new_value(K, process="q")
    items = [(0, value), (1, value), (2, other)]
    b.send("p", K, items[:1])
    b.send("q", K, items[2:])
    b.poll("c", K, items, final=True)
    theirs = [batch(1, sequence=0, producer_id=78), batch(2, sequence=1, producer_id=78)]
    b.dump("broker-1", K, items, batches=[batch(0, sequence=0), *theirs], high_watermark=3)
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 3))


def duplicate_of_which_replicas_tell_two_things(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    items = [(0, value), (1, value)]
    b.send("p", K, items[:1])
    b.poll("c", K, items, final=True)
    b.dump("broker-1", K, items, batches=[batch(0, sequence=0), batch(1, sequence=0, epoch=1)])
    b.dump("broker-2", K, items, batches=[batch(0, sequence=0), batch(1, sequence=0, epoch=2)])
    return CheckOptions(), Expected(Kind.DUPLICATE, (0, 1), (1, 2))


def phantom(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.poll("c", K, [(0, b.new_value(K))], final=True)
    return CheckOptions(), Expected(Kind.PHANTOM, (0,), (1,))


def corrupt(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send_unknown("p", K, [value])
    b.poll("c", K, [(0, value.replace("producer", "producef"))], final=True)
    return CheckOptions(), Expected(Kind.CORRUPT, (0,), (2,))


def misplaced(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send_unknown("p", K, [value])
    b.poll("c", OTHER, [(0, value)], final=True)
    return CheckOptions(), Expected(Kind.MISPLACED, (0,), (2, 1))


def misplaced_from_another_run(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = make_value(run="yesterday", process="p", number=0, key=("invoices", 7))
    b.poll("c", K, [(0, value)], final=True)
    return CheckOptions(), Expected(Kind.MISPLACED, (0,), (1,))


def g1a(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(-1, value)], type=Outcome.FAIL, error="NOT_ENOUGH_REPLICAS")
    b.poll("c", K, [(0, value)], final=True)
    return CheckOptions(), Expected(Kind.G1A, (0,), (2, 1))


def lost_acked(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    kept, lost = b.new_value(K), b.new_value(K)
    b.send("p", K, [(0, kept), (1, lost)])
    b.poll("c", K, [(0, kept)], final=True)
    return CheckOptions(), Expected(Kind.LOST_ACKED, (1,), (1,))


def lost_acked_of_unknown_offset(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.send("p", K, [(-1, b.new_value(K))])
    b.poll("c", K, [], final=True)
    return CheckOptions(), Expected(Kind.LOST_ACKED, (), (1,))


def lost_acked_without_acks_all(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.send("p", K, [(0, b.new_value(K))], acks=1)
    b.poll("c", K, [], final=True)
    return CheckOptions(), Expected(Kind.LOST_ACKED, (0,), (1,), Severity.COUNTED)


def lost_acked_though_a_log_start_covers_it(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.send("p", K, [(0, b.new_value(K))])
    b.poll("c", K, [], final=True, log_start_offset=1)
    return CheckOptions(), Expected(Kind.LOST_ACKED, (0,), (1,))


def lost_write(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = [b.new_value(K) for _ in range(3)]
    b.send("p", K, list(enumerate(values)))
    b.poll("c", K, [(0, values[0]), (2, values[2])])
    return PARTIAL, Expected(Kind.LOST_WRITE, (1,), (1, 2))


def lost_write_proven_by_its_batch(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = [b.new_value(K) for _ in range(2)]
    last = b.new_value(K)
    b.send_unknown("p", K, values, producer=Sequence(id=1, epoch=0, sequence=0))
    b.send("p", K, [(2, last)])
    b.poll("c", K, [(0, values[0]), (2, last)], final=True)
    return CheckOptions(), Expected(Kind.LOST_WRITE, (1,), (1, 3))


def read_then_gone(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    gone, last = b.new_value(K), b.new_value(K)
    b.send_unknown("p", K, [gone])
    b.poll("c1", K, [(0, gone)])
    b.send("p", K, [(1, last)])
    b.assign("c2", K, from_offset=0)
    b.poll("c2", K, [(1, last)])
    return PARTIAL, Expected(Kind.READ_THEN_GONE, (0,), (5, 2))


def read_then_gone_from_the_final_read(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    gone = b.new_value(K)
    b.send_unknown("p", K, [gone])
    b.poll("c1", K, [(0, gone)])
    b.poll("c2", K, [], final=True)
    return CheckOptions(), Expected(Kind.READ_THEN_GONE, (0,), (2,))


def unseen(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.send("p", K, [(0, b.new_value(K))])
    return PARTIAL, Expected(Kind.UNSEEN, (0,), (1,), Severity.COUNTED)


def no_final_read(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value)])
    return CheckOptions(), Expected(Kind.NO_FINAL_READ, (), ())


def int_nonmonotonic_poll(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p", K, [(0, first), (1, second)])
    b.poll("c", K, [(0, first), (1, second), (0, first)], final=True)
    return CheckOptions(), Expected(Kind.INT_NONMONOTONIC_POLL, (2, 0), (2,))


def int_poll_skip(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(3)]))
    b.send("p", K, values)
    b.poll("c1", K, [values[0], values[2]])
    b.poll("c2", K, values, final=True)
    return CheckOptions(), Expected(Kind.INT_POLL_SKIP, (1,), (2, 3))


def nonmonotonic_poll(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(2)]))
    b.send("p", K, values)
    b.poll("c", K, values, final=True)
    b.poll("c", K, values[1:], final=True)
    return CheckOptions(), Expected(Kind.NONMONOTONIC_POLL, (2, 1), (3, 2))


def poll_skip(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(3)]))
    b.send("p", K, values)
    b.poll("c1", K, values[:1])
    b.poll("c1", K, values[2:])
    b.poll("c2", K, values, final=True)
    return CheckOptions(), Expected(Kind.POLL_SKIP, (1,), (3, 2, 4))


def poll_skip_behind_an_assignment(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(2)]))
    b.send("p", K, values)
    b.assign("c1", K, from_offset=0)
    b.poll("c1", K, values[1:])
    b.poll("c2", K, values, final=True)
    return CheckOptions(), Expected(Kind.POLL_SKIP, (0,), (3, 2, 4))


def int_nonmonotonic_send(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p", K, [(1, first), (0, second)])
    b.poll("c", K, [(0, second), (1, first)], final=True)
    return CheckOptions(), Expected(Kind.INT_NONMONOTONIC_SEND, (1, 0), (1,))


def int_send_skip(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, between, second = (b.new_value(K) for _ in range(3))
    b.send("p1", K, [(0, first), (2, second)], at=(0, 9))
    b.send("p2", K, [(1, between)], at=(0, 9))
    b.poll("c", K, [(0, first), (1, between), (2, second)], final=True)
    return CheckOptions(), Expected(Kind.INT_SEND_SKIP, (0, 2), (1,), Severity.COUNTED)


def int_send_skip_inside_a_batch(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p1", K, [(0, first), (2, second)], producer=Sequence(id=1, epoch=0, sequence=0))
    b.poll("c", K, [(0, first), (2, second)], final=True)
    return CheckOptions(), Expected(Kind.INT_SEND_SKIP, (0, 2), (1,))


def nonmonotonic_send(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p", K, [(1, first)], at=(0, 10))
    b.send("p", K, [(0, second)], at=(1, 11))
    b.poll("c", K, [(0, second), (1, first)], final=True)
    return CheckOptions(), Expected(Kind.NONMONOTONIC_SEND, (1, 0), (2, 1))


def nonmonotonic_send_without_idempotence(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p", K, [(1, first)], at=(0, 10), idempotent=False)
    b.send("p", K, [(0, second)], at=(1, 11), idempotent=False)
    b.poll("c", K, [(0, second), (1, first)], final=True)
    return CheckOptions(), Expected(Kind.NONMONOTONIC_SEND, (1, 0), (2, 1), Severity.COUNTED)


def real_time_order(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p1", K, [(1, first)], at=(0, 1))
    b.send("p2", K, [(0, second)], at=(2, 3))
    b.poll("c", K, [(0, second), (1, first)], final=True)
    return CheckOptions(), Expected(Kind.REAL_TIME_ORDER, (0, 1), (2, 1))


def real_time_order_behind_a_read(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send_unknown("p1", K, [first], at=(0, 9))
    b.poll("c1", K, [(1, first)], at=(1, 2))
    b.send("p2", K, [(0, second)], at=(3, 4))
    b.poll("c2", K, [(0, second), (1, first)], final=True)
    return CheckOptions(), Expected(Kind.REAL_TIME_ORDER, (0, 1), (3, 2))


def watermark_regress(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.list_offsets("c", K, high_watermark=7)
    b.list_offsets("c", K, high_watermark=6)
    return CheckOptions(), Expected(Kind.WATERMARK_REGRESS, (6, 7), (2, 1))


def watermark_behind_what_was_read(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value)], final=True)
    b.list_offsets("c", K, high_watermark=0)
    return CheckOptions(), Expected(Kind.WATERMARK_REGRESS, (0, 1), (3, 2))


def read_above_watermark(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c", K, [(0, value)], final=True, high_watermark=0)
    return CheckOptions(), Expected(Kind.READ_ABOVE_WATERMARK, (0,), (2,))


def stall(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(2)]))
    b.send("p", K, values[:1], at=(0, 1))
    b.send_unknown("p", K, [b.new_value(K)], at=(10, 500))
    b.send("p", K, values[1:], at=(501, 1200))
    b.poll("c", K, values, final=True)
    return CheckOptions(stall_ms_max=1000), Expected(Kind.STALL, (), (3,))


def real_time_lag(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    value = b.new_value(K)
    b.assign("c1", K, from_offset=0, at=(0, 0))
    b.send("p", K, [(0, value)], at=(0, 1))
    b.poll("c1", None, at=(900, 901))
    b.poll("c2", K, [(0, value)], final=True)
    return CheckOptions(real_time_lag_ms_max=800), Expected(Kind.REAL_TIME_LAG, (), (3,))


def producer_sequence_gap(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    batches = [batch(0, sequence=0, count=2), batch(2, sequence=3)]
    b.dump("broker-1", K, batches=batches)
    return CheckOptions(), Expected(Kind.PRODUCER_SEQUENCE, (2, 0), (1,))


def producer_sequence_repeated(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.dump("broker-1", K, batches=[batch(0, sequence=0)])
    b.dump("broker-1", K, batches=[batch(1, sequence=0)])
    return CheckOptions(), Expected(Kind.PRODUCER_SEQUENCE, (1, 0), (2, 1))


def producer_sequence_of_a_new_epoch(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.dump("broker-1", K, batches=[batch(0, sequence=0), batch(1, sequence=1, epoch=1)])
    return CheckOptions(), Expected(Kind.PRODUCER_SEQUENCE, (1, 0), (1,))


def producer_sequence_that_does_not_begin(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.dump("broker-1", K, batches=[batch(0, sequence=5)])
    return CheckOptions(), Expected(Kind.PRODUCER_SEQUENCE, (0,), (1,), Severity.COUNTED)


def producer_epoch(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.dump("broker-1", K, batches=[batch(0, sequence=0, epoch=1), batch(1, sequence=0, epoch=0)])
    return CheckOptions(), Expected(Kind.PRODUCER_EPOCH, (1, 0), (1,))


def replicas_differ(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.dump("broker-1", K, [(0, first)], high_watermark=1)
    b.dump("broker-2", K, [(0, second)], high_watermark=1)
    return CheckOptions(), Expected(Kind.REPLICAS_DIFFER, (0,), (2, 1))


def replica_differs_from_what_was_read(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    first, second = b.new_value(K), b.new_value(K)
    b.send("p", K, [(0, first)])
    b.poll("c", K, [(0, first)], final=True)
    b.dump("broker-2", K, [(0, second)], high_watermark=1)
    return CheckOptions(), Expected(Kind.REPLICAS_DIFFER, (0,), (3, 2))


def replica_lacks_a_record(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    values = list(enumerate([b.new_value(K) for _ in range(3)]))
    b.dump("broker-1", K, values, high_watermark=3)
    b.dump("broker-2", K, [values[0], values[2]], high_watermark=3)
    return CheckOptions(), Expected(Kind.REPLICAS_DIFFER, (1,), (2, 1))


def admin_not_linearizable(b: HistoryBuilder) -> tuple[CheckOptions, Expected]:
    b.admin("a", AdminCall(action=AdminAction.CREATE, topic="orders"))
    b.admin("a", AdminCall(action=AdminAction.DELETE, topic="orders"))
    b.admin("a", AdminCall(action=AdminAction.DESCRIBE, topic="orders", exists=True))
    return CheckOptions(), Expected(Kind.ADMIN_NOT_LINEARIZABLE, (), (3,))


def batch(base_offset: int, *, sequence: int, epoch: int = 0, count: int = 1, producer_id: int = 77) -> Batch:
    return Batch(
        base_offset=base_offset,
        record_count=count,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


CASES: list[Case] = [
    inconsistent_offsets,
    inconsistent_acknowledgements,
    duplicate,
    duplicate_of_another_offset_than_acknowledged,
    duplicate_without_idempotence,
    duplicate_under_one_identity,
    duplicate_sent_again_under_another_epoch,
    duplicate_under_another_clients_identity,
    duplicate_of_which_replicas_tell_two_things,
    phantom,
    corrupt,
    misplaced,
    misplaced_from_another_run,
    g1a,
    lost_acked,
    lost_acked_of_unknown_offset,
    lost_acked_without_acks_all,
    lost_acked_though_a_log_start_covers_it,
    lost_write,
    lost_write_proven_by_its_batch,
    read_then_gone,
    read_then_gone_from_the_final_read,
    unseen,
    no_final_read,
    int_nonmonotonic_poll,
    int_poll_skip,
    nonmonotonic_poll,
    poll_skip,
    poll_skip_behind_an_assignment,
    int_nonmonotonic_send,
    int_send_skip,
    int_send_skip_inside_a_batch,
    nonmonotonic_send,
    nonmonotonic_send_without_idempotence,
    real_time_order,
    real_time_order_behind_a_read,
    watermark_regress,
    watermark_behind_what_was_read,
    read_above_watermark,
    stall,
    real_time_lag,
    producer_sequence_gap,
    producer_sequence_repeated,
    producer_sequence_of_a_new_epoch,
    producer_sequence_that_does_not_begin,
    producer_epoch,
    replicas_differ,
    replica_differs_from_what_was_read,
    replica_lacks_a_record,
    admin_not_linearizable,
]


def judge(case: Case) -> tuple[Verdict, Expected]:
    builder = HistoryBuilder()
    options, expected = case(builder)
    return check(builder.history(), options), expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: cast(Case, case).__name__)
def test_an_anomaly_is_found_and_nothing_else_with_it(case: Case) -> None:
    verdict, expected = judge(case)
    found = [
        Expected(a.kind, a.offsets, tuple(involved.line for involved in a.operations), a.severity)
        for a in verdict.anomalies
    ]
    assert found == [expected], verdict.report()
    assert verdict.is_bad == (expected.severity is Severity.BAD)
    counts = verdict.bad if verdict.is_bad else verdict.counted
    assert counts == {expected.kind: 1}


@pytest.mark.parametrize("case", CASES, ids=lambda case: cast(Case, case).__name__)
def test_an_anomaly_is_explained_in_one_sentence_with_its_operations(case: Case) -> None:
    verdict, _ = judge(case)
    anomaly: Anomaly = verdict.anomalies[0]
    assert anomaly.explanation
    assert "\n" not in anomaly.explanation
    report = verdict.report()
    assert anomaly.explanation in report
    assert all(f"line {involved.line}: {involved.summary}" in report for involved in anomaly.operations[:5])


ELSEWHERE = {
    Kind.ADMIN_UNDECIDED,
    Kind.PLACEMENT_DIFFERS,
    Kind.AUDIT_MISSING,
    Kind.AUDIT_REPEATED,
    Kind.AUDIT_UNFOUNDED,
    Kind.AUDIT_ORDER,
    Kind.AUDIT_OUTCOME,
    Kind.TORN_TRANSACTION,
    Kind.PRECOMMITTED_READ,
    Kind.G1C,
    Kind.G1C_BY_WRITES,
    Kind.G0,
}
"""Tried in test_admin.py, test_placement.py and test_transactions.py."""


def test_every_kind_of_anomaly_has_a_history_here() -> None:
    assert {judge(case)[1].kind for case in CASES} | ELSEWHERE == set(Kind)


def test_a_hidden_record_is_told_from_a_lost_one_by_the_replicas_contents() -> None:
    b = HistoryBuilder()
    hidden, lost = b.new_value(K), b.new_value(K)
    b.send("p", K, [(0, hidden), (1, lost)])
    b.poll("c", K, [], final=True)
    b.dump("broker-2/divergent", K, [(0, hidden)])
    verdict = check(b.history())
    assert (verdict.figures.lost, verdict.figures.hidden) == (2, 1)
    first, second = verdict.anomalies
    assert first.explanation.endswith("hidden, it is in the log of broker-2/divergent and not served")
    assert [involved.line for involved in first.operations] == [1, 3]
    assert second.explanation.endswith("lost, no replica has it")


def test_a_lost_record_that_somebody_had_read_is_gone_as_well() -> None:
    b = HistoryBuilder()
    value = b.new_value(K)
    b.send("p", K, [(0, value)])
    b.poll("c1", K, [(0, value)])
    b.poll("c2", K, [], final=True)
    assert check(b.history()).bad == {Kind.LOST_ACKED: 1, Kind.READ_THEN_GONE: 1}


def test_many_anomalies_are_all_counted_and_some_are_kept() -> None:
    b = HistoryBuilder()
    for offset in range(500):
        b.send("p", K, [(offset, b.new_value(K))])
    b.poll("c", K, [], final=True)
    verdict = check(b.history())
    assert verdict.bad == {Kind.LOST_ACKED: 500}
    assert len(verdict.anomalies) == 100
    assert "and 495 more" in verdict.report()
