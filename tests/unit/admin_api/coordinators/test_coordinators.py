"""Coordinators register over their own endpoints, and operators admit, drain and remove them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.shards import SHARDS
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import WRITER_IDS
from springtide.contract.session import BrokerStatus
from springtide.contract.updates import NameWriterRequest
from tests.kit.admin_api.coordinators import Coordinator
from tests.kit.admin_api.rest import Rest, controller, problem, silence
from tests.kit.memory.zookeeper import MemoryZooKeeper

pytestmark = pytest.mark.anyio

COORDINATORS = "/clusters/prod/coordinators"


async def admitted(rest: Rest, *coordinator_ids: int) -> list[Coordinator]:
    """Coordinators that are active; the topic of their shards is there."""
    found = [Coordinator(rest, coordinator_id) for coordinator_id in coordinator_ids]
    for coordinator in found:
        await coordinator.register()
    done = await rest.post(COORDINATORS, {"coordinator_ids": coordinator_ids, "reason": "the first"})
    assert done.status_code == 200, done.text
    for coordinator in found:
        await coordinator.poll()
        assert (await coordinator.heartbeat()).status is BrokerStatus.ACTIVE
    await until_owned(rest)
    return found


async def until_owned(rest: Rest) -> None:
    while len(rest.engine.cluster("prod").image.shards) < SHARDS:
        await rest.clock.sleep_ms(100)


async def shown(rest: Rest, coordinator_id: int) -> dict[str, Any]:
    body: dict[str, Any] = (await rest.client.get(f"{COORDINATORS}/{coordinator_id}")).json()
    return body


async def test_a_coordinator_registers_is_admitted_and_gets_its_shards(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        coordinator = Coordinator(rest, 1001)
        assert (await coordinator.register()).status is BrokerStatus.WAITING
        waiting = (await rest.client.get(COORDINATORS)).json()["items"]
        assert [(c["coordinator_id"], c["state"]) for c in waiting] == [(1001, "waiting")]
        planned = await rest.post(f"{COORDINATORS}?dry_run=true", {"coordinator_ids": [1001]})
        assert planned.json()["items"][0]["state"] == "fenced"
        assert (await shown(rest, 1001))["state"] == "waiting"
        await admitted(rest, 1001)
        view = await shown(rest, 1001)
        assert (view["state"], view["endpoint"], view["shards"]) == ("active", "127.0.0.1:10001", SHARDS)
        (row,) = await rest.recorded(cause="coordinator_admitted")
        assert (row["entity"], row["entity_id"], row["reason"]) == ("coordinator", "1001", "the first")


async def test_the_owner_of_a_shard_hears_of_it_and_is_named_its_writer(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        first, second = await admitted(rest, 1001, 1002)
        await first.poll()
        state = next(s for s in first.update.partitions if s.shard is not None and s.shard.owner == 1001)
        named = await first.name_writer(state.topic_id, state.partition)
        assert named.writer is not None
        assert named.writer.producer_id in WRITER_IDS
        refused = await second.name_writer(state.topic_id, state.partition)
        assert refused.error is ControllerError.NOT_COORDINATOR


async def test_a_drained_coordinator_is_empty_when_another_is_level(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        _, second = await admitted(rest, 1001, 1002)
        path = f"{COORDINATORS}/1001"
        read = await rest.client.get(path)
        stale = await rest.client.patch(path, json={"draining": True}, headers={"If-Match": '"0"'})
        assert problem(stale) == (412, "precondition_failed")
        changed = await rest.client.patch(
            path, json={"draining": True}, headers={"If-Match": read.headers["etag"]}
        )
        assert (changed.status_code, changed.json()["draining"], changed.json()["drained"]) == (
            200,
            True,
            False,
        )
        await second.poll()  # what it says counts from when it knows that it is the standby
        await second.heartbeat(*range(SHARDS))
        view = await shown(rest, 1001)
        assert (view["shards"], view["drained"]) == (0, True)
        assert (await shown(rest, 1002))["shards"] == SHARDS
        back = await rest.client.patch(path, json={"draining": False, "demoted": True})
        assert (back.json()["draining"], back.json()["demoted"]) == (False, True)
        nothing = await rest.client.patch(path, json={})
        assert problem(nothing) == (422, "invalid_request")


async def test_one_whose_process_has_just_ended_is_removed_at_once(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        rest.listeners.open("127.0.0.1", 10_001)
        await admitted(rest, 1001)
        assert problem(await rest.client.delete(f"{COORDINATORS}/1001")) == (409, "coordinator_in_use")
        rest.listeners.kill("127.0.0.1", 10_001)
        gone = await rest.client.delete(f"{COORDINATORS}/1001")
        assert (gone.status_code, gone.json()["state"]) == (200, "fenced")


async def test_only_one_that_is_down_is_removed(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        brokers = await rest.form()
        await admitted(rest, 1001)
        path = f"{COORDINATORS}/1001"
        assert problem(await rest.client.delete(path)) == (409, "coordinator_in_use")
        await silence(rest, brokers, 1, 2, 3)
        alarms = (await rest.client.get("/clusters/prod/alarms")).json()["items"]
        assert "no_coordinator" in {alarm["code"] for alarm in alarms}
        assert (await rest.client.delete(path)).json()["coordinator_id"] == 1001
        assert problem(await rest.client.get(path)) == (404, "coordinator_not_found")
        assert problem(await rest.post(COORDINATORS, {"coordinator_ids": [1001]})) == (
            422,
            "unknown_coordinator",
        )


async def test_a_coordinators_body_under_another_id_is_refused(zookeeper: MemoryZooKeeper) -> None:
    async with controller(zookeeper) as rest:
        await rest.form()
        request = NameWriterRequest(broker_id=1002, broker_epoch=BrokerEpoch(1), topic_id="t", partition=0)
        answer = await rest.client.post(
            "/internal/clusters/prod/coordinators/1001:name-writer", content=msgspec.json.encode(request)
        )
        assert answer.status_code == 409
