"""The counters of logins, and their metrics: Kafka's `socket-server-metrics` in the JMX exporter's way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.metrics_core import CounterMetricFamily, Metric

_LABELS = ["listener"]


@dataclass(slots=True, eq=False)
class SaslCounters:
    """What has happened on one listener. repeated: logins on a connection that had logged in before."""

    successes: int = 0
    failures: int = 0
    repeated_successes: int = 0
    repeated_failures: int = 0
    expired: int = 0
    revoked: int = 0


def collect_sasl(of_listeners: Mapping[str, SaslCounters]) -> Iterator[Metric]:
    """Yield the families of listeners' counters, by the listeners' names."""
    families: tuple[tuple[CounterMetricFamily, Callable[[SaslCounters], int]], ...] = (
        (
            CounterMetricFamily(
                "kafka_server_socket_server_metrics_successful_authentication",
                "Logins of clients by SASL",
                labels=_LABELS,
            ),
            lambda counters: counters.successes,
        ),
        (
            CounterMetricFamily(
                "kafka_server_socket_server_metrics_failed_authentication",
                "Logins by SASL that failed",
                labels=_LABELS,
            ),
            lambda counters: counters.failures,
        ),
        (
            CounterMetricFamily(
                "kafka_server_socket_server_metrics_successful_reauthentication",
                "Logins on a connection that had logged in before (KIP-368)",
                labels=_LABELS,
            ),
            lambda counters: counters.repeated_successes,
        ),
        (
            CounterMetricFamily(
                "kafka_server_socket_server_metrics_failed_reauthentication",
                "Logins that failed on a connection that had logged in before",
                labels=_LABELS,
            ),
            lambda counters: counters.repeated_failures,
        ),
        (
            CounterMetricFamily(
                "kafka_server_socket_server_metrics_expired_connections_killed",
                "Connections closed because their session had ended and the client did not log in again",
                labels=_LABELS,
            ),
            lambda counters: counters.expired,
        ),
        (
            CounterMetricFamily(
                "springtide_revoked_connections_killed",
                "Connections closed because the secret of their user was changed or deleted",
                labels=_LABELS,
            ),
            lambda counters: counters.revoked,
        ),
    )
    for family, count in families:
        for listener, counters in of_listeners.items():
            family.add_metric([listener], count(counters))
        yield family
