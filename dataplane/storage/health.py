"""The latch of a log directory, shared by all its logs: it says whether the directory may still be used.

After a failed write or fsync the content of the disk is unknown: the kernel drops the dirty pages, reports
the error once, and the next fsync succeeds although the data is gone. So the first error ends the
directory for this process's life: no retry, and every later operation is refused (KAFKA-10778, fsyncgate,
S28)."""

from __future__ import annotations

from dataplane.core.log_port import LogError


class CorruptLog(LogError):
    """Bytes of *this log* that had been written whole are not what they were: bit rot, a misdirected write,
    a foreign hand. The directory may be sound; this replica is not. It must leave the in-sync set and fetch
    its data again; it is never cut silently. base_offset, position: where, of a log's segment."""

    def __init__(self, detail: str, *, base_offset: int = -1, position: int = -1) -> None:
        super().__init__(detail)
        self.base_offset = base_offset
        self.position = position


class ClosedLog(LogError):
    """This log was deleted, set aside or closed: a thread that still worked on it has nothing left to do. No
    failure."""


class DirectoryHealth:
    """`failure` is None until something fails, and never again."""

    __slots__ = ("failure", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: str | None = None

    def fail(self, error: OSError, doing: str) -> LogError:
        """Latch the failure; returns what to raise."""
        if self.failure is None:
            self.failure = f"{doing}: {error}"
        return LogError(f"log directory {self.path} failed while {doing}: {error}")

    def check(self) -> None:
        """Raises LogError if the directory has failed before."""
        if self.failure is not None:
            raise LogError(f"log directory {self.path} failed before: {self.failure}")
