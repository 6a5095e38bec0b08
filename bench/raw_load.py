"""The raw load: N connections, each with M requests under way, on one epoll. `python -m bench.raw_load`.

It shares the machine with the brokers, so it has to be light: requests are encoded before the clock runs and
sent again and again with nothing changed, answers are checked with one unpack each, and all that one wake-up
answered is asked again with one send. The same bytes go to both sides.

Every answer is checked: its place in the order, its error code, what it is about. The first that is wrong
ends the run as failed: a benchmark of refusals is none.

Latency is that of a request as its sender sees it: from before its send to after the receive that brought its
answer. Only answers that arrive between the end of the warm-up and the end of the run count.
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections import deque
from typing import Protocol

from bench import protocol
from bench.cases import ACKS_ALL, Kind
from bench.figures import Measurement
from bench.load_spec import LoadSpec, serve_spec
from bench.processor_time import Reading, measure_between, take_reading
from bench.protocol import BadAnswer, Leader, ProduceAnswers
from bench.secured import SecuredSocket, client_context, secured

ANSWER_SECONDS_MAX = 30.0
RECEIVE_BYTES = 64 * 1024
FETCH_BUFFER_BYTES = 2 * 1024 * 1024
"""Holds the largest answer to a Fetch: one partition's max.partition.fetch.bytes and some."""
POLL_SECONDS = 1.0
FILL_IN_FLIGHT = 8
_SIZE = struct.Struct(">i")


class Link(Protocol):
    """One connection of a load."""

    def fileno(self) -> int: ...

    def start(self) -> None:
        """Sends the first requests."""

    def on_readable(self) -> None: ...

    def on_writable(self) -> None: ...

    @property
    def wants_write(self) -> bool: ...


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


class ProduceLink:
    """One connection that produces one batch to one partition, `in_flight` times at once.

    Frame i carries correlation id i, and answers come in the order of the requests, so the ids of the answers
    go round: an answer that is lost, doubled or misplaced is seen.
    """

    __slots__ = (
        "_answer_bytes",
        "_answers",
        "_buffer",
        "_frames",
        "_held",
        "_next_answer",
        "_next_frame",
        "_records",
        "_sent_at",
        "_socket",
        "_tally",
        "_unsent",
        "_view",
        "batch_bytes",
        "in_flight",
        "on_base_offset",
    )

    def __init__(
        self,
        *,
        leader: Leader,
        topic: str,
        acks: int,
        batch: bytes,
        batch_records: int,
        in_flight: int,
        tally: Tally,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._socket = connect(leader, tls)
        self._frames = [
            protocol.encode_produce(
                topic=topic, partition=leader.partition, acks=acks, batch=batch, correlation_id=index
            )
            for index in range(in_flight)
        ]
        self._answers = ProduceAnswers(topic=topic, partition=leader.partition)
        self._answer_bytes = self._answers.size
        self._buffer = bytearray(RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._unsent: deque[memoryview] = deque()
        self._sent_at = [0.0] * in_flight
        self._next_frame = 0
        self._next_answer = 0
        self._tally = tally
        self._records = batch_records
        self.batch_bytes = len(batch)
        self.in_flight = 0
        self.on_base_offset: list[float] | None = None
        """A tail load's: when each batch was first sent, in the order of the sends."""

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent)

    def start(self) -> None:
        self._ask(len(self._frames))

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
        size, buffer, check = self._answer_bytes, self._buffer, self._answers.check
        sent_at, append = self._sent_at, self._tally.latencies_s.append
        total = len(self._frames)
        expected = self._next_answer
        position = 0
        while held - position >= size:
            check(buffer, position, correlation_id=expected)
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


class FetchLink:
    """One connection that reads one partition from its beginning, one request at a time.

    At the end it goes back to the beginning, or, when it follows (`sent_at`), waits there for more and takes
    the time since each batch was sent.
    """

    __slots__ = (
        "_asked_at",
        "_buffer",
        "_fetch_offset",
        "_first_offset",
        "_held",
        "_partition",
        "_records_per_batch",
        "_sent_at",
        "_socket",
        "_tally",
        "_topic",
        "_unsent",
        "_view",
        "in_flight",
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
        self._socket = connect(leader, tls)
        self._partition = leader.partition
        self._topic = topic
        self._buffer = bytearray(FETCH_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._held = 0
        self._fetch_offset = fetch_offset
        self._first_offset = fetch_offset
        self._tally = tally
        self._sent_at = sent_at
        self._records_per_batch = records_per_batch
        self._unsent = memoryview(b"")
        self._asked_at = 0.0
        self.in_flight = 0

    def fileno(self) -> int:
        return self._socket.fileno()

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


def connect(leader: Leader, tls: ssl.SSLContext | None) -> socket.socket | SecuredSocket:
    """A non-blocking connection that sends at once."""
    plain = socket.create_connection((leader.host, leader.port), timeout=ANSWER_SECONDS_MAX)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected = secured(plain, leader.host, tls)
    connected.setblocking(False)
    return SecuredSocket(connected) if isinstance(connected, ssl.SSLSocket) else connected


def ask_once(host: str, port: int, request: bytes, tls: ssl.SSLContext | None = None) -> memoryview:
    """One request on a connection of its own; the answer's frame without its size."""
    plain = socket.create_connection((host, port), timeout=ANSWER_SECONDS_MAX)
    with secured(plain, host, tls) as connected:
        connected.sendall(request)
        with connected.makefile("rb") as stream:
            (size,) = _SIZE.unpack(stream.read(_SIZE.size))
            return memoryview(stream.read(size))


def find_leaders(bootstrap_servers: str, topic: str, tls: ssl.SSLContext | None = None) -> list[Leader]:
    """The leaders of a topic's partitions, in order; asks the first of the servers."""
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    leaders = protocol.decode_leaders(ask_once(host, int(port), protocol.encode_metadata(topic), tls))
    if not leaders:
        raise BadAnswer(f"{topic} has no partition")
    return leaders


def list_offset(leader: Leader, topic: str, timestamp: int, tls: ssl.SSLContext | None = None) -> int:
    request = protocol.encode_list_offsets(topic, leader.partition, timestamp)
    return protocol.decode_listed_offset(ask_once(leader.host, leader.port, request, tls))


class Loop:
    """One epoll over the links."""

    def __init__(self, links: list[Link], tally: Tally) -> None:
        self._links = {link.fileno(): link for link in links}
        self._tally = tally
        self._epoll = select.epoll()
        self._writing: set[int] = set()

    def start(self) -> None:
        for fd, link in self._links.items():
            self._epoll.register(fd, select.EPOLLIN)
            link.start()
            self._update(fd, link)

    def run_until(self, deadline: float) -> None:
        """Serves until the time is over. Raises BadAnswer when nothing is answered any more."""
        poll, links, update = self._epoll.poll, self._links, self._update
        writing = self._writing
        answered_at = time.perf_counter()
        while True:
            ready = poll(POLL_SECONDS)
            for fd, events in ready:
                link = links[fd]
                if events & select.EPOLLIN:
                    link.on_readable()
                elif events & (select.EPOLLERR | select.EPOLLHUP):
                    raise BadAnswer("the broker closed the connection")
                if events & select.EPOLLOUT:
                    link.on_writable()
                if link.wants_write or fd in writing:
                    update(fd, link)
            now = time.perf_counter()
            if ready:
                answered_at = now
            elif now - answered_at > ANSWER_SECONDS_MAX:
                raise BadAnswer(f"no answer for {ANSWER_SECONDS_MAX:g} s")
            if now >= deadline:
                return

    def _update(self, fd: int, link: Link) -> None:
        wants_write = link.wants_write
        if wants_write is not (fd in self._writing):
            self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wants_write else 0))
            (self._writing.add if wants_write else self._writing.discard)(fd)


def run(spec: LoadSpec) -> Measurement:
    leaders = find_leaders(spec.bootstrap_servers, spec.topic, client_context(spec.ca_file))
    tally = Tally()
    if spec.fill_bytes:
        return _fill(spec, leaders, tally)
    loop = Loop(_links(spec, leaders, tally), tally)
    loop.start()
    loop.run_until(time.perf_counter() + spec.warmup_s)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    tally.clear()
    loop.run_until(before.at + spec.duration_s)
    after = take_reading(time.perf_counter(), spec.broker_pids)
    measured = _measure(spec, tally, before, after)
    tally.is_asking = False
    return measured


def _measure(spec: LoadSpec, tally: Tally, before: Reading, after: Reading) -> Measurement:
    return measure_between(
        before,
        after,
        broker_pids=spec.broker_pids,
        operations=tally.operations,
        records=tally.records,
        moved_bytes=tally.bytes,
        latencies_s=tally.latencies_s,
    )


def _links(spec: LoadSpec, leaders: list[Leader], tally: Tally) -> list[Link]:
    """Connection i goes to partition i modulo their number."""
    case, tls = spec.case, client_context(spec.ca_file)
    chosen = [leaders[index % len(leaders)] for index in range(case.connections)]
    if case.kind is Kind.FETCH:
        return [
            FetchLink(
                leader=leader,
                topic=spec.topic,
                fetch_offset=list_offset(leader, spec.topic, protocol.EARLIEST, tls),
                tally=tally,
                tls=tls,
            )
            for leader in chosen
        ]
    if case.kind is Kind.PRODUCE:
        return [_produce_link(spec, leader, tally, in_flight=case.in_flight) for leader in chosen]
    assert case.kind is Kind.TAIL
    # What the writer sees is not counted: the reader's latency holds it.
    writer = _produce_link(spec, leaders[0], Tally(), in_flight=case.in_flight)
    writer.on_base_offset = []
    reader = FetchLink(
        leader=leaders[0],
        topic=spec.topic,
        fetch_offset=list_offset(leaders[0], spec.topic, protocol.LATEST, tls),
        tally=tally,
        sent_at=writer.on_base_offset,
        records_per_batch=case.batch_records,
        tls=tls,
    )
    return [reader, writer]


def _produce_link(spec: LoadSpec, leader: Leader, tally: Tally, *, in_flight: int) -> ProduceLink:
    case = spec.case
    batch = protocol.encode_produced_batch(
        batch_records=case.batch_records, record_bytes=case.record_bytes, timestamp_ms=int(time.time() * 1000)
    )
    return ProduceLink(
        leader=leader,
        topic=spec.topic,
        acks=ACKS_ALL if spec.fill_bytes else case.acks,
        batch=batch,
        batch_records=case.batch_records,
        in_flight=in_flight,
        tally=tally,
        tls=client_context(spec.ca_file),
    )


def _fill(spec: LoadSpec, leaders: list[Leader], tally: Tally) -> Measurement:
    """Writes at least `fill_bytes` and waits until all of it is acknowledged."""
    links = [_produce_link(spec, leader, tally, in_flight=FILL_IN_FLIGHT) for leader in leaders]
    loop = Loop(list(links), tally)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    loop.start()
    while any(link.in_flight for link in links):
        tally.is_asking = tally.bytes < spec.fill_bytes
        loop.run_until(time.perf_counter())
    return _measure(spec, tally, before, take_reading(time.perf_counter(), spec.broker_pids))


if __name__ == "__main__":
    serve_spec(run, expected_failures=(BadAnswer, OSError))
