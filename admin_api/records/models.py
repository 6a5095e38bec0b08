"""The REST models of records."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from pydantic import Field

from admin_api.http.models import View
from admin_api.records.room.cells import CellEncoding
from admin_api.records.room.questions import LookStop


class LookStart(StrEnum):
    NEWEST = "newest"
    EARLIEST = "earliest"


class CellView(View):
    """A key, a value, or a header's value."""

    encoding: CellEncoding = Field(
        description="what `data` is; `text_replaced`: bytes that are not UTF-8 are shown as U+FFFD"
    )
    data: str = Field(description="JSON is shown as it was sent", examples=['{"id": 17}'])
    size_bytes: int = Field(description="of all of it")
    truncated: bool = Field(description="only its first bytes are shown")


class RecordHeaderView(View):
    name: str
    value: CellView | None


class RecordView(View):
    """A record. A null key or value is one in the record, too."""

    partition: int
    offset: int
    timestamp: str | None = Field(description="null: RFC 3339 has no such time")
    timestamp_ms: int = Field(description="milliseconds since 1970; -1: none")
    timestamp_type: Literal["create_time", "log_append_time"]
    key: CellView | None
    value: CellView | None
    headers: list[RecordHeaderView] = Field(description="at most 64")
    headers_total: int


class LogRangeView(View):
    """The offsets that consumers could read as the look began."""

    partition: int
    log_start_offset: int
    log_end_offset: int = Field(description="exclusive")


class UnreadView(View):
    """What could not be read; the look went on behind it where it could."""

    partition: int
    offset: int | None = Field(description="null: nothing of the partition")
    why: str


class RecordList(View):
    """Records: the newest first, or from a place on the oldest first, by their timestamps where they are of
    several partitions."""

    topic: str
    items: list[RecordView]
    stopped: LookStop = Field(
        description="what ended the look: `end`: all was seen; `limit`, `bytes`: there is no room for more; "
        "`scanned`, `time`: a look reads no more at once"
    )
    position: str = Field(
        description="for `position`: from there on. After the newest ones, what comes later",
        examples=["0-1042.1-977"],
    )
    scanned_records: int
    scanned_bytes: int
    logs: list[LogRangeView]
    unread: list[UnreadView] = Field(description="at most 50")
