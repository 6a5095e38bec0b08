from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.events import (
    AdmitBrokers,
    AlterAcls,
    AlterQuotas,
    AlterUsers,
    ConfigureCluster,
    ConfigureGroup,
    RemoveMember,
    UserToAlter,
)
from controller.core.image import ClusterImage
from controller.core.records import Cause, Change, CoordinatorRegistration, MemberRecord
from controller.core.stream import build_range, plan_update
from springtide.contract.administration import QuotasToAlter
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.groups import GroupConfigs
from springtide.contract.partition_state import PartitionState, TopicState
from springtide.contract.security import QuotaEntity, UserSecrets, key_of_unknown_users
from springtide.contract.updates import BrokerEndpoint, PollRequest, UpdateBatch
from springtide.levels import CONSUMER_GROUPS
from springtide.node.cluster_view import ClusterView
from springtide.security.acls.model import AclFilter, PatternType, ResourceType
from tests.kit.controller.core_cluster import Cluster, topic_id
from tests.kit.controller.images import build_update, replay_all
from tests.kit.controller.security import SHA_256
from tests.kit.springtide.acl_lines import acl


def poll(
    cluster: Cluster,
    broker_id: int = 1,
    *,
    applied: int = -1,
    controller_epoch: int | None = None,
    broker_epoch: int | None = None,
) -> PollRequest:
    return PollRequest(
        broker_id=broker_id,
        broker_epoch=BrokerEpoch(
            cluster.broker(broker_id).broker_epoch if broker_epoch is None else broker_epoch
        ),
        applied_controller_epoch=ControllerEpoch(
            cluster.controller_epoch if controller_epoch is None else controller_epoch
        ),
        applied_sequence=applied,
    )


def answer(cluster: Cluster, request: PollRequest, **bounds: Any) -> UpdateBatch:
    batch = build_update(cluster.image, request, controller_epoch=cluster.controller_epoch, **bounds)
    assert batch is not None
    return batch


class Follower:
    """What a broker makes of the batches it is sent."""

    def __init__(self) -> None:
        self.position = -1
        self.partitions: dict[tuple[str, int], PartitionState] = {}
        self.topics: dict[str, TopicState] = {}
        self.brokers: dict[int, BrokerEndpoint] = {}
        self.full_batches = 0

    def catch_up(self, cluster: Cluster, broker_id: int, **bounds: Any) -> int:
        batches = 0
        while True:
            request = poll(cluster, broker_id, applied=self.position)
            batch = build_update(cluster.image, request, controller_epoch=cluster.controller_epoch, **bounds)
            if batch is None:
                return batches
            batches += 1
            self.apply(batch)

    def apply(self, batch: UpdateBatch) -> None:
        if batch.full:
            self.full_batches += 1
            self.partitions, self.topics, self.brokers = {}, {}, {}
        self.brokers |= {b.broker_id: b for b in batch.brokers}
        for broker_id in batch.removed_brokers:
            del self.brokers[broker_id]
        self.topics |= {t.topic_id: t for t in batch.topics}
        for state in batch.partitions:
            assert state.topic_id in self.topics, "a partition before its topic"
            known = self.partitions.get((state.topic_id, state.partition))
            assert known is None or state.partition_epoch >= known.partition_epoch
            self.partitions[state.topic_id, state.partition] = state
        for gone in batch.deleted_topics:
            self.topics.pop(gone, None)
            self.partitions = {k: v for k, v in self.partitions.items() if k[0] != gone}
        self.position = batch.sequence


def test_the_first_poll_gets_everything_and_the_next_waits() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    batch = answer(cluster, poll(cluster))
    assert (batch.full, batch.sequence, batch.broker_epoch) == (True, cluster.image.sequence, 1)
    assert batch.partitions == (cluster.partition(),)
    assert batch.topics == (cluster.image.topics[topic_id()],)
    assert [(b.broker_id, b.active) for b in batch.brokers] == [(1, True), (2, True), (3, True)]
    following = poll(cluster, applied=batch.sequence)
    assert build_update(cluster.image, following, controller_epoch=1) is None


@pytest.mark.parametrize(
    ("broker_epoch", "broker_id", "error"),
    [(0, 1, "stale_broker_epoch"), (1, 9, "broker_not_registered")],
)
def test_strangers_and_earlier_incarnations_get_an_error(
    broker_epoch: int, broker_id: int, error: str
) -> None:
    cluster = Cluster()
    request = PollRequest(broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch))
    assert build_update(cluster.image, request, controller_epoch=1) == UpdateBatch(
        error=error,  # type: ignore[arg-type]
        controller_epoch=ControllerEpoch(1),
    )


def test_several_changes_of_a_partition_arrive_as_its_latest_state() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), (2, 3, 1))
    position = cluster.image.sequence
    cluster.propose(1, 2)
    cluster.propose(1, 2, 3)
    batch = answer(cluster, poll(cluster, applied=position))
    assert (batch.full, batch.sequence) == (False, position + 2)
    assert batch.partitions == (cluster.partition(),)
    assert (batch.topics, batch.brokers) == ((), ())


STALE = [
    ("a new controller", {"controller_epoch": 0}),
    ("a position from the future", {"applied": 10**6}),
    ("no position", {"applied": -1}),
]


@pytest.mark.parametrize(("story", "fields"), STALE, ids=[s for s, _ in STALE])
def test_a_position_that_means_nothing_here_gets_the_full_state(story: str, fields: dict[str, int]) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    request = poll(cluster, **{"applied": cluster.image.sequence, **fields})
    assert answer(cluster, request).full, story


def test_a_new_incarnation_gets_the_full_state_whatever_position_it_claims() -> None:
    cluster = Cluster()
    position = cluster.image.sequence
    cluster.kill(1)
    cluster.register(1, "b", last_shutdown=cluster.broker(1).last_shutdown)
    assert answer(cluster, poll(cluster, applied=position)).full


def test_a_broker_that_fell_out_of_the_change_log_gets_the_full_state() -> None:
    cluster = Cluster()
    image = ClusterImage(change_log_entries_max=4)
    replay_all(image, cluster.records)
    position = image.sequence
    cluster.create(*[(1, 2, 3)] * 8)
    replay_all(image, cluster.last.records)
    request = poll(cluster, applied=position)
    late = build_update(image, request, controller_epoch=1)
    assert late is not None
    assert late.full
    assert position < image.change_log_start < image.sequence
    request = poll(cluster, applied=image.change_log_start)
    near = build_update(image, request, controller_epoch=1)
    assert near is not None
    assert not near.full
    assert image.changes_since(image.sequence) == []


def test_an_image_rebuilt_under_one_epoch_understands_no_position_it_gave_out_before() -> None:
    cluster = Cluster()
    old = cluster.image.sequence
    image = ClusterImage(start_sequence=old + 1)
    replay_all(image, cluster.records)
    update = plan_update(image, poll(cluster, applied=old), controller_epoch=ControllerEpoch(1))
    assert update is not None
    assert update.full


def test_a_long_delta_comes_in_bounded_parts_in_order() -> None:
    cluster = Cluster()
    cluster.create(*[(1, 2, 3), (2, 3, 1)] * 10)
    follower = Follower()
    follower.catch_up(cluster, 3)
    cluster.kill(1)
    request = poll(cluster, 3, applied=follower.position)
    first = answer(cluster, request, partitions_max=7)
    assert (len(first.partitions), first.full) == (7, False)
    assert follower.catch_up(cluster, 3, partitions_max=7) == 3
    assert follower.partitions == cluster.image.partitions
    assert (follower.full_batches, follower.position) == (1, cluster.image.sequence)


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_a_bounded_delta_counts(is_removed: bool) -> None:
    """A partition once, a topic that is there for its partitions, one that ends for nothing."""
    cluster = Cluster()
    position = cluster.image.sequence

    def covers(entries_max: int) -> int:
        request = poll(cluster, applied=position)
        update = plan_update(
            cluster.image, request, controller_epoch=ControllerEpoch(1), partitions_max=entries_max
        )
        assert update is not None
        return update.to_sequence - position

    for number in (0, 1):
        cluster.create((1, 2, 3), (1, 2, 3), (1, 2, 3), number=number)
    assert [covers(entries_max) for entries_max in (4, 6, 7)] == [4, 4, 5]
    position = cluster.image.sequence
    cluster.delete()
    if is_removed:
        cluster.beat_all()
        assert topic_id() not in cluster.image.topics
    gone = cluster.image.sequence - position
    for isr in ((1, 2), (1, 2, 3), (1, 2)):
        cluster.propose(*isr, base=cluster.partition(number=1))
    cluster.propose(1, 2, base=cluster.partition(1, number=1))
    cluster.propose(1, 2, base=cluster.partition(2, number=1))
    assert [covers(entries_max) - gone for entries_max in (1, 2, 3)] == [1, 4, 5]
    delta = answer(cluster, poll(cluster, applied=position))
    assert (delta.deleted_topics, len(delta.partitions)) == ((topic_id(),), 3)


def test_a_batch_says_how_many_records_the_cluster_ever_had() -> None:
    cluster = Cluster()
    cluster.image.records_before = 100
    for applied in (-1, cluster.image.sequence - 1):
        assert answer(cluster, poll(cluster, applied=applied)).records == 100 + cluster.image.sequence


def test_a_deleted_topic_is_named_until_every_replica_has_acknowledged() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    position = cluster.image.sequence
    cluster.delete()
    delta = answer(cluster, poll(cluster, applied=position))
    assert (delta.deleted_topics, delta.topics, delta.partitions) == ((topic_id(),), (), ())
    full = answer(cluster, poll(cluster))
    assert (full.deleted_topics, full.topics, full.partitions) == ((topic_id(),), (), ())
    cluster.beat_all()
    assert answer(cluster, poll(cluster)).deleted_topics == ()


def test_brokers_are_told_who_joined_died_and_went_but_not_who_waits() -> None:
    cluster = Cluster()
    cluster.register(4)
    position = cluster.image.sequence
    assert [b.broker_id for b in answer(cluster, poll(cluster)).brokers] == [1, 2, 3]
    cluster.kill(3)
    cluster.step(RemoveMember(wall_ms=0, actor="ann", member_id=3))
    cluster.kill(2)
    cluster.step(AdmitBrokers(wall_ms=0, actor="ann", broker_ids=(4,)))
    delta = answer(cluster, poll(cluster, applied=position))
    assert delta.removed_brokers == (3,)
    assert sorted((b.broker_id, b.active) for b in delta.brokers) == [(2, False), (4, False)]


def test_a_delta_carries_the_clusters_defaults_whole_when_they_have_changed() -> None:
    cluster = Cluster()
    position = cluster.image.sequence
    configs: dict[str, str | None] = {"log.retention.ms": "5"}
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs=configs))
    assert answer(cluster, poll(cluster, applied=position)).cluster_configs == configs
    position = cluster.image.sequence
    configs = {"log.retention.ms": None}
    cluster.step(ConfigureCluster(wall_ms=0, actor="ann", configs=configs))
    assert answer(cluster, poll(cluster, applied=position)).cluster_configs == {}
    position = cluster.image.sequence
    cluster.kill(2)
    assert answer(cluster, poll(cluster, applied=position)).cluster_configs is msgspec.UNSET


def test_partitions_are_told_with_their_topic_even_when_records_are_published_one_by_one() -> None:
    cluster = Cluster()
    published = ClusterImage()
    replay_all(published, cluster.records)
    position = published.sequence
    cluster.create((1, 2, 3), (2, 3, 1))
    follower = Follower()
    follower.apply(answer(cluster, poll(cluster)))
    told: list[tuple[int, int]] = []
    for record in cluster.last.records:
        published.replay(record)
        request = poll(cluster, applied=position)
        batch = build_update(published, request, controller_epoch=1)
        assert batch is not None
        told.append((len(batch.topics), len(batch.partitions)))
        position = batch.sequence
    assert told == [(0, 0), (0, 0), (1, 2)]


def test_equal_ranges_have_equal_content_for_every_broker() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    position = cluster.image.sequence
    cluster.propose(1, 2)
    ranges = {
        plan_update(cluster.image, poll(cluster, b, applied=position), controller_epoch=ControllerEpoch(1))
        for b in (1, 2, 3)
    }
    (update,) = ranges
    assert update is not None
    contents = [
        build_range(cluster.image, update, controller_epoch=ControllerEpoch(1), broker_epoch=BrokerEpoch(7))
        for _ in range(2)
    ]
    assert contents[0] == contents[1]


def test_a_bounded_delta_never_brings_a_partition_before_its_topic() -> None:
    cluster = Cluster()
    follower = Follower()
    follower.catch_up(cluster, 1)
    cluster.create(*[(1, 2, 3)] * 10)
    cluster.create((1, 2, 3), number=1)
    assert follower.catch_up(cluster, 1, partitions_max=4) > 1
    assert follower.partitions == cluster.image.partitions
    assert follower.full_batches == 1


def test_a_delta_has_the_security_data_that_changed_and_a_full_batch_has_all() -> None:
    cluster = Cluster()
    first, second = acl("ALLOW alice@* READ TOPIC a"), acl("ALLOW alice@* READ TOPIC b")
    of_second = AclFilter(
        resource_type=ResourceType.TOPIC, resource_name="b", pattern_type=PatternType.LITERAL
    )
    alice = QuotaEntity(user="alice")
    cluster.step(AlterAcls(wall_ms=0, actor="ann", added=(first, second)))
    position = cluster.image.sequence
    cluster.step(AlterAcls(wall_ms=0, actor="ann", removed=(of_second,)))
    users = (UserToAlter(user="alice", upsertions=(SHA_256,)),)
    cluster.step(AlterUsers(wall_ms=0, actor="ann", users=users))
    for rate in (1.0, None):
        change = QuotasToAlter(entity=alice, quotas={"producer_byte_rate": rate})
        cluster.step(AlterQuotas(wall_ms=0, actor="ann", changes=(change,)))
    delta = answer(cluster, poll(cluster, applied=position))
    view = ClusterView()
    for batch in (answer(cluster, poll(cluster)), delta):
        view.apply(batch, now_ms=0)
        assert view.acls.bindings == (first,)
        assert view.users == {"alice": UserSecrets(user="alice", scram=(SHA_256,))}
        assert view.quotas == {}
    assert [acls.bindings for acls in delta.acls] == [()]
    since = answer(cluster, poll(cluster, applied=position - 2))
    assert [acls.bindings for acls in since.acls] == [(first,), ()]
    assert [len(told) for told in (delta.users, delta.quotas)] == [1, 1]
    later = answer(cluster, poll(cluster, applied=position + 3))
    assert (later.acls, later.users, len(later.quotas)) == ((), (), 1)
    change = QuotasToAlter(entity=alice, quotas={"producer_byte_rate": 2.0})
    cluster.step(AlterQuotas(wall_ms=0, actor="ann", changes=(change,)))
    (told,) = answer(cluster, poll(cluster, applied=position)).quotas
    assert told.quotas == {"producer_byte_rate": 2.0}


def alter_user(cluster: Cluster, user: str) -> None:
    users = (UserToAlter(user=user, upsertions=(SHA_256,)),)
    cluster.step(AlterUsers(wall_ms=0, actor="ann", users=users))


def names_of(view: ClusterView) -> set[str]:
    return set(view.users)


def test_a_process_that_only_registered_is_told_no_secrets_and_all_of_them_once_it_is_admitted() -> None:
    cluster = Cluster()
    alter_user(cluster, "alice")
    cluster.register(4)
    view = ClusterView()
    batch = answer(cluster, poll(cluster, 4))
    view.apply(batch, now_ms=0)
    assert (batch.full, names_of(view), set(view.brokers)) == (True, set(), {1, 2, 3})
    alter_user(cluster, "bob")
    delta = answer(cluster, poll(cluster, 4, applied=batch.sequence))
    assert (delta.full, delta.users) == (False, ())
    cluster.step(AdmitBrokers(broker_ids=(4,), actor="ann", wall_ms=0))
    alter_user(cluster, "carol")
    view.apply(answer(cluster, poll(cluster, 4, applied=delta.sequence)), now_ms=0)
    assert names_of(view) == {"alice", "bob", "carol"}
    alter_user(cluster, "dave")
    delta = answer(cluster, poll(cluster, 4, applied=cluster.image.sequence - 1))
    assert (delta.full, [told.user for told in delta.users]) == (False, ["dave"])


def test_the_key_of_unknown_users_is_made_once_and_told_to_admitted_members_but_is_no_user() -> None:
    cluster = Cluster()
    view = ClusterView()
    for number, user in enumerate(("alice", "7")):
        asked = (UserToAlter(user=user, upsertions=(SHA_256,)),)
        key, position = bytes([number]) * 32, cluster.image.sequence
        cluster.step(AlterUsers(wall_ms=0, actor="ann", users=asked, salt_key=key, dry_run=True))
        cluster.step(AlterUsers(wall_ms=0, actor="ann", users=asked, salt_key=key))
        view.apply(answer(cluster, poll(cluster, applied=position)), now_ms=0)
        assert view.users[user] == UserSecrets(user=user, scram=(SHA_256,))
    cluster.step(
        AlterUsers(wall_ms=0, actor="ann", users=(UserToAlter(user="alice", deletions=(SHA_256.mechanism,)),))
    )
    delta = answer(cluster, poll(cluster, applied=cluster.image.sequence - 1))
    assert delta.users == (UserSecrets(user="alice"),)
    cluster.register(4)
    whole, without = ClusterView(), ClusterView()
    whole.apply(answer(cluster, poll(cluster)), now_ms=0)
    without.apply(answer(cluster, poll(cluster, 4)), now_ms=0)
    assert whole.unknown_users == view.unknown_users == key_of_unknown_users(bytes(32))
    assert (without.unknown_users, without.users) == (None, {})
    assert (names_of(whole), set(cluster.image.users)) == ({"7"}, {"7"})


def test_an_admission_alone_costs_a_full_batch_only_where_there_are_secrets_and_only_once() -> None:
    cluster = Cluster()
    for broker_id in (4, 5, 6):
        cluster.register(broker_id)
    is_full = []
    for broker_id in (4, 5, 6):
        if broker_id > 4:
            asked = UserToAlter(user="alice", upsertions=(SHA_256,))
            cluster.step(AlterUsers(wall_ms=0, actor="ann", users=(asked,), salt_key=bytes(32)))
        if broker_id > 5:
            asked = UserToAlter(user="alice", deletions=(SHA_256.mechanism,))
            cluster.step(AlterUsers(wall_ms=0, actor="ann", users=(asked,)))
        position = cluster.image.sequence
        cluster.step(AdmitBrokers(broker_ids=(broker_id,), actor="ann", wall_ms=0))
        is_full.append(answer(cluster, poll(cluster, broker_id, applied=position)).full)
        position = cluster.image.sequence
        cluster.create((1, 2, 3), number=broker_id)
        is_full.append(answer(cluster, poll(cluster, broker_id, applied=position)).full)
    assert is_full == [False, False, True, False, True, False]


def test_a_coordinator_that_only_registered_is_told_no_secrets() -> None:
    cluster = Cluster()
    alter_user(cluster, "alice")
    coordinator = CoordinatorRegistration(
        coordinator_id=1001,
        coordinator_epoch=BrokerEpoch(9),
        incarnation_id="x",
        host="c",
        port=1,
        fenced=True,
    )
    change = Change(cause=Cause.COORDINATOR_REGISTERED, at_ms=0, actor="ann")
    cluster.image.replay(MemberRecord(registration=coordinator, change=change))
    request = PollRequest(broker_id=1001, broker_epoch=BrokerEpoch(9))
    assert answer(cluster, request).users == ()
    admitted = msgspec.structs.replace(coordinator, admitted=True)
    position = cluster.image.sequence
    cluster.image.replay(MemberRecord(registration=admitted, change=change))
    told = answer(cluster, msgspec.structs.replace(request, applied_sequence=position))
    assert [secrets.user for secrets in told.users] == ["alice"]
    assert [(one.broker_id, one.may_join) for one in told.coordinators] == [(1001, False)]


def test_settings_of_groups_are_told_as_they_change() -> None:
    cluster = Cluster()
    cluster.image.level = CONSUMER_GROUPS.since
    for value in ("50000", "60000", None):
        configs = {"consumer.session.timeout.ms": value}
        cluster.step(ConfigureGroup(wall_ms=0, actor="ann", group_id="g", configs=configs))
        position = cluster.image.sequence - 1
        left = {name: set_to for name, set_to in configs.items() if set_to is not None}
        told = GroupConfigs(group_id="g", configs=left)
        assert answer(cluster, poll(cluster, applied=position)).group_configs == (told,)
        full = answer(cluster, poll(cluster)).group_configs
        assert full == (msgspec.UNSET if value is None else (told,))
    assert answer(cluster, poll(cluster, applied=position - 3)).group_configs == (told,)
