"""Writes records evenly into all partitions, with acks=all, and keeps the offsets that were acknowledged.

An old batch that was sent again is acknowledged without one.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from confluent_kafka import Producer

FLUSH_SECONDS = 60.0
VALUE = b"x" * 100


class Writer:
    """A thread with one idempotent producer. rate: records a second."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, rate: float) -> None:
        self.acknowledged: dict[int, set[int]] = defaultdict(set)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 10}
        )
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> int:
        """Return how many records were never answered."""
        self._ends.set()
        self._thread.join()
        return int(self._producer.flush(FLUSH_SECONDS))

    def _run(self) -> None:
        while not self._ends.wait(self._partitions / self._rate):
            for partition in range(self._partitions):
                try:
                    self._producer.produce(
                        self._topic, VALUE, partition=partition, on_delivery=self._on_delivery
                    )
                except BufferError:
                    break
            self._producer.poll(0)

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None and message.offset() is not None:
            self.acknowledged[message.partition()].add(message.offset())
