"""An operator of one topic of many partitions: makes it, moves some of it and deletes it, over REST.

Nobody waits for the answers but `waiting`; what became of a request stands in the cluster's metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from springtide.contract.partition_state import PartitionState
from tests.fullstack.maintainer_rest import Desk

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

NAME = "many"
TRIES = 20


class Crowd:
    """waiting: how many requests have no answer yet."""

    def __init__(self, cluster: Cluster) -> None:
        self.waiting = 0
        self._cluster = cluster
        self._desk = Desk(cluster, name="crowd")

    def states(self) -> list[PartitionState]:
        """The partitions that there are; none while the topic is not known, or is being deleted."""
        published = self._cluster.published()
        if published is None:
            return []
        living = {topic.topic_id for topic in published.image.topics.values() if not topic.deleting}
        partitions = published.image.partitions.items()
        return [state for key, state in sorted(partitions) if state.topic == NAME and key[0] in living]

    def create(self, partitions: int) -> None:
        body = {
            "name": NAME,
            "partitions": partitions,
            "replication_factor": self._cluster.options.replication_factor,
            "configs": self._cluster.options.topic_configs(),
        }
        self._ask("POST", f"{self._desk.root}/topics", body)

    def delete(self) -> None:
        self._ask("DELETE", f"{self._desk.root}/topics/{NAME}")

    def move(self, partition: int, replicas: list[int]) -> None:
        path = f"{self._desk.root}/topics/{NAME}/partitions/{partition}/assignment"
        self._ask("PUT", path, {"replicas": replicas})

    def _ask(self, method: str, path: str, body: Any = None) -> None:
        self.waiting += 1
        self._cluster.spawn(self._carry_through, method, path, body)

    async def _carry_through(self, method: str, path: str, body: Any) -> None:
        await self._desk.ask(method, path, body, tries=TRIES)
        self.waiting -= 1
