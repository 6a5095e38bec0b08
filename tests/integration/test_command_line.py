"""The command line against real processes: two controllers, two brokers, every command once, and the active
controller killed in between."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from localcluster.cluster import LocalCluster
from springtide.__main__ import execute

COMMAND_SECONDS_MAX = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Its brokers wait to be added."""
    with LocalCluster(brokers=2, controllers=2) as started:
        waiting = "/clusters/prod/brokers?state=waiting"
        started.wait_until(
            "both brokers have registered",
            lambda: len(started.api.get(waiting)["items"]) == len(started.brokers),
        )
        yield started


def springtide(cluster: LocalCluster, *arguments: str, status: int = 0, url: str | None = None) -> str:
    """What it printed, or on a failure what it complained of. In this process, to spare a start of Python for
    each of many commands."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    line = [*arguments, "--url", url or ",".join(cluster.controller_urls)]
    found = execute(line, {}, out, err, columns=None)
    out.flush()
    printed = out.buffer.getvalue().decode()
    assert found == status, f"{line}: {found}\n{printed}\n{err.getvalue()}"
    return printed if status == 0 else err.getvalue()


def answer(cluster: LocalCluster, *arguments: str, url: str | None = None) -> Any:
    return json.loads(springtide(cluster, *arguments, "--output", "json", url=url))


def roles(cluster: LocalCluster) -> dict[str, str]:
    """Of each controller, by its URL."""
    return {url: httpx.get(f"{url}/readyz").json()["role"] for url in cluster.controller_urls}


def test_a_cluster_is_administered_from_end_to_end(cluster: LocalCluster) -> None:
    standby = next(url for url, role in roles(cluster).items() if role != "active")

    # Writes are asked of the standby, which sends them on.
    assert answer(cluster, "brokers", "list", "--state", "waiting")["items"][0]["broker_id"] == 1
    specs = [f"{broker_id}@{broker.endpoint}" for broker_id, broker in cluster.brokers.items()]
    plan = answer(cluster, "brokers", "add", *specs, "--dry-run", url=standby)
    assert plan["brokers"] == [1, 2]
    told = springtide(cluster, "brokers", "add", *specs, "--reason", "first hosts", "--wait", url=standby)
    assert " succeeded: " in told.splitlines()[-1]
    # The standby's copy is older than that for up to a second: the one asked first is not the one that tells.
    standby_first = ",".join(sorted(cluster.controller_urls, key=lambda url: url != standby))
    listed = answer(cluster, "brokers", "list", url=standby_first)["items"]
    assert {item["state"] for item in listed} == {"active"}

    create = ("topics", "create", "orders", "--partitions", "4", "--replication-factor", "2")
    made = answer(cluster, *create, "--config", "min.insync.replicas=1", "--reason", "shop", url=standby)
    assert (made["partitions"], made["replication_factor"]) == (4, 2)
    refusal = springtide(cluster, *create, status=1)
    assert "(topic_already_exists, 409)" in refusal
    assert "hint: " in refusal
    assert springtide(cluster, "topics", "configs", "orders") == "min.insync.replicas  1\n"
    assert "/replication_factor" in springtide(
        cluster, "topics", "create", "wide", "--replication-factor", "9", status=1
    )

    titles, *rows = springtide(cluster, "partitions", "list", "orders").splitlines()
    assert titles.split()[:3] == ["TOPIC", "PARTITION", "STATE"]
    assert [row.split()[:2] for row in rows] == [["orders", str(number)] for number in range(4)]
    assert answer(cluster, "partitions", "show", "orders", "3")["replicas"]
    assert len(answer(cluster, "partitions", "explain", "orders", "0")["items"]) == 2
    assert len(answer(cluster, "assignment", "--topic", "orders")["items"]) == 4
    assert answer(cluster, "replication")["partitions"] == 4
    lost = answer(cluster, "resilience", "broker:1", "broker:2")
    assert (lost["partitions"]["leaderless"], len(lost["items"])) == (4, 4)
    assert "(election_not_needed, 409)" in springtide(cluster, "elect-leader", "orders", "0", status=1)

    adding, *_ = answer(cluster, "operations", "list", "--kind", "broker_add")["items"]
    assert answer(cluster, "operations", "show", adding["id"])["reason"] == "first hosts"
    assert springtide(cluster, "operations", "watch", adding["id"]).splitlines()[-1].startswith("broker_add")

    def have_outcomes() -> list[dict[str, Any]] | None:
        items = answer(cluster, "audit", "list", "--kind", "request", "--topic", "orders")["items"]
        return items if all(item["outcome"] for item in items) else None

    asked = cluster.wait_until("each request has its outcome", have_outcomes)
    assert {item["outcome"]["outcome"] for item in asked if item["cause"] == "create_topic"} == {
        "succeeded",
        "refused",
    }
    assert answer(cluster, "audit", "show", str(asked[0]["id"])) == asked[0]
    assert answer(cluster, "audit", "verify")["ok"] is True
    assert answer(cluster, "problems", "show", "topic_not_found")["status"] == 404


def test_the_command_is_a_process_with_an_exit_status(cluster: LocalCluster) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "springtide", *arguments],
            env={**os.environ, "SPRINGTIDE_URL": ",".join(cluster.controller_urls)},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )

    listed = run("clusters", "list", "--output", "json")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [item["name"] for item in json.loads(listed.stdout)["items"]] == ["prod"]
    refused = run("topics", "show", "none")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "(topic_not_found, 404)" in refused.stderr


def test_a_repetition_under_the_same_key_is_the_first_answer(cluster: LocalCluster) -> None:
    create = ("topics", "create", "once", "--partitions", "1", "--replication-factor", "1")
    first = answer(cluster, *create, "--idempotency-key", "key-1")
    assert answer(cluster, *create, "--idempotency-key", "key-1") == first


def test_a_write_rides_over_the_death_of_the_active_controller(cluster: LocalCluster) -> None:
    killed = cluster.active_controller()
    cluster.kill_controller(killed)
    # Nobody waited: the standby still names the dead one, and then is elected while the command tries.
    made = answer(
        cluster,
        "topics",
        "create",
        "after",
        "--partitions",
        "1",
        "--replication-factor",
        "2",
        "--timeout",
        "40",
    )
    assert made["name"] == "after"
    deleted = springtide(cluster, "topics", "delete", "after", "--reason", "done with", "--wait")
    assert " succeeded" in deleted.splitlines()[-1]
    rows = answer(cluster, "audit", "list", "--topic", "after", "--kind", "request")["items"]
    assert [(row["cause"], row["reason"]) for row in rows] == [
        ("delete_topic", "done with"),
        ("create_topic", None),
    ]
    alone = springtide(
        cluster, "clusters", "list", "--timeout", "0", url=cluster.controllers[killed].url, status=3
    )
    assert "no controller could be reached" in alone
