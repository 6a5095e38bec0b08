"""Ranges put together again, landed counts, plans, and what a result says."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.values import (
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from pipeline.verify.cluster import changed_topics
from pipeline.verify.findings import EVERY_REPLICA, MEANINGS, Flaw
from pipeline.verify.joining import Verified, VerifiedPartition, join, with_more, without
from pipeline.verify.landed import LandedCounts, LandedRange, compare_landed, ranges_of
from pipeline.verify.log_order import Held, OrderRules
from pipeline.verify.outcome import ReadingCost, lines_of, result_of
from pipeline.verify.planning import Bounds, bounds_of, offsets_of, plan_verification
from pipeline.verify.recording import BODY_BYTES_MAX, DETAIL_CHARS_MAX, body_of
from pipeline.verify.replica_stream import End
from pipeline.verify.report import RangeReport, ReplicaReport
from tests.kit.pipeline.verify_world import WHERE, Batch, Replica, log_of, partition, read_range, with_epoch

EXPIRY_MS = 24 * 3600 * 1000
KEPT = OrderRules(keeps_held=True)


def report_of(log: Sequence[Batch], start: int, end: int, *, log_start: int = 0) -> RangeReport:
    """As a task would send it: encoded and decoded."""
    high_watermark = max(end, log[-1].next_offset if log else 0)
    replicas = {
        n: Replica(list(log), high_watermark=high_watermark, log_start_offset=log_start) for n in (1, 2)
    }
    seen = read_range(replicas, start=start, end=end, takes_head=start == log_start, rules=KEPT)
    order = seen.order
    report = RangeReport(
        topic=WHERE.topic,
        partition=WHERE.partition,
        start_offset=start,
        end_offset=end,
        first_offset=order.first_offset,
        next_offset=order.next_offset,
        log_start_offset=log_start,
        batches=order.batches,
        records=order.records,
        size_bytes=order.size_bytes,
        compared_bytes=seen.compared_bytes,
        cpu_ms=1.0,
        wall_ms=2.0,
        replicas=tuple(
            ReplicaReport(broker_id=number, reached=end, end=stop or End.WHOLE)
            for number, stop in seen.ends.items()
        ),
        epochs=tuple(order.epochs),
        producers=tuple(order.sequences.edges),
        held=tuple(order.held),
        findings=tuple(seen.findings),
    )
    assert pickle.loads(pickle.dumps(report)) == report
    return report


def joined_at(log: Sequence[Batch], cuts: Sequence[int], **more: Any) -> Verified:
    reports = [report_of(log, start, end, **more) for start, end in pairwise(cuts) if start < end]
    random.Random(len(cuts)).shuffle(reports)
    return join(reports, expiry_ms=EXPIRY_MS)


def kinds(verified: Verified) -> list[tuple[Flaw, int, int]]:
    return [(one.kind, one.first_offset, one.last_offset) for one in verified.findings]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 6))
def test_a_log_in_ranges_is_the_log_whole(seed: int, batches: int, cuts: int) -> None:
    rng = random.Random(seed)
    log = log_of([rng.randint(1, 5) for _ in range(batches)])
    end = log[-1].next_offset
    at = sorted(rng.randrange(end + 1) for _ in range(cuts))
    (whole,) = joined_at(log, [0, end]).partitions
    verified = joined_at(log, [0, *at, end])
    assert not verified.findings
    (parts,) = verified.partitions
    figures = ("records", "batches", "size_bytes", "compared_bytes", "epochs", "first_offset", "next_offset")
    assert [getattr(parts, name) for name in figures] == [getattr(whole, name) for name in figures]
    assert sum(one.records for one in parts.held) == end


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 59), max_size=4))
def test_what_lies_between_ranges_is_found_as_within_one(seed: int, cuts: list[int]) -> None:
    rng = random.Random(seed)
    log = log_of([2] * 30, producers=1)
    at = rng.randrange(10, 27)
    wound = rng.choice(["dropped", "epoch"])
    if wound == "dropped":
        del log[at]
    else:
        log[at] = with_epoch(log[at], 0)
    found = kinds(joined_at(log, [0, *sorted(cuts), 60]))
    if wound == "dropped":
        assert sorted(one[0] for one in found) == [Flaw.OFFSET_GAP, Flaw.SEQUENCE_GAP]
        assert [one for one in found if one[0] is Flaw.OFFSET_GAP] == [(Flaw.OFFSET_GAP, 2 * at, 2 * at + 1)]
    else:
        assert [(kind, first) for kind, first, _ in found] == [(Flaw.LEADER_EPOCH_GOES_BACK, 2 * at)]


def test_offsets_missing_at_either_end_are_a_gap_unless_retention_took_them() -> None:
    log = log_of([2] * 10)
    assert kinds(joined_at(log[3:], [0, 10, 20])) == [(Flaw.OFFSET_GAP, 0, 5)]
    assert kinds(joined_at(log[:-2], [0, 10, 20])) == [(Flaw.OFFSET_GAP, 16, 19)]
    assert kinds(joined_at(log[3:], [6, 10, 20], log_start=6)) == []
    assert kinds(joined_at([], [0, 20])) == [(Flaw.OFFSET_GAP, 0, 19)]


def test_compacted_topics_may_have_holes() -> None:
    log = log_of([2] * 10)
    reports = [report_of(log[:5], 0, 10), report_of(log[6:], 10, 20)]
    assert join(reports, expiry_ms=1).findings
    compacted = [msgspec.structs.replace(one, is_compacted=True) for one in reports]
    verified = join(compacted, expiry_ms=1)
    assert (verified.findings, verified.partitions[0].is_compacted) == ((), True)


def test_a_topic_that_is_deleted_while_it_is_read_is_no_finding() -> None:
    report = report_of(log_of([2]), 0, 2)
    left = tuple(msgspec.structs.replace(one, end=End.LEFT, reached=0) for one in report.replicas)
    empty = msgspec.structs.replace(report, replicas=left, first_offset=-1, next_offset=-1, end_offset=9)
    verified = join([empty], expiry_ms=EXPIRY_MS)
    assert (verified.findings, verified.partitions[0].is_gone) == ((), True)
    damaged = joined_at(log_of([2] * 10)[3:], [0, 20])
    assert without(damaged, {WHERE.topic}).findings == ()
    assert without(damaged, {"other"}) == damaged


def test_a_topic_made_again_is_another_topic() -> None:
    def metadata(**ids: str) -> ClusterMetadata:
        return ClusterMetadata("c", {}, {name: TopicMetadata(topic_id=one) for name, one in ids.items()})

    before = metadata(a="1", b="2", c="3", d="")
    assert changed_topics(before, metadata(a="1", b="9", c="", d="4")) == {"b", "c"}


# --- landed ---------------------------------------------------------------------------------------------


def landed(start: int, end: int, records: int | None = None, *, skipped: int = 0) -> LandedRange:
    return LandedRange(
        "orders", 0, start, end, end - start if records is None else records, skipped, "batch 1"
    )


def counts(result: VerifiedPartition, *ranges: LandedRange) -> LandedCounts:
    return compare_landed([result], ranges)


def told(found: LandedCounts) -> list[tuple[Flaw, int, int]]:
    return [(one.kind, one.first_offset, one.last_offset) for one in found.findings]


def test_landed_ranges_that_have_each_record_once_are_right() -> None:
    dense = partition([Held(0, 100, 100)])
    found = counts(dense, landed(40, 70), landed(0, 40))
    assert (told(found), found.compared, found.waiting, found.before) == ([], 70, 30, 0)


def test_a_count_that_is_wrong_is_told_of_its_range() -> None:
    dense = partition([Held(0, 100, 100)])
    assert told(counts(dense, landed(0, 40), landed(40, 70, 29))) == [(Flaw.LANDED_COUNT, 40, 69)]
    assert told(counts(dense, landed(0, 40, 41))) == [(Flaw.LANDED_COUNT, 0, 39)]
    assert told(counts(dense, landed(0, 40, 35, skipped=5))) == []
    assert told(counts(dense, landed(0, 40, 34, skipped=5))) == [(Flaw.LANDED_COUNT, 0, 39)]


def test_ranges_that_leave_records_out_or_have_them_twice_are_found() -> None:
    dense = partition([Held(0, 100, 100)])
    assert told(counts(dense, landed(0, 40), landed(50, 70))) == [(Flaw.LANDED_MISSING, 40, 49)]
    assert told(counts(dense, landed(0, 40), landed(30, 70))) == [(Flaw.LANDED_TWICE, 30, 39)]
    holes = partition([Held(0, 40, 40), Held(40, 50, 0), Held(50, 100, 50)])
    assert told(counts(holes, landed(0, 40), landed(50, 70))) == [], "nothing was there to be landed"


def test_what_the_log_has_no_more_or_not_yet_is_not_counted() -> None:
    late = partition([Held(50, 100, 50)], first=50)
    found = counts(late, landed(0, 60), landed(60, 90), landed(90, 120))
    assert (told(found), found.compared, found.before) == ([], 30, 60)
    assert told(counts(late, landed(0, 40), landed(70, 80))) == [(Flaw.LANDED_MISSING, 50, 69)]
    assert told(counts(late, landed(0, 20), landed(40, 80))) == []


def test_a_compacted_batch_across_an_edge_can_not_be_counted() -> None:
    sparse = partition([Held(0, 10, 3), Held(10, 100, 90)])
    assert told(counts(sparse, landed(0, 5, 1), landed(5, 50, 42))) == []
    assert told(counts(sparse, landed(0, 10, 2), landed(10, 50))) == [(Flaw.LANDED_COUNT, 0, 9)]


def test_what_was_landed_before_it_was_compacted_away_is_no_finding() -> None:
    compacted = msgspec.structs.replace(partition([Held(0, 100, 60)]), is_compacted=True)
    assert told(counts(compacted, landed(0, 100, 90))) == []
    assert told(counts(compacted, landed(0, 100, 59))) == [(Flaw.LANDED_COUNT, 0, 99)]


def test_a_span_is_cut_where_its_files_are() -> None:
    files = {("t", 0, 10, 20): 10, ("t", 0, 30, 40): 9, ("u", 0, 0, 5): 5}
    spans = [("t", 0, 0, 50, 19, 0), ("u", 0, 0, 9, 5, 4)]
    assert [one[:6] for one in ranges_of(spans, files, batch=3)] == [
        ("t", 0, 0, 10, 0, 0),
        ("t", 0, 10, 20, 10, 0),
        ("t", 0, 20, 30, 0, 0),
        ("t", 0, 30, 40, 9, 0),
        ("t", 0, 40, 50, 0, 0),
        ("u", 0, 0, 9, 5, 4),
    ]


# --- plans ----------------------------------------------------------------------------------------------


def metadata_of(partitions: int) -> ClusterMetadata:
    return ClusterMetadata(
        "c",
        {number: BrokerAddress(number, "h", number) for number in (1, 2, 3)},
        {
            "t": TopicMetadata(
                partitions={n: PartitionMetadata(2, 5, (1, 2, 3), (2, 3)) for n in range(partitions)}
            )
        },
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=20), st.integers(1, 16))
def test_a_plan_reads_each_offset_once_and_the_leader_comes_first(sizes: list[int], slots: int) -> None:
    bounds = {TopicPartition("t", n): Bounds(5, 5 + size, True) for n, size in enumerate(sizes)}
    tasks = plan_verification(bounds, metadata_of(len(sizes)), slots=slots)
    assert offsets_of(tasks) == sum(sizes)
    assert len(tasks) <= max(1, slots * 3) + len(sizes)
    ranges = sorted((one for task in tasks for one in task), key=lambda one: one[1:3])
    for number, size in enumerate(sizes):
        mine = [one for one in ranges if one.partition == number]
        assert bool(mine) == bool(size)
        if mine:
            assert (mine[0].start_offset, mine[-1].end_offset) == (5, 5 + size)
            assert all(a.end_offset == b.start_offset for a, b in pairwise(mine))
            assert [one.takes_head for one in mine] == [True, *[False] * (len(mine) - 1)]
            assert mine[0].replicas == (2, 1, 3)
            assert mine[0].in_sync == (2, 3)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (None, None, Bounds(10, 50, True)),
        (0, 90, Bounds(10, 50, True)),
        (20, 30, Bounds(20, 30, False)),
        (60, None, Bounds(60, 60, False)),
        (None, 5, Bounds(10, 10, True)),
    ],
)
def test_only_what_the_log_has_is_read(start: int | None, end: int | None, expected: Bounds) -> None:
    assert bounds_of(earliest=10, latest=50, wanted_start=start, wanted_end=end) == expected


# --- results --------------------------------------------------------------------------------------------


def result(verified: Verified) -> dict[str, Any]:
    return result_of(
        verified,
        ReadingCost(seconds=2.0, cpu_s=0.5, tasks=3),
        None,
        None,
        topics=["orders"],
        compacted=frozenset(),
        began_ms=1_000,
        ended_ms=3_000,
    )


def test_a_result_says_the_same_to_programs_and_to_people() -> None:
    clean = result(joined_at(log_of([2] * 10), [0, 20]))
    assert (clean["verdict"], clean["findingsTotal"], clean["records"]) == ("sound", 0, 20)
    assert lines_of(clean)[-1] == "nothing is wrong"
    damaged = result(joined_at(log_of([2] * 10)[3:], [0, 20]))
    assert (damaged["verdict"], damaged["findingsTotal"]) == ("damaged", 1)
    lines = lines_of(damaged)
    assert lines[0] == "orders-0  all replicas, offsets 0 to 5: offset_gap"
    assert lines[1].strip() == MEANINGS[Flaw.OFFSET_GAP]
    assert lines[-1] == "1 finding"
    assert json.loads(json.dumps(damaged)) == damaged


def test_every_kind_of_finding_has_a_meaning() -> None:
    assert MEANINGS.keys() == set(Flaw)


def test_what_is_recorded_names_what_is_wrong_first() -> None:
    damaged = joined_at(log_of([2] * 10)[3:], [0, 20])
    (one,) = damaged.partitions
    sound = msgspec.structs.replace(one, topic="a", findings=0)
    verified = with_more(Verified((sound, one), ()), damaged.findings)
    body = body_of(result(verified), reason="nightly")
    assert body["reason"] == "nightly"
    assert [row["topic"] for row in body["partitions"]] == ["orders", "a"]
    (finding,) = body["findings"]
    assert (finding["kind"], finding["broker_id"]) == ("offset_gap", None)
    assert damaged.findings[0].broker_id == EVERY_REPLICA


def test_what_is_recorded_fits_a_request_whatever_the_topics_are_called() -> None:
    damaged = joined_at(log_of([2] * 10)[3:], [0, 20])
    told = result(damaged)
    row = told["partitions"][0] | {"topic": "x" * 249}
    finding = told["findings"][0] | {"topic": "x" * 249, "detail": "\u2603" * 5_000}
    body = body_of(told | {"partitions": [row] * 5_000, "findings": [finding] * 5_000}, reason=None)
    assert len(json.dumps(body)) <= BODY_BYTES_MAX
    assert body["findings"] and body["partitions"]
    assert {len(one["detail"]) for one in body["findings"]} == {DETAIL_CHARS_MAX}
    assert "reason" not in body
