"""Lists of topics: size, rates and readers; orders, search and pages. One topic with those who read it."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.contract.groups import GroupLag, GroupNews, TopicLag
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.plans import pause, report_sizes
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

TOPICS = "/clusters/prod/topics"
COUNTED = ("size_bytes", "bytes_in_per_s", "bytes_out_per_s", "groups")


async def shop(rest: Rest) -> None:
    """Three topics, of which orders is large and busy, and events has not been told of."""
    brokers = await rest.form()
    for name, partitions in (("orders", 2), ("events", 3), ("audit", 1)):
        await rest.create_topic(name, partitions=partitions)
    for second in range(61):
        await report_sizes(rest, brokers, but="events", size_bytes=500, bytes_in=[1_000 * second] * 2)
        if second < 60:
            await pause(rest, brokers, 1_000)
    await report_sizes(rest, brokers, but="audit-0", size_bytes=700, bytes_in=[60_000] * 3)
    coordinator = Coordinator(rest, 1001)
    await coordinator.register()
    lags = (
        GroupLag("billing", 3, 250, 4_200, 0, (TopicLag("orders", 200, 4_200), TopicLag("audit", 50, 9))),
        GroupLag("search", 0, 9_000, 90_000, 0, (TopicLag("orders", 9_000, 90_000),)),
    )
    await coordinator.heartbeat(groups=GroupNews(lags=lags))


async def names(rest: Rest, **query: Any) -> list[str]:
    answer = await rest.client.get(TOPICS, params=query)
    assert answer.status_code == 200, answer.text
    return [topic["name"] for topic in answer.json()["items"]]


async def test_a_topic_shows_what_its_leaders_hold_what_passes_and_who_reads_it(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        created = await rest.create_topic("orders", partitions=2)
        assert [created[name] for name in COUNTED] == [None, None, None, 0], "nothing was told"
    async with controller(MemoryZooKeeper()) as rest:
        await shop(rest)
        topics = {topic["name"]: topic for topic in (await rest.client.get(TOPICS)).json()["items"]}
        assert [topics["orders"][name] for name in COUNTED[2:]] == [0, 2]
        assert topics["orders"]["size_bytes"] == 1_400
        assert topics["orders"]["bytes_in_per_s"] == pytest.approx(2_000, rel=0.1)
        assert topics["audit"]["bytes_in_per_s"] == pytest.approx(1_000, rel=0.1)
        assert (topics["audit"]["size_bytes"], topics["audit"]["groups"]) == (500, 1)
        assert (topics["events"]["size_bytes"], topics["events"]["bytes_in_per_s"]) == (2_100, 0)
        shown = (await rest.client.get(f"{TOPICS}/orders")).json()
        assert [
            (one["group_id"], one["members_total"], one["lag"], one["lag_ms"]) for one in shown["readers"]
        ] == [
            ("search", 0, 9_000, 90_000),
            ("billing", 3, 200, 4_200),
        ]
        assert (await rest.client.get(f"{TOPICS}/events")).json()["readers"] == []


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("name", ["audit", "events", "orders"]),
        ("-partitions", ["events", "orders", "audit"]),
        ("-size", ["events", "orders", "audit"]),
        ("-bytes_in", ["orders", "audit", "events"]),
        ("bytes_out", ["audit", "events", "orders"]),
        ("-groups", ["orders", "audit", "events"]),
    ],
)
async def test_topics_are_ordered_and_pages_follow_the_order(
    zookeeper: MemoryZooKeeper, sort: str, order: list[str]
) -> None:
    async with controller(zookeeper) as rest:
        await shop(rest)
        assert await names(rest, sort=sort) == order
        first = (await rest.client.get(TOPICS, params={"sort": sort, "limit": 1})).json()
        token = first["next_page_token"]
        assert await names(rest, sort=sort, page_token=token) == order[1:]


async def test_topics_are_found_by_a_part_of_their_name_or_by_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for name in ("orders", "events", "Orders-2"):
            await rest.create_topic(name)
        assert await names(rest, search="ORD") == ["Orders-2", "orders"]
        assert await names(rest, search="ord", limit=1, sort="-name") == ["orders"]
        assert await names(rest, topic=["events", "gone"]) == ["events"]
        assert await names(rest, topic=["events", "orders"], search="ord") == ["orders"]
        refused = await rest.client.get(TOPICS, params={"sort": "lag"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["sort"])
        refused = await rest.client.get(TOPICS, params={"topic": ["a"] * 101})
        assert problem(refused) == (422, "invalid_request")
