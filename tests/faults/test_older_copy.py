"""`cp -a backup/. data/` over the files of a killed broker that has the only replica, and the controller that
knew of its records goes with it: what was acknowledged is not gone without a word, and the loss preview's way
out brings it back."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from dataplane.storage.fresh_mark import FRESH_MARK_FILE
from localcluster.cluster import LocalCluster
from localcluster.load import read_everything

pytestmark = [pytest.mark.timeout(120)]

TOPIC = "orders"
PARTITION = f"/clusters/prod/topics/{TOPIC}/partitions/0"
WATCH_SECONDS = 2.0


def test_an_older_copy_over_the_only_replica_is_refused_and_the_way_out_works(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    cluster.create_topic(TOPIC, replication_factor=1)
    last = cluster.leader(TOPIC, 0)
    data = cluster.brokers[last].data_directory
    values = [b"acknowledged-%d" % number for number in range(40)]
    write(cluster, values[:20])
    shutil.copytree(data, tmp_path / "older")
    write(cluster, values[20:])
    of_copy = born(tmp_path / "older")
    cluster.wait_until("the copy is older than the last fresh mark", lambda: born(data) > of_copy)

    cluster.kill_broker(last)
    controller = cluster.active_controller()
    cluster.kill_controller(controller)
    shutil.copytree(data, tmp_path / "newer")
    put_over(data, tmp_path / "older")
    cluster.start_controller(controller)
    cluster.start_broker(last)

    told = cluster.wait_until("the replica has told", lambda: preview(cluster))
    assert told["candidates"][0]["log_end_offset"] == 20
    time.sleep(WATCH_SECONDS)
    assert cluster.partition(TOPIC, 0).leader is None, "it leads, and what was acknowledged is gone"
    codes = {alarm["code"] for alarm in cluster.api.get("/clusters/prod/alarms")["items"]}
    assert {"partition_leaderless", "logs_unproven"} <= codes or "log_short" in codes
    assert f"of broker {last}, stop that broker, bring it back, start it" in told["way_out"]

    cluster.kill_broker(last)
    put_over(data, tmp_path / "newer")
    cluster.start_broker(last)
    told = cluster.wait_until("it has told of the newer copy", lambda: preview(cluster, 40))
    election = {
        "election": "unclean",
        "broker_id": last,
        "partition_epoch": told["partition_epoch"],
        "lost_records_max": 0,
        "reason": "the newest copy is back",
    }
    cluster.api.post(f"{PARTITION}:elect-leader", election)
    cluster.wait_until("it leads", lambda: cluster.partition(TOPIC, 0).leader == last)
    read = read_everything(
        bootstrap_servers=cluster.bootstrap_servers, topic=TOPIC, partitions=1, at_least={0: len(values)}
    )
    assert [record.value for record in read] == values


def born(data: Path) -> int:
    """When the fresh mark was made: it is never written to. While it is made anew there is none."""
    try:
        return (data / FRESH_MARK_FILE).stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def put_over(data: Path, copy: Path) -> None:
    """`cp -a copy/. data/`: files that are there keep their inodes."""
    shutil.copytree(copy, data, dirs_exist_ok=True)


def preview(cluster: LocalCluster, log_end_offset: int = 0) -> Any:
    """The loss preview, once the only replica has told of a log that goes so far."""
    answer = cluster.rest.get(f"{PARTITION}/loss-preview")
    if answer.status_code != 200:
        return None
    found = answer.json()
    (candidate,) = found["candidates"]
    end = candidate["log_end_offset"]
    return found if end is not None and end >= log_end_offset else None


def write(cluster: LocalCluster, values: list[bytes]) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(20.0)
    assert errors == [None] * len(values)
