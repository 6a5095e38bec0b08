"""The time of day, for uses where a wrong answer destroys something. Pure.

Three clocks are asked, and no two of them fail together unless a machine, or the time that it is given, does:

    own      this machine's wall clock
    elapsed  the time when own and other first agreed, and what CLOCK_BOOTTIME counted since
    other    another machine's wall clock: to a broker the controller's, from its answers to heartbeats;
             to a controller ZooKeeper's, from the time of its own write

While they are within LEAP_MS_MIN of each other, what is deleted by time is deleted by the *smallest* of them:
too late is harmless. While they are not, or the other has not been heard, nothing is deleted by time,
and what is written is stamped with the time that two of them tell: the later one, if in doubt, because
a timestamp that is too old is a deletion later on.

The elapsed time follows a wall clock by no more than clocks are slewed. If own and other clock agree and
refute it, forward or back, it is set to them after SETTLED_MS: the time of all machines was set, or of the
only one. No clock decides what is committed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from springtide.contract.session import ClockLeap

LEAP_MS_MIN: Final = 5 * 60 * 1000
"""Clocks further apart than this disagree. Leases and NTP bound what is in order far below."""
READING_MS_MAX: Final = 30_000
"""The time for which the other clock counts as heard, and the longest that an answer may take."""
SETTLED_MS: Final = 24 * 60 * 60 * 1000
SLEWED_ONE_IN: Final = 1_000
"""The elapsed time follows a wall clock by one part in this many at most; NTP slews one in 2 000 at most."""
SLEW_INTERVAL_MS: Final = 10_000


class _Reading(NamedTuple):
    """The time that a clock showed, and that of our monotonic clock then."""

    wall_ms: int
    mono_ms: int

    def at(self, mono_ms: int) -> int:
        return self.wall_ms + mono_ms - self.mono_ms


class AgreedTime:
    """All `wall_ms` and `mono_ms` are read by the caller, from one machine, in one moment."""

    __slots__ = ("_elapsed", "_other", "_refuted_since_ms", "agreed_since_ms")

    def __init__(self) -> None:
        self._other: _Reading | None = None
        self._elapsed: _Reading | None = None
        self._refuted_since_ms: int | None = None
        #: Monotonic: since when the elapsed time is counted; None: the clocks have not agreed yet.
        self.agreed_since_ms: int | None = None

    def on_reading(self, other_wall_ms: int, *, sent_ms: int, wall_ms: int, mono_ms: int) -> None:
        """An answer told the other clock. It was read somewhat earlier, so it seems behind: by the
        round trip at most, and one that lasted long, because a machine slept, tells nothing. sent_ms:
        monotonic."""
        if mono_ms - sent_ms > READING_MS_MAX:
            return
        other = self._other = _Reading(other_wall_ms, mono_ms)
        elapsed = self._elapsed
        if _are_apart(wall_ms, other.wall_ms):
            self._refuted_since_ms = None
        elif elapsed is None:
            self._agree(min(wall_ms, other_wall_ms), mono_ms)
        elif not _are_apart(wall_ms, elapsed.at(mono_ms)):
            self._refuted_since_ms = None
            self._slew(elapsed, wall_ms, mono_ms)
        elif self._refuted_since_ms is None:
            self._refuted_since_ms = mono_ms
        elif mono_ms - self._refuted_since_ms >= SETTLED_MS:
            self._agree(min(wall_ms, other_wall_ms), mono_ms)

    def _agree(self, wall_ms: int, mono_ms: int) -> None:
        self._elapsed = _Reading(wall_ms, mono_ms)
        self._refuted_since_ms = None
        self.agreed_since_ms = mono_ms

    def _slew(self, elapsed: _Reading, wall_ms: int, mono_ms: int) -> None:
        since_ms = mono_ms - elapsed.mono_ms
        if since_ms >= SLEW_INTERVAL_MS:
            step_ms = since_ms // SLEWED_ONE_IN
            expected_ms = elapsed.at(mono_ms)
            self._elapsed = _Reading(min(max(wall_ms, expected_ms - step_ms), expected_ms + step_ms), mono_ms)

    def expiry_ms(self, *, wall_ms: int, mono_ms: int) -> int | None:
        """Return the time up to which things have expired; None if nothing is known to have expired."""
        if self._elapsed is None or not self._is_heard(mono_ms):
            return None
        clocks = self._clocks(wall_ms, mono_ms)
        return None if _are_apart(min(clocks), max(clocks)) else min(clocks)

    def stamp_ms(self, *, wall_ms: int, mono_ms: int) -> int:
        """Return the time for what is written now: the own clock's, unless other clocks refute it."""
        elapsed = self._elapsed
        if elapsed is not None and not _are_apart(wall_ms, elapsed.at(mono_ms)):
            return wall_ms
        clocks = self._clocks(wall_ms, mono_ms)
        if elapsed is None:
            best_ms = max(clocks)
        else:
            middle_ms = sorted(clocks)[1] if len(clocks) > 2 else elapsed.at(mono_ms)
            best_ms = max(elapsed.at(mono_ms), middle_ms)
        return best_ms if _are_apart(wall_ms, best_ms) else wall_ms

    def leap(self, *, wall_ms: int, mono_ms: int) -> ClockLeap | None:
        """Return how far the clocks disagree; None if they agree, or there is nothing to compare with."""
        other = self._other
        if other is None:
            return None
        other_ms = other.at(mono_ms)
        if self._elapsed is None:
            if not _are_apart(wall_ms, other_ms):
                return None
            return ClockLeap(ahead_of_controller_ms=wall_ms - other_ms)
        elapsed_ms = self._elapsed.at(mono_ms)
        clocks = (wall_ms, elapsed_ms, other_ms)
        if not _are_apart(min(clocks), max(clocks)):
            return None
        return ClockLeap(ahead_of_controller_ms=wall_ms - other_ms, ahead_of_elapsed_ms=wall_ms - elapsed_ms)

    def _is_heard(self, mono_ms: int) -> bool:
        return self._other is not None and mono_ms - self._other.mono_ms <= READING_MS_MAX

    def _clocks(self, wall_ms: int, mono_ms: int) -> list[int]:
        known = [reading.at(mono_ms) for reading in (self._elapsed, self._other) if reading is not None]
        return [wall_ms, *known]


def _are_apart(one_ms: int, other_ms: int) -> bool:
    return abs(one_ms - other_ms) > LEAP_MS_MIN
