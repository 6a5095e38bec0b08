"""Random messages: of kio's classes, by their annotations, and of ours, as kio's of the same version."""

from __future__ import annotations

import dataclasses
import datetime
import random
import typing
import uuid
from types import NoneType, UnionType
from typing import Any

from kio.schema.errors import ErrorCode

from springtide.wire.codec import version_of
from springtide.wire.fields import ApiMessage, RequestMessage
from tests.kit.springtide.wire_classes import request_of, response_of
from tests.kit.springtide.wire_messages import as_ours

_RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXTS = ["", "a", "topic-1", "жук", "x" * 200, "\N{ROCKET}" * 3]
_BYTES = [b"", b"\0", b"r" * 61, bytes(range(256)) * 2]


def random_message(message_type: type[Any], rng: random.Random) -> Any:
    """Return an instance with every field drawn, empty and null ones, extremes and defaults among them.

    message_type: a class of kio's, or one of ours in a version, as `codec.request_type` returns it."""
    if issubclass(message_type, ApiMessage):
        version_type = request_of if issubclass(message_type, RequestMessage) else response_of
        kios = version_type(message_type.API, version_of(message_type))
        return as_ours(random_message(kios, rng), message_type)
    values = {}
    for field in dataclasses.fields(message_type):
        if field.default is not dataclasses.MISSING and rng.random() < 0.3:
            continue
        values[field.name] = _value(field.type, field, rng)
    return message_type(**values)


def _value(declared: Any, field: dataclasses.Field[Any], rng: random.Random) -> Any:
    origin = typing.get_origin(declared)
    if origin is UnionType:
        # A tagged field says null by its absence; kio can't write one otherwise.
        if rng.random() < 0.3 and "tag" not in field.metadata:
            return None
        (declared,) = (part for part in typing.get_args(declared) if part is not NoneType)
        return _value(declared, field, rng)
    if origin is tuple:
        item = typing.get_args(declared)[0]
        return tuple(_value(item, field, rng) for _ in range(rng.choice([0, 1, 1, 2, 5])))
    if dataclasses.is_dataclass(declared):
        return random_message(typing.cast(type[Any], declared), rng)
    return _primitive(field.metadata["kafka_type"], rng)


def _primitive(kafka_type: str, rng: random.Random) -> Any:
    if kafka_type in _RANGES:
        bits = _RANGES[kafka_type]
        return rng.choice([0, 1, -1, 2**bits - 1, -(2**bits), rng.randrange(-(2**bits), 2**bits)])
    match kafka_type:
        case "uint16":
            return rng.choice([0, 9092, 65535])
        case "float64":
            return rng.choice([0.0, 1.5, -2.25])
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(_TEXTS)
        case "bytes" | "records":
            return rng.choice(_BYTES)
        case "uuid":
            return uuid.UUID(int=rng.getrandbits(128) | 1)
        case "error_code":
            return rng.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=rng.choice([0, 1, 2**31 - 1, -(2**31)]))
        case "datetime_i64":
            return datetime.datetime(2026, 1, 1, 12, 0, 0, 123000, tzinfo=datetime.UTC)
        case _:
            raise AssertionError(kafka_type)
