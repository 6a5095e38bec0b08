"""A group of the classic protocol that lives here.

             first member                       all joined, or time is up
    Empty ────────────────▶ PreparingRebalance ───────────────────────────▶ CompletingRebalance
      ▲                        ▲     │    ▲                                        │     │
      │   no member came back  │     │    └── a member joins, leaves, is lost ─────┘     │ the leader's
      └────────────────────────┼─────┘                                                  │ assignments
                               └──────────────────── Stable ◀───────────────────────────┘ are applied

Each PreparingRebalance that ends is a new generation. `Dead` is only told of groups that do not exist.

The rules here ask for nothing but the group itself; requests and timers are those of the other modules.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from coordinator.core.group_records import StoredGroup, StoredMember
from coordinator.core.groups.consumer.assigning import KnownTopic
from coordinator.core.groups.history import ID_CHARS_MAX
from coordinator.core.groups.requests import JoinedMember, JoinProtocol
from coordinator.core.groups.settling import Settling
from coordinator.core.groups.subscription import subscribed_topics
from springtide.wire.errors import ErrorCode
from springtide.wire.questions import Place

CONSUMER_TYPE = "consumer"


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupMember:
    """A member of a group. protocols: in its order of preference. assignment: by the present generation.

    is_new: it waits for its first generation. expires_ms: when its session ends. timer_ms: when its timer is
    due, at or before that; None without a timer. rejoined_ms: Unix time, when it joined again first
    since the last assignments; None: it has not.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "expires_ms",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "rejoined_ms",
        "session_timeout_ms",
        "timer_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: tuple[JoinProtocol, ...],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = is_new
        self.expires_ms = 0
        self.timer_ms: int | None = None
        self.rejoined_ms: int | None = None

    @property
    def title(self) -> str:
        """Return what people call the member, cut to a readable length."""
        static = "" if self.instance_id is None else f" (static {self.instance_id[:ID_CHARS_MAX]})"
        return f"member {self.member_id[:ID_CHARS_MAX]}{static}"

    @property
    def protocol_bytes(self) -> int:
        return bytes_of(self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol, empty if it does not speak it."""
        return next((own.metadata for own in self.protocols if own.name == protocol), b"")


def bytes_of(protocols: tuple[JoinProtocol, ...]) -> int:
    """Return what the protocols' names and metadata take."""
    return sum(len(own.name) + len(own.metadata) for own in protocols)


class ClassicGroup:
    """A group. protocol_type: None until a member joins; `consumer`, or `connect` and others.

    members: by id, in the order in which they joined. instances: the member id of each static member.
    pending: ids that were given to members which have not joined with them.
    joiners, syncers: tokens of parked requests, by member id: who waits for the next generation, and for this
        generation's assignments. unsynced: members of this generation that have not sent SyncGroup.
    spoken: by how many members each protocol is.
    changed_ms: Unix milliseconds at which it came into its state.
    For people: released: partitions that no member consumes, with the last one that did and until when (Unix
        time); assigned_topics: those that there were at the last assignment, by name.
    delay_left_ms: how much longer the first rebalance may be delayed; grew: a member joined in this delay.
    """

    __slots__ = (
        "assigned_topics",
        "changed_ms",
        "delay_left_ms",
        "generation_id",
        "grew",
        "group_id",
        "instances",
        "joiners",
        "leader",
        "members",
        "pending",
        "previous_state",
        "protocol",
        "protocol_type",
        "released",
        "settling",
        "spoken",
        "state",
        "syncers",
        "unsynced",
    )

    def __init__(self, group_id: str, *, changed_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.changed_ms = changed_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, GroupMember] = {}
        self.instances: dict[str, str] = {}
        self.spoken: Counter[str] = Counter()
        self.pending: set[str] = set()
        self.joiners: dict[str, int] = {}
        self.syncers: dict[str, int] = {}
        self.unsynced: dict[str, None] = {}
        self.delay_left_ms = 0
        self.grew = False
        self.released: dict[Place, tuple[str, int]] = {}
        self.assigned_topics: dict[str, KnownTopic] = {}
        self.settling = Settling()

    def become(self, state: GroupState, wall_ms: int) -> None:
        self.previous_state, self.state = self.state, state
        self.changed_ms = wall_ms

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return not self.pending and len(self.joiners) == len(self.members)

    def add(self, member: GroupMember) -> None:
        """Add a member, as the leader if there is none."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        self._count(member.protocols, 1)
        if self.leader is None:
            self.leader = member.member_id

    def drop(self, member_id: str) -> GroupMember:
        """Take a member out, and make the longest-serving other one the leader if it led. Its parked requests
        are the caller's."""
        member = self.members.pop(member_id)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        self._count(member.protocols, -1)
        self.unsynced.pop(member_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        return member

    def speak(self, member: GroupMember, protocols: tuple[JoinProtocol, ...]) -> None:
        """Replace a member's protocols."""
        self._count(member.protocols, -1)
        member.protocols = protocols
        self._count(protocols, 1)

    def _count(self, protocols: tuple[JoinProtocol, ...], step: int) -> None:
        for name in dict.fromkeys(own.name for own in protocols):
            self.spoken[name] += step
            if not self.spoken[name]:
                del self.spoken[name]

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if another process has taken the instance over."""
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def check_generation(self, member_id: str, instance_id: str | None, generation_id: int) -> ErrorCode:
        """Return what check_member does, or ILLEGAL_GENERATION for any generation but the present one."""
        error = self.check_member(member_id, instance_id)
        if error is ErrorCode.NONE and generation_id != self.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        return error

    # --- protocols ---------------------------------------------------------------------------------

    def is_common(self, protocol: str) -> bool:
        """Return whether all members speak the protocol."""
        return self.spoken[protocol] == len(self.members)

    def supports(self, protocol_type: str, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Return whether a member with these protocols may join: one of them is spoken by all."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        return protocol_type == self.protocol_type and any(self.is_common(own.name) for own in protocols)

    def select_protocol(self) -> str:
        """Return the protocol of a generation: each member votes for the first of its own that all speak. The
        first vote wins a draw."""
        votes = Counter(
            next(own.name for own in member.protocols if self.is_common(own.name))
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def subscribed(self) -> frozenset[str] | None:
        """Return the topics that members subscribe; None where the coordinator can't tell: the group is not
        of consumers, or a subscription is not in their format."""
        if self.protocol_type != CONSUMER_TYPE:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            of_member = subscribed_topics(member.metadata(self.protocol))
            if of_member is None:
                return None
            topics |= of_member
        return frozenset(topics)

    def is_subscribed(self, topic: str, subscribed: frozenset[str] | None) -> bool:
        """Return whether the topic may be consumed. subscribed: what `subscribed` returned."""
        return self.protocol_type == CONSUMER_TYPE if subscribed is None else topic in subscribed

    # --- rebalances --------------------------------------------------------------------------------

    def begin_rebalance(self, now_ms: int, wall_ms: int) -> None:
        """Leave what the group is in. now_ms: monotonic."""
        self.settling.begin(now_ms)
        self.become(GroupState.PREPARING, wall_ms)

    # --- generations -------------------------------------------------------------------------------

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, else take the first member that has. Return whether there is
        one."""
        if self.leader not in self.joiners:
            joined = next((member_id for member_id in self.members if member_id in self.joiners), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, wall_ms: int) -> None:
        self.generation_id += 1
        self.protocol = self.select_protocol() if self.members else None
        self.become(GroupState.COMPLETING if self.members else GroupState.EMPTY, wall_ms)

    def roster(self) -> tuple[JoinedMember, ...]:
        """Return the members, in the form in which the group's leader is told of them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )

    # --- records -----------------------------------------------------------------------------------

    def stored(self) -> StoredGroup:
        """Return what is written of the group."""
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation_id=self.generation_id,
            protocol=self.protocol,
            leader=self.leader,
            changed_ms=self.changed_ms,
            members=tuple(
                StoredMember(
                    member_id=member.member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ),
        )

    @classmethod
    def load(cls, group_id: str, stored: StoredGroup) -> ClassicGroup:
        """Return the group of a record: stable if it has members, whose sessions begin again."""
        group = cls(group_id, changed_ms=stored.changed_ms)
        group.state = GroupState.STABLE if stored.members else GroupState.EMPTY
        group.generation_id = stored.generation_id
        group.protocol_type = stored.protocol_type or None
        group.protocol = stored.protocol
        group.leader = stored.leader if stored.members else None
        for one in stored.members:
            group.add(
                GroupMember(
                    member_id=one.member_id,
                    instance_id=one.instance_id,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    rebalance_timeout_ms=one.rebalance_timeout_ms,
                    session_timeout_ms=one.session_timeout_ms,
                    protocols=(JoinProtocol(stored.protocol or "", one.subscription),),
                    assignment=one.assignment,
                )
            )
        return group
