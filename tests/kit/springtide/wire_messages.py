"""kio's messages as ours, and values that fit a message among values for many."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from springtide.wire.compiler import fields_of
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fields import MessagePart
from tests.kit.springtide.wire_classes import our_name

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def as_ours(message: Any, ours: type[MessagePart]) -> MessagePart:
    """Return a message of kio's as one of ours."""
    hints = get_type_hints(ours)
    return ours(
        **{
            our_name(field): _value(getattr(message, field.name), hints[our_name(field)])
            for field in dataclasses.fields(message)
        }
    )


def fitting(fields: Mapping[str, Any], ours: type[MessagePart], version: int) -> dict[str, Any]:
    """Return those of the fields that the class has, and so in each part."""
    by_name = {field.name: field for field in fields_of(ours, version)}
    found = {}
    for name, value in fields.items():
        if name in by_name:
            nested = by_name[name].nested
            found[name] = value if nested is None else _fitting(value, nested, version)
    return found


def _fitting(value: Any, nested: type[MessagePart], version: int) -> Any:
    if isinstance(value, Mapping):
        return fitting(value, nested, version)
    return [_fitting(one, nested, version) for one in value] if isinstance(value, list | tuple) else value


def _value(value: Any, hint: Any) -> Any:
    match value:
        case tuple():
            (item, *_) = [part for part in (hint, *get_args(hint)) if get_origin(part) is tuple]
            return tuple(_value(one, get_args(item)[0]) for one in value)
        case datetime.timedelta():
            return value // _MILLISECOND
        case datetime.datetime():
            return (value - _EPOCH) // _MILLISECOND
        case None if hint is int:  # a time
            return -1
    if dataclasses.is_dataclass(value):
        classes = [part for part in (hint, *get_args(hint)) if isinstance(part, type)]
        (nested,) = [part for part in classes if issubclass(part, MessagePart)]
        return as_ours(value, nested)
    return error_code(value) if hint is ErrorCode else value
