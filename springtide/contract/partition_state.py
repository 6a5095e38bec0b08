"""The versioned state of one partition, as the controller persists it and brokers apply it.

Everything that decides durability travels together under one partition epoch: who leads, who is in sync,
who may be elected, and how many must be in sync (KIP-966 showed that the eligible set and the minimum can't
be changed apart). A state with a higher `partition_epoch` replaces one with a lower; nothing else does (I6,
partition epochs order everything).
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from springtide.contract.epochs import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from springtide.contract.words import WireWord

NO_LEADER = -1
NO_COORDINATOR = -1
#: The leader epoch of a partition that never had an unclean election; the epoch of no coordinator.
NO_EPOCH = -1


class LeaderRecovery(WireWord):
    """The state of the leader: RECOVERING if elected uncleanly, until it has confirmed its log (KIP-704). A
    state that has it UNKNOWN is not applied, and a proposal is refused."""

    RECOVERED = "recovered"
    RECOVERING = "recovering"
    UNKNOWN = "unknown"


class MoveThrottle(msgspec.Struct, frozen=True, kw_only=True):
    """The rate at which a reassignment's learners may copy. rate: bytes per second that each broker may fetch
    for all learners with the same `operation`, so that one request for many partitions has one rate."""

    rate: int
    operation: str


#: The producer ids of shards' writers. None is ever given to a client: blocks begin at 0, and the ids that
#: clients name for themselves at the end of this range (6.8, blocks of ids; 6.9, named producer ids).
WRITER_IDS: Final = range(2**61, 2**62)
#: A writer may have so many batches in flight: a retry is recognised among the last so many of its log.
WRITER_BATCHES_MAX: Final = 5


class WriterId(msgspec.Struct, frozen=True, order=True):
    """One opening of a shard, as its batches name it: ids of two openings are compared as one number. The
    controller makes it of the partition epoch of the state that tells it, so a partition never has it twice,
    not even after ZooKeeper went back (11.4, recovery)."""

    producer_id: int
    producer_epoch: int = 0


def coordinator_epoch(writer: WriterId) -> int:
    """Return the opening as an int32, which transaction markers carry: the partition epoch that named the
    writer, so it rises with each opening and never repeats. Partitions refuse a marker with a lower one."""
    return writer.producer_id - WRITER_IDS.start


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a coordinator topic: the log of one shard of the coordinators' state.

    owner: the coordinator that serves the shard, or NO_COORDINATOR. standby: one that follows its log to take
        over soon, or NO_COORDINATOR.
    writer: under which the owner opens it; the only one that may begin to write (I27, one writer per
        opening).
    opener_epoch: the coordinator epoch that may open it under `writer` once, unasked, because it was given
        the shard together with this writer; NO_EPOCH: the owner asked for it.
    """

    owner: int = NO_COORDINATOR
    standby: int = NO_COORDINATOR
    writer: WriterId
    opener_epoch: BrokerEpoch = NO_BROKER_EPOCH


class PartitionState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One partition under one partition epoch. What it says by default is not sent, or each FULL batch would
    be twice as long. gc=False: there may be a million, and none can be part of a cycle.

    topic_id: Kafka's textual form, 22 characters of URL-safe base64 of 16 bytes.
    replicas: assignment in order of preference; the first is the preferred leader. While a reassignment
        runs, it is the target followed by what will be removed (KIP-455).
    adding_replicas, removing_replicas: the parts of `replicas` that a running reassignment brings or drops.
    original_replicas: the assignment before the running reassignment, in its order, so that a cancellation
        can restore it; empty while none runs.
    throttle: bounds the learners of the running reassignment; None while none runs, so that it can't outlive
        it (KIP-73's throttles do).
    new_replicas: those that have not told the controller yet that their log is durably there
        (lag_report.CreatedLogs). Only they may create an empty log while they stand in `isr` or `elr`: any
        other replica that finds no log has lost it (LOG_MISSING).
    leader: broker id, or NO_LEADER.
    leader_epoch: unique per leadership, strictly increasing (I7, leader epochs are unique).
    partition_epoch: compare-and-set token, +1 per change (I6, partition epochs order everything).
    isr: committed in-sync set, in assignment order. elr: replicas that left it while it fell below the
        minimum and still hold every committed record (KIP-966); non-empty only while |isr| < minimum.
    last_known_elr: members excluded as not provably intact, who would have to answer before an unclean
        election can be judged. last_known_leader: the last leader, when there is none now.
    min_insync_replicas: the effective minimum, already capped by the replication factor.
    unclean_leader_epoch: the latest leader epoch begun by an unclean election, or NO_EPOCH; only under it may
        a follower truncate below its own high watermark (I15, no cut below the high watermark).
    high_watermark_floor: while there is no leader, or an ELR, the highest high watermark that controllers had
        heard of when this was written, since the last unclean election (3.8, how a broker returns); else 0.
    shard: of a coordinator topic's partition; None: of an ordinary one.
    """

    topic_id: str
    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    original_replicas: tuple[int, ...] = ()
    throttle: MoveThrottle | None = None
    new_replicas: tuple[int, ...] = ()
    leader: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    min_insync_replicas: int
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED
    unclean_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    high_watermark_floor: int = 0
    shard: Shard | None = None

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def replication_factor(self) -> int:
        """Return how many replicas the partition is meant to have. Learners count when their reassignment is
        complete; until then the replicas that it drops count."""
        return len(self.original_replicas or self.replicas)

    @property
    def is_reassigning(self) -> bool:
        return bool(self.original_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The assignment that a running reassignment leads to; without one, the present assignment."""
        return self.replicas[: len(self.replicas) - len(self.removing_replicas)]


_IDS_AS_KEYS: Final = msgspec.Meta(extra_json_schema={"propertyNames": {"pattern": "^(0|[1-9][0-9]{0,8})$"}})


class KeptTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a deleted topic whose records are kept. Times are Unix times in milliseconds.

    deleted_by: the actor. until_ms: then its logs are deleted. bytes_by_broker: broker id -> size of its
        logs, by what their leaders reported last; 0 of a partition of which nothing was reported.
    """

    deleted_at_ms: int
    deleted_by: str
    until_ms: int
    bytes_by_broker: Annotated[dict[int, int], _IDS_AS_KEYS] = {}

    @property
    def size_bytes(self) -> int:
        return sum(self.bytes_by_broker.values())


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """A topic's own metadata. `configs` holds only overrides, under Kafka's dotted names, as strings.

    A topic being deleted keeps its entry, with `deleting` set, until every replica has confirmed:
    no election, ISR change or produce happens to it any more. `name_is_free` is set when no leader of it can
    acknowledge anything any more: another topic may have the name (4.6, deletion). `kept`: brokers keep its
    logs, and it can be restored (4.12, kept topics); UNSET: of a topic that lives, or whose logs are deleted.
    """

    topic_id: str
    topic: str
    partitions: int
    replication_factor: int
    configs: dict[str, str] = {}
    deleting: bool = False
    name_is_free: bool = False
    kept: KeptTopic | msgspec.UnsetType = msgspec.UNSET


#: Names a partition for good: (topic id, partition). Topic names come back; ids never do (I21, topic ids
#: decide).
PartitionKey = tuple[str, int]
