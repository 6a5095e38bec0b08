"""What a log knows of its rounds of compaction, and the files that keep what its manifest does not say.

    rounds    the rounds above the last that a pass was made of, and the tombstone floor that is known
    copied    up to where this log may lack records because its leader's did

The loop changes them. A round that was appended is written to the page cache at once and made durable by the
next flush, so that the file knows each round below the recovery point; a scan finds the others. A file that a
power cut tore is made again from the batches. What a leader's log lacks can't be: it is durable before
records of that log are copied. A log without rounds has neither file.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from dataplane.core.compaction.known import KnownRounds, PlacedRound
from dataplane.core.titles import CorruptTitle, with_title, without_title
from dataplane.storage.disk import Disk, fsync_file, read_whole, replace, replace_durably
from dataplane.storage.health import CorruptLog, LogHealth
from springtide.wire.fetch_response import Compacted

ROUNDS_FILE: Final = "rounds"
COPIED_FILE: Final = "copied"
BYTES_MAX: Final = 64 * 1024 * 1024

T = TypeVar("T", bound=msgspec.Struct)


class StoredRounds(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `rounds`; the fields are those of KnownRounds."""

    pending: tuple[PlacedRound, ...] = ()
    floor_known: int = 0


class StoredCopied(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `copied`."""

    whole_from: int = 0


def read_rounds(disk: Disk, directory: str) -> StoredRounds | None:
    """Return what was stored, nothing if there is no file, None if it was torn. Raise OSError,
    NewerFormat."""
    return _read(disk, f"{directory}/{ROUNDS_FILE}", StoredRounds)


def read_whole_from(disk: Disk, directory: str) -> int:
    """Return KnownRounds.whole_from as it was stored. Raise OSError, NewerFormat; CorruptLog if it can't
    be read: the file was durable before it had its name, so its bytes rotted."""
    path = f"{directory}/{COPIED_FILE}"
    stored = _read(disk, path, StoredCopied)
    if stored is None:
        raise CorruptLog(f"{path}: title or CRC does not match")
    return stored.whole_from


class RoundFile:
    """`rounds` is what the log knows, and what this keeps."""

    __slots__ = ("_disk", "_health", "_is_unsynced", "_stored", "_whole_from", "rounds")

    def __init__(self, disk: Disk, health: LogHealth, rounds: KnownRounds) -> None:
        self._disk = disk
        self._health = health
        self._stored = _content(rounds)
        self._whole_from = rounds.whole_from
        self._is_unsynced = False
        self.rounds = rounds

    @property
    def _path(self) -> str:
        return f"{self._health.path}/{ROUNDS_FILE}"

    def write(self) -> None:
        """Write the rounds, to the page cache, if the file says something else. Raise LogError."""
        content = _content(self.rounds)
        if content != self._stored:
            with self._health.guarded("writing rounds of"):
                replace(self._disk, self._path, _encoded(content))
            self._stored, self._is_unsynced = content, True

    def note_told(self, told: Compacted, *, log_start_offset: int, log_end_offset: int) -> None:
        """See LogPort.note_compacted. A log that has come to the end that it is told of was copied while
        nothing was gone below that, so nothing has to be stored."""
        rounds = self.rounds
        rounds.on_told(told, log_start_offset=log_start_offset, log_end_offset=log_end_offset)
        if log_end_offset < told.end_offset and rounds.whole_from > self._whole_from:
            copied = StoredCopied(whole_from=rounds.whole_from)
            with self._health.guarded("writing rounds of"):
                replace_durably(self._disk, f"{self._health.path}/{COPIED_FILE}", _encoded(copied))
            self._whole_from = rounds.whole_from
        self.write()

    def clear(self) -> None:
        """Forget all: the log starts over."""
        self.rounds.clear()
        self.write()
        path = f"{self._health.path}/{COPIED_FILE}"
        if self._whole_from and self._disk.exists(path):
            with self._health.guarded("writing rounds of"):
                self._disk.unlink(path)
        self._whole_from = 0

    def fsync(self) -> bool:
        """Make the file durable. Return whether the directory must be fsynced, too. Thread. Raise OSError."""
        if not self._is_unsynced:
            return False
        self._is_unsynced = False  # a write from now on needs another fsync
        fsync_file(self._disk, self._path)
        return True

    def on_syncing(self) -> None:
        """The caller is about to make everything durable. Thread."""
        self._is_unsynced = False

    def settle(self) -> None:
        """Ensure, after a recovery, that the file says durably what is known. Raise OSError."""
        if read_rounds(self._disk, self._health.path) == self._stored:
            self._is_unsynced = self._disk.exists(self._path)  # the last process may not have synced it
        else:
            replace_durably(self._disk, self._path, _encoded(self._stored))


def _content(rounds: KnownRounds) -> StoredRounds:
    return StoredRounds(pending=rounds.pending, floor_known=rounds.floor_known)


def _read(disk: Disk, path: str, kind: type[T]) -> T | None:
    encoded = read_whole(disk, path, bytes_max=BYTES_MAX)
    if encoded is None:
        return kind()
    try:
        return msgspec.json.decode(without_title(ROUNDS_FILE, encoded), type=kind)
    except (CorruptTitle, msgspec.DecodeError):
        return None


def _encoded(content: StoredRounds | StoredCopied) -> bytes:
    return with_title(ROUNDS_FILE, msgspec.json.encode(content))
