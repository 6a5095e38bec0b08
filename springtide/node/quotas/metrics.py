"""The use of quotas as Prometheus reads it.

Names and labels are those that the JMX exporter's rules for Kafka make of its MBeans
`kafka.server:type=Produce,user=…,client-id=…`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from springtide.node.core.quota_limits import Key, QuotaName
from springtide.node.quotas.enforcement import ClientQuotas

ENTITIES_TOLD_MAX: Final = 1_000
"""Of each quota; those that used it last."""

_LABELS: Final = ("resource", "user", "clientId")
_RATES: Final = (
    (QuotaName.PRODUCER_BYTE_RATE, "Produce", "byte_rate", "Bytes per second"),
    (QuotaName.CONSUMER_BYTE_RATE, "Fetch", "byte_rate", "Bytes per second"),
    (QuotaName.REQUEST_PERCENTAGE, "Request", "request_time", "Per cent of a processor core"),
)


def collect_quotas(quotas: ClientQuotas) -> Iterator[Metric]:
    """Yield the families of the clients that have a quota."""
    now_ms = quotas.mono_ms()
    delays = GaugeMetricFamily(
        "kafka_server_quota_throttle_time", "Mean of the clients' waits, milliseconds", labels=_LABELS
    )
    rates: dict[str, GaugeMetricFamily] = {}
    for name, resource, metric, text in _RATES:
        if metric not in rates:
            rates[metric] = GaugeMetricFamily(f"kafka_server_quota_{metric}", text, labels=_LABELS)
        quotas.usage[name].forget_idle(now_ms)
        for key, usage in quotas.usage[name].newest(ENTITIES_TOLD_MAX):
            labels = _labels(resource, key)
            delays.add_metric(labels, usage.throttle_time_ms(now_ms))
            rates[metric].add_metric(labels, usage.rate(now_ms))
    yield from rates.values()
    yield delays


def _labels(resource: str, key: Key) -> list[str]:
    user, client_id = key
    return [resource, user or "", client_id or ""]
