"""Deleted topics that are kept, over REST: listed, restored, purged."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from admin_api.http.models import timestamp
from tests.kit.admin_api.rest import TOKENS, Rest, ask, controller, problem, speaking
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

URL = "/clusters/prod/deleted-topics"
KEPT_MS = 60_000
KEPT = {"deleted.topic.retention.ms": str(KEPT_MS)}


async def listed(rest: Rest) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await rest.client.get(URL)).json()["items"]
    return items


async def deleted(rest: Rest, name: str = "orders") -> httpx.Response:
    return await rest.client.delete(f"/clusters/prod/topics/{name}?reason=old")


async def test_a_deleted_topic_is_listed_and_restored_by_one_audited_call(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        created = await rest.create_topic(configs=KEPT)
        assert await listed(rest) == []
        would = (await rest.client.delete("/clusters/prod/topics/orders?dry_run=true")).json()
        assert would["kept_until"] is not None
        began_ms = rest.clock.now_wall_ms()
        answer = await deleted(rest)
        assert answer.status_code == 202
        (found,) = await listed(rest)
        assert (found["name"], found["topic_id"], found["partitions"]) == ("orders", created["topic_id"], 3)
        assert found["deleted_at"] == timestamp(began_ms)
        assert found["kept_until"] == timestamp(began_ms + KEPT_MS)
        assert found["name_is_free"] is True
        assert (await rest.client.get("/clusters/prod/topics/orders")).status_code == 404

        url = f"{URL}/{created['topic_id']}:restore"
        would = (await rest.post(f"{url}?dry_run=true", {})).json()
        assert (would["topics"], would["dry_run"], len(await listed(rest))) == (["orders"], True, 1)
        restored = await rest.post(url, {"reason": "deleted by mistake"})
        assert restored.status_code == 200
        assert restored.json()["undecided"] == [] and len(restored.json()["partitions"]) == 3
        assert all(each["whole_replica"] for each in restored.json()["partitions"])
        assert await listed(rest) == []
        view = (await rest.client.get("/clusters/prod/topics/orders")).json()
        assert view["topic_id"] == created["topic_id"] and view["configs"] == KEPT
        assert view["last_change"]["cause"] == "topic_restored"
        again = await rest.post(url, {})
        assert (again.status_code, again.json()["topics"]) == (200, ["orders"]), "its answer may be lost"
        await rest.clock.sleep_ms(3_000)
        operation = (await rest.client.get(answer.headers["location"])).json()
        assert operation["state"] == "succeeded"
        (row,) = [row for row in await rest.recorded() if row["cause"] == "restore_topic" and row["reason"]]
        assert (row["topic"], row["reason"]) == ("orders", "deleted by mistake")


async def test_a_second_topic_of_the_name_is_named_and_another_name_is_taken(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        created = await rest.create_topic(configs=KEPT)
        await deleted(rest)
        await rest.create_topic()
        url = f"{URL}/{created['topic_id']}:restore"
        refused = await rest.post(url, {})
        assert problem(refused) == (409, "topic_already_exists")
        assert "another name" in refused.json()["detail"] + refused.json()["hint"]
        restored = await rest.post(url, {"name": "orders-restored"})
        assert restored.json()["topics"] == ["orders-restored"]
        view = (await rest.client.get("/clusters/prod/topics/orders-restored")).json()
        assert view["topic_id"] == created["topic_id"]


async def test_a_purge_is_an_operation_that_ends_when_each_broker_has_confirmed(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        created = await rest.create_topic(configs=KEPT)
        await deleted(rest)
        url = f"{URL}/{created['topic_id']}:purge"
        plan = (await rest.post(f"{url}?dry_run=true", {})).json()
        assert plan["topic"]["name"] == "orders" and plan["waits_for_brokers"] == [1, 2, 3]
        assert len(await listed(rest)) == 1
        answer = await rest.post(url, {"reason": "the disks are full"})
        assert answer.status_code == 202
        await rest.clock.sleep_ms(3_000)
        assert (await rest.client.get(answer.headers["location"])).json()["state"] == "succeeded"
        assert await listed(rest) == []
        for action in ("restore", "purge"):
            gone = await rest.post(f"{URL}/{created['topic_id']}:{action}", {})
            assert problem(gone) == (404, "topic_not_found")


async def test_a_topic_whose_time_is_over_goes_by_itself(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        await rest.create_topic(configs=KEPT)
        await deleted(rest)
        await rest.clock.sleep_ms(KEPT_MS - 10_000)
        assert len(await listed(rest)) == 1
        await rest.clock.sleep_ms(30_000)
        assert await listed(rest) == []


async def test_the_list_comes_in_pages_by_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest, speaking(rest, await rest.form()):
        for name in ("b", "a", "c"):
            await rest.create_topic(name, configs=KEPT)
            await deleted(rest, name)
        first = (await rest.client.get(URL, params={"limit": 2})).json()
        assert [item["name"] for item in first["items"]] == ["a", "b"]
        rest_of = (
            await rest.client.get(URL, params={"limit": 2, "page_token": first["next_page_token"]})
        ).json()
        assert [item["name"] for item in rest_of["items"]] == ["c"]


async def test_it_takes_the_right_to_delete_the_topic(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper, tokens=TOKENS) as rest:
        await rest.form()
        for action in ("restore", "purge"):
            path = f"{URL}/{'A' * 22}:{action}"
            refused = await ask(rest, "POST", path, "viewer", json={})
            assert problem(refused) == (403, "forbidden")
            missing = await ask(rest, "POST", path, "operator", json={})
            assert problem(missing) == (404, "topic_not_found")
        assert (await ask(rest, "GET", URL, "viewer")).status_code == 200
