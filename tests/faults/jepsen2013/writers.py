"""The five writers, each a stock client in a thread of its own, and the drain at the end.

The client is configured as in 2013 as far as it still can be: acks=all, one retry after one second, no
idempotence. A writer does not wait for an answer before it sends the next integer: the rate is fixed, and the
isolated leader is asked all the while that it is isolated.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.checker.from_clients import RecordedProducer, Recorder
from tests.faults.jepsen2013.schedule import PARTITIONS, TOPIC, Plan, partition_of, writer_name

POLL_SECONDS_MAX = 0.05
FLUSH_SECONDS_MAX = 40.0
PROBE_EVERY_SECONDS = 0.25

CONFIG: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": False,
    "message.send.max.retries": 1,
    "retry.backoff.ms": 1000,
    "linger.ms": 0,
    "message.timeout.ms": 30_000,
    "socket.timeout.ms": 20_000,
}

IDEMPOTENT_CONFIG: Mapping[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 0,
    "message.timeout.ms": 60_000,
    "socket.timeout.ms": 20_000,
}
"""What one uses today: as many retries as the time allows, and a broker that recognises them."""


class WriterCrashed(RuntimeError):
    """A writer's thread ended by an error of its own: the run proves nothing."""


class Writers:
    """Writes the plan's integers. `started_ns` is the beginning of the schedule, by the recorder's clock."""

    def __init__(
        self, recorder: Recorder, plan: Plan, bootstrap: Mapping[int, str], *, idempotent: bool
    ) -> None:
        """bootstrap: by writer (from 1), the one broker that it is told of."""
        self._recorder = recorder
        self._plan = plan
        self._crashes: list[BaseException] = []
        self._stopping = threading.Event()
        self.started_ns = 0
        config = {
            **(IDEMPOTENT_CONFIG if idempotent else CONFIG),
            "request.timeout.ms": plan.request_timeout_ms,
        }
        self._threads = [
            threading.Thread(target=self._run, args=(writer, {**config, "bootstrap.servers": endpoint}))
            for writer, endpoint in sorted(bootstrap.items())
        ]

    def start(self) -> None:
        self.started_ns = self._recorder.clock_ns()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Sends nothing more; for a run that failed elsewhere."""
        self._stopping.set()

    def join(self) -> None:
        """Waits until every integer has been sent and answered or given up.

        Raises:
            WriterCrashed: with the first reason.
        """
        for thread in self._threads:
            thread.join()
        if self._crashes:
            raise WriterCrashed(f"a writer crashed: {self._crashes[0]!r}") from self._crashes[0]

    def _run(self, writer: int, config: Mapping[str, Any]) -> None:
        try:
            producer = RecordedProducer(self._recorder, process=writer_name(writer), config=config)
            try:
                for integer in self._plan.integers(writer):
                    due_ns = self.started_ns + round(self._plan.due_seconds(integer) * 1e9)
                    _poll_until(producer, due_ns, self._recorder.clock_ns, self._stopping)
                    if self._stopping.is_set():
                        break
                    value = producer.send((TOPIC, partition_of(integer)))
                    assert value is not None, "the client's queue holds a hundred thousand"
            finally:
                producer.close(flush_seconds=0.0 if self._stopping.is_set() else FLUSH_SECONDS_MAX)
        except BaseException as crash:
            self._crashes.append(crash)


def _poll_until(
    producer: RecordedProducer, until_ns: int, clock_ns: Callable[[], int], stopping: threading.Event
) -> None:
    """Takes delivery reports until then, so that each has the time at which it arrived."""
    while not stopping.is_set() and (left_ns := until_ns - clock_ns()) > 0:
        producer.poll(min(POLL_SECONDS_MAX, left_ns / 1e9))


def probe_until_writable(recorder: Recorder, *, bootstrap: str, timeout_seconds: float) -> None:
    """Writes to every partition again and again until each has acknowledged something, or the time is over:
    the writers may have ended before the network is whole. The history tells when that was."""
    config = {**IDEMPOTENT_CONFIG, "bootstrap.servers": bootstrap, "message.timeout.ms": 20_000}
    producer = RecordedProducer(recorder, process="probe", config=config)
    waiting: dict[str, int] = {}
    unwritable = set(range(PARTITIONS))
    deadline = time.monotonic() + timeout_seconds
    next_at = time.monotonic()
    try:
        while unwritable and time.monotonic() < deadline:
            if time.monotonic() >= next_at:
                next_at += PROBE_EVERY_SECONDS
                for partition in sorted(unwritable):
                    value = producer.send((TOPIC, partition))
                    if value is not None:
                        waiting[value] = partition
            producer.poll(POLL_SECONDS_MAX)
            answered = waiting.keys() - producer.unanswered.keys()
            unwritable -= {waiting.pop(value) for value in answered}
    finally:
        producer.close(flush_seconds=5.0)
