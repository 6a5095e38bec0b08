"""A plan: moves in the order in which they pay, what they cost, what they lead to, and what can't be done.

Each move is about one partition, keeps the rules of placement by itself and needs no other, so a plan may be
cut after any of them. It is pinned to the partition epochs it was made from. `content_hash` names the whole
value: what was approved is what is executed.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from controller.core.planning.goals import Goal, Weight
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.partition_state import PartitionKey

#: Part of every hash: raise it when the meaning of a stored plan changes.
PLAN_FORMAT = 1


class PlanOutcome(StrEnum):
    READY = "ready"
    #: There is nothing to do, or nothing that may be done would help.
    NO_IMPROVEMENT = "no_improvement"
    #: What the goal demands of some partition can't be done: see the rejections.
    INFEASIBLE = "infeasible"


class MoveReason(StrEnum):
    DRAIN = "drain"
    REPLACE = "replace"
    SEPARATION = "separation"
    RELIEF = "relief"
    BALANCE = "balance"
    LEADER_BALANCE = "leader_balance"
    REPLICATION_FACTOR = "replication_factor"
    NEW_PARTITION = "new_partition"
    BY_HAND = "by_hand"


class RejectionCode(StrEnum):
    """Why a partition, or a whole goal, can't be had. Stable names."""

    #: Already on its way somewhere.
    REASSIGNMENT_RUNNING = "reassignment_running"
    #: There is no leader to copy from.
    LEADERLESS = "leaderless"
    #: Its leader was chosen uncleanly and has not confirmed its log: no replica joins its ISR.
    LEADER_RECOVERING = "leader_recovering"
    #: Every broker that takes replicas holds one of this partition already.
    NO_RECEIVER = "no_receiver"
    #: Those that don't hold one have no room for it on their disks above the reserve.
    NO_ROOM = "no_room"
    UNKNOWN_BROKER = "unknown_broker"
    #: Fenced, shutting down, cordoned or draining.
    BROKER_TAKES_NO_REPLICAS = "broker_takes_no_replicas"
    ALREADY_HOLDS_REPLICA = "already_holds_replica"
    SHARES_HOST = "shares_host"
    SHARES_RACK = "shares_rack"
    #: Too few of the replicas that would stay are in sync.
    NOT_ENOUGH_IN_SYNC = "not_enough_in_sync"
    UNKNOWN_PARTITION = "unknown_partition"
    UNKNOWN_TOPIC = "unknown_topic"
    INVALID_ASSIGNMENT = "invalid_assignment"
    INVALID_PARTITIONS = "invalid_partitions"
    INVALID_REPLICATION_FACTOR = "invalid_replication_factor"
    #: It is as it is wanted already.
    NO_CHANGE = "no_change"
    #: Hosts, racks and cordons allow nothing that is more even.
    NO_BETTER_PLACE = "no_better_place"
    #: Uneven by less than what the operator wants to be worth a move.
    BELOW_FLOOR = "below_floor"
    #: The goal is about rates, and none were given; or about a disk that is not known.
    NOT_MEASURED = "not_measured"
    #: One replica alone is more than a broker is to carry.
    TOO_HEAVY = "too_heavy"
    #: What would help copies more bytes, or changes more partitions, than may be.
    BYTES_MAX_REACHED = "bytes_max_reached"
    MOVES_MAX_REACHED = "moves_max_reached"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """topic_id, topic, partition: None when the goal as a whole is at fault. weight: that is not even."""

    code: RejectionCode
    detail: str
    topic_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    weight: Weight | msgspec.UnsetType = msgspec.UNSET


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's new assignment, preferred leader first.

    partition_epoch: the state it was planned from; None: the partition does not exist yet.
    size_bytes: of one replica; None: not reported, `bytes` is then an estimate.
    bytes: to be copied, for all replicas that come. gain: imbalance it removes at its place in the order.
    """

    topic_id: str
    topic: str
    partition: int
    partition_epoch: PartitionEpoch | None
    replicas_before: tuple[int, ...]
    replicas_after: tuple[int, ...]
    reasons: tuple[MoveReason, ...]
    size_bytes: int | None
    bytes: int
    gain: int = 0

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas_after if b not in self.replicas_before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(b for b in self.replicas_before if b not in self.replicas_after)


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of replicas, leaders or bytes over the brokers that take replicas."""

    lowest: int = 0
    highest: int = 0
    total: int = 0
    brokers: int = 0

    @property
    def spread(self) -> int:
        return self.highest - self.lowest

    @property
    def skew(self) -> float:
        """Spread as a part of the mean; 0.0 is even."""
        return self.spread * self.brokers / self.total if self.total else 0.0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The distribution of a weight over serving brokers. broker_id: of the highest; None: none serves."""

    weight: Weight
    total: int
    highest: int
    brokers: int
    broker_id: int | None

    @property
    def highest_over_mean(self) -> float:
        """1.0 is even; 0.0: there is no load."""
        return self.highest * self.brokers / self.total if self.total else 0.0


class Levels(msgspec.Struct, frozen=True, kw_only=True):
    """leaders: as they are after a preferred election. crowded: partitions with replicas closer together than
    they would have to be. loads: of the goal `even_out`, each weight that is known; left out of the JSON of
    other plans, so that stored ones keep their hashes."""

    replicas: Level
    leaders: Level
    bytes: Level
    crowded: int = 0
    loads: tuple[Load, ...] | msgspec.UnsetType = msgspec.UNSET


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """moves: partitions that change. copies: replicas that come. bytes: that they copy.

    bytes_least: no plan to the same balance could copy less; None: not known.
    unknown_sizes: moves that copy and whose `bytes` are estimates.
    """

    moves: int = 0
    copies: int = 0
    bytes: int = 0
    bytes_least: int | None = None
    unknown_sizes: int = 0


class GainPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The first `moves` moves copy `bytes` and bring at least `percent` of the whole gain."""

    percent: int
    moves: int
    bytes: int


class Slack(msgspec.Struct, frozen=True, kw_only=True):
    """The number of replicas in sync beyond its minimum that a partition has at the worst moment of its move,
    if no replica fails meanwhile. Negative: it refuses acks=all."""

    slack: int
    topic_id: str
    topic: str
    partition: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    goal: Goal
    outcome: PlanOutcome
    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    totals: Totals
    before: Levels
    after: Levels
    curve: tuple[GainPoint, ...]
    #: Why it is not better, where nothing is at fault.
    skipped: tuple[Rejection, ...] = ()
    worst_slack: Slack | None = None
    #: Brokers that data is copied to although the free space of their disks is not known. Left out of the
    #: JSON where there are none, so that stored plans keep their hashes.
    unknown_room: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    #: The brokers that the operator lets replicas come to; left out where that is any.
    destinations: tuple[int, ...] | msgspec.UnsetType = msgspec.UNSET
    format: int = PLAN_FORMAT


def canonical_json(plan: Plan) -> bytes:
    """Keys in order, no spaces, UTF-8, whole numbers only: the same plan is the same bytes anywhere."""
    return msgspec.json.encode(plan, order="sorted")


def content_hash(plan: Plan) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(plan)).hexdigest()
