"""An operator who moves replicas, throttles and cancels that, and maintains brokers, whatever strikes.
Another one may plan beside this one (maintainer_plans.py).

All of it over REST. A request may be refused, or nobody may answer: what became of it stands in its
operation. At the end everything is taken back that would keep the cluster from being whole (demotions,
cordons, drains, pauses, times far away, low rates, a higher minimum), and then each operation must end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from springtide.contract.partition_state import PartitionState
from tests.fullstack.cluster import Cluster
from tests.fullstack.maintainer_plans import Planner
from tests.fullstack.maintainer_rest import FINISHED, RATES, TRIES, TRIES_AT_THE_END, TRIES_FEW, Desk

PAUSE_MS = (100, 1_500)
LOOK_MS = 250
PARTITIONS_ADDED_MAX = 2
LAST_DRAIN = 0.5
"""Share of the runs with plans at whose end a broker is emptied, and that undone: both must succeed then."""


class Maintainer:
    """`run` until `stop`; then it takes back what it must and waits for all operations.

    ended: how many operations came to each state. kinds: the same, by kind and state.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.has_ended = False
        self.ended: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self._cluster = cluster
        self._is_stopped = False
        self._desk = desk = Desk(cluster, name="maintainer")
        self._random = desk.random
        self._plans = Planner(cluster) if cluster.options.plans else None
        self._lifted: set[str] = set()
        self._moves: list[str] = []
        self._acts: list[Callable[[], Awaitable[None]]] = [
            *[self._move] * 4,
            *[self._move_and_cancel] * 2,
            self._cancel_partition,
            self._throttle,
            self._maintain,
            self._set_minimum,
            self._add_partition,
            self._send_leaders_home,
        ]

    def stop(self) -> None:
        self._is_stopped = True

    async def run(self) -> None:
        if self._plans is not None:
            self._cluster.spawn(self._plans.run)
        while not self._is_stopped:
            await self._desk.pause(*PAUSE_MS)
            await self._random.choice(self._acts)()
        await self._end()
        self.has_ended = True

    # What it asks for

    def _assignment(self, state: PartitionState) -> str:
        return f"{self._desk.root}/topics/{state.topic}/partitions/{state.partition}/assignment"

    async def _assign(self) -> str | None:
        """The operation's id."""
        state = self._desk.any_partition()
        if state is None:
            return None
        options, brokers = self._cluster.options, sorted(self._cluster.brokers)
        count = options.replication_factor + self._random.choice((-1, 0, 0, 0, 1))
        # Only the clients' topic gets its factor back before a broker is emptied at the end.
        most = len(brokers) if state.topic == self._cluster.topic else options.replication_factor
        count = max(options.min_insync_replicas, min(count, most))
        body: dict[str, Any] = {"replicas": self._random.sample(brokers, count)}
        rate = self._random.choice(RATES)
        if rate is not None:
            body["throttle_bytes_per_s"] = rate
        operation = await self._desk.ask("PUT", self._assignment(state), body)
        if operation is None:
            return None
        found: str = operation["id"]
        self._moves.append(found)
        return found

    async def _move(self) -> None:
        await self._assign()

    async def _move_and_cancel(self) -> None:
        operation = await self._assign()
        if operation is not None:
            await self._desk.pause(0, 800)
            await self._desk.ask("POST", f"/operations/{operation}:cancel", {"reason": "it takes too long"})

    async def _cancel_partition(self) -> None:
        state = self._desk.any_partition()
        if state is not None:
            await self._desk.ask("DELETE", self._assignment(state))

    async def _throttle(self) -> None:
        if self._moves:
            body = {"throttle_bytes_per_s": self._random.choice(RATES)}
            await self._desk.ask("PATCH", f"/operations/{self._random.choice(self._moves[-3:])}", body)

    async def _maintain(self) -> None:
        broker = f"{self._desk.root}/brokers/{self._random.choice(sorted(self._cluster.brokers))}"
        match self._random.choice(("cordon", "uncordon", "demote", "return")):
            case "cordon":
                await self._desk.ask("PATCH", broker, {"cordoned": True})
            case "uncordon":
                await self._desk.ask("PATCH", broker, {"cordoned": False})
            case "demote":
                await self._desk.ask("POST", f"{broker}:demote", {})
            case _:
                await self._desk.ask("POST", f"{broker}:return", {})

    async def _set_minimum(self, minimum: int | None = None, *, tries: int = TRIES) -> None:
        options = self._cluster.options
        if minimum is None:
            minimum = options.min_insync_replicas + self._random.choice((0, 1))
        path = f"{self._desk.root}/topics/{self._cluster.topic}/configs/min.insync.replicas"
        await self._desk.ask("PUT", path, {"value": str(minimum)}, tries=tries)

    async def _add_partition(self) -> None:
        count = len(self._cluster.data_keys)
        if count < self._cluster.options.partitions + PARTITIONS_ADDED_MAX:
            path = f"{self._desk.root}/topics/{self._cluster.topic}"
            await self._desk.ask("PATCH", path, {"partitions": count + 1})

    async def _send_leaders_home(self) -> None:
        await self._desk.ask("POST", f"{self._desk.root}/partitions:elect-preferred", {})

    # The end: by then everything is mended, and what is asked for is done

    async def _end(self) -> None:
        while self._plans is not None and not self._plans.has_ended:
            self._plans.stop()
            await self._desk.pause(LOOK_MS, LOOK_MS)
        await self._set_minimum(self._cluster.options.min_insync_replicas, tries=TRIES_AT_THE_END)
        if self._plans is not None:
            await self._plans.take_in_spare()
        await self._wait_for_operations()
        if self._plans is not None:
            await self._set_factor_back(self._plans)
            if self._random.random() < LAST_DRAIN:
                await self._wait_until_whole()
                await self._empty_a_broker()
            await self._wait_for_operations()
        for each in await self._desk.operations():
            self.ended[each["state"]] += 1
            self.kinds[f"{each['kind']} {each['state']}"] += 1

    async def _wait_for_operations(self) -> None:
        """Takes back what holds one up at each look: what was asked for long ago may have arrived late."""
        while True:
            for broker in await self._desk.brokers():
                if broker["cordoned"] or broker["draining"] or broker["demoted"]:
                    path = f"{self._desk.root}/brokers/{broker['broker_id']}:return"
                    await self._desk.ask("POST", path, {}, tries=TRIES_AT_THE_END)
            operations = await self._desk.operations()
            unfinished = [each for each in operations if each["state"] not in FINISHED]
            if not unfinished:
                return
            for operation in unfinished:
                await self._let_go(operation)
            self._tell(unfinished)
            await self._desk.pause(LOOK_MS, LOOK_MS)

    async def _let_go(self, operation: dict[str, Any]) -> None:
        path = f"/operations/{operation['id']}"
        match operation["state"]:
            case "scheduled":
                await self._desk.ask("POST", f"{path}:cancel", {}, tries=TRIES_FEW)
            case "paused":
                await self._desk.ask("POST", f"{path}:resume", {}, tries=TRIES_FEW)
            case "running" | "cancelling" if operation["links"]["moves"] and path not in self._lifted:
                body = {"throttle_bytes_per_s": None}
                if await self._desk.ask("PATCH", path, body, tries=TRIES_FEW) is not None:
                    self._lifted.add(path)
            case _:
                pass

    def _tell(self, unfinished: list[dict[str, Any]]) -> None:
        first = unfinished[-1]
        self._cluster.world.note(
            f"{len(unfinished)} operations go on: {first['kind']} {first['state']} {first['blocked']}"
        )

    async def _set_factor_back(self, plans: Planner) -> None:
        while (operation := await plans.set_factor_back()) is not None:
            self._cluster.world.note(f"the replication factor goes back by {operation or 'another try'}")
            await self._desk.pause(LOOK_MS, LOOK_MS)
            await self._wait_for_operations()

    async def _wait_until_whole(self) -> None:
        """Who has not come back takes nothing, and what has no leader is not moved."""
        while not self._is_whole():
            await self._desk.pause(LOOK_MS, LOOK_MS)

    def _is_whole(self) -> bool:
        published = self._cluster.published()
        return (
            published is not None
            and not any(broker.fenced for broker in published.image.brokers.values())
            and all(set(state.isr) == set(state.replicas) for state in published.image.partitions.values())
        )

    async def _empty_a_broker(self) -> None:
        """Nothing keeps it from being emptied: whatever was done before, there is room. Undone, everything is
        where it was: nobody else moves anything any more."""
        broker_id = self._desk.any_broker()
        before = await self._placement()
        drained = await self._succeed(f"{self._desk.root}/brokers/{broker_id}:drain")
        if drained is None:
            return
        after = await self._placement()
        if any(broker_id in replicas for replicas in after.values()):
            self._cluster.fail(f"broker {broker_id} was drained and holds something: {after}")
        await self._wait_for_operations()  # and takes it back
        if after != before:
            await self._succeed(f"/operations/{drained}:undo")
            if (undone := await self._placement()) != before:
                self._cluster.fail(f"undone, {drained} left {undone}, not {before}")

    async def _placement(self) -> dict[int, list[int]]:
        found = await self._desk.partitions(self._cluster.topic)
        return {item["partition"]: item["replicas"] for item in found}

    async def _succeed(self, path: str) -> str | None:
        """The operation that the POST began and that has succeeded; None: it is a failure of the run."""
        operation = await self._desk.ask("POST", path, {}, tries=TRIES_AT_THE_END)
        if operation is None:
            self._cluster.fail(f"a whole cluster refuses {path}")
            return None
        found: str = operation["id"]
        while operation is None or operation["state"] not in FINISHED:
            await self._desk.pause(LOOK_MS, LOOK_MS)
            operation = await self._desk.ask("GET", f"/operations/{found}", tries=TRIES_AT_THE_END)
            if operation is not None:
                self._tell([operation])
        if operation["state"] != "succeeded":
            self._cluster.fail(f"{path} in a whole cluster: {operation}")
            return None
        return found
