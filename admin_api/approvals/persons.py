"""The test whether two actors are two persons, as far as their names tell. Pure.

A token's name is verified. Where tokens are not used, a name is a claim (`unverified:alice@10.0.0.7`). The
claimed name counts alone, without the address. An actor that gave no name is not identified.
"""

from __future__ import annotations

from typing import Final

_CLAIM: Final = "unverified:"
_ANONYMOUS: Final = "anonymous"


def name_of(actor: str) -> str | None:
    """Return the actor's name, or None if the actor gave none."""
    if actor == _ANONYMOUS or actor.startswith(f"{_ANONYMOUS}@"):
        return None
    if actor.startswith(_CLAIM):
        return actor.removeprefix(_CLAIM).rpartition("@")[0]
    return actor


def are_two_persons(one: str, other: str) -> bool:
    """Return whether the names are of two persons. Names that differ only in case are the same."""
    first, second = name_of(one), name_of(other)
    return first is not None and second is not None and first.casefold() != second.casefold()
