"""A topic as it was before a micro-batch wrote to it: one small JSON document that all tasks agree on.

The first task that needs it proposes it, and the first proposal stays (state.py). No task writes before it
has read it, so its offsets lie at or before everything that the micro-batch stores. Keys are spread over its
partition count in every attempt, also if the topic grows, and every attempt must have its fingerprint.

It has the topic's id. If the topic is deleted and created again while the micro-batch is written, what was
stored is gone with the old one, and the micro-batch is opened once more, from the new one's first record on:
so it is stored there whole, each row once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from pipeline.errors import DeliveryFailed, SinkStateError
from pipeline.sink.delivery import PartitionOpening
from pipeline.stored import Epoch, Int64, check_version, encode_fields

VERSION = 1
FINGERPRINT_FORMAT = 2
"""Raised when this program places or cuts rows in another way."""
PARTITIONS_MAX = 1_000_000
BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that must not change between two attempts of one micro-batch; `parts`: names and values, in
    the order of names.

    An attempt compares its rows with what is stored in their partitions. So the fingerprint has everything
    that decides which rows a task gets, where they go and how they are cut; not what only changes bytes on
    the way (addresses, compression).
    """

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        encoded = json.dumps([FINGERPRINT_FORMAT, self.parts], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(encoded.encode()).hexdigest()[:32]

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """Return `name: theirs -> ours` of each part that differs; `other` is theirs."""
        ours, theirs = dict(self.parts), dict(other.parts)
        return tuple(
            f"{name}: {theirs.get(name, 'absent')} -> {ours.get(name, 'absent')}"
            for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)
        )


def fingerprint_of(parts: Mapping[str, str]) -> Fingerprint:
    """Return the fingerprint of named values."""
    return Fingerprint(tuple(sorted(parts.items())))


WHAT_IS_GONE = (
    "What was stored in the old topic is gone with it. Run again, a micro-batch of a stream is written whole "
    "to the new topic; a job begins anew"
)


def made_again(topic: str, opened: str, now: str) -> DeliveryFailed:
    """Return the error about a topic that is not the one that was opened."""
    return DeliveryFailed(
        f"topic {topic!r} was deleted and created again while it was written to: its id was {opened}, and is "
        f"{now}",
        WHAT_IS_GONE,
    )


@dataclass(frozen=True, slots=True)
class TopicOpening:
    """`start_offsets` and `leader_epochs` by partition, from 0 on; `opened_ms` by the proposer's clock."""

    topic: str
    batch_id: int
    opened_ms: int
    start_offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    fingerprint: Fingerprint
    topic_id: str = ""
    """The UUID's text; "" if brokers, or the release that opened the topic, told none."""

    def is_of_another(self, topic_id: str) -> bool:
        """Return whether the topic with this id is not the one that was opened."""
        return bool(self.topic_id and topic_id) and self.topic_id != topic_id

    def check_topic(self, topic_id: str) -> None:
        """Raise DeliveryFailed if the topic that has the name now, with this id, is not the one that was
        opened."""
        if self.is_of_another(topic_id):
            raise made_again(self.topic, self.topic_id, topic_id)

    @property
    def partition_count(self) -> int:
        return len(self.start_offsets)

    def partition(self, index: int) -> PartitionOpening:
        return PartitionOpening(self.start_offsets[index], self.leader_epochs[index], self.opened_ms)

    def check(self, fingerprint: Fingerprint) -> None:
        """Raise SinkStateError, which names the differences, if the attempt that opened this had another
        fingerprint."""
        if self.fingerprint != fingerprint:
            changed = "; ".join(fingerprint.differences(self.fingerprint))
            raise SinkStateError(
                f"micro-batch {self.batch_id} was begun in another way and can't be resumed in this one; "
                f"changed: {changed}. Let it end as it was begun, then change"
            )


class _OpeningDocument(msgspec.Struct, rename="camel"):
    topic: str
    batch_id: Int64
    opened_ms: Int64
    start_offsets: Annotated[tuple[Int64, ...], msgspec.Meta(min_length=1, max_length=PARTITIONS_MAX)]
    leader_epochs: tuple[Epoch, ...]
    fingerprint: dict[str, str]
    digest: str
    topic_id: str = ""


def encode_opening(opening: TopicOpening) -> bytes:
    document = _OpeningDocument(
        opening.topic,
        opening.batch_id,
        opening.opened_ms,
        opening.start_offsets,
        opening.leader_epochs,
        dict(opening.fingerprint.parts),
        opening.fingerprint.digest,
        opening.topic_id,
    )
    return encode_fields(document, version=VERSION)


def decode_opening(encoded: bytes, *, topic: str, batch_id: int) -> TopicOpening:
    """Return what `encode_opening` encoded for this topic and micro-batch. Raises SinkStateError."""
    try:
        check_version(encoded, VERSION)
        found = msgspec.json.decode(encoded, type=_OpeningDocument)
        if len(found.start_offsets) != len(found.leader_epochs):
            raise ValueError("it needs as many leader epochs as start offsets")
    except (ValueError, RecursionError) as error:
        raise SinkStateError(f"no opening of {topic}, micro-batch {batch_id}: {error!r}") from error
    if (found.topic, found.batch_id) != (topic, batch_id):
        raise SinkStateError(f"the opening of {topic}, micro-batch {batch_id}, is another one's")
    fingerprint = fingerprint_of(found.fingerprint)
    if fingerprint.digest != found.digest:
        raise SinkStateError(
            f"{topic}, micro-batch {batch_id}: begun by a version of this sink that places rows differently"
        )
    return TopicOpening(
        topic,
        batch_id,
        found.opened_ms,
        found.start_offsets,
        found.leader_epochs,
        fingerprint,
        found.topic_id,
    )
