"""How a topic was before a micro-batch wrote to it: one small JSON document that all its tasks agree on.

Whoever needs it first proposes it, and the first proposal stays (state.py). No task writes before it has read
one, so its offsets lie at or before everything that the micro-batch stores; its partition count is the one
that keys are spread over in every attempt, however the topic grows; its fingerprint is the one that every
attempt must have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.sink.delivery import PartitionOpening
from pipeline.sink.errors import SinkStateError
from pipeline.sink.fingerprint import Fingerprint

VERSION = 1
PARTITIONS_MAX = 1_000_000
BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TopicOpening:
    """`start_offsets` and `leader_epochs` by partition, from 0 on; `opened_ms` by the proposer's clock."""

    topic: str
    batch_id: int
    opened_ms: int
    start_offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    fingerprint: Fingerprint

    @property
    def partition_count(self) -> int:
        return len(self.start_offsets)

    def partition(self, index: int) -> PartitionOpening:
        return PartitionOpening(self.start_offsets[index], self.leader_epochs[index], self.opened_ms)

    def check(self, fingerprint: Fingerprint) -> None:
        """Raises SinkStateError, naming what differs, if an attempt of another kind opened this."""
        if self.fingerprint != fingerprint:
            changed = "; ".join(fingerprint.differences(self.fingerprint))
            raise SinkStateError(
                f"micro-batch {self.batch_id} was begun in another way and can't be resumed in this one; "
                f"changed: {changed}. Let it end as it was begun, then change"
            )


def encode_opening(opening: TopicOpening) -> bytes:
    return json.dumps(
        {
            "version": VERSION,
            "topic": opening.topic,
            "batchId": opening.batch_id,
            "openedMs": opening.opened_ms,
            "startOffsets": opening.start_offsets,
            "leaderEpochs": opening.leader_epochs,
            "fingerprint": dict(opening.fingerprint.parts),
            "digest": opening.fingerprint.digest,
        },
        separators=(",", ":"),
    ).encode()


def decode_opening(encoded: bytes, *, topic: str, batch_id: int) -> TopicOpening:
    """What `encode_opening` wrote for this topic and micro-batch. Raises SinkStateError."""
    try:
        document = json.loads(encoded)
        opening = _opening(document)
        digest = document["digest"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SinkStateError(f"no opening of {topic}, micro-batch {batch_id}: {error!r}") from error
    if (opening.topic, opening.batch_id) != (topic, batch_id):
        raise SinkStateError(f"the opening of {topic}, micro-batch {batch_id}, is another one's")
    if opening.fingerprint.digest != digest:
        raise SinkStateError(
            f"{topic}, micro-batch {batch_id}: begun by a version of this sink that places rows differently"
        )
    return opening


def _opening(document: Mapping[str, Any]) -> TopicOpening:
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']!r}")
    start_offsets = _numbers(document["startOffsets"], at_least=0)
    leader_epochs = _numbers(document["leaderEpochs"], at_least=-1)
    parts = document["fingerprint"]
    if not 0 < len(start_offsets) == len(leader_epochs) <= PARTITIONS_MAX:
        raise ValueError("as many leader epochs as start offsets are needed, and at least one")
    if not isinstance(parts, dict) or not all(isinstance(value, str) for value in parts.values()):
        raise ValueError("the fingerprint is no object of strings")
    opened_ms, batch_id = _numbers([document["openedMs"], document["batchId"]], at_least=0)
    return TopicOpening(
        str(document["topic"]),
        batch_id,
        opened_ms,
        start_offsets,
        leader_epochs,
        Fingerprint(tuple(sorted(parts.items()))),
    )


def _numbers(values: Any, *, at_least: int) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(
        isinstance(value, int) and not isinstance(value, bool) and at_least <= value < 2**63
        for value in values
    ):
        raise ValueError("a whole number is not in its place")
    return tuple(values)
