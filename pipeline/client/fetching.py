"""The fetching of many ranges as a machine of values: it picks the next requests and judges the answers.

    waiting --ask--> asked --records--> waiting (further on) ... --> done
                       |---error------> waiting, after a pause, perhaps elsewhere
                       `---gone-------> Gone, the caller decides: fail, or `skip_to`

Every range makes progress on its own: its records come out in order, and it has its own patience. Requests
name as many partitions as a leader has for us, so that a thousand small ones cost few round trips; those
that got no whole batch are named first in the next one, since a broker promises whole batches only to the
first that has any (KIP-74). Where ranges are wanted one after another, earlier ones are always named first.

What a partition is asked for is bounded by what its range can hold: offsets left times the bytes of a record
as seen so far. A range of 140 records must not pull 4 MiB out of the page cache.

The reader may say which topics it means by their ids. Metadata that has another id under the name is treated
as one that does not know the topic; the shell asks brokers by id where they can, so they refuse what Metadata
has not shown yet.

Invariants: `step` functions take the time as an argument; a partition is asked of one broker at a time;
`FetchedRecords` of a partition meet exactly, start to next, until its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import NamedTuple

from pipeline.client.backoff import Patience
from pipeline.client.batch_walk import Walk, walk_batches
from pipeline.client.config import ClientConfig
from pipeline.client.errors import broker_error
from pipeline.client.values import (
    NO_LEADER,
    UNKNOWN_TOPIC,
    ClusterMetadata,
    FetchedRecords,
    PartitionRange,
    TopicPartition,
    ids_on_the_wire,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition
from springtide.wire.fetch_response import FetchedPartition

PARTITIONS_PER_REQUEST_MAX = 500
BYTES_MIN = 64 * 1024
"""Least a partition is asked for: less saves nothing and costs round trips."""
FIRST_RECORD_BYTES = 1024
"""Assumed size of a record until one was seen."""
SPARE = 1.25
_LEADER_ONLY = -1


class Gone(NamedTuple):
    """The offset to read next is not in the log: below its start, or above its end."""

    where: TopicPartition
    offset: int
    log_start_offset: int
    high_watermark: int


class Stalled(NamedTuple):
    """No progress within the retry budget. `high_watermark` -1: no answer told one."""

    where: TopicPartition
    offset: int
    end_offset: int
    high_watermark: int
    reason: str
    is_unknown_topic: bool


class _State(Enum):
    WAITING = auto()
    ASKED = auto()
    DONE = auto()


@dataclass(slots=True)
class _Reading:
    """One range on its way."""

    where: TopicPartition
    next_offset: int
    end_offset: int
    patience: Patience
    order: int
    topic_id: str = ""
    state: _State = _State.WAITING
    not_before_ms: int = 0
    replica_id: int = _LEADER_ONLY
    record_bytes: float = FIRST_RECORD_BYTES
    batch_bytes_min: int = 0
    high_watermark: int = -1
    is_unknown_topic: bool = False


@dataclass(slots=True)
class FetchProgress:
    """The result of one answer or failure. `is_stale`: the broker does not lead the partition, so Metadata is
    due."""

    fetched: list[FetchedRecords] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    is_stale: bool = False


class RangeFetching:
    """The ranges of one task. `replica_id` reads that replica where it exists, and the leader elsewhere.

    `in_order`: earlier ranges come first in every request, for a reader that returns them in that order.
    `topic_ids`: UUIDs' texts of the topics that are meant, by name; a topic without one is whichever has the
    name.
    """

    def __init__(
        self,
        ranges: Iterable[PartitionRange],
        config: ClientConfig,
        *,
        replica_id: int | None = None,
        in_order: bool = False,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._config = config
        self._in_order = in_order
        self._wanted_replica = _LEADER_ONLY if replica_id is None else replica_id
        self._readings: dict[TopicPartition, _Reading] = {}
        for order, one in enumerate(ranges):
            where = one.where
            if where in self._readings:
                raise ValueError(f"{where} is named twice")
            if one.start_offset < 0:
                raise ValueError(f"{where}: offset {one.start_offset}")
            if one.start_offset < one.end_offset:
                self._readings[where] = _Reading(
                    where,
                    one.start_offset,
                    one.end_offset,
                    self._config.patience(),
                    order,
                    topic_ids.get(one.topic, ""),
                    replica_id=self._wanted_replica,
                )
        self._turn = len(self._readings)

    @property
    def is_done(self) -> bool:
        return not self._readings

    @property
    def topics(self) -> list[str]:
        """Return the topics that are still being read, in order."""
        return sorted({where.topic for where in self._readings})

    def ids_of(self, wanted: Iterable[FetchPartition]) -> dict[str, bytes] | None:
        """Return the ids of the topics that these are about, by name; None if the reader did not say all."""
        ids = {where.topic: self._readings[where].topic_id for where in map(TopicPartition.of, wanted)}
        return ids_on_the_wire(ids)

    def made_again(self, where: TopicPartition, metadata: ClusterMetadata) -> str:
        """Return why the topic of this name is not the one that is to be read; "" if nothing says so."""
        wanted, known = self._readings[where].topic_id, metadata.topics.get(where.topic)
        if not wanted or known is None or known.topic_id in ("", wanted):
            return ""
        return f"the topic was deleted and created again: its id was {wanted}, and is {known.topic_id}"

    def is_finished(self, where: TopicPartition) -> bool:
        """Return whether the partition has been read to its end."""
        return where not in self._readings

    def hold_back_all_but(self, where: TopicPartition) -> None:
        """Let all other partitions wait for the reader. That time does not count as a failure."""
        for reading in self._readings.values():
            if reading.where != where and reading.state is _State.WAITING:
                reading.patience.on_progress()

    def has_askable(self, *, now_ms: int) -> bool:
        """Return whether some partition could be asked now if its leader is known and free."""
        return any(
            one.state is _State.WAITING and one.not_before_ms <= now_ms for one in self._readings.values()
        )

    def wake_ms(self, *, now_ms: int) -> int | None:
        """Return when the first pausing partition may be asked again; None if none pauses."""
        times = (one.not_before_ms for one in self._readings.values() if one.state is _State.WAITING)
        return min((time for time in times if time > now_ms), default=None)

    # --- asking ---------------------------------------------------------------------------------------

    def ask(
        self,
        metadata: ClusterMetadata,
        *,
        now_ms: int,
        busy: frozenset[int] = frozenset(),
        only: TopicPartition | None = None,
    ) -> dict[int, list[FetchPartition]]:
        """Return the requests to send now, by broker id, and mark their partitions as asked. Brokers in
        `busy` have a request under way and get none.

        `only`: no other partition is asked now. A partition without a known leader is left out: the caller
        refreshes Metadata and calls `on_no_leader` if there is still no leader.
        """
        by_broker: dict[int, list[_Reading]] = {}
        for reading in self._readings.values():
            if reading.state is _State.WAITING and reading.not_before_ms <= now_ms:
                if only not in (None, reading.where):
                    continue
                broker_id = self._broker_for(reading, metadata)
                if broker_id != NO_LEADER and broker_id not in busy:
                    by_broker.setdefault(broker_id, []).append(reading)
        requests: dict[int, list[FetchPartition]] = {}
        for broker_id, readings in sorted(by_broker.items()):
            readings.sort(key=lambda one: one.order)
            chosen = readings[:PARTITIONS_PER_REQUEST_MAX]
            for reading in chosen:
                reading.state = _State.ASKED
            requests[broker_id] = [
                FetchPartition(
                    *one.where,
                    leader_epoch=_epoch_for(one, broker_id, metadata),
                    fetch_offset=one.next_offset,
                    max_bytes=self._bytes_for(one),
                )
                for one in chosen
            ]
        return requests

    def _broker_for(self, reading: _Reading, metadata: ClusterMetadata) -> int:
        known = metadata.partition(reading.where)
        if known is None or self.made_again(reading.where, metadata):
            return NO_LEADER
        wanted = reading.replica_id
        if wanted != _LEADER_ONLY and wanted in known.isr and wanted in metadata.brokers:
            return wanted
        return known.leader_id if known.leader_id in metadata.brokers else NO_LEADER

    def _bytes_for(self, reading: _Reading) -> int:
        expected = (reading.end_offset - reading.next_offset) * reading.record_bytes * SPARE
        bound = max(self._config.max_partition_fetch_bytes, reading.batch_bytes_min)
        return int(min(bound, max(expected, BYTES_MIN, reading.batch_bytes_min)))

    def without_leader(self, metadata: ClusterMetadata, *, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that could be asked now but have no known leader."""
        return [
            reading.where
            for reading in self._readings.values()
            if reading.state is _State.WAITING
            and reading.not_before_ms <= now_ms
            and self._broker_for(reading, metadata) == NO_LEADER
        ]

    # --- what came of it ------------------------------------------------------------------------------

    def on_answer(
        self, asked: Sequence[FetchPartition], answered: Iterable[FetchedPartition], *, now_ms: int
    ) -> FetchProgress:
        """Take in the answer; raise BrokerError if asking again does not help. Raise MalformedAnswer if the
        bytes are not record batches: then nothing of the answer was taken, and the caller calls `on_lost`."""
        progress = FetchProgress()
        expected = {TopicPartition.of(one) for one in asked}
        walked: list[tuple[_Reading, FetchedPartition, Walk]] = []
        for one in answered:
            where = TopicPartition.of(one)
            if where in expected:
                expected.remove(where)
                reading = self._readings[where]
                walked.append((reading, one, self._walk(reading, one)))
        for reading, one, walk in walked:
            self._on_partition(reading, one, walk, progress, now_ms)
        for where in expected:
            reading = self._readings[where]
            reading.state = _State.WAITING
            self._pause(reading, "the broker's answer says nothing of it", now_ms)
        if not progress.fetched:
            # Where some got records, the others' turn comes: they wait, but nothing is wrong with them.
            for reading, _, _ in walked:
                if reading.patience.failing_since_ms is None:
                    reading.patience.on_failure("no records came", now_ms=now_ms)
        return progress

    def _walk(self, reading: _Reading, answer: FetchedPartition) -> Walk:
        if answer.error is not ErrorCode.NONE or not answer.records:
            return Walk(0, -1, 0)
        walk = walk_batches(answer.view, start_offset=reading.next_offset, end_offset=reading.end_offset)
        if walk.next_offset < 0 and not walk.torn_batch_bytes:
            return walk._replace(next_offset=reading.end_offset)  # a gap up to the end: compacted away
        return walk

    def _on_partition(
        self, reading: _Reading, answer: FetchedPartition, walk: Walk, progress: FetchProgress, now_ms: int
    ) -> None:
        reading.state = _State.WAITING
        if answer.error is not ErrorCode.NONE:
            self._on_error(reading, answer, progress, now_ms)
            return
        reading.high_watermark = answer.high_watermark
        reading.is_unknown_topic = False
        start_offset = reading.next_offset
        if walk.next_offset < 0:
            # Nothing yet, or a batch larger than what was asked for: whole batches go to the first in line.
            reading.batch_bytes_min = min(
                max(reading.batch_bytes_min, walk.torn_batch_bytes), self._config.answer_max_bytes // 2
            )
            preferred = answer.preferred_read_replica
            if preferred >= 0:
                reading.replica_id = preferred
            return
        reading.next_offset = min(walk.next_offset, reading.end_offset)
        reading.patience.on_progress()
        reading.record_bytes = max(1.0, walk.whole_bytes / (walk.next_offset - start_offset))
        if not self._in_order:
            self._turn += 1
            reading.order = self._turn  # the others first
        progress.fetched.append(
            FetchedRecords(
                reading.where,
                answer.view[: walk.whole_bytes],
                start_offset,
                reading.next_offset,
                answer.high_watermark,
                answer.log_start_offset,
                answer.aborted or (),
            )
        )
        if reading.next_offset >= reading.end_offset:
            self._finish(reading)

    def _on_error(
        self, reading: _Reading, answer: FetchedPartition, progress: FetchProgress, now_ms: int
    ) -> None:
        error = answer.error
        if reading.replica_id != _LEADER_ONLY:
            reading.replica_id = _LEADER_ONLY  # ask the leader instead
            return
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            progress.gone.append(
                Gone(reading.where, reading.next_offset, answer.log_start_offset, answer.high_watermark)
            )
            return
        if not error.is_retriable or error is ErrorCode.CORRUPT_MESSAGE:
            what = f"fetch of {reading.where} at offset {reading.next_offset}"
            raise broker_error(what, error, principal=self._config.security.principal)
        reading.is_unknown_topic = error in UNKNOWN_TOPIC
        progress.is_stale = True
        self._pause(reading, error.name, now_ms)

    def on_lost(self, asked: Sequence[FetchPartition], reason: str, *, now_ms: int) -> None:
        """Make the partitions that were asked wait again: the broker will not answer."""
        for one in asked:
            reading = self._readings[TopicPartition.of(one)]
            reading.state = _State.WAITING
            reading.replica_id = _LEADER_ONLY
            self._pause(reading, reason, now_ms)

    def on_no_leader(self, where: TopicPartition, reason: str, *, is_unknown: bool, now_ms: int) -> None:
        """Pause the partition: fresh Metadata names no leader."""
        reading = self._readings[where]
        reading.is_unknown_topic = is_unknown
        self._pause(reading, reason, now_ms)

    def end_of(self, where: TopicPartition) -> int:
        """Return the offset where the partition's range ends."""
        return self._readings[where].end_offset

    def skip_to(self, where: TopicPartition, offset: int) -> None:
        """Continue at a later offset (data was lost and the caller agreed); the range is done at or past its
        end."""
        reading = self._readings[where]
        assert offset >= reading.next_offset, "skipping goes forward"
        reading.next_offset = offset
        reading.patience.on_progress()
        if offset >= reading.end_offset:
            self._finish(reading)

    def stalled(self, *, now_ms: int) -> Stalled | None:
        """Return a partition whose retry budget is spent, if there is one."""
        for reading in self._readings.values():
            budget = self._config.unknown_topic_budget_ms if reading.is_unknown_topic else None
            if reading.patience.is_spent(now_ms, budget_ms=budget):
                return Stalled(
                    reading.where,
                    reading.next_offset,
                    reading.end_offset,
                    reading.high_watermark,
                    reading.patience.reason or "no answer",
                    reading.is_unknown_topic,
                )
        return None

    def _pause(self, reading: _Reading, reason: str, now_ms: int) -> None:
        reading.high_watermark = -1  # the last known value proves nothing while no broker answers
        reading.not_before_ms = now_ms + reading.patience.on_failure(reason, now_ms=now_ms)

    def _finish(self, reading: _Reading) -> None:
        reading.state = _State.DONE
        del self._readings[reading.where]


def _epoch_for(reading: _Reading, broker_id: int, metadata: ClusterMetadata) -> int:
    """Return the leader epoch to send. A follower needs it, so that it answers only while it follows the
    leader that we know; a leader does not."""
    known = metadata.partition(reading.where)
    return -1 if known is None or known.leader_id == broker_id else known.leader_epoch
