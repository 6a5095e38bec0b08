"""One shard's connections to its log: batches go to the partition's leader over one connection, reads over
another.

Answers come in the order of requests. So a read that waits for news has a connection of its own, and so has
each shard: one stuck partition would hold all others.

A connection that fails, is silent, or leads to a broker that does not lead any more is given up. What was
sent over it may have arrived; it is told as LOST, and what to do then is the runtime's to decide.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import trio

from coordinator.core.shard_ports import LOST, AppendBatch, BatchAnswered, LogWasRead, ReadLog
from coordinator.shell.timers import Spawn
from springtide.contract.partition_state import PartitionKey
from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Channel, Net
from springtide.node.peer_requests import ask, connect, receive
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import REPLICA_FETCH_VERSION, ApiKey
from springtide.wire.client import WireAnswer, WireClient
from springtide.wire.errors import error_code
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import decode_fetch_response
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest
from springtide.wire.produce import decode_produce_response, encode_produce_request

_log = logging.getLogger(__name__)

PRODUCE_VERSION = 13
ACKS_ALL = -1
CONNECT_MS_MAX = 3_000
COMMIT_MS_MAX = 5_000
"""The time for which the leader waits for its in-sync followers before it answers."""
SILENCE_MS_MAX = 2_000
"""The time for which an answer may be overdue."""
FOLLOW_WAIT_MS = 2_000
FOLLOW_BYTES_MIN = 32 * 1024
"""A standby reads a log that grows in portions of this size, and what is less than one so often. At five
microseconds a record it is never more than some milliseconds behind, and an idle shard costs little."""
READ_BYTES_MAX = 128 * 1024
"""Of one read: to replay a thousand records takes milliseconds, for which nothing else is served."""
READ_ANSWER_BYTES_MAX = READ_BYTES_MAX + 2 * 1024 * 1024
"""An answer may exceed what was asked for by one batch, which coordinator topics bound at one MiB."""
APPEND_ANSWER_BYTES_MAX = 64 * 1024
READ_REST_MS = (50, 1_000)
"""The pause after a read that failed, and what it grows to."""

_FAILURES = (OSError, trio.ClosedResourceError, FrameError, MalformedRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogParts:
    """The parts that all log clients of a process share."""

    view: ClusterView
    net: Net
    clock: BrokerClock
    rng: random.Random
    spawn: Spawn
    client_id: str


class LogClient:
    """heard: called with each answer, by a task; not after `stop`."""

    def __init__(
        self, key: PartitionKey, parts: LogParts, heard: Callable[[BatchAnswered | LogWasRead], None]
    ) -> None:
        self._key = key
        self._parts = parts
        self._heard = heard
        self._place = _Place(topic_id_bytes(key[0]), key[1], self._find_leader())
        self._appends: AppendConnection | None = None
        self._reads = LogReader(parts, heard)

    def append(self, append: AppendBatch) -> None:
        connection = self._appends
        if connection is None or connection.is_over or connection.number != append.connection:
            self._close_appends()
            connection = AppendConnection(append.connection, self._place, self._parts, self._heard)
            self._appends = connection
            self._parts.spawn(connection.run)
        connection.send(append)

    def read(self, read: ReadLog, *, waits: bool) -> None:
        """Read, in the place of a read that was not answered. waits: for news, as a standby does."""
        self._reads.read(read, self._place, waits=waits)

    def hurry(self) -> None:
        """Have a read that waits for news answered at once."""
        self._reads.hurry()

    def end_reading(self) -> None:
        self._reads.close()

    def on_view_changed(self) -> bool:
        """Leave a broker that does not lead any more, or has restarted. Return whether there was one."""
        leader = self._find_leader()
        if _process_of(leader) == _process_of(self._place.leader):
            return False
        self._place = _Place(self._place.topic, self._place.partition, leader)
        self._close_appends()
        self._reads.move(self._place)
        return True

    def stop(self) -> None:
        self._close_appends()
        self._reads.stop()

    def _close_appends(self) -> None:
        if self._appends is not None:
            self._appends.close()

    def _find_leader(self) -> BrokerEndpoint | None:
        view = self._parts.view
        state = view.state(*self._key)
        return None if state is None else view.brokers.get(state.leader)


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a shard's log. topic: the 16 bytes of its id."""

    topic: bytes
    partition: int
    leader: BrokerEndpoint | None


class AppendConnection:
    """Batches leave in order and are answered in order; with the connection all that have no answer are lost.
    number: the runtime's name of it.

    A batch leaves in the call that brings it, as far as the kernel takes it. A task that had to be woken for
    it could run behind the next turn, which may last as long as all else that a commit waits for.
    """

    def __init__(
        self, number: int, place: _Place, parts: LogParts, heard: Callable[[BatchAnswered], None]
    ) -> None:
        self.number = number
        self.is_over = False
        self._place = place
        self._parts = parts
        self._heard = heard
        self._scope = trio.CancelScope()
        self._channel: Channel | None = None
        self._unsent: deque[AppendBatch] = deque()
        #: Of a batch whose beginning the kernel has taken.
        self._rest = memoryview(b"")
        self._is_stuck = trio.Event()
        #: Each request's note is its attempt.
        self._client: WireClient[int] = WireClient(parts.client_id, answer_bytes_max=APPEND_ANSWER_BYTES_MAX)
        self._has_unanswered = trio.Event()

    def send(self, append: AppendBatch) -> None:
        self._unsent.append(append)
        if self._channel is not None and not self._rest:
            self._push(self._channel)

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                await self._exchange()
        except* _FAILURES as failures:
            _log.debug("append_connection_lost partition=%d cause=%r", self._place.partition, failures)
        self.is_over = True
        attempts = [asked.note for asked in self._client.in_flight] + [one.attempt for one in self._unsent]
        for attempt in attempts:
            self._heard(BatchAnswered(attempt, LOST))

    async def _exchange(self) -> None:
        channel = await _connect(self._parts, self._place)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_rest, channel)
                nursery.start_soon(self._hear_all, channel)
        finally:
            channel.close()

    async def _send_rest(self, channel: Channel) -> None:
        """Send what came before the connection was there, and what the kernel did not take at once."""
        self._channel = channel
        while True:
            self._is_stuck = trio.Event()
            self._push(channel)
            await self._is_stuck.wait()
            await channel.wait_writable()

    def _push(self, channel: Channel) -> None:
        """Send as much as the kernel takes. A connection that has failed is over."""
        while self._rest or self._unsent:
            try:
                if not self._rest:
                    self._rest = memoryview(self._frame(self._unsent[0]))
                    self._unsent.popleft()
                    self._has_unanswered.set()
                self._rest = self._rest[channel.send((self._rest,)) :]
            except BlockingIOError:
                self._is_stuck.set()
                return
            except _FAILURES:
                self.close()
                return

    def _frame(self, append: AppendBatch) -> bytes:
        place = self._place
        body = encode_produce_request(
            PRODUCE_VERSION,
            [((place.topic, place.partition), append.batch)],
            acks=ACKS_ALL,
            timeout_ms=COMMIT_MS_MAX,
        )
        return b"".join(self._client.ask(ApiKey.PRODUCE, PRODUCE_VERSION, body, append.attempt))

    async def _hear_all(self, channel: Channel) -> None:
        while True:
            if not self._client.in_flight:
                self._has_unanswered = trio.Event()
                await self._has_unanswered.wait()
            self._on_answer(await self._next_answer(channel))

    async def _next_answer(self, channel: Channel) -> WireAnswer[int]:
        with self._parts.clock.timeout_ms(COMMIT_MS_MAX + SILENCE_MS_MAX):
            return await receive(channel, self._client)
        raise TimeoutError("the leader is silent")

    def _on_answer(self, answer: WireAnswer[int]) -> None:
        attempt = answer.asked.note
        try:
            outcomes = decode_produce_response(PRODUCE_VERSION, answer.frame, answer.position)
            if len(outcomes) != 1:
                raise MalformedRequest(f"an answer about {len(outcomes)} partitions")
        except MalformedRequest:
            self._heard(BatchAnswered(attempt, LOST))
            raise
        (outcome,) = outcomes
        self._heard(BatchAnswered(attempt, error_code(outcome.error_code), outcome.base_offset))


class LogReader:
    """One read at a time, each answered before the next is asked, by a task that runs while there is one."""

    def __init__(self, parts: LogParts, heard: Callable[[LogWasRead], None]) -> None:
        self._parts = parts
        self._heard = heard
        self._place = _Place(b"", -1, None)
        self._read: ReadLog | None = None
        self._waits = False
        self._is_running = False
        #: Ends the present attempt; what is to be read is then asked again.
        self._scope = trio.CancelScope()
        self._channel: Channel | None = None
        #: Of this channel.
        self._client: WireClient[None]
        self._rest_ms = READ_REST_MS[0]

    def read(self, read: ReadLog, place: _Place, *, waits: bool) -> None:
        self._read, self._place, self._waits = read, place, waits
        if self._is_running:
            self._scope.cancel()
        else:
            self._is_running = True
            self._parts.spawn(self._run)

    def hurry(self) -> None:
        if self._waits:
            self._waits = False
            self._scope.cancel()

    def move(self, place: _Place) -> None:
        """Ask the new leader."""
        self._place = place
        self._rest_ms = READ_REST_MS[0]
        self.close()
        self._scope.cancel()

    def stop(self) -> None:
        self._read = None
        self.close()
        self._scope.cancel()

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    async def _run(self) -> None:
        while (read := self._read) is not None:
            with trio.CancelScope() as self._scope:
                answer = await self._answer_to(read)
            if not self._scope.cancelled_caught and read is self._read:
                self._read = None
                self._heard(answer)
        self._is_running = False

    async def _answer_to(self, read: ReadLog) -> LogWasRead:
        try:
            answer = await self._exchange(read)
        except _FAILURES as error:
            _log.debug("read_failed partition=%d cause=%r", self._place.partition, error)
            await self._parts.clock.sleep_ms(self._rest_ms * self._parts.rng.uniform(0.5, 1.0))
            self._rest_ms = min(2 * self._rest_ms, READ_REST_MS[1])
            return LogWasRead(read.read, LOST)
        self._rest_ms = READ_REST_MS[0]
        return answer

    async def _exchange(self, read: ReadLog) -> LogWasRead:
        wait_ms = FOLLOW_WAIT_MS if self._waits else 0
        is_sound = False
        try:
            with self._parts.clock.timeout_ms(wait_ms + SILENCE_MS_MAX):
                if self._channel is None:
                    self._channel = await _connect(self._parts, self._place)
                    self._client = WireClient(self._parts.client_id, answer_bytes_max=READ_ANSWER_BYTES_MAX)
                answer = await ask(
                    self._channel,
                    self._client,
                    ApiKey.FETCH,
                    REPLICA_FETCH_VERSION,
                    [self._body(read, wait_ms)],
                )
                heard = _read_answer(read, answer)
                is_sound = True
                return heard
            raise TimeoutError("the leader is silent")
        finally:
            if not is_sound:  # an answer may be on its way there
                self.close()

    def _body(self, read: ReadLog, wait_ms: int) -> bytes:
        place = self._place
        asked = FetchPartition(
            place.topic, place.partition, read.leader_epoch, read.offset, max_bytes=READ_BYTES_MAX
        )
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=FOLLOW_BYTES_MIN if wait_ms else 0,
            max_bytes=READ_BYTES_MAX,
            partitions=(asked,),
        )
        return encode_fetch_request(REPLICA_FETCH_VERSION, request)


def _read_answer(read: ReadLog, answer: WireAnswer[None]) -> LogWasRead:
    response = decode_fetch_response(REPLICA_FETCH_VERSION, answer.frame, answer.position)
    if response.error_code:
        return LogWasRead(read.read, response.error)
    if len(response.partitions) != 1:
        raise MalformedRequest(f"an answer about {len(response.partitions)} partitions")
    (data,) = response.partitions
    floor = 0 if data.compacted is None else data.compacted.tombstone_floor
    return LogWasRead(read.read, data.error, data.high_watermark, bytes(data.view), floor)


async def _connect(parts: LogParts, place: _Place) -> Channel:
    """Raise OSError."""
    leader = place.leader
    if leader is None:
        raise ConnectionRefusedError("the partition has no leader")
    return await connect(parts.net, parts.clock, leader.host, leader.port, timeout_ms=CONNECT_MS_MAX)


def _process_of(broker: BrokerEndpoint | None) -> tuple[int, int, str, int] | None:
    return None if broker is None else (broker.broker_id, broker.broker_epoch, broker.host, broker.port)
