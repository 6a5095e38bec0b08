"""A topic's minimum in sync beside its replication factor: refused where it can't be, shown where it is
capped, with a warning where no replica may be lost."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.kit.admin_api.rest import Rest, controller, pointers, problem
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

MINIMUM = "min.insync.replicas"
TOPIC = "/clusters/prod/topics/orders"
FULL = "all 2 replicas must be in sync: acks=all tolerates the loss of none"


async def _create(rest: Rest, query: str = "", **fields: Any) -> httpx.Response:
    return await rest.post(f"/topics{query}", {"name": "orders", "partitions": 2} | fields)


async def _set_default(rest: Rest, minimum: str) -> None:
    response = await rest.client.put(f"/clusters/prod/configs/{MINIMUM}", json={"value": minimum})
    assert response.status_code == 200, response.text


async def _minimums(rest: Rest) -> tuple[int, int | None, list[str]]:
    return _shown((await rest.client.get(TOPIC)).json())


def _shown(view: dict[str, Any]) -> tuple[int, int | None, list[str]]:
    return view["min_insync_replicas"], view["configured_min_insync_replicas"], view["warnings"]


async def test_a_minimum_above_the_replication_factor_is_not_accepted(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        for query in ("?dry_run=true", ""):
            refused = await _create(rest, query, replication_factor=3, configs={MINIMUM: "5"})
            assert problem(refused) == (422, "invalid_config")
            assert pointers(refused) == [f"/configs/{MINIMUM}"]
            (error,) = refused.json()["errors"]
            assert (error["limit"], error["message"]) == (
                3,
                "min.insync.replicas must be at most the replication factor, 3, not 5",
            )
            assert refused.json()["kafka_error"] == {"code": 40, "name": "INVALID_CONFIG"}
        assert (await rest.client.get(TOPIC)).status_code == 404
        await rest.create_topic()
        alone = await rest.client.put(f"{TOPIC}/configs/{MINIMUM}", json={"value": "4"})
        assert (problem(alone), pointers(alone)) == ((422, "invalid_config"), ["/value"])
        several = await rest.post(f"{TOPIC}/configs:alter", {"configs": {MINIMUM: "4", "segment.ms": "5"}})
        assert (problem(several), pointers(several)) == ((422, "invalid_config"), [f"/configs/{MINIMUM}"])
        assert (await rest.client.get(TOPIC)).json()["configs"] == {}


async def test_the_factor_is_not_lowered_below_the_topics_own_minimum(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        await rest.create_topic(configs={MINIMUM: "3"})
        for query in ("?dry_run=true", ""):
            refused = await rest.client.patch(f"{TOPIC}{query}", json={"replication_factor": 2})
            assert problem(refused) == (422, "plan_infeasible")
            (error,) = refused.json()["errors"]
            assert error["pointer"] == "/replication_factor"
            assert error["message"] == (
                "2 replicas are fewer than the topic's own min.insync.replicas, 3 "
                "(invalid_replication_factor)"
            )
        one = await rest.client.put(f"{TOPIC}/partitions/0/assignment", json={"replicas": [1, 2]})
        assert (problem(one), pointers(one)) == ((422, "invalid_replication_factor"), ["/replicas"])
        by_hand = {"kind": "assign", "assignments": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}]}
        planned = await rest.post("/clusters/prod/plans", {"goal": by_hand})
        assert (problem(planned), pointers(planned)) == ((422, "plan_infeasible"), ["/goal/assignments/0"])


async def test_a_default_above_the_factor_is_capped_and_both_are_shown(zookeeper: MemoryZooKeeper) -> None:
    capped = "the cluster's min.insync.replicas of 5 is more than there are replicas: 2 applies"
    async with controller(zookeeper) as rest:
        await rest.form()
        await _set_default(rest, "5")
        planned = await _create(rest, "?dry_run=true", replication_factor=2)
        assert _shown(planned.json()["topic"]) == (2, 5, [capped, FULL])
        created = await _create(rest, replication_factor=2)
        assert _shown(created.json()) == (2, 5, [capped, FULL])
        assert await _minimums(rest) == (2, 5, [capped, FULL])
        config = (await rest.client.get(f"{TOPIC}/configs/{MINIMUM}")).json()
        assert (config["value"], config["source"]) == ("5", "cluster")
        lowered = await rest.client.patch(f"{TOPIC}?dry_run=true", json={"replication_factor": 1})
        assert lowered.status_code == 200, lowered.text
        await _set_default(rest, "1")
        assert await _minimums(rest) == (1, 1, [])


@pytest.mark.parametrize(
    ("factor", "configs", "expected"),
    [
        (1, {}, (1, None, [])),
        (2, {}, (2, None, [FULL])),
        (2, {MINIMUM: "2"}, (2, 2, [FULL])),
        (2, {MINIMUM: "1"}, (1, 1, [])),
        (3, {}, (2, None, [])),
    ],
)
async def test_a_topic_that_may_lose_no_replica_says_so(
    zookeeper: MemoryZooKeeper,
    factor: int,
    configs: dict[str, str],
    expected: tuple[int, int | None, list[str]],
) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        planned = await _create(rest, "?dry_run=true", replication_factor=factor, configs=configs)
        assert _shown(planned.json()["topic"]) == expected
        created = await _create(rest, replication_factor=factor, configs=configs)
        assert _shown(created.json()) == expected
        assert await _minimums(rest) == expected
        more = await rest.client.patch(f"{TOPIC}?dry_run=true", json={"partitions": 3})
        assert _shown(more.json()["topic"]) == expected
