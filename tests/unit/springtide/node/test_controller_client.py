"""Which controller is asked, which is believed, and what a silent one leaves unknown."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import httpx
import msgspec
import pytest
import trio

from springtide.contract.administration import (
    AdminOutcome,
    AdminRequest,
    AdminResponse,
    DeleteTopicsCall,
    TopicToDelete,
)
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.partition_state import WriterId
from springtide.contract.session import Witness
from springtide.contract.updates import (
    NameWriterRequest,
    NameWriterResponse,
    PollRequest,
    ProducerIdsRequest,
    ProducerIdsResponse,
)
from springtide.levels import Level
from springtide.node.clock import MachineClock
from springtide.node.controller_client import (
    AnswerLost,
    ControllerClient,
    ControllerUnavailable,
    NotUnderstood,
    Seen,
)

ONE, TWO, THREE = "http://one:1", "http://two:2", "http://three:3"
REQUEST = ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1))

Answers = dict[str, Callable[[], httpx.Response]]


def ok(**fields: object) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(200, content=msgspec.json.encode(ProducerIdsResponse(**fields)))  # type: ignore[arg-type]


def refuse() -> httpx.Response:
    raise httpx.ConnectError("refused")


def ask(
    answers: Answers, urls: tuple[str, ...], *, seen: int = -1, times: int = 1
) -> tuple[object, list[str], int]:
    """(last answer or error, who was asked in order, the highest controller epoch afterwards)."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        url = f"{request.url.scheme}://{request.url.host}:{request.url.port}"
        asked.append(url)
        assert request.url.path == "/internal/clusters/prod/brokers/1:allocate-producer-ids"
        return answers[url]()

    async def run() -> tuple[object, list[str], int]:
        client = ControllerClient(
            urls=urls,
            cluster="prod",
            broker_id=1,
            clock=MachineClock(),
            seen=Seen(ControllerEpoch(seen)),
            transport=httpx.MockTransport(handle),
        )
        outcome: object = None
        try:
            for _ in range(times):
                outcome = await client.allocate_producer_ids(REQUEST)
        except ControllerUnavailable as error:
            outcome = error
        finally:
            await client.aclose()
        return outcome, asked, client.seen.controller_epoch

    return trio.run(run)


def test_the_next_is_asked_when_one_refuses_and_kept_while_it_answers() -> None:
    outcome, asked, _ = ask({ONE: refuse, TWO: ok(count=5)}, (ONE, TWO), times=2)
    assert outcome == ProducerIdsResponse(count=5)
    assert asked == [ONE, TWO, TWO]


def test_a_coordinator_asks_under_its_own_path_for_the_name_of_a_writer() -> None:
    asked: list[str] = []
    named = NameWriterResponse(controller_epoch=ControllerEpoch(4), writer=WriterId(9))

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=msgspec.json.encode(named))

    async def run() -> NameWriterResponse:
        client = ControllerClient(
            urls=(ONE,),
            cluster="prod",
            broker_id=1001,
            clock=MachineClock(),
            role="coordinators",
            transport=httpx.MockTransport(handle),
        )
        request = NameWriterRequest(broker_id=1001, broker_epoch=BrokerEpoch(2), topic_id="t", partition=7)
        try:
            return await client.name_writer(request)
        finally:
            await client.aclose()

    assert trio.run(run) == named
    assert asked == ["/internal/clusters/prod/coordinators/1001:name-writer"]


def test_every_request_carries_the_brokers_token_if_it_has_one() -> None:
    def sent_by(token: str | None) -> list[str | None]:
        sent: list[str | None] = []

        def handle(request: httpx.Request) -> httpx.Response:
            sent.append(request.headers.get("authorization"))
            return ok(count=5)()

        async def run() -> None:
            transport = httpx.MockTransport(handle)
            client = ControllerClient(
                urls=(ONE,),
                cluster="prod",
                broker_id=1,
                clock=MachineClock(),
                transport=transport,
                token=token,
            )
            await client.allocate_producer_ids(REQUEST)
            with contextlib.suppress(ControllerUnavailable):
                await client.poll(PollRequest(broker_id=1, broker_epoch=BrokerEpoch(1), wait_ms_max=10))
            await client.aclose()

        trio.run(run)
        assert len(sent) > 1, "both kinds of connection"
        return sent

    assert set(sent_by("secret")) == {"Bearer secret"}
    assert set(sent_by(None)) == {None}


def test_a_hint_is_followed_even_to_a_controller_that_is_not_configured() -> None:
    standby = ok(error=ControllerError.NOT_CONTROLLER, active_controller=THREE + "/")
    outcome, asked, _ = ask({ONE: standby, THREE: ok(count=5)}, (ONE, TWO))
    assert outcome == ProducerIdsResponse(count=5)
    assert asked == [ONE, THREE]


def test_a_redirect_is_a_hint() -> None:
    redirect = httpx.Response(307, headers={"location": f"{TWO}/internal/whatever"})
    outcome, asked, _ = ask({ONE: lambda: redirect, TWO: ok(count=5)}, (ONE, TWO))
    assert outcome == ProducerIdsResponse(count=5)
    assert asked == [ONE, TWO]


def test_a_controller_that_was_replaced_is_not_believed() -> None:
    answers = {ONE: ok(controller_epoch=3, count=1), TWO: ok(controller_epoch=4, count=2)}
    outcome, asked, seen = ask(answers, (ONE, TWO), seen=4)
    assert outcome == ProducerIdsResponse(controller_epoch=ControllerEpoch(4), count=2)
    assert asked == [ONE, TWO]
    assert seen == 4


def test_a_higher_epoch_is_remembered() -> None:
    assert ask({ONE: ok(controller_epoch=9)}, (ONE,), seen=4)[2] == 9


@pytest.mark.parametrize(
    "bad",
    [
        lambda: httpx.Response(500),
        lambda: httpx.Response(200, content=b"not json"),
        lambda: httpx.Response(200, content=b'{"error": "\xff"}'),
        refuse,
    ],
    ids=["500", "not json", "no UTF-8", "refused"],
)
def test_when_nobody_answers_the_outcome_is_unknown(bad: Callable[[], httpx.Response]) -> None:
    outcome, asked, _ = ask({ONE: bad, TWO: bad}, (ONE, TWO))
    assert isinstance(outcome, ControllerUnavailable)
    assert asked == [ONE, TWO]


def test_two_controllers_that_name_each_other_do_not_keep_us_busy() -> None:
    def standby(other: str) -> Callable[[], httpx.Response]:
        return ok(error=ControllerError.NOT_CONTROLLER, active_controller=other)

    outcome, asked, _ = ask({ONE: standby(TWO), TWO: standby(ONE)}, (ONE, TWO))
    assert isinstance(outcome, ControllerUnavailable)
    assert asked == [ONE, TWO]


def administer(answers: Answers, *, seen: int = -1) -> tuple[object, list[str]]:
    """(answer or error, who was sent the request)."""
    asked: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        url = f"{request.url.scheme}://{request.url.host}:{request.url.port}"
        assert request.url.path == "/internal/clusters/prod/brokers/1:administer"
        asked.append(url)
        return answers[url]()

    async def run() -> object:
        client = ControllerClient(
            urls=(ONE, TWO),
            cluster="prod",
            broker_id=1,
            clock=MachineClock(),
            seen=Seen(ControllerEpoch(seen)),
            transport=httpx.MockTransport(handle),
        )
        call = DeleteTopicsCall(topics=(TopicToDelete(name="orders"),))
        request = AdminRequest(broker_id=1, broker_epoch=BrokerEpoch(1), client_host="10.0.0.1", call=call)
        try:
            return await client.administer(request, 1_000)
        except ControllerUnavailable as error:
            return error
        finally:
            await client.aclose()

    return trio.run(run), asked


DELETED = AdminResponse(controller_epoch=ControllerEpoch(3), outcomes=(AdminOutcome(),))


def told(answer: AdminResponse) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(200, content=msgspec.json.encode(answer))


def break_off() -> httpx.Response:
    raise httpx.ReadError("broken off")


def test_administration_goes_on_to_another_controller_only_where_nothing_can_have_been_done() -> None:
    standby = told(AdminResponse(error=ControllerError.NOT_CONTROLLER))
    for nothing_done in (refuse, standby):
        assert administer({ONE: nothing_done, TWO: told(DELETED)}) == (DELETED, [ONE, TWO])


@pytest.mark.parametrize("first", [break_off, lambda: httpx.Response(500), told(DELETED)])
def test_administration_is_not_sent_again_where_it_may_have_been_done(
    first: Callable[[], httpx.Response],
) -> None:
    """The last: by a controller that has been replaced, as its epoch says."""
    outcome, asked = administer({ONE: first, TWO: told(DELETED)}, seen=4)
    assert isinstance(outcome, AnswerLost)
    assert asked == [ONE]


@pytest.mark.parametrize("status", [400, 404, 405, 501])
def test_administration_that_a_controller_does_not_know_was_not_done(status: int) -> None:
    not_known = lambda: httpx.Response(status)  # noqa: E731
    assert administer({ONE: not_known, TWO: told(DELETED)}) == (DELETED, [ONE, TWO])
    outcome, asked = administer({ONE: not_known, TWO: refuse})
    assert isinstance(outcome, NotUnderstood)
    assert asked == [ONE, TWO]


def test_a_request_that_the_controller_does_not_know_is_said_once_and_costs_no_other_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The active controller is of the release before, which has no such verb."""
    asked: list[str] = []
    has_been_upgraded = False

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.url.host} {request.url.path.rpartition(':')[2]}")
        if request.url.host == "two":
            return httpx.Response(
                200, content=msgspec.json.encode(ControllerAnswer(error=ControllerError.NOT_CONTROLLER))
            )
        if request.url.path.endswith(":name-writer") and not has_been_upgraded:
            return httpx.Response(404, text="no such page", headers={"server": "springtide/0.1.0"})
        return httpx.Response(200, content=msgspec.json.encode(ProducerIdsResponse(count=7)))

    async def run() -> None:
        nonlocal has_been_upgraded
        client = ControllerClient(
            urls=(ONE, TWO),
            cluster="prod",
            broker_id=1,
            clock=MachineClock(),
            transport=httpx.MockTransport(handle),
        )
        new = NameWriterRequest(broker_id=1, broker_epoch=BrokerEpoch(1), topic_id="t", partition=0)
        for _ in range(3):
            with pytest.raises(NotUnderstood, match="upgrade the controllers first"):
                await client.name_writer(new)
            assert (await client.allocate_producer_ids(REQUEST)).count == 7
        (text,) = client.not_understood.values()
        assert "http://one:1 is of release 0.1.0 and does not know the request 'name-writer'" in text
        has_been_upgraded = True
        await client.name_writer(new)
        assert client.not_understood == {}
        await client.aclose()

    trio.run(run)
    assert asked[:3] == ["one name-writer", "two name-writer", "one allocate-producer-ids"]
    assert [record.message for record in caplog.records if "request_not_understood" in record.message] == [
        caplog.records[0].message
    ]


def test_one_controller_epoch_of_two_lineages_is_believed_in_the_first() -> None:
    """The second was minted by a ZooKeeper that went back: what it says would take back what was told."""

    async def run() -> tuple[object, Seen]:
        answers = {
            ONE: ok(controller_epoch=7, lineage="first"),
            TWO: ok(controller_epoch=7, lineage="second"),
        }

        def handle(request: httpx.Request) -> httpx.Response:
            return answers[f"{request.url.scheme}://{request.url.host}:{request.url.port}"]()

        told: list[Seen] = []
        client = ControllerClient(
            urls=(ONE, TWO),
            cluster="prod",
            broker_id=1,
            clock=MachineClock(),
            transport=httpx.MockTransport(handle),
            on_seen=told.append,
        )
        await client.allocate_producer_ids(REQUEST)
        client.note_records(40, Level(1))
        answers[ONE] = refuse
        with pytest.raises(ControllerUnavailable):
            await client.allocate_producer_ids(REQUEST)
        await client.aclose()
        assert told == [Seen(ControllerEpoch(7), "first"), Seen(ControllerEpoch(7), "first", 40, Level(1))]
        return client.witness("C"), client.seen

    witness, seen = trio.run(run)
    assert seen == Seen(ControllerEpoch(7), "first", 40, Level(1))
    assert witness == Witness(
        cluster_id="C", controller_epoch=ControllerEpoch(7), lineage="first", records=40, level=Level(1)
    )


@pytest.mark.parametrize("epoch", [3, 9])
def test_a_controller_that_knows_less_is_heard_when_it_says_so_itself(epoch: int) -> None:
    """Else nobody would tell it what the metadata was. It teaches nothing: by what was told before its
    successor finds out, too."""
    error = ControllerError.METADATA_WENT_BACK
    outcome, _, seen = ask({ONE: ok(error=error, controller_epoch=epoch)}, (ONE,), seen=7)
    assert (outcome, seen) == (ProducerIdsResponse(error=error, controller_epoch=ControllerEpoch(epoch)), 7)
