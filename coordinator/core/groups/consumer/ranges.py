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
    subscribing: dict[tuple[int, ...], list[list[int]]] = {}
    for place in order:
        subscribing.setdefault(subscribers[place].topics, []).append(mine[place])
    if len(subscribing) == 1:
        ((topics, members),) = subscribing.items()
        by_topic = dict.fromkeys(topics, members)
    else:
        by_topic = {}
        for place in order:
            for topic in subscribers[place].topics:
                by_topic.setdefault(topic, []).append(mine[place])
    for topic in sorted(by_topic):
        _share(range(starts[topic], starts[topic + 1]), by_topic[topic])
    return mine


def _share(partitions: range, members: Sequence[list[int]]) -> None:
    quota, extras = divmod(len(partitions), len(members))
    start = 0
    for order, own in enumerate(members[: len(partitions)]):  # the others get nothing
        end = start + quota + (order < extras)
        own.extend(partitions[start:end])
        start = end


def _order(member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
