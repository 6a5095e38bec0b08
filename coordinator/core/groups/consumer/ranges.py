"""The assignor `range`: of each topic a run of partitions to each member.

Topics of one number of partitions that the same members subscribe are shared out alike, so that a member can
join them. What members had before does not count. Static members come first, by their instance ids: they keep
their runs when they return under another member id.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.groups.consumer.assigning import Parts, Subscriber


def share_ranges(starts: Sequence[int], subscribers: Sequence[Subscriber]) -> Parts:
    mine: Parts = [[] for _ in subscribers]
    order = sorted(range(len(subscribers)), key=lambda place: _order(subscribers[place]))
    if all(one.topics == subscribers[0].topics for one in subscribers):
        every = subscribers[0].topics if subscribers else ()
        _share(starts, every, [mine[place] for place in order])
    else:
        by_topic: dict[int, Parts] = {}
        for place in order:
            for topic in subscribers[place].topics:
                by_topic.setdefault(topic, []).append(mine[place])
        for topic, members in by_topic.items():
            _share(starts, [topic], members)
    for own in mine:
        own.sort()
    return mine


def _share(starts: Sequence[int], topics: Sequence[int], members: Parts) -> None:
    """Share out topics that the same members subscribe: those of one number of partitions at once, of which a
    member gets the same run each."""
    alike: dict[int, list[int]] = {}
    for topic in topics:
        alike.setdefault(starts[topic + 1] - starts[topic], []).append(starts[topic])
    for count, bases in alike.items():
        quota, extras = divmod(count, len(members))
        start = 0
        for order, own in enumerate(members[:count]):  # the others get nothing
            end = start + quota + (order < extras)
            if len(bases) == 1:
                own.extend(range(bases[0] + start, bases[0] + end))
            elif end - start == 1:
                own.extend([base + start for base in bases])
            else:
                run = tuple(range(start, end))
                own.extend([base + one for base in bases for one in run])
            start = end


def _order(member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
