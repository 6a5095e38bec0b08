"""The topic that is written to, as its leaders have it now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from pipeline.client.client import Client
from pipeline.client.values import EARLIEST, LATEST, TopicMetadata, TopicPartition
from pipeline.clock import wall_ms
from pipeline.errors import InvalidRows
from pipeline.sink.opening import Fingerprint, TopicOpening, made_again
from springtide.wire.errors import ErrorCode


def propose_opening(client: Client, topic: str, *, batch_id: int, fingerprint: Fingerprint) -> TopicOpening:
    """Return the topic as its leaders have it now. Raises InvalidRows if there is no such topic,
    ClientError."""
    (opening,) = _proposed(
        client, {topic: known_partitions(client, topic)}, batch_id=batch_id, fingerprint=fingerprint
    )
    return opening


def propose_again(
    client: Client, topic: str, *, topic_id: str, instead_of: TopicOpening, fingerprint: Fingerprint
) -> TopicOpening:
    """Return the opening of a topic that was made again since `instead_of`, and has this id. It begins at the
    first record: attempts that had opened the old topic may have written to the new one, by its name. The
    time stays, which is in rows. Raises DeliveryFailed if the topic that a broker tells of now is another one
    (it may be behind): such an opening, once it was written down, would be refused for ever. Raises
    InvalidRows, ClientError."""
    opening = propose_opening(client, topic, batch_id=instead_of.batch_id, fingerprint=fingerprint)
    if opening.topic_id != topic_id:
        raise made_again(topic, topic_id, opening.topic_id)
    partitions = [TopicPartition(topic, partition) for partition in range(opening.partition_count)]
    first = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    starts = tuple(first[where].offset for where in partitions)
    return replace(opening, start_offsets=starts, opened_ms=instead_of.opened_ms)


def id_of(client: Client, topic: str) -> str:
    """Return the id of the topic that has this name now, "" if brokers tell none. Raises ClientError."""
    told = client.metadata([topic]).topics.get(topic)
    return "" if told is None else told.topic_id


def propose_openings(client: Client, *, batch_id: int, fingerprint: Fingerprint) -> tuple[TopicOpening, ...]:
    """Return every topic of which all partitions have a leader, as these have it now. Raises ClientError."""
    metadata = client.metadata(None)
    found = {topic: _partitions(topic, told) for topic, told in metadata.topics.items()}
    led = {topic: some for topic, some in found.items() if some and all(map(metadata.leader_of, some))}
    return _proposed(client, led, batch_id=batch_id, fingerprint=fingerprint)


def _proposed(
    client: Client,
    partitions: Mapping[str, Sequence[TopicPartition]],
    *,
    batch_id: int,
    fingerprint: Fingerprint,
) -> tuple[TopicOpening, ...]:
    opened_ms = wall_ms()
    told = client.known_metadata().topics
    found = client.list_offsets(dict.fromkeys(chain.from_iterable(partitions.values()), LATEST))
    return tuple(
        TopicOpening(
            topic,
            batch_id,
            opened_ms,
            tuple(found[where].offset for where in some),
            tuple(found[where].leader_epoch for where in some),
            fingerprint,
            told[topic].topic_id,
        )
        for topic, some in partitions.items()
    )


def known_partitions(client: Client, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic, from 0 on; wait a little for brokers that don't know a new topic yet.
    Raises InvalidRows."""
    deadline = client.deadline(client.config.unknown_topic_budget_ms)
    while True:
        told = client.metadata([topic]).topics.get(topic)
        partitions = [] if told is None else _partitions(topic, told)
        if partitions:
            return partitions
        if told is None:
            why = "unknown to the brokers"
        else:
            why = told.error.name if told.error else "not all of its partitions are known"
        if not deadline.pause(f"topic {topic!r}: {why}"):
            raise InvalidRows(f"topic {topic!r} can't be written to: {why}")


def _partitions(topic: str, told: TopicMetadata) -> list[TopicPartition]:
    """Return the partitions, from 0 on; none if the answer has an error or lacks one of them."""
    count = len(told.partitions)
    if told.error is not ErrorCode.NONE or set(told.partitions) != set(range(count)):
        return []
    return [TopicPartition(topic, partition) for partition in range(count)]
