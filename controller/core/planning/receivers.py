"""The next replica's broker: the least loaded one among those that keep it furthest from the others.

Brokers wait in a queue per rack, and racks in a queue by their first broker, so that a choice looks at a few
of each and not at all brokers. Queues are set right when they are looked at: a load that rose is noticed
always, one that fell perhaps late, which costs some evenness that balance.py makes good.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence

from controller.core.planning.layout import Layout

#: Replicas, bytes, broker: who is lowest comes first.
_Rank = tuple[int, int, int]


class Receivers:
    __slots__ = ("_brokers", "_in_rack", "_layout", "_racks")

    def __init__(self, layout: Layout, brokers: Iterable[int]) -> None:
        self._layout = layout
        self._brokers = sorted(brokers)
        self._in_rack: dict[int, list[_Rank]] = {}
        for broker in self._brokers:
            self._in_rack.setdefault(layout.rack[broker], []).append(self._rank(broker))
        for queue in self._in_rack.values():
            heapq.heapify(queue)
        self._racks = [(queue[0], rack) for rack, queue in self._in_rack.items()]
        heapq.heapify(self._racks)

    def _rank(self, broker: int) -> _Rank:
        return self._layout.load[broker], self._layout.stored[broker], broker

    def choose(self, number: int, others: Sequence[int], *, besides: int = -1) -> int | None:
        """Return a broker for a partition on `others`; None if none has room but these and `besides`."""
        layout = self._layout
        racks = [layout.rack[b] for b in others]
        found = self._in_another_rack(number, racks, besides)
        if found is not None:
            return found
        hosts = {layout.host[b] for b in others}
        for count in sorted({racks.count(rack) for rack in racks}):
            tops = [
                top
                for rack in sorted(set(racks))
                if racks.count(rack) == count
                and (top := self._first(number, rack, lambda b: b != besides and layout.host[b] not in hosts))
            ]
            if tops:
                return min(tops)[2]
        left = [
            b
            for b in self._brokers
            if b != besides and not layout.is_barred(others, b) and layout.fits(number, b)
        ]
        if not left:
            return None
        return min(left, key=lambda b: (layout.crowding(others, b), self._rank(b)))

    def _in_another_rack(self, number: int, racks: Collection[int], besides: int) -> int | None:
        """The least loaded of all that share no rack with the partition."""
        passed = []
        found = None
        while self._racks and found is None:
            stored, rack = heapq.heappop(self._racks)
            if rack in racks:
                passed.append((stored, rack))
                continue
            top = self._first(number, rack, lambda b: b != besides)
            if top is None:
                passed.append((stored, rack))
            elif top > stored:
                heapq.heappush(self._racks, (top, rack))
            else:
                passed.append((top, rack))
                found = top[2]
        for entry in passed:
            heapq.heappush(self._racks, entry)
        return found

    def _first(self, number: int, rack: int, is_allowed: Callable[[int], bool]) -> _Rank | None:
        queue = self._in_rack.get(rack, [])
        passed = []
        found = None
        while queue and found is None:
            entry = heapq.heappop(queue)
            broker = entry[2]
            if entry != (rank := self._rank(broker)):
                heapq.heappush(queue, rank)
                continue
            passed.append(entry)
            if is_allowed(broker) and self._layout.fits(number, broker):
                found = entry
        for entry in passed:
            heapq.heappush(queue, entry)
        return found
