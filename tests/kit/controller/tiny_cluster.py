"""Brokers that only talk to the controller, each a process, and a cluster of three of them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from localcluster.processes import ProcessCommand, SupervisedProcess
from tests.kit.controller.controller_process import START_SECONDS_MAX, ControllerProcess


class TinyBroker:
    """A process that only talks to the controller."""

    def __init__(self, broker_id: int, port: int, controller: ControllerProcess, directory: Path) -> None:
        self.broker_id = broker_id
        self.port = port
        script = Path(__file__).with_name("tiny_broker.py")
        self.process = SupervisedProcess(
            name=f"broker-{broker_id}",
            command=ProcessCommand(
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


def form(controller: ControllerProcess, brokers: list[TinyBroker]) -> None:
    """Starts all, makes them the cluster `prod`, and waits until every broker is active."""
    controller.start()
    controller.until_active(START_SECONDS_MAX)
    assert controller.create_cluster("prod") == 201
    for broker in brokers:
        broker.process.start()
    admitted = [{"broker_id": broker.broker_id, "endpoint": f"127.0.0.1:{broker.port}"} for broker in brokers]
    answer = controller.http.post("/clusters/prod/brokers", json={"brokers": admitted, "reason": "test"})
    assert answer.status_code == 202, answer.text
    until(lambda: controller.cluster_metric("activebrokercount") == len(brokers))


def create_topic(controller: ControllerProcess, name: str, *, partitions: int) -> None:
    body = {"name": name, "cluster": "prod", "partitions": partitions, "replication_factor": 3}
    answer = controller.http.post("/topics", json=body)
    assert answer.status_code == 201, answer.text


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
