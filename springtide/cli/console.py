"""The output of the command line: results on standard output, notes and errors on standard error.

On a terminal progress is one line that is drawn over; in a file or a container's log, a line now and then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Final, TextIO

from springtide.cli.progress import bar

ERASE_LINE: Final = "\r\x1b[K"
LOG_SECONDS: Final = 10.0
DRAW_SECONDS: Final = 0.1


class Console:
    """name: of the program, before each error. is_json: results are printed as JSON. is_yaml: that JSON is
    printed as YAML. screen: where progress is drawn (`out` by default). columns: of the terminal that
    `screen` is, or None. width: that tables have to fit; None: any. person: where a person at the
    terminal `out` types, or None."""

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        name: str = "springtide",
        is_json: bool = False,
        is_yaml: bool = False,
        screen: TextIO | None = None,
        columns: int | None = None,
        width: int | None = None,
        person: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._out = out
        self._err = err
        self._name = name
        self._screen = out if screen is None else screen
        self.is_json = is_json
        self._is_yaml = is_yaml
        self._parts: list[bytes] = []
        self.columns = columns
        self.width = width
        self._person = person
        self._now = now
        self._is_drawn = False
        self._shown_at = -LOG_SECONDS

    def lines(self, lines: Iterable[str]) -> None:
        self._undraw()
        for line in lines:
            self._out.write(line + "\n")
        self._out.flush()

    def raw(self, *parts: bytes) -> None:
        """Print bytes of JSON, which is UTF-8 in any terminal's encoding. A newline ends a document; as YAML
        it is printed then."""
        if self._is_yaml:
            self._parts += parts
            if not parts[-1].endswith(b"\n"):
                return
            parts = (self.text_of(b"".join(self._parts)).encode(),)
            self._parts.clear()
        self._out.flush()
        for part in parts:
            self._out.buffer.write(part)
        self._out.buffer.flush()

    def text_of(self, document: bytes) -> str:
        """Return a document of JSON as it is printed."""
        if not self._is_yaml:
            return document.decode("utf-8", "replace")
        import yaml  # noqa: PLC0415 - no other output should wait for it

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        shown: str = yaml.dump(
            json.loads(document), Dumper=dumper, sort_keys=False, allow_unicode=True, explicit_start=True
        )
        return shown

    def redraw(self, line: str) -> None:
        """Replace the terminal's last line; an empty line removes it."""
        self._screen.write(ERASE_LINE + line)
        self._screen.flush()
        self._is_drawn = bool(line)

    def _undraw(self) -> None:
        if self._is_drawn:
            self.redraw("")

    def progress(self, done: int, total: int, words: str) -> None:
        """Show how far the work is, at most so often. total 0: not known yet."""
        now = self._now()
        pause = LOG_SECONDS if self.columns is None else DRAW_SECONDS
        if now - self._shown_at < pause and done < total:
            return
        self._shown_at = now
        percent = f"{100 * done // total:3d} %" if total > 0 else "  - %"
        if self.columns is None:
            self.note(f"{percent}  {words}")
        else:
            self.redraw(f"{bar(done, total)} {percent}  {words}"[: max(0, self.columns - 1)])

    def note(self, line: str) -> None:
        """Print a line for people, apart from the result."""
        self._undraw()
        self._err.write(line + "\n")
        self._err.flush()

    def agrees(self, question: str) -> bool:
        """Ask a person who is there; only `y` or `yes` is consent. Without a person, return True."""
        if self._person is None:
            return True
        self._out.write(f"{question} [y/N] ")  # the one place that is known to be a terminal
        self._out.flush()
        return self._person.readline().strip().lower() in ("y", "yes")

    def fail(self, error: str, *more: str) -> None:
        for line in (f"{self._name}: {error}", *more):
            self.note(line)
