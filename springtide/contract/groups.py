"""What a coordinator tells the controller of its groups, with its heartbeats: for people. Nothing is decided
by it, and neither side stores it: a new controller is told again, a new coordinator knows what it saw."""

from __future__ import annotations

from typing import Final

import msgspec

#: In one heartbeat. A coordinator with more to tell goes on with its next one.
REBALANCES_TOLD_MAX: Final = 100
#: In one heartbeat, of all that a coordinator has.
TROUBLES_TOLD_MAX: Final = 50
#: Groups with longer ids are not told of: Kafka takes ids of 32 KiB.
GROUP_ID_CHARS_MAX: Final = 1_000
#: Bytes of lags in one heartbeat, as they are encoded: controllers of older releases refuse a heartbeat above
#: 64 KiB, and the rebalances and troubles of a large cluster are more than half of that.
LAG_BYTES_TOLD_MAX: Final = 16 * 1024
#: Of one group: those that it is farthest behind in.
TOPICS_PER_GROUP_TOLD_MAX: Final = 100


class GroupRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """The last rebalance of a group. Times are Unix milliseconds.

    generation_id: the group's, as of this report. began_ms: -1: not known. ended_ms: when the assignments
    were made, or the last member left; -1: it is under way.
    reason: what began it; empty: not known, because the coordinator has taken the group over since.
    """

    group_id: str
    generation_id: int
    began_ms: int
    ended_ms: int
    reason: str


class GroupTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A group that an operator should look at: an alarm. code: `lag_grows`, `unsettled`,
    `offsets_pending`, `not_assigned`."""

    group_id: str
    code: str
    detail: str


class TopicLag(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The lag of a group in one topic, over all partitions that it has offsets of. records: -1: of one of
    them it is not known. ms: the longest of them; -1: none is known."""

    topic: str
    records: int
    ms: int


class GroupLag(msgspec.Struct, frozen=True, array_like=True):
    """How far a group is behind (coordinator/core/lags.py). An array, because there may be ten thousand.

    records, ms: as of TopicLag, over all topics; -1, too, for a group without offsets. age_ms: since the
    coordinator looked. topics: that it has offsets of, at most TOPICS_PER_GROUP_TOLD_MAX.
    """

    group_id: str
    members: int = 0
    records: int = -1
    ms: int = -1
    age_ms: int = 0
    topics: tuple[TopicLag, ...] = ()


class GroupNews(msgspec.Struct, frozen=True, kw_only=True):
    """rebalances: that this controller has not been told, at most REBALANCES_TOLD_MAX. troubles: all that
    there are now, at most TROUBLES_TOLD_MAX. lags: of groups whose turn it is, LAG_BYTES_TOLD_MAX in all."""

    rebalances: tuple[GroupRebalance, ...] = ()
    troubles: tuple[GroupTrouble, ...] = ()
    lags: tuple[GroupLag, ...] = ()
