"""Where an operator sits who maintains a cluster over REST: asks, looks, waits, and draws what comes next."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from springtide.contract.partition_state import PartitionState
from tests.fullstack.operator import Operator, Refused

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

TRIES = 8
#: Of what may be refused for a reason that no waiting ends.
TRIES_FEW = 3
TRIES_AT_THE_END = 60
RATES: tuple[int | None, ...] = (None, None, 500, 5_000, 100_000)
"""Bytes per second; a run writes some ten thousand to each partition."""
FINISHED = frozenset({"succeeded", "failed", "cancelled"})


class Desk:
    """One operator's; whose acts differ share it, and its stream of chance."""

    def __init__(self, cluster: Cluster, *, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.random: Random = cluster.world.random(name)
        self.root = f"/clusters/{cluster.name}"
        self._operator = Operator(cluster.clients, cluster.name, cluster.controller_urls, name=name)

    async def ask(self, method: str, path: str, body: Any = None, *, tries: int = TRIES) -> Any:
        """The answer; None: refused, or nobody answered, or there is nothing to tell."""
        try:
            return await self._operator.ask(method, path, body, tries=tries)
        except Refused as refused:
            self.cluster.world.note(f"{self.name}: {method} {path}: {refused}")
            return None

    async def pause(self, from_ms: float, to_ms: float) -> None:
        await self.cluster.clients.life.clock.sleep_ms(self.random.uniform(from_ms, to_ms))

    def any_partition(self) -> PartitionState | None:
        published = self.cluster.published()
        if published is None or not published.image.partitions:
            return None
        return self.random.choice([state for _, state in sorted(published.image.partitions.items())])

    def any_broker(self) -> int:
        return self.random.choice(sorted(self.cluster.brokers))

    async def brokers(self) -> list[dict[str, Any]]:
        answer = await self._operator.ask("GET", f"{self.root}/brokers?limit=1000")
        found: list[dict[str, Any]] = answer["items"]
        return found

    async def partitions(self, topic: str) -> list[dict[str, Any]]:
        return await self._operator.partitions(topic)

    async def operations(self) -> list[dict[str, Any]]:
        """Everybody's, newest first."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            path = f"/operations?cluster={self.cluster.name}&limit=1000{token}"
            answer = await self._operator.ask("GET", path)
            found += answer["items"]
            if not answer["next_page_token"]:
                return found
            token = f"&page_token={answer['next_page_token']}"
