"""`controller backup` on a cluster of real processes: with TLS, users, ACLs, groups, and ZooKeeper closed to
others. Tests run in the file's order.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from localcluster.access import ALICE
from localcluster.cluster import LocalCluster

pytestmark = pytest.mark.timeout(400)

TOPIC, LATER, PARTITIONS = "orders", "later", 3
FIRST = [b"first %d" % number for number in range(300)]
SECOND = [b"second %d" % number for number in range(100)]
THIRD = [b"third %d" % number for number in range(100)]
SECONDS_MAX = 90.0


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file: Path = tmp_path_factory.mktemp("identity") / "zookeeper-auth"
    file.write_text(f"controllers:{'x' * 40}\n", encoding="ascii")
    file.chmod(0o600)
    return file


@pytest.fixture(scope="module")
def cluster(identity: Path) -> Iterator[LocalCluster]:
    flags = ("--zookeeper-auth-file", str(identity))
    with LocalCluster(
        coordinators=1, is_secure=True, has_users=True, controller_flags=flags, force_sync=False
    ) as running:
        running.form()
        running.create_topic(TOPIC, partitions=PARTITIONS)
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("backups") / "monday"
    return path


def backup(
    cluster: LocalCluster, action: str, folder: Path, *more: str, identity: Path | None = None
) -> tuple[int, str]:
    """Run the command as the controllers run; return its status and all that it said."""
    assert cluster.tls is not None
    python = cluster.controllers[1].process.command.arguments[0]
    of_controllers = list(cluster.tls.controller_flags)
    settings = [
        *("--zookeeper", cluster.zookeeper.connection_string),
        *("--database-url", f"sqlite:///{cluster.directory / 'audit.db'}"),
        *_of_zookeeper(of_controllers),
        *(() if identity is None else ("--zookeeper-auth-file", str(identity))),
    ]
    done = subprocess.run(
        [python, "-m", "controller", "backup", action, str(folder), *more]
        + ([] if action == "verify" else settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def _of_zookeeper(flags: list[str]) -> list[str]:
    pairs = zip(flags[::2], flags[1::2], strict=True)
    return [word for pair in pairs if pair[0].startswith("--zookeeper") for word in pair]


def wipe(cluster: LocalCluster) -> None:
    """All that controllers keep is gone; brokers and coordinators go on."""
    for controller in cluster.controllers.values():
        controller.process.kill()
    cluster.zookeeper.kill()
    for server in cluster.zookeeper.servers:
        shutil.rmtree(server.data_directory)
    for file in cluster.directory.glob("audit.db*"):
        file.unlink()
    cluster.zookeeper.start()


def start(cluster: LocalCluster) -> None:
    for index in cluster.controllers:
        cluster.start_controller(index)
    cluster.active_controller()


def settings_of(cluster: LocalCluster) -> dict[str, Any]:
    return {**cluster.clients[ALICE].settings, "log_level": 0, "error_cb": lambda error: None}


def write(cluster: LocalCluster, values: list[bytes], *, topic: str = TOPIC) -> None:
    failed: list[object] = []
    producer = Producer(settings_of(cluster) | {"acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def read(cluster: LocalCluster, count: int, *, group: str, topic: str = TOPIC) -> list[bytes]:
    """Return so many records, from where the group is; commit them."""
    consumer = Consumer(settings_of(cluster) | {"group.id": group, "auto.offset.reset": "earliest"})
    values: list[bytes] = []
    try:
        consumer.subscribe([topic])

        def come() -> bool:
            for message in consumer.consume(count, timeout=1.0):
                if (value := message.value()) is not None and message.error() is None:
                    values.append(value)
            return len(values) >= count

        cluster.wait_until(f"{count} records", come, timeout_seconds=SECONDS_MAX)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return sorted(values)


def test_a_backup_is_made_while_all_goes_on_and_is_whole(
    cluster: LocalCluster, folder: Path, identity: Path
) -> None:
    write(cluster, FIRST)
    assert read(cluster, len(FIRST), group="orders-billing") == sorted(FIRST)
    status, said = backup(cluster, "create", folder)
    assert (status, folder.exists()) == (1, False), said
    assert "name --zookeeper-auth-file" in said
    status, said = backup(cluster, "create", folder, identity=identity)
    assert status == 0, said
    assert "cluster prod  level" in said
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    status, said = backup(cluster, "verify", folder)
    assert (status, f"{folder}: whole\n" in said) == (0, True), said
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["clusters"][0]["counts"]["brokers"] == 3
    assert manifest["tables"]["audit"] > 10
    assert backup(cluster, "create", folder, identity=identity)[0] == 1, "it is not overwritten"


def test_all_is_as_it_was_after_a_restore_into_nothing(
    cluster: LocalCluster, folder: Path, identity: Path
) -> None:
    before = cluster.api.get("/clusters/prod")
    rows = cluster.audit(topic=TOPIC)
    refused, said = backup(cluster, "restore", folder, identity=identity)
    assert (refused, "has tables already" in said) == (1, True), said
    wipe(cluster)
    refused, said = backup(cluster, "restore", folder)
    assert (refused, "identities controllers" in said) == (1, True), said
    status, said = backup(cluster, "restore", folder, "--dry-run", identity=identity)
    assert (status, "nothing was changed" in said) == (0, True), said
    status, said = backup(cluster, "restore", folder, identity=identity)
    assert status == 0, said
    refused, said = backup(cluster, "restore", folder, identity=identity)
    assert refused == 1, said
    (cluster.directory / "audit.db").rename(cluster.directory / "kept.db")
    refused, said = backup(cluster, "restore", folder, identity=identity)
    assert (refused, "is not empty" in said) == (1, True), said
    for file in cluster.directory.glob("audit.db*"):
        file.unlink()
    (cluster.directory / "kept.db").rename(cluster.directory / "audit.db")

    start(cluster)
    cluster.wait_until_in_sync(TOPIC)
    after = cluster.api.get("/clusters/prod")
    assert (after["cluster_id"], after["health"]) == (before["cluster_id"], before["health"])
    write(cluster, SECOND)
    assert read(cluster, len(SECOND), group="orders-billing") == sorted(SECOND), "the group goes on"
    assert read(cluster, len(FIRST + SECOND), group="orders-again") == sorted(FIRST + SECOND)
    verified = cluster.api.get("/audit/verification?cluster=prod")
    assert (verified["ok"], verified["rows"] > 10) == (True, True), verified
    known = {row["id"]: row["hash"] for row in cluster.audit(topic=TOPIC)}
    assert {row["id"]: row["hash"] for row in rows}.items() <= known.items()


def test_what_brokers_know_and_the_backup_lacks_is_seen_and_recovered(
    cluster: LocalCluster, folder: Path, identity: Path
) -> None:
    cluster.create_topic(LATER)
    cluster.api.post(
        "/clusters/prod/acls",
        {
            "bindings": [
                {
                    "resource_type": "topic",
                    "resource_name": LATER,
                    "principal": f"User:{ALICE}",
                    "host": "*",
                    "operation": "all",
                    "permission": "allow",
                }
            ]
        },
    )
    write(cluster, THIRD)
    wipe(cluster)
    status, said = backup(cluster, "restore", folder, identity=identity)
    assert status == 0, said
    start(cluster)
    cluster.wait_until(
        "the controller knows that its metadata went back",
        lambda: cluster.api.get("/clusters/prod")["health"] == "metadata_went_back",
    )
    cluster.wait_until(
        "it can be recovered",
        lambda: cluster.rest.post("/clusters/prod:recover-metadata?dry_run=true", json={}).is_success,
    )
    cluster.rest.post("/clusters/prod:recover-metadata", json={}).raise_for_status()
    cluster.wait_until_in_sync(TOPIC)
    cluster.wait_until_in_sync(LATER)
    everything = sorted(FIRST + SECOND + THIRD)
    assert read(cluster, len(everything), group="orders-third") == everything
    assert cluster.api.get("/audit/verification?cluster=prod")["ok"]
