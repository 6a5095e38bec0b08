from __future__ import annotations

import dataclasses

import anyio
import msgspec
import pytest

from controller.shell.leadership import ACTIVE_PATH, ClaimRow
from tests.kit.admin_api.rest import ACTOR, Rest, controller, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = {"name": "orders", "partitions": 3, "replication_factor": 3}


async def creations(rest: Rest) -> int:
    return len(await rest.recorded(entity="topic", kind="change", cause="topic_created"))


async def test_the_same_key_and_body_get_the_first_answer_again(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        first = await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        again = await rest.client.post(
            "/topics",
            content=b'{"replication_factor":3,  "partitions":3,"name":"orders"}',
            headers={"Content-Type": "application/json", "Idempotency-Key": "k1"},
        )
        assert (first.status_code, "idempotency-replayed" in first.headers) == (201, False)
        assert (again.status_code, again.content) == (201, first.content)
        assert again.headers["idempotency-replayed"] == "true"
        assert again.headers["location"] == first.headers["location"]
        assert await creations(rest) == 1


async def test_a_refusal_is_replayed_like_any_answer(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form(1)
        refused = await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        assert problem(refused) == (422, "replication_factor_too_large")
        again = await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        assert (again.status_code, again.content) == (422, refused.content)
        assert again.headers["content-type"] == "application/problem+json"
        assert again.headers["idempotency-replayed"] == "true"


async def test_a_key_stands_for_one_body_one_path_and_one_actor(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        other_body = await rest.post("/topics", TOPIC | {"name": "events"}, Idempotency_Key="k1")
        assert problem(other_body) == (422, "idempotency_key_reused")
        other_path = await rest.post("/clusters/prod/topics", TOPIC, Idempotency_Key="k1")
        assert problem(other_path) == (409, "topic_already_exists")
        other_actor = await rest.post("/topics", TOPIC, Idempotency_Key="k1", X_Actor="bob")
        assert problem(other_actor) == (409, "topic_already_exists")
        for key in ("", "a b", "x" * 256):
            assert problem(await rest.post("/topics", TOPIC, Idempotency_Key=key)) == (422, "invalid_request")


async def test_a_hundred_equal_requests_at_once_have_one_effect(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        answers: list[int] = []

        async def ask() -> None:
            answers.append((await rest.post("/topics", TOPIC, Idempotency_Key="storm")).status_code)

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(ask)
        assert set(answers) <= {201, 409}
        assert 201 in answers
        assert await creations(rest) == 1
        assert (await rest.post("/topics", TOPIC, Idempotency_Key="storm")).status_code == 201


async def test_when_the_answer_was_lost_the_next_attempt_finds_its_own_topic(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.meta.hold_writes()
        async with anyio.create_task_group() as tasks:
            lost: list[int] = []

            async def ask() -> None:
                lost.append((await rest.post("/topics", TOPIC, Idempotency_Key="k1")).status_code)

            tasks.start_soon(ask)
            await rest.meta.until_held(1)
            rest.meta.release_writes()
            rest.meta.disconnect()
            await rest.clock.sleep_ms(500)
            rest.meta.reconnect()
        await rest.clock.sleep_ms(30_000)
        assert rest.engine.role == "active"
        again = await rest.post("/topics", TOPIC, Idempotency_Key="k1")
        assert again.status_code == 201, again.text
        assert await creations(rest) == 1


async def test_a_request_is_written_down_before_and_its_outcome_after(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await rest.post("/topics", TOPIC | {"reason": "launch"})
        refused = await rest.post("/topics", TOPIC)
        requests = await rest.recorded(kind="request", cause="create_topic")
        assert [(row["outcome"]["outcome"], row["outcome"]["code"]) for row in requests] == [
            ("refused", "topic_already_exists"),
            ("succeeded", None),
        ]
        assert requests[0]["request_id"] == refused.headers["x-request-id"]
        chain = await rest.recorded(request_id=created.headers["x-request-id"])
        assert [(row["kind"], row["entity"]) for row in chain] == [
            ("change", "topic"),
            *[("change", "partition")] * 3,
            ("request", "topic"),
        ]
        assert {(row["actor"], row["reason"]) for row in chain} == {(ACTOR, "launch")}


async def test_while_sql_is_down_operators_are_refused_and_reads_go_on(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        rest.sql.down = True
        for headers in ({}, {"Idempotency_Key": "k1"}):
            refused = await rest.post("/topics", TOPIC, **headers)
            assert problem(refused) == (503, "audit_unavailable")
            assert refused.headers["retry-after"] == "1"
        assert problem(await rest.client.delete("/clusters/prod/topics/orders"))[0] == 503
        assert problem(await rest.client.get("/audit")) == (503, "audit_unavailable")
        not_ready = await rest.client.get("/readyz")
        assert problem(not_ready) == (503, "not_ready")
        assert not_ready.json()["facts"]["sql"] == "unavailable"
        assert (await rest.client.get("/healthz")).json() == {"status": "ok"}
        assert (await rest.client.get("/clusters/prod/topics")).json()["items"] == []
        for broker in brokers:
            await broker.heartbeat()
        rest.sql.down = False
        assert (await rest.post("/topics", TOPIC, Idempotency_Key="k1")).status_code == 201


async def test_what_was_done_before_sql_went_down_is_never_called_a_failure(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        rest.sql.writes_left = 1  # the intent, and not the operation
        response = await rest.client.delete("/clusters/prod/topics/orders")
        assert problem(response) == (504, "outcome_unknown")
        assert problem(await rest.client.get("/clusters/prod/topics/orders")) == (404, "topic_not_found")
        rest.sql.down, rest.sql.writes_left = False, None
        (request,) = await rest.recorded(kind="request", cause="delete_topic")
        assert request["outcome"]["outcome"] == "unknown"
        assert len(await rest.recorded(cause="topic_deletion_started")) == 1


async def test_a_standby_serves_marked_reads_and_sends_writes_to_the_active_one(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, name="c1") as active:
        await active.form()
        async with controller(zookeeper, name="c2", is_active=False) as standby:
            await standby.clock.sleep_ms(5_000)
            assert standby.engine.role == "standby"
            shown = await standby.client.get("/clusters/prod")
            assert shown.status_code == 200
            assert 0 <= int(shown.headers["data-age-ms"]) < 3_000
            assert "age" in shown.headers
            of_active = (await active.client.get("/clusters/prod")).json()
            assert (of_active["health"], shown.json()["health"]) == ("ok", "unknown")
            assert [c["health"] for c in (await standby.client.get("/clusters")).json()["items"]] == [
                "unknown"
            ]
            assert "data-age-ms" not in (await active.client.get("/clusters/prod")).headers
            moved = await standby.post("/topics?dry_run=false", TOPIC)
            assert problem(moved) == (307, "not_the_active_controller")
            assert moved.headers["location"] == "http://c1:8080/topics?dry_run=false"
            ready = (await standby.client.get("/readyz")).json()
            assert (ready["ready"], ready["role"], ready["active_url"]) == (True, "standby", "http://c1:8080")
            alarms = await standby.client.get("/clusters/prod/alarms")
            assert (alarms.status_code, alarms.headers["location"]) == (
                307,
                "http://c1:8080/clusters/prod/alarms",
            )
            words = (alarms.json()["title"], alarms.json()["detail"])
            assert words == (
                "Only the active controller answers this",
                "this controller is a standby; the active one is http://c1:8080",
            )


async def test_a_standby_never_says_that_something_does_not_exist(zookeeper: MemoryZooKeeper) -> None:
    """Its copy may be older than the thing. Found when a new cluster's first POST got 404 from a standby."""
    async with (
        controller(zookeeper, name="c1") as active,
        controller(zookeeper, name="c2", is_active=False) as standby,
    ):
        await standby.clock.sleep_ms(5_000)
        await active.form()
        broker = {"broker_id": 9, "endpoint": "b9:9092"}
        for answer in (
            await standby.post("/clusters/prod/brokers", broker),
            await standby.post("/topics", TOPIC),
            await standby.client.get("/clusters/prod"),
            await standby.client.get("/clusters/prod/topics/orders"),
            await standby.client.get("/operations/op_0123456789abcdefghijkl"),
        ):
            assert problem(answer) == (307, "not_the_active_controller")
            target = answer.request.url.raw_path.decode()
            assert answer.headers["location"] == f"http://c1:8080{target}"
        assert problem(await active.client.get("/clusters/prod/topics/orders")) == (
            404,
            "topic_not_found",
        )


async def test_a_claim_by_an_earlier_process_at_the_same_address_is_no_redirect(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, name="c1") as active:
        await active.form()
        node = zookeeper.nodes[ACTIVE_PATH]
        claim = msgspec.json.decode(node.data, type=ClaimRow)
        data = msgspec.json.encode(msgspec.structs.replace(claim, url="http://c2:8080"))
        zookeeper.nodes[ACTIVE_PATH] = dataclasses.replace(node, data=data)
        async with controller(zookeeper, name="c2", is_active=False) as restarted:
            await restarted.clock.sleep_ms(100)
            assert problem(await restarted.post("/topics", TOPIC)) == (503, "no_active_controller")
            for path in ("topics/orders", "alarms"):
                answer = await restarted.client.get(f"/clusters/prod/{path}")
                assert problem(answer) == (503, "no_active_controller"), path


async def test_a_standby_that_has_read_nothing_yet_does_not_say_that_there_is_nothing(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, name="c1", is_active=False) as rest:
        assert problem(await rest.client.get("/clusters")) == (503, "no_active_controller")
        assert problem(await rest.client.get("/clusters/prod")) == (503, "no_active_controller")


async def test_without_zookeeper_writes_are_refused_and_it_is_not_ready(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.meta.disconnect()
        await rest.clock.sleep_ms(2_000)
        refused = await rest.post("/topics", TOPIC)
        assert problem(refused)[0] == 503
        assert "retry-after" in refused.headers
        assert problem(await rest.client.get("/readyz")) == (503, "not_ready")
        assert (await rest.client.get("/healthz")).status_code == 200
