"""Functions on bytes, as springtide.wire has them in Python."""

from springtide.wire.shortcuts import BatchFields

def walk_records(
    payload: bytes | bytearray | memoryview, record_count: int, needs_keys: bool, /
) -> tuple[int, int, int, int]: ...
def plain_batch(
    batch: memoryview,
    bytes_max: int,
    needs_keys: bool,
    timestamp_ms_min: int | None,
    timestamp_ms_max: int | None,
    /,
) -> BatchFields | None: ...
