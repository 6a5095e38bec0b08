"""ZooKeeper that went back shows by what brokers were told, and stops every decision (section 11)."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.effects import Alarm, AlarmCode, AlarmKey
from controller.core.events import (
    AllocateProducerIds,
    AppliedReply,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    CreateTopic,
    Event,
    Heartbeat,
    NameWriter,
    Refusal,
    RefusalCode,
    RegisterMember,
    Report,
    Tick,
)
from controller.core.witnesses import TermStart, evidence_in, evidence_in_rows, reply_of_halted
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse
from springtide.contract.partition_state import WRITER_IDS, WriterId
from springtide.contract.session import HeartbeatRequest, HeartbeatResponse, RegisterResponse, Witness
from springtide.contract.updates import (
    AHEAD,
    ApplyFailure,
    NameWriterRequest,
    ProducerIdsRequest,
    ProducerIdsResponse,
)
from springtide.levels import Level
from tests.kit.controller.coordinator_cluster import OFFSETS_ID, CoordinatorCluster
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster, topic_id

WENT_BACK = ControllerError.METADATA_WENT_BACK
TERMS = (
    TermStart(controller_epoch=ControllerEpoch(3), lineage="three", records=10),
    TermStart(controller_epoch=ControllerEpoch(5), lineage="five", records=20),
    TermStart(controller_epoch=ControllerEpoch(6), lineage="six", records=30),
)


def cluster_in_term_six() -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.machine.terms = TERMS
    return cluster


def heard(epoch: int, lineage: str = "", records: int = -1, *, cluster_id: str = CLUSTER_ID) -> Witness:
    return Witness(
        cluster_id=cluster_id, controller_epoch=ControllerEpoch(epoch), lineage=lineage, records=records
    )


def heartbeat(
    cluster: Cluster, witness: Witness | None, *, epochs_above: int = 0, who: str = "a"
) -> Heartbeat:
    request = HeartbeatRequest(
        broker_id=1,
        broker_epoch=BrokerEpoch(cluster.broker(1).broker_epoch + epochs_above),
        incarnation_id=f"1-{who}",
        witness=witness,
    )
    return Heartbeat(wall_ms=0, received_ms=cluster.now_ms, request=request)


def poll(cluster: Cluster, *failures: ApplyFailure, witness: Witness | None = None) -> BrokerApplied:
    return BrokerApplied(
        wall_ms=0,
        broker_id=1,
        broker_epoch=cluster.broker(1).broker_epoch,
        controller_epoch=ControllerEpoch(1),
        sequence=0,
        failures=failures,
        witness=witness,
    )


@pytest.mark.parametrize(
    "witness",
    [heard(7), heard(6, "another six"), heard(3, "another three"), heard(5, "five", 31), heard(4, "", 21)],
    ids=[
        "a higher epoch",
        "my epoch twice",
        "an earlier epoch twice",
        "records after a term",
        "and in a gap",
    ],
)
def test_what_a_broker_was_told_and_zookeeper_lacks_stops_every_decision(witness: Witness) -> None:
    cluster = cluster_in_term_six()
    request = msgspec.structs.replace(cluster.request(1, "b"), cluster_id=CLUSTER_ID, witness=witness)
    report = LagReport(broker_id=1, broker_epoch=cluster.broker(1).broker_epoch, witness=witness)
    events: list[Event] = [
        heartbeat(cluster, witness),
        RegisterMember(wall_ms=0, request=request),
        poll(cluster, witness=witness),
        Report(wall_ms=0, request=report),
    ]
    for event in events:
        found = cluster_in_term_six()
        step = found.step(event)
        assert isinstance(step.reply, HeartbeatResponse | RegisterResponse | AppliedReply | LagReportResponse)
        assert step.reply.error is WENT_BACK
        (alarm,) = step.effects
        assert isinstance(alarm, Alarm)
        assert alarm.key == AlarmKey(code=AlarmCode.METADATA_WENT_BACK)
        assert found.machine.alarms()[0] == alarm
        assert step.records == ()


@pytest.mark.parametrize(
    "witness",
    [
        None,
        heard(6, "six", 999),
        heard(5, "five", 30),
        heard(5, "", 30),
        heard(4, "four", 20),
        heard(2, "two", 10),
        heard(9, "nine", cluster_id="another cluster's id.."),
    ],
    ids=[
        "none",
        "me",
        "my predecessor",
        "no lineage",
        "a term that wrote nothing",
        "forgotten",
        "a stranger",
    ],
)
def test_what_zookeeper_still_holds_stops_nothing(witness: Witness | None) -> None:
    cluster = cluster_in_term_six()
    reply = cluster.ask(heartbeat(cluster, witness), HeartbeatResponse)
    assert (reply.error, cluster.machine.went_back) == (ControllerError.NONE, None)


def test_a_broker_epoch_that_nobody_minted_or_two_processes_have_is_evidence() -> None:
    for epochs_above, who in ((9, "a"), (0, "b")):
        cluster = cluster_in_term_six()
        event = heartbeat(cluster, heard(5, "five", 30), epochs_above=epochs_above, who=who)
        assert cluster.ask(event, HeartbeatResponse).error is WENT_BACK
    cluster = cluster_in_term_six()
    request = cluster.request(1, "b", previous_broker_epoch=99)
    request = msgspec.structs.replace(request, cluster_id=CLUSTER_ID)
    answer = cluster.ask(RegisterMember(wall_ms=0, request=request), RegisterResponse)
    assert (answer.error, answer.detail) == (
        WENT_BACK,
        "broker 1 was given broker epoch 99: the highest is 3",
    )


def test_a_state_above_its_row_is_evidence_and_one_that_a_batch_did_not_reach_is_not() -> None:
    cluster = cluster_in_term_six()
    row = cluster.partition()
    for above, epochs in ((0, 0), (1, 0), (0, 1)):
        held = ApplyFailure(
            topic_id=row.topic_id,
            partition=0,
            partition_epoch=PartitionEpoch(row.partition_epoch + above),
            leader_epoch=LeaderEpoch(row.leader_epoch + epochs),
            code=AHEAD,
        )
        found = cluster_in_term_six()
        error = found.ask(poll(found, held), AppliedReply).error
        assert error is (WENT_BACK if above or epochs else ControllerError.NONE)
        if error is ControllerError.NONE:
            assert [effect for effect in found.last.effects if isinstance(effect, Alarm)] == []


@pytest.mark.parametrize("field", ["partition_epoch", "leader_epoch"])
def test_a_leader_that_proposes_upon_what_the_row_never_was_is_evidence(field: str) -> None:
    cluster = cluster_in_term_six()
    good = cluster.proposal(1)
    wrong = msgspec.structs.replace(good, **{field: getattr(good, field) + 1})
    report = LagReport(broker_id=1, broker_epoch=cluster.broker(1).broker_epoch, proposals=(wrong,))
    assert cluster.ask(Report(wall_ms=0, request=report), LagReportResponse).error is WENT_BACK


def test_a_halted_controller_neither_fences_nor_elects_nor_takes_an_operators_word() -> None:
    cluster = cluster_in_term_six()
    cluster.step(heartbeat(cluster, heard(7)))
    cluster.now_ms += 3_600_000
    assert cluster.step(Tick(wall_ms=0)).records == ()
    assert cluster.machine.next_deadline_ms() is None
    dead = BrokerProvenDead(wall_ms=0, broker_id=1, broker_epoch=cluster.broker(1).broker_epoch)
    assert cluster.ask(dead, BrokerFenceReply) == BrokerFenceReply(fenced=False)
    create = CreateTopic(
        wall_ms=0, actor="ann", topic_id=topic_id(7), topic="new", partitions=1, replication_factor=3
    )
    assert cluster.ask(create, Refusal).code is RefusalCode.METADATA_WENT_BACK
    assert cluster.last.records == ()


def test_a_controller_epoch_below_that_of_the_clusters_rows_is_evidence_by_itself() -> None:
    cluster = cluster_in_term_six()
    step = cluster.fail_over(terms=(*TERMS, TermStart(controller_epoch=ControllerEpoch(2), lineage="two")))
    assert step.records == ()
    assert cluster.machine.went_back is not None


@pytest.mark.parametrize(("before", "mine", "is_evidence"), [(3, 3, True), (4, 3, True), (2, 3, False)])
def test_two_terms_never_have_one_controller_epoch(before: int, mine: int, is_evidence: bool) -> None:
    terms = (
        TermStart(controller_epoch=ControllerEpoch(before)),
        TermStart(controller_epoch=ControllerEpoch(mine)),
    )
    assert (evidence_in_rows(terms) is not None) is is_evidence


def test_a_record_that_a_broker_was_told_of_before_the_first_that_there_is_is_evidence() -> None:
    cluster = cluster_in_term_six()
    terms = (
        TermStart(controller_epoch=ControllerEpoch(5), records=0),
        TermStart(controller_epoch=ControllerEpoch(6), records=1),
    )
    for records, is_evidence in ((0, False), (1, True)):
        event = heartbeat(cluster, heard(4, "", records))
        assert (evidence_in(cluster.image, terms, event) is not None) is is_evidence


@pytest.mark.parametrize(
    ("cluster_id", "epoch", "is_evidence"),
    [(CLUSTER_ID, 3, False), (CLUSTER_ID, 4, True), ("another cluster's id..", 4, False)],
)
def test_directories_name_an_epoch_that_was_minted_or_another_cluster(
    cluster_id: str, epoch: int, is_evidence: bool
) -> None:
    cluster = cluster_in_term_six()
    request = cluster.request(1, "b", previous_broker_epoch=epoch)
    event = RegisterMember(wall_ms=0, request=msgspec.structs.replace(request, cluster_id=cluster_id))
    assert (evidence_in(cluster.image, TERMS, event) is not None) is is_evidence


@pytest.mark.parametrize(
    ("sender", "epochs_above", "who", "witness", "is_evidence"),
    [
        (1, 0, "a", heard(6, "six"), False),
        (1, 0, "b", heard(6, "six"), True),
        (1, 2, "b", heard(6, "six"), False),  # a later broker epoch, of which the row tells nothing
        (3, -2, "b", heard(6, "six"), False),  # an incarnation that was replaced
        (3, 0, "a", heard(6, "six"), False),  # the highest that there is
        (3, 1, "a", heard(6, "six"), True),
        (3, 1, "a", heard(6, "six", cluster_id="another cluster's id.."), False),
        (9, 0, "a", heard(6, "six"), False),
    ],
)
def test_a_broker_epoch_is_evidence_where_it_was_never_given_or_given_twice(
    sender: int, epochs_above: int, who: str, witness: Witness, is_evidence: bool
) -> None:
    cluster = cluster_in_term_six()
    request = HeartbeatRequest(
        broker_id=sender,
        broker_epoch=BrokerEpoch(epochs_above + (1 if sender == 9 else cluster.broker(sender).broker_epoch)),
        incarnation_id=f"{sender}-{who}",
        witness=witness,
    )
    event = Heartbeat(wall_ms=0, received_ms=cluster.now_ms, request=request)
    assert (evidence_in(cluster.image, TERMS, event) is not None) is is_evidence


@pytest.mark.parametrize(
    ("sender", "epochs_above", "code", "number", "is_evidence"),
    [
        (1, 0, AHEAD, 0, True),
        (1, 1, AHEAD, 0, False),
        (9, 0, AHEAD, 0, False),
        (1, 0, AHEAD, 9, False),
        (1, 0, "a", 0, False),
        (1, 0, "log_missing", 0, False),
    ],
)
def test_only_a_registered_broker_that_holds_a_later_state_is_evidence(
    sender: int, epochs_above: int, code: str, number: int, is_evidence: bool
) -> None:
    cluster = cluster_in_term_six()
    event = BrokerApplied(
        wall_ms=0,
        broker_id=sender,
        broker_epoch=BrokerEpoch(cluster.broker(1).broker_epoch + epochs_above),
        controller_epoch=ControllerEpoch(1),
        sequence=0,
        failures=(
            ApplyFailure(
                topic_id=topic_id(number),
                partition=0,
                partition_epoch=PartitionEpoch(9),
                leader_epoch=LeaderEpoch(9),
                code=code,
            ),
        ),
    )
    assert (evidence_in(cluster.image, TERMS, event) is not None) is is_evidence


@pytest.mark.parametrize(
    ("sender", "epochs_above", "partition", "is_evidence"),
    [(1001, 0, 0, True), (1002, 0, 0, False), (1001, 1, 0, False), (1001, 0, 999, False)],
)
def test_a_writer_to_come_is_evidence_if_a_registered_coordinator_found_it(
    sender: int, epochs_above: int, partition: int, is_evidence: bool
) -> None:
    cluster = CoordinatorCluster(1001)
    request = NameWriterRequest(
        broker_id=sender,
        broker_epoch=BrokerEpoch(cluster.image.coordinators[1001].coordinator_epoch + epochs_above),
        topic_id=OFFSETS_ID,
        partition=partition,
        found=WriterId(WRITER_IDS.start + cluster.shard_state().partition_epoch + 1),
    )
    found = evidence_in(cluster.image, cluster.machine.terms, NameWriter(wall_ms=0, request=request))
    assert (found is not None) is is_evidence


def test_a_halted_controller_hands_out_no_producer_ids() -> None:
    request = ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1))
    event = AllocateProducerIds(wall_ms=0, request=request)
    reply = reply_of_halted(event, evidence="why", controller_epoch=ControllerEpoch(6))
    assert reply == ProducerIdsResponse(error=WENT_BACK, controller_epoch=ControllerEpoch(6))


@pytest.mark.parametrize(
    ("sender", "epochs_above", "is_evidence"), [(1, 0, True), (1, 1, False), (9, 0, False)]
)
def test_a_proposal_of_an_incarnation_that_is_not_registered_is_no_evidence(
    sender: int, epochs_above: int, is_evidence: bool
) -> None:
    cluster = cluster_in_term_six()
    wrong = msgspec.structs.replace(cluster.proposal(1), partition_epoch=9)
    epoch = cluster.broker(1).broker_epoch + epochs_above
    request = LagReport(broker_id=sender, broker_epoch=BrokerEpoch(epoch), proposals=(wrong,))
    found = evidence_in(cluster.image, TERMS, Report(wall_ms=0, request=request))
    assert (found is not None) is is_evidence


# --- the level -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "is_proof"), [(0, False), (1, True)])
def test_a_broker_that_was_told_a_higher_level_proves_that_zookeeper_lost_it(
    level: int, is_proof: bool
) -> None:
    """It is the proof also where the records can't be compared: the level never falls (U3)."""
    cluster = cluster_in_term_six()
    witness = msgspec.structs.replace(heard(6, "six"), level=Level(level))
    found = evidence_in(cluster.image, TERMS, heartbeat(cluster, witness))
    assert found == ("broker 1 was told level 1: the cluster is at level 0" if is_proof else None)
