"""Seeded runs of a query whose topic is made again: nothing is lost silently; and planted bugs are found."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.pipeline_sim.source_plants import SOURCE_PLANTS
from tests.pipeline_sim.source_simulation import run_source_seed

SEEDS = 400
HUNTED_SEEDS = 400


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each accepted loss is a warning, thousands of them here."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def test_a_topic_made_again_is_an_error_or_read_whole_whenever_it_happens() -> None:
    marks: Counter[str] = Counter()
    losses = rows = 0
    for seed in range(SEEDS):
        verdict = run_source_seed(seed)
        assert not verdict.failure, f"seed {seed}: {verdict}"
        marks.update(verdict.marks)
        losses += bool(verdict.loss)
        rows += verdict.rows
    assert rows > 10_000
    assert SEEDS // 5 < losses < SEEDS // 2, "half of the queries accept losses"
    for reached in ("make again", "metadata behind", "DriverDied", "run again", "RetriesExhausted"):
        assert marks[reached] > SEEDS // 10, f"hardly a run came to: {reached}"


@pytest.mark.parametrize("name", SOURCE_PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    plant = SOURCE_PLANTS[name]
    assert any(run_source_seed(seed, plant=plant).failure for seed in range(HUNTED_SEEDS))
