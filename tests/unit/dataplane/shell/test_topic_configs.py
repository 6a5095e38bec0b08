"""The configuration of a topic: its own, over the cluster's, over the broker's."""

from __future__ import annotations

from dataplane.shell.config import BrokerConfig
from dataplane.shell.topic_configs import TopicConfigs
from springtide.contract.partition_state import TopicState
from springtide.contract.updates import UpdateBatch
from springtide.node.cluster_view import ClusterView

CHANGED, PLAIN = "A" * 22, "B" * 22


def topic(topic_id: str, **configs: str) -> TopicState:
    return TopicState(
        topic_id=topic_id, topic=topic_id, partitions=1, replication_factor=1, configs=dict(configs)
    )


def test_a_topic_s_own_setting_wins_over_the_cluster_s_and_that_over_the_broker_s() -> None:
    view = ClusterView()
    configs = TopicConfigs(
        BrokerConfig.parse([("log.retention.ms", "1000"), ("log.retention.bytes", "9")]), view
    )
    own = {"retention.ms": "3000"}
    view.apply(UpdateBatch(topics=(topic(CHANGED, **own), topic(PLAIN))), now_ms=0)
    assert [configs.topic_settings(each).retention_ms for each in (CHANGED, PLAIN)] == [3000, 1000]
    of_cluster = {"log.retention.ms": "2000", "replica.lag.time.max.ms": "77"}
    view.apply(UpdateBatch(cluster_configs=of_cluster), now_ms=0)
    assert [configs.topic_settings(each).retention_ms for each in (CHANGED, PLAIN)] == [3000, 2000]
    assert configs.topic_settings(PLAIN).retention_bytes == 9
    assert configs.replica_options(PLAIN).lag_ms_max == 77


def test_a_topic_that_is_not_known_yet_has_the_settings_of_the_broker() -> None:
    configs = TopicConfigs(BrokerConfig.parse([("log.retention.ms", "1000")]), ClusterView())
    assert configs.topic_settings(PLAIN).retention_ms == 1000
