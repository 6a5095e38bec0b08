"""Lists of groups: the lag that coordinators tell, orders, search and pages."""

from __future__ import annotations

from typing import Any

import pytest

from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    REBALANCES_TOLD_MAX,
    GroupLag,
    GroupNews,
    GroupRebalance,
    TopicLag,
)
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

GROUPS = "/clusters/prod/groups"
LAGS = {"billing": (250, 4_200), "search": (9_000, 90_000), "mail": (0, 0), "Audit": (-1, -1)}


async def told(rest: Rest) -> Coordinator:
    """Five groups, of which a coordinator has told four."""
    await rest.form()
    coordinator = Coordinator(rest, 1001)
    await coordinator.register()
    for name in (*LAGS, "untold"):
        rest.groups.add(name, orders=11)
    await tell(coordinator, LAGS)
    return coordinator


async def tell(coordinator: Coordinator, lags: dict[str, tuple[int, int]], *, age_ms: int = 400) -> None:
    rows = tuple(
        GroupLag(name, len(name), records, ms, age_ms, (TopicLag("orders", records, ms),))
        for name, (records, ms) in lags.items()
    )
    await coordinator.heartbeat(groups=GroupNews(lags=rows))


async def listed(rest: Rest, **query: Any) -> list[dict[str, Any]]:
    answer = await rest.client.get(GROUPS, params=query)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


async def names(rest: Rest, **query: Any) -> list[str]:
    return [group["group_id"] for group in await listed(rest, **query)]


async def test_a_list_and_a_group_have_the_lag_that_the_coordinator_told(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await told(rest)
        await rest.clock.sleep_ms(1_000)
        (billing,) = await listed(rest, group="billing")
        lag = {"lag": 250, "lag_ms": 4_200, "lag_age_ms": 1_400, "until_gone_ms": None}
        assert billing == {
            "group_id": "billing",
            "state": "empty",
            "protocol_type": "consumer",
            "members_total": 7,
            **lag,
        }
        shown = (await rest.client.get(f"{GROUPS}/billing")).json()
        assert {name: shown[name] for name in lag} == lag
        (untold,) = await listed(rest, group="untold")
        assert [untold[name] for name in ("members_total", *lag)] == [None] * 5
        (audit,) = await listed(rest, group="Audit")
        assert (audit["lag"], audit["lag_ms"], audit["lag_age_ms"]) == (None, None, 1_400)


async def test_a_lag_that_shrinks_says_when_it_is_gone(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        coordinator = await told(rest)
        for left in range(8_500, 5_000, -500):
            await rest.clock.sleep_ms(5_000)
            await tell(coordinator, {"search": (left, 90_000)})
        (search,) = await listed(rest, group="search")
        assert search["until_gone_ms"] == pytest.approx(55_000, rel=0.02)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("group_id", ["Audit", "billing", "mail", "search", "untold"]),
        ("-lag", ["search", "billing", "mail", "untold", "Audit"]),
        ("lag", ["Audit", "untold", "mail", "billing", "search"]),
        ("-lag_ms", ["search", "billing", "mail", "untold", "Audit"]),
        ("-members", ["billing", "search", "Audit", "mail", "untold"]),
        ("state", ["Audit", "billing", "mail", "search", "untold"]),
    ],
)
async def test_groups_are_ordered_and_pages_follow_the_order(
    zookeeper: MemoryZooKeeper, sort: str, order: list[str]
) -> None:
    async with controller(zookeeper) as rest:
        await told(rest)
        assert await names(rest, sort=sort) == order
        found: list[str] = []
        query: dict[str, Any] = {"sort": sort, "limit": 2}
        while len(found) < len(order):
            page = (await rest.client.get(GROUPS, params=query)).json()
            found += [group["group_id"] for group in page["items"]]
            query |= {"page_token": page["next_page_token"]}
        assert found == order
        other = "lag" if sort != "lag" else "-lag"
        first = (await rest.client.get(GROUPS, params={"sort": sort, "limit": 2})).json()
        refused = await rest.client.get(
            GROUPS, params={"sort": other, "page_token": first["next_page_token"]}
        )
        assert problem(refused) == (422, "invalid_request"), "the token is of another order"


async def test_groups_are_found_by_a_part_of_their_name_or_by_name(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await told(rest)
        assert await names(rest, search="IL") == ["billing", "mail"]
        assert await names(rest, search="aud") == ["Audit"]
        assert await names(rest, search="none of them") == []
        assert await names(rest, group=["mail", "Audit", "gone"], sort="-lag") == ["mail", "Audit"]
        refused = await rest.client.get(GROUPS, params={"sort": "-size"})
        assert (problem(refused), pointers(refused)) == ((422, "invalid_request"), ["sort"])
        refused = await rest.client.get(GROUPS, params={"group": ["x"] * 101})
        assert problem(refused) == (422, "invalid_request")


async def test_a_heartbeat_may_tell_of_as_many_long_names_as_there_may_be(
    zookeeper: MemoryZooKeeper,
) -> None:
    async with controller(zookeeper) as rest:
        coordinator = await told(rest)
        ids = [f"{number:03}{'x' * (GROUP_ID_CHARS_MAX - 3)}" for number in range(REBALANCES_TOLD_MAX)]
        rebalances = tuple(
            GroupRebalance(group_id=one, generation_id=1, began_ms=1, ended_ms=2, reason="it moved")
            for one in ids
        )
        await coordinator.heartbeat(groups=GroupNews(rebalances=rebalances))
        assert rest.engine.cluster("prod").rebalances(ids[-1]) == (rebalances[-1],)
