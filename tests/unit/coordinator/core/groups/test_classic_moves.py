"""What a rebalance of a classic group moves, as its leader assigns, and what stood still meanwhile."""

from __future__ import annotations

import pytest

from coordinator.core.groups.history import NOT_KNOWN, PARTITIONS_FOLLOWED_MAX
from coordinator.core.groups.requests import JoinProtocol, Leaver
from coordinator.core.groups.telling import told_of
from springtide.contract.groups import AwaitedStep, GroupRebalance, MovedPartition, MovedPartitions
from tests.kit.coordinator.consumer_desk import ConsumerDesk, topic
from tests.kit.coordinator.group_desk import GROUP, SESSION_MS, subscription
from tests.kit.coordinator.machine_desk import WALL_MS


def places(*partitions: int) -> bytes:
    """Return an assignment of partitions of the topic t."""
    numbers = b"".join(partition.to_bytes(4) for partition in partitions)
    return bytes(2) + (1).to_bytes(4) + (1).to_bytes(2) + b"t" + len(partitions).to_bytes(4) + numbers


def keeps(*partitions: int) -> tuple[JoinProtocol, ...]:
    """Return the protocols of a member that goes on with these partitions (cooperative)."""
    body = subscription("t", rest=b"\xff\xff\xff\xff" + places(*partitions)[2:])
    return (JoinProtocol("range", b"\x00\x01" + body[2:]),)


@pytest.fixture
def desk() -> ConsumerDesk:
    return ConsumerDesk(topic("t", 4))


def assign(desk: ConsumerDesk, generation_id: int, assigned: dict[str, bytes]) -> None:
    leader, *others = assigned
    for name in others:
        desk.start_sync(name, generation_id)
    desk.start_sync(leader, generation_id, assigned)


def form(desk: ConsumerDesk, assigned: dict[str, bytes]) -> int:
    """Bring a stable group about, after six seconds."""
    for name in assigned:
        desk.start_join(new_id=name)
    desk.wait(6_000)
    assign(desk, 1, assigned)
    return 1


def last(desk: ConsumerDesk) -> GroupRebalance:
    rebalance = desk.machine.registry.history.last(GROUP)
    assert rebalance is not None
    return told_of(desk.machine.registry, rebalance)


def test_the_first_assignments_come_from_nobody(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(0, 1), "b": places(2)})
    assert (last(desk).to_move, last(desk).moved, last(desk).paused) == (3, 3, 0)
    assert [(one.before, one.after, one.count) for one in last(desk).moves] == [("", "a", 2), ("", "b", 1)]
    assert (last(desk).assignor, last(desk).assigned_ms) == ("range", WALL_MS + 6_000)


def test_eager_members_stand_still_from_when_each_joins_again(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(0, 1, 2, 3)})
    desk.start_join(new_id="b")
    desk.wait(2_000)
    desk.start_join("a")
    desk.wait(500)
    assign(desk, 2, {"a": places(0, 1), "b": places(2, 3)})
    told = last(desk)
    moved = (MovedPartition("t", 2, 500), MovedPartition("t", 3, 500))
    assert told.moves == (MovedPartitions("a", "b", 2, 500, moved),)
    assert (told.moved, told.paused, told.paused_ms_max) == (2, 2, 500)


def test_cooperative_members_go_on_and_what_moves_is_without_an_owner_between_two_rebalances(
    desk: ConsumerDesk,
) -> None:
    form(desk, {"a": places(0, 1, 2, 3)})
    desk.start_join(new_id="b", protocols=keeps())
    desk.start_join("a", protocols=keeps(0, 1, 2, 3))
    desk.wait(500)
    assign(desk, 2, {"a": places(0, 1), "b": places()})
    assert (last(desk).moved, last(desk).paused) == (0, 0)
    desk.wait(300)
    desk.start_join("a", protocols=keeps(0, 1))
    desk.start_join("b", protocols=keeps())
    desk.wait(400)
    assign(desk, 3, {"a": places(0, 1), "b": places(2, 3)})
    (moves,) = last(desk).moves
    assert (moves.before, moves.after, moves.count, moves.unowned_ms_max) == ("a", "b", 2, 700)
    assert last(desk).reason == (
        "member a gave up 2 partitions, as its leader had assigned, and joined again for others to get them"
    )


def test_what_a_lost_member_had_is_without_an_owner_since_it_was_last_heard(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(0), "b": places(1)})
    desk.wait(SESSION_MS // 2)
    desk.heartbeat("a", 1)
    desk.wait(SESSION_MS // 2)
    desk.start_join("a")
    desk.wait(100)
    assign(desk, 2, {"a": places(0, 1)})
    (moves,) = last(desk).moves
    assert (moves.before, moves.after, moves.unowned_ms_max) == ("b", "a", SESSION_MS + 100)


def test_a_static_member_that_is_back_has_what_it_had(desk: ConsumerDesk) -> None:
    desk.start_join(new_id="a", instance_id="i")
    desk.wait(3_000)
    assign(desk, 1, {"a": places(0)})
    desk.start_join(new_id="a2", instance_id="i", protocols=(JoinProtocol("range", subscription("u")),))
    assign(desk, 2, {"a2": places(0)})
    assert last(desk).moves == ()
    assert (last(desk).paused, last(desk).reason) == (
        1,
        "member a2 (static i) came back with another subscription",
    )


def test_what_no_consumer_wrote_is_not_read(desk: ConsumerDesk) -> None:
    desk.start_join(new_id="a", protocol_type="connect")
    desk.wait(3_000)
    assign(desk, 1, {"a": places(0)})
    assert (last(desk).to_move, last(desk).moves) == (NOT_KNOWN, ())


def test_of_too_many_partitions_it_is_not_known_what_moved(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(*range(PARTITIONS_FOLLOWED_MAX))})
    assert last(desk).moved == NOT_KNOWN
    desk.leave(Leaver("a"))
    assert last(desk).reason == "member a left"


def test_a_rebalance_waits_for_members_then_for_the_leader(desk: ConsumerDesk) -> None:
    desk.start_join(new_id="a")
    more = "more members may join (group.initial.rebalance.delay.ms)"
    assert last(desk).awaited == (AwaitedStep("", WALL_MS, more),)
    desk.wait(3_000)
    assigns = "to assign the partitions, as the leader (SyncGroup)"
    assert last(desk).awaited == (AwaitedStep("a", WALL_MS + 3_000, assigns),)
    assign(desk, 1, {"a": places(0)})
    assert last(desk).awaited_total == 0
    desk.start_join(new_id="b")
    again = "to join again (JoinGroup), from host /10.0.0.1"
    assert last(desk).awaited == (AwaitedStep("a", WALL_MS + 3_000, again),)
    desk.start_join(new_id="c", requires_member_id=True)
    assert last(desk).awaited[1] == AwaitedStep(
        "c", WALL_MS + 3_000, "to join with the member id that it got"
    )


def test_a_member_that_does_not_come_back_is_a_further_cause(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(0), "b": places(1)})
    desk.start_join(new_id="c")
    desk.start_join("a")
    for _ in range(12):
        desk.wait(5_000)
        desk.heartbeat("b", 1)
    assert [cause.text for cause in last(desk).causes] == [
        "member c joined from host /10.0.0.1",
        "member b from host /10.0.0.1 did not join again within the rebalance timeout of 60 s, and was "
        "removed",
    ]


def test_a_leader_that_sees_new_partitions_is_not_the_cause_itself(desk: ConsumerDesk) -> None:
    form(desk, {"a": places(0, 1, 2, 3)})
    desk.know(topic("t", 8))
    desk.start_join("a")
    assert last(desk).reason == "topic t has 8 partitions instead of 4"
