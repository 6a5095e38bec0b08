"""What the log itself says of one producer: the evidence that outlives the brokers' memory of it.

Brokers forget a producer that has been silent (producer.id.expiration.ms, a day) and answer "unknown" just
as if it had never written. Its batches still carry its id, epoch and sequences, so a scan from a place before
the first of them tells what is stored. A broker's memory tells sequences only; the log also tells which
records stand under them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.steps import NO_EPOCH, NO_SEQUENCE, Scanned, Stored


class SequencedBatch(NamedTuple):
    """What a batch says of its sequences and records. `base_sequence` is -1 where there are none."""

    producer_epoch: int
    base_sequence: int
    record_count: int
    crc: int = 0


class LogTrace:
    """Takes in the batches of one producer id in the order of the log, and sums them up.

    after_sequence: what the first batch of our own epoch is to follow.
    """

    __slots__ = ("_anomaly", "_batches", "_identity", "_last_sequence", "_newest_epoch")

    def __init__(self, identity: ProducerIdentity, *, after_sequence: int = NO_SEQUENCE) -> None:
        self._identity = identity
        self._newest_epoch = NO_EPOCH
        self._last_sequence = after_sequence
        self._batches: list[Stored] = []
        self._anomaly = ""

    def add(self, batches: Iterable[SequencedBatch]) -> None:
        """Batches of the producer id, control batches left out, in log order."""
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
        """`leader_epoch`: under which the log was read from end to end, up to `end_offset`."""
        return Scanned(
            leader_epoch,
            self._newest_epoch,
            self._last_sequence,
            tuple(self._batches),
            end_offset,
            self._anomaly,
        )
