"""The metrics of webhooks, of the active controller only."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller.webhooks.notifier import Notifier


class WebhookCollector(Collector):
    """Register it with the registry that `/metrics` renders."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering asks nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        labels = ["cluster", "webhook"]
        waiting = GaugeMetricFamily("springtide_webhook_waiting", "Messages that wait", labels=labels)
        failing = GaugeMetricFamily(
            "springtide_webhook_failing", "1: the last attempt failed, or it is switched off", labels=labels
        )
        delivered = CounterMetricFamily(
            "springtide_webhook_delivered", "Messages that the receiver took", labels=labels
        )
        dropped = CounterMetricFamily(
            "springtide_webhook_dropped", "Messages that were given up", labels=labels
        )
        for row, kept in self._notifier.running():
            names = [row.cluster, row.name]
            is_failing = kept.failing_since_ms is not None or kept.off_revision is not None
            waiting.add_metric(names, len(kept.queue))
            failing.add_metric(names, int(is_failing))
            delivered.add_metric(names, kept.delivered)
            dropped.add_metric(names, kept.dropped)
        return (waiting, failing, delivered, dropped)
