"""Bugs about what a small limit of a consumer buys, which the whole system in virtual time has to find: no
consumer of tier A has a limit."""

from __future__ import annotations

from itertools import islice
from typing import Any

from dataplane.core.fetches import Fetch, WaitingFetches
from tests.simulation.planted.plant import Patches, plant
from tests.simulation.random_walks import WHOLE_SYSTEM

OVERHEAD_BYTES = 64


@plant(
    breaks="KIP-74",
    seen="here: each empty partition costs a small limit 64 bytes, and no record is ever reached",
    seeds_max=3,
    walks=WHOLE_SYSTEM,
)
def empty_partitions_are_charged() -> Patches:
    """An evaluation looks at as many partitions as the client's limit pays for."""
    original = WaitingFetches._evaluate

    def evaluate(self: WaitingFetches, fetch: Fetch, now_ms: int) -> Any:
        due = fetch.session._due
        fetch.session._due = dict(islice(due.items(), -(-fetch.max_bytes // OVERHEAD_BYTES)))
        try:
            return original(self, fetch, now_ms)
        finally:
            fetch.session._due |= {key: one for key, one in due.items() if key not in fetch.session._due}

    return [(WaitingFetches, "_evaluate", evaluate)]
