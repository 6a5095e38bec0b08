"""How many bytes a job's tasks are to read, as brokers tell it."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.client.client import Client, describe_log_dirs
from pipeline.client.errors import ClientError
from pipeline.client.values import EARLIEST, LATEST, BrokerAddress, PartitionRange, TopicPartition


def log_bytes(client: Client, ranges: Iterable[PartitionRange]) -> int | None:
    """Return about how many bytes the leaders hold of these ranges: of each log the share of its offsets.
    None if a broker does not tell."""
    asked = list(ranges)
    places = {one.where for one in asked}
    if not places:
        return 0
    try:
        starts = client.list_offsets(dict.fromkeys(places, EARLIEST))
        ends = client.list_offsets(dict.fromkeys(places, LATEST))
        sizes = _log_sizes(client, places)
    except ClientError:
        return None
    if not places <= sizes.keys():
        return None
    total = 0
    for one in asked:
        offsets = max(1, ends[one.where].offset - starts[one.where].offset)
        total += sizes[one.where] * (one.end_offset - one.start_offset) // offsets
    return total


def _log_sizes(client: Client, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the sizes of the leaders' logs; those that no leader told are left out. Raises ClientError."""
    metadata = client.known_metadata()
    by_leader: dict[BrokerAddress, set[TopicPartition]] = {}
    for where in places:
        leader = metadata.leader_of(where)
        if leader is not None:
            by_leader.setdefault(leader, set()).add(where)
    sizes: dict[TopicPartition, int] = {}
    for leader, led in by_leader.items():
        for directory in describe_log_dirs((leader.host, leader.port), client.config):
            for replica in directory.replicas:
                where = TopicPartition(replica.topic, replica.partition)
                if where in led:
                    sizes[where] = replica.size_bytes
    return sizes
