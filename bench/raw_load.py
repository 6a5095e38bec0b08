"""The raw load: N connections, each with M requests under way, on one epoll. `python -m bench raw_load`.

It shares the machine with the brokers, so it has to be light: requests are encoded before the clock runs and
sent again and again with nothing changed, answers are checked with one unpack each, and all that one wake-up
answered is asked again with one send. The same bytes go to both sides.

Every answer is checked: its place in the order, its error code, what it is about. The first that is wrong
ends the run as failed: a benchmark of refusals is none.

Latency is that of a request as its sender sees it: from before its send to after the receive that brought its
answer. Only answers that arrive between the end of the warm-up and the end of the run count.
"""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import time
from collections.abc import Sequence

from bench import protocol
from bench.asking import ANSWER_SECONDS_MAX, ask, find_leaders, list_offset, partitions_by_broker
from bench.case import ACKS_ALL, Kind
from bench.figures import Measurement
from bench.links import FetchLink, Link, ProduceLink, Tally
from bench.load_spec import LoadSpec, serve_spec
from bench.processor_time import measure_between, nodes, take_reading
from bench.protocol import BadAnswer, Leader, encode_question
from bench.secured import client_context
from springtide.wire.apis import ApiKey

POLL_SECONDS = 1.0
FILL_IN_FLIGHT = 8


class Loop:
    """One epoll over the links. pause_s: above 0, each link is asked to start once in so many seconds, evenly
    spread over that time."""

    def __init__(self, links: Sequence[Link], tally: Tally, *, pause_s: float = 0.0) -> None:
        self._links = {link.fileno(): link for link in links}
        self._tally = tally
        self._epoll = select.epoll()
        self._writing: set[int] = set()
        self._turns = itertools.cycle(self._links.items())
        self._tick_s = pause_s / len(links) if pause_s else 0.0
        self._due_at = 0.0

    def start(self) -> None:
        for fd, link in self._links.items():
            self._epoll.register(fd, select.EPOLLIN)
            if not self._tick_s:
                link.start()
                self._update(fd, link)
        self._due_at = time.perf_counter()

    def _start_due(self) -> float:
        """Start the links whose turn has come; return the seconds until the next. A link that still waits for
        an answer loses its turn."""
        while (now := time.perf_counter()) >= self._due_at:
            self._due_at += self._tick_s
            fd, link = next(self._turns)
            if not link.in_flight:
                link.start()
                self._update(fd, link)
        return self._due_at - now

    def run_until(self, deadline: float) -> None:
        """Serves until the time is over. Raises BadAnswer when nothing is answered any more."""
        poll, links, update = self._epoll.poll, self._links, self._update
        writing, is_paced = self._writing, bool(self._tick_s)
        answered_at = time.perf_counter()
        while True:
            ready = poll(self._start_due() if is_paced else POLL_SECONDS)
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
    if spec.case.kind is Kind.IDLE:
        return _idle(spec)
    tls = client_context(spec.ca_file, spec.cert_file)
    leaders = find_leaders(spec.bootstrap_servers, spec.topic, tls)
    if spec.fill_bytes:
        return _fill(spec, leaders, tls)
    writers, readers = Tally(), Tally()
    links = _links(spec, leaders, writers, tls)
    if spec.backlog_topic is not None:
        full = find_leaders(spec.bootstrap_servers, spec.backlog_topic, tls)
        chosen = [full[index % len(full)] for index in range(spec.case.readers)]
        links += [_reader(one, spec.backlog_topic, readers, tls) for one in chosen]
    writers.is_asking = not spec.case.pause_s
    loop = Loop(links, writers, pause_s=spec.case.pause_s)
    loop.start()
    loop.run_until(time.perf_counter() + spec.warmup_s)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    writers.clear()
    readers.clear()
    loop.run_until(before.at + spec.duration_s)
    after = take_reading(time.perf_counter(), spec.broker_pids)
    return measure_between(
        before,
        after,
        broker_pids=spec.broker_pids,
        operations=writers.operations + readers.operations,
        records=writers.records + readers.records,
        moved_bytes=writers.bytes + readers.bytes,
        latencies_s=writers.latencies_s,
    )


def _idle(spec: LoadSpec) -> Measurement:
    """Open the connections, ask each once so that it is a client's, and wait."""
    bootstrap = spec.bootstrap_servers.split(",")
    question = encode_question(ApiKey.METADATA, {"topics": []})
    held = []
    for number in range(spec.case.connections):
        host, _, port = bootstrap[number % len(bootstrap)].rpartition(":")
        held.append(socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS_MAX))
        ask(held[-1], question)
    time.sleep(spec.warmup_s)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    time.sleep(spec.duration_s)
    after = take_reading(time.perf_counter(), spec.broker_pids)
    for one in held:
        one.close()
    return measure_between(
        before,
        after,
        broker_pids=spec.broker_pids,
        operations=max(1, round((after.at - before.at) * len(nodes(spec.broker_pids)))),
        records=0,
        moved_bytes=0,
        latencies_s=[],
    )


def _links(spec: LoadSpec, leaders: Sequence[Leader], tally: Tally, tls: ssl.SSLContext | None) -> list[Link]:
    """The connections go to the leaders in turn. One that reads has a partition, one that writes all those of
    its broker."""
    case = spec.case
    if case.kind is Kind.FETCH:
        chosen = [leaders[index % len(leaders)] for index in range(case.connections)]
        return [_reader(leader, spec.topic, tally, tls) for leader in chosen]
    if case.kind is Kind.PRODUCE:
        shares = shares_of(leaders, case.connections)
        return [_produce_link(spec, share, tally, tls, in_flight=case.in_flight) for share in shares]
    assert case.kind is Kind.TAIL
    # What the writer sees is not counted: the reader's latency holds it.
    writer = _produce_link(spec, leaders[:1], Tally(), tls, in_flight=case.in_flight)
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


def shares_of(leaders: Sequence[Leader], connections: int) -> list[Sequence[Leader]]:
    """Return what each connection writes to: all partitions of one broker, beginning with another one than
    the connections before it. The brokers take turns."""
    brokers = list(partitions_by_broker(leaders).values())
    shares: list[Sequence[Leader]] = []
    for number in range(connections):
        own = brokers[number % len(brokers)]
        first = number * len(own) // connections
        shares.append([*own[first:], *own[:first]])
    return shares


def _reader(leader: Leader, topic: str, tally: Tally, tls: ssl.SSLContext | None) -> FetchLink:
    """A connection that reads what is there, from its beginning to its end and again."""
    first = list_offset(leader, topic, protocol.EARLIEST, tls)
    return FetchLink(leader=leader, topic=topic, fetch_offset=first, tally=tally, tls=tls)


def _produce_link(
    spec: LoadSpec,
    leaders: Sequence[Leader],
    tally: Tally,
    tls: ssl.SSLContext | None,
    *,
    in_flight: int,
) -> ProduceLink:
    case = spec.case
    batch = protocol.encode_produced_batch(
        batch_records=case.batch_records,
        record_bytes=case.record_bytes,
        timestamp_ms=int(time.time() * 1000),
        compression=case.compression,
    )
    return ProduceLink(
        leaders=leaders,
        topic=spec.topic,
        acks=ACKS_ALL if spec.fill_bytes else case.acks,
        batch=batch,
        batch_records=case.batch_records,
        in_flight=in_flight,
        tally=tally,
        tls=tls,
    )


def _fill(spec: LoadSpec, leaders: Sequence[Leader], tls: ssl.SSLContext | None) -> Measurement:
    """Writes at least `fill_bytes` and waits until all of it is acknowledged."""
    tally = Tally()
    links = [_produce_link(spec, [leader], tally, tls, in_flight=FILL_IN_FLIGHT) for leader in leaders]
    loop = Loop(links, tally)
    before = take_reading(time.perf_counter(), spec.broker_pids)
    loop.start()
    while any(link.in_flight for link in links):
        tally.is_asking = tally.bytes < spec.fill_bytes
        loop.run_until(time.perf_counter())
    return measure_between(
        before,
        take_reading(time.perf_counter(), spec.broker_pids),
        broker_pids=spec.broker_pids,
        operations=tally.operations,
        records=tally.records,
        moved_bytes=tally.bytes,
        latencies_s=tally.latencies_s,
    )


def main(_: Sequence[str]) -> None:
    serve_spec(run, expected_failures=(BadAnswer, OSError))
