"""The operator of the simulated cluster: creates further topics, deletes them, and makes them again.

It does so whatever is down (S24, deleted and made again): a broker that was away while a topic went and came
back under the same name must not serve its old bytes.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from controller.core.events import CreateTopic, DeleteTopic, TopicCreated, TopicDeletionStarted
from tests.simulation.clients import Consumer, Producer
from tests.simulation.events import keyed_random

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: Partitions of a topic that clients use.
PARTITIONS_USED_MAX = 2


class Operator:
    """topics: name to id of those that exist. deleted: ids that were deleted, whose bytes must go."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random = keyed_random(cluster.seed, "operator")
        self.topics: dict[str, str] = {}
        #: Of each name that was deleted: how far its producers came. Those of the next topic go on there.
        self.sequences: dict[str, int] = {}
        self.deleted: list[str] = []
        self.stopped = False
        self.created_count = 0
        #: Batches of those who write to topics that are made again (kinds_topics.py).
        self.written_count = 0

    def start(self) -> None:
        if self.cluster.options.topics_max:
            self._again()

    def _again(self) -> None:
        pace_ms = self.cluster.options.operator_pace_ms
        self.cluster.events.after(pace_ms * (0.2 + 1.6 * self.random.random()), self._act)

    def _act(self) -> None:
        if self.stopped:
            return
        self.adopt()
        controller = self.cluster.active_controller()
        if controller is not None:
            names = [f"side-{n}" for n in range(self.cluster.options.topics_max)]
            name = self.random.choice(names)
            if name in self.topics:
                self.delete(controller, name)
            else:
                self.create(controller, name)
        self._again()

    def create(self, controller: Any, name: str, topic_id: str | None = None, *, partitions: int = 1) -> None:
        topic_id = topic_id or base64.urlsafe_b64encode(self.random.randbytes(16)).decode().rstrip("=")
        options = self.cluster.options

        def created(reply: Any) -> None:
            if isinstance(reply, TopicCreated):
                self._on_created(name, topic_id, partitions)

        controller.submit(
            CreateTopic(
                wall_ms=self.cluster.events.now_ms,
                actor="operator",
                topic_id=topic_id,
                topic=name,
                partitions=partitions,
                replication_factor=options.replication_factor,
                configs=options.topic_configs,
            ),
            created,
        )

    def _on_created(self, name: str, topic_id: str, partitions: int) -> None:
        cluster = self.cluster
        keys = [(topic_id, number) for number in range(partitions)]
        if name in self.topics or keys[0] in cluster.living:
            return
        self.topics[name] = topic_id
        self.created_count += 1
        cluster.events.note(f"topic {name} {topic_id[:4]} is created")
        cluster.keys += keys
        cluster.living.update(keys)
        is_over = any(producer.stopped for producer in cluster.producers)
        for key in keys[:PARTITIONS_USED_MAX]:
            for producer in cluster.add_clients(key):
                producer.stopped = is_over
                if producer.is_idempotent:
                    producer.sequence = self.sequences.get(name, 0)
            cluster.start_clients(key)

    def delete(self, controller: Any, name: str) -> None:
        topic_id = self.topics[name]

        def deleted(reply: Any) -> None:
            if isinstance(reply, TopicDeletionStarted) and self.topics.get(name) == topic_id:
                self._on_deleted(name, topic_id)

        controller.submit(
            DeleteTopic(wall_ms=self.cluster.events.now_ms, actor="operator", topic_id=topic_id), deleted
        )

    def _on_deleted(self, name: str, topic_id: str) -> None:
        cluster = self.cluster
        self.sequences[name] = max(
            (producer.sequence for producer in cluster.producers if producer.key[0] == topic_id), default=0
        )
        del self.topics[name]
        self.deleted.append(topic_id)
        cluster.keys[:] = [key for key in cluster.keys if key[0] != topic_id]
        cluster.living = {key for key in cluster.living if key[0] != topic_id}
        clients: list[Producer | Consumer] = [*cluster.producers, *cluster.consumers]
        for client in clients:
            client.stopped = client.stopped or client.key[0] == topic_id
        cluster.history.deleted(topic_id)
        cluster.events.note(f"topic {name} {topic_id[:4]} is deleted")

    def notice_deletions(self) -> None:
        """Deletions that took effect although their answer was lost, or before it arrived."""
        nodes = self.cluster.zookeeper.nodes
        for name, topic_id in list(self.topics.items()):
            node = nodes.get(f"topic/{topic_id}")
            if node is None or node.value.state.deleting:
                self._on_deleted(name, topic_id)

    def adopt(self) -> None:
        """Creations that took effect although their answer was lost."""
        for path, node in list(self.cluster.zookeeper.nodes.items()):
            if path.startswith("topic/"):
                state = node.value.state
                is_ours = state.topic.startswith(("side-", "many-"))
                if is_ours and not state.deleting and state.topic not in self.topics:
                    self._on_created(state.topic, state.topic_id, state.partitions)

    def is_settled(self) -> str | None:
        """L5 (deletions and shutdowns end): whatever was deleted is gone from the controller and from every
        disk that is there."""
        cluster = self.cluster
        for topic_id in self.deleted:
            if f"topic/{topic_id}" in cluster.zookeeper.nodes:
                return f"topic {topic_id} is still being deleted"
            for broker in cluster.brokers.values():
                if any(key[0] == topic_id for key in broker.disk.logs):
                    return f"{broker.name} still holds bytes of topic {topic_id}"
        return None
