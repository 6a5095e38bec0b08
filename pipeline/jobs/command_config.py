"""The file of `--command-config`: a client.properties, as Kafka's command line tools take it.

A secret that is in a file is in no list of processes, and messages about the file repeat none of its lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from springtide.cli.call import UsageError

FILE_CHARS_MAX: Final = 1_000_000


def read_command_config(path: Path) -> dict[str, str]:
    """Return the options of a file. Raises UsageError."""
    try:
        with path.open(encoding="utf-8") as opened:
            text = opened.read(FILE_CHARS_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--command-config: can't read {str(path)!r}: {type(error).__name__}") from error
    try:
        return parse_properties(text)
    except ValueError as error:
        raise UsageError(f"--command-config: {path}: {error}") from error


def parse_properties(text: str) -> dict[str, str]:
    """Return the pairs of lines `key=value`; the last one of a key counts. `#` and `!` begin comments, and a
    line continues after a backslash at its end. Other backslashes stay as they are. Raises ValueError, which
    tells the line's number."""
    pairs: dict[str, str] = {}
    held = ""
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        whole = held + line.strip()
        if whole.endswith("\\"):
            held = whole[:-1]
            continue
        held = ""
        if not whole or whole[0] in "#!":
            continue
        name, separator, value = whole.partition("=")
        if not separator or not name.strip():
            raise ValueError(f"line {number} is not KEY=VALUE")
        pairs[name.strip()] = value.strip()
    return pairs
