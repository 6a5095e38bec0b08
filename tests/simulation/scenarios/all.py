"""Every scenario that is played on the simulated cluster."""

from __future__ import annotations

from tests.simulation.scenarios import (
    controllers,
    creation,
    elections,
    hosts,
    in_sync,
    kept,
    maintenance,
    producers,
    reassignment,
    rot,
    shards,
    silence,
    topics,
    truncation,
)
from tests.simulation.scenarios.registry import REGISTERED

__all__ = [
    "SCENARIOS",
    "controllers",
    "creation",
    "elections",
    "hosts",
    "in_sync",
    "kept",
    "maintenance",
    "producers",
    "reassignment",
    "rot",
    "shards",
    "silence",
    "topics",
    "truncation",
]

SCENARIOS = tuple(sorted(REGISTERED, key=lambda each: (int(each.number[1:]), each.name)))
