"""What a process says to its controllers, and what their answers mean, without a clock or a socket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import Holdings, SetAsideLog
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrProposal,
    LagReportResponse,
    PartitionLag,
    ProblemCode,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.session import (
    BrokerStatus,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import UpdateBatch
from springtide.levels import NEWEST, SUPPORTED, UNTOLD, Level
from springtide.node.core.session import HOLDINGS_INTERVAL_MS, Meaning, MemberSession, WentBackProof
from springtide.node.lease import Lease

PROBLEM = ReplicaProblem(topic_id="t", partition=0, code=ProblemCode.LOG_MISSING, detail="")


class Broker:
    """Something untold of each kind that a test looks at, and a disk."""

    def __init__(self) -> None:
        self.problems: tuple[ReplicaProblem, ...] = ()
        self.created = 0
        self.is_aside_untold = False

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]:
        return ()

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]:
        return ()

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        return ()

    def on_log_ends_told(self, log_ends: Iterable[ReplicaLogEnd]) -> bool:
        return False

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]:
        return ()

    def on_creations_told(self, created: Iterable[CreatedLogs]) -> bool:
        self.created += 1
        return True

    def unreported_problems(self) -> Sequence[ReplicaProblem]:
        return self.problems

    def on_problems_reported(self, problems: Iterable[ReplicaProblem]) -> None:
        self.problems = ()

    def take_set_aside(self) -> bool:
        is_untold, self.is_aside_untold = self.is_aside_untold, False
        return is_untold

    def note_set_aside(self) -> None:
        self.is_aside_untold = True

    def set_aside(self) -> tuple[SetAsideLog, ...]:
        return ()

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        return Holdings(identity=identity, has_view=has_view)


def registered(epoch: int = 5) -> MemberSession:
    identity = RegisterRequest(
        broker_id=1,
        incarnation_id="me",
        host="h",
        port=1,
        log_dir_ids=("d", "e"),
        last_shutdown=ShutdownKind.CLEAN,
        previous_broker_epoch=BrokerEpoch(2),
        unanswered_incarnation_ids=("before",),
    )
    session = MemberSession(identity, cluster_id=None, lease=Lease())
    assert session.on_registered(accepted(epoch)) is Meaning.DONE
    return session


def accepted(epoch: int) -> RegisterResponse:
    return RegisterResponse(
        cluster_id="c", broker_epoch=BrokerEpoch(epoch), controller_epoch=ControllerEpoch(3)
    )


def batch(
    sequence: int, *, full: bool = False, broker_epoch: int = 5, controller_epoch: int = 3
) -> UpdateBatch:
    return UpdateBatch(
        broker_epoch=BrokerEpoch(broker_epoch),
        controller_epoch=ControllerEpoch(controller_epoch),
        sequence=sequence,
        full=full,
    )


def test_a_second_registration_claims_what_this_process_has_kept() -> None:
    session = registered()
    again = session.registration(None, offline=("e",))
    assert (again.last_shutdown, again.previous_broker_epoch) == (ShutdownKind.PROCESS_CRASH, 5)
    assert (again.log_dir_ids, again.offline_log_dir_ids) == (("d",), ("e",))
    assert (again.unanswered_incarnation_ids, again.cluster_id) == ((), "c")
    refuted = session.registration(None, keeps_its_logs=False)
    assert refuted.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_refusals_of_a_registration_are_told_apart() -> None:
    session = registered()
    for error, meaning in {
        ControllerError.METADATA_WENT_BACK: Meaning.TELL_HOLDINGS,
        ControllerError.INCONSISTENT_CLUSTER_ID: Meaning.ANOTHER_CLUSTERS,
        ControllerError.DUPLICATE_BROKER_REGISTRATION: Meaning.REFUSED,
    }.items():
        assert session.on_registered(RegisterResponse(error=error, broker_epoch=BrokerEpoch(9))) is meaning
    assert session.broker_epoch == 5


def test_only_the_latest_heartbeats_answer_counts() -> None:
    session = registered()
    first = session.heartbeat(None)
    second = session.heartbeat(None)
    answer = HeartbeatResponse(
        controller_epoch=ControllerEpoch(3), status=BrokerStatus.ACTIVE, heard_count=second.count
    )
    assert session.on_heartbeat(first, answer, sent_ms=0, now_ms=1) is Meaning.IGNORED
    assert not session.lease.is_held(1)
    assert session.on_heartbeat(second, answer, sent_ms=0, now_ms=1) is Meaning.DONE
    assert session.lease.is_current(1) is False, "nothing is applied yet"
    assert session.heartbeats.answered == second.count


def test_a_heartbeat_that_was_never_sent_is_proof_before_anything_else_counts() -> None:
    session = registered()
    asked = session.heartbeat(None)
    answer = HeartbeatResponse(error=ControllerError.STALE_BROKER_EPOCH, heard_count=asked.count + 1)
    assert isinstance(session.on_heartbeat(asked, answer, sent_ms=0, now_ms=1), WentBackProof)


def test_leave_to_stop_is_taken_only_by_who_asked() -> None:
    session = registered()
    leave = HeartbeatResponse(
        controller_epoch=ControllerEpoch(3), status=BrokerStatus.ACTIVE, may_shut_down=True
    )
    session.on_heartbeat(session.heartbeat(None), leave, sent_ms=0, now_ms=1)
    assert not session.may_shut_down
    session.wants_shutdown = True
    asked = session.heartbeat(None)
    assert asked.wants_shutdown
    session.on_heartbeat(asked, leave, sent_ms=0, now_ms=1)
    assert session.may_shut_down


def test_batches_of_another_time_are_not_applied() -> None:
    session = registered()
    first = batch(4, full=True)
    assert session.on_batch(first) is Meaning.APPLY
    assert session.on_applied(first, ())
    assert session.on_batch(batch(4)) is Meaning.IGNORED
    assert session.on_batch(batch(3)) is Meaning.IGNORED
    assert session.on_batch(batch(5, broker_epoch=4)) is Meaning.IGNORED
    assert session.on_batch(batch(5, controller_epoch=2)) is Meaning.IGNORED
    assert session.on_batch(batch(5)) is Meaning.APPLY
    assert session.on_batch(batch(2, full=True)) is Meaning.APPLY
    gone = UpdateBatch(error=ControllerError.BROKER_NOT_REGISTERED)
    assert session.on_batch(gone) is Meaning.DISOWNED


def test_a_batch_of_the_registration_before_does_not_count_as_applied() -> None:
    session = registered()
    walk = batch(4, full=True)
    assert session.on_batch(walk) is Meaning.APPLY
    session.on_registered(accepted(6))
    assert not session.on_applied(walk, ())
    assert session.applied == (-1, -1)
    assert not session.has_full_state


def test_a_report_tells_until_it_is_heard_and_a_replaced_controller_hears_of_no_new_logs() -> None:
    session, broker = registered(), Broker()
    assert session.report(broker, broker, None, count_max=9, now_ms=0) is None
    broker.problems, broker.is_aside_untold = (PROBLEM,), True
    told = session.report(broker, broker, None, count_max=9, now_ms=0)
    assert told is not None
    assert (told.problems, told.set_aside) == ((PROBLEM,), ())
    session.on_report_lost(told, broker)
    again = session.report(broker, broker, None, count_max=9, now_ms=0)
    assert again == told
    refused = LagReportResponse(error=ControllerError.NOT_CONTROLLER)
    assert session.on_report(told, broker, refused) == (Meaning.REFUSED, False)
    assert (broker.problems, broker.is_aside_untold) == ((PROBLEM,), True)
    session.applied = (ControllerEpoch(3), 1)
    assert session.on_report(told, broker, LagReportResponse(controller_epoch=ControllerEpoch(2))) == (
        Meaning.DONE,
        False,
    )
    assert (broker.problems, broker.created) == ((), 0)
    assert session.on_report(told, broker, LagReportResponse(controller_epoch=ControllerEpoch(3))) == (
        Meaning.DONE,
        True,
    )


def test_holdings_are_told_now_and_then_with_the_end_of_the_process_before() -> None:
    session, broker = registered(), Broker()
    told = session.holdings(broker, None, now_ms=0)
    assert told is not None and told.holdings is not None
    assert told.holdings.identity.last_shutdown is ShutdownKind.CLEAN
    assert session.holdings(broker, None, now_ms=HOLDINGS_INTERVAL_MS - 1) is None
    assert session.holdings(broker, None, now_ms=HOLDINGS_INTERVAL_MS) is not None


def test_a_status_of_a_later_release_leaves_the_one_before() -> None:
    session = registered()
    asked = session.heartbeat(None)
    for told, known in (
        (BrokerStatus.ACTIVE, BrokerStatus.ACTIVE),
        (BrokerStatus.UNKNOWN, BrokerStatus.ACTIVE),
    ):
        answer = HeartbeatResponse(controller_epoch=ControllerEpoch(3), status=told)
        assert session.on_heartbeat(asked, answer, sent_ms=1, now_ms=2) is Meaning.DONE
        assert session.status is known


def test_an_error_of_a_later_release_is_to_be_asked_again() -> None:
    session = registered()
    answer = HeartbeatResponse(controller_epoch=ControllerEpoch(3), error=ControllerError.UNKNOWN)
    assert session.on_heartbeat(session.heartbeat(None), answer, sent_ms=1, now_ms=2) is Meaning.REFUSED
    assert session.on_batch(UpdateBatch(error=ControllerError.UNKNOWN)) is Meaning.REFUSED
    assert session.on_registered(RegisterResponse(error=ControllerError.UNKNOWN)) is Meaning.REFUSED


# --- the cluster's level ------------------------------------------------------------------------------


def leveled() -> MemberSession:
    session = registered()
    session.identity = msgspec.structs.replace(session.identity, levels=SUPPORTED)
    return session


def test_the_level_is_that_of_the_latest_answer_and_never_falls() -> None:
    session = leveled()
    before = SUPPORTED.lowest
    session.on_registered(msgspec.structs.replace(accepted(5), level=before))
    assert session.level == before, "although this process can do more"
    response = msgspec.structs.replace(accepted(5), level=NEWEST)
    session.on_registered(response)
    assert session.level == NEWEST
    late = msgspec.structs.replace(batch(1, full=True), level=before)
    assert session.on_batch(late) is Meaning.APPLY
    assert session.level == NEWEST


def test_a_batch_tells_the_level_also_when_it_brings_nothing_else() -> None:
    session = leveled()
    session.applied = (ControllerEpoch(3), 1)
    assert session.on_batch(msgspec.structs.replace(batch(1), level=NEWEST)) is Meaning.IGNORED
    assert session.level == NEWEST


def test_a_level_that_this_process_can_not_run_at_is_not_taken_in() -> None:
    session = leveled()
    newer = Level(SUPPORTED.highest + 1)
    assert session.on_batch(msgspec.structs.replace(batch(1, full=True), level=newer)) is Meaning.DISOWNED
    assert session.level == UNTOLD
    refused = RegisterResponse(error=ControllerError.UNSUPPORTED_LEVEL, detail="install a newer one")
    assert session.on_registered(refused) is Meaning.UNSUPPORTED_LEVEL


def test_levels_are_told_in_registrations_and_heartbeats() -> None:
    session = leveled()
    assert session.registration(None).levels == SUPPORTED
    assert session.heartbeat(None).levels == SUPPORTED
