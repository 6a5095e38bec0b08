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
    donors_of: dict[int, list[int]] = {}
    for donor in sorted(owed):
        for number in offers[donor]:
            donors_of.setdefault(number, []).append(donor)
    matched: dict[int, dict[int, None]] = {donor: {} for donor in owed}
    left = sum(owed.values())
    for number in sorted(donors_of, key=lambda number: (layout.size[number], number)):
        for _ in range(each):
            if left == 0 or effort.left <= 0:
                break
            if not _let_in(number, donors_of, matched, owed, effort):
                break
            left -= 1
    return [(number, donor) for donor in sorted(matched) for number in matched[donor]]


def _let_in(
    number: int,
    donors_of: Mapping[int, list[int]],
    matched: dict[int, dict[int, None]],
    owed: Mapping[int, int],
    effort: Effort,
) -> bool:
    """Match one more replica of a partition, moving others from donor to donor where that makes room."""
    came: dict[
        int, tuple[int, int]
    ] = {}  # donor -> the partition that would move to it, and from which donor
    queue = []
    for donor in donors_of[number]:
        if number not in matched[donor]:
            came[donor] = (number, -1)
            queue.append(donor)
    for donor in queue:
        if len(matched[donor]) < owed[donor]:
            at = donor
            while at >= 0:
                moving, before = came[at]
                matched[at][moving] = None
                if before >= 0:
                    del matched[before][moving]
                at = before
            return True
        for other in matched[donor]:
            effort.spend(1)
            for further in donors_of[other]:
                if further not in came and other not in matched[further]:
                    came[further] = (other, donor)
                    queue.append(further)
    return False
