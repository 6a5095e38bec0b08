"""What people are told of a group's last rebalance: when it was, and what began it."""

from __future__ import annotations

import pytest

from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import JoinProtocol, Leaver
from coordinator.core.groups.telling import told_of
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_desk import (
    GROUP,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupDesk,
    subscription,
)
from tests.kit.coordinator.machine_desk import WALL_MS

CHANGED = "member b changed its subscription: it added other, it dropped t"


@pytest.fixture
def desk() -> GroupDesk:
    return GroupDesk()


def last(desk: GroupDesk) -> tuple[int, int, int, str]:
    """(generation, began, ended, reason), times since the desk's beginning."""
    registry = desk.machine.registry
    rebalance = registry.history.last(GROUP)
    assert rebalance is not None
    found = told_of(registry, rebalance)
    assert found.group_id == GROUP
    times = (at_ms if at_ms < 0 else at_ms - WALL_MS for at_ms in (found.began_ms, found.ended_ms))
    return (found.generation_id, *times, found.reason)  # type: ignore[return-value]


def test_a_rebalance_is_under_way_until_the_assignments_are_made(desk: GroupDesk) -> None:
    desk.start_join(new_id="a")
    assert last(desk) == (0, 0, -1, "member a joined from host /10.0.0.1")
    desk.wait(3_000)
    desk.start_join(new_id="b")
    assert last(desk)[2:] == (-1, "member b joined from host /10.0.0.1"), (
        "another one, before the first came to an end"
    )
    desk.start_join("a")
    desk.wait(500)
    desk.sync_all(2, "a", "b")
    assert last(desk) == (2, 3_000, 3_500, "member b joined from host /10.0.0.1")


def test_what_a_member_did_or_failed_to_do_is_the_reason(desk: GroupDesk) -> None:
    generation_id = desk.form("a", "b", "c", statics={"s": "pod-0"})
    desk.leave(Leaver("c"))
    assert last(desk)[3] == "member c left"
    for name in ("a", "b", "s"):
        desk.start_join(name, instance_id="pod-0" if name == "s" else None)
    generation_id += 1
    desk.start_sync("a", generation_id, {})
    desk.start_sync("b", generation_id)
    desk.start_sync("s", generation_id, instance_id="pod-0")
    desk.start_join("b", protocols=(JoinProtocol("range", subscription("other")),))
    assert last(desk)[3] == CHANGED
    desk.leave(Leaver("a"), Leaver("b"))
    desk.wait(SESSION_MS)
    assert last(desk)[3] == CHANGED, "what began it, not what came"


def test_silence_is_a_reason(desk: GroupDesk) -> None:
    generation_id = desk.form("a", statics={"s": "pod-0"})
    for _ in range(3):
        desk.wait(4_000)
        desk.heartbeat("a", generation_id)
    assert last(desk)[3] == (
        "member s (static pod-0) sent no heartbeat for 10 s, its session; its last came from host /10.0.0.1"
    )


def test_the_leader_asks_for_one_and_the_last_member_ends_one(desk: GroupDesk) -> None:
    desk.form("a")
    desk.wait(1_000)
    desk.start_join("a")
    assert last(desk)[1:] == (4_000, -1, "member a asked for a rebalance, as the leader")
    desk.leave(Leaver("a"))
    assert last(desk)[1:] == (4_001, 4_001, "member a left"), "no two begin at once"


def test_a_member_that_does_not_sync_and_a_write_that_is_refused_are_reasons(desk: GroupDesk) -> None:
    desk.start_join(new_id="a")
    desk.start_join(new_id="b")
    desk.wait(6_000)
    desk.is_holding = True
    desk.start_sync("a", 1, {})
    desk.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert last(desk)[3] == "the assignments could not be written: NOT_ENOUGH_REPLICAS"
    for name in ("a", "b"):
        desk.start_join(name)
    desk.start_sync("a", 2, {})
    desk.is_holding = False
    desk.commit()
    for _ in range(REBALANCE_MS // 5_000):
        desk.wait(5_000)
        desk.heartbeat("a", 2)
        desk.heartbeat("b", 2)
    assert last(desk)[3] == "member b did not ask for its assignment in time (SyncGroup)"


def test_a_coordinator_that_takes_over_knows_when_it_ended_and_not_why(desk: GroupDesk) -> None:
    generation_id = desk.form("a")
    desk.wait(60)
    desk.fail_over()
    assert last(desk) == (generation_id, -1, 3_000, "")
    desk.start_join("a", protocols=RANGE)
    assert last(desk)[3] == "member a asked for a rebalance, as the leader"


def test_a_group_above_a_lowered_limit_says_so(desk: GroupDesk) -> None:
    desk.form("a", "b")
    desk.options = GroupOptions(size_max=1)
    desk.fail_over()
    assert last(desk)[3] == "the group has more members than group.max.size"


def test_ids_are_cut_to_a_readable_length(desk: GroupDesk) -> None:
    desk.start_join(new_id="x" * 5_000, instance_id="y" * 5_000)
    assert last(desk)[3] == f"member {'x' * 100} (static {'y' * 100}) joined from host /10.0.0.1"
