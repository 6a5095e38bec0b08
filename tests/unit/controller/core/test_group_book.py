"""What the controller keeps of coordinators' word on groups."""

from __future__ import annotations

from controller.core.group_book import GroupBook
from springtide.contract.groups import GroupNews, GroupRebalance


def told(group_id: str = "g", *, generation_id: int = 5, ended_ms: int = 20, reason: str = "") -> GroupNews:
    began_ms = 10 if reason else -1
    rebalance = GroupRebalance(
        group_id=group_id, generation_id=generation_id, began_ms=began_ms, ended_ms=ended_ms, reason=reason
    )
    return GroupNews(rebalances=(rebalance,))


def reason_in(book: GroupBook, group_id: str = "g") -> str | None:
    found = book.rebalance(group_id)
    return None if found is None else found.reason


def test_the_latest_word_counts() -> None:
    book = GroupBook()
    assert reason_in(book) is None
    book.note(told(reason="member a joined"))
    book.note(told(generation_id=6, reason="member a left"))
    assert reason_in(book) == "member a left"


def test_a_coordinator_that_took_the_group_over_does_not_wipe_the_reason_out() -> None:
    book = GroupBook()
    book.note(told(reason="member a joined"))
    book.note(told())
    assert reason_in(book) == "member a joined"
    book.note(told(generation_id=6))
    assert reason_in(book) == "", "a generation that this controller has not heard of"


def test_a_rebalance_does_not_stay_under_way_with_a_coordinator_that_died() -> None:
    book = GroupBook()
    book.note(told(ended_ms=-1, reason="member a joined"))
    book.note(told())
    assert reason_in(book) == ""


def test_groups_that_were_told_of_longest_ago_are_forgotten_first() -> None:
    book = GroupBook(groups_max=2)
    for group_id in ("a", "b", "a", "c"):
        book.note(told(group_id, reason=group_id))
    assert [reason_in(book, group_id) for group_id in "abc"] == ["a", None, "c"]
