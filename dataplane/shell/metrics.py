"""What a broker counts beside what every process does (`springtide.node.counters`)."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from springtide.node.counters import NodeCounters, collect_node_counters
from springtide.node.status import counter


class BrokerCounters(NodeCounters):
    """Bytes and messages per topic live with the partitions."""

    __slots__ = (
        "failed_fetch_requests",
        "failed_produce_requests",
        "isr_expands",
        "isr_shrinks",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        super().__init__()
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        #: Learners' part of the two that follow.
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0


def collect_counters(counters: BrokerCounters, *, now_us: int) -> Iterable[Metric]:
    """Yield the families of `counters`. now_us: monotonic."""
    yield from collect_node_counters(counters, now_us=now_us)
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
