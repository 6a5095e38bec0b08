"""What every process that speaks Kafka counts: requests, connections, and how busy its loop is.

Counters are plain integers that the hot path adds to; they become metric families only when somebody asks.
Names are the JMX exporter's spelling of Kafka's own MBeans, so that dashboards and alerts made for Kafka work
unchanged. One object a process, never module state: several share one interpreter in the simulation.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from springtide.node.status import counter, gauge

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


class NodeCounters:
    """What is counted as it happens."""

    __slots__ = (
        "busy_us",
        "connections_closed_idle",
        "connections_closed_malformed",
        "connections_opened",
        "connections_refused",
        "loop_stall_ms_max",
        "loop_stalls",
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
        self.loop_stalls = 0
        self.loop_stall_ms_max = 0
        #: Time spent in connection turns, against `started_us` the share that the loop was busy.
        self.busy_us = 0
        self.started_us = 0


def collect_node_counters(counters: NodeCounters, *, now_us: int) -> Iterable[Metric]:
    """Yield the families of `counters`. now_us: monotonic."""
    requests = CounterMetricFamily(
        "kafka_network_requestmetrics_requests", "Requests received", labels=["request"]
    )
    for api_key in sorted(counters.requests):
        requests.add_metric([API_NAMES.get(api_key, str(api_key))], counters.requests[api_key])
    yield requests
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
