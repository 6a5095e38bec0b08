"""Turns a class of `messages/` and a version into a function that reads it and one that writes it.

Each is written as Python, once, and compiled: neighbouring fields of fixed size are one `struct` call, and
a message is made by one call of its class. The text comes from the facts of the classes alone; bytes from
outside are only ever its input.

What is read is not trusted: a count must fit into the bytes that are left at the least size that an element
can have, and into the message's budget of elements (primitives.py). The classes do not recurse, so nesting is
bounded by them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from .errors import ErrorCode
from .fields import In, MessagePart, Wire
from .primitives import (
    MalformedRequest,
    Reader,
    uuid_bytes,
    write_bytes,
    write_count,
    write_string,
    write_uvarint,
)

T = TypeVar("T")
Read = Callable[[Reader], Any]
Write = Callable[[bytearray, Any], None]


class Compiled(NamedTuple):
    """How a message of one version is read and written. bytes_min: the least that it takes."""

    read: Read
    write: Write
    bytes_min: int


class WireField(NamedTuple):
    """A field as one version has it. nested: the class of its elements or itself; None for one of `wire`.
    is_nullable: in this version. may_be_null: in another one; null is then written as empty here."""

    name: str
    wire: Wire
    nested: type[MessagePart] | None
    is_array: bool
    is_nullable: bool
    may_be_null: bool
    tag: int | None

    @property
    def is_fixed(self) -> bool:
        """Return whether it stands in its place with a fixed size."""
        return bool(self.wire.layout) and not self.is_array and self.tag is None


_NESTED = Wire("message")


@cache
def fields_of(message_type: type[MessagePart], version: int) -> tuple[WireField, ...]:
    """Return the fields that a version has, in the order of the wire."""
    return tuple(
        field._replace(is_nullable=field.may_be_null and version >= there.null_since)
        for field, there in _facts(message_type)
        if there.has(version)
    )


@cache
def _facts(message_type: type[MessagePart]) -> tuple[tuple[WireField, In], ...]:
    hints = get_type_hints(message_type, include_extras=True)
    return tuple(_fact(name, hints[name]) for name in message_type.__struct_fields__)


def _fact(name: str, hint: Any) -> tuple[WireField, In]:
    there, wire = In(), _NESTED
    declared, marks = _unmarked(hint)
    may_be_null = NoneType in get_args(declared)
    if may_be_null:
        (declared,) = (part for part in get_args(declared) if part is not NoneType)
    is_array = get_origin(declared) is tuple
    if is_array:
        declared, of_item = _unmarked(get_args(declared)[0])
        marks += of_item
    for mark in marks:
        if isinstance(mark, Wire):
            wire = mark
        else:
            there = mark
    return (
        WireField(
            name=name,
            wire=wire,
            nested=declared if wire is _NESTED else None,
            is_array=is_array,
            is_nullable=False,
            may_be_null=may_be_null and (is_array or wire.kind != "uuid"),
            tag=there.tag,
        ),
        there,
    )


def _unmarked(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(hint) is Annotated:
        declared, *marks = get_args(hint)
        return declared, tuple(marks)
    return hint, ()


# --- what the compiled functions call ----------------------------------------------------------------


def _uuid(raw: bytes) -> UUID | None:
    return UUID(bytes=raw) if any(raw) else None


_ERRORS = {int(code): code for code in ErrorCode}


def _error(code: int) -> ErrorCode:
    """Return the code of a number; one of a later release than ours is the unknown one."""
    return _ERRORS.get(code, ErrorCode.UNKNOWN_SERVER_ERROR)


def _read_bytes(reader: Reader, is_flexible: bool, is_nullable: bool) -> bytes | None:
    view = reader.nullable_view(is_flexible=is_flexible)
    if view is None and not is_nullable:
        raise MalformedRequest("null bytes where the schema has none")
    return None if view is None else bytes(view)


def _read_array(
    reader: Reader, read: Callable[[Reader], T], bytes_min: int, is_flexible: bool, is_nullable: bool
) -> tuple[T, ...] | None:
    count = reader.array_count(is_flexible=is_flexible, element_bytes_min=bytes_min)
    if count < 0:
        if not is_nullable:
            raise MalformedRequest("null array where the schema has none")
        return None
    return tuple([read(reader) for _ in range(count)])


def _read_numbers(
    reader: Reader, layout: str, bytes_min: int, is_flexible: bool, is_nullable: bool
) -> tuple[Any, ...] | None:
    count = reader.array_count(is_flexible=is_flexible, element_bytes_min=bytes_min)
    if count < 0:
        if not is_nullable:
            raise MalformedRequest("null array where the schema has none")
        return None
    return reader.fixed(struct.Struct(f">{count}{layout}"))


def _read_nullable(reader: Reader, read: Callable[[Reader], T]) -> T | None:
    """Read a message behind a byte that says whether it is there (KIP-893)."""
    match reader.int8():
        case -1:
            return None
        case 1:
            return read(reader)
        case other:
            raise MalformedRequest(f"{other} where a nested message's marker is due")


_NO_TAGS: Mapping[int, Any] = {}


def _read_tags(reader: Reader, readers: Mapping[int, Read]) -> Mapping[int, Any]:
    """Read the tagged fields, and return the known ones by their tag."""
    if reader.buffer[reader.position] == 0:  # nearly always
        reader.position += 1
        return _NO_TAGS
    found: dict[int, Any] = {}

    def on_tag(tag: int, content: Reader) -> bool:
        read = readers.get(tag)
        if read is None:
            return False
        found[tag] = read(content)
        return True

    reader.tagged_fields(on_tag)
    return found


def _write_tags(out: bytearray, message: Any, writers: list[tuple[int, str, Any, Write]]) -> None:
    """Write the tagged fields that are not what they are by default."""
    present = [
        (tag, value, write)
        for tag, name, default, write in writers
        if (value := getattr(message, name)) != default
    ]
    write_uvarint(out, len(present))
    for tag, value, write in present:
        content = bytearray()
        write(content, value)
        write_uvarint(out, tag)
        write_uvarint(out, len(content))
        out += content


_HELPERS: dict[str, Any] = {
    "error": _error,
    "uuid": _uuid,
    "uuid_bytes": uuid_bytes,
    "read_bytes": _read_bytes,
    "read_array": _read_array,
    "read_numbers": _read_numbers,
    "read_nullable": _read_nullable,
    "read_tags": _read_tags,
    "write_tags": _write_tags,
    "write_string": write_string,
    "write_bytes": write_bytes,
    "write_count": write_count,
    "pack": struct.pack,
}


# --- writing the functions ---------------------------------------------------------------------------


@cache
def compiled(message_type: type[MessagePart], version: int, *, is_flexible: bool) -> Compiled:
    """Return how a version of a message is read and written."""
    return _Compiler(message_type, version, is_flexible=is_flexible).result()


class _Compiler:
    """Writes the two functions of one message. `given` are the names that their text uses."""

    def __init__(self, message_type: type[MessagePart], version: int, *, is_flexible: bool) -> None:
        self.message_type = message_type
        self.version = version
        self.is_flexible = is_flexible
        self.given: dict[str, Any] = {**_HELPERS, "make": message_type}
        self.read = ["def read(r):"]
        self.write = ["def write(out, m):"]
        self.bytes_min = 1 if is_flexible else 0

    def result(self) -> Compiled:
        fields = fields_of(self.message_type, self.version)
        run: list[WireField] = []
        for field in fields:
            if field.is_fixed:
                run.append(field)
            elif field.tag is None:
                self.fixed(run)
                self.read.append(f"    {field.name} = {self.reading(field)}")
                self.write += [f"    v = m.{field.name}", *self.writing(field)]
                self.bytes_min += self.least(field)
        self.fixed(run)
        if self.is_flexible:
            self.tagged([field for field in fields if field.tag is not None])
        values = ", ".join(f"{field.name}={field.name}" for field in fields)
        self.read.append(f"    return make({values})")
        self.write.append("    return")  # a message may have no field at all
        self.define("\n".join([*self.read, *self.write]))
        return Compiled(self.given["read"], self.given["write"], self.bytes_min)

    def define(self, text: str) -> None:
        """Add the functions of a text to what is given."""
        where = f"<{self.message_type.__name__} {self.version}>"
        exec(compile(text, where, "exec"), self.given)  # noqa: S102 - written here, from facts of ours

    def fixed(self, run: list[WireField]) -> None:
        """Read and write the fields of fixed size, collected so far, at once."""
        if not run:
            return
        name = f"layout_{len(self.read)}"
        layout = struct.Struct(">" + "".join(field.wire.layout for field in run))
        self.given[name] = layout
        self.given[f"{name}_read"], self.given[f"{name}_write"] = layout.unpack_from, layout.pack
        self.read += [
            f"    {', '.join(field.name for field in run)}, = {name}_read(r.buffer, r.position)",
            f"    r.position += {layout.size}",
            *(f"    {one.name} = {one.wire.kind}({one.name})" for one in run if one.wire.kind in _CONVERTED),
        ]
        self.write.append(
            f"    out += {name}_write({', '.join(_packed(one, f'm.{one.name}') for one in run)})"
        )
        self.bytes_min += layout.size
        run.clear()

    def nested(self, message_type: type[MessagePart]) -> tuple[str, Compiled]:
        """Return the ending of the names by which the functions of another message are called."""
        inside = compiled(message_type, self.version, is_flexible=self.is_flexible)
        name = message_type.__name__
        self.given[f"read_{name}"], self.given[f"write_{name}"] = inside.read, inside.write
        return name, inside

    def least(self, field: WireField) -> int:
        """Return the least that a field takes where it stands in its place."""
        if field.nested is not None and not field.is_array:
            return 1 if field.is_nullable else self.nested(field.nested)[1].bytes_min
        if self.is_flexible:
            return 1
        return 2 if field.wire.kind == "string" and not field.is_array else 4

    def reading(self, field: WireField) -> str:
        """Return an expression that reads a field from `r`."""
        flags = f"{self.is_flexible}, {field.is_nullable}"
        if field.is_array:
            if field.wire.layout and field.wire.kind not in _CONVERTED:
                size = struct.calcsize(f">{field.wire.layout}")
                return f'read_numbers(r, "{field.wire.layout}", {size}, {flags})'
            if field.nested is not None:
                name, inside = self.nested(field.nested)
                return f"read_array(r, read_{name}, {max(inside.bytes_min, 1)}, {flags})"
            item = field._replace(is_array=False, is_nullable=False)
            least = struct.calcsize(f">{item.wire.layout}") if item.wire.layout else self.least(item)
            return f"read_array(r, lambda r: {self.reading(item)}, {least}, {flags})"
        if field.nested is not None:
            name, _ = self.nested(field.nested)
            is_marked = field.is_nullable and field.tag is None
            return f"read_nullable(r, read_{name})" if is_marked else f"read_{name}(r)"
        match field.wire.kind:
            case "string":
                method = "nullable_string" if field.is_nullable else "string"
                return f"r.{method}(is_flexible={self.is_flexible})"
            case "bytes":
                return f"read_bytes(r, {flags})"
            case kind:
                layout = f"layout_{kind}"
                self.given[layout] = struct.Struct(f">{field.wire.layout}")
                value = f"r.fixed({layout})[0]"
                return f"{kind}({value})" if kind in _CONVERTED else value

    def writing(self, field: WireField, *, indent: str = "    ") -> list[str]:
        """Return lines that write the value `v` of a field to `out`."""
        if field.may_be_null and not field.is_nullable and (field.is_array or field.nested is None):
            empty = "()" if field.is_array else '""' if field.wire.kind == "string" else 'b""'
            plain = self.writing(field._replace(may_be_null=False), indent=indent)
            return [f"{indent}v = {empty} if v is None else v", *plain]
        flexible = f"is_flexible={self.is_flexible}"
        if field.is_array:
            if field.is_nullable:
                present = self.writing(field._replace(is_nullable=False), indent=f"{indent}    ")
                null = f"{indent}    write_count(out, -1, {flexible})"
                return [f"{indent}if v is None:", null, f"{indent}else:", *present]
            count = f"{indent}write_count(out, len(v), {flexible})"
            if field.wire.layout and field.wire.kind not in _CONVERTED:
                return [count, f'{indent}out += pack(f">{{len(v)}}{field.wire.layout}", *v)']
            each = self.writing(field._replace(is_array=False), indent=f"{indent}    ")
            return [count, f"{indent}for v in v:", *each]
        if field.nested is not None:
            name, _ = self.nested(field.nested)
            if field.is_nullable and field.tag is None:
                return [
                    f"{indent}out.append(255 if v is None else 1)",
                    f"{indent}if v is not None:",
                    f"{indent}    write_{name}(out, v)",
                ]
            return [f"{indent}write_{name}(out, v)"]
        match field.wire.kind:
            case "string" | "bytes" as kind:
                check = f'{indent}assert v is not None, "{field.name} has no null"'
                line = f"{indent}write_{kind}(out, v, {flexible})"
                return [line] if field.is_nullable else [check, line]
            case _:
                return [f'{indent}out += pack(">{field.wire.layout}", {_packed(field, "v")})']

    def tagged(self, fields: list[WireField]) -> None:
        """Read and write the tagged fields."""
        if not fields:
            self.read.append("    r.skip_tagged_fields()")
            self.write.append("    out.append(0)")
            return
        default = self.message_type()
        readers, writers = {}, []
        for field in sorted(fields, key=lambda one: one.tag or 0):
            name = f"{field.name}_tag"
            lines = "\n".join(self.writing(field))
            self.define(f"def write_tag(out, v):\n{lines}\ndef read_tag(r): return {self.reading(field)}")
            readers[field.tag] = self.given["read_tag"]
            value = getattr(default, field.name)
            writers.append((field.tag, field.name, value, self.given["write_tag"]))
            self.given[name] = value
        self.given["tag_readers"], self.given["tag_writers"] = readers, writers
        self.read.append("    tags = read_tags(r, tag_readers)")
        self.read += [f"    {one.name} = tags.get({one.tag}, {one.name}_tag)" for one in fields]
        self.write.append("    write_tags(out, m, tag_writers)")


_CONVERTED = {"error", "uuid"}


def _packed(field: WireField, value: str) -> str:
    return f"uuid_bytes({value})" if field.wire.kind == "uuid" else value
