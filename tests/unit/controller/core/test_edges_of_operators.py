"""Bounds of what operators do with brokers, leaders and moves, each found by a mutant that no other test
noticed (tests/mutation)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.draft import Draft
from controller.core.events import (
    AdmitBrokers,
    AlterReassignments,
    BrokersAdmitted,
    ElectPreferred,
    ElectUnclean,
    LeadersElected,
    MemberRemoved,
    ReassignmentsAltered,
    ReassignmentTarget,
    Refusal,
    RefusalCode,
    RemoveMember,
)
from controller.core.floor import Floors
from controller.core.loss import LogEnds
from controller.core.options import ControllerOptions
from controller.core.records import (
    Cause,
    Change,
    ClusterRecord,
    MemberRecord,
    PartitionRecord,
    RemoveMemberRecord,
)
from controller.core.settings_table import Setting, Standing
from springtide.contract.partition_state import NO_LEADER, LeaderRecovery
from tests.kit.controller.core_cluster import Cluster, changed, seats, topic_id

KEY = (topic_id(), 0)
CHANGE = Change(cause=Cause.TAKEOVER_REPAIR, at_ms=0)


def admit(*broker_ids: int, dry_run: bool = False) -> AdmitBrokers:
    return AdmitBrokers(wall_ms=0, actor="ann", broker_ids=broker_ids, dry_run=dry_run)


def remove(broker_id: int) -> RemoveMember:
    return RemoveMember(wall_ms=0, actor="ann", member_id=broker_id)


# Brokers.


def test_a_dry_run_admits_nobody() -> None:
    cluster = Cluster()
    cluster.register(4)
    (broker,) = cluster.ask(admit(4, dry_run=True), BrokersAdmitted).brokers
    assert (broker.admitted, cluster.last.records) == (True, ())
    cluster.ask(admit(4), BrokersAdmitted)
    assert [type(record) for record in cluster.last.records] == [MemberRecord]


def test_a_broker_of_which_only_a_worker_above_0_has_registered_is_admitted() -> None:
    cluster = Cluster()
    assert cluster.register(1_000_005, worker_of=5).error == "none"
    (worker,) = cluster.ask(admit(5), BrokersAdmitted).brokers
    assert (worker.broker_id, worker.admitted) == (1_000_005, True)


def test_a_broker_that_is_not_there_is_not_removed() -> None:
    assert Cluster().ask(remove(9), Refusal).code is RefusalCode.UNKNOWN_BROKER


@pytest.mark.parametrize(("silent_ms", "is_fenced"), [(6_001, False), (6_001, True), (0, True), (0, False)])
def test_a_broker_is_removed_when_it_is_fenced_and_silent_and_not_before(
    silent_ms: int, is_fenced: bool
) -> None:
    cluster = Cluster()
    assert cluster.options.grace_ms == 6_000
    cluster.image.brokers[3] = msgspec.structs.replace(cluster.broker(3), fenced=is_fenced)
    cluster.now_ms += silent_ms
    reply = cluster.step(remove(3)).reply
    assert isinstance(reply, MemberRemoved) is (is_fenced and silent_ms > 0)


def test_only_the_highest_epoch_is_kept_when_its_broker_goes_and_nothing_else_is() -> None:
    cluster = Cluster()
    cluster.kill(2, 3)
    written = []
    for broker_id in (2, 3):
        cluster.ask(remove(broker_id), MemberRemoved)
        written.append([type(record) for record in cluster.last.records])
    assert written == [[RemoveMemberRecord], [ClusterRecord, RemoveMemberRecord]]
    assert cluster.pass_ms(10 * cluster.options.grace_ms).reply is None, "its silence matters no more"


# Leaders.


def unclean(cluster: Cluster, broker_id: int, **fields: object) -> ElectUnclean:
    values = {"partition_epoch": cluster.partition().partition_epoch, **fields}
    return ElectUnclean(
        wall_ms=0,
        actor="ann",
        topic_id=topic_id(),
        partition=0,
        broker_id=broker_id,
        **values,  # type: ignore[arg-type]
    )


def test_a_dry_run_of_a_preferred_election_says_who_would_lead() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    before = cluster.image.partitions[KEY] = changed(cluster.partition(), leader=2)
    event = ElectPreferred(wall_ms=0, actor="ann", topic_id=topic_id(), partition=0, dry_run=True)
    elected = cluster.ask(event, LeadersElected)
    assert (elected.dry_run, elected.partitions[0].leader, cluster.partition()) == (True, 1, before)


@pytest.mark.parametrize(
    ("isr", "elr", "fenced", "expected", "recovery"),
    [
        ((), (2,), (1,), (2, (2,), ()), LeaderRecovery.RECOVERED),  # a clean one is possible after all
        ((2,), (), (1, 2), (3, (3,), ()), LeaderRecovery.RECOVERING),  # seats are still to be taken
    ],
)
def test_an_unclean_election_is_clean_where_it_can_be_and_where_not_it_elects(
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    fenced: tuple[int, ...],
    expected: tuple[object, ...],
    recovery: LeaderRecovery,
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    cluster.image.partitions[KEY] = changed(cluster.partition(), leader=NO_LEADER, isr=isr, elr=elr)
    for broker_id in fenced:
        cluster.image.brokers[broker_id] = msgspec.structs.replace(cluster.broker(broker_id), fenced=True)
    (after,) = cluster.ask(unclean(cluster, 3), LeadersElected).partitions
    assert (seats(after), after.recovery) == (expected, recovery)


def test_a_live_broker_without_a_replica_is_never_elected() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    cluster.kill(1, 2, 3)
    assert cluster.ask(unclean(cluster, 4), Refusal).code is RefusalCode.INELIGIBLE_BROKER


# Moves.


def alter(cluster: Cluster, *replicas: int) -> Refusal | None:
    target = ReassignmentTarget(topic_id=topic_id(), partition=0, replicas=replicas)
    event = AlterReassignments(wall_ms=0, actor="ann", targets=(target,))
    return cluster.ask(event, ReassignmentsAltered).results[0].refusal


def test_what_is_wrong_with_a_target_is_said_with_its_bound_and_the_brokers_standing() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4, 5))
    cluster.create((1, 2, 3))
    empty = alter(cluster)
    assert empty is not None and empty.limit == 1
    cluster.kill(4)
    cluster.image.brokers[5] = msgspec.structs.replace(cluster.broker(5), cordoned=True)
    found = [alter(cluster, 1, 2, broker_id) for broker_id in (4, 5)]
    assert [each and each.detail.split(":")[0] for each in found] == [
        "broker 4 is fenced",
        "broker 5 is cordoned",
    ]


def test_a_move_that_changes_its_target_counts_what_it_had_at_first_and_not_the_target_before() -> None:
    cluster = Cluster(ControllerOptions(replication_factor_max=4), brokers=(1, 2, 3, 4, 5))
    cluster.create((1, 2, 3))
    assert alter(cluster, 1, 2, 4) is None
    assert alter(cluster, 1, 2, 5) is None
    assert alter(cluster, 1, 4, 5) is not None


def test_a_new_controller_completes_a_move_that_was_ready_and_the_topic_follows() -> None:
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3))
    assert alter(cluster, 1, 2, 3, 4) is None
    moving = cluster.partition()
    assert moving.is_reassigning
    ready = changed(moving, isr=(1, 2, 3, 4), partition_epoch=moving.partition_epoch + 1)
    cluster.fail_over([*cluster.records, PartitionRecord(state=ready, change=CHANGE)])
    assert (cluster.partition().is_reassigning, cluster.partition().replicas) == (False, (1, 2, 3, 4))
    assert cluster.image.topics[topic_id()].replication_factor == 4


# Drafts and settings.


@pytest.mark.parametrize(
    ("epochs", "leader_epochs", "is_lawful"),
    [(1, 0, True), (1, 1, True), (0, 0, False), (2, 0, False), (1, -1, False)],
)
def test_each_state_is_the_one_after_the_one_before(epochs: int, leader_epochs: int, is_lawful: bool) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    state = cluster.image.partitions[KEY] = changed(cluster.partition(), leader_epoch=5)
    draft = Draft(cluster.image, wall_ms=0, floors=Floors(LogEnds()))
    after = changed(
        state,
        partition_epoch=state.partition_epoch + epochs,
        leader_epoch=state.leader_epoch + leader_epochs,
    )
    if is_lawful:
        draft.write_partition(after, CHANGE)
    else:
        with pytest.raises(AssertionError, match=r"I6|I7"):
            draft.write_partition(after, CHANGE)
    assert [type(record) for record in draft.records] == [PartitionRecord] * is_lawful


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_step_that_has_forbidden_something_has_so_whatever_it_writes_then(is_watched: bool) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "1"})
    draft = Draft(cluster.image, wall_ms=0, floors=Floors(LogEnds()), is_watched=is_watched)
    for minimum in (2, 1):
        state = cluster.partition()
        after = changed(state, min_insync_replicas=minimum, partition_epoch=state.partition_epoch + 1)
        draft.write_partition(after, CHANGE)
    assert draft.forbids is is_watched


@pytest.mark.parametrize(
    ("standing", "found"),
    [
        (Standing.HONOURED, (True, False, False, False, None)),
        (Standing.KEPT, (False, True, False, False, f"{Standing.KEPT.value}: why")),
        (Standing.AT_DEFAULT, (False, False, False, True, f"{Standing.AT_DEFAULT.value}: why")),
        (Standing.REFUSED, (False, False, True, True, f"{Standing.REFUSED.value}: why")),
    ],
)
def test_what_a_settings_standing_means(standing: Standing, found: tuple[object, ...]) -> None:
    one = Setting("int", "1", hint="why", standing=standing)
    assert (one.is_honoured, one.is_kept, one.is_refused, one.is_read_only, one.note) == found
