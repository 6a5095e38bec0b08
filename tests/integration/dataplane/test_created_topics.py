"""A topic is there for every client when its creation is answered: each broker names its leaders."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from localcluster.cluster import LocalCluster
from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.headers import decode_response_header
from tests.kit.dataplane.raw import frame_of

ROUNDS, PARTITIONS, TIMEOUT_S = 16, 6, 30
METADATA_VERSION = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as started:
        started.form()
        yield started


@pytest.fixture(scope="module")
def desks(cluster: LocalCluster) -> Iterator[list[socket.socket]]:
    """A connection to each broker, open before the first topic is made."""
    found = []
    for address in cluster.bootstrap_servers.split(","):
        host, port = address.rsplit(":", 1)
        found.append(socket.create_connection((host, int(port)), TIMEOUT_S))
    yield found
    for desk in found:
        desk.close()


def exactly(desk: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        received = desk.recv(count - len(found))
        assert received, "the broker ended the connection"
        found += received
    return found


def unready(desk: socket.socket, topic: str, partitions: int) -> list[Any]:
    """Return what a client would be told at this moment that makes it wait; nothing if it can go on."""
    fields = {"topics": ({"topic_id": None, "name": topic},), "allow_auto_topic_creation": False}
    body = codec.encode(codec.build(codec.request_type(ApiKey.METADATA, METADATA_VERSION), fields))
    desk.sendall(frame_of(ApiKey.METADATA, METADATA_VERSION, body))
    frame = memoryview(exactly(desk, int.from_bytes(exactly(desk, 4))))
    _, position = decode_response_header(frame, api_key=ApiKey.METADATA, api_version=METADATA_VERSION)
    answer: Any = codec.decode(codec.response_type(ApiKey.METADATA, METADATA_VERSION), frame, position)
    (told,) = answer.topics
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
