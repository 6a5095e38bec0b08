"""`subscribePattern`: a regular expression of Java, as Spark's Kafka source takes it, made Python's. Pure.

Most patterns mean the same in both. What is only written differently is translated: `\\Q...\\E`,
`(?<name>...)`, `\\k<name>`, `\\z`. What Python would read as something else without a word is refused, with
what to write instead: sets within sets, `{` that counts nothing, comments and groups that only Python has.
Whatever else Python does not know is refused as Python's own error.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

from pipeline.errors import InvalidOption

#: The parts of a pattern that need a look, longest first; `set`: the brackets of a set begin.
_PART: Final = re.compile(
    r"""(?P<quote> \\Q (?P<quoted> .*?) (?: \\E | \Z) )
      | (?P<named> \(\?< (?=[A-Za-z]) )
      | (?P<back> \\k< (?P<name> [A-Za-z][A-Za-z0-9]*) > )
      | (?P<end> \\z )
      | (?P<escaped> \\ (?: [pPNx]\{ [^}]* \} | . ) )
      | (?P<pythons> \(\?[PaLx\#] )
      | (?P<count> \{ \d+ (?: , \d*)? \} )
      | (?P<brace> \{ )
      | (?P<set> \[ \^? \]? )
      | (?P<intersection> && )
      | (?P<close> \] )
      | (?P<other> . )""",
    re.VERBOSE | re.DOTALL,
)


def pattern_of_java(value: str) -> str:
    """Return what `re.fullmatch` takes for the names that Java's `matches` takes. Raises InvalidOption."""
    given = value.strip()
    if not given:
        raise InvalidOption("option 'subscribePattern' is empty")
    try:
        translated = _translated(given)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(translated)
    except (ValueError, re.error, Warning, RecursionError, OverflowError) as error:
        raise InvalidOption(
            f"option 'subscribePattern': {given!r} is not understood: {error}. It is a regular expression "
            "of Java, for the whole name, of which Python's 're' must know every part"
        ) from error
    return translated


def _translated(given: str) -> str:
    """Raises ValueError for what means something else in Python."""
    parts: list[str] = []
    in_set = False
    for part in _PART.finditer(given):
        text = part[0]
        match part.lastgroup:
            case "quote":
                text = re.escape(part["quoted"])
            case "set" if in_set:
                raise ValueError(f"a set within a set at {part.start()}: write one set, or '\\[' for a '['")
            case "set":
                in_set = True
            case "close":
                in_set = False
            case "intersection" if in_set:
                raise ValueError(f"an intersection of sets at {part.start()}: write one set")
            case "named":
                text = "(?P<"
            case "back":
                text = f"(?P={part['name']})"
            case "end":
                text = r"\Z"
            case "pythons":
                raise ValueError(f"{text!r} at {part.start()} is not Java's, or is read differently here")
            case "brace" if not in_set:
                raise ValueError(f"a '{{' at {part.start()} that counts nothing: write '\\{{' for itself")
            case _:
                pass
        parts.append(text)
    return "".join(parts)
