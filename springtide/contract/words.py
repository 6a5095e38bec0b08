"""Words that travel between processes of two releases.

A later release may say a word that this one does not know. It must not spoil the message that it stands in:
one that can't be read is no answer, and a broker without answers goes quiet when its lease ends. Such a word
becomes UNKNOWN, which the receiver takes for a refusal, to be asked again. What is stored keeps its words: a
row with one that this release does not know is not read, and none with UNKNOWN is written (`known`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self, TypeVar

import msgspec


class UnknownWord(msgspec.ValidationError):
    """A row has a word that this release does not know."""


class WireWord(StrEnum):
    """A word with a member UNKNOWN, for those of later releases."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls["UNKNOWN"] if isinstance(value, str) else None


Word = TypeVar("Word", bound=WireWord)


def known(word: Word) -> Word:
    """Return the word as a row may hold it. Raise UnknownWord if it is not known."""
    if word.name == "UNKNOWN":
        raise UnknownWord(f"a row holds a {type(word).__name__} that this release does not know")
    return word
