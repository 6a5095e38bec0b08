"""S75 (the audit's clock leaps): the controller's wall clock leaps by days. What it deletes by time stays; a
careless one is found."""

from __future__ import annotations

import pytest

from springtide.contract.agreed_time import AgreedTime
from tests.fullstack.options import Options
from tests.fullstack.run import Result, run_seed
from tests.simulation.kinds_clocks import HOUR_MS
from tests.simulation.schedule import Strike

ACTIVE = "controller-0"
STRIKES = tuple(
    Strike(
        at_ms, "leap_controller_clock", {"controller": "controller-0", "ahead_ms": ahead_ms, "for_ms": 3_000}
    )
    for at_ms, ahead_ms in (
        (6_000, 8 * 24 * HOUR_MS),
        (11_000, -400 * 24 * HOUR_MS),
        (16_000, 400 * 24 * HOUR_MS),
    )
)


def leap_thrice() -> Result:
    return run_seed(1, faults_ms=20_000, options=Options(churn=True), strikes=STRIKES)


def test_a_controllers_clock_that_leaps_deletes_nothing() -> None:
    result = leap_thrice()
    assert not result.failures, result.report()
    assert len(result.strikes) == len(STRIKES)


def test_its_own_clock_believed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgreedTime, "expiry_ms", lambda self, *, wall_ms, mono_ms: wall_ms)
    (failure,) = leap_thrice().failures
    assert "I36: deleted by time" in failure
    assert "audit" in failure
    assert "idempotency_keys" in failure
