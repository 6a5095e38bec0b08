"""springtide upgrade status and finalize: what a person reads, and what is asked."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from springtide.cli.upgrades import upgrade_lines
from tests.kit.springtide.cli import Network

STATUS: dict[str, Any] = {
    "level": 0,
    "release": "0.1",
    "target_level": 1,
    "target_release": "0.2",
    "can_finalize": False,
    "blockers": [
        {"kind": "broker", "name": "broker 2", "reason": "runs release 0.1: start it with release 0.2"}
    ],
    "pending_since_ms": None,
    "processes": [
        {
            "kind": "controller",
            "id": "c1",
            "name": "http://c1:8080",
            "version": "0.2.0",
            "lowest_level": 0,
            "highest_level": 1,
            "is_running": True,
            "is_active": True,
        },
        {
            "kind": "broker",
            "id": "2",
            "name": "broker 2",
            "version": "",
            "lowest_level": None,
            "highest_level": None,
            "is_running": False,
            "is_active": False,
        },
    ],
}


def shown(**changed: Any) -> list[str]:
    return upgrade_lines(STATUS | changed, width=None)


def test_each_process_is_shown_with_its_levels_and_what_is_in_the_way() -> None:
    assert shown() == [
        "level       0 (release 0.1)",
        "next-level  1 (release 0.2)",
        "",
        "PROCESS         KIND        VERSION  LEVELS    RUNNING  ACTIVE",
        "http://c1:8080  controller  0.2.0    0 to 1    yes      yes",
        "broker 2        broker               not told  no       no",
        "",
        "1 in the way of level 1:",
        "  broker 2 runs release 0.1: start it with release 0.2",
        "",
        "Until it is finalized, each process can go back to the release before. "
        "Next: bring what is in the way to the new release.",
    ]


def test_the_next_step_is_to_finalize_once_nothing_is_in_the_way() -> None:
    assert "`springtide upgrade finalize --dry-run`" in shown(blockers=[])[-1]
    assert "there is no way back" in shown(blockers=[])[-1]


def test_at_the_highest_level_nothing_is_left_to_do() -> None:
    lines = shown(level=1, release="0.2", blockers=[])
    assert lines[0] == "level  1 (release 0.2)"
    assert lines[-1] == "Nothing is left to be finalized."


def test_a_name_can_not_break_a_line() -> None:
    blocker = {"kind": "broker", "name": "broker\n2", "reason": "is\x1b[0m there"}
    assert "  broker\\n2 is\\x1b[0m there" in shown(blockers=[blocker])


@pytest.mark.parametrize("output", ["table", "json"])
def test_the_status_is_asked_of_the_cluster(output: str) -> None:
    network = Network(lambda _: httpx.Response(200, json=STATUS))
    ran = network.run("upgrade", "status", "--output", output)
    assert ran.status == 0
    assert ran.targets == ["GET http://ctl1:8080/clusters/prod/upgrade"]
    assert (json.loads(ran.out) == STATUS) if output == "json" else ("broker 2" in ran.out)


@pytest.mark.parametrize(("typed", "asked"), [("y\n", 1), ("n\n", 0)])
def test_finalizing_is_asked_for_first(typed: str, asked: int) -> None:
    done = {"level_before": 0, "level": 1, "release": "0.2", "dry_run": False}
    network = Network(lambda _: httpx.Response(200, json=done))
    ran = network.run("upgrade", "finalize", "--reason", "a week", typed=typed)
    assert "Finalize the upgrade of cluster prod? No process can go back" in ran.out
    assert len(ran.asked) == asked
    if asked:
        assert ran.targets == ["POST http://ctl1:8080/clusters/prod:finalize-upgrade"]
        assert json.loads(ran.asked[0].content) == {"reason": "a week"}


def test_a_dry_run_asks_no_question() -> None:
    network = Network(lambda _: httpx.Response(200, json={"level": 1}))
    ran = network.run("upgrade", "finalize", "--dry-run", typed="")
    assert ran.targets == ["POST http://ctl1:8080/clusters/prod:finalize-upgrade?dry_run=true"]
