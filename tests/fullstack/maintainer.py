"""An operator who moves replicas, throttles and cancels that, and maintains brokers, whatever strikes.

All of it over REST. A request may be refused, or nobody may answer: what became of it stands in its
operation. At the end everything is taken back that would keep the cluster from being whole (demotions,
cordons, low rates, a higher minimum), and then each operation must end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from controller.contract.partition_state import PartitionState
from tests.fullstack.cluster import Cluster
from tests.fullstack.operator import Operator, Refused

PAUSE_MS = (100, 1_500)
LOOK_MS = 250
TRIES = 8
RATES: tuple[int | None, ...] = (None, None, 500, 5_000, 100_000)
"""Bytes per second; a run writes some ten thousand to each partition."""
PARTITIONS_ADDED_MAX = 2
FINISHED = frozenset({"succeeded", "failed", "cancelled"})


class Maintainer:
    """`run` until `stop`; then it takes back what it must and waits for all operations.

    ended: how many operations came to each state.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.has_ended = False
        self.ended: Counter[str] = Counter()
        self._cluster = cluster
        self._is_stopped = False
        self._random = cluster.world.random("maintainer")
        self._operator = Operator(cluster.clients, cluster.name, cluster.controller_urls, name="maintainer")
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
        while not self._is_stopped:
            await self._pause(*PAUSE_MS)
            await self._random.choice(self._acts)()
        await self._take_back()
        await self._wait_for_operations()
        self.has_ended = True

    # What it asks for

    async def _ask(self, method: str, path: str, body: Any = None, *, tries: int = TRIES) -> Any:
        """The answer; None: refused, or nobody answered."""
        try:
            return await self._operator.ask(method, path, body, tries=tries)
        except Refused as refused:
            self._cluster.world.note(f"maintainer: {method} {path}: {refused}")
            return None

    async def _pause(self, from_ms: float, to_ms: float) -> None:
        await self._cluster.clients.life.clock.sleep_ms(self._random.uniform(from_ms, to_ms))

    @property
    def _root(self) -> str:
        return f"/clusters/{self._cluster.name}"

    def _any_partition(self) -> PartitionState | None:
        published = self._cluster.published()
        if published is None or not published.image.partitions:
            return None
        return self._random.choice([state for _, state in sorted(published.image.partitions.items())])

    def _assignment(self, state: PartitionState) -> str:
        return f"{self._root}/topics/{state.topic}/partitions/{state.partition}/assignment"

    async def _assign(self) -> str | None:
        """The operation's id."""
        state = self._any_partition()
        if state is None:
            return None
        options, brokers = self._cluster.options, sorted(self._cluster.brokers)
        count = options.replication_factor + self._random.choice((-1, 0, 0, 0, 1))
        count = max(options.min_insync_replicas, min(count, len(brokers)))
        body: dict[str, Any] = {"replicas": self._random.sample(brokers, count)}
        rate = self._random.choice(RATES)
        if rate is not None:
            body["throttle_bytes_per_s"] = rate
        operation = await self._ask("PUT", self._assignment(state), body)
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
            await self._pause(0, 800)
            await self._ask("POST", f"/operations/{operation}:cancel", {"reason": "it takes too long"})

    async def _cancel_partition(self) -> None:
        state = self._any_partition()
        if state is not None:
            await self._ask("DELETE", self._assignment(state))

    async def _throttle(self) -> None:
        if self._moves:
            body = {"throttle_bytes_per_s": self._random.choice(RATES)}
            await self._ask("PATCH", f"/operations/{self._random.choice(self._moves[-3:])}", body)

    async def _maintain(self) -> None:
        broker = f"{self._root}/brokers/{self._random.choice(sorted(self._cluster.brokers))}"
        match self._random.choice(("cordon", "uncordon", "demote", "return")):
            case "cordon":
                await self._ask("PATCH", broker, {"cordoned": True})
            case "uncordon":
                await self._ask("PATCH", broker, {"cordoned": False})
            case "demote":
                await self._ask("POST", f"{broker}:demote", {})
            case _:
                await self._ask("POST", f"{broker}:return", {})

    async def _set_minimum(self, minimum: int | None = None, *, tries: int = TRIES) -> None:
        options = self._cluster.options
        if minimum is None:
            minimum = options.min_insync_replicas + self._random.choice((0, 1))
        path = f"{self._root}/topics/{self._cluster.topic}/configs/min.insync.replicas"
        await self._ask("PUT", path, {"value": str(minimum)}, tries=tries)

    async def _add_partition(self) -> None:
        count = len(self._cluster.keys)
        if count < self._cluster.options.partitions + PARTITIONS_ADDED_MAX:
            path = f"{self._root}/topics/{self._cluster.topic}"
            await self._ask("PATCH", path, {"partitions": count + 1})

    async def _send_leaders_home(self) -> None:
        await self._ask("POST", f"{self._root}/partitions:elect-preferred", {})

    # The end

    async def _take_back(self) -> None:
        """By then everything is mended: what is asked for is done."""
        await self._set_minimum(self._cluster.options.min_insync_replicas, tries=60)
        for broker_id in sorted(self._cluster.brokers):
            await self._ask("POST", f"{self._root}/brokers/{broker_id}:return", {}, tries=60)
        for operation in await self._operations():
            if operation["kind"] == "reassignment" and operation["state"] == "running":
                body = {"throttle_bytes_per_s": None}
                await self._ask("PATCH", f"/operations/{operation['id']}", body)

    async def _operations(self) -> list[dict[str, Any]]:
        """Everybody's, newest first."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            path = f"/operations?cluster={self._cluster.name}&limit=1000{token}"
            answer = await self._operator.ask("GET", path)
            found += answer["items"]
            if not answer["next_page_token"]:
                return found
            token = f"&page_token={answer['next_page_token']}"

    async def _wait_for_operations(self) -> None:
        while True:
            operations = await self._operations()
            unfinished = [each for each in operations if each["state"] not in FINISHED]
            if not unfinished:
                self.ended.update(each["state"] for each in operations)
                return
            first = unfinished[-1]
            self._cluster.world.note(
                f"{len(unfinished)} operations go on: {first['kind']} {first['state']} {first['blocked']}"
            )
            await self._pause(LOOK_MS, LOOK_MS)
