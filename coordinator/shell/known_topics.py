"""The topics of a cluster as groups have to know them, from the batches of the metadata stream."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.groups.consumer.assigning import KnownTopic
from springtide.contract.updates import UpdateBatch
from springtide.node.topic_ids import topic_id_uuid


class KnownTopics:
    """The topics that clients may consume. Not known before the first FULL batch."""

    __slots__ = ("_by_name", "_names")

    def __init__(self) -> None:
        self._by_name: Mapping[str, KnownTopic] | None = None
        self._names: dict[str, str] = {}

    def take(self, batch: UpdateBatch) -> Mapping[str, KnownTopic] | None:
        """Return all topics by name if the batch changes one, else None."""
        is_of_topics = batch.topics or batch.deleted_topics or batch.kept_topics
        if not batch.full and (self._by_name is None or not is_of_topics):
            return None
        topics = {} if batch.full else dict(self._by_name or {})
        if batch.full:
            self._names = {}
        for topic in batch.topics:
            self._names[topic.topic_id] = topic.topic
            if topic.deleting:
                self._forget(topics, topic.topic_id)
            else:
                topics[topic.topic] = KnownTopic(topic.topic, topic_id_uuid(topic.topic_id), topic.partitions)
        for topic_id in (*batch.deleted_topics, *(batch.kept_topics or ())):
            self._forget(topics, topic_id)
        if topics == self._by_name:
            return None
        self._by_name = topics
        return topics

    def _forget(self, topics: dict[str, KnownTopic], topic_id: str) -> None:
        name = self._names.pop(topic_id, None)
        if name in topics and topics[name].topic_id == topic_id_uuid(topic_id):
            del topics[name]
