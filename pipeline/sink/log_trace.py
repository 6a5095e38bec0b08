"""The trace of one producer in the log: evidence that outlives the brokers' memory.

Brokers forget an idle producer (producer.id.expiration.ms, a day) and then answer "unknown", as if it had
never written. Its batches still carry its id, epoch and sequences, so a scan that begins before them tells
what is stored, and also which records stand under the sequences.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.steps import NO_EPOCH, NO_SEQUENCE, Scanned, Stored


class TracedBatch(NamedTuple):
    """A batch's sequences and records. `base_sequence` is -1 if it has none."""

    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int = 0


class LogTrace:
    """Sums up the batches of one producer id in the order of the log.

    after_sequence: what the first batch of our own epoch is to follow.
    """

    __slots__ = ("_anomaly", "_batches", "_identity", "_last_sequence", "_newest_epoch")

    def __init__(self, identity: ProducerIdentity, *, after_sequence: int = NO_SEQUENCE) -> None:
        self._identity = identity
        self._newest_epoch = NO_EPOCH
        self._last_sequence = after_sequence
        self._batches: list[Stored] = []
        self._anomaly = ""

    def add(self, batches: Iterable[TracedBatch]) -> None:
        """Add batches of the producer id in log order, without control batches."""
        for batch in batches:
            self._newest_epoch = max(self._newest_epoch, batch.producer_epoch)
            if batch.producer_epoch != self._identity.producer_epoch or self._anomaly:
                continue
            expected = self._last_sequence + 1
            if batch.base_sequence == expected and batch.record_count > 0:
                self._last_sequence += batch.record_count
                self._batches.append(Stored(expected, self._last_sequence, batch.crc))
            elif batch.base_sequence > expected:
                self._anomaly = f"sequence {batch.base_sequence} follows {self._last_sequence}"
            else:
                self._anomaly = f"sequence {batch.base_sequence} is stored after {self._last_sequence} was"

    def summary(self, *, leader_epoch: int, end_offset: int) -> Scanned:
        """Return what was found; `leader_epoch`: under which the log was read up to `end_offset`."""
        return Scanned(
            leader_epoch,
            self._newest_epoch,
            self._last_sequence,
            tuple(self._batches),
            end_offset,
            self._anomaly,
        )
