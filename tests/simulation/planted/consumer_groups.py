"""Bugs of `consumer` groups (KIP-848): who may consume, which epoch counts, what a static member keeps. A
random walk of members hunts them (tests/kit/coordinator/consumer_walk.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from coordinator.core.consumer_group_records import (
    ConsumerMember,
    CurrentAssignment,
)
from coordinator.core.group_records import ConsumerRecord
from coordinator.core.groups import machine, offsets
from coordinator.core.groups.consumer import (
    classic_members,
    heartbeat,
    leaving,
    patterns,
    reconcile,
    upgrade,
)
from coordinator.core.groups.consumer.assigning import Answer, AskedMember, TargetQuestion
from coordinator.core.groups.consumer.commits import check_member_epoch
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.groups import ConsumerGroups, LiveMember, Who
from coordinator.core.groups.consumer.patterns import PatternAnswer, PatternQuestion
from coordinator.core.groups.consumer.placing import Placing
from coordinator.core.groups.consumer.reconcile import Goal
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat
from coordinator.core.groups.consumer.sessions import forget_member
from coordinator.core.groups.consumer.state import ConsumerGroup, Member
from coordinator.core.groups.consumer.store import ConsumerStore
from coordinator.core.groups.consumer.targets import on_target_answered, write
from coordinator.core.groups.registry import Registry, Turn
from coordinator.core.groups.requests import CommitOffsets, SyncGroup
from coordinator.core.groups.state import ClassicGroup
from coordinator.core.groups.subscription import MemberAssignment, Subscription, read_subscription
from coordinator.core.machine import ShardRecord
from coordinator.core.topic_partitions import PartitionsByTopic, epoch_of, stamp
from springtide.wire.errors import ErrorCode
from tests.simulation.planted.plant import Patches, plant

_plant = partial(plant, walks="consumer groups", seeds_max=40)

AWAY = leaving._away
NEXT = reconcile._next
SHOWS = reconcile.shows
CHECK_EPOCH = heartbeat._check_epoch
TAKE_OVER = heartbeat.take_over
ADVANCE = heartbeat.advance
RECONCILE = reconcile.reconcile
ANSWERED = on_target_answered
SUBSCRIBERS = patterns.subscribers_of
RESOLVE = patterns.resolve_if_due
RESOLVED = patterns.on_patterns_answered
PLACE = Placing._place


@_plant(breaks="I30", seen="what a member has yet to give up is given to the next (crabka#521)")
def what_is_to_be_given_up_is_free() -> Patches:
    def lets_go(self: GroupDraft, owner: str, topic_id: UUID, partition: int, to: str) -> bool:
        revoking = self.group.members[owner].current.revoking
        return owner == to or epoch_of(revoking, topic_id, partition) is not None

    return [(GroupDraft, "_lets_go", lets_go)]


@_plant(breaks="I30", seen="the target's epoch is told before the member has given up what it had to")
def the_epoch_rises_before_the_revocation() -> Patches:
    def next_of(current: CurrentAssignment, goal: Goal, owned: PartitionsByTopic | None) -> CurrentAssignment:
        after = NEXT(current, goal, owned)
        return replace(after, epoch=goal.target_epoch)

    return [(reconcile, "_next", next_of)]


@_plant(breaks="I30", seen="a heartbeat without owned partitions is read as one that owns none")
def as_before_is_read_as_nothing() -> Patches:
    def shows(owned: PartitionsByTopic | None, partitions: Mapping[UUID, Iterable[int]]) -> bool:
        return owned is not None and SHOWS(owned, partitions)

    return [(reconcile, "shows", shows)]


@_plant(breaks="I30", seen="the epoch before is right whatever the member shows")
def the_epoch_before_is_not_compared_with_what_is_shown() -> Patches:
    def check_epoch(draft: GroupDraft, member_id: str, request: ConsumerHeartbeat) -> ErrorCode:
        member = draft[member_id]
        if member is not None and 0 < request.member_epoch == member.current.previous_epoch:
            return ErrorCode.NONE
        return CHECK_EPOCH(draft, member_id, request)

    return [(heartbeat, "_check_epoch", check_epoch)]


@_plant(
    breaks="I30",
    seen="a heartbeat of the epoch before comes late, and frees what it does not show (franz-go#889)",
)
def a_late_repeat_gives_partitions_up() -> Patches:
    def reconcile_as_shown(
        current: CurrentAssignment, goal: Goal, owned: PartitionsByTopic | None
    ) -> CurrentAssignment:
        return RECONCILE(current, goal, SHOWN[-1])

    def beat(
        registry: Registry, turn: Turn, draft: GroupDraft, member_id: str, request: ConsumerHeartbeat
    ) -> object:
        SHOWN.append(request.owned)
        return BEAT(registry, turn, draft, member_id, request)

    return [(heartbeat, "reconcile", reconcile_as_shown), (heartbeat, "_beat", beat)]


SHOWN: list[PartitionsByTopic | None] = []
BEAT = heartbeat._beat


@_plant(breaks="I30", seen="a static member that is away for a while loses its part")
def leaving_for_a_while_clears_the_target() -> Patches:
    return [(leaving, "_away", lambda member: AWAY(member)._replace(target={}))]


@_plant(breaks="I30", seen="each restart of a static member moves partitions")
def the_return_of_a_static_member_assigns_anew() -> Patches:
    def take_over(draft: GroupDraft, held_by: str, member_id: str) -> None:
        TAKE_OVER(draft, held_by, member_id)
        member = draft.changed[member_id]
        assert isinstance(member, Member)
        draft.changed[member_id] = member._replace(about=replace(member.about, topics=()))

    return [(heartbeat, "take_over", take_over)]


@_plant(breaks="I30", seen="a target that came too soon after the one before waits for a heartbeat")
def the_interval_never_ends_by_itself() -> Patches:
    return [(machine, "on_next_target", lambda registry, turn, group_id: None)]


@_plant(
    breaks="I30", seen="a static member that may not come back, for lack of room, has no session any more"
)
def a_refused_return_ends_the_session_of_the_member_before() -> Patches:
    def advance(registry: Registry, turn: Turn, draft: GroupDraft, *rest: Any) -> CurrentAssignment | None:
        for member_id in [one for one, member in draft.changed.items() if member is None]:
            forget_member(registry, turn, draft.group.group_id, member_id)
        return ADVANCE(registry, turn, draft, *rest)

    return [(heartbeat, "advance", advance), (classic_members, "advance", advance)]


@_plant(
    breaks="I30", seen="a commit of a partition that the member gave up moves its next member back (KIP-1251)"
)
def a_member_commits_what_it_gave_up() -> Patches:
    def check(consumers: ConsumerGroups, group: ConsumerGroup, request: CommitOffsets) -> ErrorCode:
        error = check_member_epoch(consumers, group, request)
        return ErrorCode.NONE if error is ErrorCode.STALE_MEMBER_EPOCH else error

    return [(offsets, "check_member_epoch", check)]


@_plant(breaks="I30", seen="a refused change is undone, and its members have no session any more")
def the_timers_of_a_refused_change_are_gone() -> Patches:
    return [(machine, "on_changes_refused", lambda registry, turn, group_id: None)]


@_plant(breaks="I30", seen="members of the dead stay for ever after a failover")
def no_session_begins_with_a_new_coordinator() -> Patches:
    return [(machine, "watch", lambda registry, turn, group: None)]


@_plant(breaks="I31", seen="what was refused is still seen")
def a_group_is_not_put_together_anew_after_a_refusal() -> Patches:
    def undo(self: ConsumerStore, offset: int) -> None:
        self.values.undo(offset)

    return [(ConsumerStore, "undo", undo)]


@_plant(breaks="I30", seen="an answer that is not waited for any more sets the target back")
def a_target_of_an_older_epoch_is_taken() -> Patches:
    def answered(registry: Registry, turn: Turn, question: TargetQuestion, answer: Answer | None) -> None:
        group = registry.consumers.store.latest(question.group_id)
        if group is not None and answer is not None:
            draft = GroupDraft(group)
            draft.retarget(question.epoch, turn.wall_ms)
            write(registry, turn, draft)
        ANSWERED(registry, turn, question, answer)

    return [(machine, "on_target_answered", answered)]


@_plant(breaks="I30", seen="a target brings members back that have left")
def a_target_is_given_to_a_member_that_is_gone() -> Patches:
    def place(self: Placing, draft: GroupDraft, asked: AskedMember, numbers: list[int]) -> int:
        if draft[asked.member_id] is None:
            draft.changed[asked.member_id] = Member(ConsumerMember())
        return PLACE(self, draft, asked, numbers)

    return [(Placing, "_place", place)]


@_plant(breaks="I30", seen="what a pattern stands for is written though no member subscribes it any more")
def a_pattern_that_was_given_up_is_resolved() -> Patches:
    def subscribers(draft: GroupDraft) -> dict[str, set[str]]:
        return {**{pattern: set() for pattern in ("u|v", ".*", "[tu]")}, **SUBSCRIBERS(draft)}

    return [(patterns, "subscribers_of", subscribers)]


@_plant(breaks="I30", seen="a pattern shows what the member may DESCRIBE that asked (KAFKA-19147)")
def a_pattern_shows_what_one_of_its_subscribers_may_see() -> Patches:
    def as_one(registry: Registry, group_id: str, what: Callable[[], None]) -> None:
        live = registry.consumers.live_group(group_id)
        usual = live.who
        live.who = dict.fromkeys(usual, min(usual.values(), default=Who("", "")))
        what()
        live.who = usual

    def ask(registry: Registry, turn: Turn, draft: GroupDraft) -> None:
        as_one(registry, draft.group.group_id, lambda: RESOLVE(registry, turn, draft))

    def hear(registry: Registry, turn: Turn, question: PatternQuestion, answer: PatternAnswer | None) -> None:
        as_one(registry, question.group_id, lambda: RESOLVED(registry, turn, question, answer))

    return [(heartbeat, "resolve_if_due", ask), (machine, "on_patterns_answered", hear)]


# --- groups that go from one protocol to the other -------------------------------------------------


@_plant(breaks="I30", seen="a classic member is told its target, which others still consume")
def a_classic_member_is_told_its_target() -> Patches:
    def assigned(
        registry: Registry, turn: Turn, request: SyncGroup, group: ConsumerGroup, member: Member
    ) -> object:
        current = replace(member.current, assigned=stamp(member.target, 0))
        return ASSIGNED(registry, turn, request, group, member._replace(current=current))

    return [(classic_members, "_assigned", assigned)]


ASSIGNED = classic_members._assigned


@_plant(breaks="K5", seen="nobody reads a partition whose only news was lost with an answer (Kafka)")
def what_a_member_has_is_told_once() -> Patches:
    return [(LiveMember, "must_hear", property(lambda self: False, lambda self, must: None))]


@_plant(breaks="K10", seen="members are given up because a broker stands still (Kafka)")
def a_member_whose_commit_waits_is_given_up() -> Patches:
    def must_wait(registry: Registry, group_id: str, member_id: str) -> bool:
        store = registry.consumers.store
        return registry.consumers.topics is None or store.is_under_way(group_id, member_id)

    return [(leaving, "_must_wait", must_wait)]


@_plant(breaks="I30", seen="a JoinGroup of a cooperative member is read as one of an eager member")
def a_classic_member_that_joins_owns_nothing() -> Patches:
    def read(metadata: bytes) -> Subscription | None:
        subscription = read_subscription(metadata)
        return None if subscription is None else subscription._replace(owned=frozenset())

    return [(classic_members, "read_subscription", read)]


@_plant(breaks="I31", seen="a group that goes back to the classic protocol leaves records behind")
def a_downgrade_keeps_the_current_assignments() -> Patches:
    def tombstones(self: ConsumerStore, group_id: str) -> list[ShardRecord]:
        kept = bytes((0, ConsumerRecord.CURRENT))
        return [one for one in TOMBSTONES(self, group_id) if one.key[:2] != kept]

    return [(ConsumerStore, "tombstones", tombstones)]


TOMBSTONES = ConsumerStore.tombstones


@_plant(breaks="I31", seen="a group that is converted keeps the record of its former protocol")
def an_upgrade_keeps_the_record_of_the_generation() -> Patches:
    return [(Registry, "take_away", lambda self, turn, group: self.evict(turn, group))]


@_plant(breaks="I30", seen="members that are converted begin with nothing, while they go on consuming")
def an_upgrade_forgets_what_its_members_have() -> Patches:
    return [(upgrade, "read_assignment", lambda assignment: MemberAssignment(frozenset(), b""))]


@_plant(breaks="I30", seen="what a member has not heard that it has to give up is given on (Kafka)")
def an_upgrade_does_not_ask_what_its_members_still_consume() -> Patches:
    def read(metadata: bytes) -> Subscription | None:
        subscription = read_subscription(metadata)
        return None if subscription is None else subscription._replace(owned=frozenset())

    return [(upgrade, "read_subscription", read)]


@_plant(breaks="I30", seen="what the last member of its protocol had is read by none")
def a_downgrade_is_not_followed_by_a_rebalance() -> Patches:
    return [(leaving, "rebalance", lambda registry, turn, group, cause: None)]


@_plant(breaks="I30", seen="the rebalance after a downgrade is lost with its coordinator (Kafka)")
def a_coordinator_does_not_begin_the_rebalance_of_a_downgrade_anew() -> Patches:
    def resume(registry: Registry, turn: Turn, group_id: str) -> None:
        stored = registry.store.groups.latest(group_id)
        if stored is not None and stored.members:
            registry.enter(turn, ClassicGroup.load(group_id, stored))

    return [(machine, "resume", resume), (leaving, "resume", resume)]


@_plant(breaks="I30", seen="after a refused conversion no session of the group's members begins")
def a_refused_conversion_leaves_the_group_to_chance() -> Patches:
    return [(leaving, "resume", lambda registry, turn, group_id: None)]
