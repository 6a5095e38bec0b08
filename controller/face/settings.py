"""Settings of clusters, topics and brokers: which there are, and what is in force."""

from __future__ import annotations

from controller.core.configs import (
    checked_configs,
    effective,
    effective_min_insync_replicas,
    honoured_names,
    is_cluster_protected,
    is_leader_rebalance_enabled,
)
from controller.core.durations import in_words
from controller.core.minimum import MINIMUM
from controller.core.options import ControllerOptions
from controller.core.settings_table import (
    AUTHORIZATION_SETTINGS,
    BROKER_SETTINGS,
    CLUSTER_PROTECTED,
    CLUSTER_SETTINGS,
    GROUP_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
)
