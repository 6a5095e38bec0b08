"""Who may commit for a `consumer` group, and what operators may do with its offsets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator.core.groups.requests import (
    FetchOffsets,
    FetchOffsetsReply,
    GroupOffsets,
    GroupPlaces,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.consumer_desk import ConsumerDesk, some, topic
from tests.kit.coordinator.group_desk import GROUP

T = topic("t", 2)
DAY_MS = 24 * 60 * 60 * 1_000


@pytest.fixture
def desk() -> ConsumerDesk:
    """a has partition 0 since epoch 2, b has 1 since 3; both are at epoch 3."""
    desk = ConsumerDesk(T)
    desk.join("a")
    desk.join("b")
    desk.wait(1_000)
    desk.beat("a", 2, owned=some(T, 0))
    assert desk.beat("b", 2).assigned == some(T, 1)
    return desk


def commit(desk: ConsumerDesk, member_id: str, epoch: int, *partitions: int) -> ErrorCode:
    offsets = [OffsetToCommit(OffsetPlace("t", one), 7) for one in partitions]
    return desk.commit_offsets(member_id, epoch, *offsets).error


def test_a_member_commits_at_its_epoch(desk: ConsumerDesk) -> None:
    assert commit(desk, "a", 3, 0) is ErrorCode.NONE
    assert commit(desk, "a", 4, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "x", 3, 0) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_just_before_the_epoch_rose_is_taken_but_not_of_a_partition_that_moved(
    desk: ConsumerDesk,
) -> None:
    """KAFKA-20066, KIP-1251."""
    assert commit(desk, "a", 2, 0) is ErrorCode.NONE
    assert commit(desk, "a", 2, 0, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(desk, "b", 2, 1) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize("is_written", [True, False])
def test_a_member_whose_commit_waits_is_not_silent(*, is_written: bool) -> None:
    """One of either protocol: the next heartbeat of many a client waits for the answer to its last one, which
    is behind that of the commit. A storm gave four members up so, while a broker stood still."""
    desk = ConsumerDesk(T)
    desk.join("a")
    desk.join_classic(new_id="c", session_ms=6_000)
    desk.wait(1_000)
    desk.beat("a", 2)
    desk.beat("a", 2, owned=some(T, 0))
    epoch = desk.join_classic("c", session_ms=6_000).generation_id
    assert desk.sync_classic("c", epoch) == some(T, 1)
    assert epoch == desk.member("a").current.epoch
    desk.is_holding = True
    tokens = desk.start_commit("a", epoch), desk.start_commit("c", epoch)
    assert not desk.replies.keys() & set(tokens)
    desk.wait(desk.options.consumer_session_ms + 20_000)
    assert set(desk.group.members) == {"a", "c"}
    (desk.commit if is_written else desk.refuse)()
    desk.is_holding = False
    desk.wait(5_999)
    assert set(desk.group.members) == {"a", "c"}
    desk.wait(1)
    assert set(desk.group.members) == {"a"}
    desk.wait(desk.options.consumer_session_ms)
    assert not desk.group.members


def test_what_a_member_was_asked_to_give_up_it_may_still_commit(desk: ConsumerDesk) -> None:
    desk.beat("a", -1)
    desk.wait(1_000)
    desk.beat("b", 3)
    desk.join("c")
    desk.wait(1_000)
    desk.beat("b", 4)
    revoking = desk.member("b").current.revoking
    assert revoking
    assert commit(desk, "b", 4, *revoking[T.topic_id]) is ErrorCode.NONE


def test_from_outside_only_a_group_without_members_takes_commits(desk: ConsumerDesk) -> None:
    assert commit(desk, "", -1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, "a", -1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    desk.beat("a", -1)
    desk.beat("b", -1)
    for who in (("", 0), ("", 3), ("a", 3)):
        assert commit(desk, *who, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(desk, "", -1, 0) is ErrorCode.NONE


def test_versions_without_epochs_are_for_members_of_the_classic_protocol(desk: ConsumerDesk) -> None:
    desk.join_classic(new_id="c", session_ms=6_000)
    epoch = desk.member("c").current.epoch
    assert desk.commit_offsets("c", epoch, knows_epochs=False).error is ErrorCode.NONE
    refused = desk.commit_offsets("a", 3, knows_epochs=False)
    assert refused.error is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("place", [OffsetPlace("t", 0, UUID(int=5)), OffsetPlace("unknown", 0)])
def test_a_commit_of_an_earlier_epoch_is_of_a_topic_that_the_member_had(
    desk: ConsumerDesk, place: OffsetPlace
) -> None:
    for known, error in (
        (OffsetPlace("t", 0, T.topic_id), ErrorCode.NONE),
        (place, ErrorCode.STALE_MEMBER_EPOCH),
    ):
        assert desk.commit_offsets("a", 2, OffsetToCommit(known, 7)).error is error


@pytest.mark.parametrize(
    ("group_id", "member", "error"),
    [
        (GROUP, (None, -1), ErrorCode.NONE),
        (GROUP, ("a", 3), ErrorCode.NONE),
        (GROUP, ("a", 2), ErrorCode.STALE_MEMBER_EPOCH),
        (GROUP, ("a", 4), ErrorCode.STALE_MEMBER_EPOCH),
        (GROUP, ("a", -1), ErrorCode.STALE_MEMBER_EPOCH),
        (GROUP, ("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (GROUP, (None, 0), ErrorCode.UNKNOWN_MEMBER_ID),
        ("another", ("x", 3), ErrorCode.NONE),
    ],
)
@pytest.mark.parametrize("requires_stable", [False, True])
def test_a_member_fetches_at_its_epoch(
    desk: ConsumerDesk,
    group_id: str,
    member: tuple[str | None, int],
    error: ErrorCode,
    *,
    requires_stable: bool,
) -> None:
    """Another group has no members of this kind: then nobody is asked who it is, as in Kafka."""
    places = GroupPlaces(group_id, None, *member)
    request = FetchOffsets(token=desk.token(), groups=(places,), requires_stable=requires_stable)
    (found,) = desk.answer(desk.ask(request), FetchOffsetsReply).groups
    assert found == GroupOffsets(group_id, (), error=error)


def test_a_transaction_commits_by_the_same_rule(desk: ConsumerDesk) -> None:
    def pending(producer_id: int, **member: Any) -> ErrorCode:
        token = desk.start_pending((producer_id, 0), OffsetToCommit(OffsetPlace("t", 0), 7), **member)
        return desk.answer(token, OffsetsReply).error

    assert pending(1, member_id="a", generation_id=3) is ErrorCode.NONE
    assert pending(2, member_id="b", generation_id=2) is ErrorCode.STALE_MEMBER_EPOCH
    assert pending(3) is ErrorCode.NONE


def test_offsets_of_subscribed_topics_are_not_deleted(desk: ConsumerDesk) -> None:
    commit(desk, "a", 3, 0)
    places = (OffsetPlace("t", 0), OffsetPlace("old", 0))
    errors = [error for _, error in desk.delete_offsets(*places).partitions]
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]


def test_offsets_expire_a_retention_after_the_last_member_left(desk: ConsumerDesk) -> None:
    commit(desk, "a", 3, 0)
    desk.beat("b", -1)
    for _ in range(20):  # days with a member, and no commit
        desk.wait(40_000)
        desk.beat("a", desk.member("a").current.epoch, owned=some(T, 0))
    desk.beat("a", -1)
    desk.wait(7 * DAY_MS - 60_000)
    assert desk.fetch() == {("t", 0): 7}
    desk.wait(21 * 60_000)
    assert desk.fetch() == {}
    assert desk.machine.registry.consumers.store.latest(GROUP) is None
