"""A command of a client, run to its end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

SECONDS_MAX = 60.0


class CommandFailed(RuntimeError):
    """The command did not end, or with another status than 0; the message is what it printed as an error."""


def run(command: Sequence[str], *, given: str = "", failure: str = "") -> str:
    """Return what the command printed; raise CommandFailed. failure: a word on standard error which tells
    that it failed, for a command whose status is 0 then, too."""
    try:
        ended = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"no end in {SECONDS_MAX:g} s") from None
    if ended.returncode:
        raise CommandFailed(ended.stderr.strip() or ended.stdout.strip() or f"exit {ended.returncode}")
    for line in ended.stderr.splitlines():
        if failure and failure in line:
            raise CommandFailed(line)
    return ended.stdout


def lines_to_write(count: int) -> str:
    """Return the records of rows.py, a line each, key and value with a tab between."""
    return "".join(f"k{number}\tvalue {number}\n" for number in range(count))


def records_of(printed: str) -> list[list[str]]:
    """Return key and value of each printed line."""
    return [line.split("\t", 1) for line in printed.splitlines() if "\t" in line]
