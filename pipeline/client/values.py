"""The client's results: plain values that pickle. -1 in a number: unknown, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition
from springtide.wire.fetch_response import AbortedTransaction, FetchedPartition

NO_LEADER = -1
EARLIEST = -2
"""The timestamp that asks ListOffsets for the log's first offset; also Kafka's mark in offset JSON."""
LATEST = -1
"""The timestamp that asks for the high watermark; also Kafka's mark in offset JSON."""


UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""The errors of a topic or partition that the cluster does not know."""


def ids_on_the_wire(ids: Mapping[str, str]) -> dict[str, bytes] | None:
    """Return topics' ids as requests have them, by name; None unless each topic has one."""
    return {name: UUID(one).bytes for name, one in ids.items()} if all(ids.values()) else None


class TopicPartition(NamedTuple):
    """One partition by name. Orders by topic, then number."""

    topic: str
    partition: int

    @classmethod
    def of(cls, part: FetchPartition | FetchedPartition) -> Self:
        """Return the partition that one part of a Fetch request or answer is about."""
        assert isinstance(part.topic, str), "this client's version of Fetch names topics"
        return cls(part.topic, part.partition)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class BrokerAddress(NamedTuple):
    """A broker's address as clients reach it."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """One partition's place. `leader_id` is NO_LEADER while there is none."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`error` is NONE, or why nothing is known of the topic. `topic_id`: its UUID's text, or "".
    is_internal: coordinators keep their own records in it, as in __consumer_offsets."""

    error: ErrorCode = ErrorCode.NONE
    topic_id: str = ""
    partitions: Mapping[int, PartitionMetadata] = field(default_factory=dict)
    is_internal: bool = False


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    """A cluster as one of its brokers described it."""

    cluster_id: str | None = None
    brokers: Mapping[int, BrokerAddress] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)

    def partition(self, where: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(where.topic)
        return None if topic is None else topic.partitions.get(where.partition)

    def leader_of(self, where: TopicPartition) -> BrokerAddress | None:
        """Return the leader's address; None if the partition, its leader or the address is not known."""
        known = self.partition(where)
        return None if known is None else self.brokers.get(known.leader_id)

    def updated(self, newer: ClusterMetadata) -> ClusterMetadata:
        """Return this metadata with a later answer applied: its brokers replace ours, its topics are added or
        replace ours."""
        return ClusterMetadata(newer.cluster_id, newer.brokers, {**self.topics, **newer.topics})


class FoundOffset(NamedTuple):
    """An offset that ListOffsets found, -1 where no record is at or after the timestamp."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


class ActiveProducer(NamedTuple):
    """A producer that a partition remembers (KIP-664)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    current_txn_start_offset: int = -1


class ProduceResult(NamedTuple):
    """The answer to one partition's records. For a duplicate `base_offset` may be -1."""

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None


class Unsettled(NamedTuple):
    """No answer came, so records may have been appended or not; or there was no broker to ask.

    `is_unknown_topic`: the cluster says that there is no such partition.
    """

    reason: str
    is_unknown_topic: bool = False


class PartitionRange(NamedTuple):
    """Offsets `start_offset` (inclusive) to `end_offset` (exclusive) of one partition."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class FetchedRecords(NamedTuple):
    """Whole record batches of one partition, in order, as a view of the answer.

    The first batch may begin below `start_offset` and the last one reach beyond the range's end: the decoder
    drops those records. `next_offset` follows the last batch.
    """

    where: TopicPartition
    records: memoryview
    start_offset: int
    next_offset: int
    high_watermark: int
    log_start_offset: int
    aborted: tuple[AbortedTransaction, ...] = ()


class LogDirReplica(NamedTuple):
    """One line of a log directory; what stands beside the logs has a topic name of its own."""

    topic: str
    partition: int
    size_bytes: int


class BrokerLogDir(NamedTuple):
    """`error` other than NONE: the directory can't be read, and `replicas` says nothing. `usable_bytes`: free
    on its file system (KIP-827); None: the broker can't tell."""

    path: str
    error: ErrorCode
    replicas: tuple[LogDirReplica, ...]
    usable_bytes: int | None = None
