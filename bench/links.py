"""The connections of the raw load: each keeps its requests under way and checks every answer."""

from __future__ import annotations

import ssl
import struct
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

from bench import protocol
from bench.asking import connect
from bench.protocol import BadAnswer, Leader, ProduceAnswers

RECEIVE_BYTES = 64 * 1024
FETCH_BUFFER_BYTES = 2 * 1024 * 1024
"""Holds the largest answer to a Fetch: one partition's max.partition.fetch.bytes and some."""
_SIZE = struct.Struct(">i")


class Tally:
    """What the links of a run have seen so far."""

    __slots__ = ("bytes", "is_asking", "latencies_s", "operations", "records")

    def __init__(self) -> None:
        self.is_asking = True
        """False: nothing new is asked; what is under way is waited for."""
        self.latencies_s: list[float] = []
        self.clear()

    def clear(self) -> None:
        """The warm-up is over."""
        self.latencies_s.clear()
        self.operations = 0
        self.records = 0
        self.bytes = 0


class Link(ABC):
    """One connection of a load."""

    __slots__ = ("_buffer", "_held", "_socket", "_tally", "_view", "in_flight")

    def __init__(
        self, leader: Leader, tally: Tally, tls: ssl.SSLContext | None, *, buffer_bytes: int
    ) -> None:
        self._socket = connect(leader, tls)
        self._buffer = bytearray(buffer_bytes)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._tally = tally
        self.in_flight = 0

    def fileno(self) -> int:
        return self._socket.fileno()

    @abstractmethod
    def start(self) -> None:
        """Sends the first requests."""

    @abstractmethod
    def on_readable(self) -> None: ...

    @abstractmethod
    def on_writable(self) -> None: ...

    @property
    @abstractmethod
    def wants_write(self) -> bool: ...


class ProduceLink(Link):
    """One connection that produces one batch to partitions of one leader in turn, `in_flight` times at once.

    Frame i carries correlation id i, and answers come in the order of the requests, so the ids of the answers
    go round: an answer that is lost, doubled or misplaced is seen.
    """

    __slots__ = (
        "_answer_bytes",
        "_checks",
        "_frames",
        "_in_flight_max",
        "_next_answer",
        "_next_frame",
        "_records",
        "_sent_at",
        "_unsent",
        "batch_bytes",
        "on_base_offset",
    )

    def __init__(
        self,
        *,
        leaders: Sequence[Leader],
        topic: str,
        acks: int,
        batch: bytes,
        batch_records: int,
        in_flight: int,
        tally: Tally,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(leaders[0], tally, tls, buffer_bytes=RECEIVE_BYTES)
        written = [leaders[index % len(leaders)].partition for index in range(max(in_flight, len(leaders)))]
        self._frames = [
            protocol.encode_produce(
                topic=topic, partition=partition, acks=acks, batch=batch, correlation_id=index
            )
            for index, partition in enumerate(written)
        ]
        answers = [ProduceAnswers(topic=topic, partition=partition) for partition in written]
        self._checks = [one.check for one in answers]
        self._answer_bytes = answers[0].size
        self._in_flight_max = in_flight
        self._unsent: deque[memoryview] = deque()
        self._sent_at = [0.0] * len(written)
        self._next_frame = 0
        self._next_answer = 0
        self._records = batch_records
        self.batch_bytes = len(batch)
        self.on_base_offset: list[float] | None = None
        """A tail load's: when each batch was first sent, in the order of the sends."""

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    def start(self) -> None:
        self._ask(self._in_flight_max)

    def _ask(self, count: int) -> None:
        """Sends the next `count` frames with one call."""
        frames, total = self._frames, len(self._frames)
        first = self._next_frame
        now = time.perf_counter()
        sent_at = self._sent_at
        for index in range(first, first + count):
            sent_at[index % total] = now
        if self.on_base_offset is not None:
            self.on_base_offset.extend([now] * count)
        self._next_frame = (first + count) % total
        self.in_flight += count
        if count == 1 and not self._unsent:
            self._send_one(frames[first])
            return
        self._unsent.extend(memoryview(frames[index % total]) for index in range(first, first + count))
        self.on_writable()

    def _send_one(self, frame: bytes) -> None:
        try:
            sent = self._socket.send(frame)
        except BlockingIOError:
            sent = 0
        if sent < len(frame):
            self._unsent.append(memoryview(frame)[sent:])

    def on_writable(self) -> None:
        unsent = self._unsent
        while unsent:
            try:
                sent = self._socket.sendmsg(unsent)
            except BlockingIOError:
                return
            while sent:
                head = unsent[0]
                if sent < len(head):
                    unsent[0] = head[sent:]
                    break
                sent -= len(head)
                unsent.popleft()

    def on_readable(self) -> None:
        try:
            received = self._socket.recv_into(self._view[self._held :])
        except BlockingIOError:
            return
        if received == 0:
            raise BadAnswer("the broker closed the connection")
        now = time.perf_counter()
        held = self._held + received
        size, buffer, checks = self._answer_bytes, self._buffer, self._checks
        sent_at, append = self._sent_at, self._tally.latencies_s.append
        total = len(self._frames)
        expected = self._next_answer
        position = 0
        while held - position >= size:
            checks[expected](buffer, position, correlation_id=expected)
            append(now - sent_at[expected])
            expected = (expected + 1) % total
            position += size
        if held > position:
            self._refuse_other_size(position, held)
            buffer[: held - position] = buffer[position:held]
        self._held = held - position
        count = position // size
        if count == 0:
            return
        self._next_answer = expected
        self.in_flight -= count
        tally = self._tally
        tally.operations += count
        tally.records += count * self._records
        tally.bytes += count * self.batch_bytes
        if tally.is_asking:
            self._ask(count)

    def _refuse_other_size(self, position: int, held: int) -> None:
        """A shorter answer than all others would otherwise be waited for in vain."""
        if held - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(self._buffer, position)
            if size != self._answer_bytes - _SIZE.size:
                raise BadAnswer(f"an answer to Produce of {size} bytes")


class FetchLink(Link):
    """One connection that reads one partition from its beginning, one request at a time.

    At the end it goes back to the beginning, or, when it follows (`sent_at`), waits there for more and takes
    the time since each batch was sent.
    """

    __slots__ = (
        "_asked_at",
        "_fetch_offset",
        "_first_offset",
        "_partition",
        "_records_per_batch",
        "_sent_at",
        "_topic",
        "_unsent",
    )

    def __init__(
        self,
        *,
        leader: Leader,
        topic: str,
        fetch_offset: int,
        tally: Tally,
        sent_at: list[float] | None = None,
        records_per_batch: int = 1,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(leader, tally, tls, buffer_bytes=FETCH_BUFFER_BYTES)
        self._partition = leader.partition
        self._topic = topic
        self._fetch_offset = fetch_offset
        self._first_offset = fetch_offset
        self._sent_at = sent_at
        self._records_per_batch = records_per_batch
        self._unsent = memoryview(b"")
        self._asked_at = 0.0

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    def start(self) -> None:
        self._ask()

    def _ask(self) -> None:
        self._unsent = memoryview(
            protocol.encode_fetch(
                topic=self._topic,
                partition=self._partition,
                fetch_offset=self._fetch_offset,
                correlation_id=0,
            )
        )
        self._asked_at = time.perf_counter()
        self.in_flight = 1
        self.on_writable()

    def on_writable(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return

    def on_readable(self) -> None:
        try:
            received = self._socket.recv_into(self._view[self._held :])
        except BlockingIOError:
            return
        if received == 0:
            raise BadAnswer("the broker closed the connection")
        self._held += received
        if self._held < _SIZE.size:
            return
        (size,) = _SIZE.unpack_from(self._buffer)
        if not 0 < size <= FETCH_BUFFER_BYTES - _SIZE.size:
            raise BadAnswer(f"an answer to Fetch of {size} bytes")
        if self._held < size + _SIZE.size:
            return
        now = time.perf_counter()
        self._held = 0
        self.in_flight = 0
        self._on_answer(self._view[_SIZE.size : _SIZE.size + size], now)
        if self._tally.is_asking:
            self._ask()

    def _on_answer(self, answer: memoryview, now: float) -> None:
        fetched = protocol.decode_fetched(answer, fetch_offset=self._fetch_offset)
        tally = self._tally
        self._fetch_offset = fetched.next_offset
        tally.records += fetched.records
        tally.bytes += fetched.bytes
        sent_at = self._sent_at
        if sent_at is None:
            tally.operations += 1
            tally.latencies_s.append(now - self._asked_at)
            if fetched.next_offset >= fetched.high_watermark:
                self._fetch_offset = self._first_offset
            return
        tally.operations += len(fetched.batches)
        for base_offset, _ in fetched.batches:
            batch = (base_offset - self._first_offset) // self._records_per_batch
            tally.latencies_s.append(now - sent_at[batch])
