"""Offsets of a transaction count together with its records, or not at all; and what comes late changes
nothing."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from coordinator.core.group_records import (
    CommittedOffset,
    OffsetKey,
    PendingKey,
    decode_key,
    decode_offset,
)
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.pending import PendingOffsets, bytes_of
from coordinator.core.groups.requests import MustVerify, OffsetPlace, OffsetsReply, OffsetToCommit
from coordinator.core.pending_records import PendingOffset
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.kit.coordinator.group_desk import GroupDesk
from tests.kit.coordinator.machine_desk import WALL_MS

T0, T1, U0 = OffsetPlace("t", 0), OffsetPlace("t", 1), OffsetPlace("u", 0)
P = 1_000, 3
"""A producer's id and epoch."""
DAY_MS = 86_400_000


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_offsets_count_once_their_transaction_commits_all_in_one_batch(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.commit_pending(P, OffsetToCommit(T0, 8, LeaderEpoch(4), "note"), OffsetToCommit(U0, 5))
    desk.commit_pending(P, OffsetToCommit(T1, 6))
    assert desk.fetch() == {("t", 0): 7}
    desk.is_holding = True
    token = desk.start_end(P)
    assert (token in desk.replies, len(desk.in_flight)) == (False, 1), "KAFKA-17507: told once it is read"
    desk.commit()
    assert desk.fetch() == {("t", 0): 8, ("t", 1): 6, ("u", 0): 5}
    found = {decode_key(record.key): record.value for record in desk.records}
    value = decode_offset(found[OffsetKey("g", "t", 0)] or b"")
    assert (value.leader_epoch, value.metadata, value.committed_ms) == (4, "note", WALL_MS)
    desk.is_holding = False
    desk.fail_over()
    assert desk.fetch() == {("t", 0): 8, ("t", 1): 6, ("u", 0): 5}


def test_offsets_of_an_aborted_transaction_are_gone(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.commit_pending(P, OffsetToCommit(T0, 8), OffsetToCommit(U0, 5))
    assert desk.end(P, Outcome.ABORT) is ErrorCode.NONE
    assert desk.fetch() == {("t", 0): 7}
    assert desk.unstable(T0, U0) == set()


def test_one_marker_ends_what_the_producer_has_pending_in_all_groups_and_nobody_elses(
    desk: GroupDesk,
) -> None:
    desk.commit_pending(P, OffsetToCommit(T0, 1), group_id="a")
    desk.commit_pending(P, OffsetToCommit(T0, 2), group_id="b")
    desk.commit_pending((1_001, 0), OffsetToCommit(T1, 3), group_id="b")
    desk.end(P)
    assert (desk.fetch(group_id="a"), desk.fetch(group_id="b")) == ({("t", 0): 1}, {("t", 0): 2})
    assert desk.unstable(group_id="b") == {("t", 1)}


def test_the_first_commit_of_a_transaction_is_verified_and_those_after_it_are_not(desk: GroupDesk) -> None:
    token = desk.start_pending(P, is_verified=False)
    assert isinstance(desk.replies[token], MustVerify)
    assert (desk.records, desk.unstable(T0)) == ([], set())
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    token = desk.start_pending(P, OffsetToCommit(T1, 1), is_verified=False)
    assert desk.answer(token, OffsetsReply).error is ErrorCode.NONE
    token = desk.start_pending((P[0], P[1] + 1), is_verified=False)
    assert isinstance(desk.replies[token], MustVerify), "another transaction"
    desk.end(P)
    assert isinstance(desk.replies[desk.start_pending(P, is_verified=False)], MustVerify)


def test_an_end_while_a_commit_is_verified_refuses_it(desk: GroupDesk) -> None:
    """The coordinator has said that the transaction is open; since then it was ended."""
    asked = desk.answer(desk.start_pending(P, is_verified=False), MustVerify)
    desk.end(P, Outcome.ABORT)
    late = desk.commit_pending(P, OffsetToCommit(T0, 1), guard=asked.guard)
    assert late.error is ErrorCode.INVALID_TXN_STATE
    assert desk.unstable(T0) == set()


def test_a_lower_epoch_is_refused_before_anything_is_verified(desk: GroupDesk) -> None:
    desk.commit_pending(P)
    for _ in range(2):
        token = desk.start_pending((P[0], P[1] - 1), is_verified=False)
        assert desk.answer(token, OffsetsReply).error is ErrorCode.INVALID_PRODUCER_EPOCH
        desk.end(P)
    desk.commit_pending((7, 3), OffsetToCommit(T0, 1))
    desk.commit_pending((7, 4), OffsetToCommit(T1, 1))
    assert desk.commit_pending((7, 3)).error is ErrorCode.INVALID_PRODUCER_EPOCH
    assert desk.commit_pending((0, 0), OffsetToCommit(T0, 1, LeaderEpoch(-1), None)).error is ErrorCode.NONE
    for nobody in ((-1, 0), (5, -1)):
        assert desk.commit_pending(nobody).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_marker_of_version_2_has_the_epoch_of_the_next_transaction_and_leaves_that_alone(
    desk: GroupDesk,
) -> None:
    next_one = P[0], P[1] + 1
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    assert desk.end(next_one, version=2) is ErrorCode.NONE
    desk.commit_pending(next_one, OffsetToCommit(T1, 2))
    written = len(desk.records)
    assert desk.end(next_one, version=2) is ErrorCode.NONE  # KAFKA-19999: it is sent again
    assert desk.end(next_one, Outcome.ABORT, version=2, coordinator_epoch=2) is ErrorCode.NONE
    assert len(desk.records) == written
    assert (desk.fetch(), desk.unstable()) == ({("t", 0): 1}, {("t", 1)})
    assert desk.end((P[0], 5), version=2, coordinator_epoch=2) is ErrorCode.NONE
    assert desk.fetch() == {("t", 0): 1, ("t", 1): 2}


def test_a_marker_of_version_2_that_comes_after_the_next_transaction_has_begun_leaves_that_alone(
    desk: GroupDesk,
) -> None:
    next_one = P[0], P[1] + 1
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    desk.commit_pending(next_one, OffsetToCommit(T1, 2))
    assert desk.end(next_one, version=2) is ErrorCode.NONE
    assert (desk.fetch(), desk.unstable()) == ({("t", 0): 1}, {("t", 1)})


@pytest.mark.parametrize(
    ("attempt", "coordinator_epoch", "is_new"), [(0, 1, False), (1, 1, True), (0, 2, True)]
)
def test_the_numbers_of_markers_are_of_one_coordinator_and_begin_with_0(
    desk: GroupDesk, attempt: int, coordinator_epoch: int, is_new: bool
) -> None:
    desk.end(P, attempt=0)
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    desk.end(P, attempt=attempt, coordinator_epoch=coordinator_epoch)
    assert desk.fetch() == ({("t", 0): 1} if is_new else {})


def test_a_marker_that_is_delivered_twice_does_not_end_the_next_transaction_of_version_1(
    desk: GroupDesk,
) -> None:
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    assert desk.end(P, attempt=6) is ErrorCode.NONE
    desk.commit_pending(P, OffsetToCommit(T0, 2))
    for attempt in (5, 6):
        assert desk.end(P, Outcome.ABORT, attempt=attempt) is ErrorCode.NONE
    desk.fail_over()
    desk.end(P, Outcome.ABORT, attempt=6)
    assert (desk.fetch(), desk.unstable()) == ({("t", 0): 1}, {("t", 0)})
    assert desk.end(P, attempt=7) is ErrorCode.NONE
    assert desk.fetch() == {("t", 0): 2}


def test_a_marker_ends_nothing_here_and_is_remembered_all_the_same(desk: GroupDesk) -> None:
    """The producer may have added the partition and then committed nothing."""
    desk.end(P, Outcome.ABORT, attempt=4)
    desk.commit_pending(P, OffsetToCommit(T0, 2))
    desk.end(P, Outcome.ABORT, attempt=4)
    assert desk.unstable() == {("t", 0)}


def test_a_former_coordinator_and_a_former_epoch_are_fenced(desk: GroupDesk) -> None:
    desk.end(P, coordinator_epoch=2)
    desk.commit_pending(P, OffsetToCommit(T0, 2))
    written = len(desk.records)
    assert desk.end(P, coordinator_epoch=1, attempt=9) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert desk.end((P[0], P[1] - 1), coordinator_epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (desk.unstable(), len(desk.records)) == ({("t", 0)}, written)
    assert desk.end((P[0], P[1] + 1), Outcome.ABORT, coordinator_epoch=3) is ErrorCode.NONE
    assert desk.unstable() == set()


def test_a_refused_end_leaves_all_pending_and_is_taken_again(desk: GroupDesk) -> None:
    desk.commit_pending(P, OffsetToCommit(T0, 1))
    desk.is_holding = True
    first, again = desk.start_end(P, attempt=1), desk.start_end(P, attempt=1)
    desk.refuse()
    assert [desk.replies[token] for token in (first, again)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
    desk.is_holding = False
    assert desk.unstable() == {("t", 0)}
    assert desk.end(P, attempt=1) is ErrorCode.NONE
    assert desk.fetch() == {("t", 0): 1}


def test_the_last_one_written_counts_whichever_transaction_ends_first(desk: GroupDesk) -> None:
    other = 2_000, 0
    desk.commit_pending(P, OffsetToCommit(T0, 1), OffsetToCommit(T1, 1))
    desk.commit_pending(other, OffsetToCommit(T0, 2))
    desk.end(other)
    desk.end(P)
    assert desk.fetch() == {("t", 0): 2, ("t", 1): 1}
    desk.commit_pending(other, OffsetToCommit(T0, 3))
    desk.commit_offsets("", -1, OffsetToCommit(T0, 4))
    desk.end(other)
    assert desk.fetch(T0) == {("t", 0): 4}
    desk.commit_pending(other, OffsetToCommit(T0, 5))
    desk.end(other)
    assert desk.fetch(T0) == {("t", 0): 5}
    for producer, offset in ((P, 6), (other, 7), (P, 8)):
        desk.commit_pending(producer, OffsetToCommit(T0, offset))
    desk.end(P)
    desk.end(other)
    assert desk.fetch(T0) == {("t", 0): 8}


def test_an_offset_is_unstable_before_its_pending_one_is_committed_and_until_its_end_is(
    desk: GroupDesk,
) -> None:
    """A member that gets the partition must not begin before what its former owner is about to commit."""
    desk.commit_offsets()
    desk.is_holding = True
    token = desk.start_pending(P, OffsetToCommit(T0, 8))
    assert (token in desk.replies, desk.unstable(T0, T1)) == (False, {("t", 0)})
    desk.commit()
    desk.start_end(P)
    assert desk.unstable(T0, T1) == {("t", 0)}
    desk.commit()
    assert desk.unstable(T0, T1) == set()


def test_only_who_asks_for_stable_offsets_hears_of_pending_ones(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.commit_pending(P, OffsetToCommit(T0, 8), OffsetToCommit(U0, 1))
    assert desk.fetched(T0).unstable == frozenset()
    whole = desk.fetched(requires_stable=True)
    assert {(place.topic, value and value.offset) for place, value in whole.offsets} == {
        ("t", 7),
        ("u", None),
    }
    assert {place.topic for place in whole.unstable} == {"t", "u"}
    desk.commit_offsets("", -1, OffsetToCommit(U0, 1), group_id="h")
    desk.commit_pending(P, OffsetToCommit(T0, 8), group_id="h")
    assert desk.unstable(group_id="h") == {("t", 0)}


def test_a_topic_created_again_is_not_unstable_by_its_former_name(desk: GroupDesk) -> None:
    old, new = (T0._replace(topic_id=UUID(int=number)) for number in (1, 2))
    desk.commit_pending(P, OffsetToCommit(old, 8))
    assert (desk.unstable(old), desk.unstable(new)) == ({("t", 0)}, set())
    desk.end(P)
    assert (desk.fetch(old), desk.fetch(new)) == ({("t", 0): 8}, {("t", 0): None})


def test_a_member_of_the_present_generation_commits_and_a_client_that_knows_none(desk: GroupDesk) -> None:
    """KIP-447; producers of old clients name no member (KAFKA-18060)."""
    desk.form("a", statics={"s": "i"})
    errors = [
        desk.commit_pending(
            P, generation_id=generation_id, member_id=member_id, instance_id=instance_id
        ).error
        for member_id, generation_id, instance_id in (
            ("a", 1, None),
            ("s", 1, "i"),
            ("", -1, None),
            ("a", 0, None),
            ("nobody", 1, None),
            ("a", 1, "i"),
            ("a", -1, None),
        )
    ]
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
    ]
    for who in ({"generation_id": 0}, {"instance_id": "i"}):
        assert desk.commit_pending(P, **who).error is not ErrorCode.NONE
    for generation_id in (0, 3):
        refused = desk.commit_pending(P, group_id="new", generation_id=generation_id)
        assert refused.error is ErrorCode.ILLEGAL_GENERATION
    assert desk.commit_pending(P, group_id="new").error is ErrorCode.NONE
    desk.commit_offsets(group_id="empty")
    for generation_id, error in ((-1, ErrorCode.NONE), (0, ErrorCode.UNKNOWN_MEMBER_ID)):
        refused = desk.commit_pending(P, group_id="empty", member_id="a", generation_id=generation_id)
        assert refused.error is error
    for unfit in ("", "g" * 40_000):
        assert desk.commit_pending(P, group_id=unfit).error is ErrorCode.INVALID_GROUP_ID


def test_a_commit_does_not_keep_a_member_alive(desk: GroupDesk) -> None:
    """The producer is another client; that of a member which hangs may go on for long."""
    desk.form("a")
    for _ in range(3):
        desk.wait(4_000)
        desk.commit_pending(P, generation_id=1, member_id="a")
    assert desk.state == "Empty"


def test_an_open_transaction_keeps_its_group_and_its_offsets(desk: GroupDesk) -> None:
    """KAFKA-19163, redpanda#31483."""
    desk.commit_offsets("", -1, OffsetToCommit(T0, 7), OffsetToCommit(T1, 7))
    desk.commit_pending(P, OffsetToCommit(T0, 8))
    desk.commit_pending(P, OffsetToCommit(T0, 8), group_id="only pending")
    assert {group.group_id for group in desk.listed().groups} == {"g", "only pending"}
    assert desk.delete("g", "only pending") == [ErrorCode.NON_EMPTY_GROUP] * 2
    assert desk.delete_offsets(T0, T1).partitions == (
        (T0, ErrorCode.UNSTABLE_OFFSET_COMMIT),
        (T1, ErrorCode.NONE),
    )
    desk.wait(8 * DAY_MS)
    assert desk.fetch() == {("t", 0): 7}
    desk.end(P)
    assert (desk.fetch(), desk.fetch(group_id="only pending")) == ({("t", 0): 8}, {("t", 0): 8})
    assert desk.delete("g", "only pending") == [ErrorCode.NONE] * 2


def test_an_end_is_forgotten_when_nothing_of_it_can_come_late_any_more(desk: GroupDesk) -> None:
    desk.end(P)
    desk.end((5, 0))
    desk.commit_pending((5, 0))
    desk.wait(7 * DAY_MS - 1_000)
    pending = desk.machine.registry.store.pending
    assert pending.producers() == {5, P[0]}
    desk.wait(600_000)
    assert pending.producers() == {5}
    assert pending.ended.latest(5) is not None, "its next transaction is open"
    desk.end((5, 0))
    desk.wait(8 * DAY_MS)
    assert pending.producers() == set()


def test_what_ends_at_once_fits_into_one_batch() -> None:
    desk = GroupDesk(GroupOptions(transaction_bytes_max=2_000, pending_bytes_max=3_000))
    many = [OffsetToCommit(OffsetPlace("t", number), 1) for number in range(100)]
    assert desk.commit_pending(P, *many).error is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert desk.records == []
    taken = 0
    while desk.commit_pending(P, many[taken]).error is ErrorCode.NONE:
        taken += 1
    assert 5 < taken < 20
    assert desk.commit_pending(P, many[0]).error is ErrorCode.NONE, "an offset that it has takes no more room"
    other = 2_000, 0
    assert desk.commit_pending(other, *many[20:25]).error is ErrorCode.NONE
    assert desk.commit_pending(other, *many[25:30]).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    before = len(desk.records)
    desk.end(P)
    ending = desk.records[before:]
    assert sum(32 + len(key) + len(value or b"") for key, value in ending) < 2_000
    assert desk.commit_pending(other, *many[25:30]).error is ErrorCode.NONE


@pytest.mark.parametrize("limit", ["transaction_bytes_max", "pending_bytes_max"])
@pytest.mark.parametrize("missing", [0, 1])
def test_what_fills_a_limit_is_taken(limit: str, missing: int) -> None:
    key = PendingKey(P[0], OffsetKey("gé", "t", 0))
    value = PendingOffset(P[1], 0, CommittedOffset(8, LeaderEpoch(-1), "né", WALL_MS))
    assert bytes_of(key, None) == 0
    assert bytes_of(key, value) == 160 + 2 * 4 + 3
    assert bytes_of(key, value, 2) == 160 + 2 * 4 + 3 + 2 * (64 + 4)
    options: dict[str, Any] = {limit: bytes_of(key, value) - missing}
    desk = GroupDesk(GroupOptions(**options))
    asked = OffsetToCommit(T0, 8, LeaderEpoch(-1), "né")
    assert (desk.commit_pending(P, asked, group_id="gé").error is ErrorCode.NONE) is (not missing)


def test_a_commit_that_is_refused_takes_no_room(desk: GroupDesk) -> None:
    desk.is_holding = True
    desk.start_pending(P, OffsetToCommit(T0, 1))
    pending = desk.machine.registry.store.pending
    assert pending.size_bytes > 0
    desk.refuse()
    assert (pending.size_bytes, pending.ended.latest_count) == (0, 0)
    desk.wait(8 * DAY_MS)
    assert pending.producers() == set()


def test_of_too_many_producers_new_ones_wait() -> None:
    desk = GroupDesk(GroupOptions(producers_max=2))
    assert desk.commit_pending((1, 0)).error is ErrorCode.NONE
    desk.end((2, 0))
    assert desk.commit_pending((3, 0)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.commit_pending((2, 0)).error is ErrorCode.NONE
    assert desk.commit_pending((1, 0), OffsetToCommit(T1, 1)).error is ErrorCode.NONE
    assert desk.end((4, 0)) is ErrorCode.NONE, "a marker is always taken"


def test_one_offset_out_of_bounds_does_not_keep_the_others_from_being_pending(desk: GroupDesk) -> None:
    reply = desk.commit_pending(P, OffsetToCommit(T0, 1, LeaderEpoch(-1), "x" * 4_097), OffsetToCommit(T1, 1))
    assert [error for _, error in reply.partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert desk.unstable() == {("t", 1)}


def test_nothing_is_kept_of_what_has_ended(desk: GroupDesk) -> None:
    for number in range(20):
        desk.commit_pending((number, 0), OffsetToCommit(OffsetPlace("t", number), 1))
        desk.end((number, 0))
    desk.wait(8 * DAY_MS)
    pending = desk.machine.registry.store.pending
    assert (pending.producers(), list(pending.group_ids()), pending.size_bytes) == (set(), [], 0)


def test_what_is_written_and_ended_in_flight_is_pending_again_where_only_the_first_is_committed() -> None:
    """Neither view has it while both records are under way. It was forgotten then: its end found nothing."""
    pending = PendingOffsets()
    key = PendingKey(P[0], OffsetKey("g", "t", 0))
    value = PendingOffset(P[1], 0, CommittedOffset(7, LeaderEpoch(-1), "", WALL_MS))
    pending.apply(key, value, 1)
    pending.apply(key, None, 2)
    assert list(pending.in_either_view(key.place)) == pending.of_producer(P[0]) == []
    pending.commit(2)
    assert list(pending.in_either_view(key.place)) == [value], "the second may be refused"
    pending.undo(2)
    assert pending.of_producer(P[0]) == [(key, value)]
