"""Three clocks, and what is believed of them."""

from __future__ import annotations

import pytest

from springtide.contract.agreed_time import (
    LEAP_MS_MIN,
    READING_MS_MAX,
    SETTLED_MS,
    SLEWED_ONE_IN,
    AgreedTime,
)
from springtide.contract.session import ClockLeap

NOON_MS = 1_700_000_000_000
DAY_MS = 24 * 60 * 60 * 1000
LEAP_MS = 8 * DAY_MS


class Machine:
    """True time, and how far each of its clocks is ahead of it. A heartbeat is answered every second."""

    def __init__(self, *, own_ahead_ms: int = 0, controller_ahead_ms: int = 0) -> None:
        self.true_ms = NOON_MS
        self.own_ahead_ms = own_ahead_ms
        self.controller_ahead_ms = controller_ahead_ms
        self.agreed = AgreedTime()
        self.hear()

    def hear(self, *, round_trip_ms: int = 0) -> None:
        """The controller read its clock when it was asked, which tells least of the present."""
        self.agreed.on_reading(
            self.true_ms - round_trip_ms + self.controller_ahead_ms,
            sent_ms=self.true_ms - NOON_MS - round_trip_ms,
            **self.clocks,
        )

    def live(self, duration_ms: int, *, interval_ms: int = 1_000) -> None:
        for _ in range(duration_ms // interval_ms):
            self.true_ms += interval_ms
            self.hear()

    @property
    def clocks(self) -> dict[str, int]:
        return {"wall_ms": self.true_ms + self.own_ahead_ms, "mono_ms": self.true_ms - NOON_MS}

    @property
    def expiry_late_ms(self) -> int | None:
        """How long something that expires now outlives its time; None: nothing expires."""
        expiry_ms = self.agreed.expiry_ms(**self.clocks)
        return None if expiry_ms is None else self.true_ms - expiry_ms

    @property
    def stamp_ahead_ms(self) -> int:
        return self.agreed.stamp_ms(**self.clocks) - self.true_ms

    @property
    def leap(self) -> ClockLeap | None:
        return self.agreed.leap(**self.clocks)


def test_while_clocks_agree_the_smallest_decides_what_has_expired() -> None:
    machine = Machine(own_ahead_ms=2_000, controller_ahead_ms=-1_000)
    machine.live(5_000)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (1_000, 2_000, None)
    machine.own_ahead_ms = -3_000
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (3_000, -3_000, None)


@pytest.mark.parametrize("leap_ms", [LEAP_MS, -LEAP_MS, LEAP_MS_MIN + 1, -LEAP_MS_MIN - 1])
def test_one_clock_that_leaps_expires_nothing_stamps_nothing_and_is_told_until_it_is_back(
    leap_ms: int,
) -> None:
    machine = Machine()
    machine.live(5_000)
    machine.own_ahead_ms = leap_ms
    told = ClockLeap(ahead_of_controller_ms=leap_ms, ahead_of_elapsed_ms=leap_ms)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (None, 0, told)
    machine.live(7_000)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (None, 0, told)
    machine.own_ahead_ms = 0
    machine.controller_ahead_ms = leap_ms
    machine.live(7_000)
    told = ClockLeap(ahead_of_controller_ms=-leap_ms, ahead_of_elapsed_ms=0)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (None, 0, told)
    machine.controller_ahead_ms = 0
    machine.hear()
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (0, 0, None)


@pytest.mark.parametrize("leap_ms", [LEAP_MS, -LEAP_MS])
def test_what_two_wall_clocks_tell_against_the_time_that_has_passed_is_believed_after_a_day(
    leap_ms: int,
) -> None:
    machine = Machine()
    machine.live(5_000)
    machine.own_ahead_ms = machine.controller_ahead_ms = leap_ms
    # Should the leap be wrong, no record gets a time that makes it expire early; nor if it is right.
    stamped_ms = max(0, leap_ms)
    machine.live(SETTLED_MS, interval_ms=10_000)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms) == (None, stamped_ms)
    assert machine.leap == ClockLeap(ahead_of_controller_ms=0, ahead_of_elapsed_ms=leap_ms)
    assert machine.agreed.agreed_since_ms == 0
    machine.live(10_000, interval_ms=10_000)
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (-leap_ms, leap_ms, None)
    assert machine.agreed.agreed_since_ms == machine.true_ms - NOON_MS


def test_a_leap_of_all_wall_clocks_that_ends_in_time_leaves_nothing_behind() -> None:
    machine = Machine()
    for leap_ms in (LEAP_MS, 0, LEAP_MS):
        machine.own_ahead_ms = machine.controller_ahead_ms = leap_ms
        machine.live(SETTLED_MS - 60_000, interval_ms=10_000)
        assert machine.expiry_late_ms == (None if leap_ms else 0)


@pytest.mark.parametrize("leap_ms", [LEAP_MS, -LEAP_MS])
def test_a_process_that_starts_with_a_wrong_clock_waits_until_it_is_set(leap_ms: int) -> None:
    machine = Machine(own_ahead_ms=leap_ms)
    machine.live(SETTLED_MS + 20_000, interval_ms=10_000)
    assert (machine.expiry_late_ms, machine.agreed.agreed_since_ms) == (None, None)
    assert machine.leap == ClockLeap(ahead_of_controller_ms=leap_ms)
    assert machine.stamp_ahead_ms == max(0, leap_ms)  # the later: nobody knows which is right
    machine.own_ahead_ms = 0
    machine.hear()
    assert (machine.expiry_late_ms, machine.stamp_ahead_ms, machine.leap) == (0, 0, None)


def test_before_the_controller_is_heard_and_while_it_is_away_nothing_expires() -> None:
    agreed = AgreedTime()
    assert agreed.expiry_ms(wall_ms=NOON_MS, mono_ms=0) is None
    assert agreed.leap(wall_ms=NOON_MS, mono_ms=0) is None
    assert agreed.stamp_ms(wall_ms=NOON_MS, mono_ms=0) == NOON_MS
    machine = Machine()
    machine.true_ms += READING_MS_MAX
    assert machine.expiry_late_ms == 0
    machine.true_ms += 1
    assert machine.expiry_late_ms is None
    machine.own_ahead_ms = LEAP_MS  # the time that has passed still refutes it
    assert (machine.stamp_ahead_ms, machine.expiry_late_ms) == (0, None)


def test_the_elapsed_time_follows_clocks_that_are_slewed_and_outruns_one_that_runs_away() -> None:
    slewed = Machine()
    for _ in range(24 * 60):
        slewed.own_ahead_ms += 30  # one in 2 000, for a day
        slewed.controller_ahead_ms += 30
        slewed.live(60_000, interval_ms=10_000)
    assert (slewed.leap, slewed.stamp_ahead_ms) == (None, slewed.own_ahead_ms)
    assert slewed.expiry_late_ms is not None and abs(slewed.expiry_late_ms + slewed.own_ahead_ms) < 1_000
    running = Machine()
    for _ in range(6):
        running.own_ahead_ms += 60_000  # twice as fast as it should
        running.controller_ahead_ms += 60_000
        running.live(60_000, interval_ms=10_000)
    assert running.leap is not None and running.expiry_late_ms is None


def test_clocks_never_expire_anything_early_while_one_of_them_is_right() -> None:
    steps = (0, LEAP_MS_MIN, -LEAP_MS_MIN, LEAP_MS, -LEAP_MS)
    for own_ms in steps:
        for controller_ms in steps:
            machine = Machine()
            machine.live(20_000)
            machine.own_ahead_ms, machine.controller_ahead_ms = own_ms, controller_ms
            machine.live(20_000)
            late_ms = machine.expiry_late_ms
            slewed_ms = 20_000 // SLEWED_ONE_IN
            assert late_ms is None or late_ms >= -slewed_ms, (own_ms, controller_ms)


def test_an_answer_that_waited_while_somebody_slept_tells_nothing() -> None:
    machine = Machine()
    machine.true_ms += 3_600_000
    machine.hear(round_trip_ms=3_600_000)
    assert (machine.leap, machine.expiry_late_ms) == (None, None)
    machine.hear(round_trip_ms=READING_MS_MAX)
    assert (machine.leap, machine.expiry_late_ms) == (None, READING_MS_MAX)
