"""The fence of a shard's log: who may write the next batch, judged by the log's own last batches.

A coordinator topic's partition holds the state of one shard, written by one coordinator at a time. Producer
state can't guard it: it expires, is evicted, and a log that was begun anew knows no earlier writer. So the
leader looks at the header of the log's last data batch, which can't expire, and which every replica has:

    the writer of the last batch     its next sequence is appended; one of its last batches again, with the
                                     same bytes, is a duplicate; anything else is out of order
    a higher one                     opens the shard, with sequence 0, if the controller has named it; one
                                     that this leader has not heard of yet is told to try again
    a lower one                      is fenced
    no writer's id                   is refused: clients do not write here

A leader reads the last batches when it is first written to; it never truncates, so from then on it knows what
it appends. What a truncation, a restart or another leader did before is in the bytes that it reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from dataplane.core.producer_state import Duplicate
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WRITER_IDS, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import SEQUENCE_MAX, BatchHeader

NO_WRITER = WriterId(-1, -1)
"""Lower than any writer: a log without a data batch has this one."""


class Fence:
    """The log's last data batches, in order, as one leadership knows them."""

    __slots__ = ("_batches",)

    def __init__(self, last_batches: Sequence[BatchHeader]) -> None:
        self._batches = deque(last_batches, maxlen=WRITER_BATCHES_MAX)

    @property
    def writer(self) -> WriterId:
        """Return the writer of the log's last data batch."""
        return _writer_of(self._batches[-1]) if self._batches else NO_WRITER

    def judge(self, header: BatchHeader, *, named: WriterId) -> ErrorCode | Duplicate:
        """Return what a leader must do with a batch: append it (NONE), answer it as a duplicate, or refuse
        it. named: the writer that the controller has named. Mutates nothing.

        INVALID_TOPIC_EXCEPTION: clients do not write here. INVALID_PRODUCER_EPOCH: a later writer was named,
        or has written. UNKNOWN_LEADER_EPOCH: this leader has not heard of so late a writer yet.
        OUT_OF_ORDER_SEQUENCE_NUMBER: a gap, other bytes under a sequence that is stored, or an opening that
        does not begin at 0.
        """
        if header.producer_id not in WRITER_IDS:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        writer, latest = _writer_of(header), self.writer
        if writer == latest:
            if header.base_sequence == (self._batches[-1].last_sequence + 1) & SEQUENCE_MAX:
                return ErrorCode.NONE
            return self._find_stored(header) or ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if writer < max(latest, named):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if writer > named:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if header.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def on_appended(self, header: BatchHeader) -> None:
        self._batches.append(header)

    def _find_stored(self, header: BatchHeader) -> Duplicate | None:
        """Return where the same bytes stand: all that a leader does not stamp is equal, the CRC included."""
        for stored in self._batches:
            if stored.batch_length == header.batch_length and stored[3:] == header[3:]:
                return Duplicate(stored.base_offset, stored.last_offset, stored.max_timestamp)
        return None


def _writer_of(header: BatchHeader) -> WriterId:
    return WriterId(header.producer_id, header.producer_epoch)
