"""Lag is what was left at the newest commit, and as of now where a commit is late; it can't alias."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest

from coordinator.core.group_records import CommittedOffset
from coordinator.core.groups.figures import GroupFigures
from coordinator.core.lag_watch import TotalLag
from coordinator.core.lags import ENDS_MAX, Ends, Lag, Lags
from coordinator.core.troubles import Troubles

PLACE = ("orders", 0)
LOOK_MS = 5_000
WALL_MS = 1_800_000_000_000
MINUTE_MS = 60_000
RATE = 150
"""Records a second."""
PHASE_MS = 5_013
"""A look every 5 s takes some time: its phase drifts against commits every 5 s."""


class Watched:
    """A group of one partition, its lags look by look, and the alarms that they raise."""

    def __init__(self) -> None:
        self.lags, self.troubles = Lags(), Troubles()

    def look(self, now_ms: int, end: int, offset: int, committed_ms: int) -> Lag:
        committed = CommittedOffset(offset, -1, "", WALL_MS + committed_ms)
        group = GroupFigures("g", 1, {PLACE: committed})
        self.lags.see_ends({PLACE: end}, now_ms)
        found = self.lags.see_group(group, {PLACE: end}, WALL_MS + now_ms)[PLACE]
        self.lags.keep([group.group_id], group.offsets)
        self.troubles.see([group], {"g": TotalLag(found.records, end) if found.is_settled else None})
        return found

    def codes(self) -> list[str]:
        return [trouble.code for trouble in self.troubles.found]


def end_at(now_ms: float) -> int:
    return int(RATE * now_ms / 1_000)


def commits_every(interval_ms: int, of: Callable[[float], int]) -> Callable[[int], tuple[int, int]]:
    """A consumer that commits what it has read, `of` the time, at each interval: (offset, when)."""
    return lambda now_ms: (of(now_ms // interval_ms * interval_ms), now_ms // interval_ms * interval_ms)


def watch(
    commit: Callable[[int], tuple[int, int]], minutes: int, watched: Watched | None = None, since_ms: int = 0
) -> Iterator[tuple[int, Lag, list[str]]]:
    watched = Watched() if watched is None else watched
    for now_ms in range(since_ms, since_ms + minutes * MINUTE_MS, PHASE_MS):
        yield now_ms, watched.look(now_ms, end_at(now_ms), *commit(now_ms)), watched.codes()


@pytest.mark.parametrize("interval_ms", [100, 1_000, 5_000, 30_000, 60_000, 290_000])
def test_a_group_that_keeps_up_has_no_ramp_and_no_alarm_in_half_an_hour(interval_ms: int) -> None:
    random = Random(interval_ms)

    def read(now_ms: float) -> int:
        return max(0, end_at(now_ms) - random.randrange(RATE // 2))  # what a poll brought

    seen = list(watch(commits_every(interval_ms, read), minutes=30))
    assert {code for *_, codes in seen for code in codes} == set()
    settled = [lag for now_ms, lag, _ in seen if now_ms > 2 * interval_ms + LOOK_MS]
    assert max(lag.records for lag in settled) <= RATE * 0.6, (
        "though the log grows by 750 between two commits"
    )
    assert max(lag.ms for lag in settled) <= 600


@pytest.mark.parametrize(
    ("share_read", "seconds_max"),
    [
        pytest.param(0.0, 60, id="stopped"),
        pytest.param(0.5, 60, id="half"),
        pytest.param(0.97, 750, id="97 %"),
    ],
)
def test_a_group_that_falls_behind_is_told_in_a_minute(share_read: float, seconds_max: int) -> None:
    watched, turn_ms = Watched(), 10 * MINUTE_MS

    def read(now_ms: float) -> int:
        return end_at(min(now_ms, turn_ms)) + int(share_read * end_at(max(0, now_ms - turn_ms)))

    keeps_up = commits_every(5_000, read)
    slow = (lambda _: keeps_up(turn_ms)) if share_read == 0 else keeps_up
    assert {code for *_, codes in watch(keeps_up, 10, watched) for code in codes} == set()
    told = [now_ms for now_ms, _, codes in watch(slow, 15, watched, turn_ms) if codes == ["lag_grows"]]
    assert (told[0] - turn_ms) / 1_000 <= seconds_max
    if share_read < 0.9:
        assert all(later - one == PHASE_MS for one, later in pairwise(told)), "and stays until it catches up"
        caught_up = watch(commits_every(5_000, end_at), 5, watched, 25 * MINUTE_MS)
        ended = [now_ms - 25 * MINUTE_MS for now_ms, _, codes in caught_up if not codes]
        assert ended[0] <= MINUTE_MS


def test_lag_in_time_is_how_long_ago_the_end_was_there() -> None:
    behind_ms = 40_000
    commit = commits_every(5_000, lambda now_ms: end_at(max(0, now_ms - behind_ms)))
    *_, (_, lag, codes) = watch(commit, minutes=5)
    assert lag.ms == pytest.approx(behind_ms, abs=300)
    assert lag.records == pytest.approx(RATE * behind_ms / 1_000, abs=45)
    assert codes == [], "behind, but no further than before"


def test_a_group_that_has_stopped_has_the_lag_of_now() -> None:
    watched = Watched()
    list(watch(commits_every(5_000, end_at), 5, watched))
    stopped = watch(lambda _: (end_at(300_000), 300_000), 5, watched, 300_000 + PHASE_MS)
    *_, (now_ms, lag, codes) = stopped
    assert lag == (end_at(now_ms) - end_at(300_000), pytest.approx(now_ms - 300_000, abs=PHASE_MS), True)
    assert codes == ["lag_grows"]


def test_a_group_whose_habit_is_not_known_raises_no_alarm_for_ten_minutes() -> None:
    """Another coordinator has its groups from the log, and they may commit once in five minutes."""
    seen = list(watch(lambda _: (0, 0), minutes=15))
    told = [now_ms for now_ms, _, codes in seen if codes]
    assert 10 * MINUTE_MS < told[0] <= 11 * MINUTE_MS
    assert seen[100][1].records == end_at(seen[100][0]), "its lag is shown all the same"


def test_hours_without_records_are_no_habit() -> None:
    """After a quiet night the group that does not commit the morning's records is late after ten seconds."""
    watched, morning_ms = Watched(), 8 * 60 * MINUTE_MS
    for now_ms in range(0, morning_ms, PHASE_MS):
        assert watched.look(now_ms, 1_000, 1_000, 0).records == 0
    commits = [(1_000, 0), (1_000, 0), (1_700, morning_ms + 6_000), (1_700, morning_ms + 6_000)]
    ends = [1_500, 2_000, 2_500, 3_000, 3_500]
    found = [
        watched.look(morning_ms + PHASE_MS * number, end, *(commits[number] if number < 4 else commits[-1]))
        for number, end in enumerate(ends)
    ]
    assert [lag.records for lag in found[3:]] == [pytest.approx(0, abs=450), 1_800], "now, when it is late"


def test_a_wall_clock_that_leaps_moves_no_commit_out_of_its_look() -> None:
    watched = Watched()
    list(watch(commits_every(5_000, end_at), 2, watched))
    lag = watched.look(125_000, end_at(125_000), end_at(122_000), 122_000 - 3_600_000)
    assert lag.records <= end_at(PHASE_MS)


def test_a_log_that_begins_anew_has_no_past() -> None:
    watched = Watched()
    list(watch(commits_every(5_000, end_at), 2, watched))
    assert watched.look(125_000, 10, 4, 124_000).records == 6
    assert watched.look(130_000, 10, 10, 129_000)[:2] == (0, 0)


def test_looks_that_are_remembered_are_bounded_and_reach_back() -> None:
    ends = Ends()
    for number in range(10_000):
        ends.see(10 * number, number * LOOK_MS)
        assert len(ends.offsets) == len(ends.times_ms) <= ENDS_MAX
    assert ends.reached_ms(99_980) == 9_998 * LOOK_MS
    assert ends.times_ms[0] == 0, "the first look stays"
    assert ends.reached_ms(50_000) == pytest.approx(5_000 * LOOK_MS, rel=0.001)
    assert ends.at(2_500 * LOOK_MS) == pytest.approx(25_000, rel=0.001)


def test_gone_groups_and_partitions_are_forgotten() -> None:
    watched = Watched()
    watched.look(0, 10, 4, 0)
    watched.lags.keep([], [])
    assert watched.look(LOOK_MS, 20, 20, LOOK_MS)[:2] == (0, 0)
