"""Tells how far long work is: on stderr, every few seconds, with its rate and the time that is left."""

from __future__ import annotations

import sys
import time
from typing import Final

EVERY_S: Final = 2.0


class Teller:
    """Counts the steps of one piece of work. total: None: not known before its end."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._total = total
        self._began_s = self._told_s = time.monotonic()
        self.done = 0

    def advance(self, count: int = 1) -> None:
        self.done += count
        now_s = time.monotonic()
        if now_s - self._told_s >= EVERY_S:
            self._told_s = now_s
            self._tell(now_s)

    def finish(self) -> None:
        self._tell(time.monotonic())

    def _tell(self, now_s: float) -> None:
        rate = self.done / max(now_s - self._began_s, 0.001)
        of = f" of {self._total:,}" if self._total is not None else ""
        left = ""
        if self._total is not None and self.done < self._total and rate > 0:
            left = f", {(self._total - self.done) / rate:,.0f} s left"
        print(f"{self._what}: {self.done:,}{of}, {rate:,.0f}/s{left}", file=sys.stderr)
