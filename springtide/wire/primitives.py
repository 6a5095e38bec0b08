"""The protocol's building blocks over a buffer of untrusted bytes.

Reader checks a length or count against the bytes that are left before anything is allocated for it. The
array elements of one message have a budget, because an element can be one byte on the wire and a hundred in
memory. Anything that does not fit raises MalformedRequest. The caller then closes the connection, as Kafka
does, because nothing after a malformed message can be understood.

Writer functions append to a bytearray and trust their caller: a value out of range is our own mistake.

Sources: KIP-482 (compact types, tagged fields); protocol.html "Protocol Primitive Types".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar
from uuid import UUID

from .compression import Buffer

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple[object, ...])

REQUEST_ELEMENTS_MAX = 250_000
"""Array elements in one request. A client that asks about more partitions must split its request."""
RESPONSE_ELEMENTS_MAX = 4_000_000
"""The same for answers of other brokers."""
TAGGED_FIELDS_MAX = 10_000
"""Tagged fields in one section, as in Kafka 4.4."""
_UVARINT_SHIFT_LAST = 28
_UVARINT_LAST_BYTE_MAX = 0x0F
_UUID_BYTES = 16
_UUID_ZERO = bytes(_UUID_BYTES)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class MalformedRequest(Exception):
    """The bytes are not a message of the API and version they claim: close their connection."""


MALFORMED_CAUSES = (struct.error, IndexError, UnicodeDecodeError, OverflowError)
"""Errors of reading past the end or converting nonsense; the outermost decode turns them into
MalformedRequest."""


OnRest = Callable[[int], object]
"""Takes how many bytes follow a message."""


class Reader:
    """A position in a buffer. Methods read one value and advance.

    Fixed-size reads past the end raise struct.error or IndexError rather than check twice; the caller that
    made the Reader turns MALFORMED_CAUSES into MalformedRequest.
    """

    __slots__ = ("buffer", "elements_left", "position")

    def __init__(
        self, buffer: Buffer, position: int = 0, *, elements_max: int = REQUEST_ELEMENTS_MAX
    ) -> None:
        self.buffer = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
        self.position = position
        self.elements_left = elements_max

    @property
    def remaining(self) -> int:
        return len(self.buffer) - self.position

    def int8(self) -> int:
        value = self.buffer[self.position]
        self.position += 1
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        (value,) = _INT16.unpack_from(self.buffer, self.position)
        self.position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = _INT32.unpack_from(self.buffer, self.position)
        self.position += 4
        return int(value)

    def fixed(self, layout: struct.Struct) -> tuple[int, ...]:
        """Read several numbers at once."""
        values = layout.unpack_from(self.buffer, self.position)
        self.position += layout.size
        return values

    def uvarint(self) -> int:
        """Read at most five bytes and 32 bits."""
        buffer = self.buffer
        position = self.position
        byte = buffer[position]
        position += 1
        if byte < 0x80:  # nearly always
            self.position = position
            return byte
        value = byte & 0x7F
        shift = 7
        while byte & 0x80:
            byte = buffer[position]
            position += 1
            if shift == _UVARINT_SHIFT_LAST and byte > _UVARINT_LAST_BYTE_MAX:
                raise MalformedRequest("varint exceeds 32 bits")
            value |= (byte & 0x7F) << shift
            shift += 7
        self.position = position
        return value

    def take(self, length: int) -> memoryview:
        """Read the next `length` bytes as a view."""
        start = self.position
        end = start + length
        if length < 0 or end > len(self.buffer):
            raise MalformedRequest(f"length {length} exceeds the {self.remaining} bytes left")
        self.position = end
        return self.buffer[start:end]

    def nullable_string(self, *, is_flexible: bool) -> str | None:
        length = self.uvarint() - 1 if is_flexible else self.int16()
        return None if length == -1 else str(self.take(length), "utf-8")

    def string(self, *, is_flexible: bool) -> str:
        if is_flexible:
            buffer, start = self.buffer, self.position + 1
            size = buffer[start - 1]
            end = start + size - 1
            if 0 < size < 0x80 and end <= len(buffer):  # nearly always
                self.position = end
                return str(buffer[start:end], "utf-8")
        length = self.uvarint() - 1 if is_flexible else self.int16()
        return str(self.take(length), "utf-8")

    def nullable_view(self, *, is_flexible: bool) -> memoryview | None:
        """Read a bytes or records field without copying it."""
        length = self.uvarint() - 1 if is_flexible else self.int32()
        return None if length == -1 else self.take(length)

    def uuid(self) -> UUID | None:
        """Read an id; None for the zero id, which stands for "none" everywhere in the protocol."""
        raw = bytes(self.take(_UUID_BYTES))
        return None if raw == _UUID_ZERO else UUID(bytes=raw)

    def array_count(self, *, is_flexible: bool, element_bytes_min: int) -> int:
        """Read the number of elements, -1 for null. Refuse more than can fit into the bytes that are left."""
        count = self.uvarint() - 1 if is_flexible else self.int32()
        if count < 0:
            if count == -1:
                return count
            raise MalformedRequest(f"array count {count}")
        if count * element_bytes_min > self.remaining:
            raise MalformedRequest(f"array count {count} exceeds the {self.remaining} bytes left")
        if count > self.elements_left:
            raise MalformedRequest(f"array count {count} exceeds the budget of the message")
        self.elements_left -= count
        return count

    def present_array_count(self, *, is_flexible: bool, element_bytes_min: int) -> int:
        """Read the number of elements where null is forbidden."""
        count = self.array_count(is_flexible=is_flexible, element_bytes_min=element_bytes_min)
        if count < 0:
            raise MalformedRequest("null array where the schema has none")
        return count

    def tagged_fields(self, on_tag: Callable[[int, Reader], bool]) -> None:
        """Read a section of tagged fields: `on_tag` gets each tag and a reader of just its bytes.

        `on_tag` returns False for an unknown tag, whose bytes are skipped. Tags must ascend, so none repeats;
        a known tag's bytes must be used up.
        """
        count = self.uvarint()
        if count == 0:
            return
        if count > TAGGED_FIELDS_MAX:
            raise MalformedRequest(f"{count} tagged fields")
        if count * 2 > self.remaining:  # a tag and a size, a byte each
            raise MalformedRequest(f"{count} tagged fields exceed the {self.remaining} bytes left")
        last_tag = -1
        for _ in range(count):
            tag = self.uvarint()
            if tag <= last_tag:
                raise MalformedRequest(f"tag {tag} after tag {last_tag}")
            last_tag = tag
            content = Reader(self.take(self.uvarint()), elements_max=self.elements_left)
            if on_tag(tag, content) and content.remaining:
                raise MalformedRequest(f"tag {tag} has bytes left over")
            self.elements_left = content.elements_left

    def skip_tagged_fields(self) -> None:
        if self.buffer[self.position] == 0:  # nearly always
            self.position += 1
        else:
            self.tagged_fields(_know_no_tag)

    def finish(self, on_rest: OnRest | None = None) -> None:
        """Give `on_rest` the number of bytes that follow the message, if there are any; without it, raise
        MalformedRequest. They are ignored in clients' requests only, as in Kafka: librdkafka's Metadata v12
        has three of them."""
        if self.position != len(self.buffer):
            if on_rest is None:
                raise MalformedRequest(f"{self.remaining} bytes after the message")
            on_rest(self.remaining)


def _know_no_tag(_tag: int, _content: Reader) -> bool:
    return False


def read_whole(
    read: Callable[[Reader], T],
    buffer: Buffer,
    position: int,
    *,
    elements_max: int,
    on_rest: OnRest | None = None,
) -> T:
    """Run `read` over everything from `position`. Raise MalformedRequest for bad bytes of any kind.

    on_rest: see Reader.finish."""
    reader = Reader(buffer, position, elements_max=elements_max)
    try:
        value = read(reader)
        reader.finish(on_rest)
    except MALFORMED_CAUSES as error:
        raise MalformedRequest(str(error)) from error
    return value


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_bytes(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    write_uvarint(out, value)
    return bytes(out)


def write_string(out: bytearray, value: str | None, *, is_flexible: bool) -> None:
    """Append a string; None is null. The caller knows whether the field may be null."""
    if value is None:
        out += b"\x00" if is_flexible else b"\xff\xff"
        return
    encoded = value.encode()
    if is_flexible:
        write_uvarint(out, len(encoded) + 1)
    else:
        out += _INT16.pack(len(encoded))
    out += encoded


def write_bytes(out: bytearray, value: Buffer | None, *, is_flexible: bool) -> None:
    if value is None:
        out += b"\x00" if is_flexible else b"\xff\xff\xff\xff"
        return
    write_count(out, len(value), is_flexible=is_flexible)
    out += value


def write_count(out: bytearray, count: int, *, is_flexible: bool) -> None:
    """Append the count of an array or a bytes field; -1 is null."""
    if not is_flexible:
        out += _INT32.pack(count)
    elif count < 0x7F:  # nearly always
        out.append(count + 1)
    else:
        write_uvarint(out, count + 1)


def uuid_bytes(value: UUID | None) -> bytes:
    return _UUID_ZERO if value is None else value.bytes


def topic_runs(values: Sequence[Row]) -> list[Sequence[Row]]:
    """Split values whose first field is a topic into runs of neighbours of one topic, each an entry of a
    message."""
    if len(values) == 1:
        return [values]
    return [list(run) for _, run in groupby(values, key=itemgetter(0))]
