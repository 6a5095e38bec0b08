"""Metrics of a process's shards: under Kafka's names where Kafka has one, and ours by topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.shard import ShardPhase
from coordinator.shell.group_watch import SeenGroups
from coordinator.shell.shard_host import ShardCounters, ShardHost
from coordinator.shell.shards import Shards
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from springtide.node.status import gauge

_KAFKA: Final = {
    GROUPS_TOPIC: "kafka_server_group_coordinator_metrics",
    TRANSACTIONS_TOPIC: "kafka_server_transaction_coordinator_metrics",
}
_COUNTERS: Final[dict[str, tuple[str, Callable[[ShardCounters], int]]]] = {
    "springtide_shard_openings": ("Shards opened", lambda counts: counts.openings),
    "springtide_shard_endings": ("Shards given away, fenced, cut or failed", lambda counts: counts.endings),
    "springtide_shard_appends": ("Batches sent to shards' logs", lambda counts: counts.appends),
    "springtide_shard_failed_appends": (
        "Batches that were refused or not answered",
        lambda counts: counts.failed_appends,
    ),
    "springtide_shard_requests_turned_away": (
        "Requests refused because too many waited in their shard",
        lambda counts: counts.requests_turned_away,
    ),
}


def collect_shards(topics: Sequence[Shards]) -> Iterator[Metric]:
    """Yield the metrics of the shards of each coordinator topic."""
    followed = GaugeMetricFamily(
        "springtide_shards_followed", "Shards followed as their standby", labels=["topic"]
    )
    replay_lag = GaugeMetricFamily(
        "springtide_shard_replay_lag_max",
        "Records that the slowest shard has yet to read or apply; only where all leaders reported",
        labels=["topic"],
    )
    for shards in topics:
        hosts = shards.hosts()
        states = Counter(map(_state_of, hosts))
        yield from _as_kafka(_KAFKA[shards.topic], hosts, states)
        followed.add_metric([shards.topic], states["followed"])
        lags = [lag for host in hosts if (lag := host.lag) is not None]
        if len(lags) == len(hosts):
            replay_lag.add_metric([shards.topic], max(lags, default=0))
    yield followed
    yield replay_lag
    for name, (told, read) in _COUNTERS.items():
        family = CounterMetricFamily(name, told, labels=["topic"])
        for shards in topics:
            family.add_metric([shards.topic], read(shards.counters))
        yield family


def _as_kafka(prefix: str, hosts: Sequence[ShardHost], states: Counter[str]) -> Iterator[Metric]:
    partitions = GaugeMetricFamily(
        f"{prefix}_num_partitions", "Shards that this coordinator owns", labels=["state"]
    )
    for state in ("loading", "active", "failed"):
        partitions.add_metric([state], states[state])
    yield partitions
    openings_ms = [host.opening_ms for host in hosts if host.opening_ms is not None]
    yield gauge(
        f"{prefix}_partition_load_time_max",
        "Longest opening of the shards that are served, ms",
        max(openings_ms, default=0),
    )
    yield gauge(
        f"{prefix}_partition_load_time_avg",
        "Average opening of the shards that are served, ms",
        sum(openings_ms) / max(1, len(openings_ms)),
    )


def collect_groups(seen: SeenGroups) -> Iterator[Metric]:
    """Yield how many groups this coordinator has, by protocol and state, as of its last look."""
    prefix = _KAFKA[GROUPS_TOPIC]
    states = Counter(group.state for group in seen.groups)
    of_protocol = GaugeMetricFamily(f"{prefix}_group_count", "Groups", labels=["protocol"])
    of_protocol.add_metric(["classic"], states[None])
    of_protocol.add_metric(["consumer"], len(seen.groups) - states[None])
    yield of_protocol
    of_state = GaugeMetricFamily(
        f"{prefix}_consumer_group_count", "Groups of the consumer protocol", labels=["state"]
    )
    for state in ConsumerGroupState:
        of_state.add_metric([state.value.lower()], states[state])
    yield of_state
    yield gauge(
        f"{prefix}_consumer_group_rebalance_count",
        "How often the epoch of a group of the consumer protocol was raised, since the start",
        seen.rebalances,
    )
    yield gauge(
        f"{prefix}_consumer_group_rebalance_rate",
        "The same a second, between the last two looks",
        seen.rebalances_per_s,
    )


def _state_of(host: ShardHost) -> str:
    """Return the state as Kafka's metric names it, `followed` for a standby's."""
    if host.ahead is not None or host.unread:
        return "failed"
    if host.runtime.phase is ShardPhase.SERVING:
        return "active"
    return "loading" if host.is_owner else "followed"
