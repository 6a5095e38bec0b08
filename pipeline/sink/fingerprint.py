"""What must not change between two attempts of one micro-batch, so that a change can be seen and explained.

The sink resumes by comparing rows with what is stored of the partition where they go. Whatever decides which
rows a task gets, where they go and how they are cut therefore belongs to the fingerprint. What only changes
bytes on the way (addresses, timeouts, compression) does not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

FORMAT = 2
"""Raised when this program itself begins to place or cut rows in another way."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """`parts` are names and values in order of name, so that a difference can be named."""

    parts: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        """32 hexadecimal digits."""
        encoded = json.dumps([FORMAT, self.parts], separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(encoded.encode()).hexdigest()[:32]

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """`name: theirs -> ours` of each part in which the two differ; `other` is theirs."""
        ours, theirs = dict(self.parts), dict(other.parts)
        return tuple(
            f"{name}: {theirs.get(name, 'absent')} -> {ours.get(name, 'absent')}"
            for name in sorted(ours.keys() | theirs.keys())
            if ours.get(name) != theirs.get(name)
        )


def fingerprint_of(parts: Mapping[str, str]) -> Fingerprint:
    """The fingerprint of named values."""
    return Fingerprint(tuple(sorted(parts.items())))
