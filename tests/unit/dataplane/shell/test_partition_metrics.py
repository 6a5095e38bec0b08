"""What metrics tell of transactions that are open for too long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dataplane.core.leader import Leader
from dataplane.shell.partition_metrics import LATE_MS, collect_partitions
from springtide.contract.transactions import OpenTransaction, OpenTransactions


class Led(Leader):
    """A leadership with transactions open for so long."""

    def __init__(self, *open_ms: int) -> None:  # no replica is behind it
        self._open_ms = open_ms

    def open_transactions(self, now_ms: int) -> OpenTransactions | None:
        oldest = tuple(OpenTransaction(7, 0, 5, now_ms - 1_000 + one) for one in self._open_ms)
        return OpenTransactions(5, len(oldest), oldest) if oldest else None


def hosted(*open_ms: int) -> Any:
    replica = SimpleNamespace(role=Led(*open_ms), state=None, high_watermark=9)
    log = SimpleNamespace(size_bytes=1, log_start_offset=0, log_end_offset=9)
    return SimpleNamespace(
        topic="orders", partition=0, replica=replica, log=log, bytes_in=0, bytes_out=0, messages_in=0
    )


def test_partitions_with_a_transaction_that_is_open_for_too_long_are_counted() -> None:
    table = [hosted(), hosted(LATE_MS), hosted(1, LATE_MS + 1), hosted(LATE_MS + 2, LATE_MS + 3)]
    told = {
        sample.name: sample.value
        for family in collect_partitions(table, now_ms=1_000)
        for sample in family.samples
    }
    assert told["kafka_server_replicamanager_partitionswithlatetransactionscount"] == 2
