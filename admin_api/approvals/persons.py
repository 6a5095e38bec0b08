"""Whether two actors are two persons, as far as their names tell. Pure.

A token's name is verified. Where tokens are not used, a name is a claim (`unverified:alice@10.0.0.7`): it
counts by itself, whatever address it came from, and whoever gave none may be anybody.
"""

from __future__ import annotations

from typing import Final

_CLAIM: Final = "unverified:"
_ANONYMOUS: Final = "anonymous"


def name_of(actor: str) -> str | None:
    """None: the actor gave no name."""
    if actor == _ANONYMOUS or actor.startswith(f"{_ANONYMOUS}@"):
        return None
    if actor.startswith(_CLAIM):
        return actor.removeprefix(_CLAIM).rpartition("@")[0]
    return actor


def are_two_persons(one: str, other: str) -> bool:
    """Names that differ in case alone are one."""
    first, second = name_of(one), name_of(other)
    return first is not None and second is not None and first.casefold() != second.casefold()
