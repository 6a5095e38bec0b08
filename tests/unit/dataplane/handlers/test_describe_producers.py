"""DescribeProducers (KIP-664): what a leader remembers of its producers, and who may not say."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dataplane.core.producer_state import ProducerView
from dataplane.core.results import ProducersResult
from dataplane.handlers import describe_producers
from dataplane.handlers.context import BrokerContext
from dataplane.handlers.table import HANDLERS
from springtide.node.handlers.context import Request
from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode

NOW_MS = 77
NAMED = 2**62 + 5
VIEWS = (ProducerView(4, 0, 9, 1_000), ProducerView(NAMED, 32767, -1, 2_000))


class Table:
    """The partitions of topic "orders" that this broker hosts: number -> what its replica answers."""

    def __init__(self, *results: ProducersResult) -> None:
        self.results = results
        self.may_be_copies: list[bool] = []

    def get_by_name(self, topic: str, partition: int) -> Any:
        if topic != "orders" or not 0 <= partition < len(self.results):
            return None

        def answer(now_ms: int, *, is_copy_enough: bool) -> ProducersResult:
            assert now_ms == NOW_MS
            self.may_be_copies.append(is_copy_enough)
            return self.results[partition]

        return SimpleNamespace(replica=SimpleNamespace(role=SimpleNamespace(describe_producers=answer)))


class View:
    """It has "orders" with five partitions, and nothing else."""

    def topic_by_name(self, name: str) -> Any:
        return SimpleNamespace(topic_id="id") if name == "orders" else None

    def state(self, topic_id: str, partition: int) -> Any:
        return "a state" if topic_id == "id" and 0 <= partition < 5 else None


def ask(table: Table, software: str = "unknown", **topics: Sequence[int]) -> Any:
    """The answer's partitions, in order."""
    fields = {
        "topics": [{"name": name, "partition_indexes": tuple(numbers)} for name, numbers in topics.items()]
    }
    key = ApiKey.DESCRIBE_PRODUCERS
    sent: list[bytes] = []
    request = Request(
        api_key=key,
        api_version=0,
        correlation_id=9,
        frame=memoryview(codec.encode(codec.build(codec.request_type(key, 0), fields))),
        body_position=0,
        answer=cast(
            Any,
            SimpleNamespace(
                complete=lambda chunks: sent.append(b"".join(chunks)),
                connection=SimpleNamespace(software=software),
            ),
        ),
        now_ms=NOW_MS,
    )
    context = SimpleNamespace(table=table, view=View(), is_view_complete=lambda: True)
    HANDLERS[key](cast(BrokerContext, context), request)
    (frame,) = sent
    message = cast(Any, codec.decode(codec.response_type(key, 0), frame, 9))
    assert [topic.name for topic in message.topics] == list(topics)
    return [partition for topic in message.topics for partition in topic.partitions]


def test_each_producer_is_told_with_its_epoch_and_last_sequence() -> None:
    (partition,) = ask(Table(ProducersResult(ErrorCode.NONE, VIEWS)), orders=[0])
    assert (partition.partition_index, partition.error_code, partition.error_message) == (0, 0, None)
    assert [
        (
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )
        for producer in partition.active_producers
    ] == [(4, 0, 9, 1_000, -1, -1), (NAMED, 32767, -1, 2_000, -1, -1)]


def test_partitions_fail_one_by_one() -> None:
    table = Table(ProducersResult(ErrorCode.NOT_LEADER_OR_FOLLOWER), ProducersResult(ErrorCode.NONE, VIEWS))
    answers = ask(table, orders=[0, 1, 2, 5, -1], elsewhere=[0])
    assert [int(answer.error_code) for answer in answers] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,  # it exists, on other brokers
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [len(answer.active_producers) for answer in answers] == [0, 2, 0, 0, 0, 0]


def test_a_partition_named_again_and_again_does_not_make_the_answer_grow() -> None:
    answers = ask(Table(ProducersResult(ErrorCode.NONE, VIEWS)), orders=[0] * 1_000)
    assert {(int(answer.error_code), len(answer.active_producers)) for answer in answers} == {
        (ErrorCode.INVALID_REQUEST, 0)
    }
    assert "more than once" in answers[0].error_message


def test_more_producers_than_an_answer_may_hold_are_asked_for_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(describe_producers, "PRODUCERS_IN_ANSWER_MAX", 3)
    two, one = ProducersResult(ErrorCode.NONE, VIEWS), ProducersResult(ErrorCode.NONE, VIEWS[:1])
    answers = ask(Table(two, two, one), orders=[0, 1, 2])
    assert [int(answer.error_code) for answer in answers] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]
    assert "ask for fewer" in answers[1].error_message


@pytest.mark.parametrize(
    ("software", "is_copy_enough"),
    [("apache-kafka-java 4.4.0", True), ("librdkafka 2.16.0", False), ("unknown", False)],
)
def test_a_copy_is_enough_for_javas_tools_alone(software: str, is_copy_enough: bool) -> None:
    table = Table(ProducersResult(ErrorCode.NONE, VIEWS))
    ask(table, software, orders=[0])
    assert table.may_be_copies == [is_copy_enough]
