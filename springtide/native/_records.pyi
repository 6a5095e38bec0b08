"""Functions on bytes, as springtide.wire has them in Python."""

def walk_records(
    payload: bytes | bytearray | memoryview, record_count: int, needs_keys: bool, /
) -> tuple[int, int, int, int]: ...
