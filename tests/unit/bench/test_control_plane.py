"""The large cluster that questions are put to, at a size for tests."""

from __future__ import annotations

import pytest

from bench.__main__ import main
from bench.control_plane import RACKS, build_image, cases, measure, plan_cases, table, wound
from controller.core.resilience import Condition, condition_of


def test_the_cluster_is_whole_balanced_and_its_racks_are_apart() -> None:
    image = build_image(brokers=2 * RACKS, topics=40, partitions=400)
    assert len(image.partitions) == 400
    assert {condition_of(state) for state in image.partitions.values()} == {Condition.ONLINE}
    for state in image.partitions.values():
        assert len({image.brokers[b].rack for b in state.replicas}) == 3
    leads = [len(image.leader_of[b]) for b in image.brokers]
    assert max(leads) - min(leads) <= 1


def test_a_wounded_cluster_has_lost_one_brokers_seats() -> None:
    image = build_image(brokers=RACKS, topics=10, partitions=100)
    held = len(image.seats_of[0])
    wound(image, 0)
    assert not image.seats_of[0]
    assert not image.leaderless
    short = [s for s in image.partitions.values() if condition_of(s) is Condition.UNDER_REPLICATED]
    assert len(short) == held > 0


def test_every_question_has_an_answer_and_a_row() -> None:
    image = build_image(brokers=RACKS, topics=10, partitions=100)
    rows = [measure(case, rounds=1) for case in cases(image)]
    assert [row.items for row in rows] == [len(image.seats_of[1]), len(image.seats_of[1]), 100, RACKS, RACKS]
    lines = table("small", rows)
    assert len(lines) == 2 + len(rows)
    assert lines[2].split()[:3] == ["lose", "a", "broker"]


def test_plans_have_the_moves_that_the_counts_ask_for() -> None:
    image = build_image(brokers=RACKS, topics=10, partitions=100)
    rows = {row.name: row.items for row in (measure(case, rounds=1) for case in plan_cases(image))}
    assert rows["take a snapshot"] == 100
    assert rows["plan: balanced already"] == 0
    assert rows["plan: drain a broker"] >= len(image.seats_of[1])
    assert 0 < rows["plan: only they receive"] <= 2 * 300 // (RACKS + 1)


def test_the_command_prints_its_tables_and_the_memory(capsys: pytest.CaptureFixture[str]) -> None:
    main(["control_plane", "--brokers", "10", "--partitions", "1000", "--rounds", "1"])
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if "10 brokers, 1,000 partitions" in line] == [
        printed[0],
        printed[7],
        printed[15],
    ]
    assert printed[-1].endswith(" MiB")
