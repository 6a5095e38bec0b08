"""The assignor `uniform`: all partitions spread evenly over the members, and as few as possible moved.

Balance comes before keeping. Where all members subscribe the same topics, their numbers differ by one at
most. Where they do not, partitions move as long as that makes two members more equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import filterfalse, islice
from typing import TypeAlias

from coordinator.core.groups.consumer.assigning import Parts, Subscriber, by_place


def uniform(starts: Sequence[int], subscribers: Sequence[Subscriber]) -> Parts:
    order = sorted(range(len(subscribers)), key=lambda place: subscribers[place].member_id)
    members = [subscribers[place] for place in order]
    is_equal = all(one.topics == members[0].topics for one in members)
    answer: Parts = [[] for _ in subscribers]
    for place, own in zip(order, (_equal if is_equal else _unequal)(starts, members), strict=True):
        answer[place] = own
    return answer


def _equal(starts: Sequence[int], members: Sequence[Subscriber]) -> Parts:
    """Share out: P partitions among M members, P div M each, and one more for P mod M of them. What a member
    has it keeps up to its number; a member with one more keeps that, too (KAFKA-18688)."""
    if not members:
        return []
    count = starts[-1]
    quota, extras = divmod(count, len(members))
    taken: set[int] = set()
    kept: Parts = []
    for member in members:
        mine = member.held
        if not taken.isdisjoint(mine):
            mine = [one for one in mine if one not in taken]
        has_extra = len(mine) > quota and extras > 0
        extras -= has_extra
        mine = mine[: quota + has_extra]
        taken.update(mine)
        kept.append(mine)
    rest = filterfalse(taken.__contains__, range(count))
    wanting = [own for own in kept if len(own) <= quota]
    for own in wanting:
        own.extend(islice(rest, quota - len(own)))
    for own in wanting:
        own.extend(islice(rest, 1))
        own.sort()
    return kept


# --- where subscriptions differ --------------------------------------------------------------------


def _unequal(starts: Sequence[int], members: Sequence[Subscriber]) -> Parts:
    """Share out topic by topic, and again until no topic's partitions can be spread more evenly."""
    asking: list[list[int]] = [[] for _ in starts[1:]]
    for place, member in enumerate(members):
        for topic in member.topics:
            asking[topic].append(place)
    owned, loads = _kept(starts, members)
    # A topic with few subscribers leaves the least choice.
    topics = sorted((one for one, own in enumerate(asking) if own), key=lambda one: (len(asking[one]), one))
    for topic in topics:
        taken = {one for own in owned[topic].values() for one in own}
        free = [one for one in range(starts[topic], starts[topic + 1]) if one not in taken]
        _give(free, _level(len(free), asking[topic], loads), owned[topic], loads)
    while sum(_even_out(asking[topic], owned[topic], loads) for topic in topics):
        pass  # each move makes the sum of the squares of the loads smaller
    mine: Parts = [[] for _ in members]
    for of_topic in owned:
        for place, own in of_topic.items():
            mine[place] += own
    for own in mine:
        own.sort()
    return mine


Owned: TypeAlias = dict[int, list[int]]
"""Of one topic: by a member's place, what it has."""


def _kept(starts: Sequence[int], members: Sequence[Subscriber]) -> tuple[list[Owned], list[int]]:
    """Return of each topic what members have and may keep, and of each member how much that is in all."""
    owned: list[Owned] = [{} for _ in starts[1:]]
    loads = [0] * len(members)
    taken: set[int] = set()
    for place, member in enumerate(members):
        subscribed = set(member.topics)
        for topic, held in by_place(starts, member.held):
            if topic in subscribed:
                own = [one for one in held if one not in taken]
                taken.update(own)
                loads[place] += len(own)
                owned[topic][place] = own
    return owned, loads


def _even_out(asking: Sequence[int], owned: Owned, loads: list[int]) -> bool:
    """Share a topic's partitions out anew, if one could go to a member that has two less. Return whether."""
    most = max((loads[place] for place, own in owned.items() if own), default=0)
    if most - min(loads[place] for place in asking) <= 1:
        return False
    for place, own in owned.items():
        loads[place] -= len(own)
    wanted = _level(sum(map(len, owned.values())), asking, loads, owned)
    free: list[int] = []
    for place, own in owned.items():
        free += own[wanted[place] :]
        del own[wanted[place] :]
        loads[place] += len(own)
        wanted[place] -= len(own)
    _give(free, wanted, owned, loads)
    return True


def _level(
    units: int, asking: Sequence[int], loads: Sequence[int], owned: Mapping[int, Sequence[int]] | None = None
) -> Counter[int]:
    """Return how many of a topic's partitions each subscriber is to have beside its load, so that all are as
    even as can be: as water finds its level. owned: a member that has one more than that keeps it."""
    order = sorted(asking, key=loads.__getitem__)
    below = count = 0
    for place in order:
        if units + below <= loads[place] * count:
            break
        below += loads[place]
        count += 1
    level, over = divmod(units + below, max(1, count))
    wanted = Counter({place: level - loads[place] for place in order[:count]})
    if over:
        has_more = (place for place in order[:count] if owned and len(owned.get(place, ())) > wanted[place])
        for place in islice(dict.fromkeys((*has_more, *order[:count])), over):
            wanted[place] += 1
    return wanted


def _give(free: Sequence[int], wanted: Mapping[int, int], owned: Owned, loads: list[int]) -> None:
    """Give free partitions, in their order, to those that are to have more."""
    start = 0
    for place, more in wanted.items():
        if more > 0:
            owned.setdefault(place, []).extend(free[start : start + more])
            loads[place] += more
            start += more
