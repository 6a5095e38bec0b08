"""Which replicas leave, when there are fewer receivers than a partition has replicas: a receiver takes one
replica of a partition at most, so the smallest of one broker and the smallest of the next may be the same
partition.

Sets of replicas that donors can give together are the independent sets of a matroid (partitions matched to
donors, each donor as often as it has to give). So taking partitions from the smallest up, whenever the match
can be rearranged to let one in, gives the least bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controller.core.planning.layout import Effort, Layout


def select(
    layout: Layout, offers: Mapping[int, Iterable[int]], owed: Mapping[int, int], each: int, effort: Effort
) -> list[tuple[int, int]]:
    """Partition and donor of each replica that is to leave. offers: what each donor can give. owed: how many
    it has to. each: how many replicas of one partition may leave together."""
    match = _Match(offers, owed)
    left = sum(owed.values())
    for number in sorted(match.donors_of, key=lambda number: (layout.size[number], number)):
        for _ in range(each):
            if left == 0 or effort.left <= 0:
                return match.pairs()
            if not match.let_in(number, effort):
                break
            left -= 1
    return match.pairs()


class _Match:
    """Partitions matched to donors. A search for room goes from donor to donor, of which there are few, and
    not from partition to partition: large clusters have a hundred thousand of these to each of those.

    ways: of two donors, the partitions matched to the first that the second could give instead.
    closed: donors from which no room is reached any more.
    """

    def __init__(self, offers: Mapping[int, Iterable[int]], owed: Mapping[int, int]) -> None:
        self.donors_of: dict[int, list[int]] = {}
        donors = sorted(owed)
        for donor in donors:
            for number in offers[donor]:
                self.donors_of.setdefault(number, []).append(donor)
        self._owed = owed
        self._matched: dict[int, dict[int, None]] = {donor: {} for donor in donors}
        self._ways: dict[int, dict[int, dict[int, None]]] = {
            donor: {other: {} for other in donors if other != donor} for donor in donors
        }
        self._closed: set[int] = set()

    def pairs(self) -> list[tuple[int, int]]:
        return [(number, donor) for donor, numbers in self._matched.items() for number in numbers]

    def let_in(self, number: int, effort: Effort) -> bool:
        """Match one more replica of a partition, moving others from donor to donor where that makes room."""
        #: donor -> the partition that would move to it, and from which donor
        came: dict[int, tuple[int, int]] = {}
        for donor in self.donors_of[number]:
            if number not in self._matched[donor] and donor not in self._closed:
                came[donor] = (number, -1)
        queue = list(came)
        for donor in queue:
            effort.spend(1)
            if len(self._matched[donor]) < self._owed[donor]:
                self._carry_out(came, donor)
                return True
            for further, numbers in self._ways[donor].items():
                if numbers and further not in came and further not in self._closed:
                    came[further] = (next(iter(numbers)), donor)
                    queue.append(further)
        self._closed.update(came)
        return False

    def _carry_out(self, came: Mapping[int, tuple[int, int]], at: int) -> None:
        while at >= 0:
            moving, before = came[at]
            if before >= 0:
                self._take(moving, before)
            self._put(moving, at)
            at = before

    def _put(self, number: int, donor: int) -> None:
        self._matched[donor][number] = None
        for other in self.donors_of[number]:
            if other != donor:
                if number in self._matched[other]:
                    del self._ways[other][donor][number]
                else:
                    self._ways[donor][other][number] = None

    def _take(self, number: int, donor: int) -> None:
        del self._matched[donor][number]
        for other in self.donors_of[number]:
            if other != donor:
                self._ways[donor][other].pop(number, None)
                if number in self._matched[other]:
                    self._ways[other][donor][number] = None
                    self._closed.clear()  # a way that was not there
