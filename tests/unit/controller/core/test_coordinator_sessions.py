"""Coordinators' sessions: who is believed, from when on, and what is forgotten with whom."""

from __future__ import annotations

import msgspec
import pytest

from controller.core.alarms import AlarmBook
from controller.core.coordinators import CoordinatorSessions, admit_coordinators
from controller.core.draft import Draft
from controller.core.effects import AlarmCode, AlarmKey, Note, ProbeBroker
from controller.core.events import (
    AdmitCoordinators,
    AppliedReply,
    BrokerApplied,
    BrokerFenceReply,
    BrokerProvenDead,
    CoordinatorsChanged,
    Heartbeat,
    MemberRemoved,
    Refusal,
    RefusalCode,
    RegisterMember,
    RemoveMember,
    Tick,
)
from controller.core.floor import Floors
from controller.core.loss import LogEnds
from controller.core.records import Cause, MemberKind, MemberRecord
from controller.core.shards import SHARDS
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.session import (
    BrokerStatus,
    HeartbeatRequest,
    HeartbeatResponse,
    LevelShards,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from tests.kit.controller.coordinator_cluster import OFFSETS_ID, CoordinatorCluster


def status(cluster: CoordinatorCluster) -> BrokerStatus:
    return cluster.image.coordinators[1001].status


def epoch(cluster: CoordinatorCluster) -> int:
    return cluster.image.coordinators[1001].coordinator_epoch


def heartbeat(
    cluster: CoordinatorCluster, *, received_ms: int | None = None, wall_ms: int = 0, **fields: object
) -> HeartbeatResponse:
    known: dict[str, object] = {
        "broker_id": 1001,
        "broker_epoch": epoch(cluster),
        "incarnation_id": "any",
        "applied_controller_epoch": cluster.controller_epoch,
        "applied_sequence": cluster.image.sequence,
    }
    event = Heartbeat(
        wall_ms=wall_ms,
        request=HeartbeatRequest(**(known | fields)),  # type: ignore[arg-type]
        received_ms=cluster.now_ms if received_ms is None else received_ms,
        kind=MemberKind.COORDINATOR,
    )
    return cluster.ask(event, HeartbeatResponse)


def register(
    cluster: CoordinatorCluster,
    incarnation: str,
    *,
    broker_id: int = 1001,
    port: int = 9092,
    wall_ms: int = 0,
) -> RegisterResponse:
    request = registration(incarnation, broker_id=broker_id, port=port)
    return cluster.ask(
        RegisterMember(kind=MemberKind.COORDINATOR, wall_ms=wall_ms, request=request), RegisterResponse
    )


def registration(incarnation: str, *, broker_id: int = 1001, port: int = 9092) -> RegisterRequest:
    return RegisterRequest(
        broker_id=broker_id,
        incarnation_id=f"{broker_id}-{incarnation}",
        host="desk",
        port=port,
        log_dir_ids=(),
        last_shutdown=ShutdownKind.FIRST_START,
    )


def admit(cluster: CoordinatorCluster, *, dry_run: bool = False) -> None:
    event = AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,), dry_run=dry_run)
    cluster.ask(event, CoordinatorsChanged)


def die(cluster: CoordinatorCluster) -> bool:
    event = BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=BrokerEpoch(epoch(cluster)))
    return cluster.ask(event, BrokerFenceReply).fenced


# --- registrations --------------------------------------------------------------------------------


@pytest.mark.parametrize("second", ["0", "b"])
def test_another_process_of_an_id_is_admitted_only_if_the_id_was_and_begins_fenced(second: str) -> None:
    cluster = CoordinatorCluster()
    register(cluster, "a", wall_ms=7)
    assert register(cluster, "a", wall_ms=8).status is BrokerStatus.WAITING
    assert cluster.image.coordinators[1001].registered_at_ms == 7
    die(cluster)
    first = epoch(cluster)
    assert register(cluster, second, wall_ms=9).broker_epoch > first
    assert status(cluster) is BrokerStatus.WAITING, "an operator has never admitted it"
    assert cluster.image.coordinators[1001].registered_at_ms == 9
    known = cluster.image.coordinators[1001]
    assert not known.demoted and not known.draining
    admit(cluster)
    assert register(cluster, second).status is BrokerStatus.FENCED, "it has not applied that yet"
    heartbeat(cluster)
    assert register(cluster, second).status is BrokerStatus.ACTIVE
    cluster.now_ms += cluster.options.grace_ms + 1  # the next step is no tick
    assert register(cluster, "c").status is BrokerStatus.FENCED


def test_a_registration_that_is_wrong_itself_is_told_so_and_probes_nobody() -> None:
    cluster = CoordinatorCluster(1001)
    for broker_id in (2, 1001):
        refused = register(cluster, "b", broker_id=broker_id, port=0)
        assert (refused.error, refused.detail) == (
            ControllerError.INVALID_REQUEST,
            "broker_id or port out of range",
        )
        assert not any(isinstance(effect, ProbeBroker) for effect in cluster.last.effects)


def test_one_that_registers_again_has_been_heard() -> None:
    cluster = CoordinatorCluster(1001)
    cluster.now_ms += cluster.options.grace_ms
    register(cluster, "a")
    cluster.pass_ms(cluster.options.grace_ms)
    assert status(cluster) is BrokerStatus.ACTIVE
    cluster.pass_ms(1)
    assert status(cluster) is BrokerStatus.FENCED


# --- heartbeats -----------------------------------------------------------------------------------


def test_who_is_not_registered_or_of_an_earlier_epoch_is_told_so() -> None:
    cluster = CoordinatorCluster(1001)
    for fields, error in (
        ({"broker_id": 1009}, ControllerError.BROKER_NOT_REGISTERED),
        ({"broker_epoch": epoch(cluster) - 1}, ControllerError.STALE_BROKER_EPOCH),
    ):
        answer = heartbeat(cluster, wants_shutdown=True, **fields)
        assert answer == HeartbeatResponse(
            error=error, controller_epoch=ControllerEpoch(cluster.controller_epoch)
        )
    assert status(cluster) is BrokerStatus.ACTIVE


@pytest.mark.parametrize(("ago_ms", "left_ms"), [(50, -50), (0, 0), (-50, 0)])
def test_silence_counts_from_when_a_heartbeat_was_received_and_not_from_the_future(
    ago_ms: int, left_ms: int
) -> None:
    cluster = CoordinatorCluster(1001)
    cluster.now_ms += 100
    heartbeat(cluster, received_ms=cluster.now_ms - ago_ms)
    cluster.pass_ms(cluster.options.grace_ms + left_ms)
    assert status(cluster) is BrokerStatus.ACTIVE
    cluster.pass_ms(1)
    assert status(cluster) is BrokerStatus.FENCED
    assert any(isinstance(e, Note) and e.code == "coordinator_fenced" for e in cluster.last.effects)


def test_one_is_trusted_once_it_is_heard_and_has_applied_what_it_must() -> None:
    cluster = CoordinatorCluster()
    register(cluster, "a")
    registered = cluster.image.sequence
    admit(cluster)
    admitted = cluster.image.sequence
    heartbeat(cluster, applied_sequence=registered)
    assert status(cluster) is BrokerStatus.FENCED
    cluster.create((1, 2, 3))
    admit(cluster, dry_run=True)  # asks nothing of it
    late = cluster.now_ms - cluster.options.grace_ms - 1
    cluster.pass_ms(cluster.options.grace_ms + 1)
    heartbeat(cluster, received_ms=late, applied_sequence=admitted)
    assert status(cluster) is BrokerStatus.FENCED, "a heartbeat that waited so long says nothing"
    heartbeat(cluster, applied_sequence=admitted)
    assert status(cluster) is BrokerStatus.ACTIVE
    # To admit it once more asks nothing of one that is trusted.
    admit(cluster)
    assert (status(cluster), cluster.last.records) == (BrokerStatus.ACTIVE, ())


def test_what_it_has_applied_may_be_told_between_heartbeats() -> None:
    cluster = CoordinatorCluster()
    register(cluster, "a")
    admit(cluster)

    def tell(broker_epoch: int, sequence: int) -> ControllerError:
        event = BrokerApplied(
            wall_ms=0,
            broker_id=1001,
            broker_epoch=BrokerEpoch(broker_epoch),
            controller_epoch=ControllerEpoch(cluster.controller_epoch),
            sequence=sequence,
            kind=MemberKind.COORDINATOR,
        )
        return cluster.ask(event, AppliedReply).error

    assert tell(epoch(cluster) - 1, cluster.image.sequence) is ControllerError.STALE_BROKER_EPOCH
    assert tell(epoch(cluster), cluster.image.sequence - 1) is ControllerError.NONE
    assert status(cluster) is BrokerStatus.FENCED
    assert tell(epoch(cluster), cluster.image.sequence) is ControllerError.NONE
    assert status(cluster) is BrokerStatus.ACTIVE


def test_one_that_was_fenced_must_have_seen_that_to_be_trusted_again() -> None:
    cluster = CoordinatorCluster(1001)
    before = cluster.image.sequence
    cluster.pass_ms(cluster.options.grace_ms + 1)
    heartbeat(cluster, applied_sequence=before)
    assert status(cluster) is BrokerStatus.FENCED
    heartbeat(cluster)
    assert status(cluster) is BrokerStatus.ACTIVE
    assert die(cluster)
    assert not die(cluster), "it is fenced already"


def test_one_that_stops_is_not_trusted_again_by_what_it_applies_until_it_has_ended() -> None:
    """Its shards would come back to it, and be served by none until its process is proven dead."""
    cluster = CoordinatorCluster(1001)
    heartbeat(cluster, wants_shutdown=True)
    event = BrokerApplied(
        wall_ms=0,
        kind=MemberKind.COORDINATOR,
        broker_id=1001,
        broker_epoch=BrokerEpoch(epoch(cluster)),
        controller_epoch=ControllerEpoch(cluster.controller_epoch),
        sequence=cluster.image.sequence,
    )
    cluster.step(event)
    assert status(cluster) is BrokerStatus.FENCED
    heartbeat(cluster)  # sent before it was told to stop, and late
    assert status(cluster) is BrokerStatus.FENCED
    die(cluster)
    register(cluster, "another")
    heartbeat(cluster)
    assert status(cluster) is BrokerStatus.ACTIVE


def test_a_standby_is_level_by_what_it_says_to_this_controller() -> None:
    cluster = CoordinatorCluster(1001, 1002)
    mine = [number for (_, number), shard in cluster.shards.items() if shard.standby == 1001]
    cluster.step(AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,)))
    level = (LevelShards(topic_id=OFFSETS_ID, partitions=tuple(mine)),)
    owned = cluster.owned
    heartbeat(cluster, level=level, applied_controller_epoch=cluster.controller_epoch - 1)
    assert cluster.owned == owned == {1001: SHARDS}
    cluster.beat(1002, level=True)
    assert cluster.owned == {1001: SHARDS // 2, 1002: SHARDS // 2}


def test_the_certificate_of_a_coordinator_is_watched_until_it_is_removed() -> None:
    cluster = CoordinatorCluster(1001)
    heartbeat(cluster, certificate_ends_ms=5)
    key = AlarmKey(code=AlarmCode.CERTIFICATE_EXPIRES, broker_id=1001)
    (alarm,) = (a for a in cluster.machine.alarms() if a.key == key)
    assert alarm.detail.startswith("a certificate of coordinator 1001 ends at 1970-01-01T00:00:00Z")
    die(cluster)
    nobody = AlarmKey(code=AlarmCode.NO_COORDINATOR)
    (alarm,) = (a for a in cluster.machine.alarms() if a.key == nobody)
    assert alarm.detail.endswith("rebalance (registered: 1001)")
    cluster.ask(
        RemoveMember(wall_ms=0, actor="ann", kind=MemberKind.COORDINATOR, member_id=1001), MemberRemoved
    )
    (alarm,) = cluster.machine.alarms()
    assert alarm.key == nobody
    assert alarm.detail.endswith("rebalance (registered: none)")
    cluster.join(1001)
    assert cluster.machine.alarms() == ()


# --- removal and deadlines ------------------------------------------------------------------------


def test_one_that_may_be_running_is_not_removed() -> None:
    remove = RemoveMember(wall_ms=0, actor="ann", kind=MemberKind.COORDINATOR, member_id=1001)
    cluster = CoordinatorCluster(1001)
    cluster.now_ms += cluster.options.grace_ms + 1  # silent, and not fenced yet
    assert cluster.ask(remove, Refusal).code is RefusalCode.COORDINATOR_IN_USE
    cluster.step(Tick(wall_ms=0))
    heartbeat(cluster, wants_shutdown=True)  # fenced, and heard
    assert status(cluster) is BrokerStatus.FENCED
    assert cluster.ask(remove, Refusal).code is RefusalCode.COORDINATOR_IN_USE
    cluster.pass_ms(cluster.options.grace_ms + 1)
    cluster.ask(remove, MemberRemoved)


def test_the_next_deadline_is_that_of_those_that_are_trusted() -> None:
    cluster = CoordinatorCluster(1002)
    image, options = cluster.image, cluster.options
    sessions = CoordinatorSessions(
        image, AlarmBook(alarms_max=1), options=options, controller_epoch=ControllerEpoch(1), now_ms=0
    )
    draft = Draft(image, wall_ms=0, floors=Floors(LogEnds()))

    def heard(coordinator_id: int, now_ms: int) -> None:
        request = HeartbeatRequest(
            broker_id=coordinator_id,
            broker_epoch=image.coordinators[coordinator_id].coordinator_epoch,
            incarnation_id="any",
            applied_controller_epoch=ControllerEpoch(1),
            applied_sequence=image.sequence,
        )
        sessions.on_heartbeat(draft, request, received_ms=now_ms, now_ms=now_ms)

    assert sessions.next_deadline_ms() == options.probe_after_ms + 1
    sessions.on_proven_dead(draft, 1002, image.coordinators[1002].coordinator_epoch)
    assert sessions.next_deadline_ms() is None
    sessions.on_register(draft, registration("a"), 100)
    admit_coordinators(draft, sessions, AdmitCoordinators(wall_ms=0, actor="ann", coordinator_ids=(1001,)))
    assert sessions.next_deadline_ms() is None, "it is not trusted yet"
    heard(1001, 200)
    assert sessions.next_deadline_ms() == options.probe_after_ms + 201
    heard(1002, 150)
    sessions.on_proven_dead(draft, 1001, image.coordinators[1001].coordinator_epoch)
    assert sessions.next_deadline_ms() == options.probe_after_ms + 151


def test_only_one_that_is_admitted_fenced_and_not_proven_dead_is_probed() -> None:
    cluster = CoordinatorCluster(1002, 1003, 1004)
    register(cluster, "a")
    image = cluster.image
    sessions = CoordinatorSessions(
        image, AlarmBook(alarms_max=1), options=cluster.options, controller_epoch=ControllerEpoch(1), now_ms=0
    )
    draft = Draft(image, wall_ms=0, floors=Floors(LogEnds()))
    sessions.on_proven_dead(draft, 1003, image.coordinators[1003].coordinator_epoch)
    row = msgspec.structs.replace(image.coordinators[1004], fenced=True)
    draft.write(MemberRecord(registration=row, change=draft.change(Cause.COORDINATOR_FENCED)))
    draft.effects.clear()
    sessions.probe_fenced(draft, 0)
    assert draft.effects == [row.probe]
