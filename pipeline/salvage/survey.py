"""Asks all brokers for their copies, has them check the copies, and asks where the logs begin and end now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from pipeline.client.client import Client, describe_log_dirs
from pipeline.client.compaction import applied_round
from pipeline.client.errors import ConnectionLost
from pipeline.client.values import EARLIEST, LATEST, BrokerLogDir, TopicPartition
from pipeline.errors import CopyUnreadable
from pipeline.salvage.copies import DIRECTORY, Copy, CutPartition, Orphan, listed_copies, targets_of
from pipeline.salvage.reading import CopyReader
from springtide.cli.call import UsageError
from springtide.wire.errors import ErrorCode


class LogBounds(NamedTuple):
    """A partition's committed log as its leader has it: offsets [start_offset, end_offset).
    `tombstone_floor`: below it tombstones are compacted away."""

    leader_epoch: int
    start_offset: int
    end_offset: int
    tombstone_floor: int = 0


class CopySurvey(NamedTuple):
    """The copies that brokers hold. `unasked`: why some brokers (by id) did not tell all of theirs.
    `unreadable`: copies that can't be compared, and why. `logs`: the log of each target."""

    copies: tuple[Copy, ...]
    targets: tuple[CutPartition, ...]
    logs: Mapping[TopicPartition, LogBounds]
    orphans: tuple[Orphan, ...] = ()
    unasked: Mapping[int, str] = {}
    unreadable: tuple[tuple[Copy, str], ...] = ()


def survey(
    client: Client,
    reader: CopyReader,
    *,
    topics: Collection[str] | None,
    progress: Callable[[int, int, str], None],
) -> CopySurvey:
    """Survey these topics, or all. Raises UsageError for an unknown topic, ClientError."""
    metadata = client.metadata(None)
    missing = sorted(topic for topic in topics or () if topic not in metadata.topics)
    if missing:
        raise UsageError(f"there is no topic {', '.join(missing)}")
    unasked: dict[int, str] = {}
    dirs: dict[int, list[BrokerLogDir]] = {}
    for broker_id, broker in sorted(metadata.brokers.items()):
        try:
            dirs[broker_id] = describe_log_dirs((broker.host, broker.port), client.config)
        except ConnectionLost as error:
            unasked[broker_id] = str(error)
            continue
        for one in dirs[broker_id]:
            if one.error is not ErrorCode.NONE and one.path.rpartition("/")[2] == DIRECTORY:
                unasked[broker_id] = f"it can't list {one.path}: {one.error.name}"
    for name, topic in metadata.topics.items():
        if topics is None or name in topics:
            for place in topic.partitions.values():
                for broker_id in place.replicas:
                    if broker_id not in metadata.brokers:
                        unasked.setdefault(broker_id, "it is not alive")
    listed = listed_copies(dirs, metadata, topics=topics)
    copies: list[Copy] = []
    unreadable: list[tuple[Copy, str]] = []
    for number, copy in enumerate(listed.copies):
        progress(number, len(listed.copies), "brokers check their copies")
        try:
            high_watermark = reader.high_watermark(
                copy.broker_id, copy.name, copy.where.partition, first_offset=copy.first_offset
            )
        except CopyUnreadable as error:
            unreadable.append((copy, str(error)))
            continue
        copies.append(copy._replace(high_watermark=high_watermark))
    targets = targets_of(copies)
    return CopySurvey(
        tuple(copies),
        targets,
        log_bounds(client, [target.where for target in targets]),
        listed.orphans,
        dict(sorted(unasked.items())),
        tuple(unreadable),
    )


def log_bounds(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Return where the partitions' logs begin and end. Raises ClientError."""
    if not partitions:
        return {}
    starts = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
    return {
        where: LogBounds(
            ends[where].leader_epoch,
            starts[where].offset,
            ends[where].offset,
            _tombstone_floor(client, where, starts[where].offset),
        )
        for where in partitions
    }


def ids_now(client: Client, topics: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that have these names now, "" where it is not known. Raises
    ClientError."""
    return {name: topic.topic_id for name, topic in client.metadata(sorted(topics)).topics.items()}


def _tombstone_floor(client: Client, where: TopicPartition, start_offset: int) -> int:
    told = applied_round(client.known_metadata().leader_of(where), where, client, offset=start_offset)
    return 0 if told is None else told.tombstone_floor
