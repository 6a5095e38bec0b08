"""The page of metrics is what Prometheus's own library would write."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from springtide.node.status import MetricsCollector, counter, gauge, render


def families() -> list[Metric]:
    by_topic = CounterMetricFamily(
        "kafka_bytesin", "Bytes \\ of a\ntopic", labels=["topic", "partition", "a"]
    )
    for topic in ("orders", 'odd "name"', "back\\slash", "two\nlines", "größe", ""):
        by_topic.add_metric([topic, "0", "b"], 2**63)
    offsets = GaugeMetricFamily("offset", "Offset", labels=["topic"])
    for value in (0, -1, 1.5, 10**15, float("inf"), float("nan"), 123456789012):
        offsets.add_metric([str(value)], value)
    return [counter("requests", "Requests", 7), gauge("alone", "One value", 3.25), by_topic, offsets]


def test_the_page_is_what_the_library_writes() -> None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(MetricsCollector([families]))
    assert render(families()) == generate_latest(registry)
