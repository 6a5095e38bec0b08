"""The groups that live in a process, their members and timers, and what one step collects.

A group lives here from its first member on, or from the opening of the shard if its record has members; an
empty one is read from the store when it is asked for. Members come and go by `admit` and `remove` alone:
they keep the count of members, answer parked requests and stop timers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.core.group_records import GroupKey, StoredGroup, encode_group, encode_group_key
from coordinator.core.groups.classic_moves import release
from coordinator.core.groups.consumer.groups import ConsumerChanged, ConsumerGroups
from coordinator.core.groups.consumer.settings import GroupSettings, settings_of
from coordinator.core.groups.consumer.state import ConsumerGroup
from coordinator.core.groups.history import RebalanceHistory
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import JoinGroupReply, JoinProtocol, SyncGroupReply
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState, bytes_of
from coordinator.core.groups.store import GroupStore
from coordinator.core.machine import RequestReply, ShardRecord, StepOutcome, Timer
from springtide.wire.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class SessionTimer:
    """A member's session, or the time that a pending member has to join."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinTimer:
    """The end of a PreparingRebalance."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncTimer:
    """The time by which all members of a generation must have sent SyncGroup."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ExpiryTimer:
    """The next look for expired offsets."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The work of the batch that holds a generation's assignments."""

    group_id: str
    generation_id: int


@dataclass(frozen=True, slots=True)
class Told:
    """The work of a batch that answers to members of a group wait for."""

    group_id: str


class Committing(NamedTuple):
    """The work of a batch with a member's commit."""

    group_id: str
    member_id: str


class Turn:
    """What one step collects, and when. now_ms, wall_ms: see Machine. asks, waits: see StepOutcome."""

    __slots__ = ("asks", "now_ms", "records", "replies", "timers", "waits", "wall_ms", "work")

    def __init__(self, now_ms: int, wall_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.records: list[ShardRecord] = []
        self.replies: list[RequestReply] = []
        self.timers: dict[Hashable, int | None] = {}
        self.asks: list[object] = []
        self.work: Assigned | Told | Committing | ConsumerChanged | None = None
        self.waits = False

    def reply(self, token: int, message: object) -> None:
        self.replies.append(RequestReply(token, message))

    def write_group(self, group_id: str, stored: StoredGroup | None) -> None:
        """Write a group's record, or with None its tombstone."""
        key = encode_group_key(GroupKey(group_id))
        self.records.append(ShardRecord(key, None if stored is None else encode_group(stored)))

    def outcome(self) -> StepOutcome:
        return StepOutcome(
            records=tuple(self.records),
            replies=tuple(self.replies),
            timers=tuple(Timer(key, at_ms) for key, at_ms in self.timers.items()),
            work=self.work,
            waits=self.waits,
            asks=tuple(self.asks),
        )


class Registry:
    """The groups of a shard. live, members and protocol_bytes are those of the classic protocol, consumers
    those of the other one. members: of all groups, pending ones included. protocol_bytes: what all members'
    protocols take."""

    __slots__ = (
        "_settings",
        "committing",
        "consumers",
        "deleted",
        "history",
        "live",
        "members",
        "options",
        "protocol_bytes",
        "store",
        "unchecked",
        "unchecked_producers",
    )

    def __init__(self, options: GroupOptions) -> None:
        self.options = options
        self._settings = settings_of(options, {})
        self.store = GroupStore()
        self.consumers = ConsumerGroups(self.store.consumers)
        self.live: dict[str, ClassicGroup] = {}
        self.members = 0
        self.protocol_bytes = 0
        self.history = RebalanceHistory()
        #: How many commits of a member wait for their record.
        self.committing: Counter[Committing] = Counter()
        #: The last generation of groups whose deletion may still be refused: a new one must not repeat it.
        self.deleted: dict[str, int] = {}
        #: The groups that the present look for expired offsets has not come to.
        self.unchecked: list[str] = []
        #: The same of producers whose transactions have ended here.
        self.unchecked_producers: list[int] = []

    def settings_of(self, group_id: str) -> GroupSettings:
        """Return the settings of a group of the `consumer` protocol."""
        configs = self.consumers.configs.get(group_id)
        return self._settings if configs is None else settings_of(self.options, configs)

    # --- groups ------------------------------------------------------------------------------------

    def find(self, turn: Turn, group_id: str) -> ClassicGroup | None:
        """Return a group that lives here, or else as the latest records have it: stored, or with offsets of a
        client that manages its partitions itself. Return None if there is no such group, or one of the
        `consumer` protocol."""
        group = self.live.get(group_id)
        if group is not None:
            return group
        if self.find_consumers(group_id) is not None:
            return None
        stored = self.store.groups.latest(group_id)
        if stored is not None:
            group = ClassicGroup.load(group_id, stored)
            if group.members:
                self.enter(turn, group)
        elif self.store.has_latest_offsets(group_id):
            group = self.new(turn, group_id)
        return group

    def find_consumers(self, group_id: str) -> ConsumerGroup | None:
        """Return a group of the `consumer` protocol. One without members gives way to a classic one with
        members, whose first record takes its records away."""
        classic = self.live.get(group_id)
        if classic is not None and classic.members:
            return None
        return self.consumers.store.latest(group_id)

    def write(self, turn: Turn, group: ClassicGroup) -> None:
        """Write a group's record. No group has records of both protocols (K7)."""
        turn.records += self.consumers.store.tombstones(group.group_id)
        turn.write_group(group.group_id, group.stored())

    def new(self, turn: Turn, group_id: str) -> ClassicGroup:
        """Return a group without a record."""
        group = ClassicGroup(group_id, changed_ms=turn.wall_ms)
        group.generation_id = self.deleted.get(group_id, 0)
        return group

    def enter(self, turn: Turn, group: ClassicGroup) -> None:
        """Take a group into memory; its members' sessions begin now."""
        self.live[group.group_id] = group
        if self.history.last(group.group_id) is None:
            self.history.take_over(group.group_id, group.generation_id, ended_ms=group.changed_ms)
        self.members += len(group.members)
        for member in group.members.values():
            self.protocol_bytes += member.protocol_bytes
            self.keep_alive(turn, group, member)

    def evict(self, turn: Turn, group: ClassicGroup) -> None:
        """Take a group out, with its members and those that may still join it. What they have parked is
        answered REBALANCE_IN_PROGRESS: they join again."""
        for member_id in sorted(group.pending):
            self.remove_pending(turn, group, member_id)
        for member_id in tuple(group.members):
            self.remove(turn, group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        if self.live.pop(group.group_id, None) is not None:
            turn.timers[JoinTimer(group.group_id)] = turn.timers[SyncTimer(group.group_id)] = None

    def delete(self, turn: Turn, group: ClassicGroup) -> None:
        """Take a group out, and write its tombstone."""
        self.take_away(turn, group)
        self.history.forget(group.group_id)

    def take_away(self, turn: Turn, group: ClassicGroup) -> None:
        """Do so with a group of which one of the `consumer` protocol becomes: what was goes on with that."""
        self.evict(turn, group)
        if self.store.groups.latest(group.group_id) is not None:
            turn.write_group(group.group_id, None)
            self.deleted[group.group_id] = group.generation_id

    def forget(self, group: ClassicGroup) -> None:
        """Take a group out that is empty, unless its record still has members."""
        stored = self.store.groups.latest(group.group_id)
        if group.state is GroupState.EMPTY and not group.pending and not (stored and stored.members):
            self.live.pop(group.group_id, None)

    # --- members -----------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        return self.members + self.consumers.store.members >= self.options.members_max

    def has_room_for(self, protocols: tuple[JoinProtocol, ...], member: GroupMember | None) -> bool:
        """Return whether a member may have these protocols. member: as it is now, if it is one."""
        more = bytes_of(protocols) - (0 if member is None else member.protocol_bytes)
        return more <= 0 or self.protocol_bytes + more <= self.options.shard_bytes_max

    def speak(self, group: ClassicGroup, member: GroupMember, protocols: tuple[JoinProtocol, ...]) -> None:
        """Replace a member's protocols."""
        self.protocol_bytes += bytes_of(protocols) - member.protocol_bytes
        group.speak(member, protocols)

    def admit(self, turn: Turn, group: ClassicGroup, member: GroupMember, *, timeout_ms: int) -> None:
        if member.member_id in group.pending:
            group.pending.remove(member.member_id)
        else:
            self.members += 1
        group.add(member)
        self.protocol_bytes += member.protocol_bytes
        self.keep_alive(turn, group, member, timeout_ms)

    def admit_pending(self, turn: Turn, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        group.pending.add(member_id)
        self.members += 1
        turn.timers[SessionTimer(group.group_id, member_id)] = turn.now_ms + timeout_ms

    def remove(self, turn: Turn, group: ClassicGroup, member_id: str, error: ErrorCode) -> GroupMember:
        """Take a member out. Its parked requests are answered with `error`."""
        member = group.drop(member_id)
        self.members -= 1
        self.protocol_bytes -= member.protocol_bytes
        release(group, member_id, member.assignment, turn.wall_ms)
        self.answer_join(turn, group, member_id, error)
        self.answer_sync(turn, group, member_id, error)
        turn.timers[SessionTimer(group.group_id, member_id)] = None
        return member

    def remove_pending(self, turn: Turn, group: ClassicGroup, member_id: str) -> None:
        group.pending.remove(member_id)
        self.members -= 1
        turn.timers[SessionTimer(group.group_id, member_id)] = None

    def keep_alive(
        self, turn: Turn, group: ClassicGroup, member: GroupMember, timeout_ms: int | None = None
    ) -> None:
        """Let a member's session begin again. The timer moves only if it would come too late: one that comes
        too early is set again when it is due, so that a heartbeat costs none."""
        member.expires_ms = turn.now_ms + (member.session_timeout_ms if timeout_ms is None else timeout_ms)
        if member.timer_ms is None or member.timer_ms > member.expires_ms:
            self.set_session_timer(turn, group, member)

    def keep_generation_alive(self, turn: Turn, group: ClassicGroup) -> None:
        """Let the sessions of the present generation's members begin again; a member that joins the next one
        has longer anyway."""
        for member in group.members.values():
            if not member.is_new:
                self.keep_alive(turn, group, member)

    def set_session_timer(self, turn: Turn, group: ClassicGroup, member: GroupMember) -> None:
        member.timer_ms = member.expires_ms
        turn.timers[SessionTimer(group.group_id, member.member_id)] = member.expires_ms

    def is_committing(self, group_id: str, member_id: str) -> bool:
        """Return whether a commit of the member waits for its record. Until it is answered the member is not
        silent: the next heartbeat of many a client waits for the answer to its last one, which comes behind
        that of the commit."""
        return Committing(group_id, member_id) in self.committing

    # --- parked requests ---------------------------------------------------------------------------

    def park_join(self, turn: Turn, group: ClassicGroup, member_id: str, token: int) -> None:
        """Park a JoinGroup until the next generation. A JoinGroup of this member that waits already belongs
        to a connection that its client gave up: it is answered, so that none waits for ever."""
        self.answer_join(turn, group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        group.joiners[member_id] = token
        member = group.members[member_id]
        if member.rejoined_ms is None:
            member.rejoined_ms = turn.wall_ms
        if (rebalance := self.history.under_way(group.group_id)) is not None:
            self.history.note(rebalance)

    def park_sync(self, turn: Turn, group: ClassicGroup, member_id: str, token: int) -> None:
        """Park a SyncGroup until the leader's assignments; see park_join."""
        self.answer_sync(turn, group, member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        group.syncers[member_id] = token

    def answer_join(self, turn: Turn, group: ClassicGroup, member_id: str, error: ErrorCode) -> None:
        """Answer a member's parked JoinGroup, if it has one: with an error, or with the present
        generation."""
        token = group.joiners.pop(member_id, None)
        if token is not None:
            is_ok = error is ErrorCode.NONE
            turn.reply(token, joined(group, member_id) if is_ok else JoinGroupReply(error, member_id))

    def answer_sync(self, turn: Turn, group: ClassicGroup, member_id: str, error: ErrorCode) -> None:
        """Answer a member's parked SyncGroup, if it has one: with an error, or with its assignment."""
        token = group.syncers.pop(member_id, None)
        if token is not None:
            is_ok = error is ErrorCode.NONE
            turn.reply(token, assigned(group, member_id) if is_ok else SyncGroupReply(error))


def joined(group: ClassicGroup, member_id: str, *, with_roster: bool = True) -> JoinGroupReply:
    """Return the answer to a member of the present generation. Only the leader gets the roster."""
    return JoinGroupReply(
        ErrorCode.NONE,
        member_id,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader or "",
        members=group.roster() if with_roster and member_id == group.leader else (),
    )


def assigned(group: ClassicGroup, member_id: str) -> SyncGroupReply:
    """Return the answer with a member's assignment in the present generation."""
    assignment = group.members[member_id].assignment
    return SyncGroupReply(ErrorCode.NONE, group.protocol_type, group.protocol, assignment)
