"""What the controller is told of transactions: those that linger, and which of its suspects this coordinator
has. A suspect is had as long as an open transaction of its producer, in either view, has its partition: until
all markers are written, not only its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from typing import Final

from coordinator.core.transaction_records import StoredTransaction, TransactionPartition
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.requests import NO_CLIENT
from coordinator.core.transactions.state import is_open
from springtide.contract.session import HeartbeatResponse
from springtide.contract.transactions import (
    LINGERING_TOLD_MAX,
    LINGERS_AFTER_TIMEOUT_MS,
    TRANSACTIONAL_ID_CHARS_MAX,
    LingeringTransaction,
    Suspect,
    TransactionNews,
)

#: There may be a hundred thousand open transactions, and a heartbeat is sent each half second.
LOOK_MS: Final = 5_000


class NewsOfTransactions:
    """machines: of the shards that are served now, by number."""

    def __init__(self, machines: Callable[[], Mapping[int, TransactionMachine]]) -> None:
        self._machines = machines
        self._suspects: tuple[Suspect, ...] = ()
        self._lingering: tuple[LingeringTransaction, ...] = ()
        self._look_at_ms = 0

    def take(self, now_ms: int, wall_ms: int) -> TransactionNews | None:
        """Return what the next heartbeat tells; None if that is nothing. now_ms: monotonic."""
        machines = self._machines()
        if now_ms >= self._look_at_ms:
            self._look_at_ms = now_ms + LOOK_MS
            self._lingering = _lingering(machines, wall_ms)
        checked, self._suspects = self._suspects, ()
        if not checked and not self._lingering:
            return None
        return TransactionNews(
            lingering=self._lingering,
            checked=checked,
            held=_held(machines, checked),
            shards=tuple(machines) if checked else (),
        )

    def on_heartbeat(self, response: HeartbeatResponse) -> None:
        """Take in what the controller asks for."""
        self._suspects = response.suspects


def _lingering(machines: Mapping[int, TransactionMachine], wall_ms: int) -> tuple[LingeringTransaction, ...]:
    found = (
        (transactional_id, stored, machine.registry)
        for machine in machines.values()
        for transactional_id in machine.registry.store.open_ids()
        if (stored := machine.registry.store.latest(transactional_id)) is not None
        and is_open(stored)
        and wall_ms - stored.started_ms > stored.timeout_ms + LINGERS_AFTER_TIMEOUT_MS
        and len(transactional_id) <= TRANSACTIONAL_ID_CHARS_MAX
    )
    oldest = nsmallest(LINGERING_TOLD_MAX, found, key=lambda one: (one[1].started_ms, one[0]))
    return tuple(
        LingeringTransaction(
            transactional_id=transactional_id,
            producer_id=stored.producer_id,
            producer_epoch=stored.producer_epoch,
            state=stored.state.title,
            since_ms=stored.started_ms,
            timeout_ms=stored.timeout_ms,
            partitions=len(registry.unmarked(transactional_id, stored)),
            client_id=registry.clients.get(transactional_id, NO_CLIENT).client_id,
            client_host=registry.clients.get(transactional_id, NO_CLIENT).host,
        )
        for transactional_id, stored, registry in oldest
    )


def _held(machines: Mapping[int, TransactionMachine], suspects: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    if not suspects:
        return ()
    producers = {suspect.producer_id for suspect in suspects}
    held: dict[int, set[TransactionPartition]] = {}
    for stored in _open(machines):
        if stored.producer_id in producers:
            held.setdefault(stored.producer_id, set()).update(stored.partitions)
    return tuple(
        suspect
        for suspect in suspects
        if TransactionPartition(suspect.topic, suspect.partition) in held.get(suspect.producer_id, ())
    )


def _open(machines: Mapping[int, TransactionMachine]) -> Iterator[StoredTransaction]:
    for machine in machines.values():
        store = machine.registry.store
        for transactional_id in store.open_ids():
            for stored in (store.latest(transactional_id), store.committed(transactional_id)):
                if stored is not None and is_open(stored):
                    yield stored
