"""The order of a log: offsets, leader epochs, producers' sequences, and what it holds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.records.headers import scan_headers
from pipeline.verify.findings import EVERY_REPLICA, FINDINGS_MAX, Findings, Flaw
from pipeline.verify.log_order import EpochSpan, Held, LogOrder, OrderRules
from pipeline.verify.sequences import ProducerSequences, SequencedBatch, judge
from springtide.wire.record_batch import SEQUENCE_MAX
from tests.kit.pipeline.verify_world import FIRST_MS, WHERE, Batch, batch, data_of, log_of, with_epoch

DAY_MS = 24 * 3600 * 1000
Ordered = tuple[LogOrder, list[tuple[Flaw, int, int]]]


def order_of(log: list[Batch], *, chunks: int = 1, rules: OrderRules = OrderRules()) -> Ordered:  # noqa: B008
    findings = Findings(*WHERE)
    order = LogOrder(findings, rules)
    for part in range(chunks):
        some = log[len(log) * part // chunks : len(log) * (part + 1) // chunks]
        if some:
            data = memoryview(data_of(some))
            headers = scan_headers(data)
            order.take(data, headers, 0, len(headers))
    return order, [(one.kind, one.first_offset, one.last_offset) for one in findings.found]


@settings(deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=60), st.integers(1, 5), st.integers(1, 20))
def test_a_healthy_log_has_no_finding_and_the_same_figures_however_it_comes(
    counts: list[int], producers: int, chunks: int
) -> None:
    log = log_of(counts, producers=producers)
    whole, found = order_of(log, rules=OrderRules(keeps_held=True))
    parts, found_in_parts = order_of(log, chunks=chunks, rules=OrderRules(keeps_held=True))
    assert found == found_in_parts == []
    total = sum(counts)
    for order in (whole, parts):
        assert (order.first_offset, order.next_offset, order.records) == (0, total, total)
        assert order.held == [Held(0, total, total)]
        assert [one.leader_epoch for one in order.epochs] == list(range(1, 1 + -(-len(log) // 10)))
        assert sum(one.size_bytes for one in order.epochs) == len(data_of(log)) == order.size_bytes
    assert whole.epochs == parts.epochs
    assert whole.sequences.edges == parts.sequences.edges


def test_offsets_that_nobody_has_are_a_gap_and_epochs_that_go_back_are_found() -> None:
    log = log_of([2] * 30, producers=0 + 1)
    log[15] = with_epoch(log[15], 1)
    del log[5:7]
    _, found = order_of(log, chunks=4)
    assert found == [
        (Flaw.OFFSET_GAP, 10, 13),
        (Flaw.SEQUENCE_GAP, 14, 15),
        (Flaw.LEADER_EPOCH_GOES_BACK, 30, 31),
    ]


def test_what_retention_took_meanwhile_is_no_gap() -> None:
    findings = Findings(*WHERE)
    order = LogOrder(findings, OrderRules())
    log = log_of([2] * 6)
    first, last = scan_headers(log[0].data), scan_headers(log[5].data)
    order.take(memoryview(log[0].data), first, 0, 1)
    order.log_start_offset = 10
    order.take(memoryview(log[5].data), last, 0, 1)
    assert [one.kind for one in findings.found] == []


def test_epoch_spans_are_what_was_written_under_each() -> None:
    log = [batch(0, 3, leader_epoch=2), batch(3, 1, leader_epoch=2), batch(4, 5, leader_epoch=7)]
    order, found = order_of(log, chunks=2)
    assert not found
    sizes = [len(one.data) for one in log]
    assert order.epochs == [EpochSpan(2, 0, 4, 2, 4, sizes[0] + sizes[1]), EpochSpan(7, 4, 9, 1, 5, sizes[2])]


def test_control_batches_hold_no_records_of_users_and_no_sequence() -> None:
    log = [
        batch(0, 2, producer=(5, 0, 0)),
        batch(2, 1, producer=(5, 0, -1), is_control=True),
        batch(3, 2, producer=(5, 0, 2)),
    ]
    order, found = order_of(log, rules=OrderRules(keeps_held=True))
    assert (found, order.records, order.batches) == ([], 4, 3)
    assert order.held == [Held(0, 2, 2), Held(2, 3, 0), Held(3, 5, 2)]


# --- producers ------------------------------------------------------------------------------------------


def sequenced(epoch: int, base: int, count: int = 1, *, at_ms: int = FIRST_MS) -> SequencedBatch:
    return SequencedBatch(epoch, base, (base + count - 1) & SEQUENCE_MAX, at_ms, 100, 100 + count - 1)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (sequenced(0, 5, 3), sequenced(0, 8), None),
        (sequenced(0, 5, 3), sequenced(0, 9), Flaw.SEQUENCE_GAP),
        (sequenced(0, 5, 3), sequenced(0, 7), Flaw.SEQUENCE_REPEATED),
        (sequenced(0, 5, 3), sequenced(0, 5, 3), Flaw.SEQUENCE_REPEATED),
        (sequenced(0, SEQUENCE_MAX), sequenced(0, 0), None),
        (sequenced(0, SEQUENCE_MAX - 1, 3), sequenced(0, 1), None),
        (sequenced(0, SEQUENCE_MAX), sequenced(0, 3), Flaw.SEQUENCE_GAP),
        (sequenced(0, 5), sequenced(1, 0), None),
        (sequenced(0, 5), sequenced(1, 6), Flaw.SEQUENCE_GAP),
        (sequenced(2, 5), sequenced(1, 0), Flaw.PRODUCER_EPOCH_GOES_BACK),
        (sequenced(0, 5), sequenced(0, 900, at_ms=FIRST_MS + DAY_MS), None),
        (sequenced(0, 5), sequenced(0, 900, at_ms=FIRST_MS + DAY_MS - 1), Flaw.SEQUENCE_GAP),
    ],
)
def test_sequences_follow_kafkas_rules(
    before: SequencedBatch, after: SequencedBatch, kind: Flaw | None
) -> None:
    misfit = judge(7, before, after, expiry_ms=DAY_MS)
    assert (None if misfit is None else misfit.kind) == kind


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(1, 6))
def test_whole_columns_are_judged_as_batch_after_batch(seed: int, count: int, chunks: int) -> None:
    rng = random.Random(seed)
    log: list[Batch] = []
    for index in range(count):
        producer = (rng.choice([-1, 4, 5, 6]), rng.choice([0, 0, 0, 1]), rng.choice([0, 1, 2, SEQUENCE_MAX]))
        producer = producer if producer[0] >= 0 else (-1, -1, -1)
        log.append(batch(2 * index, rng.randint(1, 2), producer=producer))
    expected = []
    seen: dict[int, SequencedBatch] = {}
    for one in log:
        headers = scan_headers(one.data)
        producer_id = int(headers.producer_id[0])
        if producer_id < 0:
            continue
        base = int(headers.base_sequence[0])
        found = SequencedBatch(
            int(headers.producer_epoch[0]),
            base,
            (base + one.next_offset - one.base_offset - 1) & SEQUENCE_MAX,
            int(headers.max_timestamp[0]),
            one.base_offset,
            one.next_offset - 1,
        )
        if producer_id in seen:
            misfit = judge(producer_id, seen[producer_id], found, expiry_ms=DAY_MS)
            expected += [] if misfit is None else [(misfit.kind, misfit.batch)]
        seen[producer_id] = found
    sequences = ProducerSequences(expiry_ms=DAY_MS)
    got = []
    for part in range(chunks):
        some = log[count * part // chunks : count * (part + 1) // chunks]
        headers = scan_headers(data_of(some))
        got += [(one.kind, one.batch) for one in sequences.follow(headers, 0, len(headers))]
    assert sorted(got, key=lambda one: one[1].base_offset) == expected
    assert {edge.producer_id: edge.last for edge in sequences.edges} == seen


# --- findings -------------------------------------------------------------------------------------------


def test_what_follows_each_other_and_is_wrong_alike_is_one_finding() -> None:
    findings = Findings(*WHERE)
    for first, broker_id in ((0, 1), (2, 1), (2, 2), (4, 1), (8, 1)):
        findings.add(Flaw.BATCH_MISSING, broker_id, first, first + 1, f"at {first}")
    assert [
        (one.broker_id, one.first_offset, one.last_offset, one.batches, one.detail) for one in findings.found
    ] == [(1, 0, 5, 3, "at 0"), (2, 2, 3, 1, "at 2"), (1, 8, 9, 1, "at 8")]


def test_findings_are_bounded_and_the_rest_is_counted() -> None:
    findings = Findings(*WHERE)
    for number in range(FINDINGS_MAX + 5):
        findings.add(Flaw.OFFSET_GAP, EVERY_REPLICA, 10 * number, 10 * number, "")
    assert (len(findings.found), findings.left_out) == (FINDINGS_MAX, 5)
