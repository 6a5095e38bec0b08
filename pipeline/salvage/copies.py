"""The copies of what truncations cut off, as brokers list them; pure.

Before a broker cuts its log back to its leader's, it copies what it drops, and lists the copy as a topic of a
directory beside its logs (docs/replication.md, 5.6, reading what was cut):

    <topic>-<partition>.<topic id>.<first offset>-<next offset>.<number>

The name holds only 120 characters of the topic's, so the topic is found by its id. A topic that was deleted
and created again under the same name has another id.
"""

from __future__ import annotations

import base64
import re
import uuid
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from pipeline.client.values import BrokerLogDir, ClusterMetadata, PartitionRange, TopicPartition
from pipeline.errors import LogCutAgain

DIRECTORY = "divergent"
"""The last part of the path under which brokers list copies."""
OFFSET_MAX = 2**63 - 1
TASK_BYTES = 32 * 1024 * 1024
"""Bytes of copies that one task reads: a large copy is split, small copies share a task."""
TASK_COPIES_MAX = 200
_NAME = re.compile(
    r"[a-zA-Z0-9._-]{1,120}-(?P<partition>[0-9]{1,10})\.(?P<id>[a-zA-Z0-9_-]{22})"
    r"\.(?P<first>[0-9]{20})-(?P<next>[0-9]{20})\.(?P<number>[0-9]{1,3})\Z"
)


class CopyName(NamedTuple):
    """A copy's name. `topic_id` is the UUID's text; offsets are `first_offset` up to
    `next_offset`, exclusive; `number` tells copies of one range apart."""

    partition: int
    topic_id: str
    first_offset: int
    next_offset: int
    number: int


class Copy(NamedTuple):
    """One copy on one broker. `high_watermark`: the replica knew records below it to be committed; -1 until
    the broker was asked."""

    broker_id: int
    name: str
    where: TopicPartition
    first_offset: int
    next_offset: int
    size_bytes: int
    high_watermark: int = -1

    def __str__(self) -> str:
        return (
            f"{self.where} offsets {self.first_offset} to {self.next_offset - 1}, cut off on broker "
            f"{self.broker_id} ({self.name})"
        )


class Orphan(NamedTuple):
    """A copy whose topic was deleted."""

    broker_id: int
    name: str
    size_bytes: int


class ListedCopies(NamedTuple):
    """The copies that brokers listed, in order of partition, first offset and broker."""

    copies: tuple[Copy, ...]
    orphans: tuple[Orphan, ...]


class CopyPiece(NamedTuple):
    """Offsets of a copy that one task reads. `copy`: the copy's number. `target`: its partition's number."""

    copy: int
    target: int
    broker_id: int
    name: str
    partition: int
    copy_first: int
    start_offset: int
    end_offset: int
    high_watermark: int


class CutPartition(NamedTuple):
    """A partition whose log was cut. `first_offset`: the lowest offset of any cut; records that were sent
    again stand at or after it."""

    where: TopicPartition
    first_offset: int


def parse_name(name: str) -> CopyName | None:
    """Parse a copy's name; None for a name that no copy has."""
    found = _NAME.match(name)
    if found is None:
        return None
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(found["id"] + "=="))
    first_offset, next_offset = int(found["first"]), int(found["next"])
    partition = int(found["partition"])
    if not first_offset < next_offset <= OFFSET_MAX or partition >= 2**31:
        return None
    return CopyName(partition, str(topic_id), first_offset, next_offset, int(found["number"]))


def listed_copies(
    dirs: Mapping[int, Iterable[BrokerLogDir]],
    metadata: ClusterMetadata,
    *,
    topics: Collection[str] | None = None,
) -> ListedCopies:
    """Return the copies in brokers' log directories (by broker id), of these topics or of all. Orphans are
    listed only for all topics: their topic's name is not known."""
    names = {topic.topic_id: name for name, topic in metadata.topics.items() if topic.topic_id}
    copies: list[Copy] = []
    orphans: list[Orphan] = []
    for broker_id, given in dirs.items():
        for directory in given:
            if directory.path.rpartition("/")[2] != DIRECTORY:
                continue
            for replica in directory.replicas:
                told = parse_name(replica.topic)
                if told is None or told.partition != replica.partition:
                    continue
                topic = names.get(told.topic_id)
                if topic is None:
                    orphans.append(Orphan(broker_id, replica.topic, max(replica.size_bytes, 0)))
                elif topics is None or topic in topics:
                    where = TopicPartition(topic, told.partition)
                    size = max(replica.size_bytes, 0)
                    copies.append(
                        Copy(broker_id, replica.topic, where, told.first_offset, told.next_offset, size)
                    )
    copies.sort(key=lambda copy: (copy.where, copy.first_offset, copy.next_offset, copy.broker_id, copy.name))
    return ListedCopies(tuple(copies), tuple(sorted(orphans)) if topics is None else ())


def topic_ids(copies: Iterable[Copy]) -> dict[str, str]:
    """Return the ids of the topics that the copies are of, by name."""
    told = ((copy.where.topic, parse_name(copy.name)) for copy in copies)
    return {topic: name.topic_id for topic, name in told if name is not None}


def check_topics(ids: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Raise LogCutAgain if a topic that copies are of, by name and id, has another id now. An id that is not
    known is empty."""
    for topic, topic_id in sorted(ids.items()):
        found = now.get(topic, "")
        if found not in ("", topic_id):
            raise LogCutAgain(
                f"topic {topic!r} was deleted and created again since its copies were listed: its id was "
                f"{topic_id}, and is {found}",
                "What was cut off belonged to the old topic. Run it again; a merge that was begun ends with "
                "its topic, so use another --checkpoint.",
            )


def targets_of(copies: Iterable[Copy]) -> tuple[CutPartition, ...]:
    """Return the partitions of the copies, in order."""
    first: dict[TopicPartition, int] = {}
    for copy in copies:
        first[copy.where] = min(first.get(copy.where, OFFSET_MAX), copy.first_offset)
    return tuple(CutPartition(where, first[where]) for where in sorted(first))


def copy_tasks(
    copies: Iterable[Copy], targets: Iterable[CutPartition], *, task_bytes: int = TASK_BYTES
) -> list[list[CopyPiece]]:
    """Return the pieces that each task reads: together every offset of every copy, once."""
    place = {target.where: number for number, target in enumerate(targets)}
    tasks: list[list[CopyPiece]] = []
    room = 0
    for number, copy in enumerate(copies):
        length = copy.next_offset - copy.first_offset
        parts = min(max(1, -(-copy.size_bytes // task_bytes)), length)
        cuts = [copy.first_offset + length * part // parts for part in range(parts + 1)]
        for start, end in pairwise(cuts):
            share = copy.size_bytes // parts
            if not tasks or share > room or len(tasks[-1]) >= TASK_COPIES_MAX:
                tasks.append([])
                room = task_bytes
            room -= share
            tasks[-1].append(
                CopyPiece(
                    number,
                    place[copy.where],
                    copy.broker_id,
                    copy.name,
                    copy.where.partition,
                    copy.first_offset,
                    start,
                    end,
                    copy.high_watermark,
                )
            )
    return tasks


def live_range(target: CutPartition, *, log_start_offset: int, end_offset: int) -> PartitionRange | None:
    """Return where in the log to look for what was cut; None if nothing is there."""
    start = max(target.first_offset, log_start_offset)
    return PartitionRange(*target.where, start, end_offset) if start < end_offset else None
