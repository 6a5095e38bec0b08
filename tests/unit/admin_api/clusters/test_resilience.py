from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.rest import Rest, controller, pointers, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

RESILIENCE = "/clusters/prod/resilience"
NOTHING = {
    "leaderless": 0,
    "recovering": 0,
    "under_min_isr": 0,
    "under_replicated": 0,
    "stops_acks_all": 0,
}


async def ask(rest: Rest, *lose: str, **params: Any) -> dict[str, Any]:
    response = await rest.client.get(RESILIENCE, params={"lose": lose} | params)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def create_topics(rest: Rest) -> None:
    await rest.create_topic(assignments=[[1, 2, 3], [2, 3, 1]], partitions=2)
    await rest.create_topic("logs", assignments=[[1, 2]], partitions=1, replication_factor=2)
    await rest.create_topic("once", assignments=[[1]], partitions=1, replication_factor=1)


async def test_a_loss_is_told_partition_by_partition_and_changes_nothing(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await create_topics(rest)
        before = (await rest.client.get("/clusters/prod")).json()
        found = await ask(rest, "broker:1")
        assert (found["lost_brokers"], found["down_already"]) == ([1], [])
        assert found["partitions"] == NOTHING | {
            "leaderless": 1,
            "under_min_isr": 1,
            "under_replicated": 2,
            "stops_acks_all": 2,
        }
        assert [(item["topic"], item["partition"], item["state"]) for item in found["items"]] == [
            ("once", 0, "leaderless"),
            ("logs", 0, "under_min_isr"),
            ("orders", 0, "under_replicated"),
            ("orders", 1, "under_replicated"),
        ]
        logs = found["items"][1]
        assert (logs["leader"], logs["isr"], logs["state_now"], logs["stops_acks_all"]) == (
            2,
            [2],
            "online",
            True,
        )
        assert found["items"][0]["leader"] is None
        both = await ask(rest, "broker:1", "broker:2")
        assert both["lost_brokers"] == [1, 2]
        assert both["partitions"] == NOTHING | {
            "leaderless": 2,
            "under_min_isr": 2,
            "stops_acks_all": 4,
        }
        assert (await rest.client.get("/clusters/prod")).json() == before


async def test_losses_come_in_pages_and_by_state(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await create_topics(rest)
        whole = await ask(rest, "broker:1")
        items: list[dict[str, Any]] = []
        token: dict[str, str] = {}
        while True:
            page = await ask(rest, "broker:1", limit=1, **token)
            assert page["partitions"] == whole["partitions"]
            items += page["items"]
            if page["next_page_token"] is None:
                break
            token = {"page_token": page["next_page_token"]}
        assert items == whole["items"]
        only = await ask(rest, "broker:1", state="under_replicated")
        assert only["items"] == whole["items"][2:]


async def test_hosts_and_racks_are_lost_with_all_who_stand_there(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await create_topics(rest)
        found = await ask(rest, "host:127.0.0.1")
        assert found["lost_brokers"] == [1, 2, 3]
        assert found["partitions"]["leaderless"] == 4
        assert (await ask(rest, "host:127.0.0.1", "broker:1")) == found


async def test_who_is_down_has_nothing_left_to_lose(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await create_topics(rest)
        await silence(rest, brokers, 1, 2)
        found = await ask(rest, "broker:3")
        assert (found["down_already"], found["partitions"], found["items"]) == ([3], NOTHING, [])
        found = await ask(rest, "broker:2")
        assert found["partitions"] == NOTHING | {"under_min_isr": 3, "stops_acks_all": 3}


async def test_a_cluster_names_its_worst_single_loss(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        created = await rest.post("/clusters", {"name": "empty"})
        assert created.json()["resilience"] == {"broker": None, "host": None, "rack": None}
        await rest.form()
        await create_topics(rest)
        shown = (await rest.client.get("/clusters/prod")).json()["resilience"]
        assert shown["broker"] == {
            "lose": "broker:1",
            "partitions": (await ask(rest, "broker:1"))["partitions"],
        }
        assert shown["host"]["lose"] == "host:127.0.0.1"
        assert shown["host"]["partitions"]["leaderless"] == 4
        assert shown["rack"] is None
        listed = (await rest.client.get("/clusters")).json()["items"]
        assert {item["resilience"] for item in listed} == {None}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (422, "invalid_request")),
        ("lose=3", (422, "invalid_request")),
        ("lose=broker:three", (422, "invalid_request")),
        ("lose=planet:earth", (422, "invalid_request")),
        ("lose=broker:1&state=online", (422, "invalid_request")),
        ("lose=broker:1&state=leaderless&state=leaderless", (422, "invalid_request")),
        ("lose=broker:1&page_token=WzFd", (422, "invalid_request")),
        ("lose=broker:9", (422, "unknown_broker")),
        ("lose=broker:1&lose=rack:r1", (422, "unknown_broker")),
        ("&".join(["lose=broker:1"] * 51), (422, "invalid_request")),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    zookeeper: MemoryZooKeeper, query: str, expected: tuple[int, str]
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        response = await rest.client.get(f"{RESILIENCE}?{query}")
        assert problem(response) == expected
        if expected[1] == "unknown_broker":
            assert pointers(response) == ["lose"]
        missing = await rest.client.get("/clusters/nowhere/resilience?lose=broker:1")
        assert problem(missing) == (404, "cluster_not_found")
