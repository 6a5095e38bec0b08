"""A leader's report to the controller on its followers, and the changes that it asks for in the ISR.

A report that says a follower has caught up is a *promise*: from the moment it is built, before it is sent,
the leader counts that follower in its maximal ISR, so the high watermark waits for it even if the controller
refuses (KIP-497). A report that says a follower lags asks for its removal; the leader goes on waiting for it
until the controller has persisted the smaller ISR and said so. A timeout proves nothing: report again with
the same proposal id. Only a newer partition epoch ends a promise (I2, the leader is never laxer; I6,
partition epochs order everything; I9, joining takes the epoch start; I10, only leaders expand the ISR).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from springtide.contract.epochs import (
    NO_BROKER_EPOCH,
    NO_LEADER_EPOCH,
    BrokerEpoch,
    LeaderEpoch,
    PartitionEpoch,
)
from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.holdings import Holdings, SetAsideLog
from springtide.contract.partition_state import LeaderRecovery, PartitionState
from springtide.contract.session import Witness
from springtide.contract.transactions import OpenTransactions

#: Elections that a replica tells of with its log end: enough to find where two logs part.
LOG_EPOCHS_MAX: Final = 64


class IsrMember(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a proposed ISR. `broker_epoch` is the one carried by the fetch that qualified it (KIP-903);
    for the leader itself and for members that stay, the one the leader knows."""

    broker_id: int
    broker_epoch: BrokerEpoch


class IsrProposal(msgspec.Struct, frozen=True, kw_only=True):
    """One partition's proposed ISR, built on `partition_epoch` by the leader of `leader_epoch`.

    proposal_id: unique per leader incarnation; the same id is sent again until an answer to it arrives.
    """

    topic_id: str
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    proposal_id: int
    isr: tuple[IsrMember, ...]
    recovery: LeaderRecovery = LeaderRecovery.RECOVERED


class FollowerLag(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A follower as its leader sees it. lag_ms counts from when it last had everything; -1 offsets: not heard
    from in this leader epoch. remaining_bytes: of a learner, how much of the leader's log it lacks; in
    proportion within a segment; -1: not heard from, or no learner."""

    broker_id: int
    log_end_offset: int
    lag_records: int
    lag_ms: int
    remaining_bytes: int = -1


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Informational: shown to operators and used to judge preferred elections, never to decide durability.

    bytes_in, bytes_out: from producers and to consumers, since this leader's process has the partition; -1:
        not reported, by a broker of an older release.
    transactions: None: none is open."""

    topic_id: str
    partition: int
    leader_epoch: LeaderEpoch
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    size_bytes: int
    followers: tuple[FollowerLag, ...] = ()
    bytes_in: int = -1
    bytes_out: int = -1
    transactions: OpenTransactions | None = None


class ProblemCode(StrEnum):
    """What is wrong with a replica. A later release may know more: OTHER stands for what this one does not
    know."""

    LOG_MISSING = "log_missing"
    """In ISR or ELR, but no log on an otherwise intact disk."""
    QUARANTINED = "quarantined"
    """A truncation below its own high watermark without an unclean mark was refused."""
    DIVERGENT = "divergent"
    """A suffix was written aside before a truncation."""
    STORAGE_ERROR = "storage_error"
    LOG_SHORT = "log_short"
    """After a machine crash the log ends at `next_offset`, below `high_watermark`, which was known to be
    committed."""
    ROTTEN = "rotten"
    """Bytes at rest in [first_offset, next_offset) are not what was written."""
    MENDED = "mended"
    """Nothing of it is rotten any more."""
    BATCH_REFUSED = "batch_refused"
    """This follower refuses what its leader sends."""
    BATCH_TAKEN = "batch_taken"
    """What was refused was sent whole at last."""
    WENT_BACK = "went_back"
    """It has less than it had in this leader epoch: its machine was resumed from a snapshot."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> ProblemCode:
        return cls.OTHER


class ReplicaProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something an operator must know about one replica: an alarm, and a row in the audit.

    broker_id: whose replica, if it is not the reporter's: a leader tells of a follower. -1: the reporter's.
    """

    topic_id: str
    partition: int
    code: ProblemCode
    detail: str
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    first_offset: int = -1
    next_offset: int = -1
    high_watermark: int = -1
    broker_id: int = -1


class ReplicaLogEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one replica's log while its partition has no leader: an operator must see it before choosing
    a leader uncleanly. Every replica that can be reached tells it once per such state, because a log without
    a leader does not grow. It elects no leader, unless the log has a seal (docs/replication.md 3.9, after
    total power loss).

    leader_epoch: of the state without a leader. high_watermark: as this replica knows it, at most the true
        one. epochs: the latest LOG_EPOCHS_MAX entries of its leader-epoch history, as (leader epoch, start
        offset), ascending; they tell where two logs part (KIP-101).
    seal_chain_epoch: the chain epoch of the log's seal: it holds all that its replica ever vouched for, if
        that is still the broker's chain epoch (docs/replication.md 3.9); -1: it has no seal.
    """

    topic_id: str
    partition: int
    leader_epoch: LeaderEpoch
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...] = ()
    seal_chain_epoch: BrokerEpoch = NO_BROKER_EPOCH

    @property
    def latest_epoch(self) -> int:
        """The newest leader epoch of the log, -1 for a log without one."""
        return self.epochs[-1][0] if self.epochs else -1


class CreatedLogs(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions of one topic that this broker stands in `new_replicas` of, and whose log is durably on its
    disk: directory, identity, and their names. Only this ends being new (3.8, how a broker returns), no
    applied position does."""

    topic_id: str
    partitions: tuple[int, ...]


class LagReport(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /internal/clusters/{cluster}/brokers/{id}:report`. Any part may be empty.

    created: told once to each controller, after its FULL state, until a state no longer calls them new."""

    broker_id: int
    broker_epoch: BrokerEpoch
    proposals: tuple[IsrProposal, ...] = ()
    lags: tuple[PartitionLag, ...] = ()
    problems: tuple[ReplicaProblem, ...] = ()
    log_ends: tuple[ReplicaLogEnd, ...] = ()
    witness: Witness | None = None
    created: tuple[CreatedLogs, ...] = ()
    #: While the metadata is back.
    holdings: Holdings | None = None
    #: All that this broker has set aside: after each FULL state, and when it changes; None: as told before.
    set_aside: tuple[SetAsideLog, ...] | None = None


class IsrProposalResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one proposal. `state` is the partition as it stands now, sent whenever it is known, so
    that a leader that was behind can resynchronise at once."""

    topic_id: str
    partition: int
    proposal_id: int
    error: ControllerError = ControllerError.NONE
    state: PartitionState | None = None


class LagReportResponse(ControllerAnswer, frozen=True, kw_only=True):
    results: tuple[IsrProposalResult, ...] = ()
