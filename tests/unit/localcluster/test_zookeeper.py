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
    JAR_PATTERNS,
    ZooKeeper,
    ZooKeeperJarsNotFound,
    ZooKeeperPorts,
    parse_server_mode,
    render_zoo_cfg,
    select_zookeeper_jars,
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


def test_a_single_server_listens_on_loopback_only_and_runs_no_admin_server() -> None:
    rendered = render_zoo_cfg(
        data_directory=Path("/data"),
        server_id=1,
        ports_by_id={1: ZooKeeperPorts(client=21810, quorum=21811, election=21812)},
        force_sync=True,
    )
    assert rendered.splitlines() == [
        "tickTime=500",
        "dataDir=/data",
        "clientPort=21810",
        "clientPortAddress=127.0.0.1",
        "admin.enableServer=false",
        "4lw.commands.whitelist=ruok,srvr,mntr,cons",
        "maxClientCnxns=0",
        "forceSync=yes",
    ]


def test_every_member_of_an_ensemble_lists_all_members() -> None:
    ports_by_id = {
        1: ZooKeeperPorts(client=1001, quorum=1002, election=1003),
        2: ZooKeeperPorts(client=2001, quorum=2002, election=2003),
    }
    for server_id in ports_by_id:
        lines = render_zoo_cfg(
            data_directory=Path("/data"), server_id=server_id, ports_by_id=ports_by_id, force_sync=False
        ).splitlines()
        assert f"clientPort={server_id}001" in lines
        assert "forceSync=no" in lines
        assert lines[-2:] == ["server.1=127.0.0.1:1002:1003", "server.2=127.0.0.1:2002:2003"]


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    for pattern in JAR_PATTERNS:
        (tmp_path / pattern.replace("[0-9]*", "1.0")).touch()
    assert len(select_zookeeper_jars(tmp_path)) == len(JAR_PATTERNS)
    (tmp_path / "netty-handler-1.0.jar").unlink()
    with pytest.raises(ZooKeeperJarsNotFound, match=r"has no netty-handler-\[0-9\]\*\.jar$"):
        select_zookeeper_jars(tmp_path)


@pytest.mark.parametrize(
    ("answer", "mode"),
    [
        ("Zookeeper version: 3.9.5\nMode: standalone\nNode count: 5\n", "standalone"),
        ("Mode: follower\n", "follower"),
        ("This ZooKeeper instance is not currently serving requests\n", None),
        ("", None),
        (None, None),
    ],
)
def test_a_server_that_serves_nobody_has_no_mode(answer: str | None, mode: str | None) -> None:
    assert parse_server_mode(answer) == mode


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
