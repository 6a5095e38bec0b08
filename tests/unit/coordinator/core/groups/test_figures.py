"""What people are told of groups is what their committed records and their members say."""

from __future__ import annotations

from coordinator.core.groups.figures import GroupFigures, figures_of
from coordinator.core.groups.requests import Leaver
from tests.kit.coordinator.group_desk import GroupDesk


def seen(desk: GroupDesk) -> list[GroupFigures]:
    return sorted(figures_of(desk.machine.registry), key=lambda group: group.group_id)


def test_members_and_committed_offsets_are_told_of_each_group() -> None:
    desk = GroupDesk()
    generation_id = desk.form("a", statics={"s": "i"})
    desk.start_join(group_id="new")
    desk.commit_offsets(group_id="simple")
    desk.commit_offsets("a", generation_id)
    assert seen(desk) == [
        GroupFigures("g", 2, {("t", 0): 7}),
        GroupFigures("new", 1, {}),
        GroupFigures("simple", 0, {("t", 0): 7}),
    ]
    desk.leave(Leaver("a"), Leaver("s"))
    desk.fail_over()
    assert seen(desk)[0] == GroupFigures("g", 0, {("t", 0): 7}), "as it is stored"


def test_an_offset_that_is_not_committed_is_not_told() -> None:
    desk = GroupDesk()
    generation_id = desk.form("a")
    desk.is_holding = True
    desk.start_commit("a", generation_id)
    assert seen(desk) == [GroupFigures("g", 1, {})]
    desk.commit()
    assert seen(desk) == [GroupFigures("g", 1, {("t", 0): 7})]
