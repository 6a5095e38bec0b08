"""The time of day in which an operation begins moves. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

_MINUTE_MS: Final = 60_000
_DAY_MINUTES: Final = 24 * 60


class DailyWindow(msgspec.Struct, frozen=True, kw_only=True):
    """start_minute, end_minute: of the day; at the end it is over. An end before the start is the next day's.
    offset_minutes: of the zone, ahead of UTC."""

    start_minute: int
    end_minute: int
    offset_minutes: int = 0

    def is_open(self, now_ms: int) -> bool:
        """Return whether moves may begin now. now_ms: wall clock."""
        minute = (now_ms // _MINUTE_MS + self.offset_minutes - self.start_minute) % _DAY_MINUTES
        return minute < (self.end_minute - self.start_minute) % _DAY_MINUTES

    def __str__(self) -> str:
        ahead = "-" if self.offset_minutes < 0 else "+"
        zone = f"UTC{ahead}{_clock(abs(self.offset_minutes))}" if self.offset_minutes else "UTC"
        return f"between {_clock(self.start_minute)} and {_clock(self.end_minute)} {zone}"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
