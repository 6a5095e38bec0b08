"""The heat map: what each topic has on each broker, the largest topics first."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.admin_api.plans import formed, report_sizes
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio


async def heat(rest: Rest, query: str = "") -> dict[str, Any]:
    answer = await rest.client.get(f"/clusters/prod/heat-map{query}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def rows(body: dict[str, Any]) -> list[tuple[str, list[int]]]:
    return [(row["topic"], row["values"]) for row in body["items"]]


async def test_replicas_leaders_and_bytes_by_topic_and_broker(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await formed(rest, brokers=4, partitions=4)
        await rest.create_topic("small", partitions=1, replication_factor=2, assignments=[[4, 1]])
        found = await heat(rest)
        assert (found["measure"], found["brokers"]) == ("replicas", [1, 2, 3, 4])
        assert rows(found) == [("orders", [4, 4, 4, 0]), ("small", [1, 0, 0, 1])]
        assert rows(await heat(rest, "?measure=leaders")) == [
            ("orders", [2, 1, 1, 0]),
            ("small", [0, 0, 0, 1]),
        ]
        assert [row["values"] for row in (await heat(rest, "?measure=bytes"))["items"]] == [[None] * 4] * 2
        await report_sizes(rest, brokers, size_bytes=1_000, less_bytes=100, but="orders-3")
        by_size = await heat(rest, "?measure=bytes")
        assert rows(by_size) == [("orders", [2_700, 2_700, 2_700, 0]), ("small", [1_000, 0, 0, 1_000])]
        assert [row["unknown_partitions"] for row in by_size["items"]] == [1, 0]


async def test_the_topics_with_most_come_first_a_page_at_a_time(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for name, partitions in (("a", 2), ("b", 7), ("c", 4)):
            await rest.create_topic(name, partitions=partitions, replication_factor=1)
        first = await heat(rest, "?limit=2")
        assert [name for name, _ in rows(first)] == ["b", "c"]
        assert [sum(values) for _, values in rows(first)] == [7, 4]
        second = await heat(rest, f"?limit=2&page_token={first['next_page_token']}")
        assert [name for name, _ in rows(second)] == ["a"]
        assert second["next_page_token"] is None


async def test_a_standby_knows_where_replicas_are_and_no_sizes(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await formed(rest, brokers=3, partitions=3)
        async with controller(zookeeper, name="c2", is_active=False) as standby:
            await standby.clock.sleep_ms(5_000)
            assert rows(await heat(standby)) == [("orders", [3, 3, 3])]
            assert rows(await heat(standby, "?measure=bytes")) == [("orders", [None] * 3)]
