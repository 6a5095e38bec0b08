"""Who wrote what stands in a replica's log: an idempotent producer's batches are there once each, in order.

In log order, within one producer id: the epoch never decreases; within one epoch each batch begins where the
one before it ended (sequences wrap behind 2^31 - 1); a new epoch begins at 0 (KIP-98). The first batch of a
producer in a log that still has its beginning should be number 0 as well, but Kafka's leader lets a producer
that it does not know begin anywhere, so that one is counted.
"""

from __future__ import annotations

from typing import NamedTuple

from .history import Batch, Function, Key
from .index import Index
from .verdict import Findings, Kind, Severity, show_key

SEQUENCES = 2**31


class _Place(NamedTuple):
    batch: Batch
    dump: int


def check_sequences(index: Index, findings: Findings) -> None:
    replicas: dict[tuple[str, Key], list[_Place]] = {}
    starts: dict[tuple[str, Key], int] = {}
    for number, operation in enumerate(index.operations):
        if operation.f is Function.DUMP and operation.key is not None:
            place = (operation.process, operation.key)
            replicas.setdefault(place, []).extend(_Place(batch, number) for batch in operation.batches)
            starts[place] = max(starts.get(place, 0), operation.log_start_offset or 0)
    for place, batches in replicas.items():
        batches.sort(key=lambda found: found.batch.base_offset)
        _check_replica(place[0], place[1], batches, starts[place], findings)


def _check_replica(
    replica: str, key: Key, batches: list[_Place], log_start_offset: int, findings: Findings
) -> None:
    last: dict[int, _Place] = {}
    for found in batches:
        batch = found.batch
        if batch.producer_id < 0 or batch.base_sequence < 0:  # A marker has a producer and no sequence.
            continue
        before = last.get(batch.producer_id)
        last[batch.producer_id] = found
        kind, severity = Kind.PRODUCER_SEQUENCE, Severity.BAD
        if before is None:
            expected = 0 if log_start_offset == 0 else batch.base_sequence
            severity = Severity.COUNTED
        elif batch.producer_epoch == before.batch.producer_epoch:
            expected = (before.batch.base_sequence + before.batch.record_count) % SEQUENCES
        elif batch.producer_epoch > before.batch.producer_epoch:
            expected = 0
        else:
            kind, expected = Kind.PRODUCER_EPOCH, batch.base_sequence
        if kind is Kind.PRODUCER_SEQUENCE and batch.base_sequence == expected:
            continue
        what = (
            f"epoch {batch.producer_epoch} after a higher one"
            if kind is Kind.PRODUCER_EPOCH
            else f"sequence {batch.base_sequence} of epoch {batch.producer_epoch} where {expected} was due"
        )
        findings.add(
            kind,
            f"{replica} has at offset {batch.base_offset} of {show_key(key)} producer "
            f"{batch.producer_id}'s {what}",
            key=key,
            severity=severity,
            offsets=(batch.base_offset, *(() if before is None else (before.batch.base_offset,))),
            about=(found.dump, found.dump if before is None else before.dump),
        )
