"""Each planted bug still fits the product, and a find is what it says. All of them are hunted by teeth.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.planted import PLANTS, Plant, planted
from tests.simulation.scenarios.table import WHERE
from tests.simulation.schedule import FAMILIES
from tests.simulation.teeth import Hunt, Run, failure_without_bug, hunt, hunting_options, part_of, verdict_of

ROOT = Path(__file__).parents[2]
FAST = ("ack_before_replication", "followers_kept_over_epochs", "torn_batch_kept", "no_grace_after_takeover")


@pytest.mark.parametrize("bug", PLANTS, ids=lambda bug: bug.name)
def test_a_plant_replaces_what_is_there_and_puts_it_back(bug: Plant) -> None:
    patches = bug.patches()
    assert patches
    before = [getattr(owner, name) for owner, name, _ in patches]  # AttributeError: the plant is stale
    with planted(bug):
        during = [getattr(owner, name) for owner, name, _ in bug.patches()]
    after = [getattr(owner, name) for owner, name, _ in patches]
    assert before == after
    assert all(was is not now for was, now in zip(before, during, strict=True))


def test_the_plants_are_enough_and_name_what_exists() -> None:
    assert len(PLANTS) >= 36
    assert sum(bool(bug.coordinators or bug.walks) for bug in PLANTS) >= 20
    assert len({bug.name for bug in PLANTS}) == len(PLANTS)
    for bug in PLANTS:
        assert all(WHERE[number] == "sim" for number in bug.scenarios), bug.name
        assert bug.seeds_max > 0


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_each_family_of_faults_has_two_bugs_that_it_must_find(family: str) -> None:
    assert sum(bug.family == family for bug in PLANTS) >= 2 - (family == "host")


@pytest.mark.parametrize("name", FAST)
def test_a_planted_bug_is_found_by_the_scenario_made_for_it(name: str) -> None:
    bug = next(bug for bug in PLANTS if bug.name == name)
    found = hunt(bug)
    assert found.rule is not None
    assert found.by in bug.scenarios


def test_a_planted_bug_of_groups_is_found_by_the_walk_of_their_clients() -> None:
    bug = next(bug for bug in PLANTS if bug.name == "refused_assignments_are_ignored")
    found = hunt(bug)
    assert (found.rule, found.by) == ("walk", "walk 0 of groups")
    assert [failure_without_bug(run) for run in found.runs] == [None]


@pytest.mark.parametrize(
    ("rule", "failure", "found"),
    [
        ("I3", "I3: high watermark 5", "I3"),
        ("lost-acked", "lost-acked: offset 7 of orders-0", "lost-acked"),
        ("", "not reached: not within 20000 ms: B leads", None),
        (
            "crash AssertionError",
            f"crash AssertionError: (5, 4) ({ROOT}/dataplane/core/watermarks.py:60)",
            "AssertionError in watermarks.py",
        ),
        ("crash KeyError", f"crash KeyError: 3 ({ROOT}/tests/simulation/cluster.py:60)", None),
        ("crash KeyError", "crash KeyError: 3 (/usr/lib/python3.11/enum.py:60)", None),
    ],
)
def test_only_a_rule_or_an_assertion_of_the_product_finds_a_bug(
    rule: str, failure: str, found: str | None
) -> None:
    assert verdict_of(rule, failure) == found


def test_a_bug_that_got_away_is_a_failure_of_the_part_and_so_is_a_run_that_fails_without_any() -> None:
    hunts = [
        Hunt("one", "I3", (Run(0, "S7 some"),), 0.1),
        Hunt("two", "I1", tuple(map(Run, range(8))), 2.0),
        Hunt("three", None, tuple(map(Run, range(60))), 20.0, ("S3: not reached: x",)),
    ]
    assert [each.by for each in hunts] == ["S7", "seed 7", ""]
    part = part_of(hunts, [None, "fails without any planted bug: seed 3: I3: x"], 22.1)
    assert not part.is_ok
    assert part.failures == [
        "three was not found in 60 runs",
        "fails without any planted bug: seed 3: I3: x",
    ]
    assert part.figures["planted bugs"] == 3
    assert part.figures["found by a random seed"] == 1
    assert part.figures["median runs to detection"] == 4.5


@pytest.mark.parametrize("bug", [bug for bug in PLANTS if bug.name in FAST[:2]], ids=lambda bug: bug.name)
def test_what_found_a_bug_passes_without_it(bug: Plant) -> None:
    for run in hunt(bug).runs:
        assert failure_without_bug(run) is None
        with planted(bug):
            assert failure_without_bug(run) is not None


def test_hunting_options_are_drawn_from_the_seed_and_within_the_promise() -> None:
    for seed in range(50):
        options = hunting_options(seed)
        assert options == hunting_options(seed)
        assert options.min_insync_replicas <= options.replication_factor <= options.brokers
        assert not options.over_budget
        assert not options.unclean_election
