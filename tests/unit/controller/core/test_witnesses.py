"""ZooKeeper that went back shows by what brokers were told, and stops every decision (section 11)."""

from __future__ import annotations

import msgspec
import pytest

from controller.contract.errors import ControllerError
from controller.contract.lag_report import LagReport, LagReportResponse
from controller.contract.session import HeartbeatRequest, HeartbeatResponse, RegisterResponse, Witness
from controller.contract.updates import AHEAD, ApplyFailure
from controller.core.effects import Alarm, AlarmCode, AlarmKey
from controller.core.events import (
    AppliedReply,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    CreateTopic,
    Event,
    Heartbeat,
    Refusal,
    RefusalCode,
    RegisterBroker,
    Report,
    Tick,
)
from controller.core.witnesses import TermStart
from tests.kit.controller.core_cluster import CLUSTER_ID, Cluster, topic_id

WENT_BACK = ControllerError.METADATA_WENT_BACK
TERMS = (
    TermStart(controller_epoch=3, lineage="three", records=10),
    TermStart(controller_epoch=5, lineage="five", records=20),
    TermStart(controller_epoch=6, lineage="six", records=30),
)


def cluster_in_term_six() -> Cluster:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.machine.terms = TERMS
    return cluster


def heard(epoch: int, lineage: str = "", records: int = -1, *, cluster_id: str = CLUSTER_ID) -> Witness:
    return Witness(cluster_id=cluster_id, controller_epoch=epoch, lineage=lineage, records=records)


def heartbeat(
    cluster: Cluster, witness: Witness | None, *, epochs_above: int = 0, who: str = "a"
) -> Heartbeat:
    request = HeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.broker(1).broker_epoch + epochs_above,
        incarnation_id=f"1-{who}",
        witness=witness,
    )
    return Heartbeat(wall_ms=0, received_ms=cluster.now_ms, request=request)


def poll(cluster: Cluster, *failures: ApplyFailure, witness: Witness | None = None) -> BrokerApplied:
    return BrokerApplied(
        wall_ms=0,
        broker_id=1,
        broker_epoch=cluster.broker(1).broker_epoch,
        controller_epoch=1,
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
        RegisterBroker(wall_ms=0, request=request),
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
    answer = cluster.ask(RegisterBroker(wall_ms=0, request=request), RegisterResponse)
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
            partition_epoch=row.partition_epoch + above,
            leader_epoch=row.leader_epoch + epochs,
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
    step = cluster.fail_over(terms=(*TERMS, TermStart(controller_epoch=2, lineage="two")))
    assert step.records == ()
    assert cluster.machine.went_back is not None
