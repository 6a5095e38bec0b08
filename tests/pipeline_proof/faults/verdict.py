"""Whether each record is there once and in order. Pure.

A record is (source partition, index). Rows of one source partition are written by one task after another in
the order of their indexes, so in each partition that they were written to their indexes must rise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Record = tuple[int, int]


class Verdict(NamedTuple):
    """Numbers of records; `strange`: those that nobody wrote."""

    records: int
    missing: int
    duplicates: int
    inversions: int
    strange: int

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.duplicates or self.inversions or self.strange)


def judge(wanted: Mapping[int, int], stored: Iterable[Sequence[Record]]) -> Verdict:
    """wanted: by source partition, how many records (indexes from 0). stored: by partition, in log order.

    Every copy but the first counts as a duplicate; every record that follows a later one of its source in its
    partition counts as an inversion, duplicates among them too.
    """
    copies: Counter[Record] = Counter()
    inversions = 0
    for log in stored:
        copies.update(log)
        by_source: dict[int, list[int]] = {}
        for source, index in log:
            by_source.setdefault(source, []).append(index)
        inversions += sum(
            later < earlier for indexes in by_source.values() for earlier, later in pairwise(indexes)
        )
    whole = {(source, index) for source, count in wanted.items() for index in range(count)}
    known = whole & copies.keys()
    return Verdict(
        records=len(whole),
        missing=len(whole) - len(known),
        duplicates=sum(copies[record] - 1 for record in known),
        inversions=inversions,
        strange=sum(times for record, times in copies.items() if record not in whole),
    )
