"""Operators at the REST API while faults strike: what they began must end, and a seed stays a seed."""

from __future__ import annotations

import pytest

from tests.fullstack.__main__ import digest_elsewhere
from tests.fullstack.options import Options
from tests.fullstack.run import run_seed

FAULTS_MS = 8_000
SEED = 7_200_005
"""Its options say that replicas are moved, that somebody plans, and that a broker waits to be added."""
PLANNING = Options(brokers=4, controllers=2, partitions=2, maintains=True, plans=True, spare=True, churn=True)


def test_operations_end_whatever_strikes() -> None:
    options = Options(brokers=5, controllers=2, maintains=True, churn=True)
    result = run_seed(11, faults_ms=FAULTS_MS, options=options)
    assert not result.failures, result.report()
    assert result.strikes
    assert result.operations["succeeded"] > 2


@pytest.mark.parametrize("seed", [120, 124])
def test_drains_plans_factors_and_additions_end_whatever_strikes(seed: int) -> None:
    result = run_seed(seed, faults_ms=FAULTS_MS, options=PLANNING)
    assert not result.failures, result.report()
    assert result.strikes
    kinds = result.operation_kinds
    assert kinds["broker_add succeeded"] > 0, "the spare broker is taken in at the end at the latest"
    planned = ("broker_drain", "plan_execution", "replication_factor_change")
    assert sum(count for kind, count in kinds.items() if kind.startswith(planned)) > 2


def test_a_seed_that_moves_replicas_replays_in_another_process() -> None:
    first = run_seed(SEED, faults_ms=FAULTS_MS)
    assert first.options.maintains and first.options.plans and first.options.spare
    assert not first.failures, first.report()
    assert digest_elsewhere(SEED, faults_ms=FAULTS_MS) == first.digest
