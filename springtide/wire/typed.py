"""The messages of the protocol as classes: read from untrusted bytes, and written, in any version.

Produce and Fetch have codecs of their own (produce.py, fetch_request.py, fetch_response.py), for the records
in them; tests hold them against this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, TypeVar

from .apis import APIS
from .compiler import Compiled, compiled, fields_of
from .compression import Buffer
from .fields import ApiMessage, MessagePart
from .primitives import REQUEST_ELEMENTS_MAX, OnRest, read_whole

M = TypeVar("M", bound=ApiMessage)


def read_message(
    message_type: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    elements_max: int = REQUEST_ELEMENTS_MAX,
    on_rest: OnRest | None = None,
) -> M:
    """Return the message of a version that fills `buffer` from `position` on. Raise MalformedRequest, nothing
    else.

    on_rest: see Reader.finish. What the version lacks has its default. An error code that Kafka 4.4 does not
    know becomes UNKNOWN_SERVER_ERROR; zero UUIDs become None.
    """
    whole: type[ApiMessage] = message_type
    read = _compiled(whole, version).read
    message: M = read_whole(read, buffer, position, elements_max=elements_max, on_rest=on_rest)
    return message


def write_message(message: ApiMessage, version: int) -> bytes:
    """Return the bytes of a message in a version; what the version lacks is left out. Values are trusted: a
    wrong type or range raises any exception."""
    out = bytearray()
    _compiled(type(message), version).write(out, message)
    return bytes(out)


@cache
def _compiled(message_type: type[ApiMessage], version: int) -> Compiled:
    return compiled(message_type, version, is_flexible=APIS[message_type.API].is_flexible(version))


def error_codes(message: ApiMessage, version: int) -> Iterator[int]:
    """Yield the error codes that a message has in a version, in any depth, but those that say NONE.

    Level by level, not message by message, so that the answer without an error, which may have ten thousand
    partitions, is passed over in C.
    """
    return _error_codes(type(message), version, (message,))


def _error_codes(
    message_type: type[MessagePart], version: int, messages: Collection[MessagePart]
) -> Iterator[int]:
    for get, is_array, nested in _errors_in(message_type, version):
        found = filter(None, map(get, messages))
        if nested is None:
            yield from map(int, found)
        elif inside := tuple(chain.from_iterable(found) if is_array else found):
            yield from _error_codes(nested, version, inside)


@cache
def _errors_in(
    message_type: type[MessagePart], version: int
) -> tuple[tuple[attrgetter[Any], bool, type[MessagePart] | None], ...]:
    """Return (getter, whether there are several, nested class) of the fields that are an error code, or may
    have one inside."""
    return tuple(
        (attrgetter(field.name), field.is_array, field.nested)
        for field in fields_of(message_type, version)
        if (_errors_in(field.nested, version) if field.nested is not None else field.wire.kind == "error")
    )
