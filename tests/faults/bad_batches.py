"""Batches that a leader has to refuse, by what is wrong with them, and Kafka's codes for it (Errors.java)."""

from __future__ import annotations

from tests.faults import frames
from tests.faults.frames import Batch

CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION, INVALID_RECORD = 2, 10, 76, 87

BAD_BATCHES: dict[str, tuple[bytes | None, int]] = {
    "shorter than a header": (Batch().encode()[:60], CORRUPT_MESSAGE),
    "a length beyond the bytes": (Batch(length_error=1).encode(), CORRUPT_MESSAGE),
    "a length below the minimum": (Batch(length_error=-1000).encode(), CORRUPT_MESSAGE),
    "a wrong CRC": (Batch(crc=1).encode(), CORRUPT_MESSAGE),
    "magic 0": (Batch(magic=0).encode(), INVALID_RECORD),
    "magic 1": (Batch(magic=1).encode(), INVALID_RECORD),
    "magic 3": (Batch(magic=3).encode(), INVALID_RECORD),
    "no batch": (b"", INVALID_RECORD),
    "null records": (None, INVALID_RECORD),
    "two batches": (Batch().encode() * 2, INVALID_RECORD),
    "no records": (Batch(count=0, records=b"").encode(), INVALID_RECORD),
    "a negative count": (Batch(count=-1).encode(), INVALID_RECORD),
    "more records claimed than offsets": (Batch(count=2).encode(), INVALID_RECORD),
    "more offsets claimed than records": (Batch(last_offset_delta=5).encode(), INVALID_RECORD),
    "more records claimed than sent": (Batch(count=2, last_offset_delta=1).encode(), INVALID_RECORD),
    "a control batch": (Batch(attributes=0x20).encode(), INVALID_RECORD),
    "a negative sequence": (Batch(producer_id=77, producer_epoch=0).encode(), INVALID_RECORD),
    "a record longer than the batch": (Batch(records=b"\xfe\xff\x03" + b"x" * 20).encode(), INVALID_RECORD),
    "bytes after the last record": (
        Batch(records=frames.record(b"a") + b"junk").encode(),
        INVALID_RECORD,
    ),
    "an unknown codec": (Batch(attributes=0x07).encode(), UNSUPPORTED_COMPRESSION),
    "a record beyond the limit": (
        Batch(records=frames.record(b"x" * 1_200_000)).encode(),
        MESSAGE_TOO_LARGE,
    ),
}
