"""Which settings this release knows, what values they take, and which one applies.

Names and meanings are Kafka's, so that tools and habits carry over. A topic holds overrides under the topic's
names, the cluster holds defaults under the broker's names, and a few of those a single broker can override.
An unknown name is refused, because a setting that is silently ignored is a promise silently broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.contract.throttles import FOLLOWER_RATE, LEADER_RATE
from controller.core.events import Refusal, RefusalCode

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Setting(NamedTuple):
    """One setting. kind: "int", "bool" or "choice". default: None when it follows from something else.
    cluster_name: the cluster-wide default's name; None: a topic-only setting."""

    kind: str
    default: str | None
    low: int = 0
    high: int = INT64_MAX
    choices: tuple[str, ...] = ()
    cluster_name: str | None = None
    hint: str | None = None


TOPIC_SETTINGS: dict[str, Setting] = {
    "cleanup.policy": Setting(
        "choice",
        "delete",
        choices=("delete",),
        cluster_name="log.cleanup.policy",
        hint="log compaction is not available in this release",
    ),
    "compression.type": Setting(
        "choice",
        "producer",
        choices=("producer",),
        cluster_name="compression.type",
        hint="batches are stored as the producer compressed them; set compression at the producer",
    ),
    "flush.messages": Setting("int", str(INT64_MAX), low=1, cluster_name="log.flush.interval.messages"),
    "flush.ms": Setting("int", str(INT64_MAX), cluster_name="log.flush.interval.ms"),
    "max.message.bytes": Setting("int", "1048588", high=INT32_MAX, cluster_name="message.max.bytes"),
    "message.timestamp.type": Setting(
        "choice",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        cluster_name="log.message.timestamp.type",
    ),
    "min.insync.replicas": Setting("int", None, low=1, high=INT32_MAX, cluster_name="min.insync.replicas"),
    "retention.bytes": Setting("int", "-1", low=-1, cluster_name="log.retention.bytes"),
    "retention.ms": Setting("int", "604800000", low=-1, cluster_name="log.retention.ms"),
    "segment.bytes": Setting("int", "1073741824", low=14, high=INT32_MAX, cluster_name="log.segment.bytes"),
    "segment.ms": Setting("int", "604800000", low=1, cluster_name="log.roll.ms"),
    "unclean.leader.election.enable": Setting("bool", "false", cluster_name="unclean.leader.election.enable"),
}

#: What a single broker can be told; the cluster holds the default for all. They bound learners only.
BROKER_SETTINGS: dict[str, Setting] = {
    FOLLOWER_RATE: Setting("int", None, low=1, hint="bytes per second; unset it to lift the throttle"),
    LEADER_RATE: Setting("int", None, low=1, hint="bytes per second; unset it to lift the throttle"),
}

#: Ours, not Kafka's: writes to the cluster take a reason and an If-Match, plans a second person's approval.
CLUSTER_PROTECTED = "cluster.protected"

CLUSTER_SETTINGS: dict[str, Setting] = {
    **{s.cluster_name: s for s in TOPIC_SETTINGS.values() if s.cluster_name is not None},
    **BROKER_SETTINGS,
    "auto.leader.rebalance.enable": Setting("bool", "true"),
    CLUSTER_PROTECTED: Setting("bool", "false"),
    "default.replication.factor": Setting("int", "3", low=1, high=32_767),
    "num.partitions": Setting("int", "1", low=1, high=INT32_MAX),
    "replica.lag.time.max.ms": Setting("int", "30000", low=1),
}

_BOOLS = ("true", "false")


def check_configs(
    configs: Mapping[str, str], settings: Mapping[str, Setting] = TOPIC_SETTINGS
) -> Refusal | None:
    """The first setting, by name, that is unknown or has a bad value."""
    for name in sorted(configs):
        setting = settings.get(name)
        if setting is None:
            return Refusal(
                code=RefusalCode.UNKNOWN_CONFIG,
                field=f"configs.{name[:100]}",
                detail=f"unknown setting {name[:100]!r}",
                hint=f"known: {', '.join(sorted(settings))}",
            )
        problem = check_value(setting, configs[name])
        if problem is not None:
            return Refusal(
                code=RefusalCode.INVALID_CONFIG,
                field=f"configs.{name}",
                detail=f"{name} {problem}",
                hint=setting.hint,
            )
    return None


def check_value(setting: Setting, value: str) -> str | None:
    """Return what is wrong with a value, in words that follow the setting's name; None if it is valid."""
    shown = repr(value[:40])
    match setting.kind:
        case "int":
            digits = value[1:] if value.startswith("-") else value
            if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
                return f"must be an integer, not {shown}"
            if not setting.low <= int(value) <= setting.high:
                return f"must lie between {setting.low} and {setting.high}, not {value}"
        case "bool":
            if value not in _BOOLS:
                return f"must be true or false, not {shown}"
        case _:
            if value not in setting.choices:
                return f"must be {' or '.join(setting.choices)}, not {shown}"
    return None


def effective(name: str, topic: Mapping[str, str], cluster: Mapping[str, str]) -> str | None:
    """The value of a topic's setting: its override, the cluster's default, or ours."""
    setting = TOPIC_SETTINGS[name]
    if name in topic:
        return topic[name]
    if setting.cluster_name is not None and setting.cluster_name in cluster:
        return cluster[setting.cluster_name]
    return setting.default


def effective_min_insync_replicas(
    topic: Mapping[str, str], cluster: Mapping[str, str], *, replication_factor: int
) -> int:
    """Never above the replication factor. Unless someone set it: a majority, so that an acknowledged record
    survives any one failure and two disjoint halves can't both acknowledge."""
    configured = effective("min.insync.replicas", topic, cluster)
    if configured is None:
        return replication_factor // 2 + 1
    return min(int(configured), replication_factor)


def is_unclean_election_allowed(topic: Mapping[str, str], cluster: Mapping[str, str]) -> bool:
    return effective("unclean.leader.election.enable", topic, cluster) == "true"


def is_leader_rebalance_enabled(cluster: Mapping[str, str]) -> bool:
    return cluster.get("auto.leader.rebalance.enable", "true") == "true"


def is_cluster_protected(cluster: Mapping[str, str]) -> bool:
    return cluster.get(CLUSTER_PROTECTED, "false") == "true"
