"""Records what a kafka-python producer does: a second codec and another idea of retries than librdkafka's.

The twin of `RecordedProducer` in the checker's from_clients.py. This client retries by itself and tells only
the end, so what is not acknowledged is never surely absent: always `info`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

from tests.checker.from_clients import Recorder
from tests.checker.history import NO_OFFSET, Function, Key, Operation, Outcome
from tests.checker.values import encode_value

BLOCK_MS_MAX = 1_000
DELIVERY_MS_MAX = 120_000
REQUEST_MS_MAX = 10_000
LINGER_MS = 20
"""Batches of a few records, as applications send them."""


class RecordedKafkaPythonProducer:
    """acks=all with idempotence. `process` must be new in this history."""

    def __init__(self, recorder: Recorder, *, process: str, bootstrap_servers: str) -> None:
        self.process = process
        self.unanswered: dict[str, tuple[int, Key]] = {}
        self._recorder = recorder
        self._last_invoke_ns = -1
        self._lock = threading.Lock()  # Answers come in the client's own thread.
        self._wake = threading.Event()
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=LINGER_MS,
            max_block_ms=BLOCK_MS_MAX,
            request_timeout_ms=REQUEST_MS_MAX,
            delivery_timeout_ms=DELIVERY_MS_MAX,
        )

    def send(self, key: Key, *, value_bytes: int = 0) -> str | None:
        """Hands one new value to the client; None when it took none."""
        value = self._recorder.new_value(self.process, key, value_bytes=value_bytes)
        # Two sends of one process at one time would have no order.
        self._last_invoke_ns = max(self._recorder.clock_ns(), self._last_invoke_ns + 1)
        with self._lock:
            self.unanswered[value] = self._last_invoke_ns, key
        try:
            future = self._producer.send(key[0], encode_value(value), partition=key[1])
        except KafkaTimeoutError:  # No metadata or no room in time: it was never in the client's hands.
            with self._lock:
                del self.unanswered[value]
            return None

        def on_stored(metadata: Any) -> None:
            offset = metadata.offset
            self._write(value, offset if offset is not None and offset >= 0 else NO_OFFSET, "")

        future.add_callback(on_stored)
        future.add_errback(lambda error: self._write(value, None, type(error).__name__))
        return value

    def poll(self, seconds: float) -> None:
        """The client has a thread of its own: there is only the time to pass."""
        self._wake.wait(seconds)

    def close(self, *, flush_seconds: float) -> int:
        """Waits for the answers; what has none by then is written as `info`. How many those were."""
        ends: tuple[Callable[[], object], ...] = (
            lambda: self._producer.flush(timeout=flush_seconds),
            lambda: self._producer.close(timeout=1.0),
        )
        for end in ends:
            try:
                end()
            except KafkaError as error:  # both wait for answers, and say so when none comes
                print(f"{self.process}: {type(error).__name__}: {error}", flush=True)
        left = list(self.unanswered)
        for value in left:
            self._write(value, None, "no answer")
        return len(left)

    def _write(self, value: str, offset: int | None, error: str) -> None:
        """offset: None says that nobody knows."""
        with self._lock:
            if value not in self.unanswered:
                return
            invoked_ns, key = self.unanswered.pop(value)
            self._recorder.add(
                Operation(
                    process=self.process,
                    f=Function.SEND,
                    type=Outcome.INFO if offset is None else Outcome.OK,
                    t_invoke_ns=invoked_ns,
                    t_return_ns=max(self._recorder.clock_ns(), invoked_ns),
                    key=key,
                    items=((NO_OFFSET if offset is None else offset, value),),
                    idempotent=True,
                    error=error,
                )
            )
