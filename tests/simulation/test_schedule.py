"""Strikes are values: a run's own strikes replay it, and taking one out leaves the others where they were."""

from __future__ import annotations

from functools import partial

import pytest

from tests.simulation.disk import Disk
from tests.simulation.events import Events
from tests.simulation.ongoing import OngoingFaults
from tests.simulation.run import run_seed
from tests.simulation.schedule import from_json, to_json

SHORT_MS = 8_000


@pytest.mark.parametrize("seed", [1, 5])
def test_a_verdicts_strikes_through_json_replay_it_to_the_digest(seed: int) -> None:
    verdict = run_seed(seed, faults_ms=SHORT_MS)
    assert verdict.strikes
    again = run_seed(seed, strikes=from_json(to_json(verdict.strikes)), faults_ms=SHORT_MS)
    assert again.digest == verdict.digest
    assert again.strikes == verdict.strikes


def test_without_one_strike_the_others_still_strike_as_they_were_drawn() -> None:
    verdict = run_seed(5, faults_ms=SHORT_MS)
    assert len(verdict.strikes) > 3
    fewer = verdict.strikes[:1] + verdict.strikes[2:]
    again = run_seed(5, strikes=fewer, faults_ms=SHORT_MS)
    assert again.failure is None, again.report()
    assert all(strike in fewer for strike in again.strikes)
    assert len(again.strikes) >= len(fewer) // 2


def test_without_strikes_nobody_is_struck() -> None:
    verdict = run_seed(5, strikes=(), faults_ms=SHORT_MS)
    assert verdict.failure is None, verdict.report()
    assert verdict.faults == {}


def test_overlapping_faults_count_once_in_the_time_that_faults_last() -> None:
    events = Events()
    ongoing = OngoingFaults(events)
    for at_ms, for_ms in ((100, 50), (120, 80), (300, 10), (400, 1_000)):
        events.at(at_ms, partial(ongoing.begin, nodes=(), for_ms=for_ms, end=lambda: None))
    events.run(120)
    assert ongoing.lasted_ms == 20
    events.run(350)
    assert ongoing.lasted_ms == 100 + 10
    events.run(500)
    ongoing.end_all()
    events.run(900)
    assert ongoing.lasted_ms == 100 + 10 + 100


def test_a_copy_of_a_disk_holds_its_bytes_and_not_what_is_wrong_with_it() -> None:
    disk = Disk("first", high_watermarks={("topic", 0): 7})
    disk.fail("input/output error")
    disk.hung = True
    copy = disk.copy()
    assert (copy.failing, copy.hung, copy.high_watermarks) == (None, False, {("topic", 0): 7})
