"""Which changes wait for whom before they are answered (docs/replication.md 2.12, answers)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import ProbeBroker
from controller.core.events import (
    AlterAcls,
    AlterQuotas,
    AlterUsers,
    BrokerProvenDead,
    ConfigureCluster,
    ConfigureTopic,
    Event,
    UserToAlter,
)
from controller.core.in_force import Awaited, forbids
from controller.core.records import (
    Cause,
    Change,
    PartitionRecord,
    ProducerIdsRecord,
    QuotasRecord,
    TopicRecord,
)
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import ALLOW_EVERYONE, SUPER_USERS, QuotaEntity, ScramSecret
from springtide.security.acls.model import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tests.kit.controller.coordinator_cluster import CoordinatorCluster
from tests.kit.controller.core_cluster import Cluster, changed, topic_id

ALLOWED = AclBinding(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.ALLOW
)
DENIED = AclBinding(
    ResourceType.TOPIC, "t", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.DENY
)
EVERY_ACL = AclFilter()
BOB = QuotaEntity(user="bob")


def minimum(value: int | None, *, dry_run: bool = False) -> ConfigureTopic:
    return topic_configs({"min.insync.replicas": None if value is None else str(value)}, dry_run=dry_run)


def topic_configs(configs: dict[str, str | None], *, dry_run: bool = False) -> ConfigureTopic:
    return ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs=configs, dry_run=dry_run)


def cluster_configs(configs: dict[str, str | None]) -> ConfigureCluster:
    return ConfigureCluster(wall_ms=0, actor="ann", configs=configs)


def acls(*, added: tuple[AclBinding, ...] = (), removed: tuple[AclFilter, ...] = ()) -> AlterAcls:
    return AlterAcls(wall_ms=0, actor="ann", added=added, removed=removed)


def secret(byte: bytes) -> ScramSecret:
    key = byte * 32
    return ScramSecret(
        mechanism="SCRAM-SHA-256", iterations=4096, salt=b"salt" * 4, stored_key=key, server_key=key
    )


def user(*, password: bytes | None = None, deleted: bool = False) -> AlterUsers:
    change = UserToAlter(
        user="bob",
        upsertions=() if password is None else (secret(password),),
        deletions=("SCRAM-SHA-256",) if deleted else (),
    )
    return AlterUsers(wall_ms=0, actor="ann", users=(change,), salt_key=b"k" * 32)


def quota(rate: float | None) -> AlterQuotas:
    change = QuotasToAlter(entity=BOB, quotas={"producer_byte_rate": rate})
    return AlterQuotas(wall_ms=0, actor="ann", changes=(change,))


def with_topic() -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    all_applied(cluster)
    return cluster


def all_applied(cluster: Cluster) -> None:
    for broker_id in sorted(cluster.image.brokers):
        cluster.applied(broker_id)


def late_after(cluster: Cluster, event: Event) -> tuple[int, ...] | None:
    """None: nothing is waited for."""
    awaited = cluster.step(event).awaited
    return None if awaited is None else cluster.machine.not_in_force(awaited, cluster.now_ms)


def test_a_raised_minimum_waits_until_every_broker_has_applied_it() -> None:
    cluster = with_topic()
    awaited = cluster.step(minimum(2)).awaited
    assert awaited == Awaited(cluster.image.sequence, by_coordinators=False)
    late = []
    for broker_id in (2, 1, 3):
        late.append(cluster.machine.not_in_force(awaited, cluster.now_ms))
        cluster.applied(broker_id)
    late.append(cluster.machine.not_in_force(awaited, cluster.now_ms))
    assert late == [(1, 2, 3), (1, 3), (3,), ()]


def test_a_broker_is_waited_for_from_its_registration_on_if_it_is_admitted() -> None:
    cluster = Cluster(brokers=(7,))
    cluster.fail_over()  # it has applied nothing of this controller's yet
    cluster.register(8)
    for sequence, late in ((cluster.image.registered_sequences[7] - 1, ()), (cluster.image.sequence, (7,))):
        awaited = Awaited(sequence, by_coordinators=False)
        assert cluster.machine.not_in_force(awaited, cluster.now_ms) == late
    awaited = Awaited(cluster.image.registered_sequences[7], by_coordinators=False)
    assert cluster.machine.not_in_force(awaited, cluster.now_ms) == (7,)


@pytest.mark.parametrize(
    "event",
    [
        minimum(1),
        topic_configs({"retention.ms": "1"}),
        topic_configs({"unclean.leader.election.enable": "false"}),
        minimum(2, dry_run=True),
        acls(added=(ALLOWED,)),
        user(password=b"1"),
        cluster_configs({"default.replication.factor": "2"}),
    ],
)
def test_what_forbids_nothing_to_brokers_waits_for_nobody(event: Event) -> None:
    cluster = with_topic()
    cluster.step(minimum(2))
    all_applied(cluster)
    assert not late_after(cluster, event)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        (minimum(1), cluster_configs({ALLOW_EVERYONE: "false"})),
        (minimum(1), topic_configs({"max.message.bytes": "100"})),
        (minimum(1), cluster_configs({"message.max.bytes": "100"})),
        (cluster_configs({SUPER_USERS: "User:bob"}), cluster_configs({SUPER_USERS: None})),
        (cluster_configs({ALLOW_EVERYONE: "false"}), acls(added=(DENIED,))),
        (acls(added=(ALLOWED,)), acls(removed=(EVERY_ACL,))),
        (minimum(1), acls(added=(ALLOWED,))),  # closes what was open to everyone
        (user(password=b"1"), user(password=b"2")),
        (user(password=b"1"), user(deleted=True)),
        (minimum(1), quota(1000.0)),
        (quota(2000.0), quota(1000.0)),
        (quota(2000.0), quota(None)),
    ],
)
def test_what_forbids_something_waits_for_every_broker(before: Event, event: Event) -> None:
    cluster = with_topic()
    cluster.step(cluster_configs({ALLOW_EVERYONE: "true"}))
    cluster.step(before)
    all_applied(cluster)
    assert late_after(cluster, event) == (1, 2, 3)


def test_a_raised_quota_waits_for_nobody() -> None:
    cluster = with_topic()
    cluster.step(quota(1000.0))
    all_applied(cluster)
    assert late_after(cluster, quota(2000.0)) is None


def test_the_same_change_again_waits_for_those_that_have_not_applied_the_first() -> None:
    cluster = with_topic()
    cluster.step(minimum(2))
    cluster.applied(1)
    assert not cluster.step(minimum(2)).records
    assert late_after(cluster, minimum(2)) == (2, 3)


def test_the_same_change_again_at_another_controller_waits_as_well() -> None:
    cluster = with_topic()
    cluster.step(minimum(2))
    cluster.fail_over()
    assert late_after(cluster, minimum(2)) == (1, 2, 3)


def test_a_refused_change_waits_for_nobody() -> None:
    cluster = with_topic()
    assert late_after(cluster, minimum(4)) is None


def test_a_dead_broker_is_not_waited_for_and_a_silent_one_until_its_vouchers_end() -> None:
    cluster = with_topic()
    awaited = cluster.step(minimum(2)).awaited
    assert awaited is not None
    cluster.applied(1)
    cluster.kill(2)
    options, late = cluster.options, []
    silent_ms = options.grace_ms + options.lease_ms
    for step_ms in (0, options.grace_ms + 1, silent_ms - options.grace_ms - 1, 1):
        cluster.now_ms += step_ms
        cluster.heartbeat(1)
        cluster.pass_ms(0)
        late.append(cluster.machine.not_in_force(awaited, cluster.now_ms))
    assert cluster.broker(3).fenced
    assert late == [(3,), (3,), (3,), ()]


def test_a_process_that_began_after_the_change_is_not_waited_for() -> None:
    cluster = with_topic()
    awaited = cluster.step(minimum(2)).awaited
    assert awaited is not None
    cluster.applied(1)
    cluster.applied(2)
    cluster.kill(3)
    cluster.register(3, "b")
    assert cluster.machine.not_in_force(awaited, cluster.now_ms) == ()


def test_a_silent_coordinator_is_waited_for_until_it_is_proven_dead() -> None:
    """It has no lease: cut off from the controllers, it goes on for as long as its clients reach it."""
    cluster = CoordinatorCluster(4, 5)
    cluster.step(acls(added=(ALLOWED,)))
    awaited = cluster.step(acls(removed=(EVERY_ACL,))).awaited
    assert awaited is not None
    all_applied(cluster)
    cluster.beat(4)
    late = [cluster.machine.not_in_force(awaited, cluster.now_ms)]
    for _ in range(60):
        cluster.now_ms += 1_000
        all_applied(cluster)
        cluster.beat(4)
        cluster.pass_ms(0)
    assert cluster.image.coordinators[5].fenced
    late.append(cluster.machine.not_in_force(awaited, cluster.now_ms))
    dead = BrokerProvenDead(
        wall_ms=0, broker_id=5, broker_epoch=cluster.image.coordinators[5].coordinator_epoch
    )
    cluster.step(dead)
    late.append(cluster.machine.not_in_force(awaited, cluster.now_ms))
    assert late == [(5,), (5,), ()]


def test_another_controller_waits_for_a_fenced_coordinator_and_asks_whether_it_is_dead() -> None:
    cluster = CoordinatorCluster(4, 5)
    for _ in range(60):
        cluster.now_ms += 1_000
        cluster.beat(4)
        cluster.pass_ms(0)
    assert cluster.image.coordinators[5].fenced
    cluster.fail_over()
    step = cluster.step(acls(added=(DENIED,)))
    probed = [effect.broker_id for effect in step.effects if isinstance(effect, ProbeBroker)]
    assert step.awaited is not None
    assert (5 in cluster.machine.not_in_force(step.awaited, cluster.now_ms), probed) == (True, [5])


def test_another_allowance_on_a_resource_that_has_some_closes_nothing() -> None:
    cluster = with_topic()
    cluster.step(cluster_configs({ALLOW_EVERYONE: "true"}))
    cluster.step(acls(added=(ALLOWED,)))
    all_applied(cluster)
    also = AclBinding(
        ResourceType.TOPIC, "t", PatternType.LITERAL, "User:ann", "*", Operation.READ, Permission.ALLOW
    )
    assert not late_after(cluster, acls(added=(also,)))


def test_a_row_that_is_new_or_the_same_forbids_nothing() -> None:
    cluster = with_topic()
    cluster.step(quota(1000.0))
    image, change = cluster.image, Change(cause=Cause.TOPIC_CONFIGURED, at_ms=0)
    topic, state = image.topics[topic_id()], cluster.partition()
    limited = msgspec.structs.replace(topic, topic_id="new", configs={"max.message.bytes": "1"})
    for record in (
        PartitionRecord(state=state, change=change),
        PartitionRecord(state=changed(state, topic_id="new"), change=change),
        TopicRecord(state=topic, change=change),
        TopicRecord(state=limited, change=change),
        QuotasRecord(quotas=image.quotas[BOB], change=change),
        ProducerIdsRecord(next_producer_id=9, change=change),
    ):
        assert not forbids(image, record)
