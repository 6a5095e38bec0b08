"""What a coordinator tells the controller of its groups, with its heartbeats: for people. Nothing is decided
by it, and neither side stores it: a new controller is told again, a new coordinator knows what it saw."""

from __future__ import annotations

from typing import Final

import msgspec

#: In one heartbeat. A coordinator with more to tell goes on with its next one.
REBALANCES_TOLD_MAX: Final = 100
#: The bytes of rebalances in one heartbeat, as they are encoded; one alone may have more.
REBALANCE_BYTES_TOLD_MAX: Final = 32 * 1024
#: Of one rebalance: members that it waits for.
AWAITED_TOLD_MAX: Final = 10
#: In one heartbeat, of all that a coordinator has.
TROUBLES_TOLD_MAX: Final = 50
#: Groups with longer ids are not told of: Kafka takes ids of 32 KiB.
GROUP_ID_CHARS_MAX: Final = 1_000
#: Bytes of lags in one heartbeat, as they are encoded: controllers of older releases refuse a heartbeat above
#: 64 KiB, and the rebalances and troubles of a large cluster are more than half of that.
LAG_BYTES_TOLD_MAX: Final = 16 * 1024
#: Of one group: those that it is farthest behind in.
TOPICS_PER_GROUP_TOLD_MAX: Final = 100


class RebalanceCause(msgspec.Struct, frozen=True, array_like=True):
    """Why a group is rebalanced. kind: a value of CauseKind (coordinator/core/groups/history.py). text: a
    sentence without its full stop. at_ms: -1: not known. member_id: who did it; empty for no member."""

    kind: str
    text: str
    at_ms: int = -1
    member_id: str = ""


class MovedPartition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """unowned_ms: for how long no member consumed it; -1: it had no member before."""

    topic: str
    partition: int
    unowned_ms: int


class MovedPartitions(msgspec.Struct, frozen=True, array_like=True):
    """Partitions that went from one member to another. before: empty: from none. unowned_ms_max: the longest;
    -1: as of MovedPartition. partitions: the first ones of count."""

    before: str
    after: str
    count: int
    unowned_ms_max: int
    partitions: tuple[MovedPartition, ...] = ()


class AwaitedStep(msgspec.Struct, frozen=True, array_like=True):
    """Whom a rebalance waits for. member_id: empty: for no member. what: what it is to do."""

    member_id: str
    since_ms: int
    what: str


class GroupRebalance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rebalance of a group. Times are Unix milliseconds; -1: not known, or not yet.

    generation_id: the generation or the epoch that it leads to, as of this report. began_ms names it among
    those of its group. ended_ms: when the assignments were made (classic groups), when each member had its
    own (`consumer` groups), when the last member left, or, if is_superseded, when the next rebalance began.
    reason: what began it; empty: not known, because the coordinator has taken the group over since.

    Coordinators before 0.3 say no more. causes: the first of causes_total. assigned_ms: when the assignments
    were made. to_move: how many partitions they give to other members than have them; moved: how many are
    there by now; -1: not known. moves: some of these. paused: partitions that stayed with their member, which
    did not consume them meanwhile, at most for paused_ms_max. awaited: the first of awaited_total.
    """

    group_id: str
    generation_id: int
    began_ms: int
    ended_ms: int
    reason: str
    is_superseded: bool = False
    assigned_ms: int = -1
    assignor: str = ""
    causes: tuple[RebalanceCause, ...] = ()
    causes_total: int = 0
    to_move: int = -1
    moved: int = -1
    moves: tuple[MovedPartitions, ...] = ()
    paused: int = -1
    paused_ms_max: int = -1
    awaited: tuple[AwaitedStep, ...] = ()
    awaited_total: int = 0


class GroupConfigs(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that a group has of its own, by Kafka's names; without any, it has none stored."""

    group_id: str
    configs: dict[str, str] = {}


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
