"""What an operator does to many partitions at once, over REST: drains, plans, factors, additions.

What it begins is paused, resumed, slowed down, cancelled (`rollback` and `keep`) and undone, while faults
strike and while others move the same partitions; much of it is refused, and must be refused whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from tests.fullstack.broker_node import PORT
from tests.fullstack.cluster import Cluster
from tests.fullstack.maintainer_rest import FINISHED, RATES, TRIES_AT_THE_END, TRIES_FEW, Desk

PAUSE_MS = (50, 800)
RECENT = 5
LATER_MS = (300, 4_000)


class Planner:
    """`run` until `stop`. begun: ids of operations that can be steered."""

    def __init__(self, cluster: Cluster) -> None:
        self.has_ended = False
        self.begun: list[str] = []
        self._cluster = cluster
        self._is_stopped = False
        self._desk = desk = Desk(cluster, name="planner")
        self._random = desk.random
        self._acts: list[Callable[[], Awaitable[None]]] = [
            *[self._drain] * 2,
            *[self._plan] * 4,
            self._change_factor,
            *[self._steer] * 3,
            *[self._undo] * 2,
            self.add_spare,
        ]

    def stop(self) -> None:
        self._is_stopped = True

    async def run(self) -> None:
        while not self._is_stopped:
            await self._desk.pause(*PAUSE_MS)
            await self._random.choice(self._acts)()
        self.has_ended = True

    def _began(self, operation: dict[str, Any] | None) -> str | None:
        if operation is None:
            return None
        found: str = operation["id"]
        self.begun.append(found)
        return found

    def _how(self) -> dict[str, Any]:
        """How moves are to be made."""
        body: dict[str, Any] = {"max_concurrent_moves": self._random.choice((1, 2, 10))}
        rate = self._random.choice(RATES)
        if rate is not None:
            body["throttle_bytes_per_s"] = rate
        if self._random.random() < 0.2:
            later_ms = self._random.choice((*LATER_MS, 3_600_000))
            at_ms = self._cluster.clients.life.clock.wall_ms() + later_ms
            body["not_before"] = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
        return body

    # Brokers

    async def _drain(self) -> None:
        """Most are taken back after a while, or there would soon be no place for anything."""
        broker = f"{self._desk.root}/brokers/{self._desk.any_broker()}"
        operation = self._began(await self._desk.ask("POST", f"{broker}:drain", self._how(), tries=TRIES_FEW))
        if operation is None:
            return
        await self._desk.pause(200, 4_000)
        match self._random.choice(("return", "return", "cancel", "leave")):
            case "return":
                await self._desk.ask("POST", f"{broker}:return", {})
            case "cancel":
                await self._cancel(operation)
            case _:
                pass

    async def add_spare(self, *, tries: int = TRIES_FEW) -> None:
        """Again and again: once it is a member, nothing is left to do but to even out."""
        spare = self._cluster.spare
        if spare is None:
            return
        body: dict[str, Any] = {
            "broker_id": spare.broker_id,
            "endpoint": f"{spare.machine.address}:{PORT}",
            "rebalance": {"mode": self._random.choice(("full", "new_only")), **self._how()},
        }
        self._began(await self._desk.ask("POST", f"{self._desk.root}/brokers", body, tries=tries))

    # Plans

    def _goal(self) -> dict[str, Any]:
        desk = self._desk
        brokers = sorted(self._cluster.brokers)
        kind = self._random.choice(
            ("rebalance", "drain", "drain", "replace", "factor", "separate_replicas", "assign", "assign")
        )
        match kind:
            case "rebalance":
                if self._random.random() < 0.5:
                    return {"kind": kind}
                return {"kind": kind, "mode": "new_only", "new_broker_ids": [desk.any_broker()]}
            case "drain":
                return {"kind": kind, "broker_ids": [desk.any_broker()]}
            case "replace":
                old, new = self._random.sample(brokers, 2)
                return {"kind": kind, "broker_id": old, "replacement": new}
            case "factor":
                return {
                    "kind": "change_replication_factor",
                    "topic": self._cluster.topic,
                    "replication_factor": self._factor(),
                }
            case "assign":
                found = {}
                for state in filter(None, [desk.any_partition() for _ in range(3)]):
                    found[state.topic, state.partition] = self._random.sample(brokers, len(state.replicas))
                wanted = [
                    {"topic": topic, "partition": partition, "replicas": replicas}
                    for (topic, partition), replicas in found.items()
                ]
                return {"kind": kind, "assignments": wanted} if wanted else {"kind": "rebalance"}
            case _:
                return {"kind": kind}

    async def _plan(self) -> None:
        plans = f"{self._desk.root}/plans"
        plan = await self._desk.ask("POST", plans, {"goal": self._goal()}, tries=TRIES_FEW)
        if plan is None:
            return
        path = f"{plans}/{plan['id']}"
        if self._random.random() < 0.4:  # so that it drifts
            await self._desk.pause(100, 2_000)
        if self._random.random() < 0.1:
            await self._desk.ask("DELETE", path, tries=TRIES_FEW)
            return
        body = self._how() | {"drifted": self._random.choice(("refuse", "skip", "re_plan"))}
        if self._random.random() < 0.3:
            body["moves"] = self._random.randint(1, 3)
        operation = self._began(await self._desk.ask("POST", f"{path}:execute", body, tries=TRIES_FEW))
        if operation is not None and self._random.random() < 0.4:
            await self._desk.pause(0, 1_000)
            await self._steer(operation)

    def _factor(self) -> int:
        """At least the minimum: below it, the promise allows for less than the faults take."""
        return self._random.randint(self._cluster.options.min_insync_replicas, len(self._cluster.brokers))

    async def _change_factor(self) -> None:
        path = f"{self._desk.root}/topics/{self._cluster.topic}"
        body = self._how() | {"replication_factor": self._factor()}
        self._began(await self._desk.ask("PATCH", path, body, tries=TRIES_FEW))

    # What has begun

    async def _steer(self, operation: str | None = None) -> None:
        if operation is None:
            if not self.begun:
                return
            operation = self._random.choice(self.begun[-RECENT:])
        path = f"/operations/{operation}"
        match self._random.choice(("pause", "pause", "resume", "cancel", "rate", "moves")):
            case "pause":
                await self._desk.ask("POST", f"{path}:pause", {}, tries=TRIES_FEW)
                await self._desk.pause(0, 1_500)
                if self._random.random() < 0.7:
                    await self._desk.ask("POST", f"{path}:resume", {}, tries=TRIES_FEW)
            case "resume":
                await self._desk.ask("POST", f"{path}:resume", {}, tries=TRIES_FEW)
            case "cancel":
                await self._cancel(operation)
            case "rate":
                body: dict[str, Any] = {"throttle_bytes_per_s": self._random.choice(RATES)}
                await self._desk.ask("PATCH", path, body, tries=TRIES_FEW)
            case _:
                body = {"max_concurrent_moves": self._random.choice((1, 10))}
                await self._desk.ask("PATCH", path, body, tries=TRIES_FEW)

    async def _cancel(self, operation: str) -> None:
        mode = self._random.choice(("rollback", "keep"))
        await self._desk.ask("POST", f"/operations/{operation}:cancel?mode={mode}", {}, tries=TRIES_FEW)

    async def _undo(self) -> None:
        """What has ended, mostly; what moves yet is refused."""
        found = await self._desk.ask("GET", f"/operations?cluster={self._cluster.name}&limit=100")
        moved = [each for each in found["items"] if each["links"]["moves"]] if found else []
        ended = [each for each in moved if each["state"] in FINISHED]
        chosen = ended if ended and self._random.random() < 0.9 else moved
        if chosen:
            body = self._how() | {"skip_conflicts": self._random.random() < 0.7}
            path = f"/operations/{self._random.choice(chosen[:RECENT])['id']}:undo"
            self._began(await self._desk.ask("POST", path, body, tries=TRIES_FEW))

    # The end

    async def take_in_spare(self) -> None:
        spare = self._cluster.spare
        if spare is None:
            return
        for broker in await self._desk.brokers():
            if broker["broker_id"] == spare.broker_id and broker["state"] != "waiting":
                return
        await self.add_spare(tries=TRIES_AT_THE_END)

    async def set_factor_back(self) -> str | None:
        """The operation that does; None: every partition has as many replicas as the topic began with."""
        factor = self._cluster.options.replication_factor
        found = await self._desk.partitions(self._cluster.topic)
        if all(len(item["replicas"]) == factor for item in found):
            return None
        path = f"{self._desk.root}/topics/{self._cluster.topic}"
        for item in found:
            if item["adding_replicas"] or item["removing_replicas"]:
                # Its operation has ended; ZooKeeper went back behind that, and the move goes on at its rate.
                where = f"{path}/partitions/{item['partition']}/assignment"
                await self._desk.ask("DELETE", where, tries=TRIES_FEW)
        operation = await self._desk.ask("PATCH", path, {"replication_factor": factor}, tries=TRIES_FEW)
        return "" if operation is None else str(operation["id"])
