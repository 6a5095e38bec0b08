"""POST /topics with `wait_ms`: answered when clients can use the topic, or that it goes on being made."""

from __future__ import annotations

import pytest

from tests.kit.admin_api.rest import Rest, controller, problem, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

BODY = {"name": "orders", "cluster": "prod", "partitions": 2, "replication_factor": 3}


def late(rest: Rest) -> tuple[int, ...]:
    image = rest.engine.cluster("prod").image
    return rest.engine.drivers.of("prod").machine.not_serving(
        list(image.topics), max(image.announced_at.values())
    )


async def test_without_a_wait_the_answer_comes_when_the_topic_is_stored(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        assert (await rest.post("/topics", BODY)).status_code == 201
        assert late(rest) == (1, 2, 3)


async def test_with_a_wait_the_answer_comes_when_clients_can_use_the_topic(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        async with speaking(rest, brokers):
            made = await rest.post("/topics", BODY | {"wait_ms": 5_000})
            assert (made.status_code, late(rest)) == (201, ())


async def test_after_the_wait_the_answer_says_that_the_topic_is_stored_and_a_repetition_waits_again(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        began_ms = rest.clock.now_mono_ms()
        slow = await rest.post("/topics", BODY | {"wait_ms": 2_000}, idempotency_key="one")
        assert problem(slow) == (504, "not_in_force")
        assert 2_000 <= rest.clock.now_mono_ms() - began_ms < 2_100
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 200
        again = BODY | {"wait_ms": 2_000, "if_not_exists": True}
        assert problem(await rest.post("/topics", again)) == (504, "not_in_force")
        dry = await rest.post("/topics?dry_run=true", BODY | {"name": "payments", "wait_ms": 2_000})
        assert dry.status_code == 200, "nothing is made, so nothing is waited for"
        async with speaking(rest, brokers):
            assert (await rest.post("/topics", again)).status_code == 200
            same = await rest.post("/topics", BODY | {"wait_ms": 2_000}, idempotency_key="one")
            assert same.status_code == 201
