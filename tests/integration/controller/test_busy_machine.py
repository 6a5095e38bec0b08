"""A controller that creates thousands of partitions on a machine whose processors are taken."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from localcluster.ports import PortReservation
from localcluster.processes import ProcessCommand, SupervisedProcess
from localcluster.zookeeper import ZooKeeper
from tests.kit.controller.controller_process import ControllerProcess
from tests.kit.controller.tiny_cluster import TinyBroker, create_topic, form, until

TOPICS, PARTITIONS = 6, 500
#: A broker's lease: heartbeats that wait for no longer keep it. Such a creation takes 4 ms of a processor.
HELD_MS_MAX = 5_000


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[None]:
    """A process per processor that only computes, at a priority somewhat lower than that of others."""
    spin = "import os; os.nice(5)\nwhile True: pass"
    burners = [
        SupervisedProcess(
            name=f"burner-{number}",
            command=ProcessCommand(arguments=[sys.executable, "-c", spin], working_directory=tmp_path),
            log_path=tmp_path / f"burner-{number}.log",
        )
        for number in range(os.cpu_count() or 1)
    ]
    for burner in burners:
        burner.start()
    yield
    for burner in burners:
        burner.kill()


def test_creations_hold_the_loop_for_less_than_a_lease_and_cost_no_term_and_no_broker(
    zookeeper: ZooKeeper, root: str, tmp_path: Path, busy: None
) -> None:
    with PortReservation() as ports:
        controller = ControllerProcess("controller", ports.reserve_free(), zookeeper, root, tmp_path)
        brokers = [TinyBroker(number, ports.reserve_free(), controller, tmp_path) for number in (1, 2, 3)]
        try:
            form(controller, brokers)
            for number in range(TOPICS):
                create_topic(controller, f"topic-{number}", partitions=PARTITIONS)
            for broker in brokers:
                until(partial(broker.knows, TOPICS * PARTITIONS))
            held_ms = controller.metric("loop_held_ms_max", prefix="springtide_controller_")
            assert held_ms is not None and held_ms < HELD_MS_MAX
            assert controller.metric("controller_epoch", prefix="springtide_controller_") == 1
            assert "was silent" not in controller.log()
            assert controller.cluster_metric("activebrokercount") == 3
            print(f"{TOPICS * PARTITIONS} partitions: the loop was held for at most {held_ms:.0f} ms")
        finally:
            for broker in brokers:
                broker.process.kill()
            controller.process.kill()
            controller.http.close()
