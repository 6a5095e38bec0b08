"""One attempt of a task, carried out: rows become batches, and batches are delivered while more are made.

A round carries out the actions of the partitions' deliveries, those of a kind in one request to each leader.
delivery.py decides; this module has the client, the clock and the waiting. Each partition has one batch under
way at most, each leader one Produce. What was sent is answered while further rows are taken in; the attempt
waits for answers only at its end, and where it holds more bytes than the bound.

Before the first rows of a partition become batches, it is known what earlier attempts stored there. Rows that
are stored are left out (stored_rows.py), and the others are held back, up to `HELD_BATCHES_MAX` batches,
until every stored record has met its row: so an attempt whose rows have changed is refused before it writes,
unless it has more rows than that.

Topics are the ones that were opened, by their ids: what is read back and what is sent goes to no other one
under the same name, where brokers can be asked by id. A refusal leads to Metadata, which tells of the other.

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
from pipeline.client.errors import (
    UNAUTHORIZED,
    AccessRefused,
    BrokerError,
    ClientError,
    ConnectionLost,
    UnsupportedBroker,
    not_allowed_to,
)
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
from pipeline.sink.target import id_of
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import HEADER_BYTES

T = TypeVar("T")
HELD_BATCHES_MAX = 32
"""Batches of full size that may wait for their answers while further rows are taken in."""
ROUND_BYTES = 512 * 1024
"""After so many bytes of new batches, what can be sent is sent, and answers are taken in."""
WAIT_MS_MAX = 1_000


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
    `open_topic` raise; another attempt continues from what is stored."""

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
        self._under_way: set[TopicPartition] = set()
        """Partitions of which a batch was sent, and whose answers have not been taken in."""
        self._wake_ms: dict[TopicPartition, int] = {}
        """End of the last pause, by the client's clock."""
        self._offered_bytes = 0
        """Since the last round."""
        self._left_ms: int | None = None
        """Time at which the caller went for further rows, by the client's clock."""
        self._delivered: dict[TopicPartition, steps.Delivered] = {}
        self._resuming = Resuming(held_bytes_max=self._held_bytes_max)
        self._is_metadata_doubtful = False

    def add(self, rows: pa.RecordBatch) -> None:
        """Take in rows; wait for brokers only until no more bytes are held than the bound."""
        self._return()
        split = list(self._placement.split(rows))
        self._open([where for where, _ in split])
        for where, some in split:
            for there, missing in self._resuming.missing(where, some):
                self._offer(there, self._encoders[there].add(missing))
        self._go_on()
        while self._wanted and self._held_bytes() > self._held_bytes_max:
            self._run_round()
        self._left_ms = self._client.now_ms()

    def finish(self) -> Mapping[TopicPartition, steps.Delivered]:
        """Deliver the rest; return the delivery of each partition with records of this task."""
        self._return()
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

    def _return(self) -> None:
        """Tell deliveries for how long answers were not taken in because the task had no rows."""
        if self._left_ms is None:
            return
        away_ms, self._left_ms = self._client.now_ms() - self._left_ms, None
        if away_ms > 0:
            for where in self._wanted:
                self._step(where, steps.Away(away_ms))

    # Rows in.

    def _opening(self, topic: str) -> TopicOpening:
        if topic not in self._openings:
            opening = self._open_topic(topic)
            opening.check_topic(id_of(self._client, topic))
            self._openings[topic] = opening
        return self._openings[topic]

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics that were opened, by name."""
        return {topic: opening.topic_id for topic, opening in self._openings.items()}

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
            self._offered_bytes += len(batch.data)
        if self._offered_bytes >= ROUND_BYTES:
            self._go_on()

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
                if action.failure is steps.Failure.FORGOTTEN:
                    self._refresh()  # raises, if what brokers remember is of a topic that was made again
                raise DeliveryFailed(f"{where}: {action}", action.advice)
            case _:
                if isinstance(action, steps.Pause):
                    # Whatever the doubt is about, another leader, or another topic, may be the reason.
                    self._is_metadata_doubtful = True
                    self._wake_ms[where] = self._client.now_ms() + action.pause_ms
                self._wanted.pop(where, None)  # behind those that have waited for longer
                self._wanted[where] = action

    # Rounds.

    def _go_on(self) -> None:
        """Run rounds as long as they wait for no answer to Produce and for no end of a pause."""
        self._offered_bytes = 0
        if self._wanted:
            self._take_answers(0)
            while self._carry_out():
                pass

    def _run_round(self) -> None:
        """Carry out what can be carried out now; if that is nothing, wait for an answer or the end of a
        pause."""
        has_answers = self._take_answers(0)
        if self._carry_out() or has_answers:
            return
        wakes_ms = [
            self._wake_ms[where] for where, one in self._wanted.items() if isinstance(one, steps.Pause)
        ]
        now_ms = self._client.now_ms()
        wait_ms = max(min(wakes_ms, default=now_ms + WAIT_MS_MAX) - now_ms, 0)
        if self._under_way:
            self._take_answers(wait_ms)
        else:
            self._client.pause(wait_ms)

    def _carry_out(self) -> bool:
        """Carry out one action of each partition that waits for nothing; return whether there were any."""
        now_ms = self._client.now_ms()
        wanted = {
            where: action
            for where, action in self._wanted.items()
            if where not in self._under_way
            and not (isinstance(action, steps.Pause) and now_ms < self._wake_ms[where])
        }
        if wanted and self._is_metadata_doubtful:
            self._refresh()
        describes = [where for where, action in wanted.items() if isinstance(action, steps.Describe)]
        checks = [where for where, action in wanted.items() if isinstance(action, steps.CheckWatermark)]
        sends = {where: action for where, action in wanted.items() if isinstance(action, steps.Send)}
        paused = [where for where, action in wanted.items() if isinstance(action, steps.Pause)]
        has_sent = bool(sends) and self._send(sends)
        if describes:
            self._describe(describes)
        for where, action in wanted.items():
            if isinstance(action, steps.Scan):
                self._scan(where, action)
        if checks:
            self._check(checks)
        for where in paused:
            self._step(where, steps.Woken())
        return has_sent or len(wanted) > len(sends)

    def _unsettle(self, where: TopicPartition, reason: str) -> None:
        self._is_metadata_doubtful = True
        self._step(where, steps.NoUsableAnswer(reason))

    def _refresh(self) -> None:
        """Refresh metadata between rounds, so no request follows a moved leader unnoticed (see Send), nor a
        topic that was made again."""
        try:
            known = self._client.refresh(sorted({where.topic for where in self._deliveries})).topics
        except ConnectionLost:
            return
        for topic, opening in self._openings.items():
            if topic in known:
                opening.check_topic(known[topic].topic_id)
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
        identity = self._settings.identity
        ours = {
            where: producer
            for where in partitions
            for producer in producers[where]
            if producer.producer_id == identity.producer_id
        }
        ends: dict[TopicPartition, EpochEnd] | None = {}
        if resumed := [p for p, one in ours.items() if one.producer_epoch == identity.producer_epoch]:
            epochs = {where: offsets[where].leader_epoch for where in resumed}
            ends = self._asked(partitions, lambda: self._client.epoch_ends(epochs))
        if ends is None:
            return
        for where in partitions:
            described = steps.Described(offsets[where].leader_epoch)
            if where in ours:
                end_offset = ends[where].end_offset if where in ends else -1
                described = steps.Described(
                    described.leader_epoch,
                    ours[where].producer_epoch,
                    ours[where].last_sequence,
                    end_offset,
                )
            self._step(where, described)

    def _latest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, FoundOffset] | None:
        return self._asked(partitions, lambda: self._client.list_offsets(dict.fromkeys(partitions, LATEST)))

    def _scan(self, where: TopicPartition, scan: steps.Scan) -> None:
        is_first = self._deliveries[where].resumes_at is None
        read_back = self._resuming.read_back() if is_first else None
        try:
            event = scan_partition(
                self._client, where, self._settings.identity, scan, read_back, topic_ids=self.topic_ids()
            )
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

    def _send(self, sends: Mapping[TopicPartition, steps.Send]) -> bool:
        """Send what can be sent; return whether anything could. Metadata is not read here: a leader that is
        found meanwhile gets nothing before it is compared with the evidence (see Send)."""
        known = self._client.known_metadata()
        chosen = self._client.producing.sendable({where: send.batch.data for where, send in sends.items()})
        batches = {}
        for where, data in chosen.items():
            place = known.partition(where)
            if place is None or known.leader_of(where) is None:
                self._unsettle(where, "its leader is not known")
            elif place.leader_epoch > sends[where].leader_epoch:
                self._step(
                    where, steps.NoUsableAnswer(f"its leader is another one, of epoch {place.leader_epoch}")
                )
            else:
                batches[where] = data
        if batches:
            lost = self._client.producing.start(batches, self.topic_ids())
            self._under_way.update(batches.keys() - lost.keys())
            for where, unsettled in lost.items():
                self._unsettle(where, unsettled.reason)
        return bool(chosen)

    def _take_answers(self, wait_ms: int) -> bool:
        """Take in the answers to Produce that have come; return whether there are any."""
        results = self._client.producing.take(wait_ms=wait_ms)
        for where, result in results.items():
            self._under_way.discard(where)
            if isinstance(result, Unsettled):
                self._unsettle(where, result.reason)
                continue
            self._is_metadata_doubtful = self._is_metadata_doubtful or result.error.is_retriable
            is_new = result.log_append_time_ms < 0  # brokers give a duplicate the time of what is stored
            base_offset = result.base_offset if is_new else -1
            message = result.message or ""
            if result.error in UNAUTHORIZED:
                message = not_allowed_to(self._client.config.security.principal)
            self._step(where, steps.SendAnswered(result.error, message, base_offset))
        return bool(results)
