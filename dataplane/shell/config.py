"""A broker's configuration, and what it makes of the cluster's and a topic's.

Topic overrides come with the metadata stream under Kafka's topic-level names; they win over the broker's
defaults here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from dataplane.core.compaction.rounds import CompactionOptions
from dataplane.core.results import ReplicaOptions
from dataplane.storage.log_settings import LogOptions
from springtide.node.config import (
    LONG_MAX,
    NODE_HINTS,
    NODE_KEYS,
    ConfigKey,
    NodeConfig,
    between,
    one_of,
    positive,
)

HOUR_MS = 60 * 60 * 1000


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be between 0 and 1")
    return value


def _policies(text: str) -> str:
    return one_of("compact", "compact,delete", "delete")(
        ",".join(sorted({policy.strip() for policy in text.split(",")}))
    )


_not_negative = between(0, LONG_MAX)
_or_unlimited = between(-1, LONG_MAX)

OBSOLETE_VALIDATION = "log.message.validation"
"""Of releases whose leaders checked each record only if asked to. It is accepted, and does nothing."""

BROKER_KEYS: dict[str, ConfigKey] = {
    **NODE_KEYS,
    "fetch.max.bytes": ConfigKey("57671680", between(1024, 2**31 - 1), "largest fetch answer"),
    "max.incremental.fetch.session.cache.slots": ConfigKey("1000", positive, "fetch sessions kept"),
    "message.max.bytes": ConfigKey("1048588", between(0, 2**31 - 1), "largest record batch"),
    "log.message.timestamp.type": ConfigKey(
        "CreateTime", one_of("CreateTime", "LogAppendTime"), "whose timestamps are kept"
    ),
    "log.message.timestamp.before.max.ms": ConfigKey(
        str(LONG_MAX), _not_negative, "how old a record may claim to be"
    ),
    "log.message.timestamp.after.max.ms": ConfigKey(
        str(HOUR_MS), _not_negative, "how far ahead of the broker's clock a record may be dated"
    ),
    OBSOLETE_VALIDATION: ConfigKey(
        "records",
        one_of("batch", "records"),
        "without effect since leaders check each record of every batch; it may be left out",
    ),
    "log.dir.reserve.bytes": ConfigKey(
        "-1",
        _or_unlimited,
        "with fewer bytes free in the data directory no records are taken; 0: off; -1: 1 % of the file "
        "system, at least 256 MiB, at most 1 GiB, but never more than 5 % of it (ours, not Kafka's)",
    ),
    "log.segment.bytes": ConfigKey("1073741824", between(1024, 2**31 - 1), "size of a segment"),
    "log.roll.ms": ConfigKey(str(168 * HOUR_MS), positive, "age at which a segment is closed"),
    "log.retention.ms": ConfigKey(
        str(168 * HOUR_MS), _or_unlimited, "how long records are kept; -1: for ever"
    ),
    "log.retention.bytes": ConfigKey("-1", _or_unlimited, "bytes kept per partition; -1: all"),
    "log.cleanup.policy": ConfigKey(
        "delete", _policies, "what becomes of old records: delete, compact, or both: compact,delete"
    ),
    "log.cleaner.backoff.ms": ConfigKey(
        "15000", positive, "compacted topics: how often logs are looked at to compact them"
    ),
    "log.cleaner.min.cleanable.ratio": ConfigKey(
        "0.5", _ratio, "compacted topics: share of a log that is dirty before it is compacted"
    ),
    "log.cleaner.min.compaction.lag.ms": ConfigKey(
        "0", _not_negative, "compacted topics: how old a record is before it is compacted"
    ),
    "log.cleaner.max.compaction.lag.ms": ConfigKey(
        str(LONG_MAX), positive, "compacted topics: how old a record gets before it is compacted"
    ),
    "log.cleaner.delete.retention.ms": ConfigKey(
        "86400000", _not_negative, "compacted topics: how long a deletion is kept for its readers"
    ),
    "log.retention.check.interval.ms": ConfigKey("300000", positive, "how often retention runs"),
    "log.flush.interval.messages": ConfigKey(
        str(LONG_MAX), positive, "records between fsyncs of a partition"
    ),
    "log.flush.interval.ms": ConfigKey(str(LONG_MAX), positive, "longest time between fsyncs of a partition"),
    "log.flush.scheduler.interval.ms": ConfigKey("1000", positive, "how often flush limits are looked at"),
    "log.flush.offset.checkpoint.interval.ms": ConfigKey(
        "60000", positive, "how often recovery points are written"
    ),
    "log.scrub.bytes.per.second": ConfigKey(
        "2097152",
        _not_negative,
        "how fast stored bytes are read again to find what has rotted; 0: never (ours, not Kafka's)",
    ),
    "log.scrub.interval.ms": ConfigKey(
        str(168 * HOUR_MS),
        positive,
        "how old a reading may be before a log is read again (ours, not Kafka's)",
    ),
    "log.index.interval.bytes": ConfigKey("4096", between(0, 2**31 - 1), "bytes between index entries"),
    "log.index.size.max.bytes": ConfigKey("16777216", between(1024, 2**31 - 1), "largest index"),
    "producer.id.expiration.ms": ConfigKey("86400000", positive, "how long an idle producer is remembered"),
    "producer.id.expiration.check.interval.ms": ConfigKey(
        "600000", positive, "how often idle producers are looked for"
    ),
    "replica.lag.time.max.ms": ConfigKey("30000", positive, "how long a follower may lag and stay in sync"),
    "replica.fetch.wait.max.ms": ConfigKey("500", positive, "how long a leader holds an empty replica fetch"),
    "replica.fetch.min.bytes": ConfigKey("1", positive, "bytes a leader waits for"),
    "replica.fetch.max.bytes": ConfigKey("1048576", positive, "bytes per partition and replica fetch"),
    "replica.fetch.response.max.bytes": ConfigKey(
        "10485760", between(1024, 2**31 - 1), "bytes per replica fetch"
    ),
    "replica.fetch.backoff.ms": ConfigKey(
        "200", positive, "longest pause after failed replica fetches; the first is 25 ms"
    ),
    "replica.socket.timeout.ms": ConfigKey("30000", positive, "how long a leader may be silent"),
    "replica.high.watermark.checkpoint.interval.ms": ConfigKey(
        "5000", positive, "how often high watermarks are kept"
    ),
}

#: Kafka's topic-level name -> the broker-level default it overrides.
TOPIC_KEYS: dict[str, str] = {
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.type": "log.message.timestamp.type",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.ms": "log.roll.ms",
    "retention.ms": "log.retention.ms",
    "retention.bytes": "log.retention.bytes",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
}

#: What people will try, and what to write instead.
HINTS = {
    **NODE_HINTS,
    **{name: f"that is a topic's key; the broker's default is {key}" for name, key in TOPIC_KEYS.items()},
    **dict.fromkeys(("num.network.threads", "num.io.threads"), "a worker is one loop: use --workers"),
    "broker.id": "use --broker-id",
    "node.id": "use --broker-id",
    "log.dirs": "use --data-dir",
    "log.dir": "use --data-dir",
    "log.retention.hours": "use log.retention.ms",
    "log.retention.minutes": "use log.retention.ms",
    "log.roll.hours": "use log.roll.ms",
    "min.insync.replicas": "the controller decides it, per topic or per cluster",
    "unclean.leader.election.enable": "the controller decides it, per topic or per cluster",
    "default.replication.factor": "the controller decides it, per cluster",
    "num.partitions": "the controller decides it, per cluster",
    "auto.create.topics.enable": "the controller decides it, per cluster",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """The settings of a topic: its overrides, and the broker's defaults for the rest.

    retention_ms, retention_bytes: -1, unlimited, where the policy is to compact only. compaction: None unless
    the policy has compact.
    """

    max_message_bytes: int
    is_append_time: bool
    timestamp_before_ms_max: int | None
    timestamp_after_ms_max: int | None
    retention_ms: int
    retention_bytes: int
    is_compact_only: bool
    compaction: CompactionOptions | None
    log: LogOptions


@dataclass(frozen=True, slots=True)
class BrokerConfig(NodeConfig):
    """The configuration of a broker; the properties are values that code reads often."""

    KEYS = BROKER_KEYS
    HINTS = HINTS
    PROGRAM = "dataplane"

    @property
    def fetch_max_bytes(self) -> int:
        return self.number("fetch.max.bytes")

    def in_cluster(self, configs: Mapping[str, str]) -> BrokerConfig:
        """Return the configuration with the cluster's settings over this broker's own. Settings that are not
        a broker's or can't be read, which the controller should have refused, count as absent."""
        values = dict(self.values)
        for name, text in configs.items():
            key = BROKER_KEYS.get(name)
            if key is not None:
                with contextlib.suppress(ValueError):
                    values[name] = key.parse(text)
        return BrokerConfig(values)

    def topic_settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        """Overrides that can't be read, which the controller should have refused, count as absent."""

        def value(key: str) -> object:
            broker_key = TOPIC_KEYS[key]
            if key in overrides:
                with contextlib.suppress(ValueError):
                    return BROKER_KEYS[broker_key].parse(overrides[key])
            return self._value(broker_key)

        def number(key: str) -> int:
            found = value(key)
            assert isinstance(found, int)
            return found

        def ratio(key: str) -> float:
            found = value(key)
            assert isinstance(found, float)
            return found

        kind = overrides.get("message.timestamp.type", self.text("log.message.timestamp.type"))
        policy = overrides.get("cleanup.policy", self.text("log.cleanup.policy"))
        policies = [each.strip() for each in policy.split(",")]
        is_compacted = "compact" in policies
        is_compact_only = is_compacted and "delete" not in policies
        return TopicSettings(
            max_message_bytes=number("max.message.bytes"),
            is_append_time=kind == "LogAppendTime",
            timestamp_before_ms_max=_none_if_unlimited(number("message.timestamp.before.max.ms")),
            timestamp_after_ms_max=_none_if_unlimited(number("message.timestamp.after.max.ms")),
            retention_ms=-1 if is_compact_only else number("retention.ms"),
            retention_bytes=-1 if is_compact_only else number("retention.bytes"),
            is_compact_only=is_compact_only,
            compaction=CompactionOptions(
                min_cleanable_dirty_ratio=ratio("min.cleanable.dirty.ratio"),
                min_compaction_lag_ms=number("min.compaction.lag.ms"),
                max_compaction_lag_ms=number("max.compaction.lag.ms"),
                delete_retention_ms=number("delete.retention.ms"),
            )
            if is_compacted
            else None,
            log=LogOptions(
                segment_bytes=number("segment.bytes"),
                segment_ms=number("segment.ms"),
                index_interval_bytes=number("index.interval.bytes"),
                index_bytes_max=number("segment.index.bytes"),
                flush_messages=_none_if_unlimited(number("flush.messages")),
                flush_ms=_none_if_unlimited(number("flush.ms")),
                producer_expiration_ms=self.number("producer.id.expiration.ms"),
            ),
        )

    def replica_options(self, settings: TopicSettings) -> ReplicaOptions:
        return ReplicaOptions(
            lag_ms_max=self.number("replica.lag.time.max.ms"),
            is_append_time=settings.is_append_time,
            fetch_bytes_max=self.number("replica.fetch.max.bytes"),
            fetch_backoff_ms=self.number("replica.fetch.backoff.ms"),
            compaction=settings.compaction,
            is_compact_only=settings.is_compact_only,
        )


def _none_if_unlimited(value: int) -> int | None:
    return None if value == LONG_MAX else value
