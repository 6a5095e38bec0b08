"""Operators at the REST API while faults strike: what they began must end, and a seed stays a seed."""

from __future__ import annotations

from tests.fullstack.__main__ import digest_elsewhere
from tests.fullstack.options import Options
from tests.fullstack.run import run_seed

FAULTS_MS = 8_000
SEED = 7_200_005
"""Its options say that replicas are moved."""


def test_operations_end_whatever_strikes() -> None:
    options = Options(brokers=5, controllers=2, maintains=True, churn=True)
    result = run_seed(11, faults_ms=FAULTS_MS, options=options)
    assert not result.failures, result.report()
    assert result.strikes
    assert result.operations["succeeded"] > 2


def test_a_seed_that_moves_replicas_replays_in_another_process() -> None:
    first = run_seed(SEED, faults_ms=FAULTS_MS)
    assert first.options.maintains
    assert not first.failures, first.report()
    assert digest_elsewhere(SEED, faults_ms=FAULTS_MS) == first.digest
