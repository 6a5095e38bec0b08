"""Requests about `consumer` groups, and their answers; what ../requests.py says of its own holds here."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from coordinator.core.consumer_group_records import ConsumerMember
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.topic_partitions import PartitionsByTopic
from springtide.wire.errors import ErrorCode

JOINING = 0
LEAVING = -1


class TopicsKnown(Struct, frozen=True):
    """The event of newer metadata. topics: all that clients may consume, by name. group_configs: the settings
    of all groups that have some of their own, by id."""

    topics: Mapping[str, KnownTopic]
    group_configs: Mapping[str, Mapping[str, str]] = {}


class ConsumerHeartbeat(Struct, frozen=True, kw_only=True):
    """A member's heartbeat. None, of timeouts -1: as it said before.

    new_member_id: the id of a member without one, made up by the shell; empty from version 1 on, where
    members make up their own (KIP-1082).
    member_epoch: the member's own, or JOINING, LEAVING, AWAY.
    owned: all partitions that it consumes, or may still.
    client_host: the address as Java writes it. principal: whose rights count for a pattern, with it.
    """

    token: int
    group_id: str
    member_id: str
    member_epoch: int
    new_member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    principal: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: PartitionsByTopic | None = None

    @property
    def is_full(self) -> bool:
        """Return whether it says all, as after an error, when a client does not know what got through."""
        has_subscription = self.topics is not None or self.pattern is not None
        return self.rebalance_timeout_ms != -1 and has_subscription and self.owned is not None


class ConsumerHeartbeatReply(Struct, frozen=True):
    """assigned: all that the member may consume now; None: as it was told before."""

    error: ErrorCode
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: PartitionsByTopic | None = None
    message: str = ""


class DescribeConsumerGroups(Struct, frozen=True, kw_only=True):
    token: int
    group_ids: tuple[str, ...]


class DescribedConsumer(Struct, frozen=True):
    member_id: str
    epoch: int
    about: ConsumerMember
    assigned: PartitionsByTopic
    target: PartitionsByTopic


class DescribedConsumerGroup(Struct, frozen=True):
    """error: GROUP_ID_NOT_FOUND for groups of other types, too."""

    error: ErrorCode
    group_id: str
    state: str
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class DescribeConsumerGroupsReply(Struct, frozen=True):
    groups: tuple[DescribedConsumerGroup, ...]
