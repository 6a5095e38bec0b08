"""A broker's configuration under Kafka's names: only keys that do something, everything else refused.

A key that is silently ignored is worse than an error (Redpanda #3416), so an unknown one is refused with
the nearest that exists. Topic overrides come with the metadata stream under Kafka's topic-level names;
they win over the broker's defaults here.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dataplane.core.compaction.rounds import CompactionOptions
from dataplane.core.results import ReplicaOptions
from dataplane.storage.log_settings import LogOptions

LONG_MAX = 2**63 - 1
HOUR_MS = 60 * 60 * 1000
CONFIG_FILE_BYTES_MAX = 1024 * 1024


class BrokerConfigError(Exception):
    """The configuration can't be used; the message says which key and what to do."""


class _Key(NamedTuple):
    default: str
    parse: Callable[[str], object]
    text: str


def _between(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be between {low} and {high}")
        return value

    return parse


def _ratio(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be between 0 and 1")
    return value


def _one_of(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


_positive = _between(1, LONG_MAX)
_not_negative = _between(0, LONG_MAX)
_or_unlimited = _between(-1, LONG_MAX)

BROKER_KEYS: dict[str, _Key] = {
    "connections.max.idle.ms": _Key("600000", _positive, "close connections idle for so long"),
    "max.connections": _Key("10000", _positive, "connections in all"),
    "max.connections.per.ip": _Key("10000", _positive, "connections per client address"),
    "socket.request.max.bytes": _Key("104857600", _between(1024, 2**31 - 1), "largest request"),
    "queued.max.request.bytes": _Key("536870912", _positive, "bytes that all connections may hold"),
    "fetch.max.bytes": _Key("57671680", _between(1024, 2**31 - 1), "largest fetch answer"),
    "max.incremental.fetch.session.cache.slots": _Key("1000", _positive, "fetch sessions kept"),
    "message.max.bytes": _Key("1048588", _between(0, 2**31 - 1), "largest record batch"),
    "log.message.timestamp.type": _Key(
        "CreateTime", _one_of("CreateTime", "LogAppendTime"), "whose timestamps are kept"
    ),
    "log.message.timestamp.before.max.ms": _Key(
        str(LONG_MAX), _not_negative, "how old a record may claim to be"
    ),
    "log.message.timestamp.after.max.ms": _Key(
        str(LONG_MAX), _not_negative, "how new a record may claim to be"
    ),
    "log.message.validation": _Key(
        "batch",
        _one_of("batch", "records"),
        "what a leader checks of a produced batch: its header and CRC, or each record in it, opened, "
        "which costs about 2 us a record (ours, not Kafka's)",
    ),
    "log.segment.bytes": _Key("1073741824", _between(1024, 2**31 - 1), "size of a segment"),
    "log.roll.ms": _Key(str(168 * HOUR_MS), _positive, "age at which a segment is closed"),
    "log.retention.ms": _Key(str(168 * HOUR_MS), _or_unlimited, "how long records are kept; -1: for ever"),
    "log.retention.bytes": _Key("-1", _or_unlimited, "bytes kept per partition; -1: all"),
    "log.cleanup.policy": _Key(
        "delete",
        _one_of("delete"),
        "what becomes of old records; compaction is not available in this release",
    ),
    "log.cleaner.min.cleanable.ratio": _Key(
        "0.5", _ratio, "compacted topics: share of a log that is dirty before it is compacted"
    ),
    "log.cleaner.min.compaction.lag.ms": _Key(
        "0", _not_negative, "compacted topics: how old a record is before it is compacted"
    ),
    "log.cleaner.max.compaction.lag.ms": _Key(
        str(LONG_MAX), _positive, "compacted topics: how old a record gets before it is compacted"
    ),
    "log.cleaner.delete.retention.ms": _Key(
        "86400000", _not_negative, "compacted topics: how long a deletion is kept for its readers"
    ),
    "log.retention.check.interval.ms": _Key("300000", _positive, "how often retention runs"),
    "log.flush.interval.messages": _Key(str(LONG_MAX), _positive, "records between fsyncs of a partition"),
    "log.flush.interval.ms": _Key(str(LONG_MAX), _positive, "longest time between fsyncs of a partition"),
    "log.flush.scheduler.interval.ms": _Key("1000", _positive, "how often flush limits are looked at"),
    "log.flush.offset.checkpoint.interval.ms": _Key(
        "60000", _positive, "how often recovery points are written"
    ),
    "log.scrub.bytes.per.second": _Key(
        "2097152",
        _not_negative,
        "how fast stored bytes are read again to find what has rotted; 0: never (ours, not Kafka's)",
    ),
    "log.scrub.interval.ms": _Key(
        str(168 * HOUR_MS),
        _positive,
        "how old a reading may be before a log is read again (ours, not Kafka's)",
    ),
    "log.index.interval.bytes": _Key("4096", _between(0, 2**31 - 1), "bytes between index entries"),
    "log.index.size.max.bytes": _Key("16777216", _between(1024, 2**31 - 1), "largest index"),
    "producer.id.expiration.ms": _Key("86400000", _positive, "how long an idle producer is remembered"),
    "producer.id.expiration.check.interval.ms": _Key(
        "600000", _positive, "how often idle producers are looked for"
    ),
    "replica.lag.time.max.ms": _Key("30000", _positive, "how long a follower may lag and stay in sync"),
    "replica.fetch.wait.max.ms": _Key("500", _positive, "how long a leader holds an empty replica fetch"),
    "replica.fetch.min.bytes": _Key("1", _positive, "bytes a leader waits for"),
    "replica.fetch.max.bytes": _Key("1048576", _positive, "bytes per partition and replica fetch"),
    "replica.fetch.response.max.bytes": _Key(
        "10485760", _between(1024, 2**31 - 1), "bytes per replica fetch"
    ),
    "replica.fetch.backoff.ms": _Key("200", _positive, "pause after a failed replica fetch"),
    "replica.socket.timeout.ms": _Key("30000", _positive, "how long a leader may be silent"),
    "replica.high.watermark.checkpoint.interval.ms": _Key(
        "5000", _positive, "how often high watermarks are kept"
    ),
    "controlled.shutdown.timeout.ms": _Key(
        "30000", _positive, "how long SIGTERM waits for leaderships to move"
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
    "broker.id": "use --broker-id",
    "node.id": "use --broker-id",
    "broker.rack": "use --rack",
    "log.dirs": "use --data-dir",
    "log.dir": "use --data-dir",
    "listeners": "use --listen",
    "advertised.listeners": "use --advertise",
    "zookeeper.connect": "brokers talk to controllers only: use --controllers",
    "log.retention.hours": "use log.retention.ms",
    "log.retention.minutes": "use log.retention.ms",
    "log.roll.hours": "use log.roll.ms",
    "min.insync.replicas": "the controller decides it, per topic or per cluster",
    "unclean.leader.election.enable": "the controller decides it, per topic or per cluster",
    "default.replication.factor": "the controller decides it, per cluster",
    "num.partitions": "the controller decides it, per cluster",
    "auto.create.topics.enable": "topics are created with POST /topics only",
    "num.network.threads": "a broker is one loop; run a process per core",
    "num.io.threads": "a broker is one loop; run a process per core",
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
class BrokerConfig:
    """Parsed values by Kafka's names; the properties are those that code asks for often."""

    values: Mapping[str, object] = field(default_factory=dict)

    def _value(self, key: str) -> object:
        value = self.values.get(key)
        return BROKER_KEYS[key].parse(BROKER_KEYS[key].default) if value is None else value

    def number(self, key: str) -> int:
        value = self._value(key)
        assert isinstance(value, int)
        return value

    def text(self, key: str) -> str:
        return str(self._value(key))

    @property
    def validates_records(self) -> bool:
        return self.text("log.message.validation") == "records"

    @property
    def fetch_max_bytes(self) -> int:
        return self.number("fetch.max.bytes")

    def in_cluster(self, configs: Mapping[str, str]) -> BrokerConfig:
        """With the cluster's settings over this broker's own. Those that are not a broker's or can't be read,
        which the controller should have refused, count as absent."""
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
        policies = overrides.get("cleanup.policy", self.text("log.cleanup.policy")).split(",")
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


def parse_config(pairs: Iterable[tuple[str, str]]) -> BrokerConfig:
    """Later pairs win. Raises BrokerConfigError."""
    values: dict[str, object] = {}
    for name, text in pairs:
        key = BROKER_KEYS.get(name)
        if key is None:
            raise BrokerConfigError(f"unknown configuration key {name!r}: {_hint(name)}")
        try:
            values[name] = key.parse(text.strip())
        except ValueError as error:
            raise BrokerConfigError(f"{name}={text}: {error} ({key.text})") from error
    return BrokerConfig(values)


def _hint(name: str) -> str:
    if name in HINTS:
        return HINTS[name]
    if name in TOPIC_KEYS:
        return f"that is a topic's key; the broker's default is {TOPIC_KEYS[name]}"
    near = difflib.get_close_matches(name, BROKER_KEYS, n=1)
    return f"did you mean {near[0]!r}?" if near else "`dataplane serve --help` lists the keys"


def split_pair(text: str) -> tuple[str, str]:
    """KEY=VALUE. Raises BrokerConfigError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise BrokerConfigError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value.strip()


def read_properties(text: str) -> list[tuple[str, str]]:
    """Return the pairs of a server.properties: `key=value` lines; `#` and `!` begin comments. Raises
    BrokerConfigError."""
    pairs = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        try:
            pairs.append(split_pair(stripped))
        except BrokerConfigError as error:
            raise BrokerConfigError(f"line {number}: {error}") from error
    return pairs
