"""The options of transactions, and the bounds on what clients may keep in memory."""

from __future__ import annotations

from dataclasses import dataclass

STRING_BYTES_MAX = 32_767
"""Of a transactional id, as of a group's."""
TRANSACTION_BYTES_MAX = 500_000
"""What the record of a transaction takes: it must fit into one batch of a coordinator topic."""
HELD_MS_MAX = {1: 500, 2: 20}
"""How long an addition waits for the markers of the end before, by version. A producer of version 1 asks over
a connection of its own; of version 2 a leader does, for others with it, and asks again soon."""
ENDS_PER_STEP = 500
"""Transactions that one look for overdue ones ends."""
EXPIRY_KEYS_PER_STEP = 5_000
EXPIRED_PER_STEP = 1_000
"""Transactional ids looked at, and tombstones written, by one step of the expiry: the loop must not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOptions:
    """Kafka's options under Kafka's names, and two bounds that Kafka lacks.

    timeout_ms_max: transaction.max.timeout.ms.
    timeout_check_ms: transaction.abort.timed.out.transaction.cleanup.interval.ms.
    expiration_ms: transactional.id.expiration.ms.
    expiration_check_ms: transaction.remove.expired.transaction.cleanup.interval.ms.
    ids_max: transactional ids of a shard. A client with a new one is told COORDINATOR_LOAD_IN_PROGRESS, tries
        again, and gets through when others have expired.
    partitions_max: partitions in all transactions of a shard; likewise.
    """

    timeout_ms_max: int = 15 * 60_000
    timeout_check_ms: int = 10_000
    expiration_ms: int = 7 * 24 * 60 * 60_000
    expiration_check_ms: int = 60 * 60_000
    ids_max: int = 200_000
    partitions_max: int = 500_000
