"""The table shows what failed and what did not run; nothing passes by being absent."""

from __future__ import annotations

from pathlib import Path

from tests.proof.part import Part, load_all, save
from tests.proof.plan import Profile, first_seed, missing, steps, third_of
from tests.proof.table import render, shown

TREE = "3f0c2b5a9d8e7f60112233445566778899aabbcc"
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


def test_seeds_follow_from_the_tree_and_trees_do_not_share_them() -> None:
    assert first_seed(TREE) == first_seed(TREE)
    assert abs(first_seed(TREE) - first_seed("4" + TREE[1:])) >= 10_000
    assert {third_of(f"{0:012x}{n:08x}") for n in range(3)} == {0, 1, 2}


def test_every_profile_runs_every_part_and_the_full_one_plants_every_bug() -> None:
    ci, full = (steps(profile, TREE, jobs=2) for profile in Profile)
    assert [step.parts for step in ci] == [step.parts for step in full]
    assert not any("--third" in step.arguments for step in full)
    assert missing(ci, lambda name: name != "teeth") == ["teeth"]
