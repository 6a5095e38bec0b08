"""Every scenario that is played on the simulated cluster."""

from __future__ import annotations

from tests.simulation.scenarios import in_sync
from tests.simulation.scenarios.registry import REGISTERED

__all__ = ["SCENARIOS", "in_sync"]

SCENARIOS = tuple(sorted(REGISTERED, key=lambda each: (int(each.number[1:]), each.name)))
