"""Placement and plans beside the naive round robin."""

from __future__ import annotations

import pytest

from bench.placement import compare, main


def test_placement_is_never_worse_than_the_naive_round_robin_and_plans_copy_far_less() -> None:
    compared = compare()
    naive, ours = compared["naive"], compared["springtide"]
    assert max(ours.replicas, ours.leaders) <= 1 < min(naive.replicas, naive.leaders)
    assert (ours.on_one_host, ours.in_one_rack) == (0, 0)
    assert naive.on_one_host > 0
    assert ours.heir[0] < naive.heir[0] / 3
    assert ours.added < naive.added / 3
    assert ours.drained < naive.drained / 3
    assert ours.drained == pytest.approx(100 / 12, abs=1), "what one of twelve brokers holds"


def test_the_command_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["|", "|", "naive", "|", "springtide", "|"]
    assert len(lines) == 9
    assert len({len(line) for line in lines}) == 1
