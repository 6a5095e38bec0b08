"""Which lags the controller is told with the next heartbeat: of each group once after each look, in turns.

The oldest untold come first, so that of many groups each has its turn. A heartbeat that is lost is not
repeated: the next look tells all groups again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lags import Lag
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    LAG_BYTES_TOLD_MAX,
    TOPICS_PER_GROUP_TOLD_MAX,
    GroupLag,
    TopicLag,
)
from springtide.wire.questions import Place


class LagNews:
    def __init__(self) -> None:
        #: By group, as of the last look, those that have waited longest first.
        self._untold: dict[str, tuple[GroupFigures, Mapping[Place, Lag]]] = {}
        self._seen_ms = 0

    def see(
        self, groups: Iterable[GroupFigures], lags: Mapping[str, Mapping[Place, Lag]], now_ms: int
    ) -> None:
        """Take in a look at all groups (monotonic)."""
        seen = {
            group.group_id: (group, lags.get(group.group_id, {}))
            for group in groups
            if len(group.group_id) <= GROUP_ID_CHARS_MAX
        }
        waited = {group_id: seen[group_id] for group_id in self._untold if group_id in seen}
        self._untold = waited | seen
        self._seen_ms = now_ms

    def take(self, now_ms: int) -> tuple[GroupLag, ...]:
        """Return what the next heartbeat tells."""
        found: list[GroupLag] = []
        size = 0
        for group, lags in self._untold.values():
            told = lag_of(group, lags, age_ms=now_ms - self._seen_ms)
            size += len(msgspec.json.encode(told)) + 1
            if found and size > LAG_BYTES_TOLD_MAX:
                break
            found.append(told)
        for told in found:
            del self._untold[told.group_id]
        return tuple(found)


def lag_of(group: GroupFigures, lags: Mapping[Place, Lag], *, age_ms: int) -> GroupLag:
    """Sum up a group's lags, by topic and over all. What is not known of one partition is not known of the
    sum."""
    by_topic: dict[str, tuple[int, int]] = {}
    for place in group.offsets:
        lag = lags.get(place)
        records, ms = by_topic.get(place[0], (0, -1))
        is_known = lag is not None and records >= 0
        by_topic[place[0]] = (
            records + lag.records if lag is not None and is_known else -1,
            ms if lag is None else max(ms, lag.ms),
        )
    topics = [TopicLag(topic, records, ms) for topic, (records, ms) in by_topic.items()]
    topics.sort(key=lambda one: (-one.records, one.topic))
    is_known = bool(topics) and all(one.records >= 0 for one in topics)
    return GroupLag(
        group.group_id,
        group.members,
        sum(one.records for one in topics) if is_known else -1,
        max((one.ms for one in topics), default=-1),
        age_ms,
        tuple(topics[:TOPICS_PER_GROUP_TOLD_MAX]),
    )
