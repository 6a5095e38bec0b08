"""What a search by weights may change: the rules of placement, the room on disks, who gives and receives."""

from __future__ import annotations

from controller.core.planning.layout import Freedom, Layout


class Permits:
    """receives: brokers that a replica may come to, by number, if the other rules agree."""

    __slots__ = ("_free", "_freedom", "_keeps_counts", "_layout", "receives")

    def __init__(self, layout: Layout, freedom: Freedom | None) -> None:
        """freedom: within it, numbers of replicas get no less even; with None they may, and each broker may
        give."""
        all_brokers = frozenset(range(len(layout.broker_ids)))
        self._layout = layout
        self._keeps_counts = freedom is not None
        self._freedom = freedom or Freedom(all_brokers, layout.takers)
        brokers = frozenset(self._freedom.brokers)
        self.receives = [
            gives and serves and broker in brokers
            for broker, (gives, serves) in enumerate(zip(layout.gives, layout.serves, strict=True))
        ]
        self._free = [
            number not in layout.locked and set(partition.replicas) <= set(partition.isr)
            for number, partition in enumerate(layout.partitions)
        ]

    def may_leave(self, number: int, source: int) -> bool:
        return self._free[number] and self._freedom.may_leave(self._layout, number, source)

    def may_move(self, number: int, source: int, target: int, *, leads: bool = False) -> bool:
        """Return whether the replica (`leads`: the leadership) may go there, if it may leave; what it copies
        is not checked."""
        layout = self._layout
        if leads:
            return layout.leads[target]
        if self._keeps_counts and layout.load[target] >= layout.load[source]:
            return False
        return self.may_trade(number, source, target)

    def may_trade(self, number: int, source: int, target: int) -> bool:
        """The same, if another replica comes back for it."""
        layout = self._layout
        if not layout.is_as_apart(number, source, target):
            return False
        if layout.replicas[number][0] == source and not layout.leads[target]:
            return False
        return self._freedom.may_receive(layout, number, target) and layout.fits(number, target)

    def may_stay(self, brokers: list[int]) -> bool:
        """Return whether what these brokers hold now fits on their disks."""
        layout = self._layout
        rooms = ((layout.room[broker], layout.coming[broker]) for broker in brokers)
        return all(room is None or coming <= max(room, 0) for room, coming in rooms)
