"""`springtide upgrade roll` against controllers that answer from a table; the commands that it runs are real,
and each writes down what was restarted."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kit.springtide.cli import Network, Ran, ok, page, problem

URLS = "http://ctl1:8080,http://ctl2:8080"
RECORDS = "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + chr(10))"


@dataclass
class World:
    """Two controllers, two brokers and a coordinator. written: where commands write down whom they restarted;
    one that is in `dead` does not come back. upgrade: the answer of that resource."""

    written: Path
    active: str = "ctl1"
    dead: set[str] = field(default_factory=set)
    upgrade: Any = None
    is_well: bool = True
    version: str = "0.2.0"

    def restarted(self) -> list[str]:
        return self.written.read_text().split() if self.written.exists() else []

    def node(self, kind: str, number: int) -> dict[str, Any]:
        name = f"{kind}-{number}"
        runs = self.restarted().count(name)
        return {
            f"{kind}_id": number,
            "endpoint": f"host{number}:9092",
            "state": "fenced" if name in self.dead and runs else "active",
            "incarnation_id": f"run{runs}",
            "version": self.version if runs else "0.1.0",
        }

    def answer(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.path
        if path == "/readyz":
            runs = sum(name in (f"controller-{host}:8080", host) for name in self.restarted())
            told = {"controller_id": f"{host}.{runs}", "version": self.version} if runs else {}
            return ok({"role": "active" if host == self.active else "standby", **told})
        if path == "/clusters/prod/brokers":
            return page([self.node("broker", 1), self.node("broker", 2)])
        if path == "/clusters/prod/coordinators":
            return page([self.node("coordinator", 1001)])
        if path == "/clusters/prod/replication":
            return ok({"brokers": [{"lag_records": 7}, {"lag_records": None}]})
        if path == "/clusters/prod/upgrade":
            return problem(404, "not_found") if self.upgrade is None else ok(self.upgrade)
        counts = {"leaderless": 0, "under_min_isr": 0, "under_replicated": 0 if self.is_well else 4}
        return ok({"health": "ok", "partitions": counts})

    def roll(self, *more: str, command: str = "{kind}-{id}") -> Ran:
        words = f'{sys.executable} -c "{RECORDS}" {self.written} {command}'
        line = ("upgrade", "roll", *(("--command", words) if command else ()), *more)
        return Network(self.answer).run(*line, SPRINGTIDE_URL=URLS)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "restarted")


ORDER = ["controller-ctl2:8080", "controller-ctl1:8080", "broker-1", "broker-2", "coordinator-1001"]


def test_everything_is_restarted_once_in_order(world: World) -> None:
    ran = world.roll()
    assert (ran.status, world.restarted()) == (0, ORDER)
    assert "1 of 5: restarts controller ctl2:8080: " in ran.err
    assert "4 of 5: broker 2 is back after " in ran.err
    assert ran.err.splitlines()[-1] == "all is well: 5 of 5 restarted"


def test_a_roll_that_is_started_again_leaves_out_what_runs_the_version(world: World) -> None:
    world.dead = {"broker-1"}
    ran = world.roll("--to", "0.2.0", "--patience", "30")
    assert (ran.status, world.restarted()) == (1, ORDER[:3])
    assert "nothing got better for 30 s: broker 1 is fenced" in ran.err
    assert "run this command again" in ran.err
    world.dead = set()
    ran = world.roll("--to", "0.2.0")
    assert (ran.status, world.restarted()) == (0, ORDER)
    assert "all is well: 2 of 2 restarted" in ran.err
    assert world.roll("--to", "0.2.0").err.splitlines() == [
        "nothing to restart",
        "springtide upgrade status says what finalizing the upgrade waits for",
    ]


def test_one_that_comes_back_with_another_version_ends_it(world: World) -> None:
    world.version = "0.1.9"
    ran = world.roll("--to", "0.2.0")
    assert (ran.status, len(world.restarted())) == (1, 1)
    assert "came back with version 0.1.9, not 0.2.0" in ran.err


def test_nothing_is_restarted_while_a_replica_is_missing(world: World) -> None:
    world.is_well = False
    ran = world.roll("--patience", "30")
    assert (ran.status, world.restarted()) == (1, [])
    assert "4 partitions with a replica that is not in sync, 7 records to copy" in ran.err
    assert ran.slept >= 30


def test_a_command_that_fails_ends_it_and_shows_what_it_said(world: World) -> None:
    line = ("upgrade", "roll", "--command", "sh -c 'echo no such unit; exit 5' {host}")
    ran = Network(world.answer).run(*line, SPRINGTIDE_URL=URLS)
    assert ran.status == 1
    assert "sh ended with status 5\n  no such unit\n" in ran.err
    line = ("upgrade", "roll", "--command", "/no/such/program {host}")
    assert "could not be started: No such file" in Network(world.answer).run(*line, SPRINGTIDE_URL=URLS).err


def test_a_dry_run_shows_the_order_and_restarts_nothing(world: World) -> None:
    ran = world.roll("--dry-run", command="")
    assert (ran.status, world.restarted()) == (0, [])
    assert [line.split()[1] for line in ran.out.splitlines()[1:]] == [
        *("ctl2:8080", "ctl1:8080", "1", "2", "1001"),
    ]
    world.is_well = False
    ran = world.roll("--dry-run", "--output", "json", command="")
    assert [one["kind"] for one in json.loads(ran.out)["items"]] == ["controller"] * 2 + ["broker"] * 2 + [
        "coordinator"
    ]
    assert json.loads(ran.out)["waits_for"].startswith("4 partitions")


def test_kubectl_deletes_one_pod_after_the_other(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = tmp_path / "kubectl"  # writes down its words, and the last of them, the pod
    kubectl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said; echo "$5" >> {world.written}\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    ran = world.roll("--kubectl", "--namespace", "prod", command="")
    assert (ran.status, world.restarted()) == (
        0,
        ["ctl2", "ctl1", "broker-1", "broker-2", "coordinator-1001"],
    )
    assert (tmp_path / "said").read_text().splitlines()[2] == "--namespace prod delete pod broker-1"


def test_how_to_restart_must_be_said_in_one_way(world: World) -> None:
    assert world.roll(command="").status == 2
    assert world.roll("--kubectl").status == 2
    assert world.restarted() == []


def test_each_controller_must_be_named_and_none_twice(world: World) -> None:
    running = [{"kind": "controller", "is_running": True}] * 3
    world.upgrade = {"processes": [*running, {"kind": "controller", "is_running": False}]}
    ran = world.roll()
    assert (ran.status, world.restarted()) == (2, [])
    assert "--url names 2 of 3 controllers" in ran.err
    world.upgrade = {"processes": running[:2]}
    assert world.roll().status == 0
    line = ("upgrade", "roll", "--dry-run")
    ran = Network(world.answer).run(*line, SPRINGTIDE_URL="http://ctl1:8080,http://ctl1:8080/")
    assert (ran.status, "two of these are one controller" in ran.err) == (2, True)


def test_a_controller_behind_a_forwarded_port_goes_by_the_host_that_it_tells(world: World) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/readyz":
            url = "http://controller-0.controllers.springtide.svc:8080"
            return ok({"role": "active", "controller_id": "a", "version": "0.1.0", "url": url})
        return world.answer(request)

    line = ("upgrade", "roll", "--dry-run", "--output", "json")
    first = json.loads(Network(answer).run(*line, SPRINGTIDE_URL="http://127.0.0.1:18080").out)["items"][0]
    assert (first["name"], first["host"]) == ("127.0.0.1:18080", "controller-0.controllers.springtide.svc")


def test_a_controller_that_does_not_answer_is_waited_for(world: World) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "ctl2":
            raise httpx.ConnectError("refused")
        return world.answer(request)

    ran = Network(answer).run("upgrade", "roll", "--dry-run", SPRINGTIDE_URL=URLS)
    assert "it would wait: controller ctl2:8080 is not ready" in ran.err
