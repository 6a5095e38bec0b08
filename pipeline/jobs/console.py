"""Where results and progress go: results to standard output, all else to standard error.

On a terminal progress is one line that is drawn over; in a file or a container's log, a line now and then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TextIO

from springtide.cli.console import ERASE_LINE
from springtide.cli.progress import bar

PROG: Final = "pipeline"
LOG_SECONDS: Final = 10.0
DRAW_SECONDS: Final = 0.1


class Console:
    """is_json: the result is printed as JSON. columns: of the terminal that `err` is, or None."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        is_json: bool = False,
        columns: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._err = err
        self.is_json = is_json
        self._columns = columns
        self._now = now
        self._is_drawn = False
        self._shown_at = -LOG_SECONDS

    def result(self, result: Mapping[str, Any], lines: Iterable[str]) -> None:
        self._undraw()
        if self.is_json:
            self._out.write(json.dumps(result, default=str, ensure_ascii=False) + "\n")
        else:
            for line in lines:
                self._out.write(line + "\n")
        self._out.flush()

    def note(self, line: str) -> None:
        self._undraw()
        self._err.write(line + "\n")
        self._err.flush()

    def fail(self, message: str, advice: str = "") -> None:
        self.note(f"{PROG}: {message}")
        if advice:
            self.note(advice)

    def progress(self, done: int, total: int, words: str) -> None:
        """total 0: not known yet."""
        now = self._now()
        pause = LOG_SECONDS if self._columns is None else DRAW_SECONDS
        if now - self._shown_at < pause and done < total:
            return
        self._shown_at = now
        percent = f"{100 * done // total:3d} %" if total > 0 else "  - %"
        if self._columns is None:
            self.note(f"{percent}  {words}")
            return
        line = f"{bar(done, total)} {percent}  {words}"[: max(0, self._columns - 1)]
        self._err.write(ERASE_LINE + line)
        self._err.flush()
        self._is_drawn = True

    def _undraw(self) -> None:
        if self._is_drawn:
            self._err.write(ERASE_LINE)
            self._is_drawn = False
