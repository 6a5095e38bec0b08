"""Seeds of random walks of machines and of a leader (tests/kit), and of the whole system, for teeth.py."""

from __future__ import annotations

import traceback

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.fullstack.run import run_seed
from tests.kit.coordinator.consumer_walk import ConsumerWalk
from tests.kit.coordinator.group_walk import GroupWalk
from tests.kit.coordinator.pending_walk import PendingWalk
from tests.kit.coordinator.transaction_walk import TransactionWalk
from tests.kit.dataplane.marker_walk import MarkerWalk

WALKS: dict[str, type[RuleBasedStateMachine]] = {
    "groups": GroupWalk,
    "consumer groups": ConsumerWalk,
    "pending offsets": PendingWalk,
    "transactions": TransactionWalk,
    "markers": MarkerWalk,
}
WHOLE_SYSTEM = "the whole system"
"""In virtual time: a seed of tests/fullstack."""
FAULTS_MS = 3_000
TIMES = 20
STEPS = 40


def walk_failure(name: str, seed: int) -> tuple[str, str] | None:
    """Walk TIMES times, or run the whole system once. Return (rule, what failed), or None: "walk", where what
    must hold does not; else the crash, as the simulation writes one."""
    if name == WHOLE_SYSTEM:
        failure = next(iter(run_seed(seed, faults_ms=FAULTS_MS).failures), None)
        return None if failure is None else ("" if failure.startswith("crash") else "walk", failure)
    walk = hypothesis.seed(seed)(type("SeededWalk", (WALKS[name],), {}))
    try:
        run_state_machine_as_test(
            walk,
            settings=settings(
                max_examples=TIMES,
                stateful_step_count=STEPS,
                phases=[Phase.generate],
                database=None,
                verbosity=Verbosity.quiet,
                deadline=None,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except AssertionError as error:
        return "walk", f"walk: {error}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        return f"crash {kind}", f"crash {kind}: {error} ({last.filename}:{last.lineno})"
    return None
