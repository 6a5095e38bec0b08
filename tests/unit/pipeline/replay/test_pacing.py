"""How fast a replay sends: as values, and by a client whose clock moves when it sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.client.config import ClientConfig
from pipeline.client.values import TopicPartition
from pipeline.replay.paced_client import PacedClient
from pipeline.replay.pacing import BURST_MS, Pace, SendRates, SentLoad
from springtide.wire.apis import ApiKey
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.pipeline.brokers import Cluster, produced


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 500), st.integers(1, 50_000), st.integers(0, 3_000)),
        min_size=1,
        max_size=60,
    ),
    st.integers(1, 2_000),
    st.integers(1, 200_000),
)
def test_no_broker_gets_more_than_its_rate_but_for_a_burst_and_one_sending(
    sendings: list[tuple[int, int, int, int]], records_rate: int, bytes_rate: int
) -> None:
    pace = Pace(SendRates(records_rate, bytes_rate))
    now_ms = 0
    sent: dict[int, list[tuple[int, SentLoad]]] = {}
    for broker, records, size, idle_ms in sendings:
        now_ms += idle_ms
        load = {broker: SentLoad(records, size)}
        now_ms += pace.wait_ms(load, now_ms=now_ms)
        assert pace.wait_ms(load, now_ms=now_ms) == 0
        pace.on_sent(load, now_ms=now_ms)
        sent.setdefault(broker, []).append((now_ms, load[broker]))
    for history in sent.values():
        for first in range(len(history)):
            for last in range(first + 1, len(history)):
                span_s = (history[last][0] - history[first][0] + BURST_MS) / 1000
                window = [load for _, load in history[first:last]]  # but for the last one
                assert sum(load.records for load in window) <= records_rate * span_s + 1e-6
                assert sum(load.bytes for load in window) <= bytes_rate * span_s + 1e-6


def test_an_unlimited_pace_never_waits() -> None:
    pace = Pace(SendRates())
    pace.on_sent({1: SentLoad(10**9, 10**12)}, now_ms=0)
    assert pace.wait_ms({1: SentLoad(1, 1)}, now_ms=0) == 0
    assert not SendRates().is_limited
    assert SendRates(bytes=5).is_limited


def test_idleness_is_not_saved_up() -> None:
    pace = Pace(SendRates(records=10))
    assert pace.wait_ms({1: SentLoad(10)}, now_ms=1_000_000) == 0
    pace.on_sent({1: SentLoad(10)}, now_ms=1_000_000)
    assert pace.wait_ms({1: SentLoad(1)}, now_ms=1_000_000) == 1_000 - BURST_MS


def test_a_rate_is_shared_among_tasks() -> None:
    assert SendRates(100, None).shared(4) == SendRates(25, None)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        yield Cluster(stack)


def test_what_a_client_sends_takes_its_time_for_each_broker_by_itself(cluster: Cluster) -> None:
    cluster.on(ApiKey.PRODUCE, produced())
    client = PacedClient(
        ClientConfig(bootstrap=(cluster.brokers[1].address,)),
        SendRates(records=10),
        pool=cluster.pool,
        clock_ms=cluster.clock.mono_ms,
        sleep_s=cluster.clock.sleep_s,
    )
    client.metadata(["t"])
    twenty = encode_batch([NewRecord(b"k", b"v", 1)] * 20)
    one = encode_batch([NewRecord(b"k", b"v", 1)])
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)

    def send(batches: dict[TopicPartition, bytes]) -> None:
        assert client.producing.sendable(batches) == batches
        assert client.producing.start(batches) == {}
        taken: set[TopicPartition] = set()
        while taken != batches.keys():
            taken |= client.producing.take(wait_ms=10_000).keys()

    send({first: twenty})
    assert cluster.clock.now_ms == 0
    send({second: one})  # another broker's
    assert cluster.clock.now_ms == 0
    send({first: one, second: one})
    assert cluster.clock.now_ms == 2_000 - BURST_MS
    send({second: one})
    assert cluster.clock.now_ms == 2_000 - BURST_MS, "it has had less"
