"""`Prefer: wait=N`: the answer comes when the operation has ended, or when the wait is over."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from admin_api.http.writes import WAIT_SECONDS_MAX, wait_seconds
from tests.kit.admin_api.rest import controller, problem
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

BROKERS = "/clusters/prod/brokers"
BROKER_4 = {"broker_id": 4, "endpoint": "127.0.0.1:9004", "rebalance": {"mode": "none"}}


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ([], 0),
        (["wait=30"], 30),
        (["respond-async, Wait = 10; strict"], 10),
        (["return=minimal", 'wait="5"'], 5),
        (["wait=7, wait=8"], 7),
        (["wait=100000000000000000000"], WAIT_SECONDS_MAX),
        (["wait=-1"], 0),
        (["wait=²"], 0),
        (["wait"], 0),
        (["waiting=3,,;=,"], 0),
    ],
)
def test_what_a_preference_asks_for(fields: list[str], seconds: int) -> None:
    assert wait_seconds(fields) == seconds


async def test_the_answer_waits_until_the_operation_has_ended(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        answers: list[Any] = []

        async def add() -> None:
            answers.append(await rest.post(BROKERS, BROKER_4, Prefer="wait=30", Idempotency_Key="k1"))

        began_at = rest.clock.now_mono_ms()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await rest.clock.sleep_ms(2_000)
            assert answers == []
            meanwhile = await rest.post(BROKERS, BROKER_4, Idempotency_Key="k1")
            assert (meanwhile.status_code, meanwhile.json()["state"]) == (202, "preflight")
            rest.listeners.open("127.0.0.1", 9004)
            broker = Broker(rest.engine, 4)
            await broker.register()
            await broker.report_preflight()
            for _ in range(4):
                await rest.clock.sleep_ms(500)
                await broker.heartbeat()
                await broker.apply()
        (answer,) = answers
        assert (answer.status_code, answer.json()["state"]) == (202, "succeeded")
        assert answer.headers["preference-applied"] == "wait=30"
        assert answer.headers["location"] == f"/operations/{answer.json()['id']}"
        assert rest.clock.now_mono_ms() - began_at < 10_000

        again = await rest.post(BROKERS, BROKER_4, Idempotency_Key="k1")
        assert again.headers["idempotency-replayed"] == "true"
        assert again.json()["state"] == "preflight", "the first answer"


async def test_when_the_wait_is_over_the_answer_says_how_far_it_is(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        began_at = rest.clock.now_mono_ms()
        answer = await rest.post(BROKERS, BROKER_4, Prefer="wait=3")
        assert 3_000 <= rest.clock.now_mono_ms() - began_at < 4_000
        assert (answer.status_code, answer.json()["state"]) == (202, "preflight")
        assert answer.json()["blocked"][0]["code"] == "broker_unreachable"


async def test_what_starts_no_operation_and_what_is_refused_is_answered_at_once(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        began_at = rest.clock.now_mono_ms()
        made = await rest.post("/clusters", {"name": "prod"}, Prefer="wait=30")
        assert (made.status_code, "preference-applied" in made.headers) == (201, False)
        assert problem(await rest.post(BROKERS, {"broker_id": -1}, Prefer="wait=30"))[0] == 422
        tried = await rest.post(f"{BROKERS}?dry_run=true", BROKER_4, Prefer="wait=30")
        assert tried.status_code == 200
        assert rest.clock.now_mono_ms() - began_at < 1_000


async def test_a_database_that_goes_away_ends_the_wait_with_what_was_accepted(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        answers: list[Any] = []

        async def add() -> None:
            answers.append(await rest.post(BROKERS, BROKER_4, Prefer="wait=30"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(add)
            await rest.clock.sleep_ms(2_000)
            rest.sql.down = True
        (answer,) = answers
        assert (answer.status_code, answer.json()["state"]) == (202, "preflight")


async def test_a_term_that_ends_during_a_look_at_operations_fails_none(zookeeper: MemoryZooKeeper) -> None:
    """The controller that had just resigned had no copy of the cluster, and took it for one that is gone."""
    async with controller(zookeeper) as rest:
        await rest.post("/clusters", {"name": "prod"})
        started = await rest.post(BROKERS, BROKER_4)
        rest.engine.stand_down()
        await rest.clock.sleep_ms(1)
        assert rest.engine.role == "standby"
        await rest.app.state.operations.advance_all()
        found = await rest.client.get(f"/operations/{started.json()['id']}")
        assert (found.status_code, found.json()["state"]) == (200, "preflight")
