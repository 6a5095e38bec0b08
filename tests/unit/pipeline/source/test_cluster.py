"""The source's questions, put to scripted brokers: which partitions there are, and where positions lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from pipeline.client.values import TopicPartition
from pipeline.errors import DataLossError, InvalidOption
from pipeline.source.cluster import SourceCluster
from pipeline.source.options import parse_options
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.brokers import Cluster, Says, in_turn, metadata_of

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
BEGINS, ENDS = {A0: 10, A1: 0, B0: 0}, {A0: 100, A1: 50, B0: 0}
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
LED = {("a", 0): 1, ("a", 1): 2, ("b", 0): 1}


def list_offsets(message: Any, *, error: ErrorCode = ErrorCode.NONE) -> Says:
    def find(where: TopicPartition, mark: int) -> int:
        if mark < 0:
            return (ENDS if mark == -1 else BEGINS)[where]
        return mark if mark < ENDS[where] else -1  # a record a millisecond, from 1970 on

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": one.partition_index,
                        "offset": find(TopicPartition(topic.name, one.partition_index), one.timestamp),
                        "leader_epoch": 4,
                        "error_code": error,
                    }
                    for one in topic.partitions
                ],
            }
            for topic in message.topics
        ]
    }


class Source:
    def __init__(self, brokers: Cluster) -> None:
        self.brokers = brokers
        brokers.lead(LED)
        brokers.on(ApiKey.LIST_OFFSETS, list_offsets)

    def told(self, leaders: dict[tuple[str, int], int], errors: dict[str, int] | None = None) -> Any:
        return metadata_of(self.brokers.brokers, leaders, errors=errors)

    def cluster(self, *, is_streaming: bool = False, **options: str) -> SourceCluster:
        host, port = self.brokers.brokers[1].address
        subscription = {} if {"assign", "subscribePattern"} & options.keys() else {"subscribe": "a"}
        given = {"kafka.bootstrap.servers": f"{host}:{port}", **subscription, **options}
        self.options = parse_options(given, is_streaming=is_streaming)
        return SourceCluster(self.options, self.brokers.client(unknown_topic_budget_ms=1_000))


@pytest.fixture
def source() -> Iterator[Source]:
    with ExitStack() as stack:
        yield Source(Cluster(stack))


def test_a_subscription_means_partitions_that_exist(source: Source) -> None:
    assert source.cluster(subscribe="b,a").partitions(must_exist=True) == [A0, A1, B0]
    assert source.cluster(subscribePattern="a|c").partitions(must_exist=True) == [A0, A1]
    assert source.cluster(assign='{"a":[1]}').partitions(must_exist=True) == [A1]
    assert source.cluster(subscribePattern="c+").partitions(must_exist=True) == []


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"subscribe": "a,gone"}, "topic 'gone'"),
        ({"assign": '{"a":[1,7],"gone":[0]}'}, "partition a-7, partition gone-0"),
    ],
)
def test_what_is_named_must_exist(source: Source, options: dict[str, Any], missing: str) -> None:
    source.brokers.lead(LED, errors={"gone": UNKNOWN})
    cluster = source.cluster(**options)
    with pytest.raises(InvalidOption, match=f"the cluster does not know {missing}"):
        cluster.partitions(must_exist=True)
    assert 0 < source.brokers.clock.now_ms <= 1_000
    assert A1 in cluster.partitions(must_exist=False)


def test_news_that_a_broker_has_not_heard_yet_are_waited_for(source: Source) -> None:
    brokers = source.brokers.brokers
    old = metadata_of(brokers, {("a", 0): 1})
    starting = metadata_of(brokers, {}, errors={"a": ErrorCode.LEADER_NOT_AVAILABLE})
    new = metadata_of(brokers, LED)
    source.brokers.on(ApiKey.METADATA, in_turn(starting, old, new))
    assert source.cluster().partitions(must_exist=False, known=[A0, A1]) == [A0, A1]
    source.brokers.on(ApiKey.METADATA, in_turn(starting, old))
    assert source.cluster().partitions(must_exist=True) == [A0]
    before = source.brokers.clock.now_ms
    assert source.cluster().partitions(must_exist=False, known=[A0, A1]) == [A0], "it is gone, then"
    assert source.brokers.clock.now_ms - before <= 1_000


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({}, {A0: 10, A1: 0}, {A0: 100, A1: 50}),
        (
            {"startingOffsets": '{"a":{"0":-2,"1":7}}', "endingOffsets": '{"a":{"0":70,"1":-1}}'},
            {A0: 10, A1: 7},
            {A0: 70, A1: 50},
        ),
        ({"startingTimestamp": "20", "endingTimestamp": "60"}, {A0: 20, A1: 20}, {A0: 60, A1: 50}),
        (
            {"startingTimestamp": "60", "startingOffsetsByTimestampStrategy": "latest"},
            {A0: 60, A1: 50},
            {A0: 100, A1: 50},
        ),
    ],
)
def test_positions_become_offsets(
    source: Source,
    options: dict[str, Any],
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
) -> None:
    cluster = source.cluster(**options)
    assert cluster.resolve(source.options.starting, [A0, A1]) == start
    assert cluster.resolve(source.options.ending, [A0, A1]) == end


def test_ends_that_were_fixed_before_stand_for_the_latest(source: Source) -> None:
    cluster = source.cluster(is_streaming=True)
    assert cluster.resolve(source.options.starting, [A0, A1], latest={A0: 90}) == {A0: 90, A1: 50}


def test_given_offsets_outside_the_log_are_a_loss_or_moved_inside(source: Source) -> None:
    outside = '{"a":{"0":3,"1":51}}'
    cluster = source.cluster(startingOffsets=outside)
    with pytest.raises(
        DataLossError, match=r"a-0 was to be read from offset 3, the log holds 10 to 99; .*a-1"
    ):
        cluster.resolve(source.options.starting, [A0, A1])
    cluster = source.cluster(startingOffsets=outside, failOnDataLoss="false")
    assert cluster.resolve(source.options.starting, [A0, A1]) == {A0: 10, A1: 50}


def test_an_end_beyond_the_log_is_told_as_an_end(source: Source) -> None:
    cluster = source.cluster(endingOffsets='{"a":{"0":101,"1":50}}')
    told = "option 'endingOffsets': a-0 was to end before offset 101, the log holds 10 to 99"
    with pytest.raises(DataLossError, match=told):
        cluster.resolve(source.options.ending, [A0, A1])


def test_a_topic_that_was_deleted_or_made_again_meanwhile_is_told_as_that(source: Source) -> None:
    old, new = UUID(int=7), UUID(int=8)
    beyond = '{"a":{"0":500,"1":51}}'
    source.brokers.name({"a": old}, {"a": new}, leaders=LED)
    cluster = source.cluster(startingOffsets=beyond)
    partitions = cluster.partitions(must_exist=True)
    with pytest.raises(InvalidOption, match="'a' was deleted and created again while the query was planned"):
        cluster.resolve(source.options.starting, partitions)
    source.brokers.on(ApiKey.METADATA, in_turn(*(source.told(LED), source.told({}, {"a": UNKNOWN}))))
    cluster = source.cluster(startingOffsets=beyond)
    partitions = cluster.partitions(must_exist=True)
    with pytest.raises(InvalidOption, match="the cluster does not know topic 'a'"):
        cluster.resolve(source.options.starting, partitions)


def test_a_deletion_half_way_through_the_planning_is_told_as_one_before_it(source: Source) -> None:
    source.brokers.on(ApiKey.METADATA, in_turn(source.told(LED), source.told({}, {"a": UNKNOWN})))
    source.brokers.on(ApiKey.LIST_OFFSETS, lambda message: list_offsets(message, error=UNKNOWN))
    with pytest.raises(InvalidOption, match="the cluster does not know topic 'a'"):
        source.cluster().span()


def test_a_pattern_means_no_internal_topics(source: Source) -> None:
    told = source.told({**LED, ("__consumer_offsets", 0): 1})
    for topic in told["topics"]:
        topic["is_internal"] = topic["name"].startswith("__")
    source.brokers.on(ApiKey.METADATA, in_turn(told))
    assert source.cluster(subscribePattern=".*").partitions(must_exist=True) == [A0, A1, B0]
    named = source.cluster(subscribe="__consumer_offsets").partitions(must_exist=True)
    assert named == [TopicPartition("__consumer_offsets", 0)]


def test_another_id_is_believed_once_all_brokers_tell_it(source: Source) -> None:
    old, new = UUID(int=7), UUID(int=8)
    source.brokers.name({"a": old}, {"a": new}, leaders=LED)  # the first broker is behind
    cluster = source.cluster()
    assert cluster.partitions(must_exist=False, known_ids={"a": str(new)}) == [A0, A1]
    assert cluster.topic_ids() == {"a": str(new)}
    before = source.brokers.clock.now_ms
    cluster.partitions(must_exist=False, known_ids={"a": str(old)})
    assert cluster.topic_ids() == {"a": str(new)}
    assert source.brokers.clock.now_ms == before, "both brokers were asked, and nothing was waited for"


@pytest.mark.parametrize("other", ["knows the newer topic", "does not know it", "does not answer"])
def test_another_id_is_not_believed_at_once_while_one_broker_tells_otherwise(
    source: Source, other: str
) -> None:
    old, new = UUID(int=7), UUID(int=8)
    brokers = source.brokers
    behind = in_turn(metadata_of(brokers.brokers, LED, ids={"a": old}))
    says = {
        "knows the newer topic": metadata_of(brokers.brokers, LED, ids={"a": new}),
        "does not know it": source.told({}, {"a": UNKNOWN}),
        "does not answer": None,
    }
    brokers.on(ApiKey.METADATA, behind, in_turn(says[other]))
    cluster = source.cluster()
    cluster.partitions(must_exist=False, known_ids={"a": str(new)})
    is_believed = cluster.topic_ids() == {"a": str(old)}
    assert not is_believed or brokers.clock.now_ms >= 500, "the budget for unknown topics is spent first"
