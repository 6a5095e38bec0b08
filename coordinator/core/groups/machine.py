"""The machine of a shard of `__consumer_offsets` (coordinator/core/machine.py says what a machine is)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from coordinator.core.groups.admin import delete_groups, describe_groups, list_groups
from coordinator.core.groups.consumer import classic_members
from coordinator.core.groups.consumer.admin import describe_consumer_groups
from coordinator.core.groups.consumer.assigning import TargetQuestion
from coordinator.core.groups.consumer.following import follow_anew
from coordinator.core.groups.consumer.groups import (
    ConsumerChanged,
    ConsumerSession,
    NextStep,
    NextTarget,
    Revocation,
)
from coordinator.core.groups.consumer.heartbeat import consumer_heartbeat
from coordinator.core.groups.consumer.leaving import (
    on_changes_refused,
    on_consumer_session_timer,
    on_next_step_timer,
    on_revocation_timer,
)
from coordinator.core.groups.consumer.patterns import PatternQuestion, on_patterns_answered
from coordinator.core.groups.consumer.requests import (
    ConsumerHeartbeat,
    DescribeConsumerGroups,
    TopicsKnown,
)
from coordinator.core.groups.consumer.sessions import on_changes_written, watch
from coordinator.core.groups.consumer.state import ConsumerGroup
from coordinator.core.groups.consumer.targets import on_next_target, on_target_answered
from coordinator.core.groups.expiry import on_expiry_timer
from coordinator.core.groups.join import join_group, on_join_timer, resume
from coordinator.core.groups.offsets import commit_offsets, delete_offsets, fetch_offsets, on_commit_settled
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.registry import (
    Assigned,
    Committing,
    ExpiryTimer,
    JoinTimer,
    Registry,
    SessionTimer,
    SyncTimer,
    Told,
    Turn,
)
from coordinator.core.groups.requests import (
    CommitOffsets,
    CommitPendingOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    EndPendingOffsets,
    FetchOffsets,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    MemberHeartbeat,
    SyncGroup,
)
from coordinator.core.groups.session import heartbeat, leave_group, on_session_timer
from coordinator.core.groups.sync import on_assignments_refused, on_sync_timer, on_written, sync_group
from coordinator.core.groups.transactions import commit_pending_offsets, end_pending_offsets
from coordinator.core.machine import AnswerCame, ShardRecord, StepOutcome, TimerDue
from springtide.wire.errors import ErrorCode


def _either(
    of_classic: Callable[[Registry, Turn, Any], None],
    of_consumers: Callable[[Registry, Turn, Any, ConsumerGroup], None],
) -> Callable[[Registry, Turn, Any], None]:
    """Return what answers a request of the classic protocol: of_consumers where its group is of the other
    one. One without members makes way."""

    def answer(registry: Registry, turn: Turn, request: Any) -> None:
        group = registry.find_consumers(request.group_id)
        if group is not None and group.members:
            of_consumers(registry, turn, request, group)
        else:
            of_classic(registry, turn, request)

    return answer


_ON_REQUEST: dict[type, Callable[[Registry, Turn, Any], None]] = {
    JoinGroup: _either(join_group, classic_members.join),
    SyncGroup: _either(sync_group, classic_members.sync),
    MemberHeartbeat: _either(heartbeat, classic_members.heartbeat),
    LeaveGroup: _either(leave_group, classic_members.leave),
    CommitOffsets: commit_offsets,
    FetchOffsets: fetch_offsets,
    DeleteOffsets: delete_offsets,
    CommitPendingOffsets: commit_pending_offsets,
    EndPendingOffsets: end_pending_offsets,
    DeleteGroups: delete_groups,
    DescribeGroups: describe_groups,
    ListGroups: list_groups,
    ConsumerHeartbeat: consumer_heartbeat,
    DescribeConsumerGroups: describe_consumer_groups,
}


class GroupMachine:
    """Groups and committed offsets. Events are the requests, TimerDue, AnswerCame and TopicsKnown."""

    __slots__ = ("registry",)

    def __init__(self, options: GroupOptions) -> None:
        self.registry = Registry(options)

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = Turn(now_ms, wall_ms)
        if isinstance(event, TimerDue):
            self._on_timer(turn, event)
        elif isinstance(event, TopicsKnown):
            self.registry.consumers.know(event.topics, event.group_configs)
        elif isinstance(event, AnswerCame):
            self._on_answer(turn, event.question, event.answer)
        else:
            _ON_REQUEST[type(event)](self.registry, turn, event)
        return turn.outcome()

    def _on_answer(self, turn: Turn, question: object, answer: Any) -> None:
        if isinstance(question, PatternQuestion):
            on_patterns_answered(self.registry, turn, question, answer)
        elif isinstance(question, TargetQuestion):
            on_target_answered(self.registry, turn, question, answer)

    def _on_timer(self, turn: Turn, due: TimerDue) -> None:
        registry, key = self.registry, due.key
        match key:
            case SessionTimer(group_id) if group := registry.live.get(group_id):
                on_session_timer(registry, turn, group, key)
            case JoinTimer(group_id) if group := registry.live.get(group_id):
                on_join_timer(registry, turn, group)
            case SyncTimer(group_id) if group := registry.live.get(group_id):
                on_sync_timer(registry, turn, group)
            case ConsumerSession():
                on_consumer_session_timer(registry, turn, key)
            case Revocation():
                on_revocation_timer(registry, turn, key)
            case NextStep():
                on_next_step_timer(registry, turn, key)
            case NextTarget(group_id):
                on_next_target(registry, turn, group_id)
            case ExpiryTimer():
                on_expiry_timer(registry, turn, due.expiry_ms)

    def apply(self, record: ShardRecord, offset: int) -> None:
        self.registry.store.apply(record, offset)

    def committed(self, offset: int) -> None:
        self.registry.store.commit(offset)

    def undo(self, offset: int) -> None:
        self.registry.store.undo(offset)

    def written(self, work: Hashable, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = Turn(now_ms, wall_ms)
        if isinstance(work, Assigned | Told | ConsumerChanged):
            on_written(self.registry, turn, work.group_id)
        if isinstance(work, ConsumerChanged):
            on_changes_written(self.registry, turn, work)
        elif isinstance(work, Committing):
            on_commit_settled(self.registry, turn, work)
        return turn.outcome()

    def refused(self, work: Hashable, error: ErrorCode, now_ms: int, wall_ms: int) -> StepOutcome:
        turn = Turn(now_ms, wall_ms)
        if isinstance(work, Assigned):
            on_assignments_refused(self.registry, turn, work, error)
        elif isinstance(work, ConsumerChanged):
            on_changes_refused(self.registry, turn, work.group_id)
        elif isinstance(work, Committing):
            on_commit_settled(self.registry, turn, work)
        return turn.outcome()

    def opened(self, now_ms: int, wall_ms: int) -> StepOutcome:
        """Let the stored groups with members live here."""
        registry, turn = self.registry, Turn(now_ms, wall_ms)
        for group_id in sorted(dict(registry.store.groups.latest_items())):
            resume(registry, turn, group_id)
        for group_id in sorted(registry.consumers.store.group_ids()):
            if (consumers := registry.consumers.store.latest(group_id)) is not None:
                watch(registry, turn, consumers)
                follow_anew(registry, turn, consumers)
        turn.timers[ExpiryTimer()] = now_ms + registry.options.retention_check_ms
        return turn.outcome()

    def closed(self) -> tuple[int, ...]:
        groups = self.registry.live.values()
        return tuple(
            token
            for group in groups
            for parked in (group.joiners, group.syncers)
            for token in parked.values()
        )
