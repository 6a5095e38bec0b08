"""The broker's life at the controller, against answers that come late, wrong, or not at all."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpx
import msgspec
import pytest
import trio
import trio.testing

from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.holdings import Holdings, SetAsideLog
from springtide.contract.lag_report import (
    CreatedLogs,
    IsrMember,
    IsrProposal,
    LagReport,
    LagReportResponse,
    PartitionLag,
    ProblemCode,
    ReplicaLogEnd,
    ReplicaProblem,
)
from springtide.contract.session import (
    BrokerStatus,
    DiskSpace,
    Heard,
    HeartbeatRequest,
    HeartbeatResponse,
    LevelShards,
    ProcessLoad,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import ApplyFailure, PollRequest, UpdateBatch
from springtide.node.clock import BrokerClock
from springtide.node.controller_client import ControllerClient
from springtide.node.controller_session import (
    HEARTBEAT_TIMEOUT_MS,
    ControllerSession,
    RegistrationRefused,
    WentBack,
)
from springtide.node.lease import Lease
from tests.kit.clocks import VirtualClock

ONE, TWO = "http://one:1", "http://two:2"
PROBLEM = ReplicaProblem(topic_id="t", partition=0, code=ProblemCode.LOG_MISSING, detail="")
PROPOSAL = IsrProposal(
    topic_id="t",
    partition=0,
    leader_epoch=LeaderEpoch(1),
    partition_epoch=PartitionEpoch(1),
    proposal_id=7,
    isr=(IsrMember(broker_id=1, broker_epoch=BrokerEpoch(5)),),
)
FAILURE = ApplyFailure(
    topic_id="t", partition=0, partition_epoch=PartitionEpoch(1), code=ProblemCode.STORAGE_ERROR
)


class Reports:
    """What the table has to tell, and what came back."""

    def __init__(self) -> None:
        self.problems: tuple[ReplicaProblem, ...] = ()
        self.proposals: tuple[IsrProposal, ...] = ()
        self.answered: list[LagReportResponse] = []
        self.log_ends: tuple[ReplicaLogEnd, ...] = ()
        self.created: tuple[CreatedLogs, ...] = ()
        self.aside: tuple[SetAsideLog, ...] | None = None

    @property
    def untold(self) -> Reports:
        return self

    def due_proposals(self, now_ms: int) -> Sequence[IsrProposal]:
        return self.proposals

    def changed_lags(self, now_ms: int, *, count_max: int) -> Sequence[PartitionLag]:
        return ()

    def untold_log_ends(self, *, count_max: int) -> Sequence[ReplicaLogEnd]:
        return self.log_ends

    def on_log_ends_told(self, log_ends: Iterable[ReplicaLogEnd]) -> bool:
        self.log_ends = self.log_ends[len(tuple(log_ends)) :]
        return False

    def untold_creations(self, *, count_max: int) -> Sequence[CreatedLogs]:
        return self.created

    def on_creations_told(self, created: Iterable[CreatedLogs]) -> bool:
        self.created = ()
        return False

    def take_set_aside(self) -> bool:
        return self.aside is not None

    def set_aside(self) -> tuple[SetAsideLog, ...]:
        told, self.aside = self.aside, None
        assert told is not None
        return told

    def note_set_aside(self) -> None:
        self.aside = ()

    def unreported_problems(self) -> Sequence[ReplicaProblem]:
        return self.problems

    def on_problems_reported(self, problems: Iterable[ReplicaProblem]) -> None:
        self.problems = ()

    def holdings(self, identity: RegisterRequest, *, has_view: bool) -> Holdings:
        return Holdings(identity=identity, has_view=has_view)

    def on_report_answered(self, response: LagReportResponse, now_ms: int) -> None:
        self.answered.append(response)
        self.proposals = ()


class Controller(httpx.AsyncBaseTransport):
    """Answers as a controller that admits everybody, but where a test puts another answer: a value, an error
    to raise, or an async function. `asked` is every request in order, with its time."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.times_ms: list[tuple[str, int]] = []
        self.answers: dict[str, list[Any]] = {}
        self.down: tuple[str, ...] = ()
        self.broker_epoch = 5

    def then(self, verb: str, *answers: Any) -> None:
        """The next answers to `verb`; afterwards the usual ones."""
        self.answers.setdefault(verb, []).extend(answers)

    def seen(self, verb: str) -> list[Any]:
        return [request for asked, request in self.asked if asked == verb]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        verb = request.url.path.rpartition(":")[2]
        body = await request.aread()
        if request.url.host in self.down:
            raise httpx.ConnectError("refused")
        types = {"register": RegisterRequest, "heartbeat": HeartbeatRequest, "poll": PollRequest}
        decoded: Any = msgspec.json.decode(body, type=types.get(verb, LagReport))
        self.asked.append((verb, decoded))
        self.times_ms.append((verb, VirtualClock().mono_ms()))
        waiting = self.answers.get(verb)
        answer = waiting.pop(0) if waiting else self._usual(verb)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = await answer()
        return httpx.Response(200, content=msgspec.json.encode(answer))

    def _usual(self, verb: str) -> Any:
        match verb:
            case "register":
                return RegisterResponse(
                    cluster_id="c",
                    controller_epoch=ControllerEpoch(3),
                    broker_epoch=BrokerEpoch(self.broker_epoch),
                    status=BrokerStatus.FENCED,
                )
            case "heartbeat":
                return HeartbeatResponse(
                    controller_epoch=ControllerEpoch(3), status=BrokerStatus.ACTIVE, sequence=1
                )
            case "poll":
                if len(self.seen("poll")) == 1:
                    return UpdateBatch(
                        controller_epoch=ControllerEpoch(3),
                        broker_epoch=BrokerEpoch(5),
                        full=True,
                        sequence=1,
                    )
                return trio.sleep_forever
            case _:
                return LagReportResponse(controller_epoch=ControllerEpoch(3))


class Bench:
    def __init__(self, *, urls: tuple[str, ...] = (ONE,)) -> None:
        self.controller = Controller()
        self.reports = Reports()
        self.lease = Lease()
        self.applied: list[UpdateBatch] = []
        self.registered: list[int] = []
        self.failures: list[ApplyFailure] = []
        self.apply_gate: trio.Event | None = None
        self.client = ControllerClient(
            urls=urls, cluster="prod", broker_id=1, clock=VirtualClock(), transport=self.controller
        )
        self.session = ControllerSession(
            client=self.client,
            identity=RegisterRequest(
                broker_id=1,
                incarnation_id="me",
                host="h",
                port=1,
                log_dir_ids=("d",),
                last_shutdown=ShutdownKind.CLEAN,
                previous_broker_epoch=BrokerEpoch(2),
                unanswered_incarnation_ids=("before",),
            ),
            cluster_id=None,
            lease=self.lease,
            clock=BrokerClock(VirtualClock()),
            rng=random.Random(1),
            reports=self.reports,
            apply=self._apply,
            on_registered=self._on_registered,
            offline_log_dir_ids=lambda: (),
            disk_space=lambda: DiskSpace(free_bytes=3, total_bytes=9),
            load=lambda: ProcessLoad(connections=4, requests=70),
            keeps_its_logs=lambda: not self.disowned,
            on_went_back=self._on_went_back,
        )
        self.disowned = 0

    async def _on_went_back(self) -> None:
        self.disowned += 1

    async def _apply(self, batch: UpdateBatch) -> Sequence[ApplyFailure]:
        if self.apply_gate is not None:
            await self.apply_gate.wait()
        self.applied.append(batch)
        return self.failures

    async def _on_registered(self, response: RegisterResponse) -> None:
        self.registered.append(response.broker_epoch)


def during(ms: int, test: Callable[[Bench], Awaitable[None] | None], **options: Any) -> Bench:
    """`test` prepares (and may go on beside) a session that lives for so long on a clock that jumps."""
    benches: list[Bench] = []

    async def main() -> None:
        bench = Bench(**options)
        benches.append(bench)
        async with trio.open_nursery() as nursery:
            going_on = test(bench)
            if going_on is not None:
                nursery.start_soon(lambda: going_on)
            nursery.start_soon(bench.session.run)
            await trio.sleep(ms / 1_000)
            nursery.cancel_scope.cancel()
        await bench.client.aclose()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return benches[0]


def test_a_broker_registers_applies_the_full_state_and_holds_its_lease() -> None:
    bench = during(1_200, lambda _: None)
    (registration,) = bench.controller.seen("register")
    assert (registration.last_shutdown, registration.previous_broker_epoch) == (ShutdownKind.CLEAN, 2)
    assert registration.unanswered_incarnation_ids == ("before",)
    assert bench.registered == [5]
    assert [batch.full for batch in bench.applied] == [True]
    polls = bench.controller.seen("poll")
    assert [(poll.applied_controller_epoch, poll.applied_sequence) for poll in polls] == [(-1, -1), (3, 1)]
    assert bench.session.has_full_state
    assert bench.session.status is BrokerStatus.ACTIVE
    assert bench.lease.held_until_ms > 5_000
    first_beat = bench.controller.seen("heartbeat")[0]
    assert first_beat.disk == DiskSpace(free_bytes=3, total_bytes=9)
    assert first_beat.load == ProcessLoad(connections=4, requests=70)


def test_heartbeats_share_beats_and_are_never_later_than_their_interval() -> None:
    def test(bench: Bench) -> None:
        async def late() -> HeartbeatResponse:
            await trio.sleep(0.62)
            return HeartbeatResponse(
                controller_epoch=ControllerEpoch(3), status=BrokerStatus.ACTIVE, sequence=1
            )

        bench.controller.then("heartbeat", late)

    bench = during(2_700, test)
    sent_ms = [ms for verb, ms in bench.controller.times_ms if verb == "heartbeat"]
    assert sent_ms == [0, 620, 1_000, 1_500, 2_000, 2_500]


def test_a_session_that_was_stopped_tells_and_takes_nothing_more() -> None:
    """Its process closes its logs now, and a state that came for them would fail."""
    verbs = ("register", "heartbeat", "poll", "report")
    told: list[list[int]] = []

    async def test(bench: Bench) -> None:
        await trio.sleep(1.2)
        await bench.session.stop()
        for _ in range(2):
            told.append([*(len(bench.controller.seen(verb)) for verb in verbs), len(bench.applied)])
            await trio.sleep(5)

    during(11_000, test)
    assert told[0] == told[1]
    assert all(told[0][:3]), "it had begun"


def test_a_session_is_stopped_while_it_registers_or_before_it_has_begun() -> None:
    ended: list[bool] = []

    async def at_once(bench: Bench) -> None:
        await bench.session.stop()
        ended.append(True)

    during(1_000, at_once)
    assert ended == [True]


@pytest.mark.parametrize("verb", ["heartbeat", "poll", "report"])
@pytest.mark.parametrize("error", [ControllerError.STALE_BROKER_EPOCH, ControllerError.BROKER_NOT_REGISTERED])
def test_a_disowned_incarnation_registers_again_and_starts_over(verb: str, error: ControllerError) -> None:
    answer: Any = {
        "heartbeat": HeartbeatResponse(error=error, controller_epoch=ControllerEpoch(3)),
        "poll": UpdateBatch(error=error, controller_epoch=ControllerEpoch(3)),
        "report": LagReportResponse(error=error, controller_epoch=ControllerEpoch(3)),
    }[verb]

    def prepare(bench: Bench) -> None:
        bench.reports.problems = (PROBLEM,)
        full = UpdateBatch(
            controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(5), full=True, sequence=1
        )
        bench.controller.then("poll", full if verb != "poll" else answer)
        if verb != "poll":
            bench.controller.then(verb, answer)
        bench.controller.then("poll", full, full, full)

    bench = during(900, prepare)
    first, second = bench.controller.seen("register")
    assert first.incarnation_id == second.incarnation_id == "me"
    # It has lived through it with all it had, whatever its predecessor's end was.
    assert (second.last_shutdown, second.previous_broker_epoch) == (ShutdownKind.PROCESS_CRASH, 5)
    assert second.unanswered_incarnation_ids == ()
    again = [request for asked, request in bench.controller.asked if asked in ("register", "poll")]
    following = again[again.index(second) + 1]
    assert (following.applied_controller_epoch, following.applied_sequence) == (-1, -1)
    assert bench.lease.held_until_ms > 900


def test_a_broker_that_knows_that_its_host_went_back_vouches_for_none_when_it_registers_again() -> None:
    def prepare(bench: Bench) -> None:
        bench.disowned = 1
        gone = HeartbeatResponse(
            error=ControllerError.BROKER_NOT_REGISTERED, controller_epoch=ControllerEpoch(3)
        )
        bench.controller.then("heartbeat", gone)

    first, second = during(900, prepare).controller.seen("register")
    assert first.last_shutdown is ShutdownKind.CLEAN, "as its directory told it at the start"
    assert second.last_shutdown is ShutdownKind.MACHINE_CRASH


def test_heartbeats_tell_of_clocks_that_disagree_until_they_agree_again() -> None:
    def prepare(bench: Bench) -> None:
        for ahead_ms in (0, -90_000_000, 0):
            wall_ms = VirtualClock().wall_ms() + ahead_ms
            bench.controller.then(
                "heartbeat",
                HeartbeatResponse(controller_epoch=ControllerEpoch(3), sequence=1, wall_ms=wall_ms),
            )

    beats = during(2_000, prepare).controller.seen("heartbeat")
    told = [None if beat.clock_leap is None else beat.clock_leap.ahead_of_controller_ms for beat in beats]
    assert told[:2] == [None, None]
    assert told[2] is not None and abs(told[2] - 90_000_000) < 5_000
    assert told[3] is None


def test_s16_what_a_replaced_controller_says_is_not_applied() -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.then(
            "poll",
            UpdateBatch(
                controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(5), full=True, sequence=1
            ),
            UpdateBatch(
                controller_epoch=ControllerEpoch(2), broker_epoch=BrokerEpoch(5), full=True, sequence=9
            ),
            trio.sleep_forever,
        )

    bench = during(3_000, prepare)
    assert [(batch.controller_epoch, batch.sequence) for batch in bench.applied] == [(3, 1)]
    assert bench.client.seen.controller_epoch == 3


def test_i8_a_batch_for_an_earlier_incarnation_is_not_applied() -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.then(
            "poll",
            UpdateBatch(
                controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(4), full=True, sequence=9
            ),
            UpdateBatch(
                controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(5), full=True, sequence=1
            ),
            trio.sleep_forever,
        )

    assert [batch.sequence for batch in during(3_000, prepare).applied] == [1]


def test_with_one_controller_down_everything_goes_to_the_other() -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.down = ("one",)

    bench = during(2_000, prepare, urls=(ONE, TWO))
    assert bench.client.current_url == TWO
    assert bench.session.has_full_state
    assert len(bench.controller.seen("heartbeat")) >= 4


def test_without_any_controller_it_asks_again_and_lets_itself_be_found() -> None:
    async def restore(bench: Bench) -> None:
        await trio.sleep(5)
        assert bench.session.may_listen.is_set()
        assert bench.lease.held_until_ms < 0
        bench.controller.down = ()

    def prepare(bench: Bench) -> Awaitable[None]:
        bench.controller.down = ("one",)
        return restore(bench)

    bench = during(9_000, prepare)
    assert len(bench.registered) == 1


def test_a_first_failure_is_ordinary_and_one_that_goes_on_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.down = ("one",)

    caplog.set_level("INFO", "springtide.node.controller_session")
    during(4_000, prepare)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    caplog.clear()
    during(19_000, prepare)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "WARNING", "WARNING"]
    assert {record.msg for record in caplog.records} == {"no_controller_to_register_with cause=%s"}


def test_a_report_whose_answer_was_lost_is_sent_again_as_it_was() -> None:
    def prepare(bench: Bench) -> None:
        bench.reports.problems = (PROBLEM,)
        bench.reports.proposals = (PROPOSAL,)
        bench.controller.then("report", httpx.ReadError("lost"))

    bench = during(1_000, prepare)
    first, second = bench.controller.seen("report")
    assert first == second
    assert (second.proposals, second.problems) == ((PROPOSAL,), (PROBLEM,))
    assert bench.reports.problems == ()
    assert len(bench.reports.answered) == 1


def test_s56_logs_are_told_again_when_a_replaced_controller_took_the_report() -> None:
    created = (CreatedLogs(topic_id="t", partitions=(0, 1)),)

    def prepare(bench: Bench) -> None:
        bench.reports.created = created
        bench.controller.then(
            "report", LagReportResponse(controller_epoch=ControllerEpoch(2))
        )  # FULL state came from epoch 3

    bench = during(1_800, prepare)
    assert [report.created for report in bench.controller.seen("report")] == [created, created]
    assert bench.reports.created == ()


def test_a_lease_counts_from_the_moment_before_the_heartbeat_was_sent() -> None:
    sent_ms: list[int] = []

    async def late() -> HeartbeatResponse:
        sent_ms.append(VirtualClock().mono_ms())
        await trio.sleep(1.5)
        return HeartbeatResponse(controller_epoch=ControllerEpoch(3), status=BrokerStatus.ACTIVE, sequence=1)

    def prepare(bench: Bench) -> None:
        bench.controller.then("heartbeat", late, trio.sleep_forever)

    bench = during(1_900, prepare)
    assert bench.lease.held_until_ms == sent_ms[0] + 5_000


def test_an_unanswered_heartbeat_is_given_up_and_the_next_one_sent() -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.then("heartbeat", trio.sleep_forever)

    bench = during(HEARTBEAT_TIMEOUT_MS + 1_500, prepare)
    times = [at_ms for verb, at_ms in bench.controller.times_ms if verb == "heartbeat"]
    assert times[1] - times[0] <= HEARTBEAT_TIMEOUT_MS + 500
    assert bench.lease.held_until_ms >= times[1] + 5_000


def test_heartbeats_go_out_while_a_batch_is_being_applied_and_it_counts_only_afterwards() -> None:
    async def hold(bench: Bench) -> None:
        await trio.sleep(3)
        assert len(bench.controller.seen("heartbeat")) >= 5
        assert bench.controller.seen("heartbeat")[-1].applied_sequence == -1
        assert bench.lease.held_until_ms < 0  # what happened before is not known yet
        assert bench.apply_gate is not None
        bench.apply_gate.set()

    def prepare(bench: Bench) -> Awaitable[None]:
        bench.apply_gate = trio.Event()
        return hold(bench)

    bench = during(4_500, prepare)
    assert bench.controller.seen("heartbeat")[-1].applied_sequence == 1
    assert bench.lease.held_until_ms > 4_500


def test_a_coordinator_tells_what_it_is_level_with_and_reports_nothing() -> None:
    level = (LevelShards(topic_id="t", partitions=(0, 7)),)
    controller = Controller()

    async def main() -> None:
        client = ControllerClient(
            urls=(ONE,),
            cluster="prod",
            broker_id=1001,
            clock=VirtualClock(),
            role="coordinators",
            transport=controller,
        )
        session = ControllerSession(
            client=client,
            identity=RegisterRequest(
                broker_id=1001,
                incarnation_id="me",
                host="h",
                port=1,
                log_dir_ids=(),
                last_shutdown=ShutdownKind.FIRST_START,
            ),
            cluster_id=None,
            lease=Lease(),
            clock=BrokerClock(VirtualClock()),
            rng=random.Random(1),
            apply=apply,
            on_registered=on_registered,
            level=lambda: level,
        )
        controller.then("heartbeat", HeartbeatResponse(error=ControllerError.METADATA_WENT_BACK))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run)
            await trio.sleep(2)
            nursery.cancel_scope.cancel()
        assert session.status is BrokerStatus.ACTIVE
        await client.aclose()

    async def apply(_: UpdateBatch) -> Sequence[ApplyFailure]:
        return ()

    async def on_registered(_: RegisterResponse) -> None:
        pass

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert {verb for verb, _ in controller.asked} == {"register", "heartbeat", "poll"}
    assert {each.level for each in controller.seen("heartbeat")} == {level}


def test_what_could_not_be_applied_is_told_with_the_next_poll_once() -> None:
    def prepare(bench: Bench) -> None:
        bench.failures = [FAILURE]
        bench.controller.then(
            "poll",
            UpdateBatch(
                controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(5), full=True, sequence=1
            ),
            UpdateBatch(controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(5), sequence=1),
            trio.sleep_forever,
        )

    bench = during(1_000, prepare)
    assert [poll.failures for poll in bench.controller.seen("poll")] == [(), (FAILURE,), ()]


def test_while_its_predecessor_lives_it_waits_and_refuses_connections() -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.then(
            "register",
            RegisterResponse(
                error=ControllerError.DUPLICATE_BROKER_REGISTRATION, controller_epoch=ControllerEpoch(3)
            ),
        )

    bench = during(100, prepare)
    assert not bench.session.may_listen.is_set()
    bench = during(3_000, prepare)
    assert bench.session.may_listen.is_set()
    assert bench.registered == [5]


@pytest.mark.parametrize(
    "error", [ControllerError.INCONSISTENT_CLUSTER_ID, ControllerError.UNSUPPORTED_LEVEL]
)
def test_a_process_that_no_controller_takes_as_it_is_ends_with_the_reason(error: ControllerError) -> None:
    def prepare(bench: Bench) -> None:
        bench.controller.then(
            "register",
            RegisterResponse(error=error, controller_epoch=ControllerEpoch(3), detail="it is staging's"),
        )

    with pytest.raises(BaseExceptionGroup) as caught:
        during(1_000, prepare)
    (refused,) = caught.value.exceptions
    assert isinstance(refused, RegistrationRefused)
    assert "staging" in str(refused)


@pytest.mark.parametrize(
    "heard",
    [
        {"error": ControllerError.STALE_BROKER_EPOCH, "heard_count": 900},
        {"error": ControllerError.STALE_BROKER_EPOCH, "heard_count": 1, "heard_answered": 0},
        {"has_asked_to_stop": True, "heard_count": 1},
        {"error": ControllerError.STALE_BROKER_EPOCH, "has_gone_back": True},
    ],
)
def test_s53_a_process_that_was_put_back_vouches_for_nothing_and_ends(heard: dict[str, Any]) -> None:
    benches: list[Bench] = []

    def prepare(bench: Bench) -> None:
        benches.append(bench)
        bench.controller.then("heartbeat", HeartbeatResponse(controller_epoch=ControllerEpoch(3), **heard))

    with pytest.raises(BaseExceptionGroup) as caught:
        during(5_000, prepare)
    (inner,) = caught.value.exceptions
    assert isinstance(inner, BaseExceptionGroup)
    (ended,) = inner.exceptions
    assert isinstance(ended, WentBack)
    assert benches[0].disowned == 1
    assert [each.count for each in benches[0].controller.seen("heartbeat")] == [1]


def test_s67_heartbeats_tell_which_was_answered_and_what_was_heard_of_others() -> None:
    of_another = Heard(broker_id=9, broker_epoch=BrokerEpoch(4), count=30, answered=29)

    def prepare(bench: Bench) -> None:
        bench.controller.then(
            "heartbeat", HeartbeatResponse(controller_epoch=ControllerEpoch(3), others=(of_another,))
        )

    beats = during(1_200, prepare).controller.seen("heartbeat")
    told = [(each.count, each.answered, each.others) for each in beats[:2]]
    assert told == [(1, -1, ()), (2, 1, (of_another,))]


def test_leave_to_stop_is_asked_for_at_once_and_taken() -> None:
    async def stop(bench: Bench) -> None:
        await trio.sleep(1.1)
        bench.controller.then(
            "heartbeat",
            HeartbeatResponse(
                controller_epoch=ControllerEpoch(3),
                status=BrokerStatus.SHUTTING_DOWN,
                sequence=1,
                may_shut_down=True,
            ),
        )
        asked = len(bench.controller.seen("heartbeat"))
        bench.session.begin_shutdown()
        await trio.testing.wait_all_tasks_blocked()
        assert len(bench.controller.seen("heartbeat")) == asked + 1
        assert bench.controller.seen("heartbeat")[-1].wants_shutdown
        assert bench.session.may_shut_down.is_set()

    during(2_000, stop)


def test_a_process_that_began_on_an_empty_disk_says_so_to_a_controller_that_forgot_it() -> None:
    """It has lived through its registration: for its seats that counts, not for what rows of an earlier time
    say of the disk before."""

    def test(bench: Bench) -> None:
        bench.session.core.identity = msgspec.structs.replace(
            bench.session.core.identity, last_shutdown=ShutdownKind.FIRST_START
        )
        went_back = HeartbeatResponse(
            error=ControllerError.METADATA_WENT_BACK, controller_epoch=ControllerEpoch(3)
        )
        bench.controller.then("heartbeat", went_back)

    bench = during(400, test)
    (report,) = bench.controller.seen("report")
    assert report.holdings.identity.last_shutdown is ShutdownKind.FIRST_START
    assert report.holdings.identity.previous_broker_epoch == 5
