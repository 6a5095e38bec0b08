"""Records histories from stock clients: confluent-kafka (librdkafka) producers and consumers.

One `Recorder` holds what all clients of a run did, on one monotonic clock. `RecordedProducer` writes its send
when the delivery report arrives; `RecordedConsumer` writes a poll for each partition that it was given
records of. Both make the client themselves, because what may be said of an operation depends on how the
client is configured: only without retries is an error the answer to the only attempt, and only then can a
send `fail` (librdkafka does not tell of the attempts before the last).

Clients may live in threads of their own, each used from one thread.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from .history import ACKS_ALL, NO_OFFSET, Function, History, Item, Key, Operation, Outcome
from .outcomes import NO_ANSWER, OK, outcome_of_send
from .values import decode_value, encode_value, make_value

EMPTY_POLLS_EVERY_NS = 100_000_000
"""A partition that gives nothing is written down this often, so that a starving reader shows and an idle one
does not fill the history."""
CONSUME_RECORDS_MAX = 1000
CONSUME_WAIT_SECONDS = 0.1
LIST_OFFSETS_SECONDS_MAX = 10.0

_KAFKA_NAMES = {
    "INVALID_MSG": "CORRUPT_MESSAGE",
    "MSG_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "TOPIC_EXCEPTION": "INVALID_TOPIC_EXCEPTION",
}
"""Where librdkafka has a name of its own for a broker's answer."""

_NEVER_SENT = frozenset({"_PURGE_QUEUE"})
"""The client's own errors for a record that never left it, if it is the first attempt."""


class Recorder:
    """What every client of a run did, in order of completion. `clock_ns`: the monotonic clock of all of
    them."""

    def __init__(self, *, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.clock_ns = clock_ns
        self.run = uuid.uuid4().hex[:8]
        self._operations: list[Operation] = []  # appended to by several threads, which `list` allows
        self._numbers: dict[str, int] = {}

    def add(self, operation: Operation) -> None:
        self._operations.append(operation)

    def history(self) -> History:
        return History.of(list(self._operations))

    def new_value(self, process: str, key: Key, *, value_bytes: int) -> str:
        """Numbers are per process, so that no two threads draw from one counter."""
        number = self._numbers.get(process, 0)
        self._numbers[process] = number + 1
        return make_value(run=self.run, process=process, number=number, key=key, value_bytes=value_bytes)

    def fault(self, note: str, *, since_ns: int) -> None:
        """A fault that began at `since_ns` and is over now."""
        self.add(
            Operation(
                process="nemesis",
                f=Function.FAULT,
                type=Outcome.INFO,
                t_invoke_ns=since_ns,
                t_return_ns=self.clock_ns(),
                note=note,
            )
        )


def _setting(config: Mapping[str, Any], *names: str) -> str | None:
    return next((str(config[name]).lower() for name in names if name in config), None)


class RecordedProducer:
    """A confluent-kafka producer that writes every send down once, however it ends.

    Args:
        recorder, process: the process's name must be new in this history.
        config: the client's, laid over acks=all with idempotence.
    """

    def __init__(self, recorder: Recorder, *, process: str, config: Mapping[str, Any]) -> None:
        merged = {"acks": "all", "enable.idempotence": True, "log_level": 0, **config}
        acks = _setting(merged, "acks", "request.required.acks")
        self.acks = ACKS_ALL if acks in (None, "all", "-1") else int(acks)
        self.idempotent = _setting(merged, "enable.idempotence") == "true"
        self._is_only_attempt = _setting(merged, "retries", "message.send.max.retries") == "0"
        self.process = process
        self.unanswered: dict[str, tuple[int, Key]] = {}
        """Sends on their way: when each value's began, and where to."""
        self._recorder = recorder
        self._last_invoke_ns = -1
        self._producer = Producer(merged)

    def send(self, key: Key, *, value_bytes: int = 0) -> str | None:
        """Hands one new value to the client; the value, or None when its queue is full: `poll` and try
        again."""
        value = self._recorder.new_value(self.process, key, value_bytes=value_bytes)
        # Two sends of one process at one time would have no order.
        self._last_invoke_ns = max(self._recorder.clock_ns(), self._last_invoke_ns + 1)
        self.unanswered[value] = self._last_invoke_ns, key

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._on_delivery(value, error, message.offset())

        try:
            self._producer.produce(key[0], encode_value(value), partition=key[1], on_delivery=on_delivery)
        except BufferError:  # It was never in the client's hands: no operation.
            del self.unanswered[value]
            return None
        return value

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def close(self, *, flush_seconds: float) -> int:
        """Waits for the answers; what has none by then is written as `info`. How many those were."""
        self._producer.flush(flush_seconds)
        unanswered = len(self.unanswered)
        self._producer.purge()
        self._producer.poll(0)  # Reports what was purged.
        for value in list(self.unanswered):
            self._write(value, NO_OFFSET, Outcome.INFO, "no delivery report")
        self._producer.close()
        return unanswered

    def bootstrap_servers(self, *, timeout_seconds: float = 10.0) -> str:
        """The brokers that this client knows, as another client's bootstrap.servers."""
        brokers = self._producer.list_topics(timeout=timeout_seconds).brokers.values()
        return ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def _on_delivery(self, value: str, error: KafkaError | None, offset: int | None) -> None:
        if value not in self.unanswered:  # Given up on by `close` already.
            return
        if error is None:
            known = offset if offset is not None and offset >= 0 else NO_OFFSET
            is_told = self.acks != 0  # With acks=0 a delivery report only says that it was sent.
            self._write(value, known, outcome_of_send([OK] if is_told else [NO_ANSWER]), "")
            return
        name = _KAFKA_NAMES.get(error.name(), error.name())
        attempts = [] if self._is_only_attempt else [NO_ANSWER]
        if name not in _NEVER_SENT:
            attempts.append(NO_ANSWER if name.startswith("_") else name)
        self._write(value, NO_OFFSET, outcome_of_send(attempts), name)

    def _write(self, value: str, offset: int, outcome: Outcome, error: str) -> None:
        invoked_ns, key = self.unanswered.pop(value)
        self._recorder.add(
            Operation(
                process=self.process,
                f=Function.SEND,
                type=outcome,
                t_invoke_ns=invoked_ns,
                t_return_ns=max(self._recorder.clock_ns(), invoked_ns),
                key=key,
                items=((offset if outcome is Outcome.OK else NO_OFFSET, value),),
                acks=self.acks,
                idempotent=self.idempotent,
                error=error,
            )
        )


class RecordedConsumer:
    """A confluent-kafka consumer by assignment, whose every read is written down.

    It never moves by itself: a position out of range is an error (`auto.offset.reset` is `error`), because a
    silent move would read as the log's fault. `final` marks its polls as the final read.
    """

    def __init__(
        self, recorder: Recorder, *, process: str, config: Mapping[str, Any], final: bool = False
    ) -> None:
        self.process = process
        self.positions: dict[Key, int] = {}
        """The next offset of each assigned partition; absent until the first record where it began at the
        log's start."""
        self.ended: set[Key] = set()
        """Partitions whose end has been reached and which gave nothing since."""
        self.errors: list[str] = []
        self._assigned: list[Key] = []
        self._written_ns: dict[Key, int] = {}
        self._recorder = recorder
        self._final = final
        self.group_id = f"by-assignment-{uuid.uuid4().hex[:8]}"
        self._consumer = Consumer(
            {
                "group.id": self.group_id,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "log_level": 0,
                "error_cb": self._on_error,
                **config,
            }
        )

    def assign(self, keys: Iterable[Key], *, from_offset: int | None = None) -> None:
        """Reads these partitions, from their log starts or from an offset, and no others."""
        self.assign_at(dict.fromkeys(keys, from_offset))

    def assign_at(self, starts: Mapping[Key, int | None]) -> None:
        """Reads these partitions, each from an offset or from its log start, and no others."""
        invoked_ns = self._recorder.clock_ns()
        self._assigned = list(starts)
        self._consumer.assign(
            [
                TopicPartition(key[0], key[1], OFFSET_BEGINNING if start is None else start)
                for key, start in starts.items()
            ]
        )
        self.positions = {key: start for key, start in starts.items() if start is not None}
        self.ended.clear()
        self._write(Function.ASSIGN, None, invoked_ns)
        for key, start in starts.items():
            self._write(Function.ASSIGN, key, invoked_ns, from_offset=start)

    def group_metadata(self) -> object:
        """What a transaction that commits this consumer's offsets needs to know of it."""
        return self._consumer.consumer_group_metadata()

    def consume(
        self,
        *,
        records_max: int = CONSUME_RECORDS_MAX,
        seconds: float = CONSUME_WAIT_SECONDS,
        transaction: str = "",
    ) -> int:
        """One poll, of the transaction of that name if there is one; how many records it gave."""
        invoked_ns = self._recorder.clock_ns()
        given: dict[Key, list[Item]] = {}
        for message in self._consumer.consume(records_max, timeout=seconds):
            topic, partition = message.topic(), message.partition()
            error = message.error()
            if topic is None or partition is None:
                self.errors.append(str(error))
                continue
            key = (topic, partition)
            if error is None:
                offset = message.offset()
                assert offset is not None
                given.setdefault(key, []).append((offset, decode_value(bytes(message.value() or b""))))
                self.ended.discard(key)
            elif error.code() == KafkaError._PARTITION_EOF:
                self.ended.add(key)
            else:
                self.errors.append(str(error))
        for key in self._assigned:
            items = given.get(key, ())
            if items:
                self.positions[key] = items[-1][0] + 1
            if items or invoked_ns - self._written_ns.get(key, -EMPTY_POLLS_EVERY_NS) >= EMPTY_POLLS_EVERY_NS:
                self._written_ns[key] = invoked_ns
                self._write(Function.POLL, key, invoked_ns, items=tuple(items), transaction=transaction)
        return sum(map(len, given.values()))

    def list_offsets(self, key: Key) -> tuple[int, int] | None:
        """Asks the leader for log start and high watermark; None when it did not answer."""
        invoked_ns = self._recorder.clock_ns()
        try:
            told = self._consumer.get_watermark_offsets(
                TopicPartition(*key), timeout=LIST_OFFSETS_SECONDS_MAX, cached=False
            )
        except KafkaException as error:
            self.errors.append(str(error))
            return None
        if told is None:
            return None
        self._write(Function.LIST_OFFSETS, key, invoked_ns, log_start_offset=told[0], high_watermark=told[1])
        return told

    def close(self) -> None:
        self._consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        self.errors.append(str(error))

    def _write(
        self,
        f: Function,
        key: Key | None,
        invoked_ns: int,
        *,
        items: tuple[Item, ...] = (),
        from_offset: int | None = None,
        high_watermark: int | None = None,
        log_start_offset: int | None = None,
        transaction: str = "",
    ) -> None:
        self._recorder.add(
            Operation(
                process=self.process,
                f=f,
                type=Outcome.OK,
                t_invoke_ns=invoked_ns,
                t_return_ns=self._recorder.clock_ns(),
                key=key,
                items=items,
                from_offset=from_offset,
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
                final=self._final and f is Function.POLL,
                transaction=transaction,
            )
        )


def read_finally(
    recorder: Recorder,
    *,
    config: Mapping[str, Any],
    keys: Iterable[Key],
    timeout_seconds: float,
    at_least: Mapping[Key, int] | None = None,
) -> set[Key]:
    """The final read: a fresh consumer, every partition from its log start to its end.

    Right after a failover a partition's end may lag: `at_least` says how far each must reach before its end
    counts. Partitions that did not get there in time are returned; what they lack the checker will name.
    """
    reached = at_least or {}
    unfinished = set(keys)
    consumer = RecordedConsumer(recorder, process=f"final-{uuid.uuid4().hex[:8]}", config=config, final=True)
    deadline = time.monotonic() + timeout_seconds
    try:
        consumer.assign(sorted(unfinished))
        while unfinished and time.monotonic() < deadline:
            consumer.consume()
            unfinished -= {
                key for key in consumer.ended if consumer.positions.get(key, 0) >= reached.get(key, 0)
            }
    finally:
        consumer.close()
    return unfinished


def ends_of(history: History) -> dict[Key, int]:
    """For each partition the offset after the last acknowledged record: what the final read must reach."""
    ends: dict[Key, int] = {}
    for operation in history.operations:
        if operation.f is Function.SEND and operation.type is Outcome.OK and operation.key is not None:
            end = max(operation.items)[0] + 1
            ends[operation.key] = max(end, ends.get(operation.key, 0))
    return ends
