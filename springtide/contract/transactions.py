"""What leaders and coordinators tell the controller of transactions: for people, and for two alarms. No
client's transaction is decided by it, and neither side stores it.

A transaction *lingers* when its coordinator should have ended it: that coordinator tells. It *hangs* when a
partition holds it open and no coordinator has it, so that nothing will ever end it. The controller finds
those with a question: it names what leaders report as open for long (`Suspect`), and coordinators say which
of those they have. A coordinator has a transaction before the first record of it is written, and until the
last marker is: one that is open before and after every shard has denied it hangs, whatever clocks say.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Of one partition: those with the lowest first offsets, of which the first holds the last stable offset.
OPEN_TOLD_MAX: Final = 5
#: In one heartbeat, of all that a coordinator has: the oldest.
LINGERING_TOLD_MAX: Final = 50
#: In one answer to a heartbeat.
SUSPECTS_ASKED_MAX: Final = 100
#: Transactions with longer ids are not told of: Kafka takes ids of 32 KiB.
TRANSACTIONAL_ID_CHARS_MAX: Final = 1_000
#: A transaction lingers when it is older than its timeout by so much: coordinators look every ten seconds.
LINGERS_AFTER_TIMEOUT_MS: Final = 60_000


class OpenTransaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A transaction that is open in a partition. open_ms: for how long, as far as this leader knows."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    open_ms: int


class OpenTransactions(msgspec.Struct, frozen=True, array_like=True):
    """The transactions that are open in one partition. last_stable_offset: where readers of committed records
    wait. oldest: by first offset, at most OPEN_TOLD_MAX of `count`."""

    last_stable_offset: int
    count: int
    oldest: tuple[OpenTransaction, ...]


class Suspect(msgspec.Struct, frozen=True, order=True, gc=False):
    """A transaction that has been open in a partition for long. first_offset: which one of the producer's: it
    comes back as it was asked for."""

    producer_id: int
    topic: str
    partition: int
    first_offset: int


class LingeringTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that is older than its timeout by more than LINGERS_AFTER_TIMEOUT_MS.

    state: Kafka's, such as `Ongoing` or `PrepareAbort`. since_ms: Unix time. partitions: that it is open in.
    client_id, client_host: of its producer; "": not known, as after the coordinator has changed.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    since_ms: int
    timeout_ms: int
    partitions: int
    client_id: str = ""
    client_host: str = ""


class TransactionNews(msgspec.Struct, frozen=True, kw_only=True):
    """lingering: all that there are now, at most LINGERING_TOLD_MAX.

    checked: the suspects of the last answer. held: those of them that this coordinator has in a transaction
    that is not complete. shards: those that it has looked into, partitions of `__transaction_state`.
    """

    lingering: tuple[LingeringTransaction, ...] = ()
    checked: tuple[Suspect, ...] = ()
    held: tuple[Suspect, ...] = ()
    shards: tuple[int, ...] = ()
