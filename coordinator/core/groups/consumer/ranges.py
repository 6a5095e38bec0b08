"""The assignor `range`: of each topic a run of partitions to each member.

Topics of one number of partitions that the same members subscribe are shared out alike, so that a member can
join them. What members had before does not count. Static members come first, by their instance ids: they keep
their runs when they return under another member id.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.groups.consumer.assigning import Answer, Subscriber


def share_ranges(starts: Sequence[int], subscribers: Sequence[Subscriber]) -> Answer:
    by_topic: list[list[list[int]]] = [[] for _ in starts]
    mine: Answer = [[] for _ in subscribers]
    for place in sorted(range(len(subscribers)), key=lambda place: _order(subscribers[place])):
        for topic in subscribers[place].topics:
            by_topic[topic].append(mine[place])
    for topic, members in enumerate(by_topic):
        if members:
            start = starts[topic]
            quota, extras = divmod(starts[topic + 1] - start, len(members))
            for order, own in enumerate(members):
                end = start + quota + (order < extras)
                own.extend(range(start, end))
                start = end
    return mine


def _order(member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
