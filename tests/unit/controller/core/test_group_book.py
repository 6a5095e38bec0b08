"""What the controller keeps of coordinators' word on groups."""

from __future__ import annotations

from controller.core.group_book import REBALANCES_MAX, GroupBook
from springtide.contract.groups import GroupNews, GroupRebalance, RebalanceCause


def told(group_id: str = "g", *, generation_id: int = 5, ended_ms: int = 20, reason: str = "") -> GroupNews:
    began_ms = 10 if reason else -1
    rebalance = GroupRebalance(
        group_id=group_id, generation_id=generation_id, began_ms=began_ms, ended_ms=ended_ms, reason=reason
    )
    return GroupNews(rebalances=(rebalance,))


def reason_in(book: GroupBook, group_id: str = "g") -> str | None:
    found = next(iter(book.rebalances(group_id)), None)
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


def one(began_ms: int, *, ended_ms: int = -1, group_id: str = "g", generation_id: int = 5) -> GroupRebalance:
    return GroupRebalance(
        group_id=group_id,
        generation_id=generation_id,
        began_ms=began_ms,
        ended_ms=ended_ms,
        reason="member a joined" if began_ms >= 0 else "",
        causes=(RebalanceCause("joined", "member a joined"),) * 4,
    )


def noted(*rebalances: GroupRebalance, book: GroupBook | None = None) -> GroupBook:
    book = book or GroupBook()
    for rebalance in rebalances:
        book.note(GroupNews(rebalances=(rebalance,)))
    return book


def test_the_last_rebalances_of_a_group_are_kept_the_newest_first() -> None:
    book = noted(*(one(number, ended_ms=number) for number in range(REBALANCES_MAX + 3)))
    began = [rebalance.began_ms for rebalance in book.rebalances("g")]
    assert began == list(range(REBALANCES_MAX + 2, 2, -1))
    assert book.rebalances("h") == ()


def test_what_is_told_again_replaces_what_was_told() -> None:
    book = noted(one(10), one(10, ended_ms=20))
    assert [rebalance.ended_ms for rebalance in book.rebalances("g")] == [20]


def test_a_new_controller_hears_of_the_last_one_first() -> None:
    book = noted(one(30), one(10, ended_ms=20), one(20, ended_ms=30))
    assert [rebalance.began_ms for rebalance in book.rebalances("g")] == [30, 20, 10]


def test_a_rebalance_that_was_taken_over_lies_between_those_before_and_those_after() -> None:
    book = noted(one(10, ended_ms=20), one(30), one(-1, generation_id=6))
    assert [rebalance.began_ms for rebalance in book.rebalances("g")] == [-1, 10]
    noted(one(-1, generation_id=6, ended_ms=50), one(50, generation_id=7), book=book)
    assert [rebalance.began_ms for rebalance in book.rebalances("g")] == [50, -1, 10]


def test_large_rebalances_of_many_groups_take_no_more_than_the_bound() -> None:
    book = GroupBook(units_max=22)
    noted(*(one(1, group_id=str(number)) for number in range(6)), book=book)
    assert [bool(book.rebalances(str(number))) for number in range(6)] == [False] * 2 + [True] * 4
