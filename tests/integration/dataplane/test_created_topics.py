"""A topic is there for every client when its creation is answered: each broker names its leaders."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from localcluster.cluster import LocalCluster
from springtide.wire.errors import ErrorCode
from tests.kit.metadata_desks import TIMEOUT_S, desks_of, told_of

ROUNDS, PARTITIONS = 16, 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as started:
        started.form()
        yield started


@pytest.fixture(scope="module")
def desks(cluster: LocalCluster) -> Iterator[list[socket.socket]]:
    """A connection to each broker, open before the first topic is made."""
    with desks_of(cluster.bootstrap_servers) as found:
        yield found


def unready(desk: socket.socket, topic: str, partitions: int) -> list[Any]:
    """Return what a client would be told at this moment that makes it wait; nothing if it can go on."""
    told = told_of(desk, topic)
    found = [ErrorCode(told.error_code)] if told.error_code else []
    found += [ErrorCode(each.error_code) for each in told.partitions if each.error_code]
    return found or ([] if len(told.partitions) == partitions else [len(told.partitions)])


def test_each_broker_names_the_leaders_of_a_topic_whose_creation_was_answered(
    cluster: LocalCluster, desks: list[socket.socket]
) -> None:
    waits = []
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        for number in range(ROUNDS):
            topic = f"made-{number}"
            admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(TIMEOUT_S)
            waits += [unready(desk, topic, PARTITIONS) for desk in desks]
        more = PARTITIONS + 2
        for number in range(ROUNDS):
            topic = f"made-{number}"
            admin.create_partitions([NewPartitions(topic, more)])[topic].result(TIMEOUT_S)
            waits += [unready(desk, topic, more) for desk in desks]
    assert [wait for wait in waits if wait] == []


def test_over_rest_too_where_the_request_asks_for_it(
    cluster: LocalCluster, desks: list[socket.socket]
) -> None:
    waits = []
    for number in range(ROUNDS):
        body = {"name": f"rest-{number}", "partitions": PARTITIONS, "replication_factor": 3}
        answer = cluster.rest.post("/topics", json=body | {"cluster": "prod", "wait_ms": 1_000 * TIMEOUT_S})
        assert answer.status_code == 201
        waits += [unready(desk, f"rest-{number}", PARTITIONS) for desk in desks]
    assert [wait for wait in waits if wait] == []
