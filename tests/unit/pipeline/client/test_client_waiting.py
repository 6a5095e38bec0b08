"""A client that waits for a cluster or a topic says so within a second, once, and for what: a job at a wrong
port was silent for two minutes."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pipeline.client.client import Client
from pipeline.client.config import ClientConfig
from pipeline.client.errors import RetriesExhausted
from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidOption, InvalidRows
from pipeline.sink.target import known_partitions
from pipeline.source.cluster import SourceCluster
from pipeline.source.options import parse_options
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from tests.kit.clocks import ManualClock
from tests.kit.pipeline.brokers import Cluster, in_turn, metadata_of

UNKNOWN = {"t": int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}


class Told(logging.Handler):
    """What is logged, and when by the client's clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock
        self.lines: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((self._clock.mono_ms(), record.getMessage()))


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


@pytest.fixture
def told(cluster: Cluster) -> Iterator[Told]:
    handler = Told(cluster.clock)
    logging.getLogger("pipeline").addHandler(handler)
    yield handler
    logging.getLogger("pipeline").removeHandler(handler)


def check(told: Told, *parts: str) -> None:
    ((time_ms, line),) = told.lines
    assert time_ms <= 1_000
    assert all(part in line for part in parts), line


def test_no_broker_answers(cluster: Cluster, told: Told) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    clock = cluster.clock
    client = Client(
        ClientConfig(bootstrap=(address,)), pool=cluster.pool, clock_ms=clock.mono_ms, sleep_s=clock.sleep_s
    )
    with pytest.raises(RetriesExhausted):
        client.metadata(["t"])
    check(told, f"127.0.0.1:{address[1]}", "refused", "gives_up_after_s=120")


def test_a_topic_is_not_there_to_be_written_to(cluster: Cluster, told: Told) -> None:
    cluster.lead({}, errors=UNKNOWN)
    with cluster.client() as client, pytest.raises(InvalidRows, match="can't be written to"):
        known_partitions(client, "t")
    check(told, "topic 't'", "UNKNOWN_TOPIC_OR_PARTITION", "gives_up_after_s=10")


def test_a_topic_is_not_there_to_be_read(cluster: Cluster, told: Told) -> None:
    cluster.lead({}, errors=UNKNOWN)
    options = parse_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, is_streaming=False)
    with cluster.client() as client, pytest.raises(InvalidOption, match="does not know"):
        SourceCluster(options, client).partitions(must_exist=True)
    check(told, "the cluster does not know", "t", "gives_up_after_s=10")


def test_a_short_wait_is_not_told(cluster: Cluster, told: Told) -> None:
    before, after = (
        metadata_of(cluster.brokers, {}, errors=UNKNOWN),
        metadata_of(cluster.brokers, {("t", 0): 1}),
    )
    cluster.on(ApiKey.METADATA, in_turn(before, after))
    with cluster.client() as client:
        assert known_partitions(client, "t") == [TopicPartition("t", 0)]
    assert told.lines == []
