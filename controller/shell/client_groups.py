"""Client groups as coordinators tell of them: the port through which REST asks for groups and changes them.

The controller decides nothing by what it hears here, and keeps none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from springtide.contract.epochs import LeaderEpoch

#: A topic's name and a partition's number.
Place = tuple[str, int]

#: What may be asked of a log instead of a time in milliseconds (ListOffsets, KIP-79 and KIP-734).
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3


class GroupsUnavailable(Exception):
    """No coordinator answered. Nothing was changed; the message says why, as far as that is known."""


class GroupAbsent(Exception):
    """The coordinator knows no consumer group of this id."""


class GroupBusy(Exception):
    """The group has members, and what was asked for needs an empty one. Nothing was changed."""


class DeletionRefused(Exception):
    """The leader of a log deletes no records of it; the message says why. Nothing was changed."""


class DeletionNotStored(Exception):
    """Records are deleted, and some replica that may be elected has not stored that yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """state: Kafka's, in small letters: `stable`, `empty`, `preparing_rebalance`, `completing_rebalance`,
    `assigning`, `reconciling`, `dead` or `unknown`. protocol_type: `consumer`; empty if the group only stores
    offsets."""

    group_id: str
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDetail:
    """instance_id: of a static member (KIP-345)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[Place, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail(GroupListing):
    """coordinator_id, endpoint: of the coordinator that answered."""

    assignor: str
    coordinator_id: int
    endpoint: str
    members: tuple[MemberDetail, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPlace:
    """leader_epoch: of the last record read, if the client told it (KIP-320)."""

    offset: int
    leader_epoch: LeaderEpoch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """timestamp_ms: of the record there; None where the question has no record as its answer."""

    offset: int
    timestamp_ms: int | None = None


class ClientGroups(Protocol):
    """Each call is bounded in time. Each raises GroupsUnavailable and UnknownCluster; those that name a group
    raise GroupAbsent."""

    async def listed(self, cluster: str) -> tuple[list[GroupListing], list[str]]:
        """Return the consumer groups, and why nodes did not answer whose groups are therefore missing."""
        ...

    async def described(self, cluster: str, group_id: str) -> GroupDetail: ...

    async def committed(self, cluster: str, group_id: str) -> dict[Place, CommittedPlace]:
        """Return what the group has committed; nothing for a group that does not exist."""
        ...

    async def log_offsets(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, LogPosition]:
        """Return the offsets of logs at LATEST, EARLIEST or MAX_TIMESTAMP, or of the first record at or after
        a time in milliseconds (-1: none). A partition whose leader does not answer is left out."""
        ...

    async def record_times(self, cluster: str, wanted: Mapping[Place, int]) -> dict[Place, int]:
        """Return the timestamps, in milliseconds, of the first records at or after these offsets, of those
        partitions whose leaders answer within a moment."""
        ...

    async def commit(self, cluster: str, group_id: str, offsets: Mapping[Place, int]) -> dict[Place, str]:
        """Set the offsets of a group without members, and return why some were not set. Raise GroupBusy;
        raise OutcomeUnknown if the answer was lost."""
        ...

    async def delete(self, cluster: str, group_id: str) -> None:
        """Delete a group without members. Raise GroupBusy; raise OutcomeUnknown if the answer was lost."""
        ...

    async def delete_records(self, cluster: str, place: Place, before_offset: int) -> None:
        """Have the leader delete a log's records before an offset, and return when every replica that may be
        elected has stored that. Raise DeletionRefused; raise DeletionNotStored if that takes longer; raise
        OutcomeUnknown if the answer was lost."""
        ...
