"""Reads server-sent events (WHATWG HTML 9.2) as their bytes come. Pure; client.py reads the bytes."""

from __future__ import annotations

from typing import Final, NamedTuple

#: An event larger than this is not one of ours.
EVENT_BYTES_MAX: Final = 64 << 20
_BOM: Final = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """id: of the last event that had one, this one included; empty: none had."""

    name: str
    id: str
    data: bytes


class NotEvents(Exception):
    """What comes is no stream of events."""


class EventParser:
    """Takes bytes, however they are cut, and gives the events that they complete. Comments are nobody's."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_first = True
        #: A carriage return has ended a line; a line feed right behind it belongs to it.
        self._after_return = False
        self._name = ""
        self._id = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Event]:
        """Raises NotEvents."""
        found: list[Event] = []
        self._rest += chunk
        while (line := self._take_line()) is not None:
            if line:
                self._take_field(line)
            elif (event := self._finish()) is not None:
                found.append(event)
        if len(self._rest) + sum(map(len, self._data)) > EVENT_BYTES_MAX:
            raise NotEvents(f"an event of more than {EVENT_BYTES_MAX} bytes")
        return found

    def _take_line(self) -> bytes | None:
        if self._after_return and self._rest:
            self._after_return = False
            self._rest = self._rest.removeprefix(b"\n")
        ends = [end for end in (self._rest.find(b"\n"), self._rest.find(b"\r")) if end >= 0]
        if not ends:
            return None
        end = min(ends)
        line = self._rest[:end]
        self._after_return = self._rest[end : end + 1] == b"\r"
        self._rest = self._rest[end + 1 :]
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        return line

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._name = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case _:  # a comment, or a field that nobody here needs
                pass

    def _finish(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data = "", []
        return Event(name or "message", self._id, b"\n".join(data)) if data else None
