"""What can happen to a file while its process is down: a flipped bit, a cut end, the loss of the file."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Wound = Callable[[Path, random.Random], str]
"""Changes one file, and returns in a few words what it did."""


def flip_bit(path: Path, draw: random.Random) -> str:
    """Flip one bit anywhere in the file."""
    content = bytearray(path.read_bytes())
    place, bit = draw.randrange(len(content)), draw.randrange(8)
    content[place] ^= 1 << bit
    with path.open("r+b") as file:  # in place: the inode stays, as on a medium that rots
        file.write(content)
    return f"bit {bit} of byte {place} of {len(content)} flipped"


def cut_end(path: Path, draw: random.Random) -> str:
    """Cut the file off somewhere, as a file system does that lost its last blocks."""
    size = path.stat().st_size
    kept = draw.randrange(size)
    with path.open("r+b") as file:
        file.truncate(kept)
    return f"cut from {size} to {kept} bytes"


def lose(path: Path, _draw: random.Random) -> str:
    """Remove the file."""
    path.unlink()
    return "removed"


WOUNDS: dict[str, Wound] = {"flipped bit": flip_bit, "truncated": cut_end, "lost": lose}


def flip_bit_of_a_row(path: Path) -> None:
    """Flip one bit of the hash of the audit's first chained row, where SQLite reads it. A page may also hold
    remains of it that nobody reads. Raise RuntimeError if there is no such row."""
    found = _first_hash(path)
    if found is None:
        raise RuntimeError(f"{path} has no chained row")
    content = path.read_bytes()
    place = content.find(found.encode())
    while place >= 0:
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        if _first_hash(path) != found:
            return
        place = content.find(found.encode(), place + 1)
    raise RuntimeError(f"{path} does not hold what SQLite reads from it")


def _first_hash(path: Path) -> str | None:
    with closing(
        sqlite3.connect(path)
    ) as database:  # closing it also writes the log of a killed process back
        row = database.execute("SELECT hash FROM audit WHERE hash IS NOT NULL ORDER BY id LIMIT 1").fetchone()
    return None if row is None else str(row[0])
