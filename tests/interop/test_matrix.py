"""The matrix of `make interop`, as far as a commit's time goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from localcluster.cluster import LocalCluster
from tests.interop.clients import NO_JARS, Client, Driver, clients, kafka_home
from tests.interop.matrix import Cell, DriverGone, Matrix, RunningDriver, Side
from tests.interop.rows import ADMINISTRATOR, ROWS, Row
from tests.interop.security import secured_cluster

pytestmark = [pytest.mark.timeout(300)]
PYTHON_CLIENTS = ("librdkafka", "kafka-python", "aiokafka")
JAVA_ROWS = (
    *("list", "produce-none", "offset-by-time", "delete-records"),
    *("group-list", "group-describe", "group-offsets", "group-reset", "group-delete"),
    *("txn-list", "txn-describe"),
    "consumer-share",
)
"""A JVM each."""
COORDINATORS = 2
OF_CONSUMER_PROTOCOL = ("share", "mixed", "resume", "static")
NOT_IN_THEM = {
    *((client, row) for client in PYTHON_CLIENTS for row in ("streams", "kafka-connect")),
    *((client, f"txn-{verb}") for client in ("librdkafka", "aiokafka") for verb in ("list", "describe")),
    *((name, f"consumer-{row}") for name in ("kafka-python", "aiokafka") for row in OF_CONSUMER_PROTOCOL),
    ("librdkafka", "group-delete-offsets"),
    ("aiokafka", "group-delete-offsets"),
    ("aiokafka", "group-delete"),
    *((client, f"quota-{verb}") for client in PYTHON_CLIENTS for verb in ("set", "describe")),
    *(("aiokafka", f"user-{verb}") for verb in ("set", "describe", "delete")),
    *(("aiokafka", f"acl-{verb}") for verb in ("create", "describe", "delete")),
}


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    with LocalCluster(coordinators=COORDINATORS) as cluster:
        cluster.form()
        yield Side("Springtide", cluster.bootstrap_servers, COORDINATORS)


@pytest.fixture(scope="module")
def secured() -> Iterator[Side]:
    with secured_cluster(brokers=1, coordinators=0, tell=print) as logins:
        yield Side("Springtide", logins[ADMINISTRATOR].bootstrap, logins=logins, replicas=1)


def test_every_python_client_can_do_each_row(side: Side, tmp_path: Path) -> None:
    check_clients(PYTHON_CLIENTS, [row for row in ROWS if side.gets(row)], side, tmp_path)


def test_clients_get_in_where_they_may(secured: Side, tmp_path: Path) -> None:
    rows = [row for row in ROWS if secured.gets(row) and row.call != "group_resume"]
    check_clients(PYTHON_CLIENTS, rows, secured, tmp_path)


def test_a_binding_of_librdkafka_finds_its_group_after_it_has_listed_topics(side: Side) -> None:
    """Each lists them often enough that another node than the one that found the coordinator is asked."""
    group, clients_count, lists_count = "found-again", 15, 5
    consumer = Consumer({"bootstrap.servers": side.bootstrap, "group.id": group})
    consumer.committed([TopicPartition("no-topic", 0)], timeout=30)  # The coordinators have read their log.
    consumer.close()
    for _ in range(clients_count):
        with AdminClient({"bootstrap.servers": side.bootstrap}) as admin:
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition("no-topic", 0, 0)])
            admin.alter_consumer_group_offsets([asked])[group].result(10)
            for _ in range(lists_count):
                assert len(admin.list_topics(timeout=10).brokers) == 3 + COORDINATORS
            asked = ConsumerGroupTopicPartitions(group, [TopicPartition("no-topic", 0)])
            assert admin.list_consumer_group_offsets([asked])[group].result(10).group_id == group


def check_clients(names: Sequence[str], rows: Sequence[Row], side: Side, logs: Path) -> None:
    chosen = [client for client in clients(None) if client.name in names]

    def run(client: Client) -> list[Cell]:
        matrix = Matrix(rows, logs, print)
        matrix.run(side, [client])
        assert set(matrix.versions) == {client.name}
        return matrix.cells

    # At once: most of the time goes by in the pause before the first rebalance of each group.
    with ThreadPoolExecutor(len(chosen)) as pool:
        cells = [cell for of_client in pool.map(run, chosen) for cell in of_client]
    assert len(cells) == len(names) * len(rows)
    not_ok = [cell for cell in cells if cell.state != "ok"]
    absent = {(cell.client, cell.row) for cell in not_ok if cell.state == "not in this client"}
    assert absent == {(name, row.name) for name in names for row in rows} & NOT_IN_THEM
    assert [cell for cell in not_ok if (cell.client, cell.row) not in NOT_IN_THEM] == []


def test_kafkas_own_tools_can_do_what_they_are_for(side: Side, tmp_path: Path) -> None:
    home = kafka_home()
    if home is None:
        pytest.skip(NO_JARS)
    rows = [row for row in ROWS if row.name in JAVA_ROWS]
    matrix = Matrix(rows, tmp_path, print)
    chosen = [client for client in clients(home) if client.name == "java-tools"]
    matrix.run(side, chosen)
    assert [(cell.row, cell.state, cell.detail) for cell in matrix.cells] == [
        (row.name, "ok", "") for row in rows
    ]


def test_a_driver_that_does_not_answer_is_ended_and_started_anew(tmp_path: Path) -> None:
    stuck = "import os, sys; sys.stdin.readline(); os.path.exists(sys.argv[1]) or open(sys.argv[1], 'w'); "
    once = stuck + "print('{\"value\": 1}', flush=True) if os.path.getsize(sys.argv[1]) else sys.stdin.read()"
    mark = tmp_path / "mark"
    with RunningDriver(Driver([sys.executable, "-c", once, str(mark)]), tmp_path / "log") as running:
        with pytest.raises(DriverGone, match=r"no answer in 1 s"):
            running.ask({"call": "connect"}, seconds=1)
        mark.write_text("again", encoding="utf-8")
        assert running.ask({"call": "connect"}) == {"value": 1}


def test_the_error_of_a_driver_that_ends_is_told(tmp_path: Path) -> None:
    driver = Driver([sys.executable, "-c", "raise SystemExit('no such library')"])
    with (
        RunningDriver(driver, tmp_path / "log") as running,
        pytest.raises(DriverGone, match="no such library"),
    ):
        running.ask({"call": "connect"})
