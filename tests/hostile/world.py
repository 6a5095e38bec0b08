"""What the questions are put to: a controller with clusters, brokers that live, topics, moves, operations,
users, ACLs and quotas.

Small, and made anew for each round, so that what one case deletes is there for the next round. The brokers
renew their leases and confirm what they are told; leaders report followers as in sync, so that moves go on
and end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from controller.core.events import Report
from controller.shell.client_groups import Place
from controller.shell.outcomes import NotActive, OutcomeUnknown, Overloaded, UnknownCluster
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.lag_report import FollowerLag, IsrMember, IsrProposal, LagReport, PartitionLag
from springtide.contract.partition_state import NO_LEADER, PartitionState
from tests.kit.admin_api.rest import Rest, controller
from tests.kit.controller.shell import Broker
from tests.kit.memory.zookeeper import MemoryZooKeeper

CLUSTER = "prod"
BROKERS = 6
#: Falls silent once the cluster is formed, so that there is one that is not live.
SILENT = 6
HEARTBEAT_SECONDS = 0.5
FENCING_SECONDS = 12.0


@dataclass
class World:
    rest: Rest
    zookeeper: MemoryZooKeeper
    brokers: list[Broker]
    _life: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def freeze(self) -> None:
        """No broker says anything more: until leases run out, nothing changes."""
        self._life.cancel()

    async def live(self) -> None:
        """Until `freeze`."""
        with self._life:
            await self._keep_alive()

    async def _keep_alive(self) -> None:
        """The life of all brokers but the silent one."""
        alive = [broker for broker in self.brokers if broker.broker_id != SILENT]
        while True:
            for broker in alive:
                try:
                    await broker.heartbeat()
                    await broker.apply()
                    await self._report(broker)
                except (NotActive, UnknownCluster, OutcomeUnknown, Overloaded):
                    pass
            await anyio.sleep(HEARTBEAT_SECONDS)

    async def _report(self, leader: Broker) -> None:
        image = self.rest.engine.cluster(CLUSTER).image
        led = [state for state in image.partitions.values() if state.leader == leader.broker_id]
        if not led:
            return
        epochs = {broker.broker_id: broker.broker_epoch for broker in self.brokers}
        request = LagReport(
            broker_id=leader.broker_id,
            broker_epoch=BrokerEpoch(leader.broker_epoch),
            proposals=tuple(_proposal(state, epochs) for state in led if _is_growing(state)),
            lags=tuple(_lag(state) for state in led[:50]),
        )
        event = Report(request=request, wall_ms=self.rest.clock.now_wall_ms())
        await self.rest.engine.submit(CLUSTER, event)


def _is_growing(state: PartitionState) -> bool:
    """Every other partition's moves end; the rest stay, to be looked at and cancelled."""
    absent = set(state.replicas) - set(state.isr) - {SILENT}
    return bool(absent) and state.partition % 2 == 1 and state.leader != NO_LEADER


def _proposal(state: PartitionState, epochs: dict[int, int]) -> IsrProposal:
    members = [broker_id for broker_id in state.replicas if broker_id != SILENT and broker_id in epochs]
    return IsrProposal(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        proposal_id=state.partition_epoch,
        isr=tuple(IsrMember(broker_id=one, broker_epoch=BrokerEpoch(epochs[one])) for one in members),
    )


def _lag(state: PartitionState) -> PartitionLag:
    return PartitionLag(
        topic_id=state.topic_id,
        partition=state.partition,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=40,
        high_watermark=40,
        size_bytes=4_096 * (1 + state.partition),
        followers=tuple(
            FollowerLag(broker_id=b, log_end_offset=30, lag_records=10, lag_ms=5, remaining_bytes=1_024)
            for b in state.replicas
            if b != state.leader
        ),
    )


class _EveryLog(dict[Place, tuple[int, tuple[int, ...]]]):
    """The leaders of all partitions answer: records 0 to 39, one each second."""

    def __contains__(self, place: object) -> bool:
        return True

    def __missing__(self, place: Place) -> tuple[int, tuple[int, ...]]:
        return 0, tuple(range(1_700_000_000_000, 1_700_000_040_000, 1_000))


@asynccontextmanager
async def furnished() -> AsyncIterator[World]:
    """The world, furnished over REST, until the block ends."""
    zookeeper = MemoryZooKeeper()
    async with controller(zookeeper, run_outbox=True) as rest:
        rest.groups.logs = _EveryLog()
        rest.groups.add("billing", clicks=7)
        world = World(rest, zookeeper, await rest.form(BROKERS))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.live)
            await _furnish(rest)
            yield world
            tasks.cancel_scope.cancel()


async def _furnish(rest: Rest) -> None:
    prod = f"/clusters/{CLUSTER}"
    await _done(rest, "POST", "/clusters", {"name": "empty"})
    for topic, partitions, replicas in (("clicks", 4, 3), ("payments", 3, 2), ("audit.log", 1, 1)):
        body: dict[str, object] = {
            "name": topic,
            "cluster": CLUSTER,
            "assignments": _placed(partitions, replicas),
        }
        await _done(rest, "POST", "/topics", body)
    await anyio.sleep(FENCING_SECONDS)
    await _done(rest, "PUT", f"{prod}/topics/clicks/configs/min.insync.replicas", {"value": "2"})
    await _done(rest, "PATCH", f"{prod}/brokers/5", {"cordoned": True})
    await _done(rest, "POST", f"{prod}/brokers", {"broker_id": 9, "endpoint": "store9:9092"})
    await _grant(rest, prod)
    for partition in (0, 1):
        await _done(
            rest,
            "PUT",
            f"{prod}/topics/payments/partitions/{partition}/assignment",
            _elsewhere(rest, partition),
        )
    await anyio.sleep(2.0)


async def _grant(rest: Rest, prod: str) -> None:
    """Users, one with a slash in its name; ACLs of each kind of pattern; quotas of each kind of entity."""
    for user in ("alice", "b%2Fob"):
        await _done(rest, "PUT", f"{prod}/users/{user}", {"password": "secret", "iterations": 4096})
    read = {"principal": "User:alice", "operation": "read"}
    bindings = [
        {**read, "resource_type": "topic", "resource_name": "payments", "host": "10.0.0.7"},
        {**read, "resource_type": "group", "resource_name": "bill", "pattern_type": "prefixed"},
    ]
    await _done(rest, "POST", f"{prod}/acls", {"bindings": bindings})
    entities = [
        {"user": "alice", "quotas": {"producer_byte_rate": 1000.0}},
        {"client_id": "app", "quotas": {"consumer_byte_rate": 1000.0}},
        {"ip": "10.0.0.7", "quotas": {"connection_creation_rate": 10.0}},
    ]
    await _done(rest, "POST", f"{prod}/quotas:alter", {"entities": entities})


def _placed(partitions: int, replicas: int) -> list[list[int]]:
    """On the first four brokers: the others hold nothing."""
    return [[1 + (first + next_) % 4 for next_ in range(replicas)] for first in range(partitions)]


def _elsewhere(rest: Rest, partition: int) -> dict[str, object]:
    """Another home for a partition of `payments`: one replica stays, one goes."""
    image = rest.engine.cluster(CLUSTER).image
    (state,) = (
        state
        for state in image.partitions.values()
        if (state.topic, state.partition) == ("payments", partition)
    )
    kept = state.replicas[0]
    target = next(broker for broker in (1, 2, 3, 4) if broker not in state.replicas)
    return {"replicas": [kept, target], "throttle_bytes_per_s": 1_000_000}


async def _done(rest: Rest, method: str, path: str, body: dict[str, object]) -> None:
    answer = await rest.client.request(method, path, json=body)
    assert answer.status_code in (200, 201, 202), f"{method} {path}: {answer.text}"
