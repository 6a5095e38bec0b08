"""Heartbeats, members that leave and members that are lost."""

from __future__ import annotations

import pytest

from coordinator.core.group_records import decode_group
from coordinator.core.groups.requests import (
    LeaveGroup,
    LeaveGroupReply,
    Leaver,
    MemberHeartbeat,
    MemberHeartbeatReply,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import SESSION_MS, GroupDesk
from tests.kit.coordinator.machine_desk import WALL_MS


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_a_heartbeat_tells_how_the_group_stands(desk: GroupDesk) -> None:
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    desk.form("a", statics={"s": "i"})
    assert desk.heartbeat("a", 1) is desk.heartbeat("s", 1, "i") is ErrorCode.NONE
    assert desk.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("a", 0) is desk.heartbeat("a", 2) is ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat("a", 1, "i") is ErrorCode.FENCED_INSTANCE_ID
    desk.start_join("a")
    assert desk.heartbeat("s", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.start_join("s", instance_id="i")
    assert desk.heartbeat("s", 2) is ErrorCode.NONE  # before it has its assignment, too


def test_the_empty_group_id_has_no_members(desk: GroupDesk) -> None:
    desk.step(MemberHeartbeat(token=1, group_id="", generation_id=1, member_id="a"))
    desk.step(LeaveGroup(token=2, group_id="", leavers=(Leaver("a"),)))
    assert desk.answer(1, MemberHeartbeatReply).error is ErrorCode.INVALID_GROUP_ID
    assert desk.answer(2, LeaveGroupReply).error is ErrorCode.INVALID_GROUP_ID


def test_a_member_that_is_silent_for_its_session_is_removed_and_the_others_rebalance(desk: GroupDesk) -> None:
    desk.form("a", "b")
    desk.wait(SESSION_MS - 1)
    assert desk.heartbeat("b", 1) is ErrorCode.NONE
    desk.wait(1)
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("b", 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.joined(desk.start_join("b")).leader == "b"


def test_a_commit_keeps_a_session_alive_as_a_heartbeat_does(desk: GroupDesk) -> None:
    desk.form("a")
    for _ in range(5):
        desk.wait(SESSION_MS - 1)
        assert desk.commit_offsets("a", 1).error is ErrorCode.NONE


def test_a_member_whose_commit_waits_is_not_silent_and_begins_anew_with_the_answer(desk: GroupDesk) -> None:
    """The next heartbeat of many a client waits for the answer to its last one, which is behind that of the
    commit."""
    desk.form("a", "b")
    desk.wait(1_000)
    desk.heartbeat("b", 1)
    desk.is_holding = True
    token = desk.start_commit("a", 1)
    for _ in range(3):
        desk.wait(SESSION_MS - 1)
        assert desk.heartbeat("b", 1) is ErrorCode.NONE
    assert token not in desk.replies
    desk.commit()
    desk.wait(SESSION_MS - 1)
    assert desk.heartbeat("a", 1) is ErrorCode.NONE


@pytest.mark.parametrize("is_written", [True, False])
def test_a_member_that_is_silent_after_its_commits_were_answered_is_given_up(
    desk: GroupDesk, *, is_written: bool
) -> None:
    desk.form("a", "b")
    desk.is_holding = True
    desk.start_commit("a", 1)
    desk.start_commit("a", 1)
    desk.wait(3 * SESSION_MS)
    desk.heartbeat("b", 1)
    desk.commit(1)
    (desk.commit if is_written else desk.refuse)()
    desk.is_holding = False
    desk.wait(SESSION_MS - 1)
    desk.heartbeat("b", 1)
    desk.wait(1)
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_sets_no_timer(desk: GroupDesk) -> None:
    desk.form("a")
    desk.wait(1_000)
    before = dict(desk.timers)
    desk.heartbeat("a", 1)
    assert desk.timers == before


def test_a_shorter_session_ends_sooner(desk: GroupDesk) -> None:
    desk.form("a", "b")
    desk.start_join("a", session_ms=6_000)
    desk.start_join("b")
    desk.sync_all(2, "a", "b")
    desk.wait(6_000)
    assert desk.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_leave_in_one_request_each_with_its_own_answer(desk: GroupDesk) -> None:
    desk.form("a", "b", statics={"s": "i", "t": "j"})
    desk.start_join(new_id="p", requires_member_id=True)
    errors = desk.leave(
        Leaver("a"),
        Leaver("p"),
        Leaver("", "i"),
        Leaver("other", "j"),
        Leaver("nobody"),
        Leaver("", "unknown"),
        Leaver(""),
    )
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [member.member_id for member in desk.describe().members] == ["b", "t"]
    assert desk.state == "PreparingRebalance"


def test_a_group_that_nobody_has_joined_can_be_left_by_nobody(desk: GroupDesk) -> None:
    token = desk.ask(LeaveGroup(token=9, group_id="g", leavers=(Leaver("a", "i"),)))
    assert desk.answer(token, LeaveGroupReply) == LeaveGroupReply(
        ErrorCode.NONE, ((Leaver("a", "i"), ErrorCode.UNKNOWN_MEMBER_ID),)
    )


def test_a_member_that_leaves_while_it_waits_is_answered(desk: GroupDesk) -> None:
    desk.form("a", "b")
    joining = desk.start_join("a")
    desk.leave(Leaver("a"))
    assert desk.joined(joining).error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.start_join("b")
    desk.start_join(new_id="c")
    syncing = desk.start_sync("b", 2)
    assert desk.synced(syncing).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_pending_member_that_leaves_disturbs_no_one(desk: GroupDesk) -> None:
    desk.form("a")
    desk.start_join(new_id="p", requires_member_id=True)
    assert desk.leave(Leaver("p")) == [ErrorCode.NONE]
    assert desk.state == "Stable"


def test_the_last_member_leaves_an_empty_generation_behind(desk: GroupDesk) -> None:
    desk.form("a")
    desk.wait(500)
    desk.is_holding = True
    token = desk.start_leave(Leaver("a"))
    assert token not in desk.replies
    desk.commit()
    assert desk.answer(token, LeaveGroupReply).error is ErrorCode.NONE
    stored = decode_group(desk.records[-1].value or b"")
    assert (stored.generation_id, stored.protocol, stored.leader, stored.members) == (2, None, None, ())
    assert (stored.protocol_type, stored.changed_ms) == ("consumer", WALL_MS + desk.now_ms)
    desk.fail_over()
    assert desk.state == "Empty"
    desk.is_holding = False
    assert desk.form("b") == 3
