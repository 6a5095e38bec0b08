"""DescribeTopicPartitions: pages, cursors, and topics that are not there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import ClusterView
from springtide.node.handlers import describe_topic_partitions, metadata
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.springtide.asking import answer_of

PARTITIONS = {"alpha": 3, "beta": 2}
Cursor = tuple[str, int]


def cluster_view(
    partitions: Mapping[str, int] = PARTITIONS, *, unmade: Collection[tuple[str, int]] = ()
) -> ClusterView:
    view = ClusterView(unmade=unmade)
    topics, states = [], []
    for letter, (name, count) in zip("AB", partitions.items(), strict=True):
        topic_id = letter * 22
        topics.append(TopicState(topic_id=topic_id, topic=name, partitions=count, replication_factor=3))
        states += [
            PartitionState(
                topic_id=topic_id,
                topic=name,
                partition=number,
                replicas=(1, 2, 3),
                leader=1,
                leader_epoch=LeaderEpoch(4),
                partition_epoch=PartitionEpoch(5),
                isr=(1,),
                elr=(2,),
                last_known_elr=(3,),
                min_insync_replicas=2,
            )
            for number in range(count)
        ]
    broker = BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(1), host="h", port=9)
    view.apply(UpdateBatch(brokers=(broker,), topics=tuple(topics), partitions=tuple(states)), now_ms=0)
    return view


def ask(
    *names: str, limit: int = 2_000, cursor: Cursor | None = None, is_view_complete: bool = True
) -> tuple[list[Any], Cursor | None]:
    """The topics, and the next cursor."""
    start = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    fields = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": start,
    }
    context = SimpleNamespace(view=cluster_view(), is_view_complete=lambda: is_view_complete)
    answer = answer_of(
        describe_topic_partitions.handle, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, fields, context=context
    )
    following = answer.next_cursor
    return list(answer.topics), (
        None if following is None else (following.topic_name, following.partition_index)
    )


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__mine"])
def test_what_coordinators_keep_is_told_to_be_internal(name: str) -> None:
    """Java's clients leave internal topics out of patterns and listings by this flag alone."""
    context = SimpleNamespace(view=cluster_view({name: 1, "orders": 1}), is_view_complete=lambda: True)
    described = answer_of(
        describe_topic_partitions.handle,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [], "response_partition_limit": 10, "cursor": None},
        context=context,
    )
    listed = answer_of(metadata.handle, ApiKey.METADATA, 12, {"topics": None}, context=context)
    for answer in (described, listed):
        assert {topic.name: topic.is_internal for topic in answer.topics} == {
            name: name != "__mine",
            "orders": False,
        }


def test_replicas_that_may_be_elected_are_told() -> None:
    (topic,), following = ask("beta")
    assert following is None
    assert (topic.name, topic.error_code, topic.topic_authorized_operations) == ("beta", 0, 3576)
    assert [one.partition_index for one in topic.partitions] == [0, 1]
    first = topic.partitions[0]
    assert (first.leader_id, first.leader_epoch, first.replica_nodes) == (1, 4, (1, 2, 3))
    assert (first.isr_nodes, first.eligible_leader_replicas, first.last_known_elr) == ((1,), (2,), (3,))
    assert first.offline_replicas == (2, 3)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
def test_all_topics_are_told_page_by_page_each_partition_once(limit: int) -> None:
    told: list[Cursor] = []
    cursor: Cursor | None = None
    for _ in range(6):
        topics, cursor = ask(limit=limit, cursor=cursor)
        page = [(topic.name, one.partition_index) for topic in topics for one in topic.partitions]
        assert 1 <= len(page) <= limit
        told += page
        if cursor is None:
            break
    assert told == [(name, number) for name, count in PARTITIONS.items() for number in range(count)]


def test_metadata_has_a_topic_without_partitions_until_one_of_them_leads() -> None:
    """kafka-go takes a partition without a leader for one at no address, and ends."""

    def told(*unmade: int) -> tuple[int, list[int]]:
        view = cluster_view(unmade={("A" * 22, number) for number in unmade})
        context = SimpleNamespace(view=view, is_view_complete=lambda: True)
        asked = {"topics": [{"name": "alpha", "topic_id": None}], "allow_auto_topic_creation": False}
        (topic,) = answer_of(metadata.handle, ApiKey.METADATA, 6, asked, context=context).topics
        return topic.error_code, [one.leader_id for one in topic.partitions]

    assert told() == (ErrorCode.NONE, [1, 1, 1])
    assert told(1) == (ErrorCode.NONE, [1, -1, 1])
    assert told(0, 1, 2) == (ErrorCode.LEADER_NOT_AVAILABLE, [])


def test_a_topic_that_is_not_there_fails_alone() -> None:
    topics, _ = ask("nobody", "no/name", "alpha")
    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("alpha", ErrorCode.NONE),
        ("no/name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("nobody", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    (unknown,), _ = ask("nobody", is_view_complete=False)
    assert unknown.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_cursor_before_the_first_partition_and_a_limit_of_none_are_bounded() -> None:
    (refused,), following = ask(cursor=("alpha", -1))
    assert (refused.error_code, following) == (ErrorCode.INVALID_REQUEST, None)
    topics, following = ask(limit=-5)
    assert ([len(topic.partitions) for topic in topics], following) == ([1], ("alpha", 1))
