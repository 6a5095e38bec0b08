"""Asks all brokers what they have cut off, has them check it, and asks where the logs are now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from pipeline.client.broker_questions import LogDir, describe_log_dirs
from pipeline.client.client import Client
from pipeline.client.errors import ConnectionLost
from pipeline.client.values import EARLIEST, LATEST, TopicPartition
from pipeline.salvage.copies import DIRECTORY, Copy, Orphan, Target, listed_copies, targets_of
from pipeline.salvage.errors import CopyUnreadable
from pipeline.salvage.reading import CopyReader
from springtide.wire.errors import ErrorCode


class LogBounds(NamedTuple):
    """A partition's log as its leader has it: offsets [start_offset, end_offset), committed all of them."""

    leader_epoch: int
    start_offset: int
    end_offset: int


class Survey(NamedTuple):
    """What there is. `unasked`: why brokers (by id) could not tell what they have. `unreadable`: copies that
    can't be compared, and why. `logs` has each target's."""

    copies: tuple[Copy, ...]
    targets: tuple[Target, ...]
    logs: Mapping[TopicPartition, LogBounds]
    orphans: tuple[Orphan, ...] = ()
    unasked: Mapping[int, str] = {}
    unreadable: tuple[tuple[Copy, str], ...] = ()


class UnknownTopics(Exception):
    """Topics were named that the cluster does not have."""


def survey(
    client: Client,
    reader: CopyReader,
    *,
    topics: Collection[str] | None,
    progress: Callable[[int, int, str], None],
) -> Survey:
    """Of these topics or of all. Raises UnknownTopics, ClientError."""
    metadata = client.metadata(None)
    missing = sorted(topic for topic in topics or () if topic not in metadata.topics)
    if missing:
        raise UnknownTopics(f"there is no topic {', '.join(missing)}")
    unasked: dict[int, str] = {}
    dirs: dict[int, list[LogDir]] = {}
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
    return Survey(
        tuple(copies),
        targets,
        log_bounds(client, [target.where for target in targets]),
        listed.orphans,
        dict(sorted(unasked.items())),
        tuple(unreadable),
    )


def log_bounds(client: Client, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LogBounds]:
    """Raises ClientError."""
    if not partitions:
        return {}
    starts = client.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = client.list_offsets(dict.fromkeys(partitions, LATEST))
    return {
        where: LogBounds(ends[where].leader_epoch, starts[where].offset, ends[where].offset)
        for where in partitions
    }
