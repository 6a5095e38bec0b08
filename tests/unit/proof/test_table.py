"""The table shows what failed and what did not run; nothing passes by being absent."""

from __future__ import annotations

from pathlib import Path

from tests.fullstack.faults import ALL as WHOLE_SYSTEM
from tests.proof.families import render_families
from tests.proof.part import Part, load_all, save
from tests.proof.plan import (
    SEEDS_APART,
    TURNS,
    Profile,
    committed_seed,
    drawn_seed,
    exploring,
    missing,
    of_turn,
    steps,
)
from tests.proof.table import render, shown
from tests.simulation.schedule import CORES_ONLY, FAMILIES, KINDS

GOOD = Part(
    name="tier-a",
    seconds=60.4,
    figures={"seeds": 3000, "simulated hours": 100.25},
    faults={"kill": 7, "cut": 5},
)
BAD = Part(name="tier-c", seconds=300.0, figures={}, faults={"kill": 1}, failures=["seed 4: I1"], lost=2)


def test_a_part_is_read_back_as_it_was_left_and_replaces_its_predecessor(tmp_path: Path) -> None:
    save(BAD, tmp_path)
    save(GOOD, tmp_path)
    save(GOOD, tmp_path)
    assert load_all(tmp_path) == [GOOD, BAD]


def test_losses_and_failures_are_no_success() -> None:
    assert GOOD.is_ok
    assert not BAD.is_ok
    assert not Part(name="x", seconds=1, figures={}, lost=1).is_ok
    assert not Part(name="x", seconds=1, figures={}, inconsistent=1).is_ok


def test_the_table_adds_up_and_names_what_failed_or_did_not_run() -> None:
    text = render([GOOD, BAD], ["tier-b"], subject="tree 1")
    assert "It does not hold" in text
    assert "- tier-c: seed 4: I1" in text
    assert "- tier-b: did not run to its end" in text
    (total,) = [line for line in text.splitlines() if line.startswith("| all ")]
    assert [cell.strip() for cell in total.strip("|").split("|")] == [
        "all",
        "FAILED",
        "360",
        "13",
        "2",
        "2",
        "0",
    ]
    assert "| kill | 7 | 1 |" in " ".join(text.split()).replace(" |", " |")


def test_a_clean_table_says_so() -> None:
    text = render([GOOD], [], subject="tree 1")
    assert "FAILED" not in text
    assert "does not hold" not in text


def test_figures_are_shown_to_be_compared() -> None:
    assert [shown(v) for v in (1234567, 0.12345, 98765.4, "x")] == ["1,234,567", "0.123", "98,765", "x"]


def test_a_commit_is_gated_on_the_seed_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "seeds"
    path.write_text("# why\n\n42\n")
    assert committed_seed(path) == 42
    assert committed_seed() >= 0


def test_drawn_seeds_do_not_share_what_follows_them() -> None:
    drawn = [drawn_seed() for _ in range(8)]
    assert len(set(drawn)) > 1
    assert all(seed % SEEDS_APART == 0 for seed in drawn)


def test_a_round_of_exploring_names_its_seed_in_every_step() -> None:
    for step in exploring(770_000, jobs=2):
        assert any("770000" in argument for argument in step.arguments), step


def test_every_profile_runs_every_part_and_what_is_absent_is_told() -> None:
    ci, full = (steps(profile, 1, jobs=2) for profile in Profile)
    assert [step.parts for step in ci] == [step.parts for step in full]
    assert missing(ci, lambda name: name != "teeth") == ["teeth"]


def test_what_runs_in_turns_has_all_run_after_three_of_them() -> None:
    whole = steps(Profile.CI, 1, jobs=2)
    turns = [steps(Profile.CI, 1, jobs=2, turn=turn) for turn in range(TURNS)]
    assert {part for turn in turns for step in turn for part in step.parts} == {
        part for step in whole for part in step.parts
    }
    assert max(map(len, turns)) < 0.7 * len(whole)
    assert sorted(bug for turn in range(TURNS) for bug in of_turn(range(7), turn)) == list(range(7))
    always = {"tier-a", "tier-b", "teeth", "tier-c", "crash-states", "2013-real"}
    for turn in turns:
        assert always <= {part for step in turn for part in step.parts}


def test_each_family_of_faults_has_a_row_with_what_each_tier_tried_and_lost() -> None:
    cores = Part(
        name="family-clocks", seconds=1, figures={"seeds": 60}, faults={"leap_clock": 7, "kill_broker": 5}
    )
    whole = Part(name="tier-b", seconds=1, figures={"seeds": 40}, faults={"leap_clock": 2, "rot_at_rest": 3})
    real = Part(name="real-clocks", seconds=1, figures={}, faults={"clock leaps": 4}, lost=1)
    rows = {}
    for line in render_families([cores, whole, real]).splitlines():
        family, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[family] = cells
    assert set(FAMILIES.values()) < set(rows)
    assert rows[FAMILIES["clocks"]] == ["60", "7", "40", "2", "4", "1", "0"]
    assert rows[FAMILIES["rot"]] == ["-", "-", "40", "3", "-", "0", "0"]


def test_each_family_strikes_on_the_cores_and_in_whole_processes() -> None:
    for family in FAMILIES:
        assert any(kind.family == family for kind in KINDS.values()), family
        assert family in CORES_ONLY or any(kind.family == family for kind in WHOLE_SYSTEM.values()), family
