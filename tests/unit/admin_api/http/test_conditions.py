from __future__ import annotations

import anyio
import httpx
import pytest

from admin_api.settings import ApiSettings
from tests.kit.admin_api.rest import Rest, controller, pointers, problem, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPIC = "/clusters/prod/topics/orders"
PARTITION = f"{TOPIC}/partitions/0"
PREFERRED = {"election": "preferred"}


async def tag_of(rest: Rest, path: str) -> str:
    return str((await rest.client.get(path)).headers["etag"])


async def delete(rest: Rest, *conditions: str, query: str = "") -> httpx.Response:
    return await rest.client.delete(f"{TOPIC}{query}", headers=[("If-Match", value) for value in conditions])


async def test_equal_tags_mean_equal_answers(zookeeper: MemoryZooKeeper) -> None:
    """Also for what is no part of the resource's own row: counts, leaders, lag."""
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        seen: dict[tuple[str, str], bytes] = {}
        moved: set[str] = set()
        paths = ("/clusters/prod", "/clusters/prod/brokers/1", TOPIC, PARTITION)
        for _ in range(8):
            for path in paths:
                shown = await rest.client.get(path)
                moved |= {path} if (path, shown.headers["etag"]) not in seen and seen else set()
                assert seen.setdefault((path, shown.headers["etag"]), shown.content) == shown.content
                again = await rest.client.get(path, headers={"If-None-Match": shown.headers["etag"]})
                assert (again.status_code, again.content) == (304, b"")
            for broker in brokers[:2]:
                await broker.heartbeat()
                await broker.apply()
            await rest.clock.sleep_ms(1_000)
        assert moved == set(paths), "each of them has moved meanwhile"


async def test_what_was_created_comes_with_the_tag_that_a_look_at_it_has(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        created = await rest.post("/clusters", {"name": "test"})
        assert created.headers["etag"] == await tag_of(rest, "/clusters/test")
        await rest.form()
        body = {"name": "orders", "cluster": "prod", "partitions": 1, "replication_factor": 3}
        created = await rest.post("/topics", body, Idempotency_Key="k1")
        seen = await tag_of(rest, TOPIC)
        assert created.headers["etag"].split(".")[0] == seen.split(".")[0], "a look names its readers, too"
        replayed = await rest.post("/topics", body, Idempotency_Key="k1")
        assert replayed.headers["etag"] == created.headers["etag"]


async def test_only_the_version_that_was_looked_at_is_deleted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        await rest.create_topic()
        old = await tag_of(rest, TOPIC)
        assert (await delete(rest, old)).status_code == 202
        await rest.create_topic()
        refused = await delete(rest, old)
        assert problem(refused) == (412, "precondition_failed")
        assert pointers(refused) == ["If-Match"]
        assert problem(await delete(rest, old, query="?dry_run=true")) == (412, "precondition_failed")
        (request, _) = await rest.recorded(kind="request", cause="delete_topic")
        assert request["outcome"]["code"] == "precondition_failed"
        new = await tag_of(rest, TOPIC)
        assert (await delete(rest, new, query="?dry_run=true")).status_code == 200
        assert (await delete(rest, f'{old}, "x" ,{new}')).status_code == 202


async def test_a_topic_whose_replicas_moved_is_still_the_topic_that_was_looked_at(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic()
        before = await tag_of(rest, TOPIC)
        for _ in range(12):
            for broker in brokers[:2]:
                await broker.heartbeat()
                await broker.apply()
            await rest.clock.sleep_ms(1_000)
        after = await tag_of(rest, TOPIC)
        assert before != after, "a broker has died, and its replicas left the ISR"
        assert (await delete(rest, before)).status_code == 202


async def test_what_does_not_match(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        await rest.create_topic()
        tag = await tag_of(rest, TOPIC)
        for value in (f"W/{tag}", f'W/{tag},"{tag[1]}9"', '""', '"x"', f'"{tag[1:-1].partition(".")[0]}"'):
            assert problem(await delete(rest, value)) == (412, "precondition_failed"), value
        for value in ("", "x", tag[:-1], f"{tag} {tag}", f"*, {tag}", f"{tag},", "W/*"):
            refused = await delete(rest, value)
            assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["If-Match"]), value
        assert (await delete(rest, '"x"', tag)).status_code == 202, "two lines are one list"
        await rest.create_topic()
        assert (await delete(rest, "*")).status_code == 202
        assert problem(await delete(rest, "*")) == (404, "topic_not_found")


async def test_a_partition_of_a_topic_made_anew_is_another_one(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        await rest.create_topic()
        old = await tag_of(rest, PARTITION)
        await delete(rest)
        await rest.create_topic()
        epochs = (await rest.client.get(PARTITION)).json()["partition_epoch"]
        assert epochs == 0, "as the other one's was"
        refused = await rest.post(f"{PARTITION}:elect-leader", PREFERRED, If_Match=old)
        assert problem(refused) == (412, "precondition_failed")
        new = await tag_of(rest, PARTITION)
        checked = await rest.post(f"{PARTITION}:elect-leader", PREFERRED, If_Match=new)
        assert problem(checked) == (409, "election_not_needed"), "past the condition"


async def test_a_change_that_is_not_persisted_yet_is_a_change(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        tag = await tag_of(rest, TOPIC)
        answers: list[httpx.Response] = []

        async def ask() -> None:
            answers.append(await delete(rest, tag))

        rest.meta.hold_writes()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await rest.meta.until_held(1)
            assert await tag_of(rest, TOPIC) == tag, "nobody can see it yet"
            assert problem(await delete(rest, tag)) == (412, "precondition_failed")
            rest.meta.release_writes()
        assert [answer.status_code for answer in answers] == [202]


async def test_a_condition_that_cannot_be_checked_is_refused_and_not_passed_over(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        body = {"name": "orders", "partitions": 1, "replication_factor": 1}
        for refused in (
            await rest.post("/topics", body, If_Match='"1"'),
            await rest.client.get("/clusters", headers={"If-Match": "*"}),
        ):
            assert problem(refused) == (422, "invalid_request")
            assert pointers(refused) == ["If-Match"]


async def test_a_key_stands_for_one_condition(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic()
        key = {"Idempotency-Key": "k1"}
        first = await rest.client.delete(TOPIC, headers=key | {"If-Match": '"x"'})
        assert problem(first) == (412, "precondition_failed")
        other = await rest.client.delete(TOPIC, headers=key | {"If-Match": await tag_of(rest, TOPIC)})
        assert problem(other) == (422, "idempotency_key_reused")


async def test_where_conditions_are_required_a_change_without_one_is_refused(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper, settings=ApiSettings(if_match_required=True)) as rest:
        await rest.form()
        await rest.create_topic()
        assert problem(await delete(rest)) == (428, "precondition_required")
        refused = await rest.post(f"{PARTITION}:elect-leader", PREFERRED)
        assert problem(refused) == (428, "precondition_required")
        assert (await delete(rest, query="?dry_run=true")).status_code == 200
        assert (await delete(rest, await tag_of(rest, TOPIC))).status_code == 202
