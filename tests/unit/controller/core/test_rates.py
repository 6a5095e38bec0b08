"""Averages of what partitions take in and give out, from what leaders report."""

from __future__ import annotations

import pytest

from controller.core.planning.snapshot import Rates
from controller.core.rates import RATE_MEMORY_MS, RATES_WATCHED_MS_MIN, PresentRates, RateBook
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import PartitionLag

SECOND = 1_000
HOUR = RATE_MEMORY_MS
KEY = ("t", 0)


def lag(bytes_in: int = 0, bytes_out: int = 0, *, epoch: int = 0) -> PartitionLag:
    return PartitionLag(
        topic_id="t",
        partition=0,
        leader_epoch=LeaderEpoch(epoch),
        log_start_offset=0,
        log_end_offset=0,
        high_watermark=0,
        size_bytes=0,
        bytes_in=bytes_in,
        bytes_out=bytes_out,
    )


def written(*, seconds: int, each: int = 1_000, every: int = 1) -> RateBook:
    """A partition that takes in `each` bytes a second and gives out twice as many, told of every so many
    seconds from second 0 on."""
    book, before = RateBook(), None
    for second in range(0, seconds + 1, every):
        told = lag(second * each, 2 * second * each)
        book.note(before, told, second * SECOND)
        before = told
    return book


@pytest.mark.parametrize(("seconds", "every"), [(300, 1), (3_600, 10), (20_000, 300)])
def test_a_steady_rate_is_found_whatever_the_watch_and_the_pace_of_reports(seconds: int, every: int) -> None:
    rates = written(seconds=seconds, every=every).rates({}, seconds * SECOND)
    assert rates is not None
    assert rates[KEY].bytes_in == pytest.approx(1_000, rel=0.05)
    assert rates[KEY].bytes_out == pytest.approx(2_000, rel=0.05)


def test_what_stops_fades_and_what_begins_late_is_an_average_over_the_watch() -> None:
    book = written(seconds=3_600)
    (now, later) = (book.rates({}, at) for at in (HOUR, 4 * HOUR))
    assert now is not None
    assert later is not None
    assert 0 < later[KEY].bytes_in < now[KEY].bytes_in / 10
    book = RateBook()
    book.note(None, lag(), 0)
    assert book.note(lag(), lag(bytes_in=600_000), 600 * SECOND) == (600_000, 0)
    found = book.rates({}, 600 * SECOND)
    assert found is not None
    assert found[KEY].bytes_in == pytest.approx(1_000, rel=0.1)


def test_counters_are_compared_only_within_one_leaders_term() -> None:
    book = RateBook()
    book.note(None, lag(bytes_in=10**9, epoch=3), 0)
    assert book.note(lag(bytes_in=10**9, epoch=3), lag(bytes_in=5, epoch=4), SECOND) == (0, 0)
    book.note(lag(bytes_in=5, epoch=4), lag(bytes_in=3, epoch=4), 2 * SECOND)  # a report that was overtaken
    assert book.rates({}, HOUR) == {}


def test_rates_are_not_known_at_first_nor_while_a_leader_does_not_count() -> None:
    book = written(seconds=300)
    assert book.rates({}, RATES_WATCHED_MS_MIN - 1) is None
    assert book.rates({KEY: lag()}, RATES_WATCHED_MS_MIN) is not None
    assert book.rates({KEY: lag(-1, -1)}, RATES_WATCHED_MS_MIN) is None
    assert RateBook().rates({}, HOUR) is None


def test_a_leader_of_an_older_release_adds_nothing_and_what_is_deleted_is_forgotten() -> None:
    book = written(seconds=300)
    book.forget(KEY)
    book.note(lag(-1, -1), lag(-1, -1), 301 * SECOND)
    book.note(lag(-1, -1), lag(10**9, 10**9), 302 * SECOND)
    assert book.rates({}, 302 * SECOND) == {}


def test_a_copy_stands_still() -> None:
    book = written(seconds=300)
    copy = book.copy()
    book.note(lag(), lag(bytes_in=10**9), 301 * SECOND)
    assert copy.rates({}, 300 * SECOND) == {KEY: Rates(1_000, 2_000)}


LEADER = 4


def busy(*, seconds: int, each: int = 1_000) -> PresentRates:
    """A topic whose partition takes in `each` bytes a second and gives out twice as many."""
    book, before = PresentRates(), None
    for second in range(seconds + 1):
        told = lag(second * each, 2 * second * each)
        book.note(before, told, LEADER, second * SECOND)
        before = told
    return book


@pytest.mark.parametrize("seconds", [10, 60, 3_600])
def test_a_steady_present_rate_is_found_from_the_first_seconds_on(seconds: int) -> None:
    book = busy(seconds=seconds)
    for found in (book.of_topic("t", seconds * SECOND), book.of_broker(LEADER, seconds * SECOND)):
        assert found is not None
        assert found == pytest.approx((1_000, 2_000), rel=0.05)
    assert book.of_topic("other", seconds * SECOND) == Rates(0, 0)
    assert book.of_broker(5, seconds * SECOND) == Rates(0, 0)


def test_what_becomes_busy_shows_within_a_minute_and_what_stops_is_gone_as_soon() -> None:
    book, before = busy(seconds=600, each=10), lag(6_000, 12_000)
    for second in range(1, 61):
        told = lag(6_000 + 1_000 * second, 12_000)
        book.note(before, told, LEADER, (600 + second) * SECOND)
        before = told
    found = book.of_topic("t", 660 * SECOND)
    assert found is not None and found.bytes_in > 850
    stopped = book.of_topic("t", 780 * SECOND)
    assert stopped is not None and stopped.bytes_in < 20


def test_a_present_rate_is_not_known_at_first_nor_while_a_leader_does_not_count() -> None:
    book = busy(seconds=9)
    assert book.of_topic("t", 9 * SECOND) is None
    assert PresentRates().of_broker(LEADER, HOUR) is None
    book.note(lag(), lag(-1, -1), LEADER, 10 * SECOND)
    assert book.of_topic("t", 10 * SECOND) is None
    assert book.of_broker(LEADER, 10 * SECOND) is None
    book.note(lag(5), lag(6), LEADER, 11 * SECOND)
    assert book.of_topic("t", 11 * SECOND) is not None, "it was upgraded"


def test_the_rates_of_what_is_gone_are_forgotten() -> None:
    book = busy(seconds=60)
    book.forget_topic("t")
    book.forget_broker(LEADER)
    assert book.of_topic("t", 60 * SECOND) == book.of_broker(LEADER, 60 * SECOND) == Rates(0, 0)
