"""The question of a look, the summary that answers it, and the limits of both. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 1_000
BYTES_DEFAULT: Final = 1024 * 1024
BYTES_MIN: Final = 4 * 1024
BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the records in an answer, as JSON."""
PARTITIONS_MAX: Final = 256
"""Partitions of one look."""
SCANNED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Unpacked bytes of the records that a look reads, shown or not. The last batch may go beyond it."""
LOOK_MS_MAX: Final = 10_000
LATE_MS_MAX: Final = 3_000
"""A process that has not answered so long after LOOK_MS_MAX is killed."""
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of one answer of a broker, and of one batch once it is unpacked."""
ADDRESS_SPACE_BYTES_MAX: Final = 512 * 1024 * 1024
"""Of the whole process, its code and libraries included: what does not fit ends the look, not the host."""
PROCESSOR_S_MAX: Final = 20
EARLIEST: Final = -2
"""The time that stands for a log's first record in Kafka's ListOffsets."""
UNREAD_MAX: Final = 50
"""Places in an answer that could not be read."""


class RecordFormat(StrEnum):
    """The form in which keys, values and headers are shown. auto: JSON if it is an object or a list, else
    text if it is UTF-8 without control characters, else hex."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


class LookStop(StrEnum):
    """The reason why a look shows no more. end: there is no more to see."""

    LIMIT = "limit"
    BYTES = "bytes"
    SCANNED = "scanned"
    TIME = "time"
    END = "end"


class AskedLog(msgspec.Struct, frozen=True):
    """A partition to look at, and the address of its leader; "": it has none. offset: from where on; None: as
    the look says."""

    partition: int
    host: str
    port: int
    offset: int | None = None


class RecordLook(msgspec.Struct, frozen=True, kw_only=True):
    """One look. at_ms: from the first records at or after this time on, or EARLIEST; None: without offsets,
    the newest records."""

    topic: str
    topic_id: str = ""
    logs: tuple[AskedLog, ...] = ()
    at_ms: int | None = None
    limit: int = LIMIT_DEFAULT
    bytes_max: int = BYTES_DEFAULT
    key: str | None = None
    value: str | None = None
    ignore_case: bool = False
    format: RecordFormat = RecordFormat.AUTO
    scanned_bytes_max: int = SCANNED_BYTES_MAX
    ms_max: int = LOOK_MS_MAX

    @property
    def is_newest(self) -> bool:
        return self.at_ms is None and all(log.offset is None for log in self.logs)


class LookRefusal(StrEnum):
    """The reason for which a look shows nothing; each is a code of the API's catalogue."""

    TOPIC = "topic_not_found"
    OFFSET = "offset_out_of_range"
    LEADER = "log_unavailable"


class LookSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a look came to, for the audit. refused: why nothing is shown; `detail` says it in words, and
    partition, log_start_offset and log_end_offset are those of a wrong offset."""

    records: int = 0
    bytes: int = 0
    scanned_records: int = 0
    stopped: LookStop = LookStop.END
    refused: LookRefusal | None = None
    detail: str = ""
    partition: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
