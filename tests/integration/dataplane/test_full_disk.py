"""A broker whose file system fills up, in real processes: it refuses writes before the file system does, one
alarm says why, and it goes on by itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from dataplane.core.room import reserve_of
from localcluster.cluster import LocalCluster
from tests.kit.dataplane.clients_in_threads import TIMEOUT_S

ADMITTED_MIB, SMALL_MIB, LARGE_MIB = 2048, 64, 160
"""A broker with less than 1 GiB free is not admitted. A tmpfs takes only the memory that it needs."""
VALUE_BYTES = 500_000
VALUES = [number.to_bytes(4, "big") + os.urandom(VALUE_BYTES) for number in range(4)]
RESERVE = re.compile(r"^springtide_log_dir_reserve_bytes (\S+)$", re.MULTILINE)
COUNT = 200
"""About 95 MiB."""


def why_no_mount(tmp_path: Path) -> str:
    probe = tmp_path / "probe"
    probe.mkdir()
    tried = subprocess.run(
        ["mount", "-t", "tmpfs", "none", probe], capture_output=True, text=True, check=False
    )
    if tried.returncode == 0:
        subprocess.run(["umount", probe], check=True)
        return ""
    return f"no file system can be mounted: {tried.stderr.strip()}"


def resize(path: Path, mib: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={mib}m", path], check=True)


@contextmanager
def mounted(path: Path) -> Iterator[None]:
    path.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ADMITTED_MIB}m", "none", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Two brokers; the first has a small disk."""
    why_not = "" if shutil.which("mount") else "there is no mount(8)"
    why_not = why_not or why_no_mount(tmp_path)
    if why_not and not os.environ.get("CI_REQUIRED"):
        pytest.skip(why_not)
    assert not why_not, f"{why_not}, and CI must not skip it"
    root = tmp_path / "cluster"
    disk = root / "broker-1" / "data"
    with mounted(disk), LocalCluster(root, brokers=2) as running:
        running.form()
        resize(disk, SMALL_MIB)
        # The broker counts what it writes from its last look on, and that one has to be at the small disk.
        running.wait_until(
            "broker 1 sees the small disk",
            lambda: float(RESERVE.findall(running.brokers[1].metrics())[0]) == reserve_of(SMALL_MIB * 2**20),
        )
        yield running


def alarms(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.rest.get(f"/clusters/{cluster.name}/alarms").json()["items"]
    return found


class Producing:
    """An idempotent producer of COUNT values, and what became of them: offsets by number, and errors."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.delivered: dict[int, int | None] = {}
        self.failed: list[object] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": 280_000,
                "retry.backoff.max.ms": 500,
            }
        )
        for number in range(COUNT):
            value = number.to_bytes(4, "big") + VALUES[number % 4]
            self._producer.produce("orders", value, on_delivery=partial(self._on_delivery, number))

    def _on_delivery(self, number: int, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.delivered[number] = message.offset()
        else:
            self.failed.append(error)

    def poll(self) -> None:
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(TIMEOUT_S * 4) == 0
        assert self.failed == []
        assert sorted(self.delivered) == list(range(COUNT))


def read_all(cluster: LocalCluster) -> dict[int, int | None]:
    """Offsets by number, of COUNT values."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    read: dict[int, int | None] = {}
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
        while len(read) < COUNT:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(read)} of {COUNT} were read"
            assert message.error() is None, message.error()
            value = message.value() or b""
            number = int.from_bytes(value[:4], "big")
            assert value[4:] == VALUES[number % 4]
            assert number not in read, "nothing is stored twice"
            read[number] = message.offset()
    finally:
        consumer.close()
    return read


def test_s28_a_broker_stops_before_its_disk_is_full_and_goes_on_by_itself(cluster: LocalCluster) -> None:
    cluster.create_topic("orders", replication_factor=1, assignments=[[1]])
    producing = Producing(cluster)

    def is_short() -> dict[str, Any] | None:
        producing.poll()
        return next((one for one in alarms(cluster) if one["code"] == "disk_below_reserve"), None)

    # Sixty MiB have to be written first, which a busy machine takes its time for.
    alarm = cluster.wait_until("the disk of broker 1 is below its reserve", is_short, timeout_seconds=180.0)
    assert alarm["broker_id"] == 1
    assert "(64 MiB) has less free than the reserve of 3 MiB" in alarm["detail"]
    assert [one["code"] for one in alarms(cluster)] == ["disk_below_reserve"], "one fault, one alarm"
    assert 0 < len(producing.delivered) < COUNT
    page = cluster.brokers[1].metrics()
    assert "springtide_log_dir_is_short 1.0" in page
    assert "kafka_log_logmanager_offlinelogdirectorycount 0.0" in page
    overview = cluster.rest.get(f"/clusters/{cluster.name}").json()
    assert (overview["health"], overview["partitions"]["leaderless"]) == ("critical", 0)

    cluster.create_topic("new", partitions=4, replication_factor=1)
    assert [one.replicas for one in cluster.partitions("new")] == [(2,)] * 4
    wide = {"name": "wide", "partitions": 1, "replication_factor": 2}
    refused = cluster.rest.post(f"/clusters/{cluster.name}/topics", json=wide)
    assert refused.is_client_error
    assert "below their reserve: broker 1" in refused.json()["detail"]

    resize(cluster.brokers[1].data_directory, LARGE_MIB)
    producing.finish()
    cluster.wait_until(
        "the alarm ends", lambda: "disk_below_reserve" not in {one["code"] for one in alarms(cluster)}
    )
    assert read_all(cluster) == producing.delivered
