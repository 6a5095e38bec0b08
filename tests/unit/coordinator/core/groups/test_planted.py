"""The walk finds what it is there to find: each bug is planted, and the walk must fail.

Bugs that the walk cannot see are held by tests of their own: a static member's return with a rebalance, a
member that never syncs (test_join.py, test_sync.py), expiry in a rebalance (test_expiry.py), a commit of
another generation (test_offsets.py), the hash without an absolute value (test_sharding.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from coordinator.core.group_records import StoredGroup
from coordinator.core.groups import machine, registry, session
from coordinator.core.groups.registry import Registry, SessionTimer, Turn
from coordinator.core.groups.state import ClassicGroup, GroupMember, GroupState
from coordinator.core.groups.store import GroupStore
from coordinator.core.machine import StepOutcome
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_walk import GroupWalk

Plant = Callable[[pytest.MonkeyPatch], None]

OUTCOME = Turn.outcome
WRITE_GROUP = Turn.write_group
DROP = ClassicGroup.drop
ON_SESSION_TIMER = session.on_session_timer


def assignments_are_told_and_not_written(patch: pytest.MonkeyPatch) -> None:
    def write_group(self: Turn, group_id: str, stored: StoredGroup | None) -> None:
        if stored is None or not stored.members:
            WRITE_GROUP(self, group_id, stored)

    patch.setattr(Turn, "write_group", write_group)


def a_late_member_hears_of_its_assignment_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def outcome(self: Turn) -> StepOutcome:
        return replace(OUTCOME(self), waits=False)

    patch.setattr(Turn, "outcome", outcome)


def refused_assignments_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "on_assignments_refused", lambda registry, turn, work, error: None)


def a_session_ends_although_its_member_waits_here(patch: pytest.MonkeyPatch) -> None:
    def on_session_timer(registry: Registry, turn: Turn, group: ClassicGroup, due: SessionTimer) -> None:
        if due.member_id in group.joiners and turn.now_ms >= group.members[due.member_id].expires_ms:
            registry.remove(turn, group, due.member_id, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        ON_SESSION_TIMER(registry, turn, group, due)

    patch.setattr(machine, "on_session_timer", on_session_timer)


def a_generation_is_not_raised(patch: pytest.MonkeyPatch) -> None:
    def begin_generation(self: ClassicGroup, wall_ms: int) -> None:
        self.generation_id = max(self.generation_id, 1)
        self.protocol = self.select_protocol() if self.members else None
        self.become(GroupState.COMPLETING if self.members else GroupState.EMPTY, wall_ms)

    patch.setattr(ClassicGroup, "begin_generation", begin_generation)


def a_leader_that_is_gone_is_not_replaced(patch: pytest.MonkeyPatch) -> None:
    def drop(self: ClassicGroup, member_id: str) -> GroupMember:
        leader = self.leader
        member = DROP(self, member_id)
        self.leader = leader
        return member

    patch.setattr(ClassicGroup, "drop", drop)
    patch.setattr(ClassicGroup, "elect_joined_leader", lambda self: True)


def a_deletion_leaves_the_offsets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupStore, "latest_offsets", lambda self, group_id: [])


def a_deletion_leaves_the_group(patch: pytest.MonkeyPatch) -> None:
    def write_group(self: Turn, group_id: str, stored: StoredGroup | None) -> None:
        if stored is not None:
            WRITE_GROUP(self, group_id, stored)

    patch.setattr(Turn, "write_group", write_group)


def sessions_do_not_begin_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    def enter(self: Registry, turn: Turn, group: ClassicGroup) -> None:
        self.live[group.group_id] = group
        self.members += len(group.members)

    patch.setattr(Registry, "enter", enter)


def reads_see_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupStore, "committed_offsets", GroupStore.latest_offsets)


def a_refused_offset_is_not_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupStore, "undo", lambda self, offset: self.groups.undo(offset))


def a_parked_request_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    def answer_sync(
        self: Registry, turn: Turn, group: ClassicGroup, member_id: str, error: ErrorCode
    ) -> None:
        token = group.syncers.pop(member_id, None)
        if token is not None and error is ErrorCode.NONE:
            turn.reply(token, registry.assigned(group, member_id))

    patch.setattr(Registry, "answer_sync", answer_sync)


PLANTED: list[Plant] = [
    assignments_are_told_and_not_written,
    a_late_member_hears_of_its_assignment_before_it_is_committed,
    refused_assignments_are_ignored,
    a_session_ends_although_its_member_waits_here,
    a_generation_is_not_raised,
    a_leader_that_is_gone_is_not_replaced,
    a_deletion_leaves_the_offsets,
    a_deletion_leaves_the_group,
    sessions_do_not_begin_after_a_failover,
    reads_see_what_is_not_committed,
    a_refused_offset_is_not_undone,
    a_parked_request_is_forgotten,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_walk_finds_a_planted_bug(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            GroupWalk,
            settings=settings(
                max_examples=500,
                stateful_step_count=40,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
