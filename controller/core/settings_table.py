"""Every setting that Kafka 4's tools set on topics, brokers and clusters, and what becomes of it here.

A setting is honoured, kept without effect, taken at its default only, or refused with the reason. Scripts
that move topics copy all of their settings, so those that lose nothing by standing still are kept, and each
description says that they change nothing: a setting that is silently ignored is a promise silently broken.
What would lose something, as remote storage does, is taken at its default only. Keys that Kafka reads only
when a broker starts are here if tools commonly ask for them. configs.py checks requests against these tables,
and the documents' configuration reference is made from them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from springtide.contract.administration import FIRST_USE
from springtide.contract.security import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
)
from springtide.contract.throttles import FOLLOWER_RATE, LEADER_RATE

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Standing(Enum):
    """The treatment of a setting's value."""

    HONOURED = "honoured"
    KEPT = "kept, changes nothing"
    AT_DEFAULT = "taken at its default only"
    REFUSED = "refused"


class Setting(NamedTuple):
    """One setting. kind: "int", "bool", "double", "choice", "policies" (some of the choices, in any order),
    "text", "principals" or "replicas" (throttled replicas). default: None when it follows from another.
    cluster_name: the cluster-wide default's name; None: a topic-only setting. hint: unless it is honoured,
    what it would do and why it does not."""

    kind: str
    default: str | None
    low: int = 0
    high: int = INT64_MAX
    choices: tuple[str, ...] = ()
    cluster_name: str | None = None
    hint: str | None = None
    standing: Standing = Standing.HONOURED

    @property
    def is_honoured(self) -> bool:
        return self.standing is Standing.HONOURED

    @property
    def is_kept(self) -> bool:
        return self.standing is Standing.KEPT

    @property
    def is_refused(self) -> bool:
        return self.standing is Standing.REFUSED

    @property
    def is_read_only(self) -> bool:
        return not (self.is_honoured or self.is_kept)

    @property
    def note(self) -> str | None:
        """Return what a description says of a value that changes nothing; None if it is acted upon."""
        return None if self.is_honoured else f"{self.standing.value}: {self.hint}"


def _only(kind: str, default: str, hint: str, cluster_name: str | None = None) -> Setting:
    return Setting(kind, default, cluster_name=cluster_name, hint=hint, standing=Standing.AT_DEFAULT)


def _kept(
    kind: str,
    default: str,
    hint: str,
    cluster_name: str | None = None,
    *,
    low: int = 0,
    high: int = INT64_MAX,
) -> Setting:
    standing = Standing.KEPT
    return Setting(kind, default, low=low, high=high, cluster_name=cluster_name, hint=hint, standing=standing)


def _refused(hint: str) -> Setting:
    return Setting("text", None, hint=hint, standing=Standing.REFUSED)


def _all_refused(hint: str, names: str) -> dict[str, Setting]:
    return dict.fromkeys(names.split(), _refused(hint))


_COMPACTED = "it concerns topics whose cleanup.policy has compact, and no other"
_COMPACTION = "a broker compacts one log at a time, at half of a processor, with 500,000 keys in memory"
_STORED = "batches are stored as the producer compressed them; set compression at the producer"
_TIERED = "it concerns tiered storage, which does not exist here: brokers keep all records on their disks"
_GROUPS = "it concerns share groups and groups of streams, which do not exist in this release"
_ASSIGNS = "how coordinators compute assignments can't be chosen"
_AT_COORDINATORS_START = "a coordinator reads it when it starts: `coordinator serve --config`"
_PINNED = "coordinator topics have fixed settings: 50 partitions, three replicas"
_LISTS = "a throttle bounds every replica that is being added, and no other"
_LOOP = "it sizes a pool of threads; each worker of a broker is one event loop"
_UNBOUNDED = "brokers do not bound this"
_RATE = "bytes per second; unset it to lift the throttle"
_REMOVED = "Kafka 4 has removed it; records are stored in one format, that of magic 2"
_SECURITY = "TLS is set up by PEM files, and of SASL there is no Kerberos: see `dataplane serve --help`"
_AT_START = "a broker reads it when it starts: `dataplane serve --config`"
_OPTION = "it is an option of the broker's process: see `dataplane serve --help`"
_IN_MS = "give it in milliseconds: log.{}.ms"
_MOVES = "it would slow moves between a broker's disks; a broker has one data directory, so there are none"

#: Ours, not Kafka's: the topic is not deleted, by any way, until it is unset or false.
DELETION_PROTECTED = "deletion.protected"
#: Ours, too: how long the records and settings of a deleted topic are kept, to be restored; 0: not at all.
DELETED_RETENTION = "deleted.topic.retention.ms"

TOPIC_SETTINGS: dict[str, Setting] = {
    "cleanup.policy": Setting(
        "policies",
        "delete",
        choices=("compact", "compact,delete", "delete"),
        cluster_name="log.cleanup.policy",
    ),
    "compression.gzip.level": _kept("int", "-1", _STORED, "compression.gzip.level", low=-1, high=9),
    "compression.lz4.level": _kept("int", "9", _STORED, "compression.lz4.level", low=1, high=17),
    "compression.type": Setting(
        "choice",
        "producer",
        choices=("gzip", "lz4", "producer", "snappy", "uncompressed", "zstd"),
        cluster_name="compression.type",
        hint=_STORED,
        standing=Standing.KEPT,
    ),
    "compression.zstd.level": _kept("int", "3", _STORED, "compression.zstd.level", low=-131_072, high=22),
    "delete.retention.ms": Setting(
        "int", "86400000", cluster_name="log.cleaner.delete.retention.ms", hint=_COMPACTED
    ),
    DELETED_RETENTION: Setting("int", "0", cluster_name=DELETED_RETENTION),
    DELETION_PROTECTED: Setting("bool", "false"),
    "errors.deadletterqueue.group.enable": _only("bool", "false", _GROUPS),
    "file.delete.delay.ms": _kept(
        "int",
        "60000",
        "deleted files are unlinked at once; there is no delay to set",
        "log.segment.delete.delay.ms",
    ),
    "flush.messages": Setting("int", str(INT64_MAX), low=1, cluster_name="log.flush.interval.messages"),
    "flush.ms": Setting("int", str(INT64_MAX), cluster_name="log.flush.interval.ms"),
    "follower.replication.throttled.replicas": _kept("replicas", "", _LISTS),
    "index.interval.bytes": Setting("int", "4096", high=INT32_MAX, cluster_name="log.index.interval.bytes"),
    "internal.segment.bytes": _refused("it is for Kafka's own tests; use segment.bytes"),
    "leader.replication.throttled.replicas": _kept("replicas", "", _LISTS),
    "local.retention.bytes": _kept("int", "-2", _TIERED, "log.local.retention.bytes", low=-2),
    "local.retention.ms": _kept("int", "-2", _TIERED, "log.local.retention.ms", low=-2),
    "max.compaction.lag.ms": Setting(
        "int",
        str(INT64_MAX),
        low=1,
        cluster_name="log.cleaner.max.compaction.lag.ms",
        hint=_COMPACTED,
    ),
    "max.decompressed.message.bytes": _kept(
        "int",
        str(INT32_MAX - 8),
        "a batch may unfold to 64 times max.message.bytes, and no record has a bound of its own",
        "max.decompressed.message.bytes",
        low=1,
        high=INT32_MAX,
    ),
    "max.message.bytes": Setting("int", "1048588", high=INT32_MAX, cluster_name="message.max.bytes"),
    "message.downconversion.enable": _refused(_REMOVED),
    "message.format.version": _refused(_REMOVED),
    "message.timestamp.after.max.ms": Setting(
        "int",
        "3600000",
        cluster_name="log.message.timestamp.after.max.ms",
        hint="a record dated far ahead would keep all before it from expiring",
    ),
    "message.timestamp.before.max.ms": Setting(
        "int", str(INT64_MAX), cluster_name="log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.difference.max.ms": _refused(
        "Kafka 4 has removed it; use message.timestamp.before.max.ms and message.timestamp.after.max.ms"
    ),
    "message.timestamp.type": Setting(
        "choice",
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        cluster_name="log.message.timestamp.type",
    ),
    "min.cleanable.dirty.ratio": Setting(
        "double", "0.5", high=1, cluster_name="log.cleaner.min.cleanable.ratio", hint=_COMPACTED
    ),
    "min.compaction.lag.ms": Setting(
        "int", "0", cluster_name="log.cleaner.min.compaction.lag.ms", hint=_COMPACTED
    ),
    "min.insync.replicas": Setting("int", None, low=1, high=INT32_MAX, cluster_name="min.insync.replicas"),
    "preallocate": _kept(
        "bool", "false", "segments grow as they are written; none is laid out beforehand", "log.preallocate"
    ),
    "remote.copy.lag.bytes": _kept("int", "-1", _TIERED, "log.remote.copy.lag.bytes", low=-1),
    "remote.copy.lag.ms": _kept("int", "0", _TIERED, "log.remote.copy.lag.ms", low=-1),
    "remote.log.copy.disable": _kept("bool", "false", _TIERED),
    "remote.log.delete.on.disable": _kept("bool", "false", _TIERED),
    "remote.storage.enable": _only("bool", "false", _TIERED),
    "retention.bytes": Setting("int", "-1", low=-1, cluster_name="log.retention.bytes"),
    "retention.ms": Setting("int", "604800000", low=-1, cluster_name="log.retention.ms"),
    # Below 1024 bytes brokers would not follow the next two (dataplane/shell/config.py).
    "segment.bytes": Setting("int", "1073741824", low=1024, high=INT32_MAX, cluster_name="log.segment.bytes"),
    "segment.index.bytes": Setting(
        "int",
        "16777216",
        low=1024,
        high=INT32_MAX,
        cluster_name="log.index.size.max.bytes",
        hint="Kafka's default is 10485760",
    ),
    "segment.jitter.ms": _kept(
        "int",
        "0",
        "it would spread when segments are closed; they are closed at segment.ms",
        "log.roll.jitter.ms",
    ),
    "segment.ms": Setting("int", "604800000", low=1, cluster_name="log.roll.ms"),
    "unclean.leader.election.enable": Setting("bool", "false", cluster_name="unclean.leader.election.enable"),
}

#: What is a single broker's own; the cluster holds the default for all. The rates bound learners only.
_BROKERS_OWN: dict[str, Setting] = {
    FOLLOWER_RATE: Setting("int", None, low=1, hint=_RATE),
    LEADER_RATE: Setting("int", None, low=1, hint=_RATE),
    "replica.alter.log.dirs.io.max.bytes.per.second": _only("int", str(INT64_MAX), _MOVES),
}

#: Ours, not Kafka's: writes to the cluster take a reason and an If-Match, plans a second person's approval.
CLUSTER_PROTECTED = "cluster.protected"
#: Ours, too: what plans leave free of a broker's disk, in hundredths of it.
DISK_RESERVE = "disk.reserve.percent"

#: What clients may do depends on these. In Kafka they are read when a broker starts.
AUTHORIZATION_SETTINGS = {
    AUTHORIZER: Setting(
        "choice",
        "",
        choices=("", STANDARD_AUTHORIZER),
        hint="ACLs decide; empty: each client may do everything. It needs TLS between brokers",
    ),
    SUPER_USERS: Setting("principals", "", hint="User:NAME;User:NAME: they may do everything"),
    ALLOW_EVERYONE: Setting("bool", "false", hint="what has no ACL is open to each client"),
}

CLUSTER_SETTINGS: dict[str, Setting] = {
    **AUTHORIZATION_SETTINGS,
    **{s.cluster_name: s for s in TOPIC_SETTINGS.values() if s.cluster_name is not None},
    **_BROKERS_OWN,
    FIRST_USE: Setting("bool", "false", hint="Kafka's default is true"),
    "auto.leader.rebalance.enable": Setting("bool", "true"),
    "background.threads": _only("int", "10", _LOOP),
    CLUSTER_PROTECTED: Setting("bool", "false"),
    "config.providers": _only("text", "", "values are stored as they are given, without references"),
    "controlled.shutdown.enable": _only(
        "bool", "true", "brokers hand their leaderships over before they end"
    ),
    "cordoned.log.dirs": _only("text", "", "a broker has one data directory; cordon the broker, over REST"),
    "default.replication.factor": Setting("int", "3", low=1, high=32_767),
    "delete.topic.enable": _only("bool", "true", "topics can be deleted"),
    DISK_RESERVE: Setting("int", "5", low=0, high=90),
    "errors.deadletterqueue.auto.create.topics.enable": _only("bool", "false", _GROUPS),
    "errors.deadletterqueue.topic.name.prefix": _only("text", "dlq.", _GROUPS),
    "follower.fetch.last.tiered.offset.enable": _only("bool", "false", _TIERED),
    "group.consumer.assignment.interval.ms": _only("int", "1000", _AT_COORDINATORS_START),
    "group.consumer.assignor.offload.enable": _only("bool", "true", _ASSIGNS),
    "group.coordinator.cached.buffer.max.bytes": _only("int", "1048588", "coordinators keep no such buffer"),
    "group.share.assignment.interval.ms": _only("int", "1000", _GROUPS),
    "group.share.assignor.offload.enable": _only("bool", "true", _GROUPS),
    "group.streams.assignment.interval.ms": _only("int", "1000", _GROUPS),
    "group.streams.assignor.offload.enable": _only("bool", "true", _GROUPS),
    "log.cleaner.dedupe.buffer.size": _only("int", "134217728", _COMPACTION),
    "log.cleaner.io.buffer.load.factor": _only("double", "0.9", _COMPACTION),
    "log.cleaner.io.buffer.size": _only("int", "524288", _COMPACTION),
    "log.cleaner.io.max.bytes.per.second": _only("double", "1.7976931348623157E308", _COMPACTION),
    "log.cleaner.threads": _only("int", "1", _COMPACTION),
    "max.connection.creation.rate": _only("int", str(INT32_MAX), _UNBOUNDED),
    "max.connections.per.ip.overrides": _only("text", "", "all addresses have max.connections.per.ip"),
    "num.io.threads": _only("int", "8", _LOOP),
    "num.network.threads": _only("int", "3", _LOOP),
    "num.partitions": Setting("int", "1", low=1, high=INT32_MAX),
    "num.recovery.threads.per.data.dir": _only("int", "2", _LOOP),
    "num.replica.fetchers": _only("int", "1", _LOOP),
    "producer.id.expiration.ms": Setting("int", "86400000", low=1, high=INT32_MAX),
    "remote.fetch.max.wait.ms": _only("int", "500", _TIERED),
    "remote.list.offsets.request.timeout.ms": _only("int", "30000", _TIERED),
    "remote.log.index.file.cache.total.size.bytes": _only("int", "1073741824", _TIERED),
    "remote.log.manager.copier.thread.pool.size": _only("int", "10", _TIERED),
    "remote.log.manager.copy.max.bytes.per.second": _only("int", str(INT64_MAX), _TIERED),
    "remote.log.manager.expiration.thread.pool.size": _only("int", "10", _TIERED),
    "remote.log.manager.fetch.max.bytes.per.second": _only("int", str(INT64_MAX), _TIERED),
    "remote.log.manager.follower.thread.pool.size": _only("int", "2", _TIERED),
    "remote.log.reader.threads": _only("int", "10", _TIERED),
    "remote.log.storage.system.enable": _only("bool", "false", _TIERED),
    "replica.lag.time.max.ms": Setting("int", "30000", low=1),
    "share.coordinator.cached.buffer.max.bytes": _only("int", "1048588", _GROUPS),
    "transaction.partition.verification.enable": _only("bool", "true", "each transaction is verified"),
    **_all_refused(
        _SECURITY,
        "principal.builder.class sasl.jaas.config sasl.kerberos.kinit.cmd "
        "sasl.kerberos.min.time.before.relogin "
        "sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name "
        "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor "
        "sasl.login.callback.handler.class sasl.login.class sasl.login.refresh.buffer.seconds "
        "sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
        "sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol "
        "sasl.server.callback.handler.class ssl.cipher.suites ssl.engine.factory.class "
        "ssl.key.password ssl.keymanager.algorithm ssl.keystore.certificate.chain "
        "ssl.keystore.key ssl.keystore.password "
        "ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm "
        "ssl.truststore.certificates ssl.truststore.password",
    ),
    **_all_refused(
        _AT_START,
        "advertised.listeners connection.failed.authentication.delay.ms connections.max.idle.ms "
        "connections.max.reauth.ms controlled.shutdown.timeout.ms fetch.max.bytes "
        "inter.broker.listener.name listener.security.protocol.map listeners log.cleaner.backoff.ms "
        "log.dir.reserve.bytes "
        "log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms "
        "log.message.validation log.retention.check.interval.ms log.scrub.bytes.per.second "
        "log.scrub.interval.ms max.connections max.connections.per.ip metrics.security.protocol "
        "max.incremental.fetch.session.cache.slots producer.id.expiration.check.interval.ms "
        "queued.max.request.bytes quota.window.num quota.window.size.seconds replica.fetch.backoff.ms "
        "replica.fetch.max.bytes "
        "replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms "
        "replica.high.watermark.checkpoint.interval.ms replica.socket.timeout.ms "
        "sasl.enabled.mechanisms sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience "
        "sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms "
        "sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.sub.claim.name sasl.server.max.receive.size "
        "socket.request.max.bytes ssl.client.auth ssl.enabled.protocols "
        "ssl.endpoint.identification.algorithm ssl.keystore.location ssl.keystore.type "
        "ssl.principal.mapping.rules ssl.truststore.location ssl.truststore.type",
    ),
    **_all_refused(
        _OPTION,
        "broker.id broker.rack log.dir log.dirs node.id",
    ),
    **_all_refused(
        _AT_COORDINATORS_START,
        "group.consumer.migration.policy group.initial.rebalance.delay.ms group.max.session.timeout.ms "
        "group.max.size group.min.session.timeout.ms offset.metadata.max.bytes "
        "offsets.retention.check.interval.ms offsets.retention.minutes transaction.max.timeout.ms "
        "transactional.id.expiration.ms",
    ),
    **_all_refused(
        _PINNED,
        "offsets.topic.num.partitions offsets.topic.replication.factor offsets.topic.segment.bytes "
        "transaction.state.log.min.isr transaction.state.log.num.partitions "
        "transaction.state.log.replication.factor",
    ),
    **_all_refused(_IN_MS.format("retention"), "log.retention.hours log.retention.minutes"),
    "log.roll.hours": _refused(_IN_MS.format("roll")),
    **_all_refused(
        "Kafka 4 has removed it",
        "inter.broker.protocol.version log.message.downconversion.enable "
        "log.message.format.version log.message.timestamp.difference.max.ms",
    ),
    "metric.reporters": _refused("brokers show their metrics to Prometheus at /metrics"),
    "replica.selector.class": _refused("consumers read from leaders; there is nothing to select"),
    "zookeeper.connect": _refused("brokers talk to controllers only"),
}

_FOR_ALL = "all brokers have one value: set it for the cluster, in Kafka's tools with --entity-default"

BROKER_SETTINGS: dict[str, Setting] = _BROKERS_OWN | {
    name: _refused(_FOR_ALL) if setting.is_honoured else setting._replace(cluster_name=None)
    for name, setting in CLUSTER_SETTINGS.items()
    if name not in _BROKERS_OWN
}

#: Of groups of the `consumer` protocol (KIP-848), within Kafka's default bounds (KIP-1240).
GROUP_SETTINGS: dict[str, Setting] = {
    "consumer.session.timeout.ms": Setting("int", "45000", low=45_000, high=60_000),
    "consumer.heartbeat.interval.ms": Setting("int", "5000", low=5_000, high=15_000),
    "consumer.assignment.interval.ms": Setting("int", "1000", high=15_000),
}
