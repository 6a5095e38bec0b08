"""Rounds of compaction under faults: replicas end equal, and a planted bug does not get by."""

from __future__ import annotations

import pytest

from tests.kit.dataplane.replica import log_of
from tests.kit.memory.log import MemoryLog
from tests.simulation.compaction import unlike
from tests.simulation.options import draw_options
from tests.simulation.planted import PLANTS
from tests.simulation.run import run_seed
from tests.simulation.teeth import hunt

COMPACTED = [seed for seed in range(60) if draw_options(seed).compacted]


@pytest.mark.parametrize("seed", COMPACTED)
def test_replicas_are_equal_after_the_rounds_that_they_applied_under_faults(seed: int) -> None:
    verdict = run_seed(seed)
    assert verdict.failure is None, verdict.report()
    assert verdict.acked > 0
    assert verdict.marks["round.applied"] >= verdict.marks["round.decided"] > 0


@pytest.mark.parametrize("name", ["no_restart_below_the_floor", "full_map_goes_unnoticed"])
def test_a_planted_bug_of_compaction_is_found(name: str) -> None:
    (bug,) = (bug for bug in PLANTS if bug.name == name)
    assert hunt(bug).rule == "I35"


def test_only_below_where_a_log_was_compacted_may_batches_be_gone_or_smaller() -> None:
    committed = headers = MemoryLog.headers(log_of(1, 1, 1, 2), 0, 4)
    left = [headers[0]._replace(record_count=0, crc=7, batch_length=49), headers[2], headers[3]]
    assert unlike(committed, 0, left, compacted_to=2) == (4, None)
    assert unlike(committed, 0, left, compacted_to=1) == (1, headers[2])
    assert unlike(committed, 0, left, compacted_to=0) == (0, left[0])
    other = headers[1]._replace(leader_epoch=0, record_count=0)
    assert unlike(committed, 0, [headers[0], other], compacted_to=4) == (1, other)
