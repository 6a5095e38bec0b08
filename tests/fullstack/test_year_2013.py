"""The schedule of 2013 on whole brokers: ours loses nothing, and without the promise it shows."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec import structs

from tests.checker.verdict import Kind
from tests.fullstack.run import Result
from tests.fullstack.year_2013 import BROKERS, RECORDS, part_of, run_2013

pytestmark = pytest.mark.proof

SEED = 2013


@pytest.fixture(scope="module")
def ours() -> Result:
    return run_2013(SEED, is_control=False)


@pytest.fixture(scope="module")
def control() -> Result:
    return run_2013(SEED, is_control=True)


def test_with_our_defaults_nothing_is_lost(ours: Result) -> None:
    assert not ours.failures, ours.report()
    assert ours.options.topic_configs() == {}
    assert ours.options.min_insync_replicas == BROKERS // 2 + 1
    assert ours.figures["total"] == RECORDS
    assert ours.figures["read"] >= ours.figures["acknowledged"] > 0.9 * RECORDS
    assert ours.figures["lost"] == 0
    assert ours.elections > 0, "the leader that was cut off was replaced"


def test_without_the_promise_records_are_lost_and_each_was_put_aside(control: Result) -> None:
    assert not control.failures, control.report()
    assert control.verdict is not None
    assert 0 < control.lost == control.verdict.bad[Kind.LOST_ACKED] == control.hidden
    named = [anomaly for anomaly in control.verdict.anomalies if anomaly.kind is Kind.LOST_ACKED]
    assert all("divergent" in anomaly.explanation for anomaly in named)


def test_the_part_has_both_and_fails_when_the_control_finds_nothing(ours: Result, control: Result) -> None:
    part = part_of(ours, control, seconds=1.0)
    assert part.is_ok, part.failures
    assert part.figures["total"] == part.figures["control: total"] == RECORDS
    assert part.figures["acknowledged"] == ours.acked
    assert part.figures["read"] == ours.figures["read"]
    assert part.figures["lost"] == part.lost == 0
    assert part.figures["control: lost"] == control.lost
    blind = part_of(ours, ours, seconds=1.0)
    assert not blind.is_ok
    lossy = part_of(control, control, seconds=1.0)
    assert not lossy.is_ok
    assert lossy.lost == control.lost
    assert control.verdict is not None
    figures = structs.replace(control.verdict.figures, hidden=control.lost - 1)
    silent = dataclasses.replace(control, verdict=structs.replace(control.verdict, figures=figures))
    assert not part_of(ours, silent, seconds=1.0).is_ok, "a record is gone without a trace"
