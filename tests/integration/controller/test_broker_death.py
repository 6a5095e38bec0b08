"""A killed broker is noticed by the end of its connection, in real processes and real time."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from localcluster.ports import PortReservation
from localcluster.processes import Command, SupervisedProcess
from localcluster.zookeeper import ZooKeeper
from tests.integration.controller.controller_process import START_SECONDS_MAX, ControllerProcess

PARTITIONS = 30
#: Alone on the machine it takes some tens of milliseconds. The grace, which this must not need, is 6,000.
NOTICED_SECONDS_MAX = 2.0


class TinyBroker:
    """A process that only talks to the controller."""

    def __init__(self, broker_id: int, port: int, controller: ControllerProcess, directory: Path) -> None:
        self.broker_id = broker_id
        self.port = port
        script = Path(__file__).with_name("tiny_broker.py")
        self.process = SupervisedProcess(
            name=f"broker-{broker_id}",
            command=Command(
                arguments=[sys.executable, str(script), controller.url, str(broker_id), str(port)],
                working_directory=directory,
            ),
            log_path=directory / f"broker-{broker_id}.log",
        )

    def told(self) -> list[dict[str, Any]]:
        """Every update so far; a line that is still being written is left out."""
        if not self.process.log_path.exists():
            return []
        lines = self.process.log_path.read_text(encoding="utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def knows(self, partitions: int) -> bool:
        return len(self.leaders()) == partitions

    def leaders(self) -> dict[str, int]:
        known: dict[str, int] = {}
        for update in self.told():
            known.update(update["leaders"])
        return known


@pytest.fixture
def formed(zookeeper: ZooKeeper, root: str, tmp_path: Path) -> Iterator[list[TinyBroker]]:
    """Three brokers that lead ten partitions each."""
    with PortReservation() as ports:
        controller = ControllerProcess("controller", ports.reserve_free(), zookeeper, root, tmp_path)
        brokers = [TinyBroker(number, ports.reserve_free(), controller, tmp_path) for number in (1, 2, 3)]
        try:
            controller.start()
            controller.until_active(START_SECONDS_MAX)
            assert controller.create_cluster("prod") == 201
            for broker in brokers:
                broker.process.start()
            admitted = [
                {"broker_id": broker.broker_id, "endpoint": f"127.0.0.1:{broker.port}"} for broker in brokers
            ]
            answer = controller.http.post(
                "/clusters/prod/brokers", json={"brokers": admitted, "reason": "test"}
            )
            assert answer.status_code == 202, answer.text
            until(lambda: controller.cluster_metric("activebrokercount") == 3)
            body = {"name": "orders", "cluster": "prod", "partitions": PARTITIONS, "replication_factor": 3}
            answer = controller.http.post("/topics", json=body)
            assert answer.status_code == 201, answer.text
            for broker in brokers:
                until(partial(broker.knows, PARTITIONS))
            yield brokers
        finally:
            for broker in brokers:
                broker.process.kill()
            controller.process.kill()
            controller.http.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_survivors_are_told_of_new_leaders_long_before_the_grace(formed: list[TinyBroker]) -> None:
    dead, *survivors = formed
    assert sum(leader == dead.broker_id for leader in dead.leaders().values()) == PARTITIONS // 3
    killed_ns = time.monotonic_ns()
    dead.process.kill()
    until(lambda: all(dead.broker_id not in broker.leaders().values() for broker in survivors))
    noticed_ns = max(
        next(
            update["at_ns"]
            for update in broker.told()
            if update["at_ns"] > killed_ns and dead.broker_id not in update["leaders"].values()
        )
        for broker in survivors
    )
    took_s = (noticed_ns - killed_ns) / 1e9
    print(f"SIGKILL of a broker: every survivor told of the new leaders after {took_s * 1000:.0f} ms")
    assert took_s < NOTICED_SECONDS_MAX
