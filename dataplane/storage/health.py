"""The latches of a log directory and of each of its logs: they say whether it may still be used.

After a failed write or fsync the content of the disk is unknown: the kernel drops the dirty pages, reports
the error once, and the next fsync succeeds although the data is gone. So the first error ends the directory
for this process's life: no retry, and every later operation is refused (KAFKA-10778, fsyncgate; S28, EIO or
full disk). Damaged bytes end their log only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dataplane.core.log_port import LogError
from dataplane.core.room import Room
from dataplane.storage.disk import Disk, replace_durably

DAMAGED_FILE = "damaged"
"""File that records, across restarts, that bytes of this log were found damaged, and which."""


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
    """`failure` is None until something fails, and never again. has_changed: set by each write; cleared when
    the fresh mark (fresh_mark.py) is made. room: what may still be written."""

    __slots__ = ("failure", "has_changed", "path", "room")

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure: str | None = None
        self.has_changed = False
        self.room = Room()

    def fail(self, error: OSError, doing: str) -> LogError:
        """Latch the failure; returns what to raise."""
        if self.failure is None:
            self.failure = f"{doing}: {error}"
        return LogError(f"log directory {self.path} failed while {doing}: {error}")

    def check(self) -> None:
        """Raises LogError if the directory has failed before."""
        if self.failure is not None:
            raise LogError(f"log directory {self.path} failed before: {self.failure}")

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Raise LogError if the directory has failed before, and for a disk error within."""
        self.check()
        self.has_changed = True
        try:
            yield
        except OSError as error:
            raise self.fail(error, doing) from error


class LogHealth:
    """The latch of one log. `refusal` is None until the log is closed or found damaged."""

    __slots__ = ("_disk", "directory", "path", "refusal")

    def __init__(self, disk: Disk, path: str, directory: DirectoryHealth) -> None:
        self._disk = disk
        self.path = path
        self.directory = directory
        self.refusal: LogError | None = None

    def check(self) -> None:
        """Raise LogError if the log or its directory may not be used any more."""
        if self.refusal is not None:
            raise self.refusal
        self.directory.check()

    def failed(self, error: OSError, doing: str) -> LogError:
        """Return the LogError for a disk error. A log that was closed while a thread worked on it has had its
        directory renamed, so its missing files are no failure.
        """
        if isinstance(error, FileNotFoundError) and self.refusal is not None:
            return self.refusal
        return self.directory.fail(error, f"{doing} {self.path}")

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Raise LogError for a disk error within."""
        self.directory.has_changed = True
        try:
            yield
        except OSError as error:
            raise self.failed(error, doing) from error

    def condemn(self, error: CorruptLog) -> CorruptLog:
        """End this log, also on disk: the next process need not read these bytes. Return what to raise."""
        self.refusal = error
        try:
            replace_durably(self._disk, f"{self.path}/{DAMAGED_FILE}", str(error).encode())
        except FileNotFoundError:
            pass  # deleted or set aside meanwhile
        except OSError as failure:
            self.directory.fail(failure, f"marking {self.path} as damaged")
        return error

    def close(self) -> None:
        """Refuse all use from now on."""
        self.refusal = ClosedLog(f"{self.path} is closed")
