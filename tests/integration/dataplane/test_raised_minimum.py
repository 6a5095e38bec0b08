"""On processes: what is written after the answer to a raised minimum is acknowledged under it, or refused."""

from __future__ import annotations

import threading
import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from localcluster.cluster import LocalCluster

TOPIC = "payments"
TRIES = 10
MINIMUM = "min.insync.replicas"


class Writer:
    """Writes one record after the other, each with the time at which it was given to the client."""

    def __init__(self, servers: str) -> None:
        self.acked_ms: list[float] = []
        self._producer = Producer(
            {"bootstrap.servers": servers, "acks": "all", "linger.ms": 0, "message.timeout.ms": 5_000}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._is_over.is_set():
            given_ms = time.monotonic() * 1000

            def told(error: KafkaError | None, message: Message, given_ms: float = given_ms) -> None:
                if error is None:
                    self.acked_ms.append(given_ms)

            self._producer.produce(TOPIC, b"x", on_delivery=told)
            self._producer.poll(0.001)
        self._producer.flush(10)

    def acked_after(self, ms: float) -> int:
        return sum(given_ms > ms for given_ms in self.acked_ms)


def alter(admin: AdminClient, minimum: int) -> None:
    entry = ConfigEntry(MINIMUM, str(minimum), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


@pytest.mark.timeout(300)
def test_nothing_is_acknowledged_below_a_raised_minimum_after_its_answer() -> None:
    """One of three brokers is dead: with a minimum of 3 nothing can be acknowledged."""
    with LocalCluster() as cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=3, configs={MINIMUM: "1"})
        cluster.kill_broker(3)
        cluster.wait_until(
            "it has left",
            lambda: all(3 not in p.isr and p.leader is not None for p in cluster.partitions(TOPIC)),
        )
        late: list[int] = []
        took_ms: list[int] = []
        for number in range(TRIES):
            alter(admin, 1)
            with Writer(cluster.bootstrap_servers) as writer:
                while len(writer.acked_ms) < 50:
                    time.sleep(0.01)
                asked_ms = time.monotonic() * 1000
                if number % 2:
                    alter(admin, 3)
                else:
                    configs = f"/clusters/{cluster.name}/topics/{TOPIC}/configs:alter"
                    cluster.api.post(configs, {"configs": {MINIMUM: "3"}})
                answered_ms = time.monotonic() * 1000
                time.sleep(0.3)
                late.append(writer.acked_after(answered_ms))
                alter(admin, 1)
            took_ms.append(round(answered_ms - asked_ms))
        print(f"acknowledged below the minimum after the answer: {late}; answered after ms: {took_ms}")
        assert late == [0] * TRIES
