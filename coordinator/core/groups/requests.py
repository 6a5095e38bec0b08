"""The requests of clients about groups, and the answers. Values only; handlers map them to the wire.

token: names the request; its RequestReply carries it. An empty member id: a member without one. `error`
of a reply is NONE where the request succeeded; of several partitions (members, groups) each has its own.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat, DescribeConsumerGroups
from coordinator.core.pending_records import EndedTransaction
from springtide.contract.epochs import NO_LEADER_EPOCH, LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome

# --- membership ------------------------------------------------------------------------------------


class JoinProtocol(NamedTuple):
    """A protocol (assignor) that a member speaks, with its metadata for it, in order of preference."""

    name: str
    metadata: bytes


class JoinGroup(Struct, frozen=True, kw_only=True):
    """new_member_id: the id of the member, if it has none yet and gets one; the shell makes it up.
    instance_id: of a static member (KIP-345). requires_member_id: version 4 and later, the member must join
    again with the id that it got (KIP-394). may_skip_assignment: version 9 and later (KIP-814)."""

    token: int
    group_id: str
    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    requires_member_id: bool
    may_skip_assignment: bool


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinGroupReply(Struct, frozen=True):
    """members: all, for the leader alone. skip_assignment: the leader finds the group assigned."""

    error: ErrorCode
    member_id: str
    generation_id: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncGroup(Struct, frozen=True, kw_only=True):
    """protocol_type, protocol: what the member believes them to be, None before version 5 (KIP-559).
    assignments: by member id, from the leader alone."""

    token: int
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class SyncGroupReply(Struct, frozen=True):
    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class MemberHeartbeat(Struct, frozen=True, kw_only=True):
    token: int
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None = None


class MemberHeartbeatReply(Struct, frozen=True):
    error: ErrorCode


class Leaver(NamedTuple):
    """A member that leaves, or that an operator removes by its instance id alone."""

    member_id: str
    instance_id: str | None = None


class LeaveGroup(Struct, frozen=True, kw_only=True):
    token: int
    group_id: str
    leavers: tuple[Leaver, ...]


class LeaveGroupReply(Struct, frozen=True):
    """errors: one for each leaver, in the request's order."""

    error: ErrorCode
    errors: tuple[tuple[Leaver, ErrorCode], ...] = ()


# --- offsets ---------------------------------------------------------------------------------------


class OffsetPlace(NamedTuple):
    """topic_id: what the topic's name stands for now, None where the handler does not know."""

    topic: str
    partition: int
    topic_id: UUID | None = None


class OffsetToCommit(NamedTuple):
    place: OffsetPlace
    offset: int
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    metadata: str | None = ""


class CommitOffsets(Struct, frozen=True, kw_only=True):
    """A commit by a member, or, with generation -1 and no member id, by a client that manages its partitions
    itself or by an operator. retention_ms: versions 2-4, None where the broker's retention holds.
    knows_epochs: the client's version has epochs of members (KIP-848)."""

    token: int
    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None
    retention_ms: int | None = None
    knows_epochs: bool = True


class OffsetsReply(Struct, frozen=True):
    """The answer to requests that change offsets. error: of the whole; then no partition has an entry."""

    error: ErrorCode
    partitions: tuple[tuple[OffsetPlace, ErrorCode], ...] = ()


class GroupPlaces(NamedTuple):
    """places: None asks for all that the group has committed. member_id, member_epoch: of a member of a
    `consumer` group; None, -1: not a member asks."""

    group_id: str
    places: tuple[OffsetPlace, ...] | None
    member_id: str | None = None
    member_epoch: int = -1


class FetchOffsets(Struct, frozen=True, kw_only=True):
    """requires_stable: no offset is wanted that an open transaction may replace (KIP-447)."""

    token: int
    groups: tuple[GroupPlaces, ...]
    requires_stable: bool = False


class GroupOffsets(NamedTuple):
    """offsets: None where the group has committed nothing. unstable: places whose offset an open transaction
    may replace; only where stable ones are required. error: of the whole; then there are no offsets."""

    group_id: str
    offsets: tuple[tuple[OffsetPlace, CommittedOffset | None], ...]
    unstable: frozenset[OffsetPlace] = frozenset()
    error: ErrorCode = ErrorCode.NONE


class FetchOffsetsReply(Struct, frozen=True):
    groups: tuple[GroupOffsets, ...]


class DeleteOffsets(Struct, frozen=True, kw_only=True):
    token: int
    group_id: str
    places: tuple[OffsetPlace, ...]


# --- offsets of transactions -----------------------------------------------------------------------


class OffsetsGuard(NamedTuple):
    """How the producer's last transaction had ended here when a commit was first seen: another end in
    between, and what was verified meanwhile proves nothing."""

    ended: EndedTransaction | None


class CommitPendingOffsets(Struct, frozen=True, kw_only=True):
    """A commit by a producer, for the group that it consumes with. guard: as MustVerify had it, once the
    transaction's coordinator has confirmed that it has the shard's partition; None before."""

    token: int
    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None
    guard: OffsetsGuard | None = None


class MustVerify(Struct, frozen=True):
    """Nothing is written: ask the transaction's coordinator, and then again with the guard."""

    guard: OffsetsGuard


class EndPendingOffsets(Struct, frozen=True, kw_only=True):
    """A marker. producer_epoch: under version 2 above that of the transaction. attempt: the number of this
    request among all of the coordinator epoch's, which rises; -1 where it has none (an operator's tool)."""

    token: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    outcome: Outcome
    transaction_version: int = 0
    attempt: int = -1


class PendingOffsetsEnded(Struct, frozen=True):
    error: ErrorCode


# --- administration --------------------------------------------------------------------------------


class DeleteGroups(Struct, frozen=True, kw_only=True):
    token: int
    group_ids: tuple[str, ...]


class DeleteGroupsReply(Struct, frozen=True):
    errors: tuple[tuple[str, ErrorCode], ...]


class DescribeGroups(Struct, frozen=True, kw_only=True):
    token: int
    group_ids: tuple[str, ...]


class DescribedMember(NamedTuple):
    """metadata: for the group's protocol, only where the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """error: GROUP_ID_NOT_FOUND for a group that does not exist, which handlers before version 6 leave
    out."""

    error: ErrorCode
    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsReply(Struct, frozen=True):
    groups: tuple[DescribedGroup, ...]


class ListGroups(Struct, frozen=True, kw_only=True):
    """states, types: names in any case; empty asks for all."""

    token: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsReply(Struct, frozen=True):
    groups: tuple[ListedGroup, ...]


Request = (
    JoinGroup
    | SyncGroup
    | MemberHeartbeat
    | LeaveGroup
    | CommitOffsets
    | FetchOffsets
    | DeleteOffsets
    | CommitPendingOffsets
    | EndPendingOffsets
    | DeleteGroups
    | DescribeGroups
    | ListGroups
    | ConsumerHeartbeat
    | DescribeConsumerGroups
)
