"""One partition that is moved over REST, and what its leader reports meanwhile."""

from __future__ import annotations

from typing import Any

import httpx

from springtide.contract.lag_report import FollowerLag
from tests.kit.admin_api import plans
from tests.kit.admin_api.rest import Rest
from tests.kit.controller.shell import Broker

PARTITION = "/clusters/prod/topics/orders/partitions/0"
ASSIGNMENT = f"{PARTITION}/assignment"


async def formed(rest: Rest, *, brokers: int = 4) -> list[Broker]:
    """Form a cluster with a partition on brokers 1, 2, 3 that all brokers know of."""
    made = await rest.form(brokers)
    await rest.create_topic(assignments=[[1, 2, 3]], partitions=1)
    return made


async def shown(rest: Rest, path: str) -> dict[str, Any]:
    body: dict[str, Any] = (await rest.client.get(path)).json()
    return body


async def put(rest: Rest, *replicas: int, query: str = "", **fields: Any) -> httpx.Response:
    return await rest.client.put(f"{ASSIGNMENT}{query}", json={"replicas": replicas} | fields)


async def report(
    rest: Rest,
    brokers: list[Broker],
    *isr: int,
    size_bytes: int = 4_096,
    lag_bytes: int = -1,
) -> None:
    """The leader's lag report, and that these are in sync. lag_bytes: what each follower lacks."""
    ((_, state),) = rest.engine.cluster("prod").image.partitions.items()
    followers = tuple(
        FollowerLag(broker_id=b, log_end_offset=30, lag_records=10, lag_ms=5, remaining_bytes=lag_bytes)
        for b in state.replicas
        if b != state.leader
    )
    await plans.report(rest, brokers, state, size_bytes=size_bytes, isr=isr, followers=followers)


async def settled(rest: Rest, path: str) -> dict[str, Any]:
    """The operation, after the runner has looked."""
    await rest.clock.sleep_ms(500)
    return await shown(rest, path)
