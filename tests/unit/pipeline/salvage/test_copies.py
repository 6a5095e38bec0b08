"""What brokers list as copies of what was cut off: names, topics, and who reads what."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.client.values import (
    BrokerAddress,
    BrokerLogDir,
    ClusterMetadata,
    LogDirReplica,
    PartitionRange,
    TopicMetadata,
    TopicPartition,
)
from pipeline.salvage.copies import (
    OFFSET_MAX,
    Copy,
    CopyName,
    CutPartition,
    copy_tasks,
    listed_copies,
    live_range,
    parse_name,
    targets_of,
)
from springtide.wire.errors import ErrorCode

ORDERS, GONE = uuid.UUID(int=7), uuid.UUID(int=2**127 + 9)
LONG = "x" * 200
METADATA = ClusterMetadata(
    "c",
    {1: BrokerAddress(1, "h", 1)},
    {"orders": TopicMetadata(topic_id=str(ORDERS)), LONG: TopicMetadata(topic_id=str(uuid.UUID(int=8)))},
)


def name(
    topic: str, partition: int, topic_id: uuid.UUID, first: int, following: int, *, number: int = 0
) -> str:
    short = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    return f"{topic[:120]}-{partition}.{short}.{first:020d}-{following:020d}.{number}"


def divergent(*replicas: tuple[str, int, int]) -> BrokerLogDir:
    return BrokerLogDir(
        "/data/broker/divergent", ErrorCode.NONE, tuple(LogDirReplica(*one) for one in replicas)
    )


@settings(max_examples=60, deadline=None)
@given(
    st.from_regex(r"[a-zA-Z0-9._-]{1,120}", fullmatch=True),
    st.integers(0, 2**31 - 1),
    st.uuids(),
    st.tuples(st.integers(0, OFFSET_MAX - 1), st.integers(1, 10**6)),
    st.integers(0, 999),
)
def test_a_name_is_read_back(
    topic: str, partition: int, topic_id: uuid.UUID, span: tuple[int, int], number: int
) -> None:
    first, count = span
    following = min(first + count, OFFSET_MAX)
    told = parse_name(name(topic, partition, topic_id, first, following, number=number))
    assert told == CopyName(partition, str(topic_id), first, following, number)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "orders",
        "orders-0",
        name("orders", 0, ORDERS, 5, 5),
        name("orders", 0, ORDERS, 9, 5),
        name("orders", 2**31, ORDERS, 0, 5),
        name("orders", 0, ORDERS, 0, 2**63),
        name("orders", 0, ORDERS, 0, 5) + "/../x",
        name("or/ders", 0, ORDERS, 0, 5),
        name("orders", 0, ORDERS, 0, 5) + "\n",
        name("orders", 0, ORDERS, 0, 5, number=1000),
        "orders-٣." + name("orders", 0, ORDERS, 0, 5).partition(".")[2],
    ],
)
def test_what_no_copy_is_called_is_no_name(wrong: str) -> None:
    assert parse_name(wrong) is None


def test_copies_are_found_by_the_topic_s_id_and_those_of_deleted_topics_are_told() -> None:
    mine, other = name("orders", 1, ORDERS, 5, 9), name(LONG, 0, uuid.UUID(int=8), 0, 2)
    remade = name("orders", 1, GONE, 5, 9)
    dirs = {
        2: [
            BrokerLogDir("/data/broker", ErrorCode.NONE, (LogDirReplica("orders", 1, 999),)),
            divergent((mine, 1, 100), (remade, 1, 70), (other, 0, 50)),
        ],
        1: [divergent((mine, 1, 100), (mine, 3, 100), ("orders", 1, 5))],
    }
    listed = listed_copies(dirs, METADATA)
    assert listed.copies == (
        Copy(1, mine, TopicPartition("orders", 1), 5, 9, 100),
        Copy(2, mine, TopicPartition("orders", 1), 5, 9, 100),
        Copy(2, other, TopicPartition(LONG, 0), 0, 2, 50),
    )
    assert [orphan.name for orphan in listed.orphans] == [remade]
    only = listed_copies(dirs, METADATA, topics=["orders"])
    assert [copy.broker_id for copy in only.copies] == [1, 2]
    assert only.orphans == ()


def test_a_topic_that_merely_looks_like_a_copy_is_none() -> None:
    mine = name("orders", 1, ORDERS, 5, 9)
    logs = BrokerLogDir("/data/broker", ErrorCode.NONE, (LogDirReplica(mine, 1, 100),))
    assert listed_copies({1: [logs]}, METADATA).copies == ()


def test_the_log_is_searched_from_the_deepest_cut_on() -> None:
    where, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    copies = [
        Copy(1, "a", where, 70, 90, 10),
        Copy(2, "b", other, 3, 5, 10),
        Copy(3, "c", where, 40, 50, 10),
    ]
    assert targets_of(copies) == (CutPartition(where, 40), CutPartition(other, 3))
    target = CutPartition(where, 40)
    assert live_range(target, log_start_offset=0, end_offset=60) == PartitionRange("orders", 0, 40, 60)
    assert live_range(target, log_start_offset=50, end_offset=60) == PartitionRange("orders", 0, 50, 60)
    assert live_range(target, log_start_offset=0, end_offset=40) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 40), st.integers(0, 10_000)),
        max_size=30,
    ),
    st.integers(1, 3_000),
)
def test_tasks_hold_every_offset_of_every_copy_once(
    given_copies: list[tuple[int, int, int, int]], task_bytes: int
) -> None:
    copies = [
        Copy(1, f"copy-{number}", TopicPartition("t", partition), first, first + count, size, 7)
        for number, (partition, first, count, size) in enumerate(given_copies)
    ]
    targets = targets_of(copies)
    tasks = copy_tasks(copies, targets, task_bytes=task_bytes)
    seen: dict[int, list[int]] = {}
    for task in tasks:
        assert task
        for piece in task:
            copy = copies[piece.copy]
            assert (piece.name, piece.copy_first, piece.high_watermark) == (copy.name, copy.first_offset, 7)
            assert targets[piece.target].where == copy.where
            seen.setdefault(piece.copy, []).extend(range(piece.start_offset, piece.end_offset))
    assert seen == {n: list(range(copy.first_offset, copy.next_offset)) for n, copy in enumerate(copies)}


def test_large_copies_are_split_and_small_ones_share_a_task() -> None:
    where = TopicPartition("t", 0)
    small = [Copy(1, f"s{number}", where, 0, 10, 100) for number in range(9)]
    tasks = copy_tasks(
        [Copy(1, "large", where, 0, 1_000, 3_500), *small], targets_of(small), task_bytes=1_000
    )
    spans = [[(piece.name, piece.start_offset, piece.end_offset) for piece in task] for task in tasks]
    assert [task[0] for task in spans[:4]] == [
        ("large", 0, 250),
        ("large", 250, 500),
        ("large", 500, 750),
        ("large", 750, 1000),
    ]
    assert sorted(len(task) for task in spans) == [1, 1, 1, 2, 8]
