"""`springtide upgrade roll` restarts every process of a real cluster, while a stock producer writes with
acks=all: no error, and each acknowledged record is read afterwards."""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from localcluster.cluster import LocalCluster
from springtide.__main__ import execute

PARTITIONS: Final = 6
WAIT_S: Final = 120
#: Connects, says whom to restart, and waits for the answer.
ASKS: Final = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); "
    "s.sendall(' '.join(sys.argv[2:]).encode()); sys.exit(s.recv(1) != b'y')"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, controllers=2, coordinators=2) as started:
        started.form()
        started.create_topic("orders", partitions=PARTITIONS, replication_factor=3)
        yield started


@contextmanager
def restarter(cluster: LocalCluster, directory: Path) -> Iterator[str]:
    """Restart what a command asks for, and yield that command."""
    path = str(directory / "restarts")

    def process_of(kind: str, name: str) -> tuple[Any, Callable[[], None]]:
        if kind == "broker":
            return cluster.brokers[int(name)].process, lambda: cluster.start_broker(int(name))
        if kind == "coordinator":
            return cluster.coordinators[int(name)].process, lambda: cluster.start_coordinator(int(name))
        (index,) = (one.index for one in cluster.controllers.values() if one.url.endswith(name))
        return cluster.controllers[index].process, lambda: cluster.start_controller(index)

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                process, start = process_of(*connection.recv(1_000).decode().split())
                process.stop()
                start()
                connection.sendall(b"y")

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield f'{sys.executable} -c "{ASKS}" {path} {{kind}} {{id}}'
        server.shutdown(socket.SHUT_RDWR)
    thread.join(WAIT_S)


class Load:
    """A stock producer, in a thread: every record is to be acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.errors: list[str] = []
        self.acknowledged: list[bytes] = []

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(WAIT_S)

    def _run(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "acks": "all", "enable.idempotence": True}
        producer = Producer({**settings, "linger.ms": 5, "message.timeout.ms": 60_000})
        number = 0

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.errors.append(str(error))
            else:
                self.acknowledged.append(message.value())

        while not self._over.wait(0.005):
            number += 1
            producer.produce("orders", b"%d" % number, partition=number % PARTITIONS, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0


def read(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    values: list[bytes] = []
    while len(values) < count:
        messages = consumer.consume(10_000, timeout=20)
        assert messages, f"{len(values)} of {count} read"
        values += [message.value() for message in messages]  # type: ignore[misc]
    consumer.close()
    return values


def springtide(cluster: LocalCluster, *line: str) -> tuple[int, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    urls = ",".join(cluster.controller_urls)
    return execute([*line, "--url", urls], {}, out, err, columns=None), err.getvalue()


def in_sync(cluster: LocalCluster, broker_id: int, query: str = "?in-sync") -> tuple[int, str]:
    port = cluster.brokers[broker_id].metrics_port
    answer = httpx.get(f"http://127.0.0.1:{port}/readyz{query}", timeout=5)
    return answer.status_code, answer.text


def test_all_are_restarted_under_load_and_no_record_is_lost(cluster: LocalCluster, tmp_path: Path) -> None:
    before = {process.name: process.pid for process in cluster.processes}
    with restarter(cluster, tmp_path) as command, Load(cluster.bootstrap_servers) as load:
        time.sleep(1)
        status, told = springtide(cluster, "upgrade", "roll", "--command", command, "--interval", "0.3")
    assert status == 0, told
    assert told.splitlines()[-1] == "all is well: 7 of 7 restarted"
    after = {process.name: process.pid for process in cluster.processes}
    same = [name for name in before if before[name] == after[name]]
    assert same == [cluster.processes[0].name], "only ZooKeeper goes on"
    assert load.errors == []
    values = read(cluster.bootstrap_servers, len(load.acknowledged))
    assert sorted(values) == sorted(load.acknowledged)
    assert [in_sync(cluster, broker_id) for broker_id in cluster.brokers] == [(200, "in sync\n")] * 3


def test_a_broker_that_hears_no_controller_does_not_say_that_it_is_in_sync(cluster: LocalCluster) -> None:
    for index in cluster.controllers:
        cluster.kill_controller(index)
    try:
        cluster.wait_until("it does not know any more", lambda: in_sync(cluster, 1)[0] == 503)
        assert "has not confirmed lately" in in_sync(cluster, 1, "?in-sync=0")[1]
        assert in_sync(cluster, 1, "")[0] == 200
    finally:
        for index in cluster.controllers:
            cluster.start_controller(index)
    cluster.wait_until("it knows again", lambda: in_sync(cluster, 1) == (200, "in sync\n"))
