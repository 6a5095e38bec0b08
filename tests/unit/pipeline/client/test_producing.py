"""Produce requests that are under way while their sender goes on, against scripted brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import pytest

from pipeline.client.client import Client
from pipeline.client.producing import PRODUCE_BYTES, PRODUCE_TIMEOUT_MS, Results
from pipeline.client.values import ProduceResult, TopicPartition, Unsettled
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.brokers import Cluster, Handler, Says, in_turn, produced

T0, T1, T2 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
STORED = ProduceResult(ErrorCode.NONE, 0)
WAIT_MS = 10_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        cluster = Cluster(stack)
        cluster.lead({("t", 0): 1, ("t", 1): 2, ("t", 2): 2})
        cluster.on(ApiKey.PRODUCE, produced())
        yield cluster


def known(cluster: Cluster, **config: Any) -> Client:
    client = cluster.client(**config)
    client.metadata(["t"])
    return client


def held_back(cluster: Cluster) -> threading.Event:
    """The second broker answers to Produce when the event is set."""
    told = threading.Event()

    def answer(message: Any) -> Says:
        told.wait(WAIT_MS / 1000)
        return produced()(message)

    cluster.on(ApiKey.PRODUCE, produced(), answer)
    return told


def test_a_leader_that_owes_an_answer_gets_no_other_request_and_the_others_do(cluster: Cluster) -> None:
    told = held_back(cluster)
    with known(cluster) as client:
        producing = client.producing
        assert producing.start({T0: b"zero", T1: b"one"}) == {}
        assert producing.take(wait_ms=WAIT_MS) == {T0: STORED}
        assert producing.sendable({T1: b"more", T2: b"two", T0: b"next"}) == {T0: b"next"}
        assert producing.take(wait_ms=0) == {}
        told.set()
        assert producing.take(wait_ms=WAIT_MS) == {T1: STORED}
        assert producing.sendable({T2: b"two"}) == {T2: b"two"}
    assert cluster.brokers[2].times_asked(ApiKey.PRODUCE) == 1


def test_a_request_takes_batches_up_to_a_bound(cluster: Cluster) -> None:
    large = bytes(PRODUCE_BYTES)
    with known(cluster) as client:
        assert list(client.producing.sendable({T1: large, T2: b"two", T0: large})) == [T1, T0]
        assert list(client.producing.sendable({T1: b"one", T2: large})) == [T1, T2]


def test_a_broker_that_hangs_up_leaves_its_partitions_unsettled(cluster: Cluster) -> None:
    cluster.on(ApiKey.PRODUCE, produced(), in_turn(None))
    with known(cluster) as client:
        client.producing.start({T0: b"zero", T1: b"one", T2: b"two"})
        results: Results = {}
        while len(results) < 3:
            results |= client.producing.take(wait_ms=WAIT_MS)
        assert results[T0] == STORED
        assert isinstance(results[T1], Unsettled) and isinstance(results[T2], Unsettled)
        assert set(client.producing.sendable({T1: b"one"})) == {T1}


def test_a_partition_without_a_known_leader_is_not_sent(cluster: Cluster) -> None:
    with cluster.client() as client:
        assert client.producing.sendable({T0: b"zero"}) == {T0: b"zero"}
        assert client.producing.start({T0: b"zero"}) == {T0: Unsettled("its leader is not known")}
    assert cluster.brokers[1].asked == []


def test_an_answer_that_has_come_counts_however_late_and_one_that_has_not_is_lost(cluster: Cluster) -> None:
    told = held_back(cluster)
    timeout_ms = 1_000
    with known(cluster, request_timeout_ms=timeout_ms) as client:
        client.producing.start({T0: b"zero", T1: b"one"})
        cluster.clock.now_ms += timeout_ms + PRODUCE_TIMEOUT_MS
        results = client.producing.take(wait_ms=WAIT_MS)
        assert results[T0] == STORED
        overdue = results[T1]
        assert isinstance(overdue, Unsettled) and "no answer in time" in overdue.reason
        told.set()
        assert client.producing.take(wait_ms=0) == {}


def test_a_client_that_is_closed_gives_up_what_is_under_way(cluster: Cluster) -> None:
    told = held_back(cluster)
    with known(cluster) as client:
        client.producing.start({T1: b"one"})
    told.set()
    assert client.producing.take(wait_ms=0) == {}
    connections = cluster.brokers[2].connections
    with known(cluster) as other:  # on a connection of its own
        other.producing.start({T1: b"one"})
        assert other.producing.take(wait_ms=WAIT_MS) == {T1: STORED}
    assert cluster.brokers[2].connections == connections + 1


def by_id(held: UUID) -> Handler:
    """Answers Produce as a broker that has one topic: it appends to this id only, or to its name."""

    def handle(message: Any) -> Says:
        responses = []
        for topic in message.topic_data:
            asked = getattr(topic, "topic_id", None)
            error = ErrorCode.NONE if asked in (None, held) else ErrorCode.UNKNOWN_TOPIC_ID
            who = {"name": topic.name} if asked is None else {"topic_id": asked}
            parts = [
                {"index": one.index, "error_code": error, "base_offset": 0} for one in topic.partition_data
            ]
            responses.append({**who, "partition_responses": parts})
        return {"responses": responses}

    return handle


OLD, NEW = UUID(int=7), UUID(int=8)


@pytest.mark.parametrize("held", [OLD, NEW])
def test_a_batch_for_a_topic_by_its_id_goes_to_no_other_one(cluster: Cluster, held: UUID) -> None:
    cluster.on(ApiKey.PRODUCE, by_id(held))
    with known(cluster) as client:
        assert client.producing.start({T1: b"one", T2: b"two"}, {"t": str(OLD)}) == {}
        results = client.producing.take(wait_ms=WAIT_MS)
    wanted = STORED if held == OLD else ProduceResult(ErrorCode.UNKNOWN_TOPIC_ID, 0)
    assert results == {T1: wanted, T2: wanted}


@pytest.mark.parametrize("topic_ids", [{}, {"t": ""}, {"t": str(OLD)}])
def test_without_an_id_or_before_kafka_4_a_batch_goes_by_name(
    cluster: Cluster, topic_ids: dict[str, str]
) -> None:
    if topic_ids.get("t"):
        versions = {ApiKey.METADATA: 12, ApiKey.PRODUCE: 12}
        told = [
            {"api_key": int(api), "min_version": 0, "max_version": most} for api, most in versions.items()
        ]
        cluster.on(ApiKey.API_VERSIONS, lambda _: {"api_keys": told})
    cluster.on(ApiKey.PRODUCE, by_id(NEW))
    with known(cluster) as client:
        assert client.producing.start({T0: b"zero"}, topic_ids) == {}
        assert client.producing.take(wait_ms=WAIT_MS) == {T0: STORED}
    ((_, message),) = [one for one in cluster.brokers[1].asked if one[0] is ApiKey.PRODUCE]
    assert message.topic_data[0].name == "t"
