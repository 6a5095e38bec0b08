"""Every key that Kafka's tools set is in the tables, and is taken, refused and unset as its row says."""

from __future__ import annotations

import pytest

from controller.core.configs import (
    PRINCIPALS_LENGTH_MAX,
    changed_configs,
    check_lags,
    checked_configs,
    effective,
    is_cluster_protected,
)
from controller.core.events import Refusal, RefusalCode
from controller.core.settings_table import (
    BROKER_SETTINGS,
    CLUSTER_PROTECTED,
    CLUSTER_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    Standing,
)
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER, SUPER_USERS

TABLES = {"topic": TOPIC_SETTINGS, "cluster": CLUSTER_SETTINGS, "broker": BROKER_SETTINGS}
ROWS = [(holder, name) for holder, settings in TABLES.items() for name in sorted(settings)]

#: The keys of a topic in Kafka 4.4.0: `LogConfig.configNames()` without the internal one.
KAFKA_TOPIC_KEYS = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
local.retention.bytes local.retention.ms max.compaction.lag.ms max.decompressed.message.bytes
max.message.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate remote.copy.lag.bytes
remote.copy.lag.ms remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable
"""
#: What Kafka 4.4.0 lets tools set on brokers: `DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS`.
KAFKA_BROKER_KEYS = """
background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
config.providers cordoned.log.dirs errors.deadletterqueue.auto.create.topics.enable
errors.deadletterqueue.topic.name.prefix follower.fetch.last.tiered.offset.enable
follower.replication.throttled.rate group.consumer.assignment.interval.ms
group.consumer.assignor.offload.enable group.coordinator.cached.buffer.max.bytes
group.share.assignment.interval.ms group.share.assignor.offload.enable
group.streams.assignment.interval.ms group.streams.assignor.offload.enable
leader.replication.throttled.rate listener.security.protocol.map listeners log.cleaner.backoff.ms
log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor
log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms log.message.timestamp.type log.preallocate log.remote.copy.lag.bytes
log.remote.copy.lag.ms log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms
log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate max.connections
max.connections.per.ip max.connections.per.ip.overrides max.decompressed.message.bytes message.max.bytes
metric.reporters min.insync.replicas num.io.threads num.network.threads num.recovery.threads.per.data.dir
num.replica.fetchers principal.builder.class producer.id.expiration.ms remote.fetch.max.wait.ms
remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.follower.thread.pool.size remote.log.reader.threads
replica.alter.log.dirs.io.max.bytes.per.second sasl.enabled.mechanisms sasl.jaas.config
sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.principal.to.local.rules
sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
share.coordinator.cached.buffer.max.bytes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
transaction.partition.verification.enable unclean.leader.election.enable
"""


def test_every_key_of_kafka_is_in_the_tables() -> None:
    assert set(KAFKA_TOPIC_KEYS.split()) <= set(TOPIC_SETTINGS)
    assert set(KAFKA_BROKER_KEYS.split()) <= set(CLUSTER_SETTINGS)
    assert set(CLUSTER_SETTINGS) == set(BROKER_SETTINGS)


@pytest.mark.parametrize(("holder", "name"), ROWS)
def test_a_setting_is_taken_or_refused_as_its_row_says(holder: str, name: str) -> None:
    settings = TABLES[holder]
    setting = settings[name]
    if setting.is_refused:
        refusal = checked_configs({name: "1"}, settings)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, f"configs.{name}")
        assert (refusal.detail, refusal.hint) == (f"{name} can't be set", setting.hint)
        assert setting.hint
        return
    if setting.default is not None:
        expected = {name: _spelled(setting)}
        assert checked_configs({name: setting.default}, settings) == expected
        other = setting.default.upper() if setting.kind == "bool" else f" {setting.default} "
        assert checked_configs({name: other}, settings) == expected
    if setting.standing is Standing.AT_DEFAULT:
        assert setting.default is not None and setting.hint
        refusal = checked_configs(
            {name: {"true": "false", "false": "true"}.get(setting.default, "7")}, settings
        )
        assert isinstance(refusal, Refusal)
        assert refusal.code is RefusalCode.INVALID_CONFIG
        assert refusal.detail.startswith(f"{name} must be {setting.default or 'empty'}, not ")
        assert refusal.hint == setting.hint


#: What scripts copy that move topics from Kafka, and Kafka takes: (name, value, what is kept).
COPIED = [
    ("compression.type", "zstd", "zstd"),
    ("compression.type", "uncompressed", "uncompressed"),
    ("compression.gzip.level", "9", "9"),
    ("compression.zstd.level", "-5", "-5"),
    ("file.delete.delay.ms", "1000", "1000"),
    ("max.decompressed.message.bytes", "10485760", "10485760"),
    ("preallocate", "True", "true"),
    ("segment.jitter.ms", "3600000", "3600000"),
    ("local.retention.ms", "86400000", "86400000"),
    ("local.retention.bytes", "-1", "-1"),
    ("leader.replication.throttled.replicas", "*", "*"),
]


@pytest.mark.parametrize(("name", "value", "kept"), COPIED)
def test_what_scripts_copy_is_kept_and_told_to_change_nothing(name: str, value: str, kept: str) -> None:
    assert checked_configs({name: value}) == {name: kept}
    setting = TOPIC_SETTINGS[name]
    assert (setting.standing, setting.is_read_only) == (Standing.KEPT, False)
    assert setting.note == f"kept, changes nothing: {setting.hint}"
    if setting.cluster_name is not None:
        assert checked_configs({setting.cluster_name: value}, CLUSTER_SETTINGS) == {
            setting.cluster_name: kept
        }


@pytest.mark.parametrize("holder", TABLES)
def test_only_what_is_acted_upon_has_no_note(holder: str) -> None:
    for setting in TABLES[holder].values():
        assert (setting.note is None) == setting.is_honoured
        assert setting.note is None or not setting.note.endswith((":", "None"))


def _spelled(setting: Setting) -> str:
    assert setting.default is not None
    return str(float(setting.default)) if setting.kind == "double" else setting.default


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("User:a", "User:a"),
        (" User:b ; User:a;;User:b", "User:a;User:b"),
        ("User:CN=ann,O=x y", "User:CN=ann,O=x y"),
        ("", ""),
        ("a", None),
        ("User:", None),
        ("Group:a", None),
        ("User:a,User:b\n", "User:a,User:b"),
        ("User:a\nb", None),
        ("User:" + "a" * 8_000, None),
    ],
)
def test_super_users_are_a_list_of_principals(value: str, stored: str | None) -> None:
    checked = checked_configs({SUPER_USERS: value}, CLUSTER_SETTINGS)
    if stored is None:
        assert isinstance(checked, Refusal)
        assert checked.detail.startswith("super.users must be User:NAME;User:NAME, of 8000 characters")
    else:
        assert checked == {SUPER_USERS: stored}


def test_the_authorizer_is_kafkas_or_none() -> None:
    refusal = checked_configs({AUTHORIZER: "kafka.security.authorizer.AclAuthorizer"}, CLUSTER_SETTINGS)
    assert isinstance(refusal, Refusal)
    assert refusal.detail.startswith(f"{AUTHORIZER} must be empty or {STANDARD_AUTHORIZER}, not")
    assert checked_configs({AUTHORIZER: STANDARD_AUTHORIZER}, CLUSTER_SETTINGS) == {
        AUTHORIZER: STANDARD_AUTHORIZER
    }


@pytest.mark.parametrize(("holder", "name"), ROWS)
def test_a_known_setting_can_be_unset_where_it_is_not_set(holder: str, name: str) -> None:
    assert changed_configs({}, {name: None}, TABLES[holder]) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "6048_00"),
        ("retention.ms", "٣"),
        ("retention.ms", ""),
        ("segment.bytes", "1023"),  # brokers take no less
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "half"),
        ("min.cleanable.dirty.ratio", "1.01"),
        ("min.cleanable.dirty.ratio", "-0.1"),
        ("max.compaction.lag.ms", "0"),
        ("delete.retention.ms", "-1"),
        ("preallocate", "no"),
        ("compression.type", "Producer"),
        ("compression.type", "brotli"),
        ("compression.lz4.level", "18"),
        ("file.delete.delay.ms", "-1"),
        ("remote.storage.enable", "true"),
        ("leader.replication.throttled.replicas", "1"),
        ("leader.replication.throttled.replicas", "0:1,,1:2"),
    ],
)
def test_what_kafka_would_not_read_is_refused(name: str, value: str) -> None:
    refusal = checked_configs({name: value})
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, f"configs.{name}")


def test_all_that_is_wrong_is_named_and_the_first_is_what_is_pointed_at() -> None:
    refusal = checked_configs({"retention.ms": "soon", "max.message.bytes": "-1", "retention.hours": "4"})
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, "configs.max.message.bytes")
    said = refusal.detail.split("; ")
    assert [one.split()[0] for one in said] == ["max.message.bytes", "unknown", "retention.ms"]
    many = checked_configs({f"unknown.{number:02}": "1" for number in range(13)})
    assert isinstance(many, Refusal)
    assert many.code is RefusalCode.UNKNOWN_CONFIG
    assert many.detail.endswith("unknown setting 'unknown.09'; and 3 more")


def test_lists_of_throttled_replicas_are_taken() -> None:
    name = "follower.replication.throttled.replicas"
    for given, kept in (("0:1, 1:2", "0:1,1:2"), ("*", "*"), ("", ""), ("0:1", "0:1")):
        assert checked_configs({name: given}) == {name: kept}


def test_spellings_of_one_value_are_one() -> None:
    given = {"retention.ms": "+0604800000", "min.cleanable.dirty.ratio": "5e-1", "preallocate": "FALSE"}
    one = {"retention.ms": "604800000", "min.cleanable.dirty.ratio": "0.5", "preallocate": "false"}
    for policies in ("compact,delete", "delete,compact", " delete , compact,delete"):
        assert checked_configs({"cleanup.policy": policies}) == {"cleanup.policy": "compact,delete"}
    assert checked_configs(given) == one


@pytest.mark.parametrize(
    ("topic", "cluster", "field"),
    [
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "9"}, {}, None),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}, {}, "configs.min.compaction.lag.ms"),
        (
            {"max.compaction.lag.ms": "9"},
            {"log.cleaner.min.compaction.lag.ms": "10"},
            "configs.max.compaction.lag.ms",
        ),
    ],
)
def test_what_must_be_compacted_before_it_may_be_is_refused(
    topic: dict[str, str], cluster: dict[str, str], field: str | None
) -> None:
    refusal = check_lags(topic, cluster)
    if field is None:
        assert refusal is None
    else:
        assert refusal is not None
        assert (refusal.code, refusal.field) == (RefusalCode.INVALID_CONFIG, field)


def test_a_value_applies_in_any_spelling() -> None:
    configs = checked_configs({"unclean.leader.election.enable": " True"})
    assert not isinstance(configs, Refusal)
    assert effective("unclean.leader.election.enable", configs, {}) == "true"


def test_a_setting_that_all_brokers_share_is_not_a_single_brokers() -> None:
    refusal = checked_configs({"log.retention.ms": "5"}, BROKER_SETTINGS)
    assert isinstance(refusal, Refusal)
    assert refusal.hint is not None and "--entity-default" in refusal.hint
    assert checked_configs({"log.cleaner.threads": "1"}, BROKER_SETTINGS) == {"log.cleaner.threads": "1"}


def test_numbers_are_taken_up_to_their_last_digit_and_fractions_too() -> None:
    wanted = {"retention.ms": str(2**63 - 1), "min.cleanable.dirty.ratio": "0.5"}
    assert checked_configs(wanted) == wanted
    for name, noun in (("retention.ms", "an integer"), ("min.cleanable.dirty.ratio", "a number")):
        refusal = checked_configs({name: "many"})
        assert isinstance(refusal, Refusal) and f"must be {noun}" in refusal.detail


def test_milliseconds_may_have_units_and_are_stored_as_a_number() -> None:
    wanted = {"retention.ms": "7 d", "segment.ms": " 1 h 30 m "}
    assert checked_configs(wanted) == {"retention.ms": "604800000", "segment.ms": "5400000"}
    for name, text in (("retention.bytes", "7 d"), ("retention.ms", "7 days")):
        refusal = checked_configs({name: text})
        assert isinstance(refusal, Refusal) and f"{name} must be an integer, not {text!r}" in refusal.detail
        assert ("7 d" in (refusal.hint or "")) is (name == "retention.ms")
    assert isinstance(checked_configs({"segment.ms": "9999999999999999999 d"}), Refusal)


def test_a_super_user_has_no_space_around_the_name() -> None:
    assert checked_configs({SUPER_USERS: " User:a b ; User:c"}, CLUSTER_SETTINGS) == {
        SUPER_USERS: "User:a b;User:c"
    }
    for text in ("User: alice", "User:   "):
        refusal = checked_configs({SUPER_USERS: text}, CLUSTER_SETTINGS)
        assert isinstance(refusal, Refusal), text


@pytest.mark.parametrize("too_many", [0, 1])
def test_super_users_are_taken_up_to_so_many_characters(too_many: int) -> None:
    name = "User:".ljust(PRINCIPALS_LENGTH_MAX + too_many, "a")
    checked = checked_configs({SUPER_USERS: name}, CLUSTER_SETTINGS)
    assert isinstance(checked, Refusal) is bool(too_many)


@pytest.mark.parametrize(("configs", "is_protected"), [({}, False), ({CLUSTER_PROTECTED: "true"}, True)])
def test_a_cluster_is_protected_where_it_says_so(configs: dict[str, str], is_protected: bool) -> None:
    assert is_cluster_protected(configs) is is_protected
