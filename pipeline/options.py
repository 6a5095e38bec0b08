"""Options as Spark gives them to the source and the sink: names in any case, values as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

from pipeline.client.config import CLIENT_PREFIX, ClientConfig, client_config
from pipeline.client.errors import InvalidClientOption
from pipeline.errors import InvalidOption

T = TypeVar("T", bound=Enum)
NO_JAAS = (
    "Spark shows options, and redacts only those whose names show that they are secret: give "
    "'kafka.sasl.username' and 'kafka.sasl.password'"
)
_DURATION = re.compile(r"(\d{1,18})\s*([a-z]*)\Z")
_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def by_lower_name(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in given.items()}


def client_options(options: Mapping[str, str], refused: Mapping[str, str]) -> dict[str, str]:
    """Return the options of `kafka.*` without their prefix. Raises InvalidOption for one of `refused`, which
    gives the reasons."""
    ours = {
        name.removeprefix(CLIENT_PREFIX): value
        for name, value in options.items()
        if name.startswith(CLIENT_PREFIX)
    }
    for name, why in refused.items():
        if name in ours:
            raise InvalidOption(f"option 'kafka.{name}' is not supported: {why}")
    return ours


def client_of(ours: Mapping[str, str]) -> ClientConfig:
    """Return the config that `client_options` describe. Raises InvalidOption."""
    try:
        return client_config(ours)
    except InvalidClientOption as error:
        raise InvalidOption(str(error)) from error


def one_of(options: Mapping[str, str], name: str, kind: type[T], default: T) -> T:
    text = options.get(name.lower())
    if text is None:
        return default
    try:
        return kind(text.strip().lower())
    except ValueError:
        known = ", ".join(repr(member.value) for member in kind)
        raise InvalidOption(f"option '{name}' must be one of {known}, not {text!r}") from None


def boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise InvalidOption(f"option '{name}' must be 'true' or 'false', not {text!r}")


def positive(options: Mapping[str, str], name: str) -> int | None:
    return _parsed(options, name, int, "a positive whole number")


def duration_ms(options: Mapping[str, str], name: str, *, default: int) -> int:
    value = _parsed(options, name, _duration, "a time like 500ms, 30s, 15m or 1h")
    return default if value is None else value


def _duration(text: str) -> int:
    found = _DURATION.match(text.lower())
    if found is None or found[2] not in _UNITS_MS:
        raise ValueError
    return int(int(found[1]) * _UNITS_MS[found[2]])


def _parsed(options: Mapping[str, str], name: str, parse: Callable[[str], int], meaning: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = parse(text.strip())
    except ValueError:
        value = 0
    if not 0 < value < 2**63:
        raise InvalidOption(f"option '{name}' must be {meaning}, not {text!r}")
    return value
