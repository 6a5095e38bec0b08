"""The classes of the protocol's messages by API, and kio's messages as ours."""

from __future__ import annotations

import dataclasses
import datetime
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fields import MessagePart, RequestMessage, ResponseMessage
from tests.kit.springtide.wire_classes import our_name

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


def request_class(api_key: int) -> type[RequestMessage]:
    """Return our class of an API's request."""
    found: type[RequestMessage] = _of_module(api_key, "Request")
    return found


def response_class(api_key: int) -> type[ResponseMessage]:
    """Return our class of an API's answer."""
    found: type[ResponseMessage] = _of_module(api_key, "Response")
    return found


def _of_module(api_key: int, kind: str) -> Any:
    api = ApiKey(api_key)
    module = import_module(f"springtide.wire.messages.{api.name.lower()}")
    return getattr(module, f"{api.kafka_name}{kind}")


def as_ours(message: Any, ours: type[MessagePart]) -> MessagePart:
    """Return a message of kio's as one of ours."""
    hints = get_type_hints(ours)
    return ours(
        **{
            our_name(field): _value(getattr(message, field.name), hints[our_name(field)])
            for field in dataclasses.fields(message)
        }
    )


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
