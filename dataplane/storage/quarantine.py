"""The note about a log that was set aside: a file in its directory, written before the log is moved.

With the file, a log that was durable to its end when it was set aside can be taken up again
(docs/replication.md 11.5). A directory without the file, or whose file says that it is not whole, is for a
person to look at.
"""

from __future__ import annotations

from typing import Final

import msgspec

from controller.contract.holdings import SetAsideLog
from dataplane.storage.disk import Disk, read_whole, replace_durably, stored_bytes, unlink_durably

DESCRIPTION_FILE: Final = "set-aside.json"
DESCRIPTION_BYTES_MAX: Final = 1024 * 1024


class SetAsideNote(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content. recovery_point: how far the log is durable."""

    log: SetAsideLog
    recovery_point: int = 0


def write_note(disk: Disk, directory: str, note: SetAsideNote) -> None:
    """Durable when it returns. Raises OSError."""
    replace_durably(disk, f"{directory}/{DESCRIPTION_FILE}", msgspec.json.encode(note))


def read_note(disk: Disk, directory: str) -> SetAsideNote | None:
    """None if there is none, or none that can be read. Raises OSError."""
    encoded = read_whole(disk, f"{directory}/{DESCRIPTION_FILE}", bytes_max=DESCRIPTION_BYTES_MAX)
    if encoded is None:
        return None
    try:
        return msgspec.json.decode(encoded, type=SetAsideNote)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None


def remove_note(disk: Disk, directory: str) -> None:
    """Durable when it returns. Raises OSError."""
    unlink_durably(disk, f"{directory}/{DESCRIPTION_FILE}")


def replace_note(note: SetAsideNote, **changes: object) -> SetAsideNote:
    """The note with other words about its log."""
    return msgspec.structs.replace(note, log=msgspec.structs.replace(note.log, **changes))


def size_of(disk: Disk, directory: str) -> int:
    """Bytes in a directory's files. Raises OSError."""
    paths = (f"{directory}/{name}" for name in disk.listdir(directory))
    return sum(stored_bytes(disk, path) for path in paths if not disk.is_dir(path))
