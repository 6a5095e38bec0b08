"""Where answers and errors go: JSON as it came, tables as text, notes and errors beside them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TextIO

ERASE_LINE = "\r\x1b[K"


class Console:
    """is_json: answers are printed as they came. columns: of the terminal that `out` is, or None."""

    def __init__(
        self, out: io.TextIOWrapper, err: TextIO, *, is_json: bool = False, columns: int | None = None
    ) -> None:
        self._out = out
        self._err = err
        self.is_json = is_json
        self.columns = columns
        self._is_drawn = False

    def lines(self, lines: Iterable[str]) -> None:
        self._undraw()
        for line in lines:
            self._out.write(line + "\n")
        self._out.flush()

    def raw(self, *parts: bytes) -> None:
        """Bytes of JSON, which is UTF-8 whatever the terminal's encoding."""
        self._out.flush()
        for part in parts:
            self._out.buffer.write(part)
        self._out.buffer.flush()

    def redraw(self, line: str) -> None:
        """Replaces the terminal's last line; an empty one takes it away."""
        self._out.write(ERASE_LINE + line)
        self._out.flush()
        self._is_drawn = bool(line)

    def _undraw(self) -> None:
        if self._is_drawn:
            self.redraw("")

    def note(self, line: str) -> None:
        """Beside the answer: for people, not for what reads the answer."""
        self._undraw()
        self._err.write(line + "\n")
        self._err.flush()

    def fail(self, lines: Iterable[str]) -> None:
        first, *rest = lines
        for line in (f"springtide: {first}", *rest):
            self.note(line)

    def fail_raw(self, body: bytes) -> None:
        self.note(body.decode("utf-8", "replace").rstrip("\n"))
