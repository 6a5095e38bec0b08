"""A killed broker is noticed by the end of its connection, in real processes and real time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from localcluster.ports import PortReservation
from localcluster.zookeeper import ZooKeeper
from tests.kit.controller.controller_process import ControllerProcess
from tests.kit.controller.tiny_cluster import TinyBroker, create_topic, form, until

PARTITIONS = 30
#: Alone on the machine it takes some tens of milliseconds. The grace, which this must not need, is 6 seconds.
NOTICED_SECONDS_MAX = 5.0


@pytest.fixture
def formed(zookeeper: ZooKeeper, root: str, tmp_path: Path) -> Iterator[list[TinyBroker]]:
    """Three brokers that lead ten partitions each."""
    with PortReservation() as ports:
        controller = ControllerProcess("controller", ports.reserve_free(), zookeeper, root, tmp_path)
        brokers = [TinyBroker(number, ports.reserve_free(), controller, tmp_path) for number in (1, 2, 3)]
        try:
            form(controller, brokers)
            create_topic(controller, "orders", partitions=PARTITIONS)
            for broker in brokers:
                until(partial(broker.knows, PARTITIONS))
            yield brokers
        finally:
            for broker in brokers:
                broker.process.kill()
            controller.process.kill()
            controller.http.close()


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
