"""The fresh mark: an empty file that shows whether an older copy was put over a directory's files.

The kernel's boot id and the mount mark (disk.py) show that a killed process's writes are still in memory or
on disk, unless something else was written over them: `cp -a backup/. data/`, `rsync --inplace` or a restoring
tool keep the files and their inodes, and with them the mount mark.

The fresh mark is made anew, as a new file renamed over the one before, within FRESH_MARK_MS after each write.
Nothing is ever written to it, so its time of modification is that of its birth, to the nanosecond. No call
sets a time of birth, and a copy has no way not to change the other: it sets the time of the mark that it was
made of, or of now. So a mark whose two times are equal was not written over. A copy that holds this very mark
passes: it was made after the last write but those of the last FRESH_MARK_MS.

It does not see that some other files were written over and the mark was not: a log that was put back alone
shows itself by the high watermark that its directory has stored (recovery.py).
"""

from __future__ import annotations

from contextlib import closing
from threading import Lock
from typing import Final

from dataplane.storage.disk import Disk
from dataplane.storage.health import DirectoryHealth

FRESH_MARK_FILE = "fresh-mark"
"""Not hidden: a shell's `*` takes it along."""
FRESH_MARK_MS: Final = 100
"""A new mark is made so soon after a write: a few operations on names, of which nothing waits."""


class FreshMark:
    """The mark of one directory. `renew` is for the loop, and for the thread of a registration; it raises
    LogError."""

    def __init__(self, disk: Disk, directory: str, health: DirectoryHealth) -> None:
        self._disk = disk
        self._path = f"{directory}/{FRESH_MARK_FILE}"
        self._health = health
        self._lock = Lock()
        self._is_released = False

    def renew(self) -> bool:
        """Make a new mark. Return whether it could show that it was not written over."""
        with self._lock:
            if self._is_released:
                return False
            self._health.has_changed = False
            temporary = f"{self._path}.tmp"
            try:
                if self._disk.exists(temporary):
                    self._disk.unlink(temporary)
                with closing(self._disk.open(temporary, create=True)) as file:
                    is_untouched = file.is_untouched()
                self._disk.rename(temporary, self._path)
            except OSError as error:
                raise self._health.fail(error, "making the fresh mark") from error
            return is_untouched

    def release(self) -> None:
        """Make no mark any more: another process may have the directory."""
        with self._lock:
            self._is_released = True


def is_mark_fresh(disk: Disk, directory: str) -> bool:
    """Return whether the last mark was not written over. Raise OSError."""
    try:
        file = disk.open(f"{directory}/{FRESH_MARK_FILE}")
    except FileNotFoundError:
        return False
    with closing(file):
        return file.is_untouched()
