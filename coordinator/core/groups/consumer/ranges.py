"""The assignor `range`: of each topic a run of partitions to each member.

Topics of one number of partitions that the same members subscribe are shared out alike, so that a member can
join them. What members had before does not count. Static members come first, by their instance ids: they keep
their runs when they return under another member id.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.core.consumer_group_records import Partitions, TopicPartition
from coordinator.core.groups.consumer.assigning import KnownTopic, Subscriber


def share_ranges(subscribers: Sequence[Subscriber]) -> dict[str, Partitions]:
    ordered = sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id, one.member_id))
    by_topic: dict[KnownTopic, list[str]] = {}
    for member in ordered:
        for topic in member.topics:
            by_topic.setdefault(topic, []).append(member.member_id)
    mine: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    for topic, members in by_topic.items():
        quota, extras = divmod(topic.partitions, len(members))
        partitions, start = topic.all(), 0
        for place, member_id in enumerate(members):
            end = start + quota + (place < extras)
            mine[member_id] += partitions[start:end]
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in mine.items()}
