"""Offsets are committed by those who may, kept once answered, and read as they are committed."""

from __future__ import annotations

from uuid import UUID

import pytest

from coordinator.core.group_records import OffsetKey, decode_key, decode_offset
from coordinator.core.groups.requests import (
    FetchOffsets,
    FetchOffsetsReply,
    GroupPlaces,
    JoinProtocol,
    OffsetPlace,
    OffsetsReply,
    OffsetToCommit,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GroupDesk
from tests.kit.coordinator.machine_desk import WALL_MS

T0, T1, U0 = OffsetPlace("t", 0), OffsetPlace("t", 1), OffsetPlace("u", 0)


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_a_member_commits_and_all_of_it_is_read_again(desk: GroupDesk) -> None:
    desk.form("a")
    reply = desk.commit_offsets(
        "a", 1, OffsetToCommit(T0, 7, LeaderEpoch(3), "note"), OffsetToCommit(U0, 9, LeaderEpoch(-1), None)
    )
    assert reply == OffsetsReply(ErrorCode.NONE, ((T0, ErrorCode.NONE), (U0, ErrorCode.NONE)))
    token = desk.ask(
        FetchOffsets(token=desk.token(), groups=(GroupPlaces("g", (T0, T1)), GroupPlaces("h", None)))
    )
    first, second = desk.answer(token, FetchOffsetsReply).groups
    (_, value), missing = first.offsets
    assert value is not None
    assert (value.offset, value.leader_epoch, value.metadata) == (7, 3, "note")
    assert value.committed_ms == WALL_MS + desk.now_ms
    assert (missing, second.offsets) == ((T1, None), ())
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 9}
    desk.fail_over()
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 9}


def test_a_commit_is_answered_and_read_once_it_is_committed(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.is_holding = True
    token = desk.start_commit("", -1, OffsetToCommit(T0, 8))
    assert token not in desk.replies
    assert desk.fetch(T0) == {("t", 0): 7}
    desk.commit()
    assert desk.answer(token, OffsetsReply).error is ErrorCode.NONE
    assert desk.fetch(T0) == {("t", 0): 8}


def test_a_refused_commit_changes_nothing(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.is_holding = True
    token = desk.start_commit("", -1, OffsetToCommit(T0, 8), OffsetToCommit(T1, 1))
    desk.refuse()
    assert desk.replies[token] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert desk.fetch() == {("t", 0): 7}


def test_who_may_commit_to_a_group_with_members(desk: GroupDesk) -> None:
    desk.form("a", statics={"s": "i"})
    errors = [
        desk.commit_offsets(*who, instance_id=instance_id).error
        for who, instance_id in (
            (("a", 1), None),
            (("s", 1), "i"),
            (("a", 0), None),
            (("a", 2), None),
            (("nobody", 1), None),
            (("a", 1), "i"),
            (("", -1), None),
            (("a", -1), None),
            (("", -1), "i"),
        )
    ]
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
    ]


def test_members_may_commit_before_a_new_generation_and_not_before_their_assignment(desk: GroupDesk) -> None:
    desk.form("a", "b")
    desk.start_join("a")
    assert desk.commit_offsets("b", 1).error is ErrorCode.NONE
    desk.start_join("b")
    assert desk.commit_offsets("b", 1).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.commit_offsets("b", 2).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_client_that_manages_its_partitions_itself_commits_to_groups_without_members(
    desk: GroupDesk,
) -> None:
    assert desk.commit_offsets("", 5).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.commit_offsets().error is ErrorCode.NONE
    assert desk.commit_offsets(group_id="").error is ErrorCode.NONE
    assert (desk.state, desk.describe().protocol_type) == ("Empty", "")
    for generation_id in (0, 5):
        assert desk.commit_offsets("", generation_id).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert desk.commit_offsets("", generation_id, group_id="h").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.commit_offsets("a", -1).error is ErrorCode.NONE, "a member that has left"


def test_a_commit_that_is_refused_leaves_no_trace(desk: GroupDesk) -> None:
    desk.is_holding = True
    desk.start_commit("", -1, OffsetToCommit(T0, 8))
    store = desk.machine.registry.store
    assert len(store.latest_offsets("g")) == 1
    desk.refuse()
    assert (store.latest_offsets("g"), store.group_ids()) == ([], set())


def test_a_member_whose_offsets_are_all_out_of_bounds_waits_for_no_commit(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_offsets("a", 1, OffsetToCommit(T0, 1, LeaderEpoch(-1), "x" * 4_097))
    assert desk.machine.registry.committing == {}


@pytest.mark.parametrize("more", [0, 1])
def test_names_may_be_as_long_as_a_record_can_hold(desk: GroupDesk, more: int) -> None:
    place, group_id = OffsetPlace("t" * (32_767 + more), 0), "g" * (32_767 + more)
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if more else ErrorCode.NONE
    assert desk.commit_offsets("", -1, OffsetToCommit(place, 1)).partitions == ((place, error),)
    refused = ErrorCode.INVALID_GROUP_ID if more else ErrorCode.NONE
    assert desk.commit_offsets(group_id=group_id).error is refused
    assert desk.commit_pending((7, 0), group_id=group_id).error is refused


def test_one_offset_out_of_bounds_does_not_keep_the_others_from_being_committed(desk: GroupDesk) -> None:
    reply = desk.commit_offsets(
        "",
        -1,
        OffsetToCommit(T0, 1, LeaderEpoch(-1), "x" * 4_097),
        OffsetToCommit(T1, 1, LeaderEpoch(-1), "é" * 4_096),
    )
    assert [error for _, error in reply.partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    far = desk.commit_offsets("", -1, OffsetToCommit(OffsetPlace("t" * 40_000, 0), 1))
    assert [error for _, error in far.partitions] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert desk.commit_offsets(group_id="g" * 40_000).error is ErrorCode.INVALID_GROUP_ID
    assert desk.fetch() == {("t", 1): 1}


def test_a_topic_created_again_inherits_no_offset(desk: GroupDesk) -> None:
    old, new = UUID(int=1), UUID(int=2)
    desk.commit_offsets("", -1, OffsetToCommit(T0._replace(topic_id=old), 7), OffsetToCommit(U0, 5))
    assert desk.fetch(T0._replace(topic_id=old), U0._replace(topic_id=old)) == {("t", 0): 7, ("u", 0): 5}
    assert desk.fetch(T0._replace(topic_id=new)) == {("t", 0): None}
    assert desk.fetch(T0) == {("t", 0): 7}  # the client does not know ids
    desk.commit_offsets("", -1, OffsetToCommit(T0._replace(topic_id=new), 0))
    assert desk.fetch(T0._replace(topic_id=new)) == {("t", 0): 0}


def test_an_expiry_that_an_old_client_names_is_written(desk: GroupDesk) -> None:
    desk.commit_offsets(retention_ms=60_000)
    desk.commit_offsets("", -1, OffsetToCommit(T1, 1), retention_ms=2**63 - 1)
    expiries = [decode_offset(record.value or b"").expires_ms for record in desk.records]
    assert expiries == [WALL_MS + 60_000, 2**63 - 1]


def test_offsets_are_deleted_unless_a_member_subscribes_their_topic(desk: GroupDesk) -> None:
    assert desk.delete_offsets(T0).error is ErrorCode.GROUP_ID_NOT_FOUND
    desk.form("a")
    desk.commit_offsets("a", 1, OffsetToCommit(T0, 7), OffsetToCommit(U0, 9))
    reply = desk.delete_offsets(T0, U0, OffsetPlace("u", 1))
    assert [error for _, error in reply.partitions] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.NONE,
    ]
    assert desk.fetch() == {("t", 0): 7}
    assert decode_key(desk.records[-1].key) == OffsetKey("g", "u", 0)
    assert desk.records[-1].value is None


def test_offsets_that_were_committed_without_a_group_are_not_deleted(desk: GroupDesk) -> None:
    """The empty id may be committed under (old clients do), and nothing else, as in Kafka."""
    desk.commit_offsets(group_id="")
    assert desk.delete_offsets(T0, group_id="").error is ErrorCode.INVALID_GROUP_ID
    assert desk.fetch(group_id="") == {("t", 0): 7}


def test_where_the_coordinator_cannot_read_what_members_subscribe_it_deletes_nothing(desk: GroupDesk) -> None:
    token = desk.start_join(new_id="w", protocol_type="connect", protocols=(JoinProtocol("x", b"y"),))
    desk.wait(3_000)
    assert desk.joined(token).error is ErrorCode.NONE
    assert desk.delete_offsets(T0).error is ErrorCode.NON_EMPTY_GROUP
    strange = GroupDesk()
    strange.start_join(new_id="a", protocols=(JoinProtocol("range", b"\x00"),))
    strange.wait(3_000)
    strange.sync_all(1, "a")
    strange.commit_offsets("a", 1)
    assert strange.delete_offsets(T0).partitions == ((T0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC),)


def test_a_deletion_that_is_under_way_already_is_told_once_it_is_committed(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.is_holding = True
    tokens = [desk.start_delete_offsets(T0), desk.start_delete_offsets(T0)]
    assert not set(tokens) & desk.replies.keys()
    desk.refuse()
    assert [desk.replies[token] for token in tokens] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    assert desk.fetch(T0) == {("t", 0): 7}
