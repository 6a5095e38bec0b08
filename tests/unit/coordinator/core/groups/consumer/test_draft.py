"""A group as a step leaves it: what is free for whom, what is subscribed, and whether anything changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coordinator.core.consumer_group_records import CurrentAssignment, ResolvedPattern
from coordinator.core.group_records import ConsumerGroupKey, ConsumerRecord
from coordinator.core.groups.consumer.draft import GroupDraft
from coordinator.core.groups.consumer.state import Member
from coordinator.core.topic_partitions import StampedPartitions
from tests.kit.coordinator.consumer_desk import ConsumerDesk, some, topic

T, U = topic("t", 2), topic("u", 1)
BOTH: StampedPartitions = {T.topic_id: {0: 2, 1: 3}}


@pytest.fixture
def draft() -> GroupDraft:
    """a has partition 0 of t, and b has 1."""
    desk = ConsumerDesk(T, U)
    desk.join("a", "t")
    desk.join("b", "t")
    desk.wait(1_000)
    desk.beat("a", 2, owned=some(T, 0))
    assert desk.beat("b", 2).assigned == some(T, 1)
    return GroupDraft(desk.group)


def own(draft: GroupDraft, member_id: str) -> Member:
    member = draft[member_id]
    assert member is not None
    return member


def has(draft: GroupDraft, member_id: str, assigned: StampedPartitions, revoking: StampedPartitions) -> None:
    current = CurrentAssignment(epoch=3, previous_epoch=2, assigned=assigned, revoking=revoking)
    draft.changed[member_id] = own(draft, member_id)._replace(current=current)


def subscribes(draft: GroupDraft, member_id: str, *topics: str, pattern: str | None = None) -> None:
    member = own(draft, member_id)
    draft.changed[member_id] = member._replace(about=replace(member.about, topics=topics, pattern=pattern))


def free(draft: GroupDraft, member_id: str) -> list[int]:
    return [*draft.free_for(member_id, BOTH).get(T.topic_id, ())]


def test_a_partition_has_one_owner_until_it_has_let_go(draft: GroupDraft) -> None:
    """Also of what it was only asked to give up: it may be consuming it."""
    assert [free(draft, one) for one in ("a", "b", "c")] == [[0], [1], []]
    for assigned, revoking in ((BOTH, {}), ({}, BOTH)):
        has(draft, "a", assigned, revoking)
        assert [free(draft, one) for one in ("a", "b", "c")] == [[0], [1], []]
    has(draft, "a", {}, {})
    assert [free(draft, one) for one in ("a", "b", "c")] == [[0], [0, 1], [0]]
    draft.changed["b"] = None
    assert [free(draft, one) for one in ("a", "c")] == [[0, 1], [0, 1]]


def test_topics_are_those_of_the_members_as_they_will_be(draft: GroupDraft) -> None:
    assert draft.subscribed() == {"t"}
    subscribes(draft, "a", "u")
    assert draft.subscribed() == {"t", "u"}
    draft.changed["b"] = None
    assert draft.subscribed() == {"u"}


def test_patterns_are_counted_by_the_members_that_subscribe_them(draft: GroupDraft) -> None:
    assert draft.asked() == {}
    subscribes(draft, "a", pattern="u.*")
    subscribes(draft, "b", pattern="u.*")
    assert draft.asked() == {"u.*": 2}
    draft.resolved["u.*"] = ResolvedPattern(("u",), 1, 1)
    assert draft.topics_of(own(draft, "a").about) == {"u"}
    subscribes(draft, "b", "t")
    assert (draft.asked(), draft.subscribed()) == ({"u.*": 1}, {"t", "u"})
    assert draft.topics_of(own(draft, "b").about) == {"t"}


CHANGES: dict[str, Callable[[GroupDraft], object]] = {
    "a member": lambda draft: subscribes(draft, "a", "u"),
    "a pattern": lambda draft: draft.resolved.update(p=ResolvedPattern((), 1, 1)),
    "the epoch": lambda draft: draft.raise_epoch(draft.topics_hash),
    "the topics": lambda draft: setattr(draft, "topics_hash", draft.topics_hash - 1),
    "the target": lambda draft: draft.retarget(9, 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_is_written(draft: GroupDraft, change: Callable[[GroupDraft], object]) -> None:
    assert (draft.is_same, [*draft.records()]) == (True, [])
    change(draft)
    assert not draft.is_same
    assert [*draft.records()]


def test_a_group_that_is_new_or_was_of_the_other_protocol_is_written_as_a_whole(draft: GroupDraft) -> None:
    group, key = draft.group, ConsumerGroupKey(ConsumerRecord.EPOCH, "g")
    new, converted = GroupDraft(group, is_new=True), GroupDraft(group, converted=((key, None),))
    assert [each.was_made for each in (draft, new, converted)] == [False, True, True]
    assert [each.is_same for each in (draft, new, converted)] == [True, False, False]
    assert [recorded for recorded, _ in new.records()] == [
        ConsumerGroupKey(ConsumerRecord.EPOCH, group.group_id)
    ]
    assert [*converted.records()] == [(key, None)]


def test_who_came_and_went_within_a_step_leaves_no_records(draft: GroupDraft) -> None:
    draft.changed["c"] = None
    assert [*draft.records()] == []
    draft.changed["a"] = None
    assert {recorded.name for recorded, _ in draft.records()} == {"a"}
