"""What a merge appends: its plan, written down and read back, and the rows that the plan makes of copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.values import TopicPartition
from pipeline.errors import CopyUnreadable, PlanInvalid
from pipeline.salvage.marks import HEADER
from pipeline.salvage.merge_plan import (
    MergePlan,
    RecordRun,
    TargetPlan,
    decode_plan,
    encode_plan,
    fingerprint,
    make_plan,
    spans,
)
from pipeline.salvage.merge_rows import MERGE_SCHEMA, merge_rows
from pipeline.salvage.merge_state import MergeState, merge_state
from pipeline.salvage.reading import CopyRead, CopyReader
from pipeline.sink.opening import TopicOpening
from springtide.wire.records import NewRecord, encode_batch

WHERE = TopicPartition("orders", 1)


def copy_name(first: int, following: int, *, number: int = 0, partition: int = 1) -> str:
    return f"orders-{partition}.AAAAAAAAAAAAAAAAAAAABw.{first:020d}-{following:020d}.{number}"


NAME = copy_name(0, 1_000_000)


def opening(partitions: int = 3) -> TopicOpening:
    return TopicOpening("orders", 0, 1_000, (5,) * partitions, (2,) * partitions, fingerprint(500_000))


def plan_of(*runs: RecordRun, where: TopicPartition = WHERE) -> MergePlan:
    return make_plan([(where, run) for run in runs], [opening()], batch_bytes=500_000)


def test_records_are_appended_in_the_order_in_which_leaders_had_them() -> None:
    late, early, other = RecordRun(1, NAME, 4, 0, 2), RecordRun(2, NAME, 3, 9, 9), RecordRun(1, NAME, 3, 5, 8)
    elsewhere = TopicPartition("orders", 0)
    plan = make_plan(
        [(WHERE, late), (elsewhere, late), (WHERE, early), (WHERE, other)], [opening()], batch_bytes=1_000
    )
    assert plan.targets == (TargetPlan(elsewhere, (late,)), TargetPlan(WHERE, (other, early, late)))
    assert plan.records == 3 + 8


def test_a_sink_is_named_by_what_it_appends() -> None:
    one, other = RecordRun(1, NAME, 3, 5, 8), RecordRun(1, NAME, 3, 5, 9)
    assert plan_of(one).sink_id == plan_of(one)._replace(openings={}).sink_id
    names = {plan_of(one).sink_id, plan_of(other).sink_id, plan_of(one)._replace(batch_bytes=1).sink_id}
    assert len(names) == 3


def test_a_plan_is_read_back() -> None:
    plan = plan_of(RecordRun(1, NAME, 3, 5, 8), RecordRun(2, NAME, 4, 0, 0))
    assert decode_plan(encode_plan(plan)) == plan


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"sinkId": "salvage-another"},
        {"plan": {"batchBytes": 500_000, "targets": []}},
        {"plan": {"batchBytes": 500_000, "targets": [{"topic": "orders", "partition": 1, "runs": []}]}},
        {"openings": {}},
        {"openings": {"orders": {}}},
        {"plan": None},
    ],
)
def test_what_is_no_plan_is_refused(damage: dict[str, Any]) -> None:
    document = json.loads(encode_plan(plan_of(RecordRun(1, NAME, 3, 5, 8)))) | damage
    with pytest.raises(PlanInvalid):
        decode_plan(json.dumps(document).encode())
    with pytest.raises(PlanInvalid):
        decode_plan(b"\xff")


@pytest.mark.parametrize(
    "runs",
    [
        [[1, NAME, 3, 5, 4]],
        [[1, NAME, 3, 5, 1_000_000]],
        [[1, copy_name(6, 9), 3, 5, 8]],
        [[1, copy_name(0, 9, partition=2), 3, 5, 8]],
        [[1, "orders", 3, 5, 8]],
        [[-1, NAME, 3, 5, 8]],
        [[1, NAME, 3, 5, 8], [1, NAME, 3, 8, 9]],
        [[1, NAME, 4, 5, 8], [1, NAME, 3, 9, 9]],
        [[1, NAME, 3, True, 8]],
        [[1, NAME, 3, 5]],
    ],
)
def test_runs_that_no_copy_has_are_refused(runs: list[list[Any]]) -> None:
    given = MergePlan(
        (TargetPlan(WHERE, tuple(RecordRun(*run) for run in runs if len(run) == 5)),), 500_000, {}
    )
    document = json.loads(encode_plan(plan_of(RecordRun(1, NAME, 3, 5, 8))))
    document["plan"]["targets"][0]["runs"] = runs
    document["sinkId"] = given.sink_id  # so that nothing but the runs is wrong
    with pytest.raises(PlanInvalid):
        decode_plan(json.dumps(document).encode())


def test_a_partition_that_the_opening_lacks_is_refused() -> None:
    where = TopicPartition("orders", 3)
    plan = plan_of(RecordRun(1, copy_name(0, 9, partition=3), 3, 5, 8), where=where)
    with pytest.raises(PlanInvalid, match="had 3 partitions"):
        decode_plan(encode_plan(plan))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 8), st.integers(1, 40)), max_size=30
    ),
    st.integers(1, 20),
)
def test_spans_hold_all_runs_in_their_order(drawn: list[tuple[int, int, int, int]], gap_max: int) -> None:
    runs, offset = [], 0
    for broker_id, epoch, length, gap in sorted(drawn, key=lambda one: one[1]):
        offset += gap
        runs.append(RecordRun(broker_id, NAME, epoch, offset, offset + length - 1))
        offset += length
    found = list(spans(runs, gap_max=gap_max))
    assert [run for span in found for run in span.runs] == runs
    for span in found:
        assert {(run.broker_id, run.leader_epoch) for run in span.runs} == {
            (span.broker_id, span.runs[0].leader_epoch)
        }
        assert (span.start_offset, span.end_offset) == (
            span.runs[0].first_offset,
            span.runs[-1].last_offset + 1,
        )


# --- rows --------------------------------------------------------------------------------------------------


class FixedCopies(CopyReader):
    """Gives what a test laid out, by broker."""

    def __init__(self, copies: dict[int, list[bytes]]) -> None:
        self._copies = copies
        self.asked: list[tuple[int, int, int]] = []

    def read(
        self, broker_id: int, name: str, partition: int, *, start_offset: int, end_offset: int
    ) -> Iterator[CopyRead]:
        from pipeline.records.headers import scan_headers

        assert (name, partition) == (NAME, 1)
        self.asked.append((broker_id, start_offset, end_offset))
        for data in self._copies[broker_id]:
            headers = scan_headers(data)
            following = headers.next_offset
            assert following is not None
            if following > start_offset and int(headers.base_offset[0]) < end_offset:
                yield CopyRead(memoryview(data), following, 0)


def batch(base_offset: int, count: int, *, epoch: int = 3, time: int = 1_000) -> bytes:
    return encode_batch(
        [NewRecord(b"k", b"%d" % (base_offset + n), time) for n in range(count)],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def rows_of(reader: CopyReader, *runs: RecordRun) -> list[dict[str, Any]]:
    found = []
    for rows in merge_rows(reader, TargetPlan(WHERE, runs)):
        assert rows.schema == MERGE_SCHEMA
        found += rows.to_pylist()
    return found


def test_the_planned_records_come_with_the_mark_of_where_they_stood() -> None:
    copies = FixedCopies({1: [batch(4, 4), batch(8, 4)], 2: [batch(8, 3, epoch=4)]})
    rows = rows_of(
        copies, RecordRun(1, NAME, 3, 5, 6), RecordRun(1, NAME, 3, 9, 9), RecordRun(2, NAME, 4, 10, 10)
    )
    assert [(row["value"], row["headers"][-1]["value"]) for row in rows] == [
        (b"5", b'{"offset":5,"leaderEpoch":3,"broker":1}'),
        (b"6", b'{"offset":6,"leaderEpoch":3,"broker":1}'),
        (b"9", b'{"offset":9,"leaderEpoch":3,"broker":1}'),
        (b"10", b'{"offset":10,"leaderEpoch":4,"broker":2}'),
    ]
    assert {(row["topic"], row["partition"], row["key"], row["headers"][-1]["key"]) for row in rows} == {
        ("orders", 1, b"k", HEADER)
    }
    assert {int(row["timestamp"].timestamp() * 1000) for row in rows} == {1_000}
    assert copies.asked == [(1, 5, 10), (2, 10, 11)], "near runs of one copy are read at once"


def test_entries_of_another_leader_at_the_same_offsets_are_not_taken() -> None:
    copies = FixedCopies({1: [batch(4, 2, epoch=3) + batch(6, 2, epoch=4)]})
    with pytest.raises(CopyUnreadable, match="lacks 1 records"):
        rows_of(copies, RecordRun(1, NAME, 3, 5, 6))


def test_a_record_without_a_time_is_written_now() -> None:
    (row,) = rows_of(FixedCopies({1: [batch(5, 1, time=-1)]}), RecordRun(1, NAME, 3, 5, 5))
    assert row["timestamp"] is None


def test_a_copy_that_lacks_what_was_planned_ends_the_merge() -> None:
    with pytest.raises(CopyUnreadable, match="lacks 2 records"):
        rows_of(FixedCopies({1: [batch(4, 4)]}), RecordRun(1, NAME, 3, 6, 9))
    damaged = bytearray(batch(4, 4))
    damaged[-1] ^= 1
    with pytest.raises(CopyUnreadable, match="CRC"):
        rows_of(FixedCopies({1: [bytes(damaged)]}), RecordRun(1, NAME, 3, 5, 5))


# --- the plan's place --------------------------------------------------------------------------------------


def test_a_merge_goes_on_with_its_plan_until_it_is_done(tmp_path: Path) -> None:
    state = MergeState(tmp_path / "merges")
    assert state.unfinished() is None
    plan, other = plan_of(RecordRun(1, NAME, 3, 5, 8)), plan_of(RecordRun(1, NAME, 3, 9, 9))
    begun = state.begin(plan)
    assert merge_state(f"file://{tmp_path}/merges").unfinished() == begun == (0, plan)
    state.finish(begun)
    state.finish(begun)  # its driver died before it said so
    assert state.unfinished() is None
    assert state.begin(other) == (1, other)
    assert state.unfinished() == (1, other)


def test_two_that_begin_at_once_do_not_both_merge(tmp_path: Path) -> None:
    state = MergeState(tmp_path)
    (tmp_path / "000000.plan.json").write_bytes(encode_plan(plan_of(RecordRun(1, NAME, 3, 5, 8))))
    late = MergeState(tmp_path)
    late._last = lambda: None  # type: ignore[method-assign] # it looked before the other one wrote
    with pytest.raises(PlanInvalid, match="another process"):
        late.begin(plan_of(RecordRun(1, NAME, 3, 9, 9)))
    assert late.begin(plan_of(RecordRun(1, NAME, 3, 5, 8))).number == 0, (
        "the same findings are the same merge"
    )
    assert state.unfinished() is not None


def test_a_place_that_can_not_be_used_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanInvalid, match="mounted"):
        merge_state("s3://bucket/merges")
    (tmp_path / "000003.plan.json").write_bytes(b"{}")
    with pytest.raises(PlanInvalid, match=r"000003\.plan"):
        MergeState(tmp_path).unfinished()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PlanInvalid, match="can't be read"):
        MergeState(tmp_path / "file").begin(plan_of(RecordRun(1, NAME, 3, 5, 8)))
