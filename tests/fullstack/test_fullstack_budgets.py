"""Consumers with small limits read everything; a leader that charges them for empty partitions is found."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

from dataplane.core.fetches import Fetch
from dataplane.shell.fetches import Fetches
from tests.fullstack.run import run_seed
from tests.simulation.planted import planted
from tests.simulation.planted.plant import Patches

OVERHEAD_BYTES = 64


def empty_partitions_are_charged() -> Patches:
    """An evaluation looks at as many partitions as the client's limit pays for."""
    original = Fetches._evaluate

    def evaluate(self: Fetches, fetch: Fetch, now_ms: int) -> Any:
        due = fetch.session._due
        fetch.session._due = dict(islice(due.items(), -(-fetch.max_bytes // OVERHEAD_BYTES)))
        try:
            return original(self, fetch, now_ms)
        finally:
            fetch.session._due |= {key: one for key, one in due.items() if key not in fetch.session._due}

    return [(Fetches, "_evaluate", evaluate)]


def test_empty_partitions_that_are_charged_to_a_small_limit_are_found() -> None:
    assert not run_seed(1, faults_ms=3_000).failures
    with planted(SimpleNamespace(patches=empty_partitions_are_charged)):
        assert any(run_seed(seed, faults_ms=3_000).failures for seed in (1, 2, 3))
