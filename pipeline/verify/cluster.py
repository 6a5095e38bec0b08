"""A verification's questions to a cluster: which partitions, and up to where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.client.client import Client
from pipeline.client.values import ClusterMetadata, TopicPartition
from pipeline.source.cluster import SourceCluster
from pipeline.source.options import SourceOptions
from pipeline.source.positions import LogEnd
from pipeline.verify.findings import Finding, Flaw, finding_of
from pipeline.verify.planning import Bounds, bounds_of


class VerifyTarget(NamedTuple):
    """The partitions to verify. `leaderless`: partitions without a leader, which can't be verified."""

    metadata: ClusterMetadata
    bounds: dict[TopicPartition, Bounds]
    leaderless: tuple[TopicPartition, ...]


def find_target(options: SourceOptions, client: Client) -> VerifyTarget:
    """Return the subscribed partitions between the wanted positions, as far as the log has them. The ends are
    high watermarks: everything below is committed. Raises InvalidOption, and the client's errors."""
    source = SourceCluster(options, client)
    partitions = source.partitions(must_exist=True)
    metadata = client.known_metadata()
    led = [where for where in partitions if metadata.leader_of(where) is not None]
    leaderless = tuple(where for where in partitions if where not in set(led))
    earliest = {where: one.offset for where, one in source.ends(led, LogEnd.EARLIEST).items()}
    latest = {where: one.offset for where, one in source.ends(led, LogEnd.LATEST).items()}
    starts = source.resolve(options.starting, led, latest=latest)
    ends = source.resolve(options.ending, led, latest=latest)
    bounds = {
        where: bounds_of(
            earliest=earliest[where],
            latest=latest[where],
            wanted_start=starts[where],
            wanted_end=ends[where],
        )
        for where in led
    }
    return VerifyTarget(client.known_metadata(), bounds, leaderless)


def unverified(target: VerifyTarget) -> list[Finding]:
    """Return a finding for each partition that can't be verified."""
    detail = "the partition has no leader: what is committed is not known"
    return [finding_of(where, Flaw.UNREADABLE_REPLICA, 0, 0, detail) for where in target.leaderless]


def changed_topics(before: ClusterMetadata, now: ClusterMetadata) -> frozenset[str]:
    """Return the topics that were deleted and created anew."""
    ids: Mapping[str, str] = {name: topic.topic_id for name, topic in now.topics.items()}
    return frozenset(
        name
        for name, topic in before.topics.items()
        if topic.topic_id and ids.get(name, topic.topic_id) != topic.topic_id
    )
