"""Bugs of the groups' machine: what is written when, who may act, and what a failover finds. A random walk of
the machine's clients hunts them (tests/kit/coordinator/group_walk.py)."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from coordinator.core.group_records import StoredGroup
from coordinator.core.groups import machine, offsets, registry, session
from coordinator.core.groups.registry import Registry, SessionTimer, Turn
from coordinator.core.groups.requests import CommitOffsets
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState
from coordinator.core.groups.store import GroupStore
from coordinator.core.machine import StepOutcome
from springtide.wire.errors import ErrorCode
from tests.simulation.planted.plant import Patches, plant

_plant = partial(plant, walks="groups", seeds_max=40)

OUTCOME = Turn.outcome
WRITE_GROUP = Turn.write_group
DROP = ClassicGroup.drop
ON_SESSION_TIMER = session.on_session_timer
CHECK_COMMIT = offsets._check_commit


@_plant(breaks="I30", seen="a generation is in no record")
def assignments_are_told_and_not_written() -> Patches:
    def write_group(self: Turn, group_id: str, stored: StoredGroup | None) -> None:
        if stored is None or not stored.members:
            WRITE_GROUP(self, group_id, stored)

    return [(Turn, "write_group", write_group)]


@_plant(breaks="I30", seen="a second SyncGroup is answered while the record is under way")
def a_late_member_hears_of_its_assignment_before_it_is_committed() -> Patches:
    def outcome(self: Turn) -> StepOutcome:
        return replace(OUTCOME(self), waits=False)

    return [(Turn, "outcome", outcome)]


@_plant(breaks="I30", seen="assignments that were not written count")
def refused_assignments_are_ignored() -> Patches:
    return [(machine, "on_assignments_refused", lambda registry, turn, work, error: None)]


@_plant(breaks="I30", seen="a slow rebalance evicts those that wait in it")
def a_session_ends_although_its_member_waits_here() -> Patches:
    def on_session_timer(registry: Registry, turn: Turn, group: ClassicGroup, due: SessionTimer) -> None:
        if due.member_id in group.joiners and turn.now_ms >= group.members[due.member_id].expires_ms:
            registry.remove(turn, group, due.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        ON_SESSION_TIMER(registry, turn, group, due)

    return [(machine, "on_session_timer", on_session_timer)]


@_plant(breaks="I30", seen="a member is given up before it can have sent its first heartbeat")
def a_session_begins_before_its_member_is_told() -> Patches:
    return [(machine, "on_written", lambda registry, turn, group_id: None)]


@_plant(breaks="I30", seen="two assignments under one number")
def a_generation_is_not_raised() -> Patches:
    def begin_generation(self: ClassicGroup, wall_ms: int) -> None:
        self.generation_id = max(self.generation_id, 1)
        self.protocol = self.select_protocol() if self.members else None
        self.become(GroupState.COMPLETING if self.members else GroupState.EMPTY, wall_ms)

    return [(ClassicGroup, "begin_generation", begin_generation)]


@_plant(breaks="I30", seen="nobody assigns")
def a_leader_that_is_gone_is_not_replaced() -> Patches:
    def drop(self: ClassicGroup, member_id: str) -> GroupMember:
        leader = self.leader
        member = DROP(self, member_id)
        self.leader = leader
        return member

    return [(ClassicGroup, "drop", drop), (ClassicGroup, "elect_joined_leader", lambda self: True)]


@_plant(breaks="I31", seen="a deleted group is back after a restart (redpanda#4900)")
def a_deletion_leaves_the_offsets() -> Patches:
    return [(GroupStore, "latest_offsets", lambda self, group_id: [])]


@_plant(breaks="I31", seen="the same, its record")
def a_deletion_leaves_the_group() -> Patches:
    def write_group(self: Turn, group_id: str, stored: StoredGroup | None) -> None:
        if stored is not None:
            WRITE_GROUP(self, group_id, stored)

    return [(Turn, "write_group", write_group)]


@_plant(breaks="I31", seen="members of the dead stay for ever")
def sessions_do_not_begin_after_a_failover() -> Patches:
    def enter(self: Registry, turn: Turn, group: ClassicGroup) -> None:
        self.live[group.group_id] = group
        self.members += len(group.members)

    return [(Registry, "enter", enter)]


@_plant(breaks="I28", seen="OffsetFetch reads the latest view")
def reads_see_what_is_not_committed() -> Patches:
    return [(GroupStore, "committed_offsets", GroupStore.latest_offsets)]


@_plant(breaks="I28", seen="what was refused is read (CoordinatorRuntime rolls back)")
def a_refused_offset_is_not_undone() -> Patches:
    return [(GroupStore, "undo", lambda self, offset: self.groups.undo(offset))]


@_plant(breaks="I30", seen="a client waits for ever")
def a_parked_request_is_forgotten() -> Patches:
    def answer_sync(
        self: Registry, turn: Turn, group: ClassicGroup, member_id: str, error: ErrorCode
    ) -> None:
        token = group.syncers.pop(member_id, None)
        if token is not None and error is ErrorCode.NONE:
            turn.reply(token, registry.assigned(group, member_id))

    return [(Registry, "answer_sync", answer_sync)]


@_plant(breaks="I30", seen="members that were given an id and never joined hold a rebalance up")
def pending_members_never_expire() -> Patches:
    def admit_pending(
        self: Registry, turn: Turn, group: ClassicGroup, member_id: str, timeout_ms: int
    ) -> None:
        group.pending.add(member_id)
        self.members += 1

    return [(Registry, "admit_pending", admit_pending)]


@_plant(breaks="I30", seen="the old process of a static member goes on committing (KIP-345)")
def a_fenced_process_may_commit() -> Patches:
    def check_commit(registry: Registry, turn: Turn, request: CommitOffsets) -> ErrorCode:
        group = registry.find(turn, request.group_id)
        if group is not None and request.instance_id in group.instances:
            return ErrorCode.NONE
        return CHECK_COMMIT(registry, turn, request)

    return [(offsets, "_check_commit", check_commit)]


@_plant(
    breaks="I30", seen="a commit's generation is not compared: a member that was overtaken moves offsets back"
)
def an_earlier_generation_may_commit() -> Patches:
    def check_commit(registry: Registry, turn: Turn, request: CommitOffsets) -> ErrorCode:
        group = registry.find(turn, request.group_id)
        if group is not None and group.check_member(request.member_id, request.instance_id) is ErrorCode.NONE:
            return ErrorCode.NONE
        return CHECK_COMMIT(registry, turn, request)

    return [(offsets, "_check_commit", check_commit)]


@_plant(breaks="I30", seen="a session ends while the group's record is under way")
def a_record_is_never_under_way() -> Patches:
    return [(GroupStore, "is_under_way", lambda self, group_id: False)]
