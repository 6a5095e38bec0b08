"""An idempotent producer: one partition, up to five batches in flight, retries in order, no lies.

What Kafka's own clients promise, at its barest. A batch that is not acknowledged is sent again with its
sequence until it is, or until its time is over; then nobody knows, so it is written down as `info`, and the
producer goes on under a new producer id, for the old one's sequences have a hole that a broker would refuse.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import trio

from springtide.wire.apis import ApiKey
from springtide.wire.records import NewRecord, encode_batch
from tests.checker.history import NO_OFFSET, Operation, Outcome, Sequence
from tests.checker.history import Function as F
from tests.checker.outcomes import NO_ANSWER, OK, outcome_of_send
from tests.checker.values import encode_value, make_value
from tests.fullstack.kafka import Ask, ConnectionLost, KafkaConnection, Metadata

if TYPE_CHECKING:
    from tests.fullstack.clients import ClientHost

IN_FLIGHT_MAX = 5
BATCH_RECORDS_MAX = 5
QUEUE_MAX = 20
"""Batches that wait; beyond it the application is held back."""
RETRY_MS = (20, 150)
REQUEST_TIMEOUT_MS = 2_000
DELIVERY_MS = 15_000
VALUE_BYTES = (80, 80, 400, 1_200)
"""A batch of the largest fits into the smallest segment."""

DUPLICATE_SEQUENCE = "DUPLICATE_SEQUENCE_NUMBER"
#: The producer id is of no use any more: broker and producer disagree about its past.
FATAL = frozenset({"OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "UNKNOWN_PRODUCER_ID"})


@dataclass(slots=True, eq=False)
class _Batch:
    values: list[str]
    sequence: Sequence
    encoded: bytes
    invoked_ns: int
    answers: list[str] = field(default_factory=list)


class Producer:
    """`run` produces until `stop`, or until it has written `records`; then what is under way ends, and `run`
    returns."""

    def __init__(
        self,
        host: ClientHost,
        *,
        name: str,
        topic: str,
        partition: int,
        pause_ms: tuple[float, float],
        batch_records_max: int = BATCH_RECORDS_MAX,
        records: int | None = None,
        acks: int = -1,
    ) -> None:
        self.name = name
        self.topic = topic
        self.partition = partition
        self.acked = 0
        self.is_stopped = False
        self.has_ended = False
        #: Whether the topic is being deleted: who is told that it is not there believes it then.
        self.may_vanish = False
        self._host = host
        self._pause_ms = pause_ms
        self._batch_records_max = batch_records_max
        self._records = records
        self._acks = acks
        self._random: Random = host.life.world.random("producer", name)
        self._metadata = Metadata(host.life, host.net, host.bootstrap, name)
        self._batches: deque[_Batch] = deque()
        self._numbers = 0
        self._identity: tuple[int, int] | None = None
        self._next_sequence = 0
        self._more = trio.Event()
        self._has_room = trio.Event()

    def know_only(self, address: tuple[str, int]) -> None:
        """Whom to ask for metadata; before `run`."""
        self._metadata.know_only(address)

    def stop(self) -> None:
        self.is_stopped = True
        self._more.set()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            await self._send_for_ever()
            nursery.cancel_scope.cancel()
        self.has_ended = True

    # The application

    async def _write(self) -> None:
        clock = self._host.life.clock
        while not self.is_stopped:
            await clock.sleep_ms(self._random.uniform(*self._pause_ms))
            while len(self._batches) >= QUEUE_MAX or self._identity is None:
                self._has_room = trio.Event()
                await self._has_room.wait()
            if not self.is_stopped:
                self._batches.append(self._new_batch(self._random.randint(1, self._batch_records_max)))
                self._more.set()
            if self._records is not None and self._numbers >= self._records:
                self.stop()

    def _new_batch(self, count: int) -> _Batch:
        if self._records is not None:
            count = min(count, self._records - self._numbers)
        values = []
        for _ in range(count):
            size = self._random.choice(VALUE_BYTES)
            values.append(
                make_value(
                    run="b",
                    process=self.name,
                    number=self._numbers,
                    key=(self.topic, self.partition),
                    value_bytes=size,
                )
            )
            self._numbers += 1
        return self._sealed(values, self._host.life.world.now_ns)

    def _sealed(self, values: list[str], invoked_ns: int) -> _Batch:
        assert self._identity is not None
        producer_id, epoch = self._identity
        sequence = Sequence(id=producer_id, epoch=epoch, sequence=self._next_sequence)
        self._next_sequence += len(values)
        wall_ms = self._host.life.clock.wall_ms()
        encoded = encode_batch(
            [NewRecord(key=None, value=encode_value(value), timestamp=wall_ms) for value in values],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence.sequence,
        )
        return _Batch(values, sequence, encoded, invoked_ns)

    # The sender

    async def _send_for_ever(self) -> None:
        while not (self.is_stopped and not self._batches):
            if self._identity is None:
                await self._get_identity()
            elif not self._batches:
                self._more = trio.Event()
                await self._more.wait()
            else:
                await self._send_until_trouble()
            self._give_up_late()

    async def _rest(self) -> None:
        await self._host.life.clock.sleep_ms(self._random.uniform(*RETRY_MS))

    async def _connect(self) -> KafkaConnection | None:
        address = self._metadata.leader_of(self.topic, self.partition)
        if address is None:
            found = await self._metadata.refresh(self.topic)
            if self.may_vanish and found.get("error") == "unknown_topic_or_partition":
                self._give_up_all("UNKNOWN_TOPIC_OR_PARTITION")
                self.stop()
            address = self._metadata.leader_of(self.topic, self.partition)
        if address is not None:
            try:
                return await KafkaConnection.open(self._host.life, self._host.net, address, self.name)
            except ConnectionLost:
                self._metadata.forget(self.topic, self.partition)
        await self._rest()
        return None

    async def _get_identity(self) -> None:
        connection = await self._connect()
        if connection is None:
            return
        try:
            answer = await connection.call(
                ApiKey.INIT_PRODUCER_ID,
                {
                    "transactional_id": None,
                    "transaction_timeout_ms": 0,
                    "producer_id": -1,
                    "producer_epoch": -1,
                },
            )
        except ConnectionLost:
            self._metadata.forget(self.topic, self.partition)
            await self._rest()
            return
        finally:
            connection.close()
        if answer.error_code != 0:
            await self._rest()
            return
        self._identity = answer.producer_id, answer.producer_epoch
        self._next_sequence = 0
        waiting, self._batches = self._batches, deque()
        for batch in waiting:  # never sent, or surely refused
            assert not batch.answers, "what may have been appended keeps its identity"
            self._batches.append(self._sealed(batch.values, batch.invoked_ns))
        self._has_room.set()

    async def _send_until_trouble(self) -> None:
        connection = await self._connect()
        if connection is None:
            return
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.read_answers)
                await self._pipeline(connection)
                nursery.cancel_scope.cancel()
        finally:
            connection.close()

    async def _pipeline(self, connection: KafkaConnection) -> None:
        """Sends and reads answers in order, until something is refused or lost."""
        asks: deque[tuple[_Batch, Ask]] = deque()
        is_over = False
        while not is_over:
            sent = len(asks)
            try:
                while not is_over and sent < min(IN_FLIGHT_MAX, len(self._batches)):
                    batch = self._batches[sent]
                    batch.answers.append(NO_ANSWER)
                    asks.append((batch, await self._ask(connection, batch)))
                    sent += 1
            except ConnectionLost:
                is_over = True
            if not asks:
                if self.is_stopped or is_over:
                    break
                self._more = trio.Event()
                with self._host.life.clock.timeout_ms(200):
                    await self._more.wait()
                is_over = connection.is_lost
                continue
            batch, ask = asks.popleft()
            is_over |= not await self._settle(batch, ask)
        for batch, ask in asks:  # they keep their places; what they were told is told of them
            try:
                batch.answers[-1] = self._error_of(await ask.answer())[0]
            except ConnectionLost:
                break
        self._metadata.forget(self.topic, self.partition)
        await self._rest()

    async def _ask(self, connection: KafkaConnection, batch: _Batch) -> Ask:
        return await connection.ask(
            ApiKey.PRODUCE,
            {
                "transactional_id": None,
                "acks": self._acks,
                "timeout_ms": REQUEST_TIMEOUT_MS,
                "topic_data": (
                    {
                        "name": self.topic,
                        "partition_data": ({"index": self.partition, "records": batch.encoded},),
                    },
                ),
            },
        )

    def _error_of(self, answer: Any) -> tuple[str, int]:
        told = answer.responses[0].partition_responses[0]
        return ("NONE" if told.error_code == 0 else told.error_code.name.upper()), told.base_offset

    async def _settle(self, batch: _Batch, ask: Ask) -> bool:
        """Whether the next may follow."""
        try:
            error, offset = self._error_of(await ask.answer())
        except ConnectionLost:
            return False
        if error == DUPLICATE_SEQUENCE:  # it is there, and nobody remembers where
            error, offset = OK, NO_OFFSET
        batch.answers[-1] = error
        if error == OK:
            self._batches.popleft()
            self._has_room.set()
            self._write_down(batch, offset)
            return True
        self._host.world.note(f"{self.name}: sequence {batch.sequence.sequence} was told {error}")
        if error in FATAL:
            self._give_up_attempted()
        return False

    # Giving up

    def _give_up_late(self) -> None:
        """A batch that nobody could send yet is tried once, however late."""
        now_ns = self._host.life.world.now_ns
        oldest = self._batches[0] if self._batches else None
        if oldest is not None and oldest.answers and now_ns - oldest.invoked_ns > DELIVERY_MS * 1_000_000:
            self._give_up_attempted()

    def _give_up_attempted(self) -> None:
        """The sequences of what was tried may be taken: what follows needs another identity."""
        keep: deque[_Batch] = deque()
        for batch in self._batches:
            if batch.answers:
                self._write_down(batch, NO_OFFSET)
            else:
                keep.append(batch)
        self._batches = keep
        self._identity = None
        self._has_room.set()

    def _give_up_all(self, error: str) -> None:
        for batch in self._batches:
            self._write_down(batch, NO_OFFSET, error=error)
        self._batches.clear()

    def _write_down(self, batch: _Batch, offset: int, *, error: str = "") -> None:
        outcome = outcome_of_send(batch.answers)
        error = error or next((answer for answer in reversed(batch.answers) if answer), "no answer")
        if outcome is Outcome.OK:
            self.acked += len(batch.values)
            error = ""
        first = offset if outcome is Outcome.OK else NO_OFFSET
        self._host.record(
            Operation(
                process=self.name,
                f=F.SEND,
                type=outcome,
                t_invoke_ns=batch.invoked_ns,
                t_return_ns=self._host.life.world.now_ns,
                key=(self.topic, self.partition),
                items=tuple(
                    (NO_OFFSET if first < 0 else first + index, value)
                    for index, value in enumerate(batch.values)
                ),
                acks=self._acks,
                idempotent=True,
                producer=batch.sequence,
                error=error,
            )
        )
