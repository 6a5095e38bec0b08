"""Offsets expire as KIP-211 says, and groups with them."""

from __future__ import annotations

import pytest

from coordinator.core.groups import expiry
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.registry import ExpiryTimer
from coordinator.core.groups.requests import JoinProtocol, Leaver, OffsetPlace, OffsetToCommit
from coordinator.core.machine import TimerDue
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import GroupDesk, subscription

DAY_MS = 24 * 60 * 60_000
CHECK_MS = 10 * 60_000
LONG_MS = 24 * DAY_MS
T0, U0 = OffsetPlace("t", 0), OffsetPlace("u", 0)
LASTING = GroupOptions(session_timeout_ms_max=LONG_MS)


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def test_offsets_of_a_client_without_a_group_expire_a_week_after_the_commit(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.wait(4 * DAY_MS)
    desk.commit_offsets("", -1, OffsetToCommit(U0, 1))
    desk.wait(3 * DAY_MS - 1)
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 1}
    desk.wait(CHECK_MS)
    assert desk.fetch() == {("u", 0): 1}
    desk.wait(4 * DAY_MS)
    assert desk.describe().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_i36_nothing_expires_while_clocks_disagree(desk: GroupDesk) -> None:
    desk.commit_offsets()
    desk.do_clocks_agree = False
    desk.wait(400 * DAY_MS)
    assert desk.fetch() == {("t", 0): 7}
    desk.do_clocks_agree = True
    desk.wait(CHECK_MS)
    assert desk.fetch() == {}


def test_offsets_of_an_empty_group_expire_a_week_after_it_became_empty(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_offsets("a", 1)
    for _ in range(8 * DAY_MS // 5_000 // 100):
        desk.wait(5_000)
        desk.heartbeat("a", 1)
    desk.leave(Leaver("a"))
    desk.wait(7 * DAY_MS - 1)
    desk.fail_over()
    assert desk.fetch() == {("t", 0): 7}
    desk.wait(CHECK_MS)
    assert (desk.fetch(), desk.listed().groups) == ({}, ())
    assert [record.value for record in desk.records[-2:]] == [None, None]
    desk.fail_over()
    assert desk.describe().error is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_commit_to_a_group_that_has_long_been_empty_is_kept_a_week(desk: GroupDesk) -> None:
    """Kafka counts from when the group became empty, and would drop an operator's reset at the next look."""
    desk.form("a")
    desk.leave(Leaver("a"))
    desk.commit_offsets()
    desk.wait(7 * DAY_MS - CHECK_MS)
    desk.commit_offsets("", -1, OffsetToCommit(U0, 3))
    desk.wait(6 * DAY_MS)
    assert desk.fetch() == {("u", 0): 3}


def lasting_desk(protocol_type: str = "consumer", metadata: bytes = subscription("t")) -> GroupDesk:
    """A group whose members need no heartbeats for weeks, and which has committed to t and u."""
    desk = GroupDesk(LASTING)
    for name in ("a", "b"):
        desk.start_join(
            new_id=name,
            protocol_type=protocol_type,
            protocols=(JoinProtocol("range", metadata),),
            session_ms=LONG_MS,
            rebalance_ms=LONG_MS,
        )
    while desk.state != "CompletingRebalance":
        desk.wait(3_000)
    desk.sync_all(1, "a", "b")
    desk.commit_offsets("a", 1, OffsetToCommit(T0, 7), OffsetToCommit(U0, 9))
    return desk


def test_a_living_group_keeps_the_offsets_of_the_topics_that_it_subscribes() -> None:
    desk = lasting_desk()
    desk.wait(7 * DAY_MS + CHECK_MS)
    assert desk.fetch() == {("t", 0): 7}


@pytest.mark.parametrize(
    ("protocol_type", "metadata"), [("connect", subscription("t")), ("consumer", b"not a subscription")]
)
def test_a_living_group_whose_topics_are_not_known_keeps_all(protocol_type: str, metadata: bytes) -> None:
    desk = lasting_desk(protocol_type, metadata)
    desk.wait(20 * DAY_MS)
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 9}


def test_nothing_expires_in_a_rebalance() -> None:
    """KAFKA-13636: the members that come back would begin anew."""
    desk = lasting_desk()
    other = (JoinProtocol("range", subscription("t", "v")),)
    desk.start_join("a", session_ms=LONG_MS, rebalance_ms=LONG_MS, protocols=other)
    desk.wait(20 * DAY_MS)
    assert desk.state == "PreparingRebalance"
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 9}
    desk.start_join("b", session_ms=LONG_MS, rebalance_ms=LONG_MS)
    desk.wait(CHECK_MS)
    assert desk.state == "CompletingRebalance"
    assert desk.fetch() == {("t", 0): 7, ("u", 0): 9}


def test_a_living_group_stays_when_its_last_offset_expires() -> None:
    desk = lasting_desk(metadata=subscription("v"))
    desk.wait(7 * DAY_MS + CHECK_MS)
    assert (desk.fetch(), desk.state) == ({}, "Stable")


def test_what_a_living_group_does_not_subscribe_expires_a_week_after_the_commit_alone() -> None:
    desk = lasting_desk()
    desk.wait(4 * DAY_MS)
    for name in ("a", "b"):
        desk.start_join(name, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    desk.sync_all(2, "a", "b")
    desk.wait(3 * DAY_MS + CHECK_MS)
    assert desk.fetch() == {("t", 0): 7}


def test_an_open_transaction_keeps_an_empty_group(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_pending((7, 0))
    desk.leave(Leaver("a"))
    desk.wait(8 * DAY_MS)
    assert desk.describe().protocol_type == "consumer"


def test_of_groups_that_are_gone_nothing_is_kept(desk: GroupDesk) -> None:
    desk.form("a")
    desk.leave(Leaver("a"))
    desk.commit_offsets(group_id="of nobody", retention_ms=CHECK_MS)
    desk.wait(3 * CHECK_MS)
    registry = desk.machine.registry
    assert (registry.live, registry.deleted, registry.store.group_ids()) == ({}, {}, set())


def test_an_offset_expires_in_the_millisecond_that_the_client_named(desk: GroupDesk) -> None:
    desk.commit_offsets(retention_ms=60_000)
    for wait_ms, tombstones in ((59_999, 0), (1, 1)):
        desk.now_ms += wait_ms
        assert look(desk)[0] == tombstones


def test_an_expiry_that_the_client_named_counts_alone(desk: GroupDesk) -> None:
    desk.commit_offsets(retention_ms=60_000)
    desk.commit_offsets("", -1, OffsetToCommit(U0, 1), retention_ms=LONG_MS)
    desk.wait(CHECK_MS)
    assert desk.fetch() == {("u", 0): 1}
    desk.wait(10 * DAY_MS)
    assert desk.fetch() == {("u", 0): 1}


def test_an_empty_group_that_has_committed_nothing_goes_at_the_next_look(desk: GroupDesk) -> None:
    desk.form("a")
    desk.leave(Leaver("a"))
    desk.start_join(new_id="p", requires_member_id=True, session_ms=1_200_000)
    desk.wait(CHECK_MS)
    assert desk.state == "Empty"  # somebody may join yet
    desk.leave(Leaver("p"))
    desk.wait(CHECK_MS)
    assert desk.describe().error is ErrorCode.GROUP_ID_NOT_FOUND


def look(desk: GroupDesk) -> tuple[int, int]:
    """One step of the expiry: the tombstones that it writes, and how long until the next one."""
    before = len(desk.records)
    desk.timers.pop(ExpiryTimer(), None)
    desk.step(TimerDue(ExpiryTimer(), desk.wall_ms))
    return len(desk.records) - before, desk.timers[ExpiryTimer()] - desk.now_ms


@pytest.mark.parametrize(
    ("tombstones", "keys", "steps"),
    [
        (1_000, 5_000, [16]),
        (3, 100, [3, 3, 3, 3, 3, 1]),
        (4, 100, [6, 6, 4]),
        (100, 4, [3, 3, 3, 3, 4]),
        (100, 5, [6, 6, 4]),
        (100, 18, [14, 2]),
    ],
)
def test_one_step_looks_at_a_bounded_number_and_writes_a_bounded_number_of_tombstones(
    desk: GroupDesk, monkeypatch: pytest.MonkeyPatch, tombstones: int, keys: int, steps: list[int]
) -> None:
    """Four groups of three offsets, and four producers whose transactions have ended."""
    monkeypatch.setattr(expiry, "EXPIRED_PER_STEP", tombstones)
    monkeypatch.setattr(expiry, "EXPIRY_KEYS_PER_STEP", keys)
    offsets = [OffsetToCommit(OffsetPlace("t", partition), 1) for partition in range(3)]
    for number in range(4):
        desk.commit_offsets("", -1, *offsets, group_id=f"g{number}")
        desk.end((number, 0))
    desk.now_ms += 8 * DAY_MS
    found = [look(desk)]
    while found[-1] != (0, CHECK_MS) and len(found) < 9:
        found.append(look(desk))
    assert found == [*((count, 0) for count in steps[:-1]), (steps[-1], CHECK_MS), (0, CHECK_MS)]


def test_a_refused_expiry_is_made_up_for_at_the_next_look(desk: GroupDesk) -> None:
    desk.form("a")
    desk.commit_offsets("a", 1)
    desk.leave(Leaver("a"))
    desk.wait(7 * DAY_MS - CHECK_MS)
    desk.is_holding = True
    desk.wait(CHECK_MS * 2)
    desk.refuse()
    assert (desk.fetch(), desk.state) == ({("t", 0): 7}, "Empty")
    desk.is_holding = False
    desk.wait(CHECK_MS)
    assert desk.listed().groups == ()
