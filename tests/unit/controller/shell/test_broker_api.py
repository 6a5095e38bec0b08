"""The brokers' endpoints over ASGI: typed answers, long polls, connections that end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from fastapi import FastAPI

from controller.core.events import CreateTopic
from controller.core.image import ClusterImage
from controller.core.stream import UpdateRange
from controller.shell.broker_api import (
    BODY_TIMEOUT_MS,
    SLICE_BYTES,
    SMALL_BODY_BYTES_MAX,
    EncodedBatches,
    create_routers,
)
from controller.shell.engine import Engine
from controller.shell.listeners import ListenerAnswer
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import LagReport, LagReportResponse, PartitionLag
from springtide.contract.session import HeartbeatRequest, HeartbeatResponse, RegisterResponse
from springtide.contract.updates import PollRequest, ProducerIdsRequest, ProducerIdsResponse, UpdateBatch
from tests.kit.clocks import VirtualClock
from tests.kit.controller.shell import (
    TOPIC_ID,
    AddressBook,
    Broker,
    broker_record,
    form_cluster,
    make_engine,
    running,
)
from tests.kit.memory.zookeeper import MemoryMeta, MemoryZooKeeper

pytestmark = pytest.mark.anyio


def application(engine: Engine) -> FastAPI:
    app = FastAPI()
    for router in create_routers(engine):
        app.include_router(router)
    return app


@asynccontextmanager
async def client(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=application(engine))
    async with httpx.AsyncClient(transport=transport, base_url="http://controller") as opened:
        yield opened


async def ask(
    http: httpx.AsyncClient, verb: str, body: Any, *, broker_id: int = 1, cluster: str = "prod"
) -> httpx.Response:
    return await http.post(
        f"/internal/clusters/{cluster}/brokers/{broker_id}:{verb}", content=msgspec.json.encode(body)
    )


async def poll(
    http: httpx.AsyncClient,
    broker: Broker,
    *,
    applied_controller_epoch: int = -1,
    applied_sequence: int = -1,
    wait_ms_max: int = 10_000,
) -> UpdateBatch:
    request = PollRequest(
        broker_id=broker.broker_id,
        broker_epoch=BrokerEpoch(broker.broker_epoch),
        applied_controller_epoch=ControllerEpoch(applied_controller_epoch),
        applied_sequence=applied_sequence,
        wait_ms_max=wait_ms_max,
    )
    answer = await ask(http, "poll", request, broker_id=broker.broker_id)
    assert answer.status_code == 200
    return msgspec.json.decode(answer.content, type=UpdateBatch)


def create_topic(*, partitions: int = 3) -> CreateTopic:
    return CreateTopic(
        topic_id=TOPIC_ID,
        topic="orders",
        partitions=partitions,
        replication_factor=3,
        actor="operator",
        wall_ms=1,
    )


async def test_a_broker_registers_and_beats_over_http(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        await engine.create_cluster("prod", configs={}, actor="operator")
        broker = Broker(engine, 1)
        answer = await ask(http, "register", broker.request)
        registered = msgspec.json.decode(answer.content, type=RegisterResponse)
        assert (registered.error, registered.controller_epoch) == (ControllerError.NONE, 1)
        beat = HeartbeatRequest(
            broker_id=1,
            broker_epoch=registered.broker_epoch,
            incarnation_id=broker.request.incarnation_id,
        )
        answer = await ask(http, "heartbeat", beat)
        assert msgspec.json.decode(answer.content, type=HeartbeatResponse).error is ControllerError.NONE


async def test_a_poll_gets_the_full_state_then_waits_for_the_next_change(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        brokers = await form_cluster(engine)
        full = await poll(http, brokers[0])
        assert full.full and full.broker_epoch == brokers[0].broker_epoch
        assert [endpoint.broker_id for endpoint in full.brokers] == [1, 2, 3]
        asked_at = anyio.current_time()
        received: list[UpdateBatch] = []

        async def wait() -> None:
            received.append(
                await poll(
                    http,
                    brokers[0],
                    applied_controller_epoch=full.controller_epoch,
                    applied_sequence=full.sequence,
                )
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(3)
            assert received == []
            await engine.submit("prod", create_topic())
        assert anyio.current_time() - asked_at < 3.1
        assert not received[0].full and len(received[0].partitions) == 3


async def test_a_poll_without_news_is_answered_with_its_own_position_after_its_wait(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        (broker, *_) = await form_cluster(engine)
        full = await poll(http, broker)
        asked_at = anyio.current_time()
        empty = await poll(
            http,
            broker,
            applied_controller_epoch=full.controller_epoch,
            applied_sequence=full.sequence,
            wait_ms_max=700,
        )
        assert 0.7 <= anyio.current_time() - asked_at < 0.8
        assert (empty.error, empty.full, empty.sequence) == (ControllerError.NONE, False, full.sequence)
        assert empty.partitions == ()


async def test_a_waiting_poll_learns_at_once_that_the_controller_is_no_longer_active(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    meta = zookeeper.connect()
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        (broker, *_) = await form_cluster(engine)
        full = await poll(http, broker)
        answers: list[UpdateBatch] = []

        async def wait() -> None:
            answers.append(
                await poll(
                    http,
                    broker,
                    applied_controller_epoch=full.controller_epoch,
                    applied_sequence=full.sequence,
                )
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.1)
            engine.stand_down()
        assert answers[0].error is ControllerError.NOT_CONTROLLER


async def test_all_brokers_waiting_for_one_change_get_the_same_bytes_but_their_epoch(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        brokers = await form_cluster(engine)
        batches = [await poll(http, broker) for broker in brokers]
        assert [batch.broker_epoch for batch in batches] == [broker.broker_epoch for broker in brokers]
        assert len({msgspec.json.encode(batch.partitions) for batch in batches}) == 1


async def test_a_large_batch_is_sent_in_slices_and_arrives_whole(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        (broker, *_) = await form_cluster(engine)
        await engine.submit("prod", create_topic(partitions=3_000))
        body = PollRequest(broker_id=1, broker_epoch=BrokerEpoch(broker.broker_epoch))
        request = HungUp(msgspec.json.encode(body), after_s=60)
        await application(engine)(scope_of("1:poll"), request.receive, request.send)
        start, *sent = request.sent
        headers = dict(start["headers"])
        lengths = [len(message["body"]) for message in sent]
        assert max(lengths) == SLICE_BYTES < sum(lengths) == int(headers[b"content-length"])
        assert [message["more_body"] for message in sent] == [True] * (len(sent) - 1) + [False]
        batch = msgspec.json.decode(b"".join(message["body"] for message in sent), type=UpdateBatch)
        assert batch.full and batch.broker_epoch == broker.broker_epoch and len(batch.partitions) == 3_000


class HungUp:
    """An ASGI request whose client closes the connection after `after_s` seconds."""

    def __init__(self, body: bytes, after_s: float, *, more_body: bool = False) -> None:
        self._messages = [{"type": "http.request", "body": body, "more_body": more_body}]
        self._after_s = after_s
        self.sent: list[Any] = []

    async def receive(self) -> dict[str, Any]:
        if self._messages:
            return self._messages.pop()
        await anyio.sleep(self._after_s)
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


async def hang_up(engine: Engine, broker: Broker, after_s: float) -> None:
    full_sequence = engine.cluster("prod").image.sequence
    body = msgspec.json.encode(
        PollRequest(
            broker_id=broker.broker_id,
            broker_epoch=BrokerEpoch(broker.broker_epoch),
            applied_controller_epoch=engine.controller_epoch,
            applied_sequence=full_sequence,
        )
    )
    request = HungUp(body, after_s)
    await application(engine)(scope_of(f"{broker.broker_id}:poll"), request.receive, request.send)


def scope_of(endpoint: str) -> dict[str, Any]:
    path = f"/internal/clusters/prod/brokers/{endpoint}"
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "server": ("controller", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }


async def test_a_closed_poll_and_a_refusing_listener_move_leadership_within_milliseconds(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("127.0.0.1", 9002)
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        await engine.submit("prod", create_topic())
        await anyio.sleep(0.2)
        listeners.answers[("127.0.0.1", 9002)] = ListenerAnswer.REFUSED
        await hang_up(engine, brokers[1], after_s=0.1)
        died_at = anyio.current_time()
        await engine.drivers.of("prod").published_beyond(engine.cluster("prod").image.sequence)
        assert anyio.current_time() - died_at < 0.05
        image = engine.cluster("prod").image
        assert image.brokers[2].fenced
        assert 2 not in {state.leader for state in image.partitions_of(TOPIC_ID)}


async def test_a_listener_that_opens_a_little_later_than_the_first_poll_is_known_all_the_same(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    """Else the next death of this broker would have to wait for the grace."""
    listeners = AddressBook()
    listeners.answers[("127.0.0.1", 9002)] = ListenerAnswer.REFUSED
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        listeners.open("127.0.0.1", 9002)
        await anyio.sleep(1)
        listeners.answers[("127.0.0.1", 9002)] = ListenerAnswer.REFUSED
        await hang_up(engine, brokers[1], after_s=0.1)
        await anyio.sleep(0.1)
        assert engine.cluster("prod").image.brokers[2].fenced


async def test_a_closed_poll_of_a_living_broker_changes_nothing(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    listeners.open("127.0.0.1", 9002)
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        await hang_up(engine, brokers[1], after_s=0.1)
        await anyio.sleep(1)
        assert listeners.asked and not engine.cluster("prod").image.brokers[2].fenced


async def test_a_listener_that_closes_a_little_later_than_the_poll_is_still_noticed(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    """The kernel closes a dying process's sockets one after the other."""
    listeners = AddressBook()
    listeners.open("127.0.0.1", 9002)
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        await hang_up(engine, brokers[1], after_s=0.1)
        await anyio.sleep(0.01)
        listeners.kill("127.0.0.1", 9002)
        await anyio.sleep(0.5)
        assert engine.cluster("prod").image.brokers[2].fenced


async def test_the_closed_poll_of_an_earlier_incarnation_is_nobodys_death(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    listeners = AddressBook()
    for port in (9001, 9002, 9003):
        listeners.open("127.0.0.1", port)
    engine = make_engine(meta, clock, listeners=listeners)
    async with running(engine):
        brokers = await form_cluster(engine)
        await anyio.sleep(0.1)
        listeners.asked.clear()
        listeners.answers[("127.0.0.1", 9002)] = ListenerAnswer.REFUSED
        engine.drivers.of("prod").on_session_closed(2, BrokerEpoch(brokers[1].broker_epoch - 1))
        await anyio.sleep(0.5)
        assert listeners.asked == []


async def test_a_standby_answers_brokers_with_the_url_of_the_active(
    zookeeper: MemoryZooKeeper, clock: VirtualClock
) -> None:
    first = make_engine(zookeeper.connect(), clock, name="c1")
    second = make_engine(zookeeper.connect(), clock, name="c2")
    async with running(first, second), client(second) as http:
        (broker, *_) = await form_cluster(first)
        answers = [
            json.loads((await ask(http, verb, body)).content)
            for verb, body in (
                ("register", broker.request),
                ("heartbeat", HeartbeatRequest(broker_id=1, broker_epoch=BrokerEpoch(1), incarnation_id="x")),
                ("poll", PollRequest(broker_id=1, broker_epoch=BrokerEpoch(1))),
                ("report", LagReport(broker_id=1, broker_epoch=BrokerEpoch(1))),
                ("allocate-producer-ids", ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(1))),
            )
        ]
        assert [(answer["error"], answer["active_controller"]) for answer in answers] == [
            ("not_controller", "http://c1:8080")
        ] * 5


async def test_an_unknown_cluster_is_a_typed_answer(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        answer = await ask(
            http, "poll", PollRequest(broker_id=1, broker_epoch=BrokerEpoch(1)), cluster="other"
        )
        assert answer.status_code == 200
        assert json.loads(answer.content)["error"] == "unknown_cluster"


async def test_reports_and_producer_ids_get_their_answers(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        brokers = await form_cluster(engine)
        await engine.submit("prod", create_topic())
        image = engine.cluster("prod").image
        led = next(state for state in image.partitions_of(TOPIC_ID) if state.leader == 1)
        lag = PartitionLag(
            topic_id=TOPIC_ID,
            partition=led.partition,
            leader_epoch=LeaderEpoch(0),
            log_start_offset=0,
            log_end_offset=9,
            high_watermark=9,
            size_bytes=100,
        )
        report = LagReport(broker_id=1, broker_epoch=BrokerEpoch(brokers[0].broker_epoch), lags=(lag,))
        reported = msgspec.json.decode((await ask(http, "report", report)).content, type=LagReportResponse)
        assert reported.error is ControllerError.NONE
        assert engine.cluster("prod").lag((TOPIC_ID, led.partition)) == lag
        request = ProducerIdsRequest(broker_id=1, broker_epoch=BrokerEpoch(brokers[0].broker_epoch))
        blocks = [
            msgspec.json.decode(
                (await ask(http, "allocate-producer-ids", request)).content, type=ProducerIdsResponse
            )
            for _ in range(2)
        ]
        assert blocks[1].first_producer_id == blocks[0].first_producer_id + blocks[0].count


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'{"broker_id": "one"}', 400),
        (b'{"broker_id": 2, "broker_epoch": 1, "incarnation_id": "x"}', 409),  # Not the path's broker.
    ],
)
async def test_a_body_that_cannot_be_read_is_refused_in_plain_http(
    body: bytes, status: int, meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        answer = await http.post("/internal/clusters/prod/brokers/1:heartbeat", content=body)
        assert (answer.status_code, answer.json()["status"]) == (status, status)


async def test_what_a_later_release_tells_besides_is_not_looked_at(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine), client(engine) as http:
        body = msgspec.json.decode(
            msgspec.json.encode(
                HeartbeatRequest(broker_id=1, broker_epoch=BrokerEpoch(1), incarnation_id="x")
            )
        )
        body |= {"of_next_year": [1], "groups": {"rebalances": [], "moods": ["calm"]}}
        answer = await http.post(
            "/internal/clusters/prod/brokers/1:heartbeat", content=msgspec.json.encode(body)
        )
        assert answer.status_code == 200


async def test_a_body_above_its_bound_is_refused_before_it_is_all_there(
    meta: MemoryMeta, clock: VirtualClock
) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        request = HungUp(b" " * (SMALL_BODY_BYTES_MAX + 1), after_s=60)
        await application(engine)(scope_of("1:register"), request.receive, request.send)
        assert request.sent[0]["status"] == 413


async def test_a_body_is_not_waited_for_without_end(meta: MemoryMeta, clock: VirtualClock) -> None:
    engine = make_engine(meta, clock)
    async with running(engine):
        for verb in ("heartbeat", "poll"):
            request = HungUp(b"{", after_s=3_600, more_body=True)
            started_ms = clock.now_mono_ms()
            await application(engine)(scope_of(f"1:{verb}"), request.receive, request.send)
            assert request.sent[0]["status"] == 408
            assert (b"connection", b"close") in request.sent[0]["headers"]
            assert clock.now_mono_ms() - started_ms == pytest.approx(BODY_TIMEOUT_MS, abs=100)


def test_an_encoded_batch_differs_between_brokers_in_the_epoch_alone() -> None:
    image = ClusterImage()
    image.replay(broker_record(1))
    batches = EncodedBatches()
    update = UpdateRange(full=True, from_sequence=-1, to_sequence=1)
    encoded = [
        batches.encode(
            "prod", image, update, controller_epoch=ControllerEpoch(3), broker_epoch=BrokerEpoch(epoch)
        )
        for epoch in (7, 8)
    ]
    decoded = [msgspec.json.decode(b"".join(pieces), type=UpdateBatch) for pieces in encoded]
    assert [batch.broker_epoch for batch in decoded] == [7, 8]
    assert msgspec.structs.replace(decoded[0], broker_epoch=8) == decoded[1]
    assert encoded[0][1] is encoded[1][1]


def test_the_endpoints_describe_their_bodies() -> None:
    document = application(make_engine(MemoryZooKeeper().connect(), VirtualClock())).openapi()
    path = document["paths"]["/internal/clusters/{cluster}/brokers/{broker_id}:heartbeat"]["post"]
    schema = path["requestBody"]["content"]["application/json"]["schema"]
    assert {"broker_id", "broker_epoch", "incarnation_id"} <= set(schema["required"])
    assert "lease_ms" in path["responses"]["200"]["content"]["application/json"]["schema"]["properties"]
    assert "$ref" not in json.dumps(path["requestBody"])
