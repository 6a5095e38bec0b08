"""Kafka's keys, and what is said to those that do nothing."""

from __future__ import annotations

import pytest

from controller.core.settings_table import CLUSTER_SETTINGS
from dataplane.core.compaction.rounds import CompactionOptions
from dataplane.shell.config import BROKER_KEYS, TOPIC_KEYS, BrokerConfig
from springtide.node.config import NodeConfigError, read_properties, split_pair


def test_every_default_is_a_value_of_its_key() -> None:
    parsed = BrokerConfig.parse((name, key.default) for name, key in BROKER_KEYS.items())
    assert parsed.values.keys() == BROKER_KEYS.keys()


def test_every_topic_key_overrides_an_existing_one() -> None:
    assert set(TOPIC_KEYS.values()) <= BROKER_KEYS.keys()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("log.dirs", "--data-dir"),
        ("log.segment.byte", "'log.segment.bytes'"),
        ("retention.ms", "log.retention.ms"),
        ("min.insync.replicas", "controller decides"),
        ("xyzzy", "--help"),
    ],
)
def test_an_unknown_key_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(NodeConfigError, match="unknown configuration key") as refused:
        BrokerConfig.parse([(name, "1")])
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.segment.bytes", "many"),
        ("log.segment.bytes", "0"),
        ("log.message.timestamp.type", "Now"),
        ("log.cleanup.policy", "compact,keep"),
        ("log.cleanup.policy", ""),
        ("log.cleaner.min.cleanable.ratio", "nan"),
        ("socket.request.max.bytes", str(2**31)),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, text: str) -> None:
    with pytest.raises(NodeConfigError, match=name):
        BrokerConfig.parse([(name, text)])


def test_the_last_pair_wins() -> None:
    parsed = BrokerConfig.parse([("log.segment.bytes", "2048"), ("log.segment.bytes", " 4096 ")])
    assert parsed.number("log.segment.bytes") == 4096


def test_topic_overrides_win_over_the_brokers_defaults_and_bad_ones_count_as_absent() -> None:
    config = BrokerConfig.parse([("log.retention.ms", "1000"), ("log.segment.bytes", "2048")])
    settings = config.topic_settings({"retention.ms": "5", "segment.bytes": "nonsense"})
    assert settings.retention_ms == 5
    assert settings.log.segment_bytes == 2048


def test_the_clusters_settings_lie_over_the_brokers_and_unknown_or_bad_ones_count_as_absent() -> None:
    config = BrokerConfig.parse([("log.retention.ms", "1000"), ("log.segment.bytes", "2048")])
    cluster = {
        "log.retention.ms": "5",
        "log.segment.bytes": "nonsense",
        "replica.lag.time.max.ms": "700",
        "default.replication.factor": "3",
    }
    in_cluster = config.in_cluster(cluster)
    settings = in_cluster.topic_settings({})
    assert (settings.retention_ms, settings.log.segment_bytes) == (5, 2048)
    assert in_cluster.replica_options(settings).lag_ms_max == 700
    assert in_cluster.topic_settings({"retention.ms": "9"}).retention_ms == 9
    assert config.topic_settings({}).retention_ms == 1000


def test_a_compacted_topic_keeps_what_is_old_unless_its_policy_deletes_too() -> None:
    config = BrokerConfig.parse([("log.retention.ms", "5"), ("log.cleaner.min.cleanable.ratio", "0.25")])
    both = config.topic_settings({"cleanup.policy": "delete, compact", "delete.retention.ms": "3"})
    assert both.compaction == CompactionOptions(0.25, 0, 2**63 - 1, 3)
    assert (both.retention_ms, both.retention_bytes) == (5, -1)
    assert not config.replica_options(both).is_compact_only
    alone = config.topic_settings({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "2"})
    assert alone.compaction == CompactionOptions(0.25, 0, 2**63 - 1, 86_400_000), "a bad ratio is absent"
    assert (alone.retention_ms, alone.retention_bytes) == (-1, -1)
    options = config.replica_options(alone)
    assert options.is_compact_only and options.compaction == alone.compaction
    assert config.topic_settings({}).compaction is None
    by_default = BrokerConfig.parse([("log.cleanup.policy", "compact")])
    assert by_default.replica_options(by_default.topic_settings({})).is_compact_only
    assert by_default.topic_settings({"cleanup.policy": "delete"}).compaction is None


def test_limits_that_mean_never_are_none() -> None:
    settings = BrokerConfig.parse([]).topic_settings({})
    assert settings.log.flush_messages is None
    assert settings.timestamp_before_ms_max is None
    unlimited = BrokerConfig.parse([]).topic_settings({"message.timestamp.after.max.ms": str(2**63 - 1)})
    assert unlimited.timestamp_after_ms_max is None


def test_a_properties_file_has_comments_and_says_where_it_is_wrong() -> None:
    text = "# a comment\n\n log.segment.bytes = 4096 \n! another\nmax.connections=7\n"
    assert read_properties(text) == [("log.segment.bytes", "4096"), ("max.connections", "7")]
    with pytest.raises(NodeConfigError, match="line 2"):
        read_properties("a=b\nno pair\n")


def test_a_pair_needs_a_key() -> None:
    with pytest.raises(NodeConfigError):
        split_pair("=value")


def test_defaults_that_the_controller_shows_are_those_that_brokers_use() -> None:
    assert set(BROKER_KEYS) <= set(CLUSTER_SETTINGS), "none is unknown to the controller"
    honoured = {name: setting.default for name, setting in CLUSTER_SETTINGS.items() if setting.is_honoured}
    shared = {name: default for name, default in honoured.items() if name in BROKER_KEYS}
    assert "replica.lag.time.max.ms" in shared
    assert shared == {name: BROKER_KEYS[name].default for name in shared}
