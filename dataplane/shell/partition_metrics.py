"""What a broker's metrics tell of its partitions: how many there are, their health, sizes and offsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from dataplane.core.leader import Leader
from dataplane.shell.hosted import HostedPartition
from springtide.contract.partition_state import PartitionState
from springtide.node.status import gauge

LATE_MS = 20 * 60 * 1000
"""A transaction that is open for longer is late: the default of transaction.max.timeout.ms, and 5 minutes."""


def collect_partitions(table: Sequence[HostedPartition], *, now_ms: int) -> Iterator[Metric]:
    """Yield the families of a broker's partitions."""
    leaders = [hosted for hosted in table if isinstance(hosted.replica.role, Leader)]
    states = [(hosted, hosted.replica.state) for hosted in leaders]
    yield gauge("kafka_server_replicamanager_partitioncount", "Replicas here", len(table))
    yield gauge("kafka_server_replicamanager_leadercount", "Partitions led here", len(leaders))
    yield gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Led partitions whose ISR lacks a replica",
        sum(_is_under_replicated(state) for _, state in states),
    )
    yield gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Led partitions below min.insync.replicas",
        sum(state is not None and len(state.isr) < state.min_insync_replicas for _, state in states),
    )
    yield gauge(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Led partitions at min.insync.replicas",
        sum(state is not None and len(state.isr) == state.min_insync_replicas for _, state in states),
    )
    yield gauge(
        "kafka_server_replicamanager_reassigningpartitions",
        "Led partitions whose replicas are being moved",
        sum(state is not None and state.is_reassigning for _, state in states),
    )
    yield gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Led partitions with a transaction that is open for longer than any may be",
        sum(_is_late(hosted, now_ms) for hosted in leaders),
    )
    yield from _collect_topics(table)
    yield from _collect_led(states)


def _collect_led(states: Sequence[tuple[HostedPartition, PartitionState | None]]) -> Iterator[Metric]:
    """Under kafka_exporter's names. Only a partition's leader tells of it, so that sums are right."""
    labels = ("topic", "partition")
    current = GaugeMetricFamily(
        "kafka_topic_partition_current_offset", "High watermark of a led partition", labels=labels
    )
    oldest = GaugeMetricFamily(
        "kafka_topic_partition_oldest_offset", "Log start offset of a led partition", labels=labels
    )
    behind = GaugeMetricFamily(
        "kafka_topic_partition_under_replicated_partition",
        "1 if the ISR of a led partition lacks a replica",
        labels=labels,
    )
    for hosted, state in states:
        values = (hosted.topic, str(hosted.partition))
        current.add_metric(values, hosted.replica.high_watermark)
        oldest.add_metric(values, hosted.log.log_start_offset)
        behind.add_metric(values, _is_under_replicated(state))
    yield from (current, oldest, behind)


def _collect_topics(table: Sequence[HostedPartition]) -> Iterator[Metric]:
    sums: dict[str, list[int]] = {}
    sizes = GaugeMetricFamily("kafka_log_log_size", "Bytes of a log", labels=["topic", "partition"])
    for hosted in table:
        row = sums.setdefault(hosted.topic, [0, 0, 0])
        row[0] += hosted.bytes_in
        row[1] += hosted.bytes_out
        row[2] += hosted.messages_in
        sizes.add_metric([hosted.topic, str(hosted.partition)], hosted.log.size_bytes)
    for column, (name, text) in enumerate(
        (
            ("bytesin", "Bytes produced"),
            ("bytesout", "Bytes consumed"),
            ("messagesin", "Records produced"),
        )
    ):
        family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", text, labels=["topic"])
        for topic in sorted(sums):
            family.add_metric([topic], sums[topic][column])
        yield family
    yield sizes


def _is_under_replicated(state: PartitionState | None) -> bool:
    return state is not None and len(state.isr) < state.replication_factor


def _is_late(hosted: HostedPartition, now_ms: int) -> bool:
    transactions = hosted.replica.role.open_transactions(now_ms)
    return transactions is not None and any(one.open_ms > LATE_MS for one in transactions.oldest)
