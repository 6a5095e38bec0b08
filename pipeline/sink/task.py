"""One attempt of a task, carried out: rows become batches, batches are delivered, in rounds.

A round carries out the actions of the partitions' deliveries, those of a kind in one request to each leader.
delivery.py decides; this module has the client, the clock and the waiting.

Before the first rows of a partition become batches, it is known what earlier attempts stored there. Rows that
are stored are left out (stored_rows.py), and the others are held back, up to `HELD_BATCHES_MAX` batches,
until every stored record has met its row: so an attempt whose rows have changed is refused before it writes,
unless it has more rows than that.

Rows without a key or a partition are dealt out by their places, so in another order they go elsewhere: such a
row counts as stored in any partition of the topic. So all partitions of a topic are opened as soon as one has
stored records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from crc32c import crc32c

from pipeline.client.client import Client
from pipeline.client.errors import AccessRefused, BrokerError, ClientError, ConnectionLost, UnsupportedBroker
from pipeline.client.values import LATEST, FoundOffset, TopicPartition, Unsettled
from pipeline.errors import DeliveryFailed
from pipeline.records.encode import BatchOptions, EncodedBatch, PartitionEncoder
from pipeline.sink import steps
from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery
from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.opening import TopicOpening
from pipeline.sink.placement import RowPlacement
from pipeline.sink.resuming import Resuming
from pipeline.sink.scanning import scan_partition
from pipeline.sink.stored_rows import TooManyStored
from springtide.wire.record_batch import HEADER_BYTES

T = TypeVar("T")
HELD_BATCHES_MAX = 32
"""Batches of full size that may wait for their answers while further rows are taken in."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Settings of an attempt: its identity, its topic and its limits. `now_ms` is the wall clock."""

    identity: ProducerIdentity
    task_index: int
    topic: str | None
    batches: BatchOptions
    delivery: DeliveryOptions
    now_ms: Callable[[], int]


class TaskWriter:
    """Takes the rows of one attempt. Any method may raise DeliveryFailed, InvalidRows or what the encoder and
    `open_topic` raise; another attempt goes on from what is stored."""

    def __init__(
        self, client: Client, settings: TaskSettings, open_topic: Callable[[str], TopicOpening]
    ) -> None:
        self._client = client
        self._settings = settings
        self._open_topic = open_topic
        self._held_bytes_max = HELD_BATCHES_MAX * settings.batches.batch_bytes_max
        self._openings: dict[str, TopicOpening] = {}
        self._placement = RowPlacement(
            topic=settings.topic,
            task_index=settings.task_index,
            partition_count=lambda topic: self._opening(topic).partition_count,
        )
        self._encoders: dict[TopicPartition, PartitionEncoder] = {}
        self._deliveries: dict[TopicPartition, PartitionDelivery] = {}
        self._wanted: dict[TopicPartition, steps.Action] = {}
        """The next action of each partition."""
        self._delivered: dict[TopicPartition, steps.Delivered] = {}
        self._resuming = Resuming(held_bytes_max=self._held_bytes_max)
        self._is_metadata_doubtful = False

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in rows, and deliver until no more bytes are held than the bound."""
        split = list(self._placement.split(rows))
        self._open([where for where, _ in split])
        for where, some in split:
            for there, missing in self._resuming.missing(where, some):
                self._offer(there, self._encoders[there].add(missing))
        while self._wanted and self._held_bytes() > self._held_bytes_max:
            self._run_round()

    def finish(self) -> Mapping[TopicPartition, steps.Delivered]:
        """Deliver the rest; return the delivery of each partition with records of this task."""
        self._resuming.check()
        for where, missing in self._resuming.held():
            self._offer(where, self._encoders[where].add(missing))
        for where, encoder in self._encoders.items():
            self._offer(where, encoder.finish())
        for where in self._deliveries:
            self._step(where, steps.Ended())
        while self._wanted:
            self._run_round()
        assert self._delivered.keys() == self._deliveries.keys()
        return {where: delivered for where, delivered in self._delivered.items() if delivered.records}

    # Rows in.

    def _opening(self, topic: str) -> TopicOpening:
        if topic not in self._openings:
            self._openings[topic] = self._open_topic(topic)
        return self._openings[topic]

    def _open(self, partitions: list[TopicPartition]) -> None:
        """Find out what earlier attempts stored in these partitions, and in all partitions of a topic if one
        has records."""
        wanted = partitions
        while wanted := [where for where in wanted if where not in self._encoders]:
            for where in wanted:
                if where not in self._deliveries:
                    self._deliveries[where] = PartitionDelivery(
                        self._settings.identity,
                        self._opening(where.topic).partition(where.partition),
                        now_ms=self._settings.now_ms(),
                        options=self._settings.delivery,
                    )
                    self._step(where, steps.Opened())
            while any(self._deliveries[where].resumes_at is None for where in wanted):
                self._run_round()
            for where in wanted:
                self._begin(where)
            resumed = {where.topic for where in wanted if self._encoders[where].rows_added}
            wanted = [
                TopicPartition(topic, partition)
                for topic in sorted(resumed)
                for partition in range(self._opening(topic).partition_count)
            ]

    def _begin(self, where: TopicPartition) -> None:
        """Begin to encode. Rows without a timestamp get the opening's, which is the same in every attempt."""
        settings, resumes_at = self._settings, self._deliveries[where].resumes_at
        assert resumes_at is not None
        self._encoders[where] = PartitionEncoder(
            options=settings.batches,
            timestamp_ms=self._opening(where.topic).opened_ms,
            producer_id=settings.identity.producer_id,
            producer_epoch=settings.identity.producer_epoch,
            first_row=resumes_at,
        )

    def _offer(self, where: TopicPartition, batches: list[EncodedBatch]) -> None:
        for batch in batches:
            last = batch.first_row + batch.record_count - 1
            crc = crc32c(memoryview(batch.data)[HEADER_BYTES:])
            self._step(where, steps.Offered(steps.Batch(batch.first_row, last, batch.data, crc)))

    def _held_bytes(self) -> int:
        return sum(self._deliveries[where].held_bytes for where in self._wanted)

    def _step(self, where: TopicPartition, event: steps.Event) -> None:
        action = self._deliveries[where].step(event, now_ms=self._settings.now_ms())
        match action:
            case None:
                pass
            case steps.AwaitBatch():
                self._wanted.pop(where, None)
            case steps.Delivered():
                self._wanted.pop(where, None)
                self._delivered[where] = action
            case steps.Failed():
                raise DeliveryFailed(f"{where}: {action}")
            case _:
                self._wanted[where] = action

    # Rounds.

    def _run_round(self) -> None:
        """Carry out one action of each partition."""
        wanted = dict(self._wanted)
        describes = [where for where, action in wanted.items() if isinstance(action, steps.Describe)]
        checks = [where for where, action in wanted.items() if isinstance(action, steps.CheckWatermark)]
        sends = {where: action for where, action in wanted.items() if isinstance(action, steps.Send)}
        pauses = {
            where: action.pause_ms for where, action in wanted.items() if isinstance(action, steps.Pause)
        }
        if self._is_metadata_doubtful:
            self._refresh()
        if describes:
            self._describe(describes)
        for where, action in wanted.items():
            if isinstance(action, steps.Scan):
                self._scan(where, action)
        if sends:
            self._send(sends)
        if checks:
            self._check(checks)
        if pauses:
            if len(pauses) == len(wanted):
                self._client.pause(min(pauses.values()))
            for where in pauses:
                self._step(where, steps.Woken())

    def _unsettle(self, where: TopicPartition, reason: str) -> None:
        self._is_metadata_doubtful = True
        self._step(where, steps.NoUsableAnswer(reason))

    def _refresh(self) -> None:
        """Refresh metadata between rounds, so no request follows a moved leader unnoticed (see Send)."""
        try:
            self._client.refresh(sorted({where.topic for where in self._deliveries}))
        except ConnectionLost:
            return
        self._is_metadata_doubtful = False

    def _asked(self, partitions: list[TopicPartition], ask: Callable[[], T]) -> T | None:
        """Return what `ask` returns; None, with the partitions unsettled, if there is no answer."""
        try:
            return ask()
        except (AccessRefused, BrokerError, UnsupportedBroker):
            raise
        except ClientError as error:
            for where in partitions:
                self._unsettle(where, str(error))
            return None

    def _describe(self, partitions: list[TopicPartition]) -> None:
        producers = self._asked(partitions, lambda: self._client.describe_producers(partitions))
        offsets = producers and self._latest(partitions)
        if not producers or not offsets:
            return
        producer_id = self._settings.identity.producer_id
        for where in partitions:
            described = steps.Described(offsets[where].leader_epoch)
            for producer in producers[where]:
                if producer.producer_id == producer_id:
                    described = steps.Described(
                        described.leader_epoch, producer.producer_epoch, producer.last_sequence
                    )
            self._step(where, described)

    def _latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, FoundOffset] | None:
        return self._asked(partitions, lambda: self._client.list_offsets(dict.fromkeys(partitions, LATEST)))

    def _scan(self, where: TopicPartition, scan: steps.Scan) -> None:
        is_first = self._deliveries[where].resumes_at is None
        read_back = self._resuming.read_back() if is_first else None
        try:
            event = scan_partition(self._client, where, self._settings.identity, scan, read_back)
        except (AccessRefused, BrokerError, UnsupportedBroker):
            raise
        except ClientError as error:
            event = steps.NoUsableAnswer(str(error))
        except TooManyStored as error:
            raise DeliveryFailed(f"{where}: {error}") from error
        self._step(where, event)
        if read_back is not None and self._deliveries[where].resumes_at is not None:
            stored = read_back.stored(timestamp_ms=self._opening(where.topic).opened_ms)
            self._resuming.begin(where, stored)

    def _check(self, partitions: list[TopicPartition]) -> None:
        offsets = self._latest(partitions)
        if offsets is not None:
            for where in partitions:
                self._step(where, steps.Checked(offsets[where].leader_epoch, offsets[where].offset))

    def _send(self, sends: Mapping[TopicPartition, steps.Send]) -> None:
        known = self._client.known_metadata()
        batches = {}
        for where, send in sends.items():
            place = known.partition(where)
            if place is None or known.leader_of(where) is None:
                self._unsettle(where, "its leader is not known")
            elif place.leader_epoch > send.leader_epoch:
                self._step(
                    where, steps.NoUsableAnswer(f"its leader is another one, of epoch {place.leader_epoch}")
                )
            else:
                batches[where] = send.batch.data
        if not batches:
            return
        for where, result in self._client.produce_once(batches).items():
            if isinstance(result, Unsettled):
                self._unsettle(where, result.reason)
                continue
            self._is_metadata_doubtful = self._is_metadata_doubtful or result.error.is_retriable
            is_new = result.log_append_time_ms < 0  # brokers give a duplicate the time of what is stored
            base_offset = result.base_offset if is_new else -1
            self._step(where, steps.SendAnswered(result.error, result.message or "", base_offset))
