"""The counters of every process that speaks Kafka: requests, connections, and the load of its loop.

Counters are plain integers that the hot path adds to; they become metric families only when metrics are read.
Names are the JMX exporter's spelling of Kafka's own MBeans, so that dashboards and alerts made for Kafka work
unchanged. One object a process, never module state: several share one interpreter in the simulation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from springtide.node.refusals import Refusals
from springtide.node.status import counter, gauge
from springtide.wire.apis import ApiKey


@dataclass(slots=True, eq=False)
class NodeCounters:
    requests: dict[int, int] = field(default_factory=dict)
    """API key to requests received."""
    refusals: Refusals = field(default_factory=Refusals)
    connections_opened: int = 0
    connections_refused: int = 0
    connections_closed_idle: int = 0
    connections_closed_malformed: int = 0
    connections_throttled: int = 0
    requests_with_trailing_bytes: int = 0
    authorizations_denied: int = 0
    loop_stalls: int = 0
    loop_stall_ms_max: int = 0
    busy_us: int = 0
    """Time spent in connection turns. Against the time since `started_us` it is the share that the loop was
    busy."""
    started_us: int = 0

    def on_rest(self, _size_bytes: int) -> None:
        self.requests_with_trailing_bytes += 1


def collect_node_counters(counters: NodeCounters, *, now_us: int) -> Iterable[Metric]:
    """Yield the families of `counters`. now_us: monotonic."""
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests received", labels=["request"]
    )
    for api_key in sorted(counters.requests):
        requests.add_metric([ApiKey(api_key).kafka_name], counters.requests[api_key])
    yield requests
    yield counters.refusals.collect()
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
    yield counter(
        "springtide_connections_throttled",
        "Connections above the rate of their address, closed after a while",
        counters.connections_throttled,
    )
    yield counter(
        "springtide_requests_with_trailing_bytes",
        "Requests with bytes after the message, which are ignored",
        counters.requests_with_trailing_bytes,
    )
    yield counter(
        "springtide_authorizations_denied", "Rights that requests lacked", counters.authorizations_denied
    )
    yield counter("springtide_loop_stalls", "Times the loop was blocked", counters.loop_stalls)
    yield gauge("springtide_loop_stall_ms_max", "Longest loop stall, ms", counters.loop_stall_ms_max)
    lived_us = max(1, now_us - counters.started_us)
    idle = max(0.0, 1.0 - counters.busy_us / lived_us)
    yield gauge("kafka_network_socketserver_networkprocessoravgidle_percent", "Idle share of the loop", idle)
    yield gauge(
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", "Idle share of the loop", idle
    )
