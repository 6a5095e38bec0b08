"""Faults that last: what each disturbs, when it ends, and how it ends.

A fault's end belongs to the fault, not to whoever drew it: taking one strike out of a schedule leaves the
ends of all others where they were. Two that overlap end one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from tests.simulation.events import MS, Events, Timer


@dataclass(slots=True, eq=False)
class Ongoing:
    """`nodes`: names of those it disturbs; empty when everybody is disturbed."""

    nodes: frozenset[str]
    end: Callable[[], None]
    ends_ns: int = 0
    timer: Timer | None = None


class OngoingFaults:
    """Those that have begun and not ended, in the order in which they began."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._ongoing: list[Ongoing] = []
        self._pending: list[Timer] = []
        self._since_ns = 0
        self._lasted_ns = 0

    def __len__(self) -> int:
        return len(self._ongoing)

    @property
    def lasted_ms(self) -> int:
        """For how long at least one of them has been going on, all in all."""
        lasting_ns = self._events.now_ns - self._since_ns if self._ongoing else 0
        return (self._lasted_ns + lasting_ns) // MS

    @property
    def last_end_ms(self) -> int:
        """When the last of them ends."""
        return max((fault.ends_ns for fault in self._ongoing), default=0) // MS + 1

    def _note_end(self) -> None:
        """One has just ended."""
        if not self._ongoing:
            self._lasted_ns += self._events.now_ns - self._since_ns

    def begin(self, *, nodes: Collection[str], for_ms: float, end: Callable[[], None]) -> None:
        """Something that began just now and ends, by `end`, after `for_ms`."""
        fault = Ongoing(frozenset(nodes), end)

        def ends() -> None:
            self._ongoing.remove(fault)
            self._note_end()
            fault.end()

        fault.ends_ns = self._events.now_ns + int(for_ms * MS)
        fault.timer = self._events.after(for_ms, ends)
        if not self._ongoing:
            self._since_ns = self._events.now_ns
        self._ongoing.append(fault)

    def later(self, after_ms: float, strike: Callable[[], object]) -> None:
        """The second part of a fault, which strikes after a while unless all is healed before."""

        def strikes() -> None:
            self._pending.remove(timer)
            strike()

        timer = self._events.after(after_ms, strikes)
        self._pending.append(timer)

    def end_all(self) -> None:
        self.end_within(None)

    def end_within(self, core: Collection[str] | None) -> None:
        """End what disturbs nobody outside `core` (None: end all), and make the rest permanent."""
        for timer in self._pending:
            timer.cancel()
        self._pending.clear()
        ongoing, self._ongoing = self._ongoing, []
        for fault in ongoing:
            if fault.timer is not None:
                fault.timer.cancel()
                fault.timer = None
            if core is None or fault.nodes <= frozenset(core):
                fault.end()
            else:
                self._ongoing.append(fault)
        if ongoing:
            self._note_end()
