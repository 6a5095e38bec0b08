"""Producers that a leader's log does not know, in the middle of their sequences (6.6, unknown ids).

A topic was deleted and made again under a running producer, whose sequences go on. Apache Kafka takes any
sequence of a producer that its log does not know. But the batch before it may be on its way still, or have
been refused; a client that takes an answer as vouching for all it had sent before (librdkafka) then loses
that one without a word (S84, a second batch is first). To refuse for good ends clients that can't begin
anew: UNKNOWN_PRODUCER_ID is fatal to librdkafka after any other error of the partition, and aiokafka fails
each further send.

So the batch is refused once, with an error that says "nothing was written" and that all clients answer by
sending it again (NOT_ENOUGH_REPLICAS, which Kafka's brokers say in such a case, too: KIP-890), and taken when
it comes again as the lowest that this leader has refused of its producer. Clients send a batch again when
everything before it has its answer: librdkafka waits for all requests of the partition, at whatever broker,
before it sends anything again, and before it sends anything to a new leader; Java's client sends none again
but the first in flight; aiokafka has one in flight. What came before is settled then, or goes ahead of it on
the same connection, where it is taken, or refused, noted here, and lower.

One leader's memory of its own leadership: a new leader asks again.
"""

from __future__ import annotations

from typing import NamedTuple

from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader

NEWCOMERS_MAX = 1_000
"""Producers remembered by one leader; one that is pushed out is refused once more."""
LOWEST_KEPT_MS = 10_000
"""A batch that has not come again for so long was given up by its client, and the one behind it may be first.
Clients send again within a second or two."""


class _Refused(NamedTuple):
    producer_epoch: int
    sequence: int
    refused_ms: int


class Newcomers:
    """The lowest sequence that was refused of each producer, the one that was refused first comes first."""

    __slots__ = ("_lowest",)

    def __init__(self) -> None:
        self._lowest: dict[int, _Refused] = {}

    def judge(self, header: BatchHeader, *, now_ms: int) -> ErrorCode:
        """Return NONE if the batch of an unknown producer may be its first in this log, else the error that
        makes its client send it again."""
        lowest = self._lowest.get(header.producer_id)
        if lowest is not None and lowest[:2] == (header.producer_epoch, header.base_sequence):
            del self._lowest[header.producer_id]
            return ErrorCode.NONE
        self.note_refused(header, now_ms=now_ms)
        return ErrorCode.NOT_ENOUGH_REPLICAS

    def note_refused(self, header: BatchHeader, *, now_ms: int) -> None:
        """A batch was refused, for whatever reason: none behind it may be first."""
        lowest = self._lowest.get(header.producer_id)
        if (
            lowest is not None
            and lowest.producer_epoch == header.producer_epoch
            and lowest.sequence < header.base_sequence
            and now_ms - lowest.refused_ms < LOWEST_KEPT_MS
        ):
            return
        self._lowest.pop(header.producer_id, None)
        self._lowest[header.producer_id] = _Refused(header.producer_epoch, header.base_sequence, now_ms)
        if len(self._lowest) > NEWCOMERS_MAX:
            del self._lowest[next(iter(self._lowest))]

    def clear(self) -> None:
        """A batch was refused that may have been any producer's."""
        self._lowest.clear()
