"""A source of file chunks for tests in which no chunk is sent."""

from __future__ import annotations


class UnreadFile:
    def fileno(self) -> int:
        raise AssertionError("it is not sent")

    def pread(self, length: int, position: int) -> bytes:
        raise AssertionError("it is not read")

    def is_cached(self, length: int, position: int) -> bool:
        raise AssertionError("it is not sent")
