"""The configuration of each topic as it holds here: its own, over the cluster's, over this broker's."""

from __future__ import annotations

from collections.abc import Mapping

from dataplane.core.results import ReplicaOptions
from dataplane.shell.config import BrokerConfig, TopicSettings
from dataplane.shell.hosted import HostedPartition
from springtide.node.cluster_view import ClusterView


class TopicConfigs:
    """See the module. own: this broker's configuration. view: holds the topics' and the cluster's."""

    def __init__(self, own: BrokerConfig, view: ClusterView) -> None:
        self._own = own
        self._view = view
        #: The cluster's settings that were read last, and what they make of our own.
        self._cluster_configs: Mapping[str, str] = {}
        self._config_in_cluster = own

    def topic_settings(self, topic_id: str) -> TopicSettings:
        topic = self._view.topic_by_id(topic_id)
        return self._in_cluster().topic_settings({} if topic is None else topic.configs)

    def replica_options(self, topic_id: str) -> ReplicaOptions:
        return self._in_cluster().replica_options(self.topic_settings(topic_id))

    def _in_cluster(self) -> BrokerConfig:
        """Every partition asks for it, and it changes when the view gets other settings, as a new mapping."""
        configs = self._view.cluster_configs
        if configs is not self._cluster_configs:
            self._cluster_configs = configs
            self._config_in_cluster = self._own.in_cluster(configs)
        return self._config_in_cluster

    def configure(self, hosted: HostedPartition) -> None:
        """Give a partition's log and its checks the settings of its topic."""
        settings = self.topic_settings(hosted.topic_id)
        hosted.log.options = settings.log
        hosted.segment_bytes = settings.log.segment_bytes
        hosted.is_compacted = settings.compaction is not None
        hosted.is_append_time = settings.is_append_time
        hosted.max_message_bytes = settings.max_message_bytes
        hosted.timestamp_before_ms_max = settings.timestamp_before_ms_max
        hosted.timestamp_after_ms_max = settings.timestamp_after_ms_max
