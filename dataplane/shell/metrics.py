"""What a broker counts, and the page that Prometheus reads it from.

Counters are plain integers that the hot path adds to; they become metric families only when somebody asks.
Names are the JMX exporter's spelling of Kafka's own MBeans, so that dashboards and alerts made for Kafka work
unchanged. One object a broker, never module state: several brokers share one interpreter in the simulation.

The server beside it answers GET /metrics, /healthz (the process lives) and /readyz (it may serve
clients), one request a connection, and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from dataplane.shell.clock import Clock
from dataplane.shell.net import Channel, Listener

_log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_TIMEOUT_MS = 5_000
CONNECTIONS_MAX = 32

#: For the label `request` of the request metrics, as Kafka spells it.
API_NAMES = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    10: "FindCoordinator",
    18: "ApiVersions",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    35: "DescribeLogDirs",
    61: "DescribeProducers",
}


class BrokerCounters:
    """What is counted as it happens. Bytes and messages per topic live with the partitions."""

    __slots__ = (
        "busy_us",
        "connections_closed_idle",
        "connections_closed_malformed",
        "connections_opened",
        "connections_refused",
        "failed_fetch_requests",
        "failed_produce_requests",
        "isr_expands",
        "isr_shrinks",
        "loop_stall_ms_max",
        "loop_stalls",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replication_bytes_in",
        "replication_bytes_out",
        "requests",
        "started_us",
    )

    def __init__(self) -> None:
        #: (api key) -> requests received.
        self.requests: dict[int, int] = {}
        self.connections_opened = 0
        self.connections_refused = 0
        self.connections_closed_idle = 0
        self.connections_closed_malformed = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        #: Learners' part of the two that follow.
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.loop_stalls = 0
        self.loop_stall_ms_max = 0
        #: Time spent in connection turns, against `started_us` the share that the loop was busy.
        self.busy_us = 0
        self.started_us = 0


class BrokerCollector(Collector):
    """Asks its sources each time it is read. A source yields families and must not block."""

    def __init__(self, sources: Iterable[Callable[[], Iterable[Metric]]]) -> None:
        self._sources = tuple(sources)

    def collect(self) -> Iterable[Metric]:
        for source in self._sources:
            yield from source()


def counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family


def gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def collect_counters(counters: BrokerCounters, *, now_us: int) -> Iterable[Metric]:
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests received", labels=["request"]
    )
    for api_key in sorted(counters.requests):
        requests.add_metric([API_NAMES.get(api_key, str(api_key))], counters.requests[api_key])
    yield requests
    yield counter(
        "kafka_server_brokertopicmetrics_totalproducerequests",
        "Produce requests",
        counters.requests.get(0, 0),
    )
    yield counter(
        "kafka_server_brokertopicmetrics_totalfetchrequests", "Fetch requests", counters.requests.get(1, 0)
    )
    yield counter(
        "kafka_server_brokertopicmetrics_failedproducerequests",
        "Partitions of Produce requests answered with an error",
        counters.failed_produce_requests,
    )
    yield counter(
        "kafka_server_brokertopicmetrics_failedfetchrequests",
        "Partitions of Fetch requests answered with an error",
        counters.failed_fetch_requests,
    )
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesin",
        "Bytes fetched from leaders",
        counters.replication_bytes_in,
    )
    yield counter(
        "kafka_server_brokertopicmetrics_replicationbytesout",
        "Bytes sent to followers",
        counters.replication_bytes_out,
    )
    yield counter(
        "kafka_server_brokertopicmetrics_reassignmentbytesin",
        "Bytes fetched from leaders for replicas that are being added and not in sync",
        counters.reassignment_bytes_in,
    )
    yield counter(
        "kafka_server_brokertopicmetrics_reassignmentbytesout",
        "Bytes sent to replicas that are being added and not in sync",
        counters.reassignment_bytes_out,
    )
    yield counter("kafka_server_replicamanager_isrshrinks", "ISR shrinks seen", counters.isr_shrinks)
    yield counter("kafka_server_replicamanager_isrexpands", "ISR expansions seen", counters.isr_expands)
    yield counter("springtide_connections_opened", "Connections accepted", counters.connections_opened)
    yield counter("springtide_connections_refused", "Connections over a limit", counters.connections_refused)
    yield counter(
        "springtide_connections_closed_malformed",
        "Connections closed for bytes that are no request",
        counters.connections_closed_malformed,
    )
    yield counter(
        "springtide_connections_closed_idle",
        "Connections closed for silence",
        counters.connections_closed_idle,
    )
    yield counter("springtide_loop_stalls", "Times the loop was blocked", counters.loop_stalls)
    yield gauge("springtide_loop_stall_ms_max", "Longest loop stall, ms", counters.loop_stall_ms_max)
    lived_us = max(1, now_us - counters.started_us)
    idle = max(0.0, 1.0 - counters.busy_us / lived_us)
    yield gauge("kafka_network_socketserver_networkprocessoravgidle_percent", "Idle share of the loop", idle)
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "Idle share of the loop", idle
    )


class StatusServer:
    """Serves the three pages over plain HTTP/1.1."""

    def __init__(
        self, *, listener: Listener, collector: BrokerCollector, is_ready: Callable[[], bool], clock: Clock
    ) -> None:
        self._listener = listener
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(collector)
        self._is_ready = is_ready
        self._clock = clock
        self._open = 0

    @property
    def address(self) -> tuple[str, int]:
        return self._listener.address

    async def serve(self) -> None:
        self._listener.begin()
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    channel = await self._listener.accept()
                    if self._open >= CONNECTIONS_MAX:
                        channel.close()
                        continue
                    self._open += 1
                    nursery.start_soon(self._serve_one, channel)
        finally:
            self._listener.close()

    async def _serve_one(self, channel: Channel) -> None:
        try:
            with self._clock.timeout_ms(REQUEST_TIMEOUT_MS), suppress(OSError, trio.ClosedResourceError):
                request_line = await _read_request(channel)
                status, kind, body = self._answer(request_line)
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                await _send_all(channel, head.encode("ascii") + body)
        finally:
            self._open -= 1
            channel.close()

    def _answer(self, request_line: bytes) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        parts = request_line.split(b" ")
        if len(parts) != 3 or not parts[2].startswith(b"HTTP/1."):
            return "400 Bad Request", text, b"not an HTTP request\n"
        if parts[0] not in (b"GET", b"HEAD"):
            return "405 Method Not Allowed", text, b"only GET\n"
        path = parts[1].partition(b"?")[0]
        if path == b"/metrics":
            return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
        if path == b"/healthz":
            return "200 OK", text, b"alive\n"
        if path == b"/readyz":
            if self._is_ready():
                return "200 OK", text, b"ready\n"
            return "503 Service Unavailable", text, b"not registered and active at a controller\n"
        return "404 Not Found", text, b"see /metrics, /healthz, /readyz\n"


async def _read_request(channel: Channel) -> bytes:
    """The request line; the header that follows it is read, bounded, and ignored."""
    data = bytearray()
    block = bytearray(2048)
    while b"\r\n\r\n" not in data and len(data) < REQUEST_BYTES_MAX:
        try:
            received = channel.recv_into(memoryview(block))
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if received == 0:
            break
        data += block[:received]
    return bytes(data).partition(b"\r\n")[0]


async def _send_all(channel: Channel, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[channel.send((rest,)) :]
        except BlockingIOError:
            await channel.wait_writable()
