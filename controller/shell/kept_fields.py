"""Whether a row that was read would be written again as it is (docs/upgrades.md, U1).

What a release does not know of a row it would drop at its next write, without a word: the fields of a later
one. So a controller stands for a cluster only if encoding what it read gives back all that it read. A word
that it does not know is the same thing: the row is sound, and another release wrote it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from springtide.contract.words import UnknownWord
from springtide.levels import NEWEST, RELEASES

_UNKNOWN_WORD: Final = "Invalid enum value"
_WORD: Final = re.compile(r"[a-z_]{1,64}")


class UnreadableRows(Exception):
    """This controller can't serve a cluster as its znodes are; the others it can."""


class WrittenByNewer(UnreadableRows):
    """A row has a field or a word that this release does not know: another one must serve the cluster."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} {what}: a later release wrote it. Run controllers of that release instead of this one: "
            "they serve the cluster again, and nothing of it was changed"
        )


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Read the row at a path. Raise WrittenByNewer if a word in it is not known; other faults as they are."""
    try:
        yield
    except msgspec.ValidationError as error:
        if isinstance(error, UnknownWord) or str(error).startswith(_UNKNOWN_WORD):
            raise WrittenByNewer(path, f"has a word that this release does not know: {error}") from error
        raise


def check_kept(path: str, data: bytes | msgspec.Raw, encoded: bytes) -> None:
    """Check that what was read of a row is in what would be written. Raise WrittenByNewer. Equal bytes cost
    nothing; others may only have more, as where a row of an earlier release lacks fields."""
    if encoded == data:
        return
    lost = _lost(msgspec.json.decode(data), msgspec.json.decode(encoded), "")
    if lost is not None:
        raise WrittenByNewer(path, f"has `{lost}`, which this release, {RELEASES[NEWEST]}, would lose")


def _lost(read: Any, kept: Any, where: str) -> str | None:
    """Return where the first value is that was read and would not be written; None if there is none."""
    if isinstance(read, dict) and isinstance(kept, dict):
        for name, value in read.items():
            inside = f"{where}.{name}" if where else name
            lost = _lost(value, kept[name], inside) if name in kept else inside
            if lost is not None:
                return lost
        return None
    if isinstance(read, list) and isinstance(kept, list) and len(read) == len(kept):
        for index, (value, other) in enumerate(zip(read, kept, strict=True)):
            lost = _lost(value, other, f"{where}[{index}]")
            if lost is not None:
                return lost
        return None
    if read == kept:
        return None
    # A word that is read as UNKNOWN; any other value may be a secret.
    return f"{where} = {read!r}" if isinstance(read, str) and _WORD.fullmatch(read) else where
