"""What people are told of groups is what their committed records and their members say."""

from __future__ import annotations

from coordinator.core.groups.consumer.requests import LEAVING
from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.requests import Leaver
from springtide.wire.questions import Place
from tests.kit.coordinator.consumer_desk import ConsumerDesk, topic
from tests.kit.coordinator.group_desk import GroupDesk


def seen(desk: GroupDesk) -> list[GroupFigures]:
    return sorted(
        figures_of(desk.machine.registry, desk.now_ms, desk.wall_ms), key=lambda group: group.group_id
    )


def offsets(group: GroupFigures) -> dict[Place, int]:
    return {place: committed.offset for place, committed in group.offsets.items()}


def test_members_and_committed_offsets_are_told_of_each_group() -> None:
    desk = GroupDesk()
    generation_id = desk.form("a", statics={"s": "i"})
    desk.start_join(group_id="new")
    desk.commit_offsets(group_id="simple")
    desk.commit_offsets("a", generation_id)
    assert [(one.group_id, one.members, offsets(one), one.unsettled_ms) for one in seen(desk)] == [
        ("g", 2, {("t", 0): 7}, 6_000),
        ("new", 1, {}, 0),
        ("simple", 0, {("t", 0): 7}, None),
    ]
    desk.leave(Leaver("a"), Leaver("s"))
    desk.fail_over()
    group = seen(desk)[0]
    assert (group.members, offsets(group), group.unsettled_ms) == (0, {("t", 0): 7}, None), "as it is stored"


def test_an_offset_that_is_not_committed_is_not_told() -> None:
    desk = GroupDesk()
    generation_id = desk.form("a")
    desk.is_holding = True
    desk.start_commit("a", generation_id)
    assert [group.offsets for group in seen(desk)] == [{}]
    desk.commit()
    assert [offsets(group) for group in seen(desk)] == [{("t", 0): 7}]


def test_a_group_has_settled_once_it_is_stable_for_a_minute_on_end() -> None:
    desk = GroupDesk()

    def unsettled_ms() -> int | None:
        (group,) = seen(desk)
        return group.unsettled_ms

    def stay(generation_id: int, seconds: int) -> None:
        for _ in range(0, seconds, 5):
            desk.wait(5_000)
            desk.heartbeat("a", generation_id)

    desk.form("a")
    stay(1, 55)
    assert unsettled_ms() == 58_000, "since its first member came"
    desk.start_join("a")
    desk.sync_all(2, "a")
    stay(2, 55)
    assert unsettled_ms() == 113_000, "a rebalance each minute lets it never settle"
    stay(2, 5)
    assert unsettled_ms() is None
    desk.start_join("a")
    desk.wait(7_000)
    assert unsettled_ms() == 7_000, "since it began to be restless again"
    desk.leave(Leaver("a"))
    assert unsettled_ms() is None, "nobody waits for an empty group"


def test_a_group_is_told_of_by_its_oldest_pending_offset() -> None:
    desk = GroupDesk()
    desk.commit_pending((1, 0), group_id="g")
    desk.wait(60_000)
    desk.commit_pending((2, 0), group_id="g")
    desk.wait(1_000)
    (group,) = seen(desk)
    assert (group.group_id, group.members, group.offsets, group.pending_ms) == ("g", 0, {}, 61_000)
    desk.end((1, 0))
    desk.end((2, 0))
    assert seen(desk)[0].pending_ms is None


def test_a_group_of_the_consumer_protocol_settles_in_the_same_way() -> None:
    desk = ConsumerDesk(topic("t", 2))

    def unsettled_ms() -> int | None:
        (group,) = seen(desk)
        return group.unsettled_ms

    def stay(seconds: int, *members: str) -> None:
        for _ in range(0, seconds, 5):
            desk.wait(5_000)
            for name in members:
                member = desk.member(name)
                desk.beat(name, member.current.epoch, owned=desk.assigned_to(name))

    desk.join("a")
    stay(55, "a")
    assert unsettled_ms() == 55_000, "since its first member came"
    desk.join("b")
    desk.wait(10_000)
    assert unsettled_ms() == 65_000, "a has yet to hear that it is to give a partition up"
    stay(50, "a", "b")
    assert unsettled_ms() == 115_000
    desk.fail_over()
    assert unsettled_ms() is None, "as it is stored, all members have their parts"
    desk.join("c")
    desk.wait(5_000)
    assert unsettled_ms() == 5_000
    desk.fail_over()
    desk.wait(5_000)
    assert unsettled_ms() == 5_000, "a new coordinator counts anew"
    stay(70, "a", "b", "c")
    assert unsettled_ms() is None
    desk.is_holding = True
    desk.start_join_consumers("d")
    assert unsettled_ms() == 0
    desk.refuse()
    stay(60, "a", "b", "c")
    assert unsettled_ms() is None, "what was refused is over"
    desk.is_holding = False
    for name in "abc":
        desk.beat(name, LEAVING)
    assert unsettled_ms() is None, "nobody waits for an empty group"
