"""Plain messages for what a request's models refuse. The validation library's own are made for programmers:
they speak of inputs and show regular expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: What is said of an error without an entry.
FALLBACK: Final = "is not what is wanted here"

#: By the kind of error; in braces, a field of its context.
MESSAGES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "extra_forbidden": "there is no such field",
    "string_type": "must be a string",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_unicode": "must be text in UTF-8",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a whole number of 64 bits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be an array",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "too_short": "must have at least {min_length} items",
    "too_long": "must have at most {max_length} items",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "does not say which kind it is",
    "datetime_type": "must be RFC 3339, as in 2026-11-21T09:30:00Z",
    "datetime_parsing": "must be RFC 3339, as in 2026-11-21T09:30:00Z",
    "datetime_from_date_parsing": "must be RFC 3339, as in 2026-11-21T09:30:00Z",
}

#: By the pattern that does not fit.
PATTERNS: Final[Mapping[str, str]] = {
    r"^[0-9]{1,10}-[0-9]{1,19}(\.[0-9]{1,10}-[0-9]{1,19}){0,255}$": (
        "must be PARTITION-OFFSET, with dots between partitions, as in 0-1042.1-977"
    ),
    r"^[a-zA-Z0-9][a-zA-Z0-9._-]*$": (
        "must be letters, digits, '.', '_' and '-', and begin with a letter or a digit"
    ),
    r"^(\.{0,2}[a-zA-Z0-9_-][a-zA-Z0-9._-]*|\.{3}[a-zA-Z0-9._-]*)$": (
        "must be letters, digits, '.', '_' and '-', and neither '.' nor '..'"
    ),
    r"^([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$": "must be HOST:PORT, as in store4:9092",
    r"^(broker:[0-9]{1,10}|host:.{1,255}|rack:.{1,255})$": "must be broker:ID, host:NAME or rack:NAME",
    r"^([01][0-9]|2[0-3]):[0-5][0-9]$": "must be HH:MM, as in 22:00",
    r"^(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$": "must be Z or +HH:MM or -HH:MM, as in +01:00",
    r"^[a-z0-9.]+$": "must be small letters, digits and '.'",
    r"^[A-Za-z0-9_-]+$": "must be letters, digits, '_' and '-'",
    r"^[A-Za-z0-9_-]{1,64}$": "must be 1 to 64 letters, digits, '_' and '-'",
    r"^[A-Za-z0-9._/-]{1,63}$": "must be 1 to 63 letters, digits, '.', '_', '/' and '-'",
    r"^[A-Za-z0-9._@+-]+$": "must be letters, digits, '.', '_', '@', '+' and '-'",
    r"^[!-~]+$": "must be visible ASCII characters without blanks",
    r"^[a-z][a-z0-9_-]{0,63}$": (
        "must be 1 to 64 small letters, digits, '_' and '-', and begin with a letter"
    ),
    r"^[a-z][a-z0-9_]{0,63}$": "must be 1 to 64 small letters, digits and '_', and begin with a letter",
    r"^[a-z0-9_]{1,64}$": "must be 1 to 64 small letters, digits and '_'",
    r"^[a-z_]{1,64}$": "must be 1 to 64 small letters and '_'",
    r"^[0-9]{1,18}$": "must be 1 to 18 digits",
    r"^(0|[1-9][0-9]{0,8})$": "must be an id: a whole number without leading zeros",
}


def plain_message(error: Mapping[str, Any]) -> str:
    """Return the words for one of the library's errors: its `type`, its `ctx`, and of a rule of ours its
    `msg`."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        return PATTERNS.get(context.get("pattern", ""), FALLBACK)
    return MESSAGES.get(kind, FALLBACK).format_map(context)
