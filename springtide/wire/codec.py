"""The general codec: any message of the protocol, compiled from its definition, bounded on the way in.

kio ships Kafka's message definitions as dataclasses, one per API, version and direction, whose field
metadata names the wire type. This module turns such a class, once, into a list of steps, and runs them. It
uses kio's classes only: kio 0.6.5's own decoder believes claimed array lengths and aborts the process on
eleven hostile bytes.

Neighbouring fixed-size fields become one struct call, int32 arrays another; an element count must fit into
the remaining bytes at the least size its element can have. Schemas do not recurse, so nesting is bounded by
the definitions and `_NESTING_MAX` states it.

Produce and Fetch have codecs of their own (produce.py, fetch_request.py, fetch_response.py); tests hold them
against this one.
"""

from __future__ import annotations

import dataclasses
import datetime
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as SchemaErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from .compression import Buffer
from .list_offsets_v0 import OldListOffsetsRequest, OldListOffsetsResponse
from .primitives import (
    REQUEST_ELEMENTS_MAX,
    MalformedRequest,
    OnRest,
    Reader,
    read_whole,
    uuid_bytes,
    write_bytes,
    write_count,
    write_string,
    write_uvarint,
)

_NESTING_MAX = 8
_BEFORE_KIO = (2, 0)
"""ListOffsets v0 (list_offsets_v0.py): kio has no definitions that Kafka 4 dropped."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_ENTITY_NULL = -1
_ENTITY_PRESENT = 1


class Message(Protocol):
    """The common part of kio's dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    __flexible__: ClassVar[bool]


M = TypeVar("M", bound=Message)
SetField = Callable[[object, object], None]
Decode = Callable[[Reader], Any]
Encode = Callable[[bytearray, Any], None]


@cache
def request_type(api_key: int, api_version: int) -> type[RequestPayload]:
    """Return kio's class of a request, e.g. (3, 12) -> kio.schema.metadata.v12.request.MetadataRequest."""
    if (api_key, api_version) == _BEFORE_KIO:
        return OldListOffsetsRequest
    return load_request_schema(api_key, api_version)


@cache
def response_type(api_key: int, api_version: int) -> type[ResponsePayload]:
    if (api_key, api_version) == _BEFORE_KIO:
        return OldListOffsetsResponse
    return load_response_schema(api_key, api_version)


def decode(
    message_type: type[M],
    buffer: Buffer,
    position: int = 0,
    *,
    elements_max: int = REQUEST_ELEMENTS_MAX,
    on_rest: OnRest | None = None,
) -> M:
    """Return the message that fills `buffer` from `position` on. Raise MalformedRequest, nothing else.

    on_rest: see Reader.finish. An error code that kio does not know becomes unknown_server_error; zero UUIDs
    become None.
    """
    return cast(
        M,
        read_whole(_codec(message_type).decode, buffer, position, elements_max=elements_max, on_rest=on_rest),
    )


def encode(message: Message) -> bytes:
    """Return the bytes of a message. Values are trusted: a wrong type or range raises any exception.

    Durations and times may also be given as integer milliseconds.
    """
    out = bytearray()
    _codec(type(message)).encode(out, message)
    return bytes(out)


def build(message_type: type[M], source: Mapping[str, object] | Message) -> M:
    """Return a message of one version from values for any, so that a handler knows only one version.

    `source` is a mapping of field names, or a message of another version; nested messages are mappings or
    messages too. A field that `message_type` lacks is dropped; one that `source` lacks gets the definition's
    default, or zero, empty or null by its type.
    """
    getter = source.get if isinstance(source, Mapping) else _attribute_getter(source)
    message = object.__new__(message_type)
    for name, set_field, nested, is_array, default in _shape(message_type):
        value = getter(name, _ABSENT)
        if value is _ABSENT:
            value = default
        elif nested is not None and value is not None:
            if is_array:
                value = tuple([_as_type(nested, item) for item in cast(Iterable[Message], value)])
            else:
                value = _as_type(nested, cast(Mapping[str, object], value))
        set_field(message, value)
    return message


_ABSENT = object()


def _attribute_getter(source: object) -> Callable[[str, object], object]:
    return lambda name, default: getattr(source, name, default)


def _as_type(nested: type[Message], item: Mapping[str, object] | Message) -> Message:
    return item if isinstance(item, nested) else build(nested, item)


def error_codes(message: Message) -> Iterator[int]:
    """Yield the error codes in a message, in any depth, but those that say NONE.

    Level by level, not message by message, so that the answer without an error, which may have ten thousand
    partitions, is passed over in C.
    """
    return _error_codes(type(message), (message,))


def _error_codes(message_type: type[Message], messages: Collection[Message]) -> Iterator[int]:
    for get, is_array, nested in _errors_in(message_type):
        found = filter(None, map(get, messages))
        if nested is None:
            yield from map(int, found)
        elif inside := tuple(chain.from_iterable(found) if is_array else found):
            yield from _error_codes(nested, inside)


# --- what a field is -------------------------------------------------------------------------------


class _Field(NamedTuple):
    name: str
    kafka_type: str  # "" for a nested message
    nested: type[Message] | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object  # dataclasses.MISSING if the definition has none


def _field_of(field: dataclasses.Field[Any]) -> _Field:
    declared: Any = field.type
    is_nullable = False
    if get_origin(declared) is UnionType:
        is_nullable = NoneType in get_args(declared)
        (declared,) = (part for part in get_args(declared) if part is not NoneType)
    is_array = get_origin(declared) is tuple
    if is_array:
        declared = get_args(declared)[0]
        if get_origin(declared) is UnionType:  # tuple[UUID | None, ...]: only ids are
            (declared,) = (part for part in get_args(declared) if part is not NoneType)
    is_message = dataclasses.is_dataclass(declared)
    return _Field(
        name=field.name,
        kafka_type="" if is_message else field.metadata["kafka_type"],
        nested=cast("type[Message]", declared) if is_message else None,
        is_array=is_array,
        is_nullable=is_nullable,
        tag=field.metadata.get("tag"),
        default=field.default,
    )


@cache
def _errors_in(message_type: type[Message]) -> tuple[tuple[attrgetter[Any], bool, type[Message] | None], ...]:
    """Return (getter, whether there are several, nested message type) of the fields that are an error code,
    or may have one inside."""
    return tuple(
        (attrgetter(field.name), field.is_array, field.nested)
        for field in map(_field_of, dataclasses.fields(message_type))
        if (_errors_in(field.nested) if field.nested is not None else field.kafka_type == "error_code")
    )


@cache
def _shape(
    message_type: type[Message],
) -> tuple[tuple[str, SetField, type[Message] | None, bool, object], ...]:
    """Return (name, setter, nested message type, whether there are several, default) per field, for
    `build`."""
    fields = (_field_of(field) for field in dataclasses.fields(message_type))
    return tuple(
        (field.name, _setter(message_type, field), field.nested, field.is_array, _default_of(field))
        for field in fields
    )


def _default_of(field: _Field) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.is_nullable:
        return None
    if field.is_array:
        return ()
    if field.nested is not None:
        return build(field.nested, {})
    return _implicit_default(field.kafka_type)


def _implicit_default(kafka_type: str) -> object:
    match kafka_type:
        case "string":
            return ""
        case "bytes" | "records":
            return b""
        case _:
            fixed = _FIXED[kafka_type]
            return fixed.from_wire(*struct.unpack(f">{fixed.layout}", bytes(fixed.size_bytes)))


# --- fixed-size types ------------------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _error_code(value: int) -> SchemaErrorCode:
    try:
        return SchemaErrorCode(value)
    except ValueError:  # of a release after kio's
        return SchemaErrorCode.unknown_server_error


def _milliseconds(value: datetime.timedelta | int) -> int:
    return value if isinstance(value, int) else value // _MILLISECOND


def _timedelta(value: int) -> datetime.timedelta:
    try:
        return datetime.timedelta(milliseconds=value)
    except OverflowError:  # beyond 2.7 million years
        return datetime.timedelta.max if value > 0 else datetime.timedelta.min


def _datetime(value: int) -> datetime.datetime | None:
    return None if value == -1 else _EPOCH + datetime.timedelta(milliseconds=value)


def _timestamp(value: datetime.datetime | int | None) -> int:
    if isinstance(value, int):
        return value
    return -1 if value is None else (value - _EPOCH) // _MILLISECOND


def _uuid(value: bytes) -> object:
    return Reader(value).uuid()


class _Fixed(NamedTuple):
    layout: str
    size_bytes: int
    from_wire: Callable[[Any], Any] = _same
    to_wire: Callable[[Any], Any] = _same


_FIXED: dict[str, _Fixed] = {
    "bool": _Fixed("?", 1),
    "int8": _Fixed("b", 1),
    "int16": _Fixed("h", 2),
    "uint16": _Fixed("H", 2),
    "int32": _Fixed("i", 4),
    "int64": _Fixed("q", 8),
    "float64": _Fixed("d", 8),
    "error_code": _Fixed("h", 2, _error_code),
    "timedelta_i32": _Fixed("i", 4, _timedelta, _milliseconds),
    "timedelta_i64": _Fixed("q", 8, _timedelta, _milliseconds),
    "datetime_i64": _Fixed("q", 8, _datetime, _timestamp),
    "uuid": _Fixed("16s", 16, _uuid, uuid_bytes),
}
_PLAIN_NUMBERS = {"int8", "int16", "uint16", "int32", "int64", "float64"}


# --- compiling -------------------------------------------------------------------------------------


class _Codec(NamedTuple):
    """A compiled field or message; `bytes_min` is the least it can take on the wire."""

    decode: Decode
    encode: Encode
    bytes_min: int


DecodeStep = Callable[[Reader, Any], None]
"""Sets fields of a message that has none yet."""


@cache
def _codec(message_type: type[Message], nesting: int = 0) -> _Codec:
    assert nesting < _NESTING_MAX, f"{message_type} nests deeper than any message of the protocol"
    is_flexible = message_type.__flexible__
    fields = [_field_of(field) for field in dataclasses.fields(message_type)]
    decode_steps: list[DecodeStep] = []
    encode_steps: list[Encode] = []
    bytes_min = 1 if is_flexible else 0
    run: list[_Field] = []
    for field in [field for field in fields if field.tag is None]:
        if _is_fixed(field):
            run.append(field)
            continue
        bytes_min += _close_run(message_type, run, decode_steps, encode_steps)
        codec = _field_codec(field, is_flexible=is_flexible, nesting=nesting)
        decode_steps.append(_decode_step(_setter(message_type, field), codec.decode))
        encode_steps.append(_encode_step(attrgetter(field.name), codec.encode))
        bytes_min += codec.bytes_min
    bytes_min += _close_run(message_type, run, decode_steps, encode_steps)
    if is_flexible:
        tagged = {
            field.tag: (field, _field_codec(field, is_flexible=True, nesting=nesting))
            for field in sorted(fields, key=lambda field: -1 if field.tag is None else field.tag)
            if field.tag is not None
        }
        decode_steps.append(_decode_tags_step(message_type, tagged))
        encode_steps.append(_encode_tags_step(tagged))

    def decode_message(reader: Reader) -> Any:
        message = object.__new__(message_type)
        for step in decode_steps:
            step(reader, message)
        return message

    def encode_message(out: bytearray, message: Any) -> None:
        for step in encode_steps:
            step(out, message)

    return _Codec(decode_message, encode_message, bytes_min)


def _is_fixed(field: _Field) -> bool:
    return field.kafka_type in _FIXED and not field.is_array


def _setter(message_type: type[Message], field: _Field) -> SetField:
    """Return what sets a field of a message: its slot, in half of the time that a frozen class's constructor
    takes."""
    setter: SetField = getattr(message_type, field.name).__set__
    return setter


def _close_run(
    message_type: type[Message],
    run: list[_Field],
    decode_steps: list[DecodeStep],
    encode_steps: list[Encode],
) -> int:
    """Turn the collected fixed-size fields into one struct call each way; return their size."""
    if not run:
        return 0
    fixed = [_FIXED[field.kafka_type] for field in run]
    layout = struct.Struct(">" + "".join(part.layout for part in fixed))
    names = [field.name for field in run]
    setters = [_setter(message_type, field) for field in run]
    converting = [
        (setter, place, part.from_wire, field)
        for place, (setter, field, part) in enumerate(zip(setters, run, fixed, strict=True))
        if part.from_wire is not _same
    ]
    places = [(place, part.to_wire) for place, part in enumerate(fixed) if part.to_wire is not _same]
    get = attrgetter(*names)
    is_one = len(names) == 1
    run.clear()

    def decode_step(reader: Reader, message: Any) -> None:
        values = reader.fixed(layout)
        for set_field, value in zip(setters, values, strict=True):
            set_field(message, value)
        for set_field, place, from_wire, field in converting:
            converted = from_wire(values[place])
            if converted is None and not field.is_nullable and field.kafka_type != "uuid":
                raise MalformedRequest(f"{field.name} is null")
            set_field(message, converted)

    def encode_step(out: bytearray, message: Any) -> None:
        numbers = [get(message)] if is_one else list(get(message))
        for place, to_wire in places:
            numbers[place] = to_wire(numbers[place])
        out += layout.pack(*numbers)

    decode_steps.append(decode_step)
    encode_steps.append(encode_step)
    return layout.size


def _decode_step(set_field: SetField, decode_field: Decode) -> DecodeStep:
    def step(reader: Reader, message: Any) -> None:
        set_field(message, decode_field(reader))

    return step


def _encode_step(getter: Callable[[Any], Any], encode_field: Encode) -> Encode:
    def step(out: bytearray, message: Any) -> None:
        encode_field(out, getter(message))

    return step


def _decode_tags_step(message_type: type[Message], tagged: dict[int, tuple[_Field, _Codec]]) -> DecodeStep:
    setters = {tag: _setter(message_type, field) for tag, (field, _) in tagged.items()}
    defaults = [(setters[tag], _default_of(field)) for tag, (field, _) in tagged.items()]

    def step(reader: Reader, message: Any) -> None:
        if not tagged:
            reader.skip_tagged_fields()
            return
        for set_field, default in defaults:
            set_field(message, default)

        def on_tag(tag: int, content: Reader) -> bool:
            known = tagged.get(tag)
            if known is None:
                return False
            setters[tag](message, known[1].decode(content))
            return True

        reader.tagged_fields(on_tag)

    return step


def _encode_tags_step(tagged: dict[int, tuple[_Field, _Codec]]) -> Encode:
    entries = [
        (tag, attrgetter(field.name), _default_of(field), codec.encode)
        for tag, (field, codec) in tagged.items()
    ]

    def step(out: bytearray, message: Any) -> None:
        if not entries:
            out.append(0)
            return
        present = [
            (tag, value, encode_field)
            for tag, getter, default, encode_field in entries
            if (value := getter(message)) != default
        ]
        write_uvarint(out, len(present))
        for tag, value, encode_field in present:
            content = bytearray()
            encode_field(content, value)
            write_uvarint(out, tag)
            write_uvarint(out, len(content))
            out += content

    return step


def _field_codec(field: _Field, *, is_flexible: bool, nesting: int) -> _Codec:
    """Return the codec of a field outside a run of fixed-size ones. A tagged field may be null wherever its
    type may."""
    if field.is_array:
        item = (
            _codec(field.nested, nesting + 1)
            if field.nested is not None
            else _primitive_codec(field.kafka_type, is_nullable=False, is_flexible=is_flexible)
        )
        plain_layout = _FIXED[field.kafka_type].layout if field.kafka_type in _PLAIN_NUMBERS else None
        return _array_codec(item, plain_layout, is_nullable=field.is_nullable, is_flexible=is_flexible)
    if field.nested is not None:
        nested = _codec(field.nested, nesting + 1)
        return _nullable_message_codec(nested) if field.is_nullable and field.tag is None else nested
    return _primitive_codec(field.kafka_type, is_nullable=field.is_nullable, is_flexible=is_flexible)


def _primitive_codec(kafka_type: str, *, is_nullable: bool, is_flexible: bool) -> _Codec:
    match kafka_type:
        case "string":
            return _string_codec(is_nullable=is_nullable, is_flexible=is_flexible)
        case "bytes" | "records":
            return _bytes_codec(is_nullable=is_nullable, is_flexible=is_flexible)
        case _:
            return _fixed_codec(_FIXED[kafka_type])


def _fixed_codec(fixed: _Fixed) -> _Codec:
    layout = struct.Struct(">" + fixed.layout)
    from_wire, to_wire = fixed.from_wire, fixed.to_wire

    def encode_fixed(out: bytearray, value: Any) -> None:
        out += layout.pack(to_wire(value))

    return _Codec(lambda reader: from_wire(reader.fixed(layout)[0]), encode_fixed, layout.size)


def _string_codec(*, is_nullable: bool, is_flexible: bool) -> _Codec:
    def decode_string(reader: Reader) -> str | None:
        if is_nullable:
            return reader.nullable_string(is_flexible=is_flexible)
        return reader.string(is_flexible=is_flexible)

    def encode_string(out: bytearray, value: str | None) -> None:
        assert value is not None or is_nullable, "null where the schema has none"
        write_string(out, value, is_flexible=is_flexible)

    return _Codec(decode_string, encode_string, 1 if is_flexible else 2)


def _bytes_codec(*, is_nullable: bool, is_flexible: bool) -> _Codec:
    def decode_bytes(reader: Reader) -> bytes | None:
        view = reader.nullable_view(is_flexible=is_flexible)
        if view is None and not is_nullable:
            raise MalformedRequest("null bytes where the schema has none")
        return None if view is None else bytes(view)

    def encode_bytes(out: bytearray, value: Buffer | None) -> None:
        assert value is not None or is_nullable, "null where the schema has none"
        write_bytes(out, value, is_flexible=is_flexible)

    return _Codec(decode_bytes, encode_bytes, 1 if is_flexible else 4)


def _nullable_message_codec(nested: _Codec) -> _Codec:
    """Return the codec of a message behind a byte that says whether it is there (KIP-893)."""

    def decode_nullable(reader: Reader) -> Any:
        match reader.int8():
            case -1:
                return None
            case 1:
                return nested.decode(reader)
            case other:
                raise MalformedRequest(f"{other} where a nested message's marker is due")

    def encode_nullable(out: bytearray, value: Any) -> None:
        out += struct.pack(">b", _ENTITY_NULL if value is None else _ENTITY_PRESENT)
        if value is not None:
            nested.encode(out, value)

    return _Codec(decode_nullable, encode_nullable, 1)


def _array_codec(item: _Codec, plain_layout: str | None, *, is_nullable: bool, is_flexible: bool) -> _Codec:
    item_bytes_min = max(item.bytes_min, 1)

    def decode_array(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.array_count(is_flexible=is_flexible, element_bytes_min=item_bytes_min)
        if count < 0:
            if not is_nullable:
                raise MalformedRequest("null array where the schema has none")
            return None
        if plain_layout is not None:
            return reader.fixed(struct.Struct(f">{count}{plain_layout}"))
        decode_item = item.decode
        return tuple([decode_item(reader) for _ in range(count)])

    def encode_array(out: bytearray, values: tuple[Any, ...] | None) -> None:
        assert values is not None or is_nullable, "null where the schema has none"
        write_count(out, -1 if values is None else len(values), is_flexible=is_flexible)
        if not values:
            return
        if plain_layout is not None:
            out += struct.pack(f">{len(values)}{plain_layout}", *values)
            return
        encode_item = item.encode
        for value in values:
            encode_item(out, value)

    return _Codec(decode_array, encode_array, 1 if is_flexible else 4)
