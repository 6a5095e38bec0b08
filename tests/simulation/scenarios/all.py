"""Every scenario that is played on the simulated cluster."""

from __future__ import annotations

from tests.simulation.scenarios import elections, in_sync, producers, truncation
from tests.simulation.scenarios.registry import REGISTERED

__all__ = ["SCENARIOS", "elections", "in_sync", "producers", "truncation"]

SCENARIOS = tuple(sorted(REGISTERED, key=lambda each: (int(each.number[1:]), each.name)))
