"""The titles of stored files, `<name> <version> <crc>`, and what a file of a later release means.

The version grows when a file's content changes; a release writes a new one only at a level that has it
(springtide/levels.py), and reads the versions up to it. A file of a higher version is sound, and only the
release that wrote it can say what it means: NewerFormat ends the start of the process, and the file is
neither deleted nor set aside. So that a flipped bit is not taken for a later release, the CRC covers name and
version, too, from version 2 on. Files in JSON have their version as a field (storage/checked_json.py).
"""

from __future__ import annotations

from crc32c import crc32c

from springtide.levels import NEWEST, RELEASES


class CorruptTitle(Exception):
    """The bytes are not what was written under this title."""


class NewerFormat(Exception):
    """A stored file, or a record in a log, is in a format of a later release. It is left as it is."""

    def __init__(self, name: str, version: object, *, known: int, release: str = "") -> None:
        by = f"release {release}" if release else "a later release"
        super().__init__(
            f"{name} is in format {version}, written by {by}; this is release {RELEASES[NEWEST]}, which "
            f"reads up to format {known}. It was left as it is: start the later release here again"
        )
        self._fields = (name, version, known, release)

    def at(self, place: str) -> NewerFormat:
        """Return the same, with the place that the file is in."""
        name, version, known, release = self._fields
        return NewerFormat(f"{place}: {name}", version, known=known, release=release)


def with_title(name: str, body: bytes, *, version: int = 1) -> bytes:
    """Return the file: its title with the CRC32C of the body, then the body."""
    return _title(name, body, version) + b"\n" + body


def without_title(name: str, encoded: bytes, *, known: int = 1) -> bytes:
    """Return what stands below the title. known: the highest version that is read. Raise CorruptTitle,
    NewerFormat."""
    title, newline, body = encoded.partition(b"\n")
    words = title.split(b" ")
    version = int(words[1]) if len(words) == 3 and words[1].isdigit() and len(words[1]) < 6 else 0
    if not newline or version < 1 or title != _title(name, body, version):
        raise CorruptTitle(f"{name}: title or CRC does not match")
    if version > known:
        raise NewerFormat(name, version, known=known)
    return body


def _title(name: str, body: bytes, version: int) -> bytes:
    told = f"{name} {version}".encode()
    return told + b" %08x" % (crc32c(body) if version == 1 else crc32c(body, crc32c(told)))
