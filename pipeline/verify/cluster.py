"""A verification's questions to a cluster: what there is to verify, where it ends, which topics compact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pipeline.client.client import Client
from pipeline.client.errors import ClientError, ConnectionLost
from pipeline.client.pool import shared_pool
from pipeline.client.values import ClusterMetadata, TopicPartition
from pipeline.source.cluster import SourceCluster
from pipeline.source.options import SourceOptions
from pipeline.source.positions import Edge
from pipeline.verify.findings import EVERY_REPLICA, Finding, Kind
from pipeline.verify.planning import Bounds, bounds_of
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code

TOPIC_RESOURCE = 2
"""A topic among DescribeConfigs' kinds of resources (KIP-133)."""
CLEANUP_POLICY = "cleanup.policy"


class Target(NamedTuple):
    """What is to be verified. `leaderless`: partitions that nobody can say anything of."""

    metadata: ClusterMetadata
    bounds: dict[TopicPartition, Bounds]
    leaderless: tuple[TopicPartition, ...]


def find_target(options: SourceOptions, client: Client) -> Target:
    """The subscribed partitions between the wanted positions, as far as the log has them. The ends are high
    watermarks: all below is committed. Raises InvalidOption, and the client's errors."""
    source = SourceCluster(options, client)
    partitions = source.partitions(must_exist=True)
    metadata = client.known_metadata()
    led = [where for where in partitions if metadata.leader_of(where) is not None]
    leaderless = tuple(where for where in partitions if where not in set(led))
    earliest = {where: one.offset for where, one in source.ends(led, Edge.EARLIEST).items()}
    latest = {where: one.offset for where, one in source.ends(led, Edge.LATEST).items()}
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
    return Target(client.known_metadata(), bounds, leaderless)


def unverified(target: Target) -> list[Finding]:
    """That partitions could not be looked at is something to be told of, too."""
    return [
        Finding(
            kind=Kind.UNREADABLE_REPLICA,
            topic=where.topic,
            partition=where.partition,
            broker_id=EVERY_REPLICA,
            first_offset=0,
            last_offset=0,
            batches=0,
            detail="nobody leads the partition: what is committed is not known",
        )
        for where in target.leaderless
    ]


def compacted_topics(topics: Sequence[str], client: Client) -> frozenset[str] | None:
    """Those whose logs have holes by intention. None: no broker would tell."""
    fields = {
        "resources": [
            {
                "resource_type": TOPIC_RESOURCE,
                "resource_name": topic,
                "configuration_keys": (CLEANUP_POLICY,),
            }
            for topic in topics
        ],
        "include_synonyms": False,
        "include_documentation": False,
    }
    for broker in client.known_metadata().brokers.values():
        try:
            with shared_pool().lease((broker.host, broker.port), client.config) as connection:
                message = connection.call(ApiKey.DESCRIBE_CONFIGS, fields)
        except ConnectionLost:
            continue
        except ClientError:
            return None
        policies = {
            one.resource_name: _policy(one)
            for one in message.results
            if error_code(int(one.error_code)) is ErrorCode.NONE
        }
        if policies.keys() >= set(topics):
            return frozenset(name for name, policy in policies.items() if "compact" in policy)
    return None


def _policy(result: object) -> str:
    configs = getattr(result, "configs", ())
    return next((one.value or "" for one in configs if one.name == CLEANUP_POLICY), "")


def changed_topics(before: ClusterMetadata, now: ClusterMetadata) -> frozenset[str]:
    """Topics that are not what they were: deleted, or made again under the same name."""
    ids: Mapping[str, str] = {name: topic.topic_id for name, topic in now.topics.items()}
    return frozenset(
        name
        for name, topic in before.topics.items()
        if topic.topic_id and ids.get(name, topic.topic_id) != topic.topic_id
    )
