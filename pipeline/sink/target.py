"""The topic that is written to, as its leaders have it now."""

from __future__ import annotations

from pipeline.client.client import Client
from pipeline.client.values import LATEST, TopicPartition
from pipeline.clock import wall_ms
from pipeline.errors import InvalidRows
from pipeline.sink.opening import Fingerprint, TopicOpening
from springtide.wire.errors import ErrorCode


def propose_opening(client: Client, topic: str, *, batch_id: int, fingerprint: Fingerprint) -> TopicOpening:
    """Return the topic as its leaders have it now. Raises InvalidRows if there is no such topic,
    ClientError."""
    partitions = known_partitions(client, topic)
    opened_ms = wall_ms()
    found = client.list_offsets(dict.fromkeys(partitions, LATEST))
    return TopicOpening(
        topic,
        batch_id,
        opened_ms,
        tuple(found[where].offset for where in partitions),
        tuple(found[where].leader_epoch for where in partitions),
        fingerprint,
    )


def known_partitions(client: Client, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, from 0 on; wait a little for brokers that don't know a new topic yet.
    Raises InvalidRows."""
    deadline = client.deadline(client.config.unknown_topic_budget_ms)
    while True:
        told = client.metadata([topic]).topics.get(topic)
        if told is not None and told.error is ErrorCode.NONE and told.partitions:
            count = len(told.partitions)
            if set(told.partitions) == set(range(count)):
                return [TopicPartition(topic, partition) for partition in range(count)]
        if not deadline.pause():
            why = "unknown to the brokers" if told is None else told.error.name
            raise InvalidRows(f"topic {topic!r} can't be written to: {why}")
