"""What a goal lets be moved, and how long may be searched for it."""

from __future__ import annotations

from typing import NamedTuple

from controller.core.planning.layout import Layout


class Freedom(NamedTuple):
    """donors: may give up replicas that they had. receivers: may be given some. Whatever the plan itself has
    placed may always move on, and a donor may have back what it had."""

    donors: frozenset[int]
    receivers: frozenset[int]

    @property
    def brokers(self) -> list[int]:
        return sorted(self.donors | self.receivers)

    def may_leave(self, layout: Layout, number: int, broker: int) -> bool:
        if number in layout.locked:
            return False
        return broker in self.donors or layout.is_newcomer(number, broker)

    def may_receive(self, layout: Layout, number: int, broker: int) -> bool:
        return broker in self.receivers or (broker in self.donors and broker in layout.original[number])


class Effort:
    """A bound on a search, counted in looks and not in seconds, so that a plan is the same everywhere."""

    __slots__ = ("left",)

    def __init__(self, looks_max: int) -> None:
        self.left = looks_max

    def spend(self, looks: int) -> bool:
        """False: there is nothing left to spend."""
        self.left -= looks
        return self.left >= 0
