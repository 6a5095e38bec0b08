"""What a broker knows of the cluster after a row of batches."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionState, Shard, TopicState, WriterId
from springtide.contract.security import (
    ALLOW_EVERYONE,
    AUTHORIZER,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
    EntityQuotas,
    QuotaEntity,
    UserSecrets,
)
from springtide.contract.updates import BrokerEndpoint, UpdateBatch
from springtide.node.cluster_view import LISTED_AFTER_FENCING_MS, SUSPICION_MS_MAX, ClusterView
from tests.kit.controller.security import SHA_256, of_topic
from tests.kit.springtide.acl_lines import acl, mark
from tests.kit.springtide.users import user

ID, OTHER_ID = "A" * 22, "B" * 22
ALICE = UserSecrets(user="alice", scram=(SHA_256,))


def endpoint(broker_id: int, broker_epoch: int = 1, *, active: bool = True) -> BrokerEndpoint:
    return BrokerEndpoint(
        broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch), host="h", port=1, active=active
    )


def topic(topic_id: str = ID, name: str = "orders", **fields: Any) -> TopicState:
    return TopicState(topic_id=topic_id, topic=name, partitions=1, replication_factor=1, **fields)


def state(partition_epoch: int, topic_id: str = ID) -> PartitionState:
    return PartitionState(
        topic_id=topic_id,
        topic="orders",
        partition=0,
        replicas=(1,),
        leader=1,
        leader_epoch=LeaderEpoch(0),
        partition_epoch=PartitionEpoch(partition_epoch),
        isr=(1,),
        min_insync_replicas=1,
    )


def test_an_older_state_changes_nothing() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(topics=(topic(),), partitions=(state(5),)), now_ms=0)
    view.apply(UpdateBatch(partitions=(state(4),)), now_ms=0)
    assert view.state(ID, 0) == state(5)


def test_a_full_batch_replaces_everything_but_the_table_that_replicas_hold() -> None:
    view = ClusterView()
    brokers = view.brokers
    view.apply(
        UpdateBatch(brokers=(endpoint(1), endpoint(2)), topics=(topic(),), partitions=(state(5),)), now_ms=0
    )
    view.apply(UpdateBatch(full=True, brokers=(endpoint(2),)), now_ms=0)
    assert view.brokers is brokers
    assert list(brokers) == [2]
    assert view.topic_by_name("orders") is None
    assert view.state(ID, 0) is None


def test_deleting_an_old_topic_leaves_the_new_one_of_its_name() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(topics=(topic(),), partitions=(state(1),)), now_ms=0)
    view.apply(UpdateBatch(topics=(topic(OTHER_ID),), partitions=(state(1, OTHER_ID),)), now_ms=0)
    view.apply(UpdateBatch(deleted_topics=(ID,)), now_ms=0)
    assert view.topic_by_name("orders") == topic(OTHER_ID)
    assert view.topic_by_id(ID) is None


def test_a_topic_that_is_kept_is_not_there_until_it_is_told_of_again() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(topics=(topic(),), partitions=(state(4),)), now_ms=0)
    view.apply(UpdateBatch(kept_topics=(ID,)), now_ms=0)
    assert view.topic_by_name("orders") is None and view.state(ID, 0) is None
    view.apply(UpdateBatch(topics=(topic(),), partitions=(state(6),)), now_ms=0)
    assert view.topic_by_name("orders") == topic()


def test_an_endpoint_of_an_earlier_incarnation_is_ignored() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(brokers=(endpoint(1, 7),)), now_ms=0)
    view.apply(UpdateBatch(brokers=(endpoint(1, 6, active=False),)), now_ms=0)
    assert view.is_active(1)


def test_clients_are_told_of_active_brokers_and_the_lowest_plays_controller() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(brokers=(endpoint(3), endpoint(1, active=False), endpoint(2))), now_ms=0)
    assert [broker.broker_id for broker in view.active_brokers()] == [2, 3]
    assert view.controller_for_clients() == 2


def test_configs_absent_from_a_delta_are_unchanged() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(full=True, cluster_configs={"a": "1"}), now_ms=0)
    view.apply(UpdateBatch(), now_ms=0)
    assert view.cluster_configs == {"a": "1"}


def test_the_last_setting_to_be_unset_is_gone() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(full=True, cluster_configs={AUTHORIZER: STANDARD_AUTHORIZER}), now_ms=0)
    assert view.is_authorizer_on
    view.apply(UpdateBatch(cluster_configs={}), now_ms=0)
    assert view.cluster_configs == {}
    assert not view.is_authorizer_on


READS, WRITES = "ALLOW alice@* READ", "ALLOW alice@* WRITE"


def test_bindings_of_a_pattern_replace_those_before() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(acls=(of_topic("a", READS), of_topic("b", READS))), now_ms=0)
    view.apply(UpdateBatch(acls=(of_topic("a", WRITES),)), now_ms=0)
    assert view.acls.bindings == (acl(f"{WRITES} TOPIC a"), acl(f"{READS} TOPIC b"))
    view.apply(UpdateBatch(acls=(of_topic("a"),)), now_ms=0)
    assert view.acls.bindings == (acl(f"{READS} TOPIC b"),)
    assert [mark(view.acls, f"alice@::1 READ TOPIC {name}") for name in "ab"] == ["o", "+"]


def test_a_full_batch_replaces_acls_users_and_quotas() -> None:
    view = ClusterView()
    entity = QuotaEntity(user="alice")
    quotas = EntityQuotas(entity=entity, quotas={"producer_byte_rate": 1.0})
    view.apply(UpdateBatch(acls=(of_topic("a", READS),), users=(ALICE,), quotas=(quotas,)), now_ms=0)
    assert (view.users, view.quotas) == ({"alice": ALICE}, {entity: quotas})
    view.apply(UpdateBatch(full=True, acls=(of_topic("b", READS),)), now_ms=0)
    assert view.acls.bindings == (acl(f"{READS} TOPIC b"),)
    assert (view.users, view.quotas) == ({}, {})


def test_an_empty_user_or_entity_is_gone() -> None:
    view = ClusterView()
    entity = QuotaEntity(user="alice")
    quotas = EntityQuotas(entity=entity, quotas={"producer_byte_rate": 1.0})
    view.apply(UpdateBatch(users=(ALICE,), quotas=(quotas,)), now_ms=0)
    view.apply(
        UpdateBatch(users=(UserSecrets(user="alice"),), quotas=(EntityQuotas(entity=entity),)), now_ms=0
    )
    assert (view.users, view.quotas) == ({}, {})


def test_the_settings_of_groups_are_those_that_were_told_last() -> None:
    view = ClusterView()
    first, second = (GroupConfigs(group_id=name, configs={"x": "1"}) for name in "gh")
    view.apply(UpdateBatch(group_configs=(first, second)), now_ms=0)
    view.apply(UpdateBatch(), now_ms=0)
    assert view.group_configs == {"g": first, "h": second}
    view.apply(UpdateBatch(group_configs=(GroupConfigs(group_id="g"),)), now_ms=0)
    assert view.group_configs == {"h": second}
    view.apply(UpdateBatch(full=True), now_ms=0)
    assert view.group_configs == {}


def test_the_version_of_the_acls_grows_with_what_decides_and_with_nothing_else() -> None:
    view = ClusterView()
    versions = []
    for batch in (
        UpdateBatch(acls=(of_topic("a", READS),)),
        UpdateBatch(cluster_configs={SUPER_USERS: "User:root; User:CN=a,O=b;"}),
        UpdateBatch(cluster_configs={SUPER_USERS: "User:root; User:CN=a,O=b", ALLOW_EVERYONE: "true"}),
    ):
        view.apply(batch, now_ms=0)
        versions.append(view.acls.version)
    assert versions == [1, 2, 3]
    assert view.acls.super_users == {"User:root", "User:CN=a,O=b"}
    assert mark(view.acls, "bob@::1 READ TOPIC other") == "O"
    table = view.acls
    view.apply(UpdateBatch(users=(ALICE,)), now_ms=0)
    view.apply(
        UpdateBatch(full=True, acls=(of_topic("a", READS),), cluster_configs=view.cluster_configs), now_ms=0
    )
    assert view.acls is table


def test_users_are_another_dict_whenever_they_change_and_one_without_secrets_is_gone() -> None:
    """Those who ask for users keep what they made of them until the dict is another."""
    view = ClusterView()
    alice, bob = user("alice", "secret"), user("bob", "other")
    view.apply(UpdateBatch(users=(alice, bob)), now_ms=0)
    before = view.users
    view.apply(UpdateBatch(topics=(topic(),)), now_ms=0)
    assert view.users is before
    view.apply(UpdateBatch(users=(UserSecrets(user="alice"),)), now_ms=0)
    assert (before, view.users) == ({"alice": alice, "bob": bob}, {"bob": bob})
    view.apply(UpdateBatch(full=True, users=(alice,)), now_ms=0)
    assert view.users == {"alice": alice}


def test_a_leader_whose_connection_broke_is_not_named_for_a_moment() -> None:
    view = ClusterView()
    view.apply(UpdateBatch(brokers=(endpoint(1), endpoint(2))), now_ms=0)
    view.on_leader_lost(1, 100)
    view.on_leader_lost(1, 900)  # tried again in vain: still the same loss
    assert not view.may_be_named_leader(1, 100)
    assert view.may_be_named_leader(2, 100)
    assert view.may_be_named_leader(1, 100 + SUSPICION_MS_MAX)  # the trouble may be ours alone
    view.on_leader_reached(1)
    view.on_leader_lost(1, 5_000)
    assert not view.may_be_named_leader(1, 5_001)


@pytest.mark.parametrize("is_full", [True, False])
def test_a_fenced_broker_or_coordinator_stays_listed_for_clients_for_a_while(is_full: bool) -> None:
    view = ClusterView()

    def listed(now_ms: int) -> tuple[list[int], list[int]]:
        brokers, coordinators = view.brokers_for_clients(now_ms), view.coordinators_for_clients(now_ms)
        return [node.broker_id for node in brokers], [node.broker_id for node in coordinators]

    def hear(now_ms: int, *nodes: BrokerEndpoint, full: bool = True) -> None:
        of_both = tuple(msgspec.structs.replace(node, broker_id=1000 + node.broker_id) for node in nodes)
        view.apply(UpdateBatch(full=full, brokers=nodes, coordinators=of_both), now_ms=now_ms)

    hear(0, endpoint(1), endpoint(2, active=False))
    assert listed(0) == ([1], [1001]), "those never seen active are never listed"
    hear(500, endpoint(1, active=False), endpoint(2), full=is_full)
    assert not view.may_be_named_leader(1, 500)
    assert listed(500) == ([1, 2], [1001, 1002])
    assert listed(500 + LISTED_AFTER_FENCING_MS) == ([2], [1002])


def test_a_shards_owner_is_told_while_it_lives() -> None:
    view = ClusterView()
    owned = msgspec.structs.replace(state(1), shard=Shard(owner=1001, writer=WriterId(7)))
    view.apply(UpdateBatch(coordinators=(endpoint(1001),), topics=(topic(),), partitions=(owned,)), now_ms=0)
    assert view.shard_owner("orders", 0) == endpoint(1001)
    assert view.shard_owner("orders", 1) is view.shard_owner("others", 0) is None
    view.apply(UpdateBatch(coordinators=(endpoint(1001, active=False),)), now_ms=0)
    assert view.shard_owner("orders", 0) is None
    view.apply(UpdateBatch(removed_coordinators=(1001,)), now_ms=0)
    assert view.coordinators == {}
    view.apply(UpdateBatch(full=True, coordinators=(endpoint(1002),)), now_ms=0)
    assert list(view.coordinators) == [1002]
