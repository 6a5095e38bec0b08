"""Assignments are written before they are told."""

from __future__ import annotations

import pytest

from coordinator.core.group_records import GroupKey, decode_group, decode_key
from coordinator.core.groups.requests import JoinProtocol, SyncGroupReply
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import REBALANCE_MS, SESSION_MS, GroupDesk, subscription
from tests.kit.coordinator.machine_desk import WALL_MS


@pytest.fixture
def desk() -> GroupDesk:
    """A group of a and b in CompletingRebalance, generation 1, a the leader."""
    desk = GroupDesk()
    desk.start_join(new_id="a")
    desk.start_join(new_id="b")
    desk.wait(6_000)
    return desk


def test_nobody_hears_of_its_assignment_before_the_record_is_committed(desk: GroupDesk) -> None:
    desk.is_holding = True
    early = desk.start_sync("b", 1)
    leader = desk.start_sync("a", 1, {"a": b"1", "b": b"2"})
    late = desk.start_sync("b", 1)  # on a new connection: the first was lost
    assert not {early, leader, late} & desk.replies.keys()
    desk.commit()
    assert desk.synced(leader) == SyncGroupReply(ErrorCode.NONE, "consumer", "range", b"1")
    assert desk.synced(early).assignment == desk.synced(late).assignment == b"2"
    (record,) = desk.records
    assert decode_key(record.key) == GroupKey("g")
    stored = decode_group(record.value or b"")
    assert (stored.generation_id, stored.leader, stored.protocol) == (1, "a", "range")
    assert stored.changed_ms == WALL_MS + desk.now_ms
    assert {m.member_id: m.assignment for m in stored.members} == {"a": b"1", "b": b"2"}


def test_refused_assignments_begin_a_rebalance_and_nobody_hears_of_them(desk: GroupDesk) -> None:
    desk.is_holding = True
    tokens = [
        desk.start_sync("b", 1),
        desk.start_sync("a", 1, {"a": b"1", "b": b"2"}),
        desk.start_sync("b", 1),
    ]
    desk.refuse()
    assert [desk.replies[token] for token in tokens] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    assert desk.state == "PreparingRebalance"
    assert {member.assignment for member in desk.describe().members} == {b""}
    desk.is_holding = False
    again = [desk.start_join("a"), desk.start_join("b")]
    assert [desk.joined(token).generation_id for token in again] == [2, 2]
    desk.sync_all(2, "a", "b")


def test_refused_assignments_of_a_group_that_has_gone_on_do_not_disturb_it(desk: GroupDesk) -> None:
    desk.is_holding = True
    desk.start_sync("a", 1, {"a": b"1", "b": b"2"})
    changed = (JoinProtocol("range", subscription("u")),)
    tokens = [desk.start_join("b", protocols=changed), desk.start_join("a")]
    desk.refuse()
    assert [desk.joined(token).generation_id for token in tokens] == [2, 2]
    assert desk.state == "CompletingRebalance"


def test_who_waits_for_the_record_to_be_committed_outlives_its_session(desk: GroupDesk) -> None:
    desk.is_holding = True
    tokens = [desk.start_sync("b", 1), desk.start_sync("a", 1, {"a": b"1", "b": b"2"})]
    desk.wait(3 * SESSION_MS)
    desk.commit()
    assert [desk.synced(token).assignment for token in tokens] == [b"2", b"1"]
    assert desk.heartbeat("a", 1) is ErrorCode.NONE
    desk.wait(SESSION_MS)
    assert desk.heartbeat("b", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_begins_again_when_the_assignment_is_told(desk: GroupDesk) -> None:
    """A log that takes as long as a session leaves a member no time for its first heartbeat."""
    desk.is_holding = True
    asked = [desk.start_sync("b", 1), desk.start_sync("a", 1, {"a": b"1", "b": b"2"})]
    desk.wait(SESSION_MS - 1)
    desk.commit()
    assert [desk.synced(token).assignment for token in asked] == [b"2", b"1"]
    desk.wait(SESSION_MS - 1)
    assert desk.heartbeat("a", 1) is desk.heartbeat("b", 1) is ErrorCode.NONE


def test_a_session_begins_again_when_the_assignment_is_refused(desk: GroupDesk) -> None:
    desk.is_holding = True
    desk.start_sync("b", 1)
    desk.start_sync("a", 1, {"a": b"1", "b": b"2"})
    desk.wait(SESSION_MS - 1)
    desk.refuse()
    desk.wait(SESSION_MS - 1)
    again = [desk.start_join("a"), desk.start_join("b")]
    assert [desk.joined(token).generation_id for token in again] == [2, 2]


def test_a_member_that_the_leader_left_out_is_assigned_nothing(desk: GroupDesk) -> None:
    token = desk.start_sync("b", 1)
    desk.start_sync("a", 1, {"a": b"1", "stranger": b"3"})
    assert desk.synced(token) == SyncGroupReply(ErrorCode.NONE, "consumer", "range", b"")


def test_who_asks_in_the_wrong_name_generation_or_protocol_is_refused(desk: GroupDesk) -> None:
    asked = (
        desk.start_sync("nobody", 1),
        desk.start_sync("a", 0),
        desk.start_sync("a", 2),  # a generation that this coordinator has not begun
        desk.start_sync("a", 1, protocol="roundrobin"),
        desk.start_sync("a", 1, protocol_type="connect"),
        desk.start_sync("a", 1, instance_id="i"),
    )
    assert [desk.synced(token).error for token in asked] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    right = desk.start_sync("a", 1, {}, protocol="range", protocol_type="consumer")
    assert desk.synced(right).error is ErrorCode.NONE


def test_who_waits_for_an_assignment_hears_of_a_rebalance_that_comes_before(desk: GroupDesk) -> None:
    waiting = desk.start_sync("b", 1)
    desk.start_join(new_id="c")
    assert desk.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.synced(desk.start_sync("a", 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_removed_and_the_others_go_on(desk: GroupDesk) -> None:
    waiting = desk.start_sync("b", 1)
    for _ in range(REBALANCE_MS // 5_000):
        desk.heartbeat("a", 1)
        desk.wait(5_000)
    assert desk.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.joined(desk.start_join("b")).leader == "b"
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_never_asks_is_removed_from_a_stable_group_too(desk: GroupDesk) -> None:
    desk.start_sync("a", 1, {"a": b"1"})
    for _ in range(REBALANCE_MS // 5_000):
        assert desk.heartbeat("a", 1) is desk.heartbeat("b", 1) is ErrorCode.NONE
        desk.wait(5_000)
    assert [member.member_id for member in desk.describe().members] == ["a"]
    assert desk.state == "PreparingRebalance"


def test_a_member_that_waits_for_its_assignment_outlives_its_session(desk: GroupDesk) -> None:
    waiting = desk.start_sync("b", 1)
    for _ in range(4):
        desk.heartbeat("a", 1)
        desk.wait(5_000)
    desk.start_sync("a", 1, {"b": b"2"})
    assert desk.synced(waiting).assignment == b"2"
    desk.wait(9_999)
    assert "b" in {member.member_id for member in desk.describe().members}


def test_a_group_that_nobody_has_joined_knows_no_member() -> None:
    desk = GroupDesk()
    assert desk.synced(desk.start_sync("a", 1)).error is ErrorCode.UNKNOWN_MEMBER_ID
