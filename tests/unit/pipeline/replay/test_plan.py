"""Who writes what, and when: plans of a replay, and the file that keeps them."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ReplayError
from pipeline.replay.plan import (
    FilePiece,
    LakeFile,
    Partitioning,
    Piece,
    ReplayPlan,
    ReplayRange,
    ReplaySettings,
    Stream,
    Timestamps,
    plan_rounds,
    records_of,
    spread,
)
from pipeline.replay.plan_json import decode_plan, encode_plan

SETTINGS = ReplaySettings(
    run_id="replay-7",
    source="/lake",
    topic="orders",
    topic_id="u-u-i-d",
    partition_count=3,
    partitioning=Partitioning.KEEP,
    timestamps=Timestamps.NOW,
    from_ms=5,
    until_ms=9,
    batch_bytes=5_000,
    batch_records=70,
    source_topic="orders",
    planned_ms=12,
)


def file(name: str, records: int, partition: int = 0) -> FilePiece:
    return FilePiece((LakeFile(name, 1_000 + records),), partition, records)


def log(partition: int, start: int, end: int) -> ReplayRange:
    return ReplayRange("orders", partition, start, end)


STREAMS = st.lists(st.lists(st.integers(0, 50), max_size=6), max_size=8).map(
    lambda sizes: [
        tuple(file(f"{stream}/{place}", size, stream) for place, size in enumerate(each))
        for stream, each in enumerate(sizes)
    ]
)


@given(STREAMS, st.integers(1, 6), st.integers(1, 60))
def test_every_piece_is_done_once_and_each_stream_in_its_order_by_one_task(
    streams: list[Stream], tasks: int, records_per_task: int
) -> None:
    rounds = plan_rounds(streams, tasks=tasks, records_per_task=records_per_task)
    done: dict[Piece, tuple[int, int, int]] = {}
    for number, one in enumerate(rounds):
        assert len(one) <= tasks
        assert records_of(one) > 0, "a round without anything to do"
        for task, pieces in enumerate(one):
            for place, piece in enumerate(pieces):
                assert piece not in done
                done[piece] = task, number, place
    assert set(done) == {piece for stream in streams for piece in stream if piece.records}
    for stream in streams:
        places = [done[piece] for piece in stream if piece.records]
        assert places == sorted(places)
        assert len({task for task, _, _ in places}) <= 1


@given(STREAMS, st.integers(1, 6), st.integers(1, 60))
def test_no_round_is_larger_than_asked_for_by_more_than_one_piece(
    streams: list[Stream], tasks: int, records_per_task: int
) -> None:
    rounds = plan_rounds(streams, tasks=tasks, records_per_task=records_per_task)
    for one in rounds:
        for pieces in one:
            assert sum(piece.records for piece in pieces) <= records_per_task or len(pieces) == 1
    for earlier, later in pairwise(rounds):
        for before, after in zip(earlier, later, strict=True):
            if after:
                assert sum(piece.records for piece in before) + after[0].records > records_per_task


def test_a_logs_range_is_cut_so_that_rounds_are_small() -> None:
    rounds = plan_rounds([(log(0, 5, 30),), (log(1, 0, 10),)], tasks=2, records_per_task=10)
    assert rounds == (
        ((log(0, 5, 15),), (log(1, 0, 10),)),
        ((log(0, 15, 25),), ()),
        ((log(0, 25, 30),), ()),
    )


def test_the_same_source_has_the_same_plan() -> None:
    streams: list[Stream] = [(file(f"{n}", 10, n),) for n in range(7)]
    assert plan_rounds(streams, tasks=3, records_per_task=10) == plan_rounds(
        list(streams), tasks=3, records_per_task=10
    )


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=30), st.integers(1, 8))
def test_no_task_has_more_than_a_third_above_what_one_must_have(sizes: list[int], tasks: int) -> None:
    loads = [
        sum(piece.records for piece in task)
        for task in spread([(file(str(n), size, n),) for n, size in enumerate(sizes)], tasks)
    ]
    largest = sorted(sizes, reverse=True)
    two_together = sum(largest[tasks - 1 : tasks + 1]) if len(sizes) > tasks else 0
    least = max(sum(sizes) / tasks, largest[0], two_together)
    assert max(loads) <= 4 / 3 * least
    assert sum(loads) == sum(sizes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": 0}, "0 tasks"),
        ({"tasks": 10_001}, "10001 tasks"),
        ({"tasks": 1, "records_per_task": 0}, "at least one"),
    ],
)
def test_numbers_that_make_no_plan_are_refused(options: dict[str, int], message: str) -> None:
    with pytest.raises(ReplayError, match=message):
        plan_rounds([(file("a", 1),)], **options)


def test_a_plan_of_too_many_pieces_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ReplayError, match="too large"):
        plan_rounds([(log(0, 0, 10**12),)], tasks=1, records_per_task=1)


# --- as a file ------------------------------------------------------------------------------------------


PLAN = ReplayPlan(
    SETTINGS,
    (
        ((file("topic=o/a.parquet", 3, 2), FilePiece((LakeFile("b", 4), LakeFile("c", 5)), 1, 9)), ()),
        ((log(1, 7, 9),), (file("é", 1, -1),)),
    ),
)


def test_a_plan_is_read_as_it_was_written_and_equal_ones_have_equal_bytes() -> None:
    assert decode_plan(encode_plan(PLAN), "x") == PLAN
    assert encode_plan(PLAN) == encode_plan(decode_plan(encode_plan(PLAN), "x"))
    assert PLAN.records == 3 + 9 + 2 + 1
    assert PLAN.tasks == 2


def document(**fields: Any) -> bytes:
    told = json.loads(gzip.decompress(encode_plan(PLAN)))
    return gzip.compress(json.dumps({**told, **fields}).encode())


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"not gzip",
        encode_plan(PLAN)[:-9],
        encode_plan(PLAN) + b"x",
        gzip.compress(b"[]", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        document(kind="plan"),
        document(version=2),
        document(partitioning="best"),
        document(partitionCount=0),
        document(partitionCount=True),
        document(runId=7),
        document(rounds={}),
        document(rounds=[[[["orders", 0, 5, 5]]]]),
        document(rounds=[[[["orders", -1, 5, 6]]]]),
        document(rounds=[[[[[["../../etc/passwd", 5]], 0, 1]]]]),
        document(rounds=[[[[[["/etc/passwd", 5]], 0, 1]]]]),
        document(rounds=[[[[[["a", -5]], 0, 1]]]]),
        document(rounds=[[[[[["a", 5]], 0, 0]]]]),
    ],
)
def test_what_is_no_plan_is_refused_with_what_to_do(encoded: bytes) -> None:
    with pytest.raises(ReplayError, match="is damaged") as caught:
        decode_plan(encoded, "replay.json.gz")
    assert "backup" in caught.value.advice


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_plan_or_refused(told: bytes) -> None:
    with pytest.raises(ReplayError):
        decode_plan(gzip.compress(told), "x")
