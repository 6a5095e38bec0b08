"""A sweep fails for every reason that it has, and passes only when none of them holds."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.simulation import sweep as sweeps
from tests.simulation.marks import COMMON, DECLARED, Marks, missed
from tests.simulation.options import DENSE, SHAPES, draw_options, draw_shape, shape_of
from tests.simulation.planted import PLANTS, planted
from tests.simulation.run import run_seed
from tests.simulation.sweep import Plan, Sweep, Totals, table
from tests.simulation.twice import SecondRunFailed, compare, digests_of, sources_digest

SHORT = 110  # one of each twenty that run twice, and a short one


def test_a_sweep_counts_what_its_seeds_did() -> None:
    verdict = run_seed(SHORT)
    sweep = Sweep(Plan(first=SHORT, seeds=1, with_corpus=False), show=print)
    part = sweep.run()
    assert part.is_ok, part.failures
    assert part.name == "tier-a"
    assert part.figures["seeds"] == part.figures["runs compared with a second one"] == 1
    assert part.figures["events"] == verdict.events
    assert part.figures["records acknowledged"] == verdict.acked > 0
    assert part.faults == verdict.faults
    shape = draw_shape(SHORT)
    assert str(part.figures[shape.name]).startswith("1: ")
    assert 0 < verdict.under_faults_ms < verdict.simulated_ms
    assert verdict.under_faults_ms == sweep.totals.under_faults_ms
    assert sweep.totals.marks == verdict.marks
    assert "records lost, inconsistent" in table(part, marks=sweep.totals.marks)


def test_every_shape_is_drawn_and_known_by_its_options() -> None:
    drawn = [draw_shape(seed) for seed in range(300)]
    assert {drawn_shape.name for drawn_shape in drawn} == {shape.name for shape in SHAPES}
    for seed, shape in enumerate(drawn):
        assert shape_of(draw_options(seed)) is shape
        assert shape_of(draw_options(seed, DENSE)) is DENSE
    assert sum(shape.share for shape in SHAPES) == 100


def test_a_sweep_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "PROGRESS_SECONDS", 0.0)
    shown: list[str] = []
    Sweep(Plan(first=1, seeds=2, with_corpus=False), show=shown.append).run()
    assert len(shown) == 2
    assert "1 seeds" in shown[0] and "0 failed" in shown[0]
    assert shown[1].endswith(" 0 s to go")


def test_a_sweep_goes_on_until_it_has_simulated_its_hours() -> None:
    sweep = Sweep(Plan(first=0, seeds=1, hours=0.03, with_corpus=False), show=print)
    sweep.run()
    assert sweep.totals.seeds > 1
    assert sweep.totals.hours >= 0.03


def test_a_violation_fails_the_sweep_and_leaves_its_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[str] = []
    with planted(next(plant for plant in PLANTS if plant.name == "ack_before_replication")):
        part = Sweep(Plan(first=3, seeds=2, with_corpus=False), show=shown.append).run()
    assert not part.is_ok
    assert [failure[:10] for failure in sorted(part.failures)] == ["seed 3: I4", "seed 4: I4"]
    assert {path.name for path in Path("build/simulation").iterdir()} >= {"seed-3.json", "seed-4.txt"}
    assert shown[0].startswith("seed ")


def test_digests_that_differ_are_named_and_equal_ones_are_not() -> None:
    right = digests_of(run_seed(SHORT))
    assert compare({SHORT: right}, jobs=2, sources=sources_digest()) == []
    (found,) = compare({SHORT: ("another", right[1])}, jobs=1, sources=sources_digest())
    assert found.startswith(f"seed {SHORT} is not the same run twice")
    with pytest.raises(SecondRunFailed, match="source files changed"):
        compare({SHORT: right}, jobs=1, sources="earlier")


def test_a_mark_that_nothing_came_to_fails_a_sweep_that_is_large_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = Counter(DECLARED)
    assert missed(counts, seeds=10**6) == []
    del counts["leaderless"]
    assert missed(counts, seeds=COMMON) == ["leaderless"]
    assert missed(counts, seeds=COMMON - 1) == []
    monkeypatch.setattr(sweeps, "missed", lambda counts, *, seeds: ["leaderless"])
    part = Sweep(Plan(first=1, seeds=1, with_corpus=False), show=print).run()
    assert part.failures == ["no seed came to the mark leaderless"]


def test_a_mark_must_be_declared() -> None:
    marks = Marks()
    marks.reached("leaderless")
    marks.reached("leaderless")
    assert marks.counts == {"leaderless": 2}
    with pytest.raises(KeyError):
        marks.reached("leederless")


def test_lost_records_of_any_seed_are_lost_records_of_the_sweep() -> None:
    verdict = run_seed(1)
    assert verdict.checked is not None
    bad = dataclasses.replace(
        verdict,
        checked=msgspec.structs.replace(verdict.checked, lost=3),
        anomalies={"lost-acked": 3, "inconsistent-offsets": 2, "replicas-differ": 1},
    )
    totals = Totals()
    totals.add(verdict)
    totals.add(bad)
    assert (totals.lost, totals.inconsistent) == (3, 3)
