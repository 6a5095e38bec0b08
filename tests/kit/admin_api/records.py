"""A place where records are read that has no process and no records but these."""

from __future__ import annotations

import msgspec

from admin_api.records.room.cells import Cell, CellEncoding
from admin_api.records.room.questions import LookStop, LookSummary, RecordLook
from admin_api.records.room.reading import LookAnswer, ShownHeader, ShownLog, ShownRecord
from admin_api.records.rooms import RecordRooms, RoomLost


def _cell(encoding: CellEncoding, data: str) -> Cell:
    return Cell(encoding, data, len(data), truncated=False)


def _record(offset: int, timestamp: str, timestamp_ms: int, value: Cell | None) -> msgspec.Raw:
    shown = ShownRecord(
        partition=0,
        offset=offset,
        timestamp=timestamp,
        timestamp_ms=timestamp_ms,
        timestamp_type="create_time",
        key=_cell(CellEncoding.TEXT, "customer-17"),
        value=value,
        headers=[ShownHeader("trace", Cell(CellEncoding.HEX, "00c0ffee", 4, truncated=False))],
        headers_total=1,
    )
    return msgspec.Raw(msgspec.json.encode(shown))


ANSWER = LookAnswer(
    topic="orders",
    items=[
        _record(1042, "2026-11-21T09:30:00.250Z", 1_795_253_400_250, None),
        _record(
            1041,
            "2026-11-21T09:30:00.000Z",
            1_795_253_400_000,
            _cell(CellEncoding.JSON, '{"id": 17, "state": "paid"}'),
        ),
    ],
    stopped=LookStop.LIMIT,
    position="0-1043",
    scanned_records=16,
    scanned_bytes=2_104,
    logs=[ShownLog(0, 0, 1_043)],
    unread=[],
)


class MemoryRooms(RecordRooms):
    """asked, had_tls: of each look. is_lost: whether the next ones end without an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[RecordLook] = []
        self.had_tls: list[bool] = []
        self.summary = LookSummary(records=2, bytes=90, scanned_records=16, stopped=LookStop.LIMIT)
        self.is_lost = False

    async def look(self, look: RecordLook, *, has_tls: bool) -> tuple[LookSummary, bytes]:
        self.asked.append(look)
        self.had_tls.append(has_tls)
        if self.is_lost:
            raise RoomLost("the process that read the records ended with status -9")
        return self.summary, b"" if self.summary.refused else msgspec.json.encode(ANSWER)
