"""A cluster in memory for the sink's shell: a client's methods over the simulation's partitions."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pipeline.client.config import ClientConfig
from pipeline.client.errors import OffsetsGone, RetriesExhausted
from pipeline.client.values import (
    EARLIEST,
    ActiveProducer,
    BrokerAddress,
    ClusterMetadata,
    FetchedRecords,
    FoundOffset,
    PartitionMetadata,
    PartitionRange,
    ProduceResult,
    TopicMetadata,
    TopicPartition,
    Unsettled,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import HEADER_BYTES, decode_header, restamp_append_time
from tests.pipeline_sim.partition import Appended, SimulatedPartition

LOG_START = 0


@dataclass
class MemoryCluster:
    """`data` keeps the batches' bytes by partition and base offset."""

    partitions: dict[TopicPartition, SimulatedPartition]
    now_ms: int = 1_000_000
    data: dict[tuple[TopicPartition, int], bytes] = field(default_factory=dict)
    sent: list[dict[TopicPartition, int]] = field(default_factory=list)
    """Base sequences of each produce request."""
    lose_answers: int = 0
    lose_requests: int = 0
    stamps: bool = False
    """message.timestamp.type=LogAppendTime."""
    scans: int = 0
    pauses: int = 0
    ids: dict[str, str] = field(default_factory=dict)
    """Of the topics, by name; the others have none."""
    asks_by_id: bool = True
    """Brokers know Produce and Fetch by id."""

    def make_again(self, topic: str, topic_id: str) -> None:
        """Delete a topic and create it again: new logs under the same leaders, in the same leader epochs."""
        for where in [one for one in self.partitions if one.topic == topic]:
            self.partitions[where] = SimulatedPartition(is_wide=True)
        self.data = {key: data for key, data in self.data.items() if key[0].topic != topic}
        self.ids[topic] = topic_id

    @classmethod
    def of(cls, topic: str, count: int, *, is_wide: bool = True, stamps: bool = False) -> MemoryCluster:
        partitions = {TopicPartition(topic, p): SimulatedPartition(is_wide=is_wide) for p in range(count)}
        return cls(partitions, stamps=stamps)

    def stored(self) -> dict[TopicPartition, bytes]:
        """The log of each partition as a fetch gives it."""
        return {
            where: b"".join(self.data[where, batch.base_offset] for batch in partition.log)
            for where, partition in self.partitions.items()
        }


class MemoryClient:
    """The part of pipeline.client.client.Client that the sink uses."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.config = ClientConfig(bootstrap=(("memory", 1),))
        self._known = self._metadata()
        self.producing = self
        self._answers: dict[int, dict[TopicPartition, ProduceResult | Unsettled]] = {}
        """Answers that were not taken in, by leader."""

    def _metadata(self) -> ClusterMetadata:
        topics: dict[str, dict[int, PartitionMetadata]] = {}
        for where, partition in self.cluster.partitions.items():
            topics.setdefault(where.topic, {})[where.partition] = PartitionMetadata(
                partition.leader, partition.leader_epoch
            )
        brokers = {broker: BrokerAddress(broker, "memory", broker) for broker in range(3)}
        return ClusterMetadata(
            "memory",
            brokers,
            {
                name: TopicMetadata(topic_id=self.cluster.ids.get(name, ""), partitions=each)
                for name, each in topics.items()
            },
        )

    def known_metadata(self) -> ClusterMetadata:
        return self._known

    def metadata(self, topics: list[str]) -> ClusterMetadata:
        return self.refresh(topics)

    def refresh(self, topics: list[str]) -> ClusterMetadata:
        self._known = self._metadata()
        return self._known

    def pause(self, pause_ms: int) -> None:
        self.cluster.pauses += 1
        self.cluster.now_ms += pause_ms
        for partition in self.cluster.partitions.values():
            partition.replicate_all()

    def list_offsets(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset]:
        found = {}
        for where, timestamp in asked.items():
            partition = self.cluster.partitions[where]
            offset = LOG_START if timestamp == EARLIEST else partition.high_watermark
            found[where] = FoundOffset(offset, -1, partition.leader_epoch)
        return found

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {where: self.cluster.partitions[where].epoch_end(epoch) for where, epoch in asked.items()}

    def describe_producers(self, asked: list[TopicPartition]) -> dict[TopicPartition, tuple[object, ...]]:
        described: dict[TopicPartition, tuple[object, ...]] = {}
        for where in asked:
            partition = self.cluster.partitions[where]
            partition.describe(0, self.cluster.now_ms)  # forgets what is old
            described[where] = tuple(
                ActiveProducer(producer_id, *partition.describe(producer_id, self.cluster.now_ms))
                for producer_id in sorted(partition.producers)
            )
        return described

    def produce_once(
        self, batches: Mapping[TopicPartition, bytes], topic_ids: Mapping[str, str] = MappingProxyType({})
    ) -> dict[TopicPartition, ProduceResult | Unsettled]:
        cluster = self.cluster
        cluster.sent.append({where: decode_header(data).base_sequence for where, data in batches.items()})
        if cluster.lose_requests:
            cluster.lose_requests -= 1
            return {where: Unsettled("lost on the way") for where in batches}
        results: dict[TopicPartition, ProduceResult | Unsettled] = {
            where: ProduceResult(ErrorCode.UNKNOWN_TOPIC_ID)
            if self._is_another(where.topic, topic_ids)
            else self._append(where, data)
            for where, data in batches.items()
        }
        if cluster.lose_answers:
            cluster.lose_answers -= 1
            return {where: Unsettled("lost on the way back") for where in batches}
        return results

    def sendable(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, bytes]:
        return {where: data for where, data in batches.items() if self._leader(where) not in self._answers}

    def start(
        self, batches: Mapping[TopicPartition, bytes], topic_ids: Mapping[str, str] = MappingProxyType({})
    ) -> dict[TopicPartition, Unsettled]:
        by_leader: dict[int, dict[TopicPartition, bytes]] = {}
        for where, data in batches.items():
            by_leader.setdefault(self._leader(where), {})[where] = data
        for leader, some in by_leader.items():
            assert leader not in self._answers
            self._answers[leader] = self.produce_once(some, topic_ids)
        return {}

    def take(self, *, wait_ms: int) -> dict[TopicPartition, ProduceResult | Unsettled]:
        taken, self._answers = self._answers, {}
        return {where: result for some in taken.values() for where, result in some.items()}

    def _leader(self, where: TopicPartition) -> int:
        leader = self._known.leader_of(where)
        assert leader is not None
        return leader.broker_id

    def now_ms(self) -> int:
        return self.cluster.now_ms

    def produce(self, batches: Mapping[TopicPartition, bytes]) -> dict[TopicPartition, ProduceResult]:
        """Send batches; as the real one, send again what got no answer."""
        for _ in range(10):
            results = self.produce_once(batches)
            if not any(isinstance(result, Unsettled) for result in results.values()):
                return results  # type: ignore[return-value]
        raise RetriesExhausted("ten tries")

    def _append(self, where: TopicPartition, data: bytes) -> ProduceResult:
        cluster, partition = self.cluster, self.cluster.partitions[where]
        header = decode_header(data)
        base_offset = partition.log_end
        result = partition.produce(
            producer_id=header.producer_id if header.producer_id >= 0 else 10**6 + base_offset,
            producer_epoch=max(header.producer_epoch, 0),
            base_sequence=header.base_sequence,
            records=tuple(str(n) for n in range(header.record_count)),
            batch_id=0,
            now_ms=self.cluster.now_ms,
        )
        if not isinstance(result, Appended):
            return ProduceResult(ErrorCode(result))
        if partition.log_end > base_offset:
            placed = struct.pack(">q", base_offset) + data[8:]
            if cluster.stamps:
                head = restamp_append_time(
                    memoryview(data),
                    header,
                    base_offset=base_offset,
                    leader_epoch=0,
                    append_time_ms=cluster.now_ms,
                )
                placed = head + data[HEADER_BYTES:]
            cluster.data[where, base_offset] = placed
        partition.replicate_all()
        if result.base_offset < 0 or cluster.stamps:
            return ProduceResult(ErrorCode.NONE, base_offset, header.max_timestamp)
        return ProduceResult(ErrorCode.NONE, base_offset)

    def _is_another(self, topic: str, wanted: Mapping[str, str]) -> bool:
        known, one = self.cluster.ids.get(topic, ""), wanted.get(topic, "")
        return self.cluster.asks_by_id and bool(known and one) and known != one

    def fetch(
        self, ranges: list[PartitionRange], *, topic_ids: Mapping[str, str] = MappingProxyType({})
    ) -> contextlib.AbstractContextManager[object]:
        self.cluster.scans += 1
        for one in ranges:
            if self._is_another(one.topic, topic_ids):
                raise OffsetsGone("another id", topic=one.topic, partition=one.partition, offset=0)
        return contextlib.nullcontext(self._fetched(ranges))

    def _fetched(self, ranges: list[PartitionRange]) -> Iterator[FetchedRecords]:
        for wanted in ranges:
            partition = self.cluster.partitions[wanted.where]
            for batch in partition.log:
                if batch.next_offset > wanted.start_offset and batch.base_offset < wanted.end_offset:
                    yield FetchedRecords(
                        wanted.where,
                        memoryview(self.cluster.data[wanted.where, batch.base_offset]),
                        batch.base_offset,
                        batch.next_offset,
                        partition.high_watermark,
                        LOG_START,
                    )
