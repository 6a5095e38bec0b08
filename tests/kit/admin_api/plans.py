"""What tests of plans and their operations share: a small cluster whose replicas catch up when told to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx

from controller.core.events import Report
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import (
    FollowerLag,
    IsrMember,
    IsrProposal,
    LagReport,
    LagReportResponse,
    PartitionLag,
)
from springtide.contract.partition_state import NO_LEADER, PartitionState
from tests.kit.admin_api.rest import Rest
from tests.kit.controller.shell import Broker

PLANS = "/clusters/prod/plans"
DRAIN = {"goal": {"kind": "drain", "broker_ids": [1]}}
SETTING = "/clusters/prod/configs/cluster.protected"


async def formed(rest: Rest, *, brokers: int = 4, partitions: int = 6) -> list[Broker]:
    """`orders` with all its replicas on brokers 1, 2 and 3, as if broker 4 had come later."""
    made = await rest.form(brokers)
    rows = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    await rest.create_topic(
        assignments=[rows[number % 3] for number in range(partitions)], partitions=partitions
    )
    return made


def partitions(rest: Rest) -> list[PartitionState]:
    image = rest.engine.cluster("prod").image
    return [image.partitions[key] for key in sorted(image.partitions)]


async def made(rest: Rest, goal: dict[str, Any]) -> dict[str, Any]:
    response = await rest.client.post("/clusters/prod/plans", json={"goal": goal})
    assert response.status_code == 201, response.text
    plan: dict[str, Any] = response.json()
    return plan


async def execute(rest: Rest, plan: dict[str, Any], *, query: str = "", **body: Any) -> httpx.Response:
    return await rest.client.post(f"/clusters/prod/plans/{plan['id']}:execute{query}", json=body)


async def operation(rest: Rest, operation_id: str) -> dict[str, Any]:
    body: dict[str, Any] = (await rest.client.get(f"/operations/{operation_id}")).json()
    return body


async def pause(rest: Rest, brokers: list[Broker], ms: int) -> None:
    """Time in which every broker says that it is there."""
    for _ in range(0, ms, 1_000):
        for broker in brokers:
            await broker.heartbeat()
        await rest.clock.sleep_ms(min(ms, 1_000))


async def report_sizes(
    rest: Rest,
    brokers: list[Broker],
    *,
    size_bytes: int,
    less_bytes: int = 0,
    but: str = "",
    bytes_in: Sequence[int] = (),
) -> None:
    """Every leader that there is reports how large its logs are. less_bytes: so much each partition has less
    than the one before. but: a topic or a partition of which nothing is reported. bytes_in: of each partition
    since it has its leader; empty: the leaders are of an older release."""
    for state in partitions(rest):
        names = (state.topic, f"{state.topic}-{state.partition}")
        if state.leader != NO_LEADER and but not in names:
            size = size_bytes - less_bytes * state.partition
            passed = bytes_in[state.partition] if bytes_in else -1
            await report(rest, brokers, state, size_bytes=size, isr=(), bytes_in=passed)


async def catch_up(
    rest: Rest, brokers: list[Broker], *, only: tuple[str, int] | None = None, size_bytes: int = 0
) -> None:
    """Bring all targets of what is being reassigned (or of one partition) in sync."""
    topics = rest.engine.cluster("prod").image.topics
    for state in partitions(rest):
        if topics[state.topic_id].deleting:
            continue
        if state.is_reassigning and only in (None, (state.topic, state.partition)):
            isr = tuple(dict.fromkeys((*state.isr, *state.target_replicas)))
            await report(rest, brokers, state, size_bytes=size_bytes, isr=isr)


async def ended(rest: Rest, brokers: list[Broker], operation_id: str) -> dict[str, Any]:
    """Return the operation at its end, with all brokers always catching up."""
    for _ in range(100):
        await pause(rest, brokers, 300)
        found = await operation(rest, operation_id)
        if found["finished_at"] is not None:
            return found
        await catch_up(rest, brokers)
    raise AssertionError(f"it does not end: {found}")


async def report(
    rest: Rest,
    brokers: list[Broker],
    state: PartitionState,
    *,
    size_bytes: int,
    isr: tuple[int, ...],
    followers: tuple[FollowerLag, ...] = (),
    bytes_in: int = -1,
) -> None:
    """The leader's lag report, and that these are in sync. The leader may be another afterwards: when the
    last target has joined and it was to go."""
    by_id = {broker.broker_id: broker for broker in brokers}
    proposal = IsrProposal(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        proposal_id=state.partition_epoch,
        isr=tuple(IsrMember(broker_id=b, broker_epoch=BrokerEpoch(by_id[b].broker_epoch)) for b in isr),
    )
    lag = PartitionLag(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=40,
        high_watermark=40,
        size_bytes=size_bytes,
        followers=followers,
        bytes_in=bytes_in,
        bytes_out=min(bytes_in, 0),
    )
    request = LagReport(
        broker_id=state.leader,
        broker_epoch=BrokerEpoch(by_id[state.leader].broker_epoch),
        proposals=(proposal,) if isr else (),
        lags=(lag,),
    )
    reply = await rest.engine.submit("prod", Report(request=request, wall_ms=rest.clock.now_wall_ms()))
    assert isinstance(reply, LagReportResponse)
    errors = {result.error for result in reply.results}
    assert errors <= {ControllerError.NONE, ControllerError.NEW_LEADER_ELECTED}


async def protect(rest: Rest, value: str = "true") -> httpx.Response:
    cluster = await rest.client.get("/clusters/prod")
    return await rest.client.put(
        SETTING,
        json={"value": value, "reason": "it earns money"},
        headers={"If-Match": cluster.headers["etag"]},
    )
