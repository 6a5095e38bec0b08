"""Figures and series: what is measured, at which times, and split by what."""

from __future__ import annotations

from tests.checker.builder import HistoryBuilder
from tests.checker.check import check
from tests.checker.history import Outcome
from tests.checker.options import CheckOptions
from tests.checker.verdict import Point, Verdict, Window

K = ("orders", 0)
PARTIAL = CheckOptions(final_read=False)


def a_run_with_a_fault() -> Verdict:
    """Acknowledged at once, then a second and a half of a fault, then acknowledged and read."""
    b = HistoryBuilder()
    first, late, unknown = (b.new_value(K) for _ in range(3))
    b.assign("c", K, from_offset=0, at=(0, 0))
    b.send("p", K, [(0, first)], at=(0, 100))
    b.fault("broker 1 killed", at=(1000, 2499))
    b.send_unknown("p", K, [unknown], at=(200, 1200))
    b.send("p", K, [(-1, b.new_value(K))], type=Outcome.FAIL, at=(1300, 1400))
    b.send("p", K, [(1, late)], at=(1500, 3100))
    b.poll("c", None, at=(3200, 3210))
    b.poll("c", K, [(0, first), (1, late)], final=True, at=(4300, 4301))
    return check(b.history())


def test_availability_is_counted_by_window_and_by_fault() -> None:
    verdict = a_run_with_a_fault()
    assert verdict.series.availability == (
        Window(at_ms=0, ok=1, fail=0, info=0, during_fault=False),
        Window(at_ms=1000, ok=0, fail=1, info=1, during_fault=True),
        Window(at_ms=3000, ok=1, fail=0, info=0, during_fault=False),
    )
    assert verdict.figures.availability_percent == 50.0
    assert verdict.figures.availability_in_faults_percent == 0.0


def test_a_stall_lasts_from_the_first_waiting_send_to_the_next_acknowledgement() -> None:
    assert a_run_with_a_fault().figures.longest_stall_ms == 3100 - 200


def test_unseen_rises_with_acknowledgements_and_falls_with_reads() -> None:
    verdict = a_run_with_a_fault()
    assert verdict.series.unseen == {
        "orders/0": (
            Point(at_ms=0, value=1),
            Point(at_ms=3000, value=2),
            Point(at_ms=4000, value=0),
        )
    }
    assert verdict.figures.unseen_at_end == 0
    assert verdict.figures.unseen_zero_ms == 4301 - 3100


def test_lag_is_how_long_the_next_record_had_been_known_when_a_poll_missed_it() -> None:
    verdict = a_run_with_a_fault()
    assert verdict.figures.real_time_lag_ms_max == 3200 - 100
    assert verdict.series.real_time_lag_ms == {"orders/0": (Point(at_ms=3000, value=3100),)}


def test_the_final_read_is_no_lagging_reader() -> None:
    b = HistoryBuilder()
    values = list(enumerate([b.new_value(K) for _ in range(2)]))
    b.send("p", K, values, at=(0, 1))
    b.poll("final", K, values[:1], final=True, at=(5000, 5001))
    b.poll("final", K, values[1:], final=True, at=(5002, 5003))
    assert check(b.history()).figures.real_time_lag_ms_max == 0


def test_the_figures_account_for_every_value() -> None:
    f = a_run_with_a_fault().figures
    assert (f.total, f.acked, f.failed, f.unknown) == (4, 2, 1, 1)
    assert (f.records_read, f.read, f.final_read, f.lost) == (2, 2, 2, 0)
    assert (f.operations, f.faults, f.duration_ms) == (8, 1, 4301)


def test_a_partition_without_waiting_sends_does_not_stall() -> None:
    b = HistoryBuilder()
    b.send("p", K, [(0, b.new_value(K))], at=(0, 5))
    b.send("p", K, [(1, b.new_value(K))], at=(60_000, 60_007))
    assert check(b.history(), PARTIAL).figures.longest_stall_ms == 7


def test_quick_refusals_do_not_end_a_stall() -> None:
    b = HistoryBuilder()
    for at in range(0, 1000, 10):
        b.send("p", K, [(-1, b.new_value(K))], type=Outcome.FAIL, at=(at, at + 5))
    assert check(b.history(), PARTIAL).figures.longest_stall_ms == 995


def test_what_nobody_read_stays_unseen() -> None:
    b = HistoryBuilder()
    b.send("p", K, [(0, b.new_value(K))])
    figures = check(b.history(), PARTIAL).figures
    assert (figures.unseen_at_end, figures.unseen_zero_ms) == (1, None)


def test_a_long_history_has_wider_windows_not_more() -> None:
    b = HistoryBuilder()
    ends = [0, 30_000_000_000]
    for end in ends:
        b.send("p", K, [(-1, b.new_value(K))], at=(end, end + 1))
        b.fault("slow", at=(0, ends[-1]))
    verdict = check(b.history(), CheckOptions(final_read=False, window_ms=1))
    assert len(verdict.series.availability) == 2
