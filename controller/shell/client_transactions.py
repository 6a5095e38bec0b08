"""Transactions as their coordinators and partitions' leaders tell of them: the port through which REST asks
for them and ends them. The controller keeps none of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from controller.shell.client_groups import Place

#: States in which a transaction is not over, in the words of `TransactionListing.state`.
LIVE: Final = ("ongoing", "prepare_commit", "prepare_abort", "prepare_epoch_fence")
STATES: Final = (*LIVE, "complete_commit", "complete_abort", "empty", "dead")


class TransactionAbsent(Exception):
    """The coordinator knows no such transactional id, or the leader no such producer."""


class TransactionChanged(Exception):
    """It is not the transaction that was seen: another producer or epoch is there by now. Nothing was
    changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionListing:
    """One transactional id. state: Kafka's, in small letters, one of STATES or `unknown`. started_ms: Unix
    time; None, as timeout_ms: no transaction is live, or its coordinator was not asked for it. partitions:
    those in which it is not ended yet. client_id, client_host: of its producer; None: not known."""

    transactional_id: str
    producer_id: int
    state: str
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None
    partitions: tuple[Place, ...] = ()
    client_id: str | None = None
    client_host: str | None = None

    @property
    def is_live(self) -> bool:
        return self.state in LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionDetail(TransactionListing):
    """coordinator_id, endpoint: of the coordinator that answered."""

    producer_epoch: int
    timeout_ms: int
    coordinator_id: int
    endpoint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenProducer:
    """A producer with an open transaction in a partition. coordinator_epoch: of its last marker there; -1:
    there was none. last_timestamp_ms: of its newest record; None: not known."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_timestamp_ms: int | None


class ClientTransactions(Protocol):
    """Each call is bounded in time, and raises GroupsUnavailable and UnknownCluster. A write raises
    TransactionChanged, and OutcomeUnknown if the answer was lost."""

    async def listed(
        self, cluster: str, *, producer_ids: Iterable[int] = ()
    ) -> tuple[list[TransactionListing], list[str]]:
        """Return the transactional ids, or those of these producers, and why coordinators did not answer
        whose ids are therefore missing. Of many that are live only some are told with their details."""
        ...

    async def described(self, cluster: str, transactional_id: str) -> TransactionDetail:
        """Raise TransactionAbsent."""
        ...

    async def fence(self, cluster: str, seen: TransactionDetail) -> None:
        """Abort the transaction that was seen and fence its producer, as Kafka's Admin.fenceProducers does:
        on return the coordinator has begun to, or must be asked again."""
        ...

    async def open_producers(self, cluster: str, place: Place) -> list[OpenProducer]:
        """Return what a partition's leader holds open."""
        ...

    async def write_abort(self, cluster: str, place: Place, seen: OpenProducer) -> None:
        """Have a partition's leader end what it holds open as aborted, as `kafka-transactions abort` does.
        Only for a transaction that no coordinator has."""
        ...
