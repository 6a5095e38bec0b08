"""Reads a range from all its replicas at once and compares them: the shell of replica_stream and comparison.

Replicas of a compacted topic hold the same records once they have applied the same rounds of compaction. Each
tells with every answer which round that is. A range is read when all tell the same, or when the patience is
over: then those are compared that tell the same. It is read again from its start if a replica applies a round
meanwhile, and at last each replica is checked alone.

Each broker has one connection with one request under way; the next request leaves before the answer is
compared, so brokers read while this compares. A replica that is ahead of the others waits for them. Only a
RangeReport leaves the task.

A request with replica id -2 changes nothing at a broker: neither the ISR nor the high watermark.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from pipeline.client.client import Client
from pipeline.client.compaction import applied_round
from pipeline.client.config import ClientConfig
from pipeline.client.connection import BrokerConnection, now_ms
from pipeline.client.errors import ConnectionLost
from pipeline.client.messages import fetch_request, parse_fetched
from pipeline.client.pool import ConnectionPool, shared_pool
from pipeline.client.values import TopicPartition
from pipeline.verify.comparison import Comparison
from pipeline.verify.findings import EVERY_REPLICA, Findings, Flaw
from pipeline.verify.log_order import LogOrder, OrderRules
from pipeline.verify.planning import RangeTask
from pipeline.verify.replica_stream import End, ReplicaStream, Wanted
from pipeline.verify.report import RangeReport, ReplicaReport
from pipeline.verify.sequences import EXPIRY_MS_DEFAULT
from pipeline.verify.transactions import differences
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import DEBUGGING_CONSUMER_ID, FetchPartition
from springtide.wire.fetch_response import AppliedRound, FetchedPartition

BACKLOG_BYTES = 32 * 1024 * 1024
"""A replica is not asked while so many of its bytes wait for the others."""
READINGS_MAX = 3
"""A range of a compacted topic is read so often in the hope that no replica applies a round meanwhile."""
ROUNDS_PAUSE_MS = 200
METADATA_MS = 1_000
"""Least time between two questions for the replicas."""
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class ReadOptions(NamedTuple):
    """The same for every task. Pickles."""

    client: ClientConfig
    fetch_bytes: int = 4 * 1024 * 1024
    patience_ms: int = 15_000
    wait_ms: int = 500
    expiry_ms: int = EXPIRY_MS_DEFAULT
    keeps_held: bool = False


def verify_ranges(options: ReadOptions, tasks: Iterable[RangeTask]) -> list[RangeReport]:
    """Return one report for each range, in order. Trouble with a broker is a finding; raises RetriesExhausted
    only if no broker says which brokers there are."""
    with Client(options.client) as client:
        return [verify_range(options, task, client, shared_pool()) for task in tasks]


def verify_range(options: ReadOptions, task: RangeTask, client: Client, pool: ConnectionPool) -> RangeReport:
    """Read the range until no replica applies a round of compaction meanwhile."""
    if client.known_metadata().partition(TopicPartition(task.topic, task.partition)) is None:
        client.metadata([task.topic])
    if not task.is_compacted:
        try:
            return RangeReader(options, task, client, pool).run()
        except RoundApplied:  # rounds are applied although the topic is not compacted any more
            task = task._replace(is_compacted=True)
    until_ms = now_ms() + options.patience_ms
    for _ in range(READINGS_MAX):
        rounds = _rounds(options, task, client, pool, until_ms=until_ms)
        with suppress(RoundApplied):
            return RangeReader(options, task, client, pool, rounds).run()
    return RangeReader(options, task, client, pool).run()


def _rounds(
    options: ReadOptions, task: RangeTask, client: Client, pool: ConnectionPool, *, until_ms: int
) -> dict[int, AppliedRound]:
    """Return the round that each replica tells, of those that tell one: once it is the same, or the time is
    over. The others may be dead, or Kafka's, and are not waited for."""
    where = TopicPartition(task.topic, task.partition)
    while True:
        told = {
            broker_id: applied_round(
                client.known_metadata().brokers.get(broker_id),
                where,
                client,
                pool=pool,
                offset=task.start_offset,
            )
            for broker_id in task.replicas
        }
        rounds = {broker_id: one for broker_id, one in told.items() if one is not None}
        if len({one[:2] for one in rounds.values()}) <= 1 or now_ms() >= until_ms:
            return rounds
        time.sleep(ROUNDS_PAUSE_MS / 1000)


class _UnderWay(NamedTuple):
    wanted: Wanted
    overdue_ms: int


class RoundApplied(Exception):
    """A replica has applied a round of compaction that it was not known to have applied."""


class RangeReader:
    """Reads one range; run it once. rounds: what replicas of a compacted topic had applied; those are
    compared that had applied the same, and those without any are checked alone."""

    def __init__(
        self,
        options: ReadOptions,
        task: RangeTask,
        client: Client,
        pool: ConnectionPool,
        rounds: Mapping[int, AppliedRound] = {},
    ) -> None:
        self._options = options
        self._task = task
        self._where = TopicPartition(task.topic, task.partition)
        self._client = client
        self._pool = pool
        self._connections: dict[int, BrokerConnection] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._asked_metadata_ms: int | None = None
        self._findings = Findings(task.topic, task.partition)
        rules = OrderRules(not task.is_compacted, options.keeps_held, options.expiry_ms)
        self._rounds = rounds
        self._comparisons: dict[int, Comparison] = {}
        self._order: LogOrder | None = None
        for some in self._alike():
            is_whole = len(some) == len(task.replicas)
            order = LogOrder(self._findings, rules, broker_id=EVERY_REPLICA if is_whole else some[0])
            self._order = self._order or order  # the leader's
            together = Comparison(
                some, order, self._findings, is_whole=is_whole, is_compacted=task.is_compacted
            )
            self._comparisons |= dict.fromkeys(some, together)
        self._streams = {
            broker_id: ReplicaStream(
                start=task.start_offset,
                end=task.end_offset,
                is_in_sync=broker_id in task.in_sync,
                takes_head=task.takes_head,
                fetch_bytes=options.fetch_bytes,
                patience_ms=options.patience_ms,
                wait_ms=options.wait_ms,
                is_compacted=task.is_compacted,
            )
            for broker_id in task.replicas
        }

    def _alike(self) -> list[tuple[int, ...]]:
        """Return the replicas that can be compared with each other; those with the leader first."""
        if not self._task.is_compacted:
            return [self._task.replicas]
        alike: dict[object, list[int]] = {}
        for broker_id in self._task.replicas:
            told = self._rounds.get(broker_id)
            alike.setdefault(broker_id if told is None else told[:2], []).append(broker_id)
        return [tuple(some) for some in alike.values()]

    def run(self) -> RangeReport:
        cpu_ns, wall_ns = time.thread_time_ns(), time.monotonic_ns()
        try:
            while any(stream.end is None for stream in self._streams.values()):
                self._turn()
            for comparison in set(self._comparisons.values()):
                comparison.run()
            self._check_indexes()
        finally:
            held, self._connections = self._connections, {}
            for connection in held.values():
                self._pool.give_back(connection, self._options.client)
        self._tell_of_replicas()
        return self._report(
            cpu_ms=(time.thread_time_ns() - cpu_ns) / 1e6, wall_ms=(time.monotonic_ns() - wall_ns) / 1e6
        )

    def _check_indexes(self) -> None:
        """Hold what each whole replica says of aborted transactions against the log. In a compacted one their
        first records may be gone."""
        assert self._order is not None
        if self._task.is_compacted:
            return
        transactions, task = self._order.transactions, self._task
        for broker_id, stream in self._streams.items():
            if stream.end is not End.WHOLE or self._comparisons[broker_id] is not self._with_leader:
                continue
            for span in transactions.aborted:
                told = self._told_aborted(broker_id, span.first_offset)
                if told is None:  # its broker has gone, or it is no replica any more: nothing is proven
                    break
                known = () if transactions.left_out else transactions.aborted
                start_offset = task.start_offset if known else task.end_offset
                for wrong in differences(span, told, known, start_offset=start_offset):
                    self._findings.add(
                        wrong.kind, broker_id, wrong.offset, wrong.offset, wrong.detail, batches=0
                    )

    def _told_aborted(self, broker_id: int, offset: int) -> tuple[tuple[int, int], ...] | None:
        """Return (producer id, first offset) of the aborted transactions that a broker tells a reader of
        committed records with the batch at `offset`; None without an answer."""
        where = FetchPartition(*self._where, fetch_offset=offset, max_bytes=1)
        request = fetch_request(
            [where], max_wait_ms=0, max_bytes=1, isolation_level=1, replica_id=DEBUGGING_CONSUMER_ID
        )
        try:
            connection = self._connection_to(broker_id)
            connection.send(ApiKey.FETCH, request)
            frame, position = connection.receive(broker_wait_ms=0)
            answer = self._partition_of(parse_fetched(frame, position).partitions)
        except ConnectionLost:
            return None
        return None if answer.error is not ErrorCode.NONE else tuple(answer.aborted or ())

    @property
    def _with_leader(self) -> Comparison:
        return self._comparisons[self._task.replicas[0]]

    def _turn(self) -> None:
        self._ask()
        if not self._under_way:
            self._pause()
            return
        readable = self._wait()
        for broker_id in readable:
            if broker_id in self._under_way:  # not dropped by what an answer before it has led to
                self._receive(broker_id)
        self._ask()
        for comparison in {self._comparisons[broker_id] for broker_id in readable}:
            comparison.run()

    def _ask(self) -> None:
        now = now_ms()
        for broker_id, stream in self._streams.items():
            if stream.end is not None or broker_id in self._under_way or stream.not_before_ms > now:
                continue
            if self._comparisons[broker_id].waiting_bytes(broker_id) > BACKLOG_BYTES:
                continue
            wanted = stream.wanted()
            request = fetch_request(
                [FetchPartition(*self._where, fetch_offset=wanted.offset, max_bytes=wanted.bytes_max)],
                max_wait_ms=wanted.max_wait_ms,
                max_bytes=wanted.bytes_max,
                isolation_level=0,
                replica_id=DEBUGGING_CONSUMER_ID,
            )
            try:
                self._connection_to(broker_id).send(ApiKey.FETCH, request)
            except ConnectionLost as error:
                self._on_lost(broker_id, str(error))
                continue
            overdue_ms = now + self._options.client.request_timeout_ms + wanted.max_wait_ms
            self._under_way[broker_id] = _UnderWay(wanted, overdue_ms)

    def _connection_to(self, broker_id: int) -> BrokerConnection:
        connection = self._connections.get(broker_id)
        if connection is not None and connection.is_open:
            return connection
        broker = self._client.known_metadata().brokers.get(broker_id)
        if broker is None:
            raise ConnectionLost(f"no broker knows where broker {broker_id} is")
        connection = self._pool.take((broker.host, broker.port), self._options.client)
        self._connections[broker_id] = connection
        return connection

    def _pause(self) -> None:
        """Sleep until a broker may be asked again. Replicas that wait for others have no time of their
        own."""
        now = now_ms()
        paused = [one.not_before_ms for one in self._streams.values() if one.end is None]
        time.sleep(max(min((time_ms for time_ms in paused if time_ms > now), default=now) - now, 1) / 1000)

    def _wait(self) -> list[int]:
        """Return brokers whose answers have begun to arrive; give up requests that took too long."""
        poll = select.poll()
        by_socket: dict[int, int] = {}
        for broker_id in self._under_way:
            number = self._connections[broker_id].fileno()
            by_socket[number] = broker_id
            poll.register(number, select.POLLIN)
        now = now_ms()
        until = [one.overdue_ms for one in self._under_way.values()]
        until += [
            stream.not_before_ms
            for broker_id, stream in self._streams.items()
            if stream.end is None and broker_id not in self._under_way and stream.not_before_ms > now
        ]
        readable = [by_socket[number] for number, _ in poll.poll(max(min(until) - now, 1))]
        now = now_ms()
        overdue = [
            broker_id
            for broker_id, one in self._under_way.items()
            if broker_id not in readable and one.overdue_ms <= now
        ]
        for broker_id in overdue:
            self._drop_request(broker_id)
            self._on_lost(broker_id, "no answer in time")
        return readable

    def _receive(self, broker_id: int) -> None:
        wanted = self._under_way.pop(broker_id).wanted
        connection = self._connections[broker_id]
        try:
            frame, position = connection.receive(broker_wait_ms=wanted.max_wait_ms)
            answer = self._partition_of(parse_fetched(frame, position).partitions)
        except ConnectionLost as error:
            connection.close()
            self._on_lost(broker_id, str(error))
            return
        if answer.error is ErrorCode.NONE:
            self._check_round(broker_id, answer.applied_round)
        stream, comparison = self._streams[broker_id], self._comparisons[broker_id]
        parts = stream.on_answer(wanted, answer, now_ms=now_ms())
        comparison.on_log_start(broker_id, stream.log_start_offset)
        comparison.add(broker_id, parts)
        if answer.error is not ErrorCode.NONE:
            self._look_who_has_it()
        self._end_if_over(broker_id)

    def _check_round(self, broker_id: int, told: AppliedRound | None) -> None:
        if not self._task.is_compacted:
            if told is not None and told.end_offset > 0:
                raise RoundApplied
            return
        known = self._rounds.get(broker_id)
        if known is not None and (told is None or told[:2] != known[:2]):
            raise RoundApplied

    def _partition_of(self, partitions: list[FetchedPartition]) -> FetchedPartition:
        for one in partitions:
            if one[:2] == self._where:
                return one
        raise ConnectionLost("the answer says nothing of what was asked")

    def _on_lost(self, broker_id: int, reason: str) -> None:
        self._streams[broker_id].on_lost(reason, now_ms=now_ms())
        self._look_who_has_it()
        self._end_if_over(broker_id)

    def _end_if_over(self, broker_id: int) -> None:
        stream = self._streams[broker_id]
        if stream.end is not None:
            self._comparisons[broker_id].end(broker_id, stream.reached)

    def _look_who_has_it(self) -> None:
        """End the streams of replicas that were removed, and of a topic that was deleted: both are no
        fault."""
        now = now_ms()
        if self._asked_metadata_ms is not None and now - self._asked_metadata_ms < METADATA_MS:
            return
        self._asked_metadata_ms = now
        try:
            metadata = self._client.refresh([self._task.topic])
        except ConnectionLost:
            return
        topic = metadata.topics.get(self._task.topic)
        is_gone = topic is not None and topic.error in _GONE
        known = metadata.partition(self._where)
        for broker_id, stream in self._streams.items():
            if stream.end is None and (is_gone or (known is not None and broker_id not in known.replicas)):
                stream.on_left()
                self._drop_request(broker_id)
                self._end_if_over(broker_id)

    def _drop_request(self, broker_id: int) -> None:
        if self._under_way.pop(broker_id, None) is not None:
            self._connections.pop(broker_id).close()

    def _tell_of_replicas(self) -> None:
        kinds = {End.STALE: Flaw.STALE_REPLICA, End.UNREADABLE: Flaw.UNREADABLE_REPLICA}
        for broker_id, stream in self._streams.items():
            if stream.end in kinds:
                first, last = stream.reached, self._task.end_offset - 1
                self._findings.add(
                    kinds[stream.end], broker_id, first, max(first, last), stream.reason, batches=0
                )

    def _report(self, *, cpu_ms: float, wall_ms: float) -> RangeReport:
        task, order = self._task, self._order
        assert order is not None, "a range is read from some replica"
        return RangeReport(
            topic=task.topic,
            partition=task.partition,
            start_offset=task.start_offset,
            end_offset=task.end_offset,
            first_offset=order.first_offset,
            next_offset=order.next_offset,
            log_start_offset=max(stream.log_start_offset for stream in self._streams.values()),
            batches=order.batches,
            records=order.records,
            size_bytes=order.size_bytes,
            compared_bytes=sum(one.compared_bytes for one in set(self._comparisons.values())),
            cpu_ms=cpu_ms,
            wall_ms=wall_ms,
            replicas=tuple(
                ReplicaReport(
                    broker_id=broker_id,
                    reached=stream.reached,
                    end=_ended(stream),
                    detail=stream.reason,
                    round=self._rounds.get(broker_id),
                    is_apart=self._comparisons[broker_id] is not self._with_leader,
                )
                for broker_id, stream in self._streams.items()
            ),
            epochs=tuple(order.epochs),
            producers=tuple(order.sequences.edges),
            held=tuple(order.held),
            findings=tuple(self._findings.found),
            findings_left_out=self._findings.left_out,
            sequences_left_out=order.sequences.left_out,
            held_left_out=order.held_left_out,
            is_compacted=task.is_compacted,
        )


def _ended(stream: ReplicaStream) -> End:
    assert stream.end is not None, "a report is made of what has ended"
    return stream.end
