"""Produce requests that are under way while their sender goes on, against scripted brokers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pipeline.client.client import Client
from pipeline.client.producing import PRODUCE_BYTES, PRODUCE_TIMEOUT_MS, Results
from pipeline.client.values import ProduceResult, TopicPartition, Unsettled
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.pipeline.brokers import Cluster, Says, in_turn, produced

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
