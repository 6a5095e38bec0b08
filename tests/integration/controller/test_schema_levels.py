"""The database of controllers that run beside another release: real processes, a real ZooKeeper, SQLite."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from controller.database import migrate, schema
from localcluster.cluster import LocalCluster
from springtide.levels import NEWEST, Level

pytestmark = pytest.mark.timeout(300)

BEFORE = schema.revision_for(Level(NEWEST - 1))


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Without brokers: one that knew the level would be a witness when it is taken back here."""
    with LocalCluster(brokers=0, force_sync=False) as running:
        yield running


def change_something(cluster: LocalCluster, bytes_max: int) -> None:
    """What is written to the audit before it is done."""
    configs = {"configs": {"message.max.bytes": str(bytes_max)}}
    cluster.api.post(f"/clusters/{cluster.name}/configs:alter", configs)
    assert cluster.api.get(f"/audit/verification?cluster={cluster.name}")["ok"]


def url_of(cluster: LocalCluster) -> str:
    return f"sqlite:///{cluster.directory / 'audit.db'}"


def log_of(cluster: LocalCluster) -> str:
    path: Path = cluster.log_directory / "controller-1.log"
    return path.read_text(encoding="utf-8")


def stop_controller(cluster: LocalCluster) -> None:
    cluster.controllers[1].process.stop(timeout_seconds=30)


def as_release_before_left_it(cluster: LocalCluster) -> None:
    """The cluster is at the level before, and the database at the revision that its release knows."""
    client = KazooClient(hosts=cluster.zookeeper.connection_string, timeout=10)
    client.start(timeout=30)
    try:
        path = f"/springtide/clusters/{cluster.name}/level"
        row = json.loads(client.get(path)[0])
        client.set(path, json.dumps(row | {"level": NEWEST - 1}).encode())
    finally:
        client.stop()
        client.close()
    migrate.downgrade(url_of(cluster), BEFORE)


@pytest.mark.skipif(BEFORE == schema.HEAD, reason="no revision of the database waits for the newest level")
def test_what_waits_for_the_level_is_applied_when_it_is_finalized_and_not_before(
    cluster: LocalCluster,
) -> None:
    stop_controller(cluster)
    as_release_before_left_it(cluster)
    cluster.start_controller(1)
    change_something(cluster, 2_000_000)
    cluster.wait_until("it says that it waits", lambda: "database_upgrade_waits" in log_of(cluster))
    assert migrate.current_revision(url_of(cluster)) == BEFORE
    path = f"/clusters/{cluster.name}"
    cluster.wait_until("nothing is in the way", lambda: cluster.api.get(f"{path}/upgrade")["can_finalize"])
    cluster.rest.post(f"{path}:finalize-upgrade", json={}).raise_for_status()
    cluster.wait_until(
        "the rest is applied", lambda: migrate.current_revision(url_of(cluster)) == schema.HEAD
    )
    change_something(cluster, 3_000_000)


def test_a_database_of_a_later_release_is_used_or_refused_by_what_it_says(cluster: LocalCluster) -> None:
    stop_controller(cluster)
    expand(cluster, "0098", oldest_level=NEWEST)
    cluster.start_controller(1)
    change_something(cluster, 2_000_000)
    stop_controller(cluster)
    expand(cluster, "0099", oldest_level=NEWEST + 1)
    cluster.start_controller(1)
    why = f"'0099', which needs a release whose own level is {NEWEST + 1} or more"
    cluster.wait_until("it says why it waits", lambda: why in log_of(cluster))
    assert "database_not_ready" in log_of(cluster)


def expand(cluster: LocalCluster, revision: str, *, oldest_level: int) -> None:
    """Leave the database as a later release does."""
    database = sqlite3.connect(cluster.directory / "audit.db")
    with database:
        for table in ("audit", "operations", "idempotency_keys"):
            database.execute(f"alter table {table} add column of_{revision} text")
        database.execute("update alembic_version set version_num = ?", (revision,))
        database.execute("insert into schema_compat values (?, ?)", (revision, oldest_level))
    database.close()
