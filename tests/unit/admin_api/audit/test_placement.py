from __future__ import annotations

from typing import Any

import pytest

from admin_api.http.models import timestamp
from tests.kit.admin_api.rest import Rest, controller, pointers, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

ASSIGNMENT = "/clusters/prod/assignment"


async def pages(rest: Rest, **params: Any) -> list[dict[str, Any]]:
    """Every item of every page, two a page."""
    items: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        response = await rest.client.get(ASSIGNMENT, params={"limit": 2} | params | token)
        assert response.status_code == 200, response.text
        body = response.json()
        assert body["is_complete"] is True
        items += body["items"]
        if body["next_page_token"] is None:
            return items
        token = {"page_token": body["next_page_token"]}


def placed(items: list[dict[str, Any]]) -> list[tuple[str, int, list[int]]]:
    return [(item["topic"], item["partition"], item["replicas"]) for item in items]


async def test_the_whole_placement_is_shown_now_and_as_it_was(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        await rest.create_topic("logs", assignments=[[2, 1]], partitions=1, replication_factor=2)
        everything = [
            ("logs", 0, [2, 1]),
            ("orders", 0, [1, 2, 3]),
            ("orders", 1, [2, 3, 1]),
            ("orders", 2, [3, 1, 2]),
        ]
        now = await pages(rest)
        assert placed(now) == everything
        assert [item["leader"] for item in now] == [2, 1, 2, 3]
        assert placed(await pages(rest, topic="orders")) == everything[1:]
        before = rest.clock.now_wall_ms()
        await silence(rest, brokers, 2, 3)
        await rest.outbox.flush()
        assert [item["leader"] for item in await pages(rest)] == [2, 2, 2, 3]
        then = await pages(rest, as_of=timestamp(before))
        assert placed(then) == everything
        assert [item["leader"] for item in then] == [2, 1, 2, 3]
        assert all(item["is_certain"] for item in then)
        row = (await rest.client.get(f"/audit/{then[0]['audit_id']}")).json()
        assert (row["after"]["replicas"], row["at"]) == ([2, 1], then[0]["changed_at"])
        late = await pages(rest, as_of=timestamp(rest.clock.now_wall_ms()))
        as_now = [{**item, "audit_id": None} for item in late]
        assert as_now == await pages(rest)


async def test_there_is_no_placement_before_the_audit_or_in_the_future(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.outbox.flush()
        early = await rest.client.get(ASSIGNMENT, params={"as_of": "1999-12-31T23:59:59Z"})
        assert problem(early) == (404, "before_the_audit")
        late = await rest.client.get(ASSIGNMENT, params={"as_of": "2999-12-31T23:59:59Z"})
        assert (problem(late), pointers(late)) == ((422, "invalid_request"), ["as_of"])
        zoneless = await rest.client.get(ASSIGNMENT, params={"as_of": "2026-11-21T10:00:00"})
        assert problem(zoneless) == (422, "invalid_request")
        forged = await rest.client.get(ASSIGNMENT, params={"page_token": "WzFd"})
        assert (problem(forged), pointers(forged)) == ((422, "invalid_request"), ["page_token"])
        unknown = await rest.client.get("/clusters/nowhere/assignment")
        assert problem(unknown) == (404, "cluster_not_found")


async def test_an_answer_about_then_says_that_rows_are_still_on_their_way(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.outbox.flush()
        await rest.create_topic()
        assert rest.outbox.depth > 0
        response = await rest.client.get(ASSIGNMENT, params={"as_of": timestamp(rest.clock.now_wall_ms())})
        assert (response.json()["is_complete"], response.json()["items"]) == (False, [])


async def test_a_replica_tells_why_it_is_here_and_why_it_leads(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await rest.create_topic(assignments=[[1, 2, 3]], partitions=1, reason="launch")
        await silence(rest, brokers, 2, 3)
        (asked, *_) = await rest.recorded(kind="request", cause="create_topic")
        replicas = "/clusters/prod/topics/orders/partitions/0/replicas"
        body = (await rest.client.get(replicas)).json()
        one, two, three = body["items"]
        for replica in (one, two, three):
            assert (replica["placed"]["change"]["cause"], replica["placed"]["is_exact"]) == (
                "topic_created",
                True,
            )
            (request,) = replica["placed"]["caused_by"]
            assert (request["id"], request["reason"]) == (asked["id"], "launch")
        assert [replica["is_leader"] for replica in (one, two, three)] == [False, True, False]
        assert (one["in_isr"], one["synced"]["change"]["cause"]) == (False, "broker_fenced")
        assert (two["in_isr"], two["synced"]["change"]["cause"]) == (True, "topic_created")
        assert (one["elected"], three["elected"]) == (None, None)
        (fenced,) = two["elected"]["caused_by"]
        assert (fenced["entity"], fenced["entity_id"], fenced["cause"]) == ("broker", "1", "broker_fenced")
        missing = await rest.client.get("/clusters/prod/topics/orders/partitions/9/replicas")
        assert problem(missing) == (404, "partition_not_found")
        rest.sql.down = True
        assert problem(await rest.client.get(replicas)) == (503, "audit_unavailable")
