"""An operator who makes topics and deletes them again, over REST, whatever strikes meanwhile.

Half of them bear the name of the one before, which may not be gone yet.
"""

from __future__ import annotations

from tests.fullstack.cluster import Cluster
from tests.fullstack.operator import Operator

PAUSE_MS = (300, 2_500)
LIFETIME_MS = (50, 2_000)


class Churn:
    """`run` until `stop`; what was begun is brought to its end."""

    def __init__(self, cluster: Cluster) -> None:
        self.has_ended = False
        self.topics = 0  # names that were used
        self._cluster = cluster
        self._is_stopped = False
        self._random = cluster.world.random("churn")
        self._operator = Operator(cluster.clients, cluster.name, cluster.controller_urls, name="churner")

    def stop(self) -> None:
        self._is_stopped = True

    async def run(self) -> None:
        clock = self._cluster.clients.life.clock
        while not self._is_stopped:
            await clock.sleep_ms(self._random.uniform(*PAUSE_MS))
            self.topics += self.topics == 0 or self._random.random() < 0.5
            topic = f"churn-{self.topics}"
            await self._operator.create_topic(
                topic,
                partitions=self._random.choice([1, 3]),
                replication_factor=3,
                configs=self._cluster.options.topic_configs(),
            )
            await clock.sleep_ms(self._random.uniform(*LIFETIME_MS))
            await self._operator.delete_topic(topic)
        self.has_ended = True
