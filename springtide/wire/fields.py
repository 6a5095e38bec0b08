"""The facts of a message's fields: their types on the wire, and in which versions they are there.

The classes in `messages/` state them in their annotations, once for all versions:

    topic_id: Annotated[Uuid, In(10)] = None

is an id that versions from 10 on have. A field's default is what a version without it is read as. Durations
and times are integers of milliseconds, and end in `_ms` where Kafka's names do.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, TypeAlias
from uuid import UUID

import msgspec

from .apis import ApiKey
from .errors import ErrorCode


class Wire(NamedTuple):
    """A type of the protocol. layout: what `struct` calls it, "" for one without a fixed size."""

    kind: str
    layout: str = ""


class In(NamedTuple):
    """The versions that have a field, both ends included. tag: None where it stands in its place.
    null_since: the first version that has null for it, where its type has."""

    since: int = 0
    until: int | None = None
    tag: int | None = None
    null_since: int = 0

    def has(self, version: int) -> bool:
        """Return whether the version has the field."""
        return self.since <= version and (self.until is None or version <= self.until)


Bool: TypeAlias = Annotated[bool, Wire("bool", "?")]
Int8: TypeAlias = Annotated[int, Wire("int8", "b")]
Int16: TypeAlias = Annotated[int, Wire("int16", "h")]
UInt16: TypeAlias = Annotated[int, Wire("uint16", "H")]
Int32: TypeAlias = Annotated[int, Wire("int32", "i")]
Int64: TypeAlias = Annotated[int, Wire("int64", "q")]
Float64: TypeAlias = Annotated[float, Wire("float64", "d")]
Error: TypeAlias = Annotated[ErrorCode, Wire("error", "h")]
Uuid: TypeAlias = Annotated[UUID | None, Wire("uuid", "16s")]
"""None is the zero id."""
String: TypeAlias = Annotated[str, Wire("string")]
NullableString: TypeAlias = Annotated[str | None, Wire("string")]
Bytes: TypeAlias = Annotated[bytes, Wire("bytes")]
NullableBytes: TypeAlias = Annotated[bytes | None, Wire("bytes")]


class MessagePart(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the protocol, or a part of one, free of versions."""


class ApiMessage(MessagePart, frozen=True, kw_only=True):
    """A whole request or answer."""

    API: ClassVar[ApiKey]


class RequestMessage(ApiMessage, frozen=True, kw_only=True):
    """A whole request."""


class ResponseMessage(ApiMessage, frozen=True, kw_only=True):
    """A whole answer."""
