"""The requests that this client sends and the answers that it understands. Pure: values to bytes, bytes to
values.

One version of each API is spoken: the highest that names topics and that every Kafka from 3.0 on, Kafka 4
(KIP-896) and our own brokers have. A broker's ApiVersions are checked against that once a connection. Only
Fetch and Produce have a second one: where the caller says which topic it means by its id, and the broker can
(Kafka 3.1 and 4.0), topics have ids instead of names (KIP-516).

An answer must be about what was asked: each parser gives a value for every partition asked for, or raises
MalformedAnswer. So a broker that leaves one out can't make a caller wait for it forever.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from pipeline.client.errors import MalformedAnswer, UnsupportedBroker
from pipeline.client.values import (
    ActiveProducer,
    BrokerAddress,
    ClusterMetadata,
    FoundOffset,
    PartitionMetadata,
    ProduceResult,
    TopicMetadata,
    TopicPartition,
)
from springtide.wire.apis import ApiKey
from springtide.wire.client import API_VERSIONS_VERSION, request_body, speaks
from springtide.wire.codec import decode, response_type
from springtide.wire.compression import Buffer
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fetch_request import (
    CONSUMER_ID,
    FetchPartition,
    FetchRequest,
    Topic,
    encode_fetch_request,
)
from springtide.wire.fetch_response import EpochEnd, FetchResponse, decode_fetch_response
from springtide.wire.primitives import RESPONSE_ELEMENTS_MAX, MalformedRequest
from springtide.wire.produce import decode_produce_response, encode_produce_request
from springtide.wire.questions import by_topic, list_offsets, listed_offsets

T = TypeVar("T")

SPOKEN: dict[ApiKey, int] = {
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.SASL_HANDSHAKE: 1,
    ApiKey.API_VERSIONS: API_VERSIONS_VERSION,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
    ApiKey.SASL_AUTHENTICATE: 2,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 4,  # from Kafka 3.3 on: the first that says how much is free
}

FETCH_BY_ID = 13
"""The version of Fetch that has topic ids in the place of names, and is else the one in SPOKEN."""
PRODUCE_BY_ID = 13
"""The version of Produce that has topic ids in the place of names."""


class Answered(NamedTuple):
    """One partition of an answer. `value` means something only if `error` is NONE."""

    error: ErrorCode
    value: Any
    message: str | None = None


def encode_body(api: ApiKey, fields: Mapping[str, object]) -> bytes:
    """Return the body of a request in the version spoken. Fields are not checked."""
    return request_body(api, SPOKEN[api], fields)


def decode_body(api: ApiKey, frame: Buffer, position: int) -> Any:
    """Return an answer. Raises MalformedAnswer, nothing else."""
    try:
        message_type = response_type(api, SPOKEN[api])
        return decode(message_type, frame, position, elements_max=RESPONSE_ELEMENTS_MAX)
    except MalformedRequest as error:
        raise MalformedAnswer(f"{api.name}: {error}") from error


def check_spoken(api: ApiKey, versions: Mapping[int, tuple[int, int]], where: str) -> None:
    """Raise UnsupportedBroker if the broker doesn't speak our version of the API."""
    wanted = SPOKEN[api]
    if not speaks(versions, api, wanted):
        lowest, highest = versions.get(api, (0, -1))
        told = f"only versions {lowest} to {highest}" if highest >= 0 else "none"
        raise UnsupportedBroker(f"broker {where}: {api.name} version {wanted} is needed, it speaks {told}")


# --- Metadata --------------------------------------------------------------------------------------


def metadata_request(topics: Iterable[str] | None) -> dict[str, object]:
    """Return the request for these topics; None asks for all. It creates no topic."""
    asked = None if topics is None else tuple({"name": name, "topic_id": None} for name in topics)
    return {"topics": asked, "allow_auto_topic_creation": False}


def parse_metadata(message: Any) -> ClusterMetadata:
    """Return the metadata. Topics without a name (asked by id) are left out: this client asks by name."""
    brokers = {
        broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in message.brokers
    }
    topics = {
        topic.name: TopicMetadata(
            error_code(int(topic.error_code)),
            str(topic.topic_id) if topic.topic_id is not None else "",
            {
                one.partition_index: PartitionMetadata(
                    one.leader_id, one.leader_epoch, tuple(one.replica_nodes), tuple(one.isr_nodes)
                )
                for one in topic.partitions
            },
            topic.is_internal,
        )
        for topic in message.topics
        if topic.name is not None
    }
    return ClusterMetadata(message.cluster_id, brokers, topics)


# --- by partition ----------------------------------------------------------------------------------


def list_offsets_request(asked: Mapping[TopicPartition, int], *, isolation_level: int) -> dict[str, object]:
    """Return the request; `asked` holds a timestamp, EARLIEST or LATEST by partition."""
    return list_offsets(asked, isolation_level=isolation_level)


def parse_list_offsets(message: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Answered]:
    found = {
        TopicPartition(*place): Answered(one.error, FoundOffset(one.offset, one.timestamp, one.leader_epoch))
        for place, one in listed_offsets(message).items()
    }
    return _exactly(found, asked, "ListOffsets")


def epoch_end_request(asked: Mapping[TopicPartition, int]) -> dict[str, object]:
    """Return the request; `asked` holds a leader epoch by partition."""
    rows = {where: {"current_leader_epoch": -1, "leader_epoch": epoch} for where, epoch in asked.items()}
    return {"replica_id": CONSUMER_ID, "topics": by_topic(rows, topic="topic", partition="partition")}


def parse_epoch_ends(message: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Answered]:
    found = {
        TopicPartition(topic.topic, one.partition): Answered(
            error_code(int(one.error_code)), EpochEnd(one.leader_epoch, one.end_offset)
        )
        for topic in message.topics
        for one in topic.partitions
    }
    return _exactly(found, asked, "OffsetForLeaderEpoch")


def describe_producers_request(asked: Iterable[TopicPartition]) -> dict[str, object]:
    by_topic: dict[str, list[int]] = {}
    for where in asked:
        by_topic.setdefault(where.topic, []).append(where.partition)
    return {
        "topics": tuple(
            {"name": topic, "partition_indexes": tuple(indexes)} for topic, indexes in by_topic.items()
        )
    }


def parse_producers(message: Any, asked: Iterable[TopicPartition]) -> dict[TopicPartition, Answered]:
    found = {
        TopicPartition(topic.name, one.partition_index): Answered(
            error_code(int(one.error_code)),
            tuple(
                ActiveProducer(
                    producer.producer_id,
                    producer.producer_epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.current_txn_start_offset,
                )
                for producer in one.active_producers
            ),
            one.error_message,
        )
        for topic in message.topics
        for one in topic.partitions
    }
    return _exactly(found, asked, "DescribeProducers")


# --- records ---------------------------------------------------------------------------------------


def produce_request(
    batches: Mapping[TopicPartition, Buffer],
    *,
    acks: int,
    timeout_ms: int,
    ids: Mapping[str, bytes] | None = None,
) -> list[Buffer]:
    """Return the request's body in pieces; the batches are not copied. With `ids` of the topics, by name, it
    is of version PRODUCE_BY_ID."""
    if ids is None:
        return encode_produce_request(
            SPOKEN[ApiKey.PRODUCE], batches.items(), acks=acks, timeout_ms=timeout_ms
        )
    by_id = (((ids[where.topic], where.partition), batch) for where, batch in batches.items())
    return encode_produce_request(PRODUCE_BY_ID, by_id, acks=acks, timeout_ms=timeout_ms)


def parse_produced(
    frame: Buffer,
    position: int,
    asked: Iterable[TopicPartition],
    *,
    ids: Mapping[str, bytes] | None = None,
) -> dict[TopicPartition, ProduceResult]:
    """Return the results by name; `ids`: those that the request had."""
    version = SPOKEN[ApiKey.PRODUCE] if ids is None else PRODUCE_BY_ID
    names: dict[Topic, str] = {one: name for name, one in (ids or {}).items()}
    try:
        outcomes = decode_produce_response(version, frame, position)
    except MalformedRequest as error:
        raise MalformedAnswer(f"PRODUCE: {error}") from error
    found = {
        TopicPartition(names.get(one.topic, str(one.topic)), one.partition): ProduceResult(
            error_code(one.error_code),
            one.base_offset,
            one.log_append_time_ms,
            one.log_start_offset,
            one.error_message,
        )
        for one in outcomes
    }
    return _exactly(found, asked, "Produce")


def fetch_request(
    wanted: Sequence[FetchPartition],
    *,
    max_wait_ms: int,
    max_bytes: int,
    isolation_level: int,
    rack: str = "",
    replica_id: int = CONSUMER_ID,
    version: int = SPOKEN[ApiKey.FETCH],
) -> list[Buffer]:
    """Return the body of a request without a session."""
    request = FetchRequest(
        replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        partitions=wanted,
        rack_id=rack,
    )
    return [encode_fetch_request(version, request)]


def parse_fetched(frame: Buffer, position: int, *, version: int = SPOKEN[ApiKey.FETCH]) -> FetchResponse:
    """Return the answer, records as views of `frame`. Raise MalformedAnswer, nothing else."""
    try:
        return decode_fetch_response(version, frame, position)
    except MalformedRequest as error:
        raise MalformedAnswer(f"FETCH: {error}") from error


def _exactly(
    found: Mapping[TopicPartition, T], asked: Iterable[TopicPartition], api: str
) -> dict[TopicPartition, T]:
    """Return the partitions that were asked for and no others. Raises MalformedAnswer if the answer lacks
    one."""
    wanted: Sequence[TopicPartition] = list(asked)
    missing = [where for where in wanted if where not in found]
    if missing:
        raise MalformedAnswer(f"{api}: the answer says nothing of {missing[0]}")
    return {where: found[where] for where in wanted}
