"""Lags as coordinators told them, who reads what, and when a lag will be gone."""

from __future__ import annotations

import pytest

from controller.core.lag_book import (
    BEHIND_MS_MIN,
    FORGOTTEN_MS,
    SHRINKING_WATCHED_MS_MIN,
    LagBook,
    LagRow,
)
from springtide.contract.groups import GroupLag, TopicLag

LOOK = 5_000
MINUTE = 60_000


def lag(group_id: str, records: int, *topics: str, ms: int = MINUTE, age_ms: int = 0) -> GroupLag:
    return GroupLag(group_id, 2, records, ms, age_ms, tuple(TopicLag(topic, records, ms) for topic in topics))


def until_gone(*records: int, every_ms: int = LOOK, ms: int = MINUTE) -> int | None:
    book = LagBook()
    for number, left in enumerate(records):
        book.note([lag("g", left, "orders", ms=ms)], number * every_ms)
    known = book.of("g")
    assert known is not None
    assert known.topics["orders"].until_gone_ms == known.total.until_gone_ms
    return known.total.until_gone_ms


def test_a_lag_is_known_as_of_the_look_of_its_coordinator() -> None:
    book = LagBook()
    book.note([lag("g", 7, "orders", age_ms=400)], 10_000)
    known = book.of("g")
    assert known is not None
    assert (known.members, known.total) == (2, LagRow(7, MINUTE, 9_600))
    assert known.topics == {"orders": LagRow(7, MINUTE, 9_600)}
    assert book.of("other") is None


@pytest.mark.parametrize("every_ms", [1_000, LOOK, 3 * LOOK])
def test_a_lag_that_shrinks_steadily_is_gone_when_the_rate_says(every_ms: int) -> None:
    each = every_ms // 10  # 100 a second
    records = [100_000 - each * number for number in range(61)]
    assert until_gone(*records, every_ms=every_ms) == pytest.approx(records[-1] * 10, rel=0.01)


def test_the_rate_is_that_of_the_last_minute() -> None:
    slow = [100_000 - 100 * number for number in range(60)]
    fast = [slow[-1] - 1_000 * number for number in range(1, 61)]
    assert until_gone(*slow, *fast) == pytest.approx(fast[-1] * 5, rel=0.02)
    assert until_gone(*slow) == pytest.approx(slow[-1] * 50, rel=0.02)


@pytest.mark.parametrize(
    "records",
    [
        [100] * 20,
        range(100, 2_000, 100),
        [1_000, 500],
        [5_000, 4_000, -1, 3_000, 2_000],
    ],
    ids=["steady", "growing", "watched too shortly", "unknown in between"],
)
def test_of_a_lag_that_is_not_seen_to_shrink_no_end_is_told(records: list[int]) -> None:
    assert until_gone(*records) is None


def test_of_a_group_that_keeps_up_no_end_is_told() -> None:
    assert until_gone(*range(2_000, 1_000, -100), ms=BEHIND_MS_MIN - 1) is None
    assert until_gone(*range(2_000, 1_000, -100), ms=BEHIND_MS_MIN) is not None


def test_a_report_that_was_overtaken_counts_nothing() -> None:
    row = LagRow(100, MINUTE, 10_000).next(50, MINUTE, 30_000)
    assert row.until_gone_ms is not None and row.shrinking.ms > SHRINKING_WATCHED_MS_MIN
    assert row.next(90, MINUTE, 20_000).until_gone_ms is None


def test_a_topic_knows_its_readers() -> None:
    book = LagBook()
    book.note([lag("a", 1, "orders", "returns"), lag("b", 2, "orders")], 0)
    assert list(book.readers("orders")) == ["a", "b"]
    assert (book.readers_count("orders"), book.readers_count("none")) == (2, 0)
    book.note([lag("a", 1, "returns")], LOOK)
    assert list(book.readers("orders")) == ["b"]
    book.note([lag("b", 1)], LOOK)
    assert book.readers("orders") == {}


def test_a_group_that_is_told_no_more_is_forgotten_while_others_are() -> None:
    book = LagBook()
    book.note([lag("a", 1, "orders"), lag("b", 1, "orders")], 0)
    book.note([lag("b", 1, "orders")], FORGOTTEN_MS)
    assert list(book.readers("orders")) == ["a", "b"]
    book.note([lag("b", 1, "orders")], FORGOTTEN_MS + 1)
    assert (book.of("a"), list(book.readers("orders"))) == (None, ["b"])
    book.note([], 10 * FORGOTTEN_MS)
    assert book.of("b") is None


def test_too_many_groups_or_topics_leave_those_that_were_told_last() -> None:
    book = LagBook(groups_max=3, topics_max=5)
    book.note([lag(name, 1, "orders") for name in "abcd"], 0)
    assert list(book.readers("orders")) == ["b", "c", "d"]
    book.note([lag("b", 1, "x", "y", "z")], 1)
    assert list(book.readers("orders")) == ["c", "d"]
    book.note([lag("e", 1, "x")], 1)
    assert (list(book.readers("orders")), list(book.readers("x"))) == (["d"], ["b", "e"])
