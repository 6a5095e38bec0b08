"""A log directory's quarantine/: replicas without a claim, each with a note that was written before the move.

With the note, a log that was durable to its end when it was set aside can be taken up again
(docs/replication.md 11.5, logs that were set aside). A directory without a note, or whose note says that it
is not whole, is for a person to look at.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dataplane.storage.checkpoints import PartitionKey
from dataplane.storage.disk import (
    Disk,
    read_whole,
    rename_durably,
    replace_durably,
    stored_bytes,
    unlink_durably,
)
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.partition_file import read_partition
from springtide.contract.holdings import SetAsideLog

DESCRIPTION_FILE: Final = "set-aside.json"
DESCRIPTION_BYTES_MAX: Final = 1024 * 1024
SAME_NAME_MAX: Final = 10_000
"""Limit of deleted or quarantined directories of one partition, beyond which no further one is made."""


class SetAsideNote(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content. recovery_point: how far the log is durable."""

    log: SetAsideLog
    recovery_point: int = 0


def write_note(disk: Disk, directory: str, note: SetAsideNote) -> None:
    """Durable when it returns. Raises OSError."""
    replace_durably(disk, f"{directory}/{DESCRIPTION_FILE}", msgspec.json.encode(note))


def read_note(disk: Disk, directory: str) -> SetAsideNote | None:
    """Return the note, or None if there is none that can be read. Raise OSError."""
    encoded = read_whole(disk, f"{directory}/{DESCRIPTION_FILE}", bytes_max=DESCRIPTION_BYTES_MAX)
    if encoded is None:
        return None
    try:
        return msgspec.json.decode(encoded, type=SetAsideNote)
    except ValueError:
        return None


def remove_note(disk: Disk, directory: str) -> None:
    """Durable when it returns. Raises OSError."""
    unlink_durably(disk, f"{directory}/{DESCRIPTION_FILE}")


def replace_note(note: SetAsideNote, **changes: object) -> SetAsideNote:
    """The note with other words about its log."""
    return msgspec.structs.replace(note, log=msgspec.structs.replace(note.log, **changes))


def free_name(disk: Disk, path: str, *, suffix: str = "") -> str:
    """Return `path` plus suffix, with a number before the suffix if that name exists. Raise OSError."""
    for number in range(SAME_NAME_MAX):
        free = f"{path}.{number}{suffix}" if number else path + suffix
        if not disk.exists(free):
            return free
    raise OSError(f"{SAME_NAME_MAX} directories are called {path}{suffix} already")


class Quarantine:
    """`notes` are those of the logs in `path`, by directory name, from `find` on. For threads; methods raise
    LogError.
    """

    def __init__(self, disk: Disk, path: str, health: DirectoryHealth) -> None:
        self._disk = disk
        self._health = health
        self.path = path
        self.notes: dict[str, SetAsideNote] = {}

    def find(self) -> None:
        """Read the notes of what earlier processes set aside."""
        with self._health.guarded(f"listing {self.path}"):
            if not self._disk.exists(self.path):
                return
            for name in self._disk.listdir(self.path):
                path = f"{self.path}/{name}"
                note = read_note(self._disk, path) or self._undescribed(path)
                if note is not None:
                    self._remember(name, note)

    def put(self, directory: str, note: SetAsideNote) -> str:
        """Move a log's directory here with a note of what is known of it, and return its new path. The note
        is written first, so that a crash leaves no log here whose note is of an earlier time.
        """
        with self._health.guarded(f"quarantining {directory}"):
            write_note(self._disk, directory, note)
            moved = self.move_in(directory)
        with self._health.guarded(f"listing {moved}"):
            self._remember(moved.rpartition("/")[2], note)
        return moved

    def move_in(self, directory: str) -> str:
        """Move a directory here, without a note, and return its new path. Raise OSError."""
        self._disk.mkdir(self.path)
        moved = free_name(self._disk, f"{self.path}/{directory.rpartition('/')[2]}")
        rename_durably(self._disk, directory, moved)
        return moved

    def takeable(self, key: PartitionKey) -> SetAsideLog | None:
        """Return the log of this partition that may be taken up again."""
        found = (note.log for note in list(self.notes.values()) if note.log.is_whole)
        mine = (log for log in found if (log.topic_id, log.partition) == key)
        return max(mine, key=lambda log: (log.leader_epoch, log.log_end_offset), default=None)

    def outdate(self, log: SetAsideLog) -> None:
        """Note, durably, that a log here is older than one that begins now: it is never taken up."""
        note = replace_note(self.notes[log.directory], is_whole=False, why=f"{log.why}; outdated")
        path = f"{self.path}/{log.directory}"
        with self._health.guarded(f"noting {path}"):
            write_note(self._disk, path, note)
        self.notes[log.directory] = note

    def take_out(self, log: SetAsideLog, path: str) -> SetAsideNote:
        """Move a log back to `path`, durably, and return its note, which `remove_note` removes."""
        note = self.notes.pop(log.directory)
        with self._health.guarded(f"taking up {log.directory}"):
            assert not self._disk.exists(path), "a directory that was not loaded is not overwritten"
            rename_durably(self._disk, f"{self.path}/{log.directory}", path)
        return note

    def _remember(self, name: str, note: SetAsideNote) -> None:
        self.notes[name] = replace_note(
            note, directory=name, size_bytes=_size_of(self._disk, f"{self.path}/{name}")
        )

    def _undescribed(self, path: str) -> SetAsideNote | None:
        """Return a note for a log that an earlier release set aside, or None if it is no log."""
        try:
            partition = read_partition(self._disk, path)
        except LogDirRefused:
            return None
        return SetAsideNote(log=SetAsideLog(directory="", why="not known", **partition._asdict()))


def _size_of(disk: Disk, directory: str) -> int:
    """Return the bytes in a directory's files. Raise OSError."""
    paths = (f"{directory}/{name}" for name in disk.listdir(directory))
    return sum(stored_bytes(disk, path) for path in paths if not disk.is_dir(path))
