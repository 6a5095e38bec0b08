"""Brokers of two worker processes each: workers, supervisors and brokers are killed and stopped under load,
and a host goes from one worker to two and back.

Each worker is a broker to clients and to replication, with an id and a port of its own. A stock idempotent
producer writes to partitions of which every worker leads one; what was acknowledged is read back and compared
(battle.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from localcluster.cluster import LocalCluster
from localcluster.load import read_everything
from localcluster.processes import ProcessFailed
from springtide.contract.session import worker_id
from tests.faults.battle import Battle, battle
from tests.kit.dataplane.clients_in_threads import produce_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

BROKERS = (1, 2, 3)
WORKERS = 2
PARTITIONS = len(BROKERS) * WORKERS


#: Each worker leads one partition, and no two replicas of one are on one broker.
SPREAD = [
    [
        worker_id(broker_id, (number + step) % WORKERS)
        for step, broker_id in enumerate(BROKERS[i:] + BROKERS[:i])
    ]
    for i in range(len(BROKERS))
    for number in range(WORKERS)
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=len(BROKERS), workers=WORKERS) as started:
        started.form()
        yield started


@pytest.fixture
def fought(cluster: LocalCluster) -> Iterator[Battle]:
    with battle(cluster, partitions=PARTITIONS, assignments=SPREAD) as begun:
        yield begun


def test_clients_write_to_and_read_from_every_worker_at_a_port_of_its_own(fought: Battle) -> None:
    cluster = fought.cluster
    assert [view.leader for view in cluster.partitions(fought.topic)] == [row[0] for row in SPREAD]
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as client:
        known = client.list_topics(timeout=30).brokers
    assert {node_id: node.port for node_id, node in known.items()} == {
        worker_id(broker_id, number): cluster.brokers[broker_id].port + number
        for broker_id in BROKERS
        for number in range(WORKERS)
    }


def test_a_worker_that_is_killed_is_started_again_and_no_other_partition_notices(fought: Battle) -> None:
    cluster, victim = fought.cluster, worker_id(1, 1)
    before = {view.partition: view for view in cluster.partitions(fought.topic) if view.leader != victim}
    pid = cluster.brokers[1].worker_pid(1)
    fought.strike(lambda: os.kill(pid, signal.SIGKILL))
    after = {view.partition: view for view in cluster.partitions(fought.topic)}
    assert {number: view.leader_epoch for number, view in before.items()} == {
        number: after[number].leader_epoch for number in before
    }
    fought.settle()
    again = cluster.brokers[1].worker_pid(1)
    assert again != pid
    assert cluster.brokers[1].process.pid is not None
    assert f"worker_ended worker=1/{WORKERS} exit_code=-9" in log_of(cluster, 1)


def test_no_worker_outlives_its_supervisor_and_the_other_brokers_go_on(fought: Battle) -> None:
    cluster = fought.cluster
    broker = cluster.brokers[2]
    pid = broker.process.pid
    assert pid is not None
    workers = [broker.worker_pid(number) for number in range(WORKERS)]

    def kill_supervisor_alone() -> None:
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while broker.process.is_running or any(is_running(one) for one in workers):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        cluster.excuse_ended()

    fought.strike(kill_supervisor_alone)
    cluster.start_broker(2)
    fought.settle()


def test_a_broker_that_is_stopped_stops_each_worker_under_control(fought: Battle) -> None:
    cluster = fought.cluster
    broker = cluster.brokers[3]
    fought.strike(lambda: cluster.stop_broker(3))
    assert broker.process.exit_code == 0
    for directory in (broker.data_directory, broker.data_directory / "worker-1"):
        assert (directory / "clean-shutdown").exists()
    leaders = {view.leader for view in cluster.partitions(fought.topic)}
    assert leaders <= {worker_id(broker_id, number) for broker_id in (1, 2) for number in range(WORKERS)}
    cluster.start_broker(3)
    fought.settle()
    # Each of them said of which worker it is.
    assert f"shutting_down worker=1/{WORKERS} leaderships=" in log_of(cluster, 3)


def test_a_host_goes_from_one_worker_to_two_with_its_data_and_back_when_they_are_empty(
    tmp_path: Path,
) -> None:
    values = [b"value %d" % number for number in range(200)]
    with LocalCluster(tmp_path, brokers=1) as alone:
        alone.form()
        alone.create_topic("before", replication_factor=1)
        produce_blocking(alone.bootstrap_servers, "before", values, acks="all")
    with LocalCluster(tmp_path, brokers=1, workers=2) as two:
        two.form()
        assert read(two, "before") == values
        two.create_topic("after", replication_factor=1, assignments=[[worker_id(1, 1)]])
        produce_blocking(two.bootstrap_servers, "after", values, acks="all")
    with (
        pytest.raises(ProcessFailed, match="start with --workers 2, drain the broker"),
        LocalCluster(tmp_path, brokers=1),
    ):
        pass
    with LocalCluster(tmp_path, brokers=1, workers=2) as two:
        two.form()
        assert (read(two, "before"), read(two, "after")) == (values, values)
        two.rest.delete(f"/clusters/{two.name}/topics/after", headers={"Idempotency-Key": "1"})
        folder = two.brokers[1].data_directory / "worker-1"
        two.wait_until("worker 1 is empty", lambda: not list(folder.glob("after-*")))
    with LocalCluster(tmp_path, brokers=1) as alone:
        alone.wait_until_in_sync("before")
        assert read(alone, "before") == values


def read(cluster: LocalCluster, topic: str) -> list[bytes]:
    cluster.wait_until_in_sync(topic)
    found = read_everything(bootstrap_servers=cluster.bootstrap_servers, topic=topic, partitions=1)
    return [record.value for record in found]


def log_of(cluster: LocalCluster, broker_id: int) -> str:
    return cluster.brokers[broker_id].process.log_path.read_text(encoding="utf-8")


def is_running(pid: int) -> bool:
    """Return whether the process is there; one that has ended and that no parent has asked about is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False
