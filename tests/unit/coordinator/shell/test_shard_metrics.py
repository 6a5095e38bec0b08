"""Metrics of shards: each topic's own, under Kafka's names and by label."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from coordinator.core.groups.consumer.state import ConsumerGroupState
from coordinator.core.groups.figures import GroupFigures
from coordinator.core.shard import ShardPhase
from coordinator.shell.group_watch import SeenGroups
from coordinator.shell.shard_host import ShardCounters
from coordinator.shell.shard_metrics import collect_groups, collect_shards
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC


def host(phase: ShardPhase, *, is_owner: bool, lag: int | None, opening_ms: int | None = None) -> Any:
    return SimpleNamespace(
        ahead=None,
        unread="",
        is_owner=is_owner,
        lag=lag,
        opening_ms=opening_ms,
        runtime=SimpleNamespace(phase=phase),
    )


def shards(topic: str, *hosts: Any, **counts: int) -> Any:
    return SimpleNamespace(topic=topic, hosts=lambda: hosts, counters=ShardCounters(**counts))


def test_each_topic_is_told_by_itself() -> None:
    groups = shards(
        GROUPS_TOPIC, host(ShardPhase.SERVING, is_owner=True, lag=0, opening_ms=30), openings=4, appends=9
    )
    transactions = shards(
        TRANSACTIONS_TOPIC,
        host(ShardPhase.SERVING, is_owner=True, lag=0, opening_ms=10),
        host(ShardPhase.READING, is_owner=True, lag=5),
        host(ShardPhase.FOLLOWING, is_owner=False, lag=None),
        openings=1,
    )
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in collect_shards(cast(Any, (groups, transactions)))
        for sample in family.samples
    }
    of_transactions = "kafka_server_transaction_coordinator_metrics"
    assert found["kafka_server_group_coordinator_metrics_partition_load_time_max",] == 30
    assert found[f"{of_transactions}_partition_load_time_max",] == 10
    assert [found[f"{of_transactions}_num_partitions", state] for state in ("loading", "active")] == [1, 1]
    assert found["springtide_shards_followed", TRANSACTIONS_TOPIC] == 1
    assert found["springtide_shards_followed", GROUPS_TOPIC] == 0
    assert found["springtide_shard_openings_total", GROUPS_TOPIC] == 4
    assert found["springtide_shard_openings_total", TRANSACTIONS_TOPIC] == 1
    assert found["springtide_shard_replay_lag_max", GROUPS_TOPIC] == 0
    assert ("springtide_shard_replay_lag_max", TRANSACTIONS_TOPIC) not in found, "one leader did not tell"


def test_groups_are_counted_by_protocol_and_state() -> None:
    states = (None, None, ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY, ConsumerGroupState.STABLE)
    groups = tuple(GroupFigures(str(number), 0, {}, state=state) for number, state in enumerate(states))
    told = {
        (sample.name.removeprefix("kafka_server_group_coordinator_metrics_"), *sample.labels.values()): (
            sample.value
        )
        for family in collect_groups(SeenGroups(groups, {}, 7, 0.5))
        for sample in family.samples
    }
    assert told == {
        ("group_count", "classic"): 2,
        ("group_count", "consumer"): 3,
        ("consumer_group_count", "empty"): 1,
        ("consumer_group_count", "assigning"): 0,
        ("consumer_group_count", "reconciling"): 0,
        ("consumer_group_count", "stable"): 2,
        ("consumer_group_count", "dead"): 0,
        ("consumer_group_rebalance_count",): 7,
        ("consumer_group_rebalance_rate",): 0.5,
    }
