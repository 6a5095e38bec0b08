"""Reads a secret: never from an argument, which other users of the machine could see in its list of
processes."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Final, TextIO

from springtide.cli.call import UsageError

SECRET_CHARS_MAX: Final = 1_000


def read_secret(question: str, stdin: TextIO | None, *, ask: Callable[[str], str] = getpass.getpass) -> str:
    """Return what a person types, twice and unseen, if standard input is a terminal; else its first line.
    Raise UsageError if there is none, or the two differ."""
    if stdin is None:
        raise UsageError("there is no standard input to read a secret from")
    if stdin.isatty():
        secret = ask(f"{question}: ")
        if secret and ask(f"{question}, once more: ") != secret:
            raise UsageError("the two are not the same: nothing was sent")
    else:
        secret = stdin.readline(SECRET_CHARS_MAX + 2).rstrip("\r\n")
    if not 0 < len(secret) <= SECRET_CHARS_MAX:
        raise UsageError(f"a secret has 1 to {SECRET_CHARS_MAX} characters")
    return secret
