"""A reader that says which topic it means never gets another one's records under the same name (KIP-516)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from pipeline.client.errors import OffsetsGone
from pipeline.client.values import PartitionRange, TopicPartition
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.brokers import Cluster, Handler, Says
from tests.kit.pipeline.fetching import batch

OLD, NEW = UUID(int=7), UUID(int=8)
LED = {("t", 0): 1}
T0 = TopicPartition("t", 0)
RANGE = PartitionRange("t", 0, 0, 10)
IDS = {"t": str(OLD)}
BY_NAME: dict[str, Any] = {
    "api_keys": [
        {"api_key": int(ApiKey.METADATA), "min_version": 0, "max_version": 12},
        {"api_key": int(ApiKey.FETCH), "min_version": 4, "max_version": 12},
    ]
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


def held_by(held: Callable[[], UUID]) -> Handler:
    """Answers Fetch as a broker that has one topic: its records to its own id only, or to its name."""

    def handle(message: Any) -> Says:
        responses = []
        for topic in message.topics:
            asked_by_id = getattr(topic, "topic_id", None)
            is_there = asked_by_id in (None, held())
            says: dict[str, object] = {"high_watermark": 100, "records": batch(0, 10)}
            if not is_there:
                says = {"error_code": ErrorCode.UNKNOWN_TOPIC_ID}
            who = {"topic": topic.topic} if asked_by_id is None else {"topic_id": asked_by_id}
            parts = [{"partition_index": 0, "preferred_read_replica": -1, **says} for _ in topic.partitions]
            responses.append({**who, "partitions": parts})
        return {"responses": responses}

    return handle


def test_the_broker_is_asked_by_id_and_answers_by_id(cluster: Cluster) -> None:
    cluster.name({"t": OLD}, leaders=LED)
    cluster.on(ApiKey.FETCH, held_by(lambda: OLD))
    with cluster.client() as client, client.fetch([RANGE], topic_ids=IDS) as stream:
        assert [(one.where, one.next_offset) for one in stream] == [(T0, 10)]
    (asked,) = {
        message.topics[0].topic_id for api, message in cluster.brokers[1].asked if api is ApiKey.FETCH
    }
    assert asked == OLD


def test_a_topic_made_again_behind_known_metadata_gives_no_rows(cluster: Cluster) -> None:
    """Metadata still has the old id; the broker has the new topic already."""
    cluster.name({"t": OLD}, {"t": NEW}, leaders=LED)
    cluster.on(ApiKey.FETCH, held_by(lambda: NEW))
    with (
        cluster.client(unknown_topic_budget_ms=1_000) as client,
        client.fetch([RANGE], topic_ids=IDS) as stream,
        pytest.raises(OffsetsGone, match=f"its id was {OLD}, and is {NEW}"),
    ):
        list(stream)


def test_a_broker_that_only_knows_names_is_not_asked_for_another_topic(cluster: Cluster) -> None:
    cluster.on(ApiKey.API_VERSIONS, lambda _: BY_NAME)
    cluster.name({"t": NEW}, leaders=LED)
    cluster.on(ApiKey.FETCH, held_by(lambda: NEW))
    with (
        cluster.client(unknown_topic_budget_ms=1_000) as client,
        client.fetch([RANGE], topic_ids=IDS) as stream,
        pytest.raises(OffsetsGone, match="deleted and created again"),
    ):
        list(stream)
    assert not cluster.brokers[1].times_asked(ApiKey.FETCH)
    cluster.name({"t": OLD}, leaders=LED)
    with cluster.client() as client, client.fetch([RANGE], topic_ids=IDS) as stream:
        assert [one.next_offset for one in stream] == [10], "by name, where the ids agree"


def test_where_losses_are_accepted_the_old_topics_range_ends_without_rows(cluster: Cluster) -> None:
    cluster.name({"t": NEW}, leaders=LED)
    cluster.on(ApiKey.FETCH, held_by(lambda: NEW))
    with (
        cluster.client(unknown_topic_budget_ms=1_000) as client,
        client.fetch([RANGE], topic_ids=IDS, skip_gone=True) as stream,
    ):
        assert list(stream) == []
        assert stream.skipped == {T0: 10}


def test_a_broker_that_has_not_heard_of_the_new_topic_yet_is_asked_again(cluster: Cluster) -> None:
    cluster.name({"t": NEW}, {"t": OLD}, leaders=LED)  # the first answer is of a broker that is behind
    cluster.on(ApiKey.FETCH, held_by(lambda: OLD))
    with cluster.client() as client, client.fetch([RANGE], topic_ids=IDS) as stream:
        assert [one.next_offset for one in stream] == [10]
