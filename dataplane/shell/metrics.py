"""The counters of a broker, beside those of every process (`springtide.node.counters`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric

from springtide.node.counters import NodeCounters, collect_node_counters
from springtide.node.status import counter


@dataclass(slots=True, eq=False)
class BrokerCounters(NodeCounters):
    """Bytes and messages per topic live with the partitions."""

    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    #: Learners' part of the two that follow.
    reassignment_bytes_in: int = 0
    reassignment_bytes_out: int = 0
    replication_bytes_in: int = 0
    replication_bytes_out: int = 0
    #: Batches' questions to transaction coordinators that have an end, those of them that were refused or not
    #: answered, and the time that they took together.
    verifications: int = 0
    verification_failures: int = 0
    verification_ms: int = 0


def collect_counters(counters: BrokerCounters, *, now_us: int) -> Iterable[Metric]:
    """Yield the families of `counters`. now_us: monotonic."""
    yield from collect_node_counters(counters, now_us=now_us)
    yield from (
        counter(
            "kafka_server_brokertopicmetrics_totalproducerequests",
            "Produce requests",
            counters.requests.get(0, 0),
        ),
        counter(
            "kafka_server_brokertopicmetrics_totalfetchrequests",
            "Fetch requests",
            counters.requests.get(1, 0),
        ),
        counter(
            "kafka_server_brokertopicmetrics_failedproducerequests",
            "Partitions of Produce requests answered with an error",
            counters.failed_produce_requests,
        ),
        counter(
            "kafka_server_brokertopicmetrics_failedfetchrequests",
            "Partitions of Fetch requests answered with an error",
            counters.failed_fetch_requests,
        ),
        counter(
            "kafka_server_brokertopicmetrics_replicationbytesin",
            "Bytes fetched from leaders",
            counters.replication_bytes_in,
        ),
        counter(
            "kafka_server_brokertopicmetrics_replicationbytesout",
            "Bytes sent to followers",
            counters.replication_bytes_out,
        ),
        counter(
            "kafka_server_brokertopicmetrics_reassignmentbytesin",
            "Bytes fetched from leaders for replicas that are being added and not in sync",
            counters.reassignment_bytes_in,
        ),
        counter(
            "kafka_server_brokertopicmetrics_reassignmentbytesout",
            "Bytes sent to replicas that are being added and not in sync",
            counters.reassignment_bytes_out,
        ),
        counter(
            "kafka_server_addpartitionstotxnmanager_verifications",
            "Questions of leaders whether a partition is in a transaction that have an end",
            counters.verifications,
        ),
        counter(
            "kafka_server_addpartitionstotxnmanager_verificationfailure",
            "Those that a coordinator refused or did not answer",
            counters.verification_failures,
        ),
        counter(
            "kafka_server_addpartitionstotxnmanager_verificationtimems",
            "The time that all of them took, ms",
            counters.verification_ms,
        ),
        counter("kafka_server_replicamanager_isrshrinks", "ISR shrinks seen", counters.isr_shrinks),
        counter("kafka_server_replicamanager_isrexpands", "ISR expansions seen", counters.isr_expands),
    )
