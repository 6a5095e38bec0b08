"""Which records a look shows, in which order, and where it stops. Pure: the clock and brokers are given.

From an offset or a time on, the records of several partitions are merged by their timestamps, oldest first;
each partition's own stay in the order of their offsets. The newest are found from the end: windows of offsets
before it, each larger than the one after it, are read until there are enough.

Every budget is checked where it is spent. A batch that can't be opened is named and passed over; what a
leader does not answer for is named. Control batches hold no records of clients. Memory holds one answer of a
broker, one unpacked batch, no more shown records than fit into an answer, and one of each partition.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import msgspec

from admin_api.records.room.cells import Cell, cell_of
from admin_api.records.room.questions import (
    BATCH_BYTES_MAX,
    EARLIEST,
    UNREAD_MAX,
    AskedLog,
    LookRefusal,
    LookStop,
    LookSummary,
    RecordLook,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import FetchedPartition
from springtide.wire.questions import ListedOffset, Place
from springtide.wire.record_batch import BatchHeader, CorruptBatch, TimestampType, iter_headers
from springtide.wire.records import Record, iter_records

LATEST: Final = -1
WINDOW_OFFSETS: Final = 16
"""Of the first window before the end."""
WINDOW_GROWTH: Final = 4
CELL_BYTES_MAX: Final = 64 * 1024
"""Of a key or value, where a look may show several records."""
HEADERS_MAX: Final = 64
HEADER_BYTES_MAX: Final = 1_024
RECORD_BYTES: Final = 32
"""What a record costs the budget beside its key and value."""
MOMENT_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999."""
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)


class BrokerLost(Exception):
    """A leader did not answer, or its answer can't be understood; the message names it and says why."""


class BatchTooLarge(Exception):
    """A leader's next batch is larger than BATCH_BYTES_MAX."""


class Leaders(Protocol):
    """Brokers, as a look asks them. Both raise BrokerLost, and `fetch` BatchTooLarge."""

    def list_offsets(
        self, leader: tuple[str, int], asked: Mapping[Place, int]
    ) -> dict[Place, ListedOffset]: ...

    def fetch(self, log: AskedLog, offset: int) -> FetchedPartition: ...


class LookRefused(Exception):
    """Nothing is shown, for this reason."""

    def __init__(self, summary: LookSummary) -> None:
        super().__init__(summary.detail)
        self.summary = summary


class ShownHeader(msgspec.Struct, frozen=True):
    name: str
    value: Cell | None


class ShownRecord(msgspec.Struct, frozen=True):
    """A record as the answer has it. timestamp: None: RFC 3339 has no such time. headers_total: how many it
    has; HEADERS_MAX are shown."""

    partition: int
    offset: int
    timestamp: str | None
    timestamp_ms: int
    timestamp_type: str
    key: Cell | None
    value: Cell | None
    headers: list[ShownHeader]
    headers_total: int


class ShownLog(msgspec.Struct, frozen=True):
    """A partition's range of readable offsets, as the look began; the last is exclusive."""

    partition: int
    log_start_offset: int
    log_end_offset: int


class Unread(msgspec.Struct, frozen=True):
    """A place that could not be read. offset: None: the whole partition."""

    partition: int
    offset: int | None
    why: str


class LookAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of an answer. position: where to go on, `PARTITION-OFFSET` with dots between partitions."""

    topic: str
    items: list[msgspec.Raw]
    stopped: LookStop
    position: str
    scanned_records: int
    scanned_bytes: int
    logs: list[ShownLog]
    unread: list[Unread]


class _Spent(Exception):
    def __init__(self, stop: LookStop) -> None:
        self.stop = stop


class _Found(NamedTuple):
    """A record that matches. order: among those of other partitions. shown: its JSON."""

    order: tuple[int, int, int]
    offset: int
    shown: bytes


@dataclass(slots=True)
class _Log:
    """A partition on its way. next_offset: of the record to look at next."""

    asked: AskedLog
    start: int
    end: int
    next_offset: int
    is_lost: bool = False
    #: Forwards: found and not shown yet.
    ahead: deque[_Found] = field(default_factory=deque)
    #: Backwards: how many were found, and where the last window began.
    found: int = 0
    window: int = WINDOW_OFFSETS
    window_start: int = 0

    @property
    def position(self) -> int:
        return self.ahead[0].offset if self.ahead else self.next_offset


class Reading:
    """One look. now_ms: returns milliseconds of a clock that never goes back."""

    def __init__(self, look: RecordLook, leaders: Leaders, *, now_ms: Callable[[], int]) -> None:
        self._look = look
        self._leaders = leaders
        self._now_ms = now_ms
        self._until_ms = now_ms() + look.ms_max
        self._matches = _matcher(look)
        self._scanned_records = 0
        self._scanned_bytes = 0
        self._unread: list[Unread] = []
        self._refusal = ""

    def run(self) -> tuple[LookSummary, bytes]:
        """Return the summary, and the answer's JSON."""
        try:
            logs = self._open()
            items, stopped, position = (
                self._newest(logs) if self._look.is_newest else self._from_there_on(logs)
            )
            if not items and all(log.is_lost for log in logs):
                raise self._refused(LookRefusal.LEADER, self._refusal)
        except LookRefused as refused:
            return refused.summary, b""
        looked = LookAnswer(
            topic=self._look.topic,
            items=[msgspec.Raw(item) for item in items],
            stopped=stopped,
            position=position,
            scanned_records=self._scanned_records,
            scanned_bytes=self._scanned_bytes,
            logs=[ShownLog(log.asked.partition, log.start, log.end) for log in logs],
            unread=self._unread,
        )
        summary = LookSummary(
            records=len(items),
            bytes=sum(map(len, items)),
            scanned_records=self._scanned_records,
            stopped=stopped,
        )
        return summary, msgspec.json.encode(looked)

    def _refused(self, why: LookRefusal, detail: str) -> LookRefused:
        return LookRefused(LookSummary(refused=why, detail=detail))

    # --- where the logs begin and end -----------------------------------------------------------------------

    def _open(self) -> list[_Log]:
        """Return the logs whose leaders answer. Raise LookRefused without any, and for a wrong offset."""
        by_leader: dict[tuple[str, int], list[AskedLog]] = {}
        for asked in self._look.logs:
            if not asked.host:
                self._miss(asked.partition, None, "it has no leader")
                continue
            by_leader.setdefault((asked.host, asked.port), []).append(asked)
        logs = [log for leader, led in by_leader.items() for log in self._opened(leader, led)]
        if not logs:
            raise self._refused(LookRefusal.LEADER, self._refusal)
        return sorted(logs, key=lambda log: log.asked.partition)

    def _opened(self, leader: tuple[str, int], led: list[AskedLog]) -> list[_Log]:
        at_ms = self._look.at_ms
        try:
            starts = self._listed(leader, led, EARLIEST)
            ends = self._listed(leader, led, LATEST)
            firsts = {} if at_ms is None else self._listed(leader, led, at_ms)
        except BrokerLost as error:
            for asked in led:
                self._miss(asked.partition, None, str(error))
            return []
        logs = []
        for asked in led:
            told = [found[asked.partition] for found in (starts, ends, firsts) if asked.partition in found]
            failed = next((one.error for one in told if one.error is not ErrorCode.NONE), None)
            if failed is not None or len(told) < (2 if at_ms is None else 3):
                self._miss(asked.partition, None, _in_words(failed))
                continue
            start, end = told[0].offset, told[1].offset
            first = start
            if at_ms is not None:
                first = told[2].offset if told[2].offset >= 0 else end
            elif asked.offset is not None:
                first = self._checked(asked, start, end)
            logs.append(_Log(asked, start, end, next_offset=first, window_start=end))
        return logs

    def _listed(self, leader: tuple[str, int], led: list[AskedLog], at: int) -> dict[int, ListedOffset]:
        asked: dict[Place, int] = {(self._look.topic, log.partition): at for log in led}
        told = self._leaders.list_offsets(leader, asked)
        return {number: one for (topic, number), one in told.items() if topic == self._look.topic}

    def _checked(self, asked: AskedLog, start: int, end: int) -> int:
        assert asked.offset is not None, "the look is from offsets on"
        if not start <= asked.offset <= end:
            detail = (
                f"partition {asked.partition} has the offsets from {start} to before {end}, "
                f"and {asked.offset} is not among them"
            )
            raise LookRefused(
                LookSummary(
                    refused=LookRefusal.OFFSET,
                    detail=detail,
                    partition=asked.partition,
                    log_start_offset=start,
                    log_end_offset=end,
                )
            )
        return asked.offset

    def _miss(self, partition: int, offset: int | None, why: str) -> None:
        self._refusal = self._refusal or f"partition {partition}: {why}"
        if len(self._unread) < UNREAD_MAX:
            self._unread.append(Unread(partition, offset, why))

    # --- from there on --------------------------------------------------------------------------------------

    def _from_there_on(self, logs: list[_Log]) -> tuple[list[bytes], LookStop, str]:
        items: list[bytes] = []
        room = self._look.bytes_max
        share = room // len(logs)
        heads: list[tuple[tuple[int, int, int], _Log]] = []
        waiting = deque(logs)
        stopped = LookStop.END
        while True:
            while waiting:  # each in turn, so that no log spends the budget of all
                log = waiting.popleft()
                if log.ahead:
                    heapq.heappush(heads, (log.ahead[0].order, log))
                elif stopped is LookStop.END and log.next_offset < log.end and not log.is_lost:
                    try:
                        self._fill(log, share)
                    except _Spent as spent:
                        stopped = spent.stop  # what was found until now is shown
                    waiting.append(log)
            if not heads:
                break
            log = heapq.heappop(heads)[1]
            if items and len(log.ahead[0].shown) > room:
                stopped = LookStop.BYTES
                break
            items.append(log.ahead.popleft().shown)
            room -= len(items[-1])
            waiting.append(log)
            if len(items) == self._look.limit:
                stopped = LookStop.LIMIT
                break
        return items, stopped, _position({log.asked.partition: log.position for log in logs})

    def _fill(self, log: _Log, share: int) -> None:
        """Find at least one record in the next answer, and as many as its share of the room holds."""
        held = 0

        def take(found: _Found) -> bool:
            nonlocal held
            log.ahead.append(found)
            held += len(found.shown)
            return held < share and len(log.ahead) < self._look.limit

        self._scan(log, log.end, take)

    # --- the newest -----------------------------------------------------------------------------------------

    def _newest(self, logs: list[_Log]) -> tuple[list[bytes], LookStop, str]:
        newest = _Newest(self._look.limit, self._look.bytes_max)
        waiting = deque(log for log in logs if log.start < log.end)
        stopped = LookStop.END
        while waiting and stopped is LookStop.END:
            log = waiting.popleft()
            window_end = log.window_start
            log.next_offset = log.window_start = max(log.start, window_end - log.window)
            window = _Newest(self._look.limit, self._look.bytes_max)
            try:
                while log.next_offset < window_end and not log.is_lost:
                    self._scan(log, window_end, window.take)
            except _Spent as spent:
                stopped = spent.stop
                if window_end < log.end:
                    break  # between what was read of this window and the one after it is a gap
            log.found += window.taken
            newest.add(window)
            log.window *= WINDOW_GROWTH
            if log.window_start > log.start and log.found < self._look.limit and not log.is_lost:
                waiting.append(log)
        if stopped is LookStop.END and newest.dropped is not None:
            stopped = newest.dropped
        elif stopped is LookStop.END and any(log.window_start > log.start for log in logs):
            stopped = LookStop.LIMIT
        return newest.shown(), stopped, _position({log.asked.partition: log.end for log in logs})

    # --- one answer of a broker -----------------------------------------------------------------------------

    def _scan(self, log: _Log, end: int, take: Callable[[_Found], bool]) -> None:
        """Fetch once, and give each record before `end` that matches to `take`, until it returns False.
        Afterwards `log.next_offset` is that of the first record that was not looked at. Raise _Spent."""
        self._check_budget()
        before = log.next_offset
        try:
            fetched = self._leaders.fetch(log.asked, before)
        except BrokerLost as error:
            self._lose(log, str(error))
            return
        except BatchTooLarge:
            self._lose(log, f"its batch is larger than {BATCH_BYTES_MAX} bytes")
            return
        if fetched.error in _GONE:
            gone = f"topic {self._look.topic!r} was deleted or made again meanwhile"
            raise self._refused(LookRefusal.TOPIC, gone)
        if fetched.error is ErrorCode.OFFSET_OUT_OF_RANGE and fetched.log_start_offset > before:
            self._miss(log.asked.partition, before, "the records from here on were deleted meanwhile")
            log.next_offset = min(fetched.log_start_offset, end)
            return
        if fetched.error is not ErrorCode.NONE:
            self._lose(log, _in_words(fetched.error))
            return
        try:
            if not self._scan_batches(log, fetched.view, end, take):
                return
        except CorruptBatch as error:
            self._lose(log, error.reason)
            return
        if log.next_offset == before:
            log.next_offset = end  # compaction left nothing here

    def _scan_batches(self, log: _Log, view: memoryview, end: int, take: Callable[[_Found], bool]) -> bool:
        """Return whether all was taken. Raise CorruptBatch, after which nothing can be found, and _Spent."""
        for position, header in iter_headers(view):
            if header.base_offset >= end:
                log.next_offset = end
                break
            if header.last_offset < log.next_offset:
                continue
            if not header.is_control:
                self._check_budget()
                self._scanned_bytes += header.size_bytes
                batch = view[position : position + header.size_bytes]
                if not self._scan_batch(log, header, batch, end, take):
                    return False
            log.next_offset = max(log.next_offset, min(header.next_offset, end))
        return True

    def _scan_batch(
        self, log: _Log, header: BatchHeader, batch: memoryview, end: int, take: Callable[[_Found], bool]
    ) -> bool:
        unpacked = 0
        try:
            for record in iter_records(batch, decompressed_bytes_max=BATCH_BYTES_MAX):
                unpacked += RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
                if self._now_ms() >= self._until_ms:
                    raise _Spent(LookStop.TIME)
                if record.offset < log.next_offset:
                    continue
                if record.offset >= end:
                    break
                log.next_offset = record.offset + 1
                self._scanned_records += 1
                if self._matches(record) and not take(self._found(log, header, record)):
                    return False
        except CorruptBatch as error:
            unpacked = max(unpacked, BATCH_BYTES_MAX if header.compression else 0)
            self._miss(log.asked.partition, log.next_offset, f"its batch can't be opened: {error.reason}")
        except MemoryError:
            unpacked = BATCH_BYTES_MAX
            self._miss(log.asked.partition, log.next_offset, "a record takes more memory than a look has")
        finally:
            self._scanned_bytes += max(0, unpacked - header.size_bytes)
        return True

    def _check_budget(self) -> None:
        if self._now_ms() >= self._until_ms:
            raise _Spent(LookStop.TIME)
        if self._scanned_bytes >= self._look.scanned_bytes_max:
            raise _Spent(LookStop.SCANNED)

    def _lose(self, log: _Log, why: str) -> None:
        log.is_lost = True
        self._miss(log.asked.partition, log.next_offset, why)

    # --- one record -----------------------------------------------------------------------------------------

    def _found(self, log: _Log, header: BatchHeader, record: Record) -> _Found:
        look = self._look
        cell_max = look.bytes_max // 4 if look.limit == 1 else min(CELL_BYTES_MAX, look.bytes_max // 4)
        headers_max = HEADERS_MAX
        shown = msgspec.json.encode(_shown(log, header, record, look, cell_max, headers_max))
        while len(shown) > look.bytes_max and (cell_max > 1 or headers_max):
            cell_max, headers_max = max(1, cell_max // 2), headers_max // 2
            shown = msgspec.json.encode(_shown(log, header, record, look, cell_max, headers_max))
        at = record.timestamp if len(look.logs) > 1 else 0
        return _Found((at, record.offset, log.asked.partition), record.offset, shown)


class _Newest:
    """The newest records that were taken, as many as the limits allow. dropped: which of them was reached."""

    def __init__(self, limit: int, bytes_max: int) -> None:
        self._limit = limit
        self._bytes_max = bytes_max
        self._heap: list[_Found] = []
        self._bytes = 0
        self.taken = 0
        self.dropped: LookStop | None = None

    def take(self, found: _Found) -> bool:
        self.taken += 1
        heapq.heappush(self._heap, found)
        self._bytes += len(found.shown)
        while len(self._heap) > self._limit or (self._bytes > self._bytes_max and len(self._heap) > 1):
            self.dropped = LookStop.LIMIT if len(self._heap) > self._limit else LookStop.BYTES
            self._bytes -= len(heapq.heappop(self._heap).shown)
        return True

    def add(self, other: _Newest) -> None:
        self.dropped = other.dropped or self.dropped
        for found in other._heap:
            self.take(found)

    def shown(self) -> list[bytes]:
        return [found.shown for found in sorted(self._heap, reverse=True)]


def _shown(
    log: _Log, header: BatchHeader, record: Record, look: RecordLook, cell_max: int, headers_max: int
) -> ShownRecord:
    is_appended = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    header_max = min(HEADER_BYTES_MAX, cell_max)
    return ShownRecord(
        partition=log.asked.partition,
        offset=record.offset,
        timestamp=_moment(record.timestamp),
        timestamp_ms=record.timestamp,
        timestamp_type="log_append_time" if is_appended else "create_time",
        key=cell_of(record.key, look.format, bytes_max=cell_max),
        value=cell_of(record.value, look.format, bytes_max=cell_max),
        headers=[
            ShownHeader(name[:header_max], cell_of(value, look.format, bytes_max=header_max))
            for name, value in record.headers[:headers_max]
        ],
        headers_total=len(record.headers),
    )


def _moment(at_ms: int) -> str | None:
    """Return the time in RFC 3339; None for one that it has not, which a client may send."""
    if not 0 <= at_ms <= MOMENT_MS_MAX:
        return None
    moment = datetime.fromtimestamp(at_ms / 1_000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _matcher(look: RecordLook) -> Callable[[Record], bool]:
    """Return what says whether a record has both texts in it, wherever they stand."""
    flags = re.IGNORECASE if look.ignore_case else 0  # of bytes: the letters A to Z
    key = None if look.key is None else re.compile(re.escape(look.key.encode()), flags)
    value = None if look.value is None else re.compile(re.escape(look.value.encode()), flags)

    def matches(record: Record) -> bool:
        return (key is None or key.search(record.key or b"") is not None) and (
            value is None or value.search(record.value or b"") is not None
        )

    return matches


def _position(offsets: Mapping[int, int]) -> str:
    return ".".join(f"{partition}-{offset}" for partition, offset in offsets.items())


def _in_words(code: ErrorCode | None) -> str:
    return "its leader does not tell" if code is None else code.name.replace("_", " ").lower()
