"""docker-compose.yml run without an engine: every command and health check in it, in its order, with the code
that the image holds; then what its first comment says to type."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from confluent_kafka import Producer

from localcluster.group import ReadingGroup
from localcluster.java import find_java
from localcluster.load import read_everything
from localcluster.ports import PortReservation
from localcluster.processes import SupervisedProcess
from localcluster.zookeeper import ZooKeeper, ZooKeeperPorts
from tests.kit.composed import (
    POSTGRES_PORT,
    Remapped,
    commands_in_comment,
    container,
    is_healthy,
    load_services,
)
from tests.kit.image import install_image
from tests.kit.postgres import running_postgres
from tests.kit.walks import needs

pytestmark = [pytest.mark.timeout(500), needs("curl")]

SERVICES = load_services()
CONTROLLERS = ("controller1", "controller2")
BROKERS = ("broker1", "broker2", "broker3")
COORDINATORS = ("coordinator1", "coordinator2")
RECORDS = 200


@dataclass
class Composed:
    """Everything that `docker compose up --wait` starts, started and healthy."""

    remapped: Remapped
    processes: dict[str, SupervisedProcess] = field(default_factory=dict)

    def up(self, *names: str, site_packages: Path, logs: Path) -> None:
        """Starts services side by side and waits until they are healthy, as the engine does before it starts
        those that depend on them."""
        for name in names:
            ours = {each for each in SERVICES[name]["depends_on"] if "build" in SERVICES[each]}
            needed = {each for each in ours if "healthcheck" in SERVICES[each]}
            assert needed <= set(self.processes)
            self.processes[name] = container(
                name, SERVICES[name], site_packages=site_packages, remapped=self.remapped, logs=logs
            )
            self.processes[name].start()
        for name in names:
            self.processes[name].wait_ready(partial(is_healthy, SERVICES[name], remapped=self.remapped))

    def kill(self) -> None:
        for process in self.processes.values():
            process.kill()

    def down(self, *names: str) -> None:
        """Each ends by itself within the time that it is given."""
        for name in names:
            self.processes[name].begin_stop()
        for name in names:
            grace = float(SERVICES[name].get("stop_grace_period", "10s").removesuffix("s"))
            assert self.processes[name].stop(timeout_seconds=grace), f"{name} had to be killed"
            assert self.processes[name].exit_code == 0, self.processes[name].last_words()

    def url(self, port: int) -> str:
        return f"http://localhost:{self.remapped.ports[port]}"


@pytest.fixture
def composed(tmp_path: Path) -> Iterator[Composed]:
    with ExitStack() as stack:
        ports = stack.enter_context(PortReservation())
        zookeeper_ports = [int(SERVICES[f"zk{n}"]["ports"][0].split(":")[1]) for n in (1, 2, 3)]
        others = (8081, 8082, *range(9091, 9096), *range(9401, 9406))
        mapped = {port: ports.reserve_free() for port in (*zookeeper_ports, *others)}
        ensemble = ZooKeeper(
            directory=tmp_path,
            ports=[
                ZooKeeperPorts(mapped[port], ports.reserve_free(), ports.reserve_free())
                for port in zookeeper_ports
            ],
            java=find_java(),
            log_directory=tmp_path / "logs",
            force_sync=False,
        )
        stack.callback(ensemble.stop)
        ensemble.start()

        database = sa.make_url(stack.enter_context(running_postgres()))
        assert database.port is not None
        mapped[POSTGRES_PORT] = database.port
        stated = SERVICES["postgres"]["environment"]
        engine = sa.create_engine(database, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f'create database "{stated["POSTGRES_DB"]}"'))
        engine.dispose()

        site_packages = install_image(tmp_path / "image")
        started = Composed(Remapped(mapped, tmp_path / "volumes"))
        stack.callback(started.kill)
        for names in (CONTROLLERS, BROKERS, COORDINATORS):
            started.up(*names, site_packages=site_packages, logs=tmp_path / "logs")
        yield started


def test_what_the_file_describes_runs_and_what_it_says_to_type_works(composed: Composed) -> None:
    script = composed.remapped.text(commands_in_comment())
    typed = subprocess.run(
        ["bash", "-euc", f'curl() {{ command curl -sS --fail-with-body "$@"; }}\n{script}'],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert typed.returncode == 0, typed.stdout + typed.stderr

    roles = {httpx.get(f"{composed.url(port)}/readyz").json()["role"] for port in (8081, 8082)}
    assert roles == {"active", "standby"}
    with httpx.Client(base_url=composed.url(8081), follow_redirects=True) as api:
        works(composed, api)


def works(composed: Composed, api: httpx.Client) -> None:
    """Clients write and read, history holds, and what is asked to stop ends by itself."""
    topic = api.get("/clusters/prod/topics/orders").json()
    assert (topic["state"], topic["under_replicated_partitions"]) == ("online", 0)
    assert api.get("/audit/verification?cluster=prod").json()["ok"] is True

    # Clients reach every broker at the address that it advertises.
    bootstrap = f"localhost:{composed.remapped.ports[9091]}"
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("orders", str(number).encode(), on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors == [None] * RECORDS
    read = read_everything(bootstrap_servers=bootstrap, topic="orders", partitions=topic["partitions"])
    assert sorted(int(record.value) for record in read) == list(range(RECORDS))

    with ReadingGroup(bootstrap_servers=bootstrap, topic="orders", group="shop", members=2) as group:
        _wait(lambda: len(group.records) == RECORDS and bool(group.commits), lambda: group.refusals)
    composed.down(*COORDINATORS)

    # `docker compose stop broker2` gives its leaderships away and ends well within its grace; so do the rest.
    composed.down("broker2")
    _wait(lambda: all(item["leader"] not in {None, 2} for item in _partitions(api)), lambda: _partitions(api))
    composed.down("broker1", "broker3")
    composed.down(*CONTROLLERS)


def _wait(condition: Callable[[], bool], shown: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.1)


def _partitions(api: httpx.Client) -> list[dict[str, object]]:
    items: list[dict[str, object]] = api.get("/clusters/prod/topics/orders/partitions").json()["items"]
    return items
