"""The operator of the simulated cluster: creates further topics, deletes them, and makes them again.

It does so whatever is down (S24, deleted and made again): a broker that was away while a topic went and came
back under the same name must not serve its old bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from controller.core.events import (
    CreateTopic,
    DeleteTopic,
    PurgeTopic,
    RestoreTopic,
    TopicCreated,
    TopicDeletionStarted,
)
from springtide.contract.partition_state import PartitionKey
from tests.simulation.clients import Consumer, Producer
from tests.simulation.events import keyed_random

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: Partitions of a topic that clients use.
PARTITIONS_USED_MAX = 2


class Operator:
    """topics: name to id of those that exist. deleted: ids that were deleted, whose bytes must go. kept: id
    to name of those that were deleted and are kept, whose bytes must stay."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.random = keyed_random(cluster.seed, "operator")
        self.topics: dict[str, str] = {}
        #: Of each name that was deleted: how far its producers came. Those of the next topic go on there.
        self.sequences: dict[str, int] = {}
        self.deleted: list[str] = []
        self.kept: dict[str, str] = {}
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

    def create(
        self,
        controller: Any,
        name: str,
        topic_id: str | None = None,
        *,
        partitions: int = 1,
        configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
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
                configs=options.topic_configs | dict(configs),
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
        if self.kept.pop(topic_id, None) is None:
            cluster.events.note(f"topic {name} {topic_id[:4]} is created")
        else:
            cluster.events.note(f"topic {name} {topic_id[:4]} is restored")
            for former in [producer for producer in cluster.producers if producer.key in keys]:
                former.stopped = former.is_over = True
                former.in_flight.clear()
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
                self._on_deleted(name, topic_id, is_kept=bool(reply.state.kept))

        controller.submit(
            DeleteTopic(wall_ms=self.cluster.events.now_ms, actor="operator", topic_id=topic_id), deleted
        )

    def restore(self, controller: Any, topic_id: str) -> None:
        event = RestoreTopic(wall_ms=self.cluster.events.now_ms, actor="operator", topic_id=topic_id)
        controller.submit(event, lambda _reply: self.adopt())

    def purge(self, controller: Any, topic_id: str) -> None:
        event = PurgeTopic(wall_ms=self.cluster.events.now_ms, actor="operator", topic_id=topic_id)
        controller.submit(event, lambda _reply: self.notice_deletions())

    def _on_deleted(self, name: str, topic_id: str, *, is_kept: bool) -> None:
        cluster = self.cluster
        self.sequences[name] = max(
            (producer.sequence for producer in cluster.producers if producer.key[0] == topic_id), default=0
        )
        del self.topics[name]
        cluster.keys[:] = [key for key in cluster.keys if key[0] != topic_id]
        cluster.living = {key for key in cluster.living if key[0] != topic_id}
        clients: list[Producer | Consumer] = [*cluster.producers, *cluster.consumers]
        for client in clients:
            client.stopped = client.stopped or client.key[0] == topic_id
        cluster.events.note(f"topic {name} {topic_id[:4]} is deleted" + (" and kept" if is_kept else ""))
        if is_kept:
            self.kept[topic_id] = name
        else:
            self._on_gone(topic_id)

    def _on_gone(self, topic_id: str) -> None:
        self.deleted.append(topic_id)
        self.cluster.history.deleted(topic_id)

    def notice_deletions(self) -> None:
        """Deletions that took effect although their answer was lost, or before it arrived."""
        nodes = self.cluster.zookeeper.nodes
        for name, topic_id in list(self.topics.items()):
            node = nodes.get(f"topic/{topic_id}")
            if node is None or node.value.state.deleting:
                is_kept = node is not None and bool(node.value.state.kept)
                self._on_deleted(name, topic_id, is_kept=is_kept)
        for topic_id in list(self.kept):
            node = nodes.get(f"topic/{topic_id}")
            if node is None or (node.value.state.deleting and not node.value.state.kept):
                del self.kept[topic_id]
                self._on_gone(topic_id)

    def adopt(self) -> None:
        """Creations that took effect although their answer was lost."""
        for path, node in list(self.cluster.zookeeper.nodes.items()):
            if path.startswith("topic/"):
                state = node.value.state
                is_ours = state.topic.startswith(("side-", "many-"))
                if is_ours and not state.deleting and state.topic not in self.topics:
                    self._on_created(state.topic, state.topic_id, state.partitions)

    def kept_keys(self) -> list[PartitionKey]:
        """Return the partitions of what is kept. The promise covers them, too."""
        nodes = self.cluster.zookeeper.nodes
        rows = [
            nodes[f"topic/{topic_id}"].value.state for topic_id in self.kept if f"topic/{topic_id}" in nodes
        ]
        return [(row.topic_id, number) for row in rows for number in range(row.partitions)]

    def is_settled(self) -> str | None:
        """L5 (deletions and shutdowns end): whatever was deleted is gone from the controller and from every
        disk that is there. What is still kept is restored first, so that its records are looked at."""
        cluster = self.cluster
        if self.kept:
            self.notice_deletions()
            self.adopt()
        controller = cluster.active_controller()
        for topic_id in self.kept:
            if controller is not None:
                self.restore(controller, topic_id)
            return f"topic {topic_id} is kept"
        for topic_id in self.deleted:
            if f"topic/{topic_id}" in cluster.zookeeper.nodes:
                return f"topic {topic_id} is still being deleted"
            for broker in cluster.brokers.values():
                if any(key[0] == topic_id for key in broker.disk.logs):
                    return f"{broker.name} still holds bytes of topic {topic_id}"
        return None
