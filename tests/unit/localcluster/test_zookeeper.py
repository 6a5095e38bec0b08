"""ZooKeeper from PySpark's jars: configuration as text, and a real server that keeps its data over a
SIGKILL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from localcluster.java import find_java
from localcluster.ports import PortReservation
from localcluster.zookeeper import (
    ZooKeeper,
    ZooKeeperPorts,
)


@pytest.fixture
def ports() -> Iterator[PortReservation]:
    with PortReservation() as reservation:
        yield reservation


def start_zookeeper(folder: Path, ports: PortReservation, *, servers: int) -> ZooKeeper:
    zookeeper = ZooKeeper(
        directory=folder,
        ports=[
            ZooKeeperPorts(
                client=ports.reserve_free(), quorum=ports.reserve_free(), election=ports.reserve_free()
            )
            for _ in range(servers)
        ],
        java=find_java(),
        log_directory=folder / "logs",
    )
    zookeeper.start()
    return zookeeper


def test_data_survives_a_sigkill_and_a_restart_on_the_same_port(
    tmp_path: Path, ports: PortReservation
) -> None:
    zookeeper = start_zookeeper(tmp_path, ports, servers=1)
    client = KazooClient(zookeeper.connection_string, timeout=4.0)
    try:
        client.start()
        client.create("/kept", b"value")
        zookeeper.restart()
        assert zookeeper.servers[0].mode() == "standalone"
        assert client.retry(client.get, "/kept")[0] == b"value"
    finally:
        client.stop()
        client.close()
        zookeeper.stop()
    assert not zookeeper.servers[0].process.is_running


@pytest.mark.slow
def test_an_ensemble_goes_on_when_its_leader_is_killed(tmp_path: Path, ports: PortReservation) -> None:
    zookeeper = start_zookeeper(tmp_path, ports, servers=3)
    client = KazooClient(zookeeper.connection_string, timeout=8.0)
    try:
        assert sorted(server.mode() or "" for server in zookeeper.servers) == [
            "follower",
            "follower",
            "leader",
        ]
        client.start()
        client.create("/kept", b"value")
        leader = next(server for server in zookeeper.servers if server.mode() == "leader")
        leader.process.kill()
        assert client.retry(client.get, "/kept")[0] == b"value"
    finally:
        client.stop()
        client.close()
        zookeeper.stop()
