"""What a planted bug is, and how it is put into the product and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from unittest.mock import patch

#: (owner, name of an attribute that it has, what stands there instead).
Patches = list[tuple[Any, str, Any]]


class HasPatches(Protocol):
    @property
    def patches(self) -> Callable[[], Patches]: ...


@dataclass(frozen=True, slots=True)
class Plant:
    """breaks: the rule of docs/replication.md. seen: where the field met it. scenarios: numbers of those that
    are made for it, played first. seeds_max: it must be found by the first so many random seeds at last.
    family: half of the strikes of those seeds are of this family of faults (schedule.FAMILIES). coordinators:
    how many those seeds have. compacted: their topics are. walks: the random walk that those seeds are of
    (random_walks.WALKS, or WHOLE_SYSTEM)."""

    name: str
    breaks: str
    seen: str
    scenarios: tuple[str, ...]
    seeds_max: int
    patches: Callable[[], Patches]
    family: str = ""
    coordinators: int = 0
    compacted: bool = False
    walks: str = ""


PLANTS: list[Plant] = []


def plant(
    *,
    breaks: str,
    seen: str,
    scenario: str = "",
    seeds_max: int = 60,
    family: str = "",
    coordinators: int = 0,
    compacted: bool = False,
    walks: str = "",
) -> Callable[[Callable[[], Patches]], Plant]:
    """Registers the decorated function, which makes the patches, under its name.
    scenario: numbers, such as "S7 S8"."""

    def add(patches: Callable[[], Patches]) -> Plant:
        numbers = tuple(scenario.split())
        made = Plant(
            patches.__name__,
            breaks,
            seen,
            numbers,
            seeds_max,
            patches,
            family,
            coordinators,
            compacted,
            walks,
        )
        PLANTS.append(made)
        return made

    return add


@contextmanager
def planted(bug: HasPatches) -> Iterator[None]:
    """The product with the bug, for the length of the block, in this process."""
    patches = [patch.object(owner, name, value) for owner, name, value in bug.patches()]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
