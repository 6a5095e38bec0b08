"""What a search for moves is to reach, and what it found. Pure values."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.plan.load import RESOURCES, Level
from pipeline.plan.placement import Move


class Goal(NamedTuple):
    """resources: numbers of the loads that are to be even. target: highest load over mean; bytes are spent
    until it is reached. aim: what single steps go for, below the target so that they leave room."""

    resources: tuple[int, ...] = tuple(range(len(RESOURCES)))
    target: float = 1.1

    @property
    def aim(self) -> float:
        return 1.0 + 0.6 * (self.target - 1.0)


class Shortfall(NamedTuple):
    """A load that could not be evened out as far as was wanted, and why."""

    level: Level
    why: str


class Found(NamedTuple):
    """levels: before, after: of all loads, also those that were no goal. copied: bytes."""

    moves: tuple[Move, ...]
    before: tuple[Level, ...]
    after: tuple[Level, ...]
    copied: int
    shortfalls: tuple[Shortfall, ...]
