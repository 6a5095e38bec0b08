"""Bounds of what operators and processes may ask for, each found by a mutant that no other test noticed
(tests/mutation)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core import acls as acl_rules
from controller.core import users as user_rules
from controller.core.acls import acls_about
from controller.core.authorizer import registration_fault
from controller.core.effects import Note
from controller.core.events import (
    AclsAltered,
    AddPartitions,
    AlterAcls,
    AlterUsers,
    ClusterConfigured,
    ConfigureCluster,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectPreferred,
    PartitionsAdded,
    Refusal,
    RefusalCode,
    TopicConfigured,
    UsersAltered,
    UserToAlter,
)
from controller.core.group_book import GroupBook
from controller.core.options import ControllerOptions
from controller.core.records import Cause, Change, TopicRecord, UserRecord
from controller.core.request_size import CHANGES_MAX
from springtide.contract.groups import GroupNews, GroupRebalance
from springtide.contract.security import AUTHORIZER, STANDARD_AUTHORIZER, UNKNOWN_USERS, UserSecrets
from springtide.contract.session import ListenerAddress
from springtide.security.acls.model import AclBinding, AclFilter, PatternType, ResourceType
from springtide.security.acls.validation import NAME_LENGTH_MAX
from tests.kit.controller.coordinator_cluster import CoordinatorCluster
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.security import SHA_256, SHA_512
from tests.kit.springtide.acl_lines import acl

LITERAL = PatternType.LITERAL


def creation(name: str = "orders", number: int = 0, **fields: Any) -> CreateTopic:
    return CreateTopic(wall_ms=0, actor="ann", topic_id=topic_id(number), topic=name, **fields)


def refused(cluster: Cluster, event: CreateTopic | AddPartitions) -> tuple[RefusalCode, int | None] | None:
    reply = cluster.step(event).reply
    return (reply.code, reply.limit) if isinstance(reply, Refusal) else None


# Topics.


def test_names_collide_where_they_differ_by_dots_and_underscores_and_nowhere_else() -> None:
    cluster = Cluster()
    codes = []
    for number, name in enumerate(["axb", "aAb", "aab.c", "a.b", "a_b", "c_d", "c.d", "e.f.g"]):
        found = refused(cluster, creation(name, number, partitions=1))
        codes.append(found and found[0])
    collision = RefusalCode.TOPIC_NAME_COLLISION
    assert codes == [None, None, None, None, collision, None, collision, None]


@pytest.mark.parametrize("bad", ["x" * 23, "!" * 22, "x" * 21])
def test_a_topics_id_has_22_characters_and_only_those_of_base64(bad: str) -> None:
    event = msgspec.structs.replace(creation(partitions=1), topic_id=bad)
    assert Cluster().ask(event, Refusal).code is RefusalCode.INVALID_TOPIC_ID


def test_how_many_partitions_and_topics_there_is_room_for() -> None:
    options = ControllerOptions(partitions_per_topic_max=5, partitions_per_cluster_max=8, topics_max=3)
    cluster = Cluster(options)
    found = [
        refused(cluster, creation(f"t{number}", number, partitions=partitions))
        for number, partitions in enumerate([6, 5, 4, 3, 1])
    ]
    full = RefusalCode.INVALID_PARTITIONS
    assert found == [(full, 5), None, (full, 3), None, (full, 0)]
    cluster.machine.options = ControllerOptions(partitions_per_cluster_max=1, topics_max=2)
    assert refused(cluster, creation("t5", 5, partitions=1)) == (full, 2)
    cluster.machine.options = ControllerOptions(partitions_per_cluster_max=1)
    assert refused(cluster, creation("t5", 5, partitions=1)) == (full, 0), "the bound was lowered since"


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"partitions": -1, "replication_factor": -1}, None),
        ({"partitions": -2}, (RefusalCode.INVALID_PARTITIONS, 1)),
        ({"replication_factor": -2}, (RefusalCode.INVALID_REPLICATION_FACTOR, 1)),
        ({"replication_factor": 3}, None),
        ({"assignments": ((1, 2, 3),), "partitions": -1, "replication_factor": -1}, None),
        ({"assignments": ((1, 2, 3, 4),)}, (RefusalCode.INVALID_REPLICATION_FACTOR, 3)),
        ({"replication_factor": 4}, (RefusalCode.INVALID_REPLICATION_FACTOR, 3)),
        ({"assignments": ((1, 2), (1, 2, 1))}, (RefusalCode.INVALID_REPLICA_ASSIGNMENT, None)),
    ],
)
def test_counts_that_a_topic_may_be_created_with(fields: dict[str, Any], found: object) -> None:
    cluster = Cluster(ControllerOptions(replication_factor_max=3), brokers=(1, 2, 3, 4))
    assert refused(cluster, creation(**fields)) == found


@pytest.mark.parametrize(
    ("assignments", "detail"),
    [
        (((2, 1), (2, 2)), "partition 2 names a broker twice"),
        (((2, 1), (2, 1, 3)), "partition 2 has 3 replicas, partition 0 has 2"),
        (((5, 1), (2, 1)), "partition 1: broker 5 is not a member of this cluster"),
    ],
)
def test_what_is_wrong_with_an_assignment_names_the_partition(
    assignments: tuple[tuple[int, ...], ...], detail: str
) -> None:
    cluster = Cluster()
    cluster.register(5)  # and waits
    cluster.create((1, 2))
    event = AddPartitions(wall_ms=0, actor="ann", topic_id=topic_id(), partitions=3, assignments=assignments)
    assert cluster.ask(event, Refusal).detail.startswith(detail)


def test_a_topic_or_partition_that_is_not_there_is_named_as_it_was_asked_for() -> None:
    cluster = Cluster()
    found = [
        cluster.ask(DeleteTopic(wall_ms=0, actor="ann", topic=name, topic_id=number), Refusal).detail
        for name, number in [(None, "an id"), ("a" * 65, None), (None, None)]
    ]
    assert found == [f"there is no topic {wanted!r}" for wanted in ("an id", "a" * 64, "")]
    event = ElectPreferred(wall_ms=0, actor="ann", topic_id=topic_id(), partition=0)
    assert cluster.ask(event, Refusal).code is RefusalCode.UNKNOWN_PARTITION


def test_who_holds_a_deleted_topics_name_up_is_named_if_it_is_down() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.delete()
    cluster.applied(1)
    cluster.now_ms += cluster.options.grace_ms + 1  # broker 3 is silent, and not proven dead
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, applied=0)
    cluster.pass_ms(0)
    assert cluster.broker(3).fenced
    hint = cluster.ask(creation("orders-0", 1), Refusal).hint
    assert hint is not None and hint.endswith("that are down: [3]")
    del cluster.image.brokers[3]
    hint = cluster.ask(creation("orders-0", 1), Refusal).hint
    assert hint is not None and hint.endswith("in a few seconds")


def test_a_dry_run_configures_nothing_and_says_that_it_was_one() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    configs: dict[str, str | None] = {"min.insync.replicas": "1"}
    of_cluster = ConfigureCluster(wall_ms=0, actor="ann", configs=configs, dry_run=True)
    of_topic = ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs=configs, dry_run=True)
    assert (cluster.ask(of_cluster, ClusterConfigured).dry_run, cluster.last.records) == (True, ())
    assert (cluster.ask(of_topic, TopicConfigured).dry_run, cluster.last.records) == (True, ())


def test_a_minimum_is_held_against_the_partition_that_has_the_fewest_replicas() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (1, 2, 3), configs={"min.insync.replicas": "1"})
    assert cluster.reassign(1, 2, partition=1).refusal is None
    configs: dict[str, str | None] = {"min.insync.replicas": "3"}
    event = ConfigureTopic(wall_ms=0, actor="ann", topic_id=topic_id(), configs=configs)
    assert isinstance(cluster.step(event).reply, Refusal)


@pytest.mark.parametrize("more", [1, 12])
@pytest.mark.parametrize("is_deleting", [False, True])
def test_a_new_controller_announces_all_added_partitions_but_not_of_a_topic_that_goes(
    more: int, is_deleting: bool
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    event = AddPartitions(wall_ms=0, actor="ann", topic_id=topic_id(), partitions=1 + more)
    cluster.ask(event, PartitionsAdded)
    last = cluster.records.pop()
    assert isinstance(last, TopicRecord)
    if is_deleting:
        gone = msgspec.structs.replace(last.state, partitions=1, deleting=True)
        cluster.records.append(TopicRecord(state=gone, change=Change(cause=Cause.TAKEOVER_REPAIR, at_ms=0)))
    cluster.fail_over()
    assert cluster.image.topics[topic_id()].partitions == (1 if is_deleting else 1 + more)


def test_a_coordinator_topic_that_finds_no_room_is_a_line_in_the_log() -> None:
    cluster = CoordinatorCluster(1001, options=ControllerOptions(partitions_per_cluster_max=1))
    notes = [effect.code for effect in cluster.effects if isinstance(effect, Note)]
    assert notes == ["coordinator_topic_not_created"]
    assert not cluster.image.topics


def test_fewer_partitions_are_refused_with_the_least_that_may_be_asked_for() -> None:
    cluster = Cluster(ControllerOptions(partitions_per_topic_max=4))
    cluster.create((1, 2, 3), (1, 2, 3))
    found = [
        cluster.ask(AddPartitions(wall_ms=0, actor="ann", topic_id=topic_id(), partitions=n), Refusal)
        for n in (2, 5)
    ]
    assert [(each.limit, "only get more" in each.detail) for each in found] == [(3, True), (4, False)]


# ACLs and users.


def filled(*lines: str) -> Cluster:
    cluster = Cluster(brokers=())
    alter(cluster, added=tuple(map(acl, lines)))
    return cluster


def alter(cluster: Cluster, **fields: Any) -> AclsAltered:
    return cluster.ask(AlterAcls(wall_ms=0, actor="ann", **fields), AclsAltered)


def codes(altered: AclsAltered) -> list[RefusalCode | None]:
    return [None if each.refusal is None else each.refusal.code for each in altered.added]


@pytest.mark.parametrize(
    ("name", "about"),
    [
        ("orders", ["order", "orders"]),
        ("order", ["order"]),
        ("other", []),
        ("pay", ["p"]),
        ("x" * (NAME_LENGTH_MAX + 1), ["x" * NAME_LENGTH_MAX]),
    ],
)
def test_the_acls_about_a_resource_are_those_of_its_name_and_of_its_beginnings(
    name: str, about: list[str]
) -> None:
    lines = ("orders", "order~", "orders.eu", "x" * NAME_LENGTH_MAX + "~", "p~", "o")
    cluster = filled(*(f"ALLOW alice@* READ TOPIC {each}" for each in lines))
    found = acls_about(cluster.image.acls, {}, ResourceType.TOPIC, name)
    assert [binding.resource_name for binding in found.bindings] == about


def test_a_request_about_acls_counts_what_it_adds_and_what_it_removes() -> None:
    cluster = Cluster(brokers=())
    wanted = AclFilter(resource_type=ResourceType.TOPIC, resource_name="a", pattern_type=LITERAL)
    event = AlterAcls(
        wall_ms=0,
        actor="ann",
        added=(acl("ALLOW alice@* READ TOPIC a"),),
        removed=(wanted,) * CHANGES_MAX,
    )
    assert cluster.ask(event, Refusal).code is RefusalCode.TOO_MANY_CHANGES


def test_what_is_removed_first_makes_room_up_to_the_very_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other, third = (acl(f"ALLOW {user}@* READ TOPIC a") for user in ("alice", "bobby", "carol"))
    size: int = acl_rules._bytes_of(one)
    for bound, value in (("CHARACTERS_MAX", 2 * one.characters), ("PATTERN_BYTES_MAX", 2 * size)):
        with monkeypatch.context() as patched:
            patched.setattr(acl_rules, bound, value)
            cluster = Cluster(brokers=())
            assert codes(alter(cluster, added=(one, other, third))) == [None, None, RefusalCode.TOO_MANY_ACLS]
            of_one = AclFilter(principal=one.principal)
            assert codes(alter(cluster, removed=(of_one,), added=(third,))) == [None]


def test_so_many_filters_may_read_all_bindings() -> None:
    cluster = filled("ALLOW alice@* READ TOPIC a")
    assert len(alter(cluster, removed=(AclFilter(),) * acl_rules.SCANS_MAX).removed) == acl_rules.SCANS_MAX


@pytest.mark.parametrize(
    "wanted",
    [
        AclFilter(resource_type=ResourceType.TOPIC, pattern_type=LITERAL),
        AclFilter(resource_name="a", pattern_type=LITERAL),
        AclFilter(resource_type=ResourceType.TOPIC, resource_name="a", pattern_type=LITERAL),
    ],
)
def test_a_filter_that_leaves_the_name_or_the_type_open_finds_it(wanted: AclFilter) -> None:
    cluster = filled("ALLOW alice@* READ TOPIC a", "ALLOW alice@* READ GROUP b~")
    (removed,) = alter(cluster, removed=(wanted,)).removed
    found: tuple[AclBinding, ...] = removed.bindings
    assert [binding.resource_name for binding in found] == ["a"]


def test_at_the_bound_users_may_still_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_rules, "USERS_MAX", 1)
    cluster = Cluster(brokers=())
    longest = "u" * user_rules.USER_LENGTH_MAX
    users = (
        UserToAlter(user=longest, upsertions=(SHA_256,)),
        UserToAlter(user="bob", upsertions=(SHA_256,)),
        UserToAlter(user="carol"),
    )
    done = cluster.ask(AlterUsers(wall_ms=0, actor="ann", users=users), UsersAltered).users
    assert [None if each.refusal is None else each.refusal.code for each in done] == [
        None,
        RefusalCode.TOO_MANY_USERS,
        None,
    ]
    again = AlterUsers(wall_ms=0, actor="ann", users=(UserToAlter(user=longest, upsertions=(SHA_512,)),))
    assert cluster.ask(again, UsersAltered).users[0].refusal is None


def test_only_one_name_stands_for_users_that_there_are_not() -> None:
    change = Change(cause=Cause.USER_ALTERED, at_ms=0)
    found = [
        UserRecord(secrets=UserSecrets(user=user), change=change).is_of_unknown
        for user in ("!", UNKNOWN_USERS, "bob")
    ]
    assert found == [False, True, False]


@pytest.mark.parametrize(("port", "is_fault"), [(9091, True), (9092, False), (9093, True)])
def test_the_listener_with_tls_is_the_one_that_other_processes_reach(port: int, is_fault: bool) -> None:
    listeners = {"CLIENTS": ListenerAddress(host="store", port=port, protocol="SSL")}
    cluster = Cluster(brokers=())
    cluster.image.configs = {AUTHORIZER: STANDARD_AUTHORIZER}
    asked = msgspec.structs.replace(cluster.request(2, host="store"), listeners=listeners)
    assert (registration_fault(cluster.image, asked) is not None) is is_fault


# Groups and options.


def news(*, generation_id: int = 5, ended_ms: int = 1, reason: str = "") -> GroupNews:
    told = GroupRebalance(
        group_id="g",
        generation_id=generation_id,
        began_ms=0 if reason else -1,
        ended_ms=ended_ms,
        reason=reason,
    )
    return GroupNews(rebalances=(told,))


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (news(), "a joined"),
        (news(generation_id=4), ""),
        (news(generation_id=6), ""),
        (news(reason="a left"), "a left"),
    ],
)
def test_a_reason_stays_for_its_generation_until_another_is_told(told: GroupNews, reason: str) -> None:
    book = GroupBook()
    book.note(news(reason="a joined"))
    book.note(told)
    known = next(iter(book.rebalances("g")), None)
    assert known is not None and known.reason == reason


@pytest.mark.parametrize(
    ("lease_ms", "grace_ms", "heartbeat_ms", "is_refused"),
    [
        (3, 4, 1, False),
        (3, 3, 1, True),
        (2, 4, 1, True),
        (1, 4, 0, False),
        (0, 4, 0, True),
        (8, 9, 3, True),
    ],
)
def test_a_lease_spans_three_heartbeats_and_ends_before_the_grace(
    lease_ms: int, grace_ms: int, heartbeat_ms: int, is_refused: bool
) -> None:
    def options() -> ControllerOptions:
        return ControllerOptions(lease_ms=lease_ms, grace_ms=grace_ms, heartbeat_interval_ms=heartbeat_ms)

    if is_refused:
        with pytest.raises(ValueError, match="lease_ms"):
            options()
    else:
        assert options().lease_ms == lease_ms
