"""Which producer identity a record was written under, by the batch headers in the dumps.

The brokers' promise of idempotence is for one producer id and epoch (KIP-98). A client that lost track of its
sequences takes a new epoch, and sends again under it what it has no answer for: librdkafka does so after
OUT_OF_ORDER_SEQUENCE_NUMBER and after a record that it had to give up. No broker can know that such a record
is not new. The dumps tell the two apart: a repeat under one identity was let in, one under another was sent.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from .history import Function, Key
from .index import Index


class Identity(NamedTuple):
    producer_id: int
    producer_epoch: int


class _Run(NamedTuple):
    base_offset: int
    next_offset: int
    identity: Identity


class Identities:
    """Of all partitions that were dumped with their batch headers."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._runs: dict[Key, list[_Run]] = {}
        self._writers: dict[Key, dict[Identity, set[str]]] = {}
        found: dict[Key, set[_Run]] = {}
        for operation in index.operations:
            if operation.f is Function.DUMP and operation.key is not None:
                found.setdefault(operation.key, set()).update(
                    _Run(
                        batch.base_offset,
                        batch.base_offset + batch.record_count,
                        Identity(batch.producer_id, batch.producer_epoch),
                    )
                    for batch in operation.batches
                )
        for key, runs in found.items():
            self._runs[key] = sorted(runs)

    def at(self, key: Key, offset: int) -> Identity | None:
        """Return the identity at the offset; None where no dump has it, where replicas differ, and without an
        idempotent producer."""
        runs = self._runs.get(key, [])
        position = bisect_right(runs, offset, key=lambda run: run.base_offset)
        told = {run.identity for run in runs[max(0, position - 2) : position] if offset < run.next_offset}
        if len(told) != 1:
            return None
        (identity,) = told
        return identity if identity.producer_id >= 0 else None

    def were_sent_again(self, key: Key, offsets: list[int], process: str) -> bool:
        """Whether each of these copies was written under an identity of its own, all of them this client's:
        then the client sent the record more than once, as something new."""
        identities = [self.at(key, offset) for offset in offsets]
        if None in identities or len(set(identities)) < len(identities):
            return False
        writers = self._writers_of(key)
        return all(identity is not None and writers[identity] <= {process} for identity in identities)

    def _writers_of(self, key: Key) -> dict[Identity, set[str]]:
        """Whose records were read from where each identity stands."""
        known = self._writers.get(key)
        if known is None:
            log = self._index.logs[key]
            known = self._writers[key] = {run.identity: set() for run in self._runs[key]}
            for run in self._runs[key]:
                for offset in range(run.base_offset, run.next_offset):
                    value = log.read.get(offset)
                    writer = None if value is None else log.sent.get(value)
                    if writer is not None:
                        known[run.identity].add(self._index.operations[writer].process)
        return known
