"""Replicas within one of each other, with the least bytes moved.

How many replicas each broker gives or gets follows from the counts alone: always from the fullest to the
emptiest until they are within one (`quotas`). What a broker gives are its smallest replicas; what those weigh
together is what no plan can undercut, and nearly always some broker can take each of them directly. Where
not, because a partition's replicas would come too close, others are tried, then chains over third brokers; in
small clusters exact.py then improves that until nothing is left to improve.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from controller.core.planning.layout import Effort, Freedom, Layout
from controller.core.planning.plan import MoveReason
from controller.core.planning.selection import select


class _Search(NamedTuple):
    """One search for moves: on which board, within which freedom, for how long, and why."""

    layout: Layout
    freedom: Freedom
    reason: MoveReason
    effort: Effort


class Quotas(NamedTuple):
    """gives, gets: replicas per broker. bytes: that must leave at least. loads: of each broker afterwards."""

    gives: dict[int, int]
    gets: dict[int, int]
    bytes: int
    loads: dict[int, int]


def quotas(
    loads: Mapping[int, int],
    freedom: Freedom,
    weights_of: Callable[[int], Iterator[int]],
    *,
    poured: int = 0,
) -> Quotas:
    """The fewest moves to the most even loads. weights_of: what a broker can give, cheapest first; of brokers
    equally full the one gives whose next replica is the cheapest, which makes the bytes least too.
    poured: replicas that come from elsewhere and are received first."""
    after = dict(loads)
    gives: dict[int, int] = {}
    gets: dict[int, int] = {}
    total_bytes = 0
    emptiest = [(after[b], b) for b in sorted(freedom.receivers)]
    heapq.heapify(emptiest)

    def receive() -> None:
        while emptiest[0][0] != after[emptiest[0][1]]:
            heapq.heappushpop(emptiest, (after[emptiest[0][1]], emptiest[0][1]))
        _, broker = emptiest[0]
        after[broker] += 1
        gets[broker] = gets.get(broker, 0) + 1
        heapq.heapreplace(emptiest, (after[broker], broker))

    if not emptiest:
        return Quotas({}, {}, 0, after)
    for _ in range(poured):
        receive()
    lowest = min(after[b] for b in freedom.receivers)
    givers: dict[int, Iterator[int]] = {}
    fullest: list[tuple[int, int, int]] = []
    for broker in sorted(freedom.donors):
        if after[broker] >= lowest + 2:
            givers[broker] = iter(weights_of(broker))
            weight = next(givers[broker], None)
            if weight is not None:
                fullest.append((-after[broker], weight, broker))
    heapq.heapify(fullest)
    while fullest:
        negated, weight, broker = fullest[0]
        while emptiest[0][0] != after[emptiest[0][1]]:
            heapq.heappushpop(emptiest, (after[emptiest[0][1]], emptiest[0][1]))
        if -negated - emptiest[0][0] < 2:
            break
        total_bytes += weight
        gives[broker] = gives.get(broker, 0) + 1
        after[broker] -= 1
        following = next(givers[broker], None)
        if following is None:
            heapq.heappop(fullest)
        else:
            heapq.heapreplace(fullest, (-after[broker], following, broker))
        receive()
    return Quotas(gives, gets, total_bytes, after)


def least_copied(sizes: Sequence[int], before: Mapping[int, int], wanted: Quotas) -> int:
    """Another bound on the bytes: brokers that end with more than they have take each partition once at
    most, so that few of them can't live on the smallest alone. sizes: of all partitions, ascending."""
    floor = min(wanted.loads.values(), default=0)
    short = {b: floor - load for b, load in before.items() if load < floor}
    if not short:
        return 0
    rounds, rest = divmod(sum(short.values()), len(short))
    return len(short) * sum(sizes[:rounds]) + rest * sum(sizes[rounds : rounds + 1])


def balance(layout: Layout, freedom: Freedom, reason: MoveReason, *, looks_max: int) -> None:
    """Even out the loads of the freedom's brokers as far as the rules of placement allow. looks_max: for
    direct moves, and again for chains."""
    direct = Effort(looks_max)
    for pool in pools(layout, freedom):
        _give_directly(_Search(layout, pool, reason, direct))
    _relieve(_Search(layout, freedom, reason, Effort(looks_max)))


def pools(layout: Layout, freedom: Freedom) -> list[Freedom]:
    """Groups of brokers between which no replica can move: when all partitions have equally many replicas in
    every rack, each rack balances for itself; the same for hosts."""
    factors = {len(replicas) for replicas in layout.replicas}
    for domain in (layout.host, layout.rack):
        count = len({domain[b] for b in freedom.brokers})
        if not 1 < count < len(freedom.brokers) or any(factor % count for factor in factors):
            continue
        if all(_is_equal(replicas, domain, count) for replicas in layout.replicas):
            return [
                Freedom(
                    frozenset(b for b in freedom.donors if domain[b] == one),
                    frozenset(b for b in freedom.receivers if domain[b] == one),
                )
                for one in sorted({domain[b] for b in freedom.brokers})
            ]
    return [freedom]


def _is_equal(replicas: Sequence[int], domain: Sequence[int], count: int) -> bool:
    domains = [domain[b] for b in replicas]
    return len(set(domains)) == count and all(domains.count(d) * count == len(domains) for d in domains)


def movable(layout: Layout, freedom: Freedom, broker: int) -> list[int]:
    """The partitions whose replica may leave the broker, the cheapest first."""
    return sorted(
        (number for number in layout.held[broker] if freedom.may_leave(layout, number, broker)),
        key=lambda number: (layout.weight(number, broker), number),
    )


def _give_directly(search: _Search) -> None:
    layout, freedom = search.layout, search.freedom
    offers: dict[int, list[int]] = {}

    def weights_of(broker: int) -> Iterator[int]:
        offers[broker] = movable(layout, freedom, broker)
        return (layout.weight(number, broker) for number in offers[broker])

    wanted = quotas({b: layout.load[b] for b in freedom.brokers}, freedom, weights_of)
    # Those that get most choose first. Large replicas before small ones, to even out bytes as well.
    gets = [(-count, layout.stored[b], b) for b, count in wanted.gets.items()]
    heapq.heapify(gets)
    owed = dict(wanted.gives)
    each = len({layout.owner[b] for b in wanted.gets})
    if each >= max(map(len, layout.replicas), default=0):
        cheapest = [(number, b) for b, count in owed.items() for number in offers[b][:count]]
    else:
        taken = {
            b: [n for n in offers[b] if any(layout.is_as_apart(n, b, target) for target in wanted.gets)]
            for b in owed
        }
        cheapest = select(layout, taken, owed, each, search.effort)
    chosen = sorted((-layout.size[number], number, b) for number, b in cheapest)
    # The cheapest first; then, where no broker could take those, what is next in price, a broker in turn.
    dearer = [(0, number, b) for b in sorted(owed) for number in offers[b]]
    for turn in (chosen, dearer):
        for _, number, source in turn:
            if not gets:
                return
            if owed[source] and number in layout.held[source] and _give(search, number, source, gets):
                owed[source] -= 1
        if not any(owed.values()) or search.effort.left < 0:
            return


def _give(search: _Search, number: int, source: int, gets: list[tuple[int, int, int]]) -> bool:
    """Move the replica to the broker that is to get most and may have it. Return whether there was one."""
    layout = search.layout
    passed = []
    is_given = False
    while gets and search.effort.spend(1):
        entry = heapq.heappop(gets)
        negated, _, target = entry
        if layout.is_as_apart(number, source, target) and layout.fits(number, target):
            layout.move(number, source, target, search.reason)
            if negated < -1:
                heapq.heappush(gets, (negated + 1, layout.stored[target], target))
            is_given = True
            break
        passed.append(entry)
    for entry in passed:
        heapq.heappush(gets, entry)
    return is_given


class _Offers:
    """The replicas that each broker can give, cheapest first, and the racks that can take none of them; kept
    until the broker's replicas change."""

    __slots__ = ("_closed", "_search", "_sorted")

    def __init__(self, search: _Search) -> None:
        self._search = search
        self._sorted: dict[int, list[int]] = {}
        self._closed: dict[int, set[int]] = {}

    def forget(self, broker: int) -> None:
        self._sorted.pop(broker, None)
        self._closed.pop(broker, None)

    def cheapest(self, source: int, target: int, used: Collection[int]) -> int | None:
        """The cheapest partition whose replica may move from one to the other."""
        layout, freedom, _, effort = self._search
        if layout.rack[target] in self._closed.get(source, ()):
            return None
        if source not in self._sorted:
            self._sorted[source] = movable(layout, freedom, source)
        for number in self._sorted[source]:
            if not effort.spend(1):
                return None
            if (
                number not in used
                and freedom.may_receive(layout, number, target)
                and layout.fits(number, target)
                and layout.is_as_apart(number, source, target)
            ):
                return number
        if not any(layout.has_room(number, source, target) for number in self._sorted[source]):
            self._closed.setdefault(source, set()).add(layout.rack[target])
        return None


def _relieve(search: _Search) -> None:
    """Move bytes from the fullest brokers to emptier ones, over third ones where that is the only way."""
    offers = _Offers(search)
    while search.effort.left > 0:
        path = _relief(search, offers)
        if path is None:
            return
        for (source, _), (target, number) in pairwise(path):
            search.layout.move(number, source, target, search.reason)
            offers.forget(source)
            offers.forget(target)


def _relief(search: _Search, offers: _Offers) -> list[tuple[int, int]] | None:
    """The shortest chain of moves from a broker to one with at least two replicas fewer, the fullest first;
    each step with the partition that moves along it. No partition moves twice in one chain."""
    load, freedom = search.layout.load, search.freedom
    lowest = min((load[b] for b in freedom.receivers), default=0)
    hopeless: set[int] = set()
    for start in sorted(freedom.brokers, key=lambda b: (-load[b], b)):
        if load[start] < lowest + 2:
            return None
        if start in hopeless:  # a fuller one came this way and found none empty enough
            continue
        came: dict[int, tuple[int, int]] = {start: (start, -1)}
        queue = [start]
        for current in queue:
            if load[current] <= load[start] - 2:
                return _chain(came, current)
            used = {number for _, number in _chain(came, current)}
            for target in sorted(freedom.brokers, key=lambda b: (load[b], b)):
                if target in came:
                    continue
                number = offers.cheapest(current, target, used)
                if number is not None:
                    came[target] = (current, number)
                    queue.append(target)
                if search.effort.left < 0:
                    return None
        hopeless.update(came)
    return None


def _chain(came: Mapping[int, tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the way from the start to `end`: each broker with the partition that comes to it."""
    chain = []
    while True:
        before, number = came[end]
        chain.append((end, number))
        if before == end:
            return chain[::-1]
        end = before
