"""Bounds of the controller's rules, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import msgspec
import pytest

from controller.contract.errors import ControllerError
from controller.contract.holdings import Holdings
from controller.contract.lag_report import LagReport
from controller.contract.partition_state import PartitionState
from controller.contract.session import Witness
from controller.core.election import can_lead_preferred
from controller.core.events import MetadataRecovered, RecoverMetadata, Report
from controller.core.isr import advance, check_proposal, is_eligible_member
from controller.core.recovery import PRODUCER_IDS_MARGIN, states_by_partition
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster


def created() -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    return cluster


def holding(cluster: Cluster, *states: PartitionState) -> Holdings:
    witness = Witness(cluster_id=CLUSTER_ID, controller_epoch=9, lineage="lost", records=500)
    identity = msgspec.structs.replace(cluster.request(1), cluster_id=CLUSTER_ID, witness=witness)
    return Holdings(
        identity=identity,
        has_view=True,
        broker_ids=(1, 2, 3),
        broker_epoch_max=70,
        topics=(),
        states=states,
        logs=(),
    )


def test_of_two_states_that_a_broker_holds_of_a_partition_the_later_one_counts() -> None:
    """A partition was set aside, and came again: in whichever order both are told."""
    cluster = created()
    old = cluster.partition()
    new = msgspec.structs.replace(old, partition_epoch=old.partition_epoch + 1, isr=(1,))
    for told in ((old, new), (new, old)):
        assert states_by_partition({1: holding(cluster, *told)}) == {(old.topic_id, 0): {1: new}}


def test_recovered_rows_hand_out_no_producer_id_that_the_lost_ones_may_have_handed_out() -> None:
    cluster = created()
    held = holding(cluster, cluster.partition())
    report = LagReport(broker_id=1, broker_epoch=60, witness=held.identity.witness, holdings=held)
    before = cluster.image.next_producer_id
    cluster.step(Report(wall_ms=0, request=report))
    cluster.ask(RecoverMetadata(wall_ms=0, actor="ann", gone_brokers=(2, 3)), MetadataRecovered)
    assert cluster.image.next_producer_id == before + PRODUCER_IDS_MARGIN


@pytest.mark.parametrize(("leader_epochs", "partition_epochs"), [(1, 0), (0, 1), (1, -1)])
def test_a_leader_that_knows_more_than_this_controller_is_not_fenced(
    leader_epochs: int, partition_epochs: int
) -> None:
    """KAFKA-14154."""
    cluster = created()
    state = cluster.partition()
    proposal = msgspec.structs.replace(
        cluster.proposal(1, 2, 3),
        leader_epoch=state.leader_epoch + leader_epochs,
        partition_epoch=state.partition_epoch + partition_epochs,
    )
    assert check_proposal(cluster.image, state, 1, proposal) is ControllerError.NOT_CONTROLLER


def test_a_broker_that_nobody_registered_is_no_member() -> None:
    cluster = created()
    state = cluster.partition()
    assert not is_eligible_member(cluster.image, state, 9, 1)
    broker = cluster.broker(2)
    assert is_eligible_member(cluster.image, state, 2, broker.broker_epoch)
    for unfit in ({"fenced": True}, {"admitted": False}):
        cluster.image.brokers[2] = msgspec.structs.replace(broker, **unfit)
        assert not is_eligible_member(cluster.image, state, 2, broker.broker_epoch)


@pytest.mark.parametrize(
    ("changes", "may_join"),
    [({}, True), ({"admitted": False}, False), ({"shutting_down": True}, False)],
)
def test_a_leader_that_shuts_down_waits_for_no_broker_that_can_not_join(
    changes: dict[str, bool], may_join: bool
) -> None:
    cluster = created()
    cluster.image.brokers[2] = msgspec.structs.replace(cluster.broker(2), **changes)
    sessions = cluster.machine._sessions
    assert sessions._may_join_an_isr(cluster.image, 2, cluster.now_ms) == may_join
    assert not sessions._may_join_an_isr(cluster.image, 9, cluster.now_ms)


@pytest.mark.parametrize(
    ("changes", "may_lead"),
    [
        ({}, True),
        ({"adding_replicas": (4,)}, False),
        ({"removing_replicas": (3,)}, False),
        ({"leader": 1}, False),
        ({"isr": (2, 3)}, False),
    ],
)
def test_leaders_are_sent_home_only_where_no_replica_is_on_its_way(
    changes: dict[str, object], may_lead: bool
) -> None:
    cluster = created()
    state = msgspec.structs.replace(cluster.partition(), leader=2)
    assert state.preferred_leader == 1
    assert can_lead_preferred(cluster.image, msgspec.structs.replace(state, **changes)) == may_lead
    cluster.image.brokers[1] = msgspec.structs.replace(cluster.broker(1), shutting_down=True)
    assert not can_lead_preferred(cluster.image, state)


def test_a_new_replica_that_can_not_vouch_for_its_log_is_new_no_more() -> None:
    state = msgspec.structs.replace(created().partition(), new_replicas=(2, 3))
    after = advance(state, isr=(1, 3), leader=1, excluded=2)
    assert after is not None
    assert (after.new_replicas, after.isr) == ((3,), (1, 3))
