"""What heartbeats tell the controller of transactions: those that linger, and which of its suspects are here
(springtide/contract/transactions.py says what both mean)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from coordinator.core.transaction_records import NO_TIME, StoredTransaction, TransactionPartition
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.registry import Registry
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

LOOK_MS: Final = 5_000
"""Between two looks at all transactions that are open: a microsecond each."""


class NewsOfTransactions:
    """machines: of the shards that are served now, by shard. wall_ms: Unix time."""

    def __init__(
        self, machines: Callable[[], Mapping[int, TransactionMachine]], wall_ms: Callable[[], int]
    ) -> None:
        self._machines = machines
        self._wall_ms = wall_ms
        self._looked_ms = -LOOK_MS
        self._lingering: tuple[LingeringTransaction, ...] = ()
        self._suspects: tuple[Suspect, ...] = ()

    def take(self) -> TransactionNews | None:
        """Return what the next heartbeat tells; None if that is nothing."""
        machines, wall_ms = self._machines(), self._wall_ms()
        if abs(wall_ms - self._looked_ms) >= LOOK_MS:
            self._looked_ms = wall_ms
            self._lingering = _lingering(machines, wall_ms)
        if not self._lingering and not self._suspects:
            return None
        return TransactionNews(
            lingering=self._lingering,
            checked=self._suspects,
            held=_held(machines, self._suspects) if self._suspects else (),
            shards=tuple(machines) if self._suspects else (),
        )

    def on_heartbeat(self, response: HeartbeatResponse, *, sent_ms: int, now_ms: int) -> None:
        """Take in what the controller asks."""
        self._suspects = response.suspects


def _open_in(registry: Registry) -> Iterator[tuple[str, StoredTransaction]]:
    """Yield what is open in either view: a record that is under way may be refused."""
    for transactional_id in registry.store.open_ids():
        latest = registry.store.latest(transactional_id)
        committed = registry.store.committed(transactional_id)
        for stored in (committed,) if committed is latest else (committed, latest):
            if stored is not None and is_open(stored):
                yield transactional_id, stored


def _held(machines: Mapping[int, TransactionMachine], suspects: tuple[Suspect, ...]) -> tuple[Suspect, ...]:
    asked: dict[int, list[Suspect]] = {}
    for suspect in suspects:
        asked.setdefault(suspect.producer_id, []).append(suspect)
    held: dict[Suspect, None] = {}
    for machine in machines.values():
        for _, stored in _open_in(machine.registry):
            for suspect in asked.get(stored.producer_id, ()):
                if TransactionPartition(suspect.topic, suspect.partition) in stored.partitions:
                    held[suspect] = None
    return tuple(held)


def _lingering(machines: Mapping[int, TransactionMachine], wall_ms: int) -> tuple[LingeringTransaction, ...]:
    """Return those that have been open for longest, the oldest first."""
    found: dict[str, LingeringTransaction] = {}
    for machine in machines.values():
        for transactional_id, stored in _open_in(machine.registry):
            open_ms = wall_ms - stored.started_ms
            lingers = open_ms > stored.timeout_ms + LINGERS_AFTER_TIMEOUT_MS and stored.started_ms != NO_TIME
            if lingers and len(transactional_id) <= TRANSACTIONAL_ID_CHARS_MAX:
                found[transactional_id] = LingeringTransaction(
                    transactional_id=transactional_id,
                    producer_id=stored.producer_id,
                    producer_epoch=stored.producer_epoch,
                    state=stored.state.title,
                    since_ms=stored.started_ms,
                    timeout_ms=stored.timeout_ms,
                    partitions=len(machine.registry.unmarked(transactional_id, stored)),
                )
    oldest = sorted(found.values(), key=lambda one: (one.since_ms, one.transactional_id))
    return tuple(oldest[:LINGERING_TOLD_MAX])
