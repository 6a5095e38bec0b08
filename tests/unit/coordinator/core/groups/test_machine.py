"""A group survives its coordinator."""

from __future__ import annotations

import pytest

from coordinator.core.group_records import NewerGroupRecord, UnreadableGroupRecord
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import Leaver
from coordinator.core.machine import ShardRecord
from springtide.levels import NEWEST, RELEASES
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import SESSION_MS, GroupDesk


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_a_stable_group_goes_on_after_a_failover_without_a_rebalance(desk: GroupDesk) -> None:
    desk.form("a", "b", statics={"s": "i"})
    desk.wait(SESSION_MS - 1)
    desk.fail_over()
    desk.wait(SESSION_MS - 1)  # sessions have begun anew
    assert desk.heartbeat("a", 1) is desk.heartbeat("s", 1, "i") is ErrorCode.NONE
    assert desk.synced(desk.start_sync("b", 1)).assignment == b"b"
    assert desk.commit_offsets("a", 1).error is ErrorCode.NONE
    assert (desk.state, desk.describe().protocol) == ("Stable", "range")
    desk.wait(SESSION_MS)
    assert desk.heartbeat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_that_was_not_written_is_begun_again(desk: GroupDesk) -> None:
    desk.form("a", "b")
    joining = desk.start_join("a")
    desk.start_join("b")
    assert desk.joined(joining).generation_id == 2
    desk.fail_over()
    assert desk.heartbeat("a", 2) is ErrorCode.ILLEGAL_GENERATION
    assert desk.synced(desk.start_sync("a", 2)).error is ErrorCode.ILLEGAL_GENERATION
    again = desk.start_join("a")
    desk.start_join("b")
    assert desk.joined(again).generation_id == 2
    desk.sync_all(2, "a", "b")


def test_parked_requests_are_given_up_with_the_shard(desk: GroupDesk) -> None:
    desk.form("a", "b")
    joining = desk.start_join("a")
    desk.fail_over()
    assert desk.replies[joining] is ErrorCode.NOT_COORDINATOR
    desk.start_join("a")
    desk.start_join("b")
    syncing = desk.start_sync("b", 2)
    desk.fail_over()
    assert desk.replies[syncing] is ErrorCode.NOT_COORDINATOR


def test_a_group_whose_emptiness_was_refused_is_still_empty_here_and_can_be_deleted(desk: GroupDesk) -> None:
    desk.form("a")
    desk.is_holding = True
    desk.start_leave(Leaver("a"))
    desk.refuse()
    assert desk.state == "Empty"
    token = desk.start_delete("g")
    desk.refuse()
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    # What is stored still has the member: it is back until its session ends.
    assert desk.heartbeat("a", 1) is ErrorCode.NONE
    desk.is_holding = False
    desk.wait(SESSION_MS)
    assert desk.state == "Empty"


def test_legacy_offsets_are_skipped_and_garbage_is_not() -> None:
    machine = GroupMachine(GroupOptions())
    machine.apply(ShardRecord(b"\0\0\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00\x00"), 0)
    machine.committed(1)
    assert machine.opened(0, 0).timers
    with pytest.raises(UnreadableGroupRecord):
        machine.apply(ShardRecord(b"\x00\x02\x00\x01g", b"\x00\x03"), 1)


def test_a_version_of_a_later_release_is_told_with_its_group_and_both_releases() -> None:
    machine = GroupMachine(GroupOptions())
    text = f"group 'g': version 9 is of a later release; this one, {RELEASES[NEWEST]}, reads up to version 4"
    for key in (b"\x00\x02\x00\x01g", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"):
        with pytest.raises(NewerGroupRecord, match=text):
            machine.apply(ShardRecord(key, b"\x00\x09" + bytes(40)), 5)


@pytest.mark.parametrize("key_type", [4, 10, 23, 99])
def test_a_type_of_a_later_release_is_not_skipped_but_its_tombstone_is(key_type: int) -> None:
    machine = GroupMachine(GroupOptions())
    key = key_type.to_bytes(2) + b"anything"
    machine.apply(ShardRecord(key, None), 6)
    with pytest.raises(
        NewerGroupRecord, match=f"at offset 7 is of type {key_type}, .*{RELEASES[NEWEST]}, does not know"
    ):
        machine.apply(ShardRecord(key, b"\x00\x00"), 7)
