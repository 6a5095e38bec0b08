"""The batches of one opening on their way into the shard's log: in order, several in flight, none unknown.

    waiting --sent, five at most--> in flight --committed--> done
                                        |  every attempt came back, and one failed
                                        |
              the same bytes again <----+----> undone: nothing of it, nor of what follows, can be in the log

An attempt that had no answer, or one that does not say that nothing was written, leaves its batch *unknown*
for good: it may be in the log, or come late from a broken connection. So it is sent again, with the same
bytes, until it is committed or the writer is fenced; a later refusal of a retry proves nothing. Only where no
batch in flight is unknown does a refusal undo them: their sequences may then be used again, because no
other writer can fill them.

The leader takes a writer's batches in the order of their sequences only. Therefore a commit of one is the
commit of all before it, and a refusal as out of order is the fault of an earlier batch, unless there was
none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from coordinator.core.machine import RequestReply, ShardRecord
from coordinator.core.shard_ports import AppendBatch, BatchAnswered
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import HEADER_BYTES, SEQUENCE_MAX
from springtide.wire.records import NewRecord, encode_batch

WAITING_MAX = 64
WAITING_BYTES_MAX = 4 * 1024 * 1024
"""Batches and their bytes that may wait behind those in flight; then the shard is too busy."""
_RECORD_OVERHEAD_BYTES = 32

#: The leader's words for "nothing was written". All others leave it open.
REFUSALS = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})


@dataclass(slots=True, eq=False)
class PendingBatch:
    """One batch from its making until it is known. first_offset: of its first record, as the machine was
    told. proves: replies to what was committed before it. sent_ms: monotonic, when it was sent first.
    was_first: nothing was in flight before it when it was last sent."""

    first_offset: int
    records: list[ShardRecord]
    size_bytes: int
    replies: list[RequestReply] = field(default_factory=list)
    proves: list[RequestReply] = field(default_factory=list)
    works: list[Hashable] = field(default_factory=list)
    base_sequence: int = -1
    data: bytes = b""
    attempt: int = -1
    sent_ms: int = -1
    was_first: bool = False
    is_unknown: bool = False
    refusal: ErrorCode = ErrorCode.NONE

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.records)


class Stand(Enum):
    """The writer's state after an answer. FAILED: all attempts came back, send again after a pause.
    REFUSED: take everything back first, unless the same is to be tried again. FENCED, BROKEN: nothing more
    can be written."""

    GOES_ON = auto()
    FAILED = auto()
    REFUSED = auto()
    FENCED = auto()
    BROKEN = auto()


class ShardWriter:
    """next_offset: where the next record will stand. It may stand higher, because the leader puts records of
    its own between batches, never lower; the order is the log's."""

    __slots__ = (
        "_attempts",
        "_batch_bytes_max",
        "_connection",
        "_in_flight",
        "_is_failing",
        "_next_sequence",
        "_out",
        "_waiting",
        "_writer",
        "next_offset",
    )

    def __init__(
        self, writer: WriterId, *, next_offset: int, batch_bytes_max: int, first_attempt: int
    ) -> None:
        self._writer = writer
        self._batch_bytes_max = batch_bytes_max
        self._in_flight: deque[PendingBatch] = deque()
        self._waiting: deque[PendingBatch] = deque()
        self._out: dict[int, PendingBatch] = {}
        self._attempts = first_attempt
        self._connection = first_attempt
        self._next_sequence = 0
        self._is_failing = False
        self.next_offset = next_offset

    @property
    def writer(self) -> WriterId:
        return self._writer

    @property
    def is_empty(self) -> bool:
        return not self._in_flight and not self._waiting

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        waiting = self._waiting
        return len(waiting) >= WAITING_MAX or sum(b.size_bytes for b in waiting) >= WAITING_BYTES_MAX

    def add(
        self,
        records: Sequence[ShardRecord],
        replies: Iterable[RequestReply] = (),
        work: Hashable = None,
    ) -> None:
        """Take one step's records, behind all others: into the last batch that waits, if they fit there; into
        several, where no batch is large enough. Replies and work stay with the last record."""
        size_bytes = sum(map(_size_of, records))  # of what must fit: the whole step, or else one record
        for record in records:
            if not self._waiting or self._waiting[-1].size_bytes + size_bytes > self._batch_bytes_max:
                self._waiting.append(PendingBatch(self.next_offset, [], HEADER_BYTES))
            size_bytes = _size_of(record)
            self._waiting[-1].records.append(record)
            self._waiting[-1].size_bytes += size_bytes
            self.next_offset += 1
        self.add_replies(replies, work)

    def add_replies(
        self, replies: Iterable[RequestReply], work: Hashable = None, *, are_committed: bool = False
    ) -> None:
        """Take replies that wait for all that is under way, which must be something, and their work."""
        last = (self._waiting or self._in_flight)[-1]
        if are_committed:
            last.proves += replies
        else:
            last.replies += replies
        if work is not None:
            last.works.append(work)

    def due(self, wall_ms: int, now_ms: int) -> list[AppendBatch]:
        """Return what to send now. A batch's bytes are made once, when it is sent first."""
        if self._is_failing:
            return []
        while self._waiting and len(self._in_flight) < WRITER_BATCHES_MAX:
            batch = self._waiting.popleft()
            batch.base_sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + len(batch.records)) & SEQUENCE_MAX
            batch.data = encode_batch(
                [NewRecord(key, value, wall_ms) for key, value in batch.records],
                producer_id=self._writer.producer_id,
                producer_epoch=self._writer.producer_epoch,
                base_sequence=batch.base_sequence,
            )
            batch.sent_ms = now_ms
            self._in_flight.append(batch)
        found: list[AppendBatch] = []
        for batch in self._in_flight:
            if batch.attempt >= 0:
                continue
            self._attempts += 1
            batch.attempt = self._attempts
            batch.was_first = batch is self._in_flight[0]
            self._out[batch.attempt] = batch
            found.append(AppendBatch(batch.attempt, self._connection, batch.data))
        return found

    def on_answer(self, answer: BatchAnswered) -> tuple[Stand, list[PendingBatch]]:
        """Return how it stands now, and the batches that are committed."""
        batch = self._out.pop(answer.attempt, None)
        if batch is None:
            return Stand.GOES_ON, []
        committed: list[PendingBatch] = []
        if answer.error is ErrorCode.NONE:
            if 0 <= answer.base_offset < batch.first_offset:
                return Stand.BROKEN, []
            while batch in self._in_flight:
                committed.append(self._in_flight.popleft())
            if committed and self.is_empty and answer.base_offset >= 0:
                self.next_offset = answer.base_offset + len(batch.records)
        elif answer.error in _FENCED:
            return Stand.FENCED, []
        else:
            self._is_failing = True
            batch.attempt = -1
            batch.refusal = answer.error
            is_out_of_order = answer.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            batch.is_unknown |= answer.error not in REFUSALS and not is_out_of_order
        if self._is_failing and not self._out:
            return self._stand_after_failure(), committed
        return Stand.GOES_ON, committed

    def _stand_after_failure(self) -> Stand:
        if not self._in_flight:  # a later batch showed that those which failed were stored
            return Stand.FAILED
        first = self._in_flight[0]
        if first.refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return Stand.BROKEN if first.was_first else Stand.FAILED
        if any(batch.is_unknown for batch in self._in_flight):
            return Stand.FAILED
        return Stand.REFUSED

    def send_again(self) -> None:
        """Send all that is in flight again after a pause, in order, on a new connection."""
        assert not self._out
        self._is_failing = False
        self._connection += 1

    def take_back(self) -> list[PendingBatch]:
        """Forget all batches and return them, in order: after REFUSED, or when the shard is closed. Nothing
        is sent before `send_again`."""
        batches = [*self._in_flight, *self._waiting]
        if self._in_flight:
            self._next_sequence = self._in_flight[0].base_sequence
        if batches:
            self.next_offset = batches[0].first_offset
        self._in_flight.clear()
        self._waiting.clear()
        return batches


def _size_of(record: ShardRecord) -> int:
    return len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES
