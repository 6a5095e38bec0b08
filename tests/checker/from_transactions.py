"""Records histories of transactions from a stock producer: confluent-kafka (librdkafka).

A producer that was fenced, or that met a fatal error, is over: `RecordedTransactions` then says so, and its
user makes a new one with the same transactional id, as an application is started again.

The outcome of a transaction: `ok` if its commit was answered. `fail` if nobody ever asked for its commit, or
if it was asked for, refused, and an abort was answered with success: a coordinator that had committed would
have refused the abort. Everything else is `info`: a commit that was fenced may have been done before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from .from_clients import Recorder
from .history import NO_OFFSET, Function, Key, Operation, Outcome
from .values import encode_value

ATTEMPT_SECONDS = 5.0
"""One call of the client; what is not answered by then is asked again."""


class Over(Exception):
    """The producer can do nothing any more. Its transaction, if it had one, is written."""


class RecordedTransactions:
    """A transactional confluent-kafka producer that writes every transaction down once, however it ends.

    Args:
        recorder, process: the process's name must be new in this history.
        config: the client's, with `transactional.id` and `bootstrap.servers`.
        seconds_max: how long one call may be asked again.
        make: the producer's maker, of another client with the same calls.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        process: str,
        config: Mapping[str, Any],
        seconds_max: float = 60.0,
        make: Callable[[dict[str, Any]], Any] = Producer,
    ) -> None:
        self.process = process
        self.name = ""
        """Of the transaction that is open; empty between two."""
        self._recorder = recorder
        self._seconds_max = seconds_max
        self._count = 0
        self._sends: dict[Key, dict[str, int]] = {}
        self._invoked_ns: dict[Key, int] = {}
        self._producer = make({"log_level": 0, "error_cb": lambda error: None, **config})

    # --- the transaction ------------------------------------------------------------------------------------

    def open(self) -> None:
        """Take the transactional id over. Raises Over."""
        if error := self._insist(self._producer.init_transactions):
            raise Over(f"init_transactions: {error}")

    def begin(self) -> str:
        """Begin one; return its name. Raises Over."""
        assert not self.name
        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise Over(f"begin_transaction: {error}") from error
        self._count += 1
        self.name = f"{self.process}-{self._count}"
        return self.name

    def send(self, key: Key, *, value_bytes: int = 0) -> str:
        """Add one new value to the transaction; return it. Raises Over."""
        value = self._recorder.new_value(self.process, key, value_bytes=value_bytes)
        self.put(key, value, encode_value(value))
        return value

    def put(self, key: Key, value: str, record: bytes) -> None:
        """Add a record, which stands for this value in the history."""
        offsets = self._sends.setdefault(key, {})
        self._invoked_ns.setdefault(key, self._recorder.clock_ns())

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None and offset >= 0:
                offsets[value] = offset

        def produce() -> None:
            self._producer.produce(key[0], record, partition=key[1], on_delivery=on_delivery)

        offsets[value] = NO_OFFSET
        try:
            try:
                produce()
            except BufferError:
                self._producer.poll(ATTEMPT_SECONDS)
                produce()
        except (KafkaException, BufferError) as error:
            self._give_up(f"produce: {error}")
        self._producer.poll(0)

    def send_offsets(self, positions: Mapping[Key, int], group_metadata: object) -> bool:
        """Add a consumer's positions; whether that was taken, and if not, what is left is to abort. Raises
        Over."""
        offsets = [TopicPartition(*key, offset) for key, offset in positions.items()]
        error = self._insist(
            lambda seconds: self._producer.send_offsets_to_transaction(offsets, group_metadata, seconds)
        )
        if error is not None and not error.txn_requires_abort():
            self._give_up(f"send_offsets_to_transaction: {error}")
        return error is None

    def commit(self, *, was_taken_over: bool = False) -> Outcome:
        """Return what came of it. Raises Over. was_taken_over: another producer has opened this transactional
        id since, so the transaction was aborted and nothing but a refusal is right."""
        invoked_ns = self._recorder.clock_ns()
        error = self._insist(self._producer.commit_transaction)
        if error is None:
            self._end(Outcome.OK, invoked_ns, "")
            return Outcome.OK
        if error.txn_requires_abort():
            refused = error.name()
            if (error := self._insist(self._producer.abort_transaction)) is None:
                self._end(Outcome.FAIL, invoked_ns, refused)
                return Outcome.FAIL
        self._end(Outcome.FAIL if was_taken_over else Outcome.INFO, invoked_ns, error.name())
        raise Over(f"commit_transaction: {error}")

    def abort(self) -> None:
        """Give the transaction up, whose commit nobody asks for. Raises Over."""
        invoked_ns = self._recorder.clock_ns()
        error = self._insist(self._producer.abort_transaction)
        self._end(Outcome.FAIL, invoked_ns, "" if error is None else error.name())
        if error is not None:
            raise Over(f"abort_transaction: {error}")

    def abandon(self) -> None:
        """Forget the client with its open transaction, as a crash does: it asks the coordinator nothing."""
        if self.name:
            self._end(Outcome.FAIL, self._recorder.clock_ns(), "")

    # --- the client -----------------------------------------------------------------------------------------

    def bootstrap_servers(self, *, timeout_seconds: float = 10.0) -> str:
        """The brokers that this client knows, as another client's bootstrap.servers."""
        brokers = self._producer.list_topics(timeout=timeout_seconds).brokers.values()
        return ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def _insist(self, call: Callable[[float], object]) -> KafkaError | None:
        """Call until it is answered, for seconds_max; return the error that it ended with."""
        deadline = time.monotonic() + self._seconds_max
        while True:
            try:
                call(min(ATTEMPT_SECONDS, self._seconds_max))
            except KafkaException as raised:
                error: KafkaError = raised.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    return error
            else:
                return None

    def _give_up(self, why: str) -> None:
        """Nobody asked for the commit and nobody will."""
        self._end(Outcome.FAIL, self._recorder.clock_ns(), why[:200])
        raise Over(why)

    def _end(self, outcome: Outcome, invoked_ns: int, error: str) -> None:
        name, self.name = self.name, ""
        sends, self._sends = self._sends, {}
        returned_ns = self._recorder.clock_ns()
        for key, offsets in sends.items():
            self._recorder.add(
                Operation(
                    process=self.process,
                    f=Function.SEND,
                    type=outcome,
                    t_invoke_ns=self._invoked_ns[key],
                    t_return_ns=returned_ns,
                    key=key,
                    items=tuple((offset, value) for value, offset in offsets.items()),
                    idempotent=True,
                    transaction=name,
                    error=error,
                )
            )
        self._invoked_ns = {}
        self._recorder.add(
            Operation(
                process=self.process,
                f=Function.TRANSACTION,
                type=outcome,
                t_invoke_ns=invoked_ns,
                t_return_ns=returned_ns,
                transaction=name,
                error=error,
            )
        )


def open_partitions(bootstrap_servers: str, keys: Iterable[Key]) -> list[str]:
    """Return the partitions whose readers of committed records do not reach the high watermark, with why."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*key): latest for key in keys}
    found: list[str] = []
    with AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0}) as admin:
        told = {
            isolation: admin.list_offsets(asked, isolation_level=isolation, request_timeout=ATTEMPT_SECONDS)
            for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        }
        for place in asked:
            try:
                committed, all_of_it = (answer[place].result().offset for answer in told.values())
            except KafkaException as error:
                found.append(f"{place.topic}/{place.partition} {error}")
                continue
            if committed < all_of_it:
                found.append(f"{place.topic}/{place.partition} {committed} of {all_of_it}")
    return found
