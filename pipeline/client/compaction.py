"""What brokers tell of compaction: which topics are compacted, and which rounds a replica has applied."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.client.client import Client
from pipeline.client.errors import ClientError, ConnectionLost
from pipeline.client.messages import fetch_request, parse_fetched
from pipeline.client.pool import ConnectionPool, shared_pool
from pipeline.client.values import BrokerAddress, TopicPartition
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fetch_request import DEBUGGING_CONSUMER_ID, FetchPartition
from springtide.wire.fetch_response import AppliedRound

TOPIC_RESOURCE = 2
"""A topic among DescribeConfigs' kinds of resources (KIP-133)."""
CLEANUP_POLICY = "cleanup.policy"


def compacted_topics(topics: Sequence[str], client: Client) -> frozenset[str] | None:
    """Return the compacted topics, whose logs have holes by intention; None if no broker tells."""
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
        by_topic = {
            one.resource_name: {config.name: config.value or "" for config in one.configs}
            for one in message.results
            if error_code(int(one.error_code)) is ErrorCode.NONE
        }
        if by_topic.keys() >= set(topics):
            return frozenset(
                name for name, policy in by_topic.items() if "compact" in policy.get(CLEANUP_POLICY, "")
            )
    return None


def applied_round(
    broker: BrokerAddress | None,
    where: TopicPartition,
    client: Client,
    *,
    offset: int,
    pool: ConnectionPool | None = None,
) -> AppliedRound | None:
    """Return the round that the broker's replica has applied. None: it tells of none, or can't be asked, or
    its log lacks the offset."""
    pool = pool or shared_pool()
    if broker is None:
        return None
    request = fetch_request(
        [FetchPartition(*where, fetch_offset=offset, max_bytes=1)],
        max_wait_ms=0,
        max_bytes=1,
        isolation_level=0,
        replica_id=DEBUGGING_CONSUMER_ID,
    )
    try:
        with pool.lease((broker.host, broker.port), client.config) as connection:
            connection.send(ApiKey.FETCH, request)
            frame, position = connection.receive()
            answered = parse_fetched(frame, position).partitions
    except ClientError:
        return None
    return next((one.applied_round for one in answered if TopicPartition.of(one) == where), None)
