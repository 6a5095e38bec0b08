"""What must hold of what was read. Pure.

Bills: each order has exactly one. A bill names the order that it is for by partition and offset.

The bank: a branch is a partition to which one teller writes, in one transaction after the other. So whenever
a reader of committed records reaches the end of a branch it has seen whole transactions only, and what its
transfers moved comes to nothing. A transfer to another branch is in two partitions: a reader may see one half
before the other, and at the end both. A teller marks what it is going to abort: nobody may read that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

Place = tuple[int, int]
"""Partition and offset."""
SHOWN_MAX = 5


class Bills(NamedTuple):
    missing: list[Place]
    doubled: list[Place]
    unfounded: list[Place]


def judge_bills(orders: Collection[Place], bills: Iterable[Place]) -> Bills:
    """orders: every one that a reader of committed records is given."""
    counts = Counter(bills)
    ordered = set(orders)
    return Bills(
        missing=sorted(ordered - counts.keys()),
        doubled=sorted(place for place, count in counts.items() if count > 1),
        unfounded=sorted(counts.keys() - ordered),
    )


class Leg(msgspec.Struct, frozen=True):
    """Half of a transfer, as a record. is_doomed: its transaction is going to be aborted. is_abroad: the
    other half is in another partition."""

    transfer: str
    amount: int
    is_doomed: bool = False
    is_abroad: bool = False


class Book:
    """What one reader has seen, from the beginning on. failures: one line each."""

    def __init__(self, reader: str) -> None:
        self.failures: list[str] = []
        self.ends = 0
        """How often it reached an end of a branch."""
        self.transfers: set[str] = set()
        self._reader = reader
        self._totals: Counter[int] = Counter()
        self._halves: dict[str, int] = {}
        self._seen: set[tuple[str, int, int]] = set()

    def read(self, partition: int, offset: int, leg: Leg) -> None:
        if leg.is_doomed:
            self._fail(f"was given {partition}/{offset} of {leg.transfer}, which was aborted")
        identity = (leg.transfer, partition, leg.amount)
        if identity in self._seen:
            self._fail(f"was given half of {leg.transfer} again, at {partition}/{offset}")
            return
        self._seen.add(identity)
        self.transfers.add(leg.transfer)
        if leg.is_abroad:
            self._halves[leg.transfer] = self._halves.get(leg.transfer, 0) + leg.amount
        else:
            self._totals[partition] += leg.amount

    def reached_end(self, partition: int, offset: int) -> None:
        """The reader was told that nothing committed follows in this branch."""
        self.ends += 1
        if self._totals[partition]:
            self._fail(f"at the end {offset} of branch {partition} {self._totals[partition]} are missing")
            self._totals[partition] = 0  # Said once.

    def close(self, answered: Iterable[str]) -> None:
        """Nothing is written any more, and the reader has reached every end. answered: transfers whose commit
        was answered."""
        torn = sorted(transfer for transfer, amount in self._halves.items() if amount)
        if torn:
            self._fail(f"{len(torn)} transfers between branches are torn: {', '.join(torn[:SHOWN_MAX])}")
        lost = sorted(set(answered) - self.transfers)
        if lost:
            self._fail(f"{len(lost)} committed transfers are missing: {', '.join(lost[:SHOWN_MAX])}")

    def _fail(self, what: str) -> None:
        self.failures.append(f"{self._reader} {what}")
