"""Questions in the protocol's own bytes, and what their answers say."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.client import request_body
from springtide.wire.errors import ErrorCode
from springtide.wire.questions import ListedOffset, by_topic, list_offsets, listed_offsets


@pytest.mark.parametrize("version", [4, 7, 8])
def test_offsets_are_asked_for_by_topic_in_the_order_of_the_question(version: int) -> None:
    fields = list_offsets({("b", 2): -1, ("a", 0): 1_700, ("b", 1): -3}, isolation_level=1)
    body = request_body(ApiKey.LIST_OFFSETS, version, fields)
    asked: Any = codec.decode(codec.request_type(ApiKey.LIST_OFFSETS, version), body)
    assert (asked.replica_id, asked.isolation_level) == (-1, 1)
    assert [
        (topic.name, one.partition_index, one.timestamp, one.current_leader_epoch)
        for topic in asked.topics
        for one in topic.partitions
    ] == [("b", 2, -1, -1), ("b", 1, -3, -1), ("a", 0, 1_700, -1)]


def test_an_answer_says_an_error_or_an_offset_of_each_partition() -> None:
    rows = {
        ("a", 0): {"offset": 7, "timestamp": 1_700, "leader_epoch": 3},
        ("a", 1): {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "offset": -1, "timestamp": -1},
    }
    answer = codec.build(codec.response_type(ApiKey.LIST_OFFSETS, 7), {"topics": by_topic(rows)})
    assert listed_offsets(answer) == {
        ("a", 0): ListedOffset(ErrorCode.NONE, 7, 1_700, 3),
        ("a", 1): ListedOffset(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, -1),
    }


def test_an_api_that_calls_topics_and_partitions_otherwise_gets_its_names() -> None:
    assert by_topic({("a", 1): {"leader_epoch": 2}}, topic="topic", partition="partition") == (
        {"topic": "a", "partitions": ({"partition": 1, "leader_epoch": 2},)},
    )
