"""The controller hears of each rebalance once, a hundred at a time, and of all again when it is a new one."""

from __future__ import annotations

import msgspec

from coordinator.core.group_news import NewsOfGroups
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.requests import Leaver
from springtide.contract.epochs import ControllerEpoch
from springtide.contract.groups import (
    GROUP_ID_CHARS_MAX,
    REBALANCE_BYTES_TOLD_MAX,
    REBALANCES_TOLD_MAX,
    GroupLag,
    GroupNews,
    GroupTrouble,
)
from springtide.contract.session import HeartbeatResponse
from tests.kit.coordinator.group_desk import GroupDesk


class Telling:
    """A coordinator of one shard that tells its controller."""

    def __init__(self) -> None:
        self.desk = GroupDesk()
        self.news = NewsOfGroups(lambda: [self.desk.machine])

    def take(self) -> list[str]:
        news = self.news.take()
        return [] if news is None else [f"{told.group_id}: {told.reason}" for told in news.rebalances]

    def answered(self, controller_epoch: int = 1) -> None:
        response = HeartbeatResponse(controller_epoch=ControllerEpoch(controller_epoch))
        self.news.on_heartbeat(response, sent_ms=0, now_ms=0)


def test_news_are_told_until_they_are_acknowledged() -> None:
    telling = Telling()
    assert telling.take() == []
    telling.desk.start_join(new_id="a")
    assert telling.take() == telling.take() == ["g: member a joined from host /10.0.0.1"]
    telling.answered()
    assert telling.take() == []


def test_troubles_are_told_with_each_heartbeat_while_they_last() -> None:
    desk, troubles = GroupDesk(), [GroupTrouble(group_id="g", code="unsettled", detail="")]
    news = NewsOfGroups(lambda: [desk.machine], lambda: tuple(troubles))
    for _ in range(2):
        assert news.take() == GroupNews(troubles=tuple(troubles))
        news.on_heartbeat(HeartbeatResponse(controller_epoch=ControllerEpoch(1)), sent_ms=0, now_ms=0)
    troubles.clear()
    assert news.take() is None


def test_lags_are_told_as_they_are_given() -> None:
    lags = [(GroupLag("g", 1, 2, 3, 4),)]
    news = NewsOfGroups(lambda: [GroupDesk().machine], lags=lambda: lags.pop() if lags else ())
    assert news.take() == GroupNews(lags=(GroupLag("g", 1, 2, 3, 4),))
    assert news.take() is None


def test_what_changes_on_the_way_is_told_again() -> None:
    telling = Telling()
    telling.desk.start_join(new_id="a")
    telling.take()
    telling.desk.wait(3_000)
    telling.desk.sync_all(1, "a")
    telling.take()
    telling.desk.start_join(new_id="b")
    telling.answered()
    assert telling.take() == ["g: member b joined from host /10.0.0.1"]


def test_many_are_told_a_hundred_at_a_time() -> None:
    telling = Telling()
    for number in range(REBALANCES_TOLD_MAX + 50):
        telling.desk.start_join(new_id="a", group_id=f"g{number}")
    telling.desk.start_join(new_id="a", group_id="x" * (GROUP_ID_CHARS_MAX + 1))
    assert len(telling.take()) == REBALANCES_TOLD_MAX
    telling.answered()
    assert len(telling.take()) == 50
    telling.answered()
    assert telling.take() == []


def test_an_id_is_told_up_to_the_bound() -> None:
    telling = Telling()
    telling.desk.start_join(new_id="a", group_id="x" * GROUP_ID_CHARS_MAX)
    assert len(telling.take()) == 1


def test_a_group_that_is_gone_before_it_is_told_is_not_told() -> None:
    telling = Telling()
    telling.desk.form("a")
    telling.desk.leave(Leaver("a"))
    telling.desk.delete("g")
    assert telling.take() == []


def test_a_group_without_a_rebalance_has_no_news_for_a_new_controller() -> None:
    telling = Telling()
    telling.desk.start_join(new_id="a", requires_member_id=True)
    assert "g" in telling.desk.machine.registry.live
    telling.answered()
    telling.answered(controller_epoch=2)
    assert telling.take() == []


def test_a_new_controller_is_told_everything() -> None:
    telling = Telling()
    telling.desk.start_join(new_id="a")
    telling.take()
    telling.answered()
    telling.take()
    telling.answered(controller_epoch=2)
    assert telling.take() == ["g: member a joined from host /10.0.0.1"]


def test_a_shard_that_was_given_away_is_not_told_of_any_more() -> None:
    telling = Telling()
    machines: list[GroupMachine] = []
    telling.news = NewsOfGroups(lambda: machines)
    machines.append(telling.desk.machine)
    telling.desk.start_join(new_id="a")
    assert telling.take()
    machines.clear()
    assert telling.take() == []


def test_large_rebalances_are_told_within_the_bytes_of_a_heartbeat() -> None:
    telling = Telling()
    for number in range(40):
        rebalance = telling.desk.machine.registry.history.begin(f"g{number}", 1, 1)
        for partition in range(100):
            rebalance.note_move(("t" * 50, partition), "a" * 60, f"{'b' * 60}{partition}", 10)
    seen: list[str] = []
    telling.answered()
    while told := telling.news.take():
        assert len(msgspec.json.encode(told)) <= REBALANCE_BYTES_TOLD_MAX + 1_000
        seen += [one.group_id for one in told.rebalances]
        telling.answered()
    assert len(seen) == len(set(seen)) == 40
