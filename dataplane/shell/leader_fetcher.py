"""A follower's fetches from one leader: one connection, one task, one session.

The fetcher keeps one incremental fetch session (KIP-227) over everything that its leader leads here, and
core/following.py decides what it fetches: this sends what the session says, and hands over what is answered.
Truncation, divergence and errors are the replica's to decide. One request is in flight at a time,
because its offsets tell the leader what this broker has; the next leaves before anything else is done
with what the last one brought.

The task connects, and waits until that connection is of no use any more. What comes over it is handled in
the broker's common pass over all sockets (server.py), because an exchange of two small messages costs less
than to wake a task for it.

A partition that is to be fetched from a leader whose answer is pending would wait for that long poll to
end, and the first fetch in a new leader epoch is what lets the high watermark move again after a
failover. So the leader is hurried: an empty fetch behind the pending one makes it answer at once
(handlers/fetch.py). The session goes on, for to begin it again costs as much as there are partitions in it.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field

import trio

from dataplane.core.effects import Effects
from dataplane.core.fetch_session import NO_SESSION
from dataplane.core.following import FollowedLeader
from dataplane.core.learner_turns import LearnerTurns
from dataplane.core.results import LeaderAnswer
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.fetch_encoder import HURRY_CORRELATION_ID, FetchEncoder
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.metrics import BrokerCounters
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Channel, ChannelReadiness, Net, Poller
from springtide.node.peer_requests import connect
from springtide.node.peer_versions import NoCommonVersion, common_version
from springtide.node.topic_ids import topic_id_text
from springtide.wire.apis import REPLICA_FETCH_VERSIONS, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import UnknownRule, decode_fetch_frame
from springtide.wire.framing import FrameError, FrameReader
from springtide.wire.primitives import MalformedRequest

_log = logging.getLogger(__name__)

RECONNECT_MS_MIN = 50
RECONNECT_MS_MAX = 1_000
CONNECT_TIMEOUT_MS = 3_000
HURRY_MS_MAX = 2_000
"""A leader that was hurried and has not answered for so long is asked over another connection."""
_HURRIED = HURRY_CORRELATION_ID.to_bytes(4, "big", signed=True)
TURN_BYTES_MAX = 1024 * 1024
"""Bytes read of an answer before others get their turn."""
RESPONSE_SLACK_BYTES = 64 * 1024 * 1024
"""An answer may exceed its budget by one batch, whose size only the topic bounds, and by its empty
partitions."""


class LeaderLost(Exception):
    """The connection to a leader is of no use any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """The parts that all fetchers of a broker share."""

    effects: EffectRunner
    view: ClusterView
    net: Net
    poller: Poller
    clock: Clock
    rng: random.Random
    counters: BrokerCounters
    encoder: FetchEncoder
    silence_ms_max: int
    versions: range = REPLICA_FETCH_VERSIONS
    #: Of each leader that this broker can't fetch from as it is of another release: why.
    not_understood: dict[int, str] = field(default_factory=dict)


class LeaderFetcher(FollowedLeader[HostedPartition]):
    """One leader: its session, the connection, and the task that drives them."""

    def __init__(self, parts: FetcherParts, leader_id: int, turns: LearnerTurns) -> None:
        super().__init__(leader_id, turns)
        self._parts = parts
        self._channel: Channel | None = None
        #: Of this connection alone.
        self._api_version = parts.versions[-1]
        self._opening = trio.CancelScope()
        self._reader = FrameReader()
        self._unsent = memoryview(b"")
        self._wants_write = False
        #: Set when the connection is of no use any more; why, unless there is only nothing to fetch.
        self._is_over = trio.Event()
        self._failure: Exception | None = None
        self._endpoint: BrokerEndpoint | None = None
        self._is_waiting_for_answer = False
        self._asked_ms = 0
        #: When the leader was asked not to wait with its answer, or None.
        self._hurried_ms: int | None = None
        self._is_given_up = False
        #: Connected, and nothing is asked for until a throttled learner's turn.
        self._is_idle = False
        self._is_stopped = False
        self._wake = trio.Event()
        self._correlation_id = 0
        self._pause_ms = RECONNECT_MS_MIN
        self._was_connected = True

    # What the core asks for

    def _carry_out(self, hosted: HostedPartition, effects: Effects) -> None:
        self._parts.effects.run(hosted, effects)

    def _ask_at_once(self) -> None:
        self._wake.set()
        if self._is_idle:
            self._look_again()
        elif self._is_waiting_for_answer and self._hurried_ms is None and self._channel is not None:
            self._hurried_ms = self._parts.clock.mono_ms()
            self._unsent = memoryview(bytes(self._unsent) + self._parts.encoder.hurry(self._api_version))
            self._push()

    def _ask_in_turn(self) -> None:
        self._wake.set()
        self._look_again()

    def _look_again(self) -> None:
        """Something has changed: ask, close, or go on waiting for a learner's turn."""
        if self._is_idle:
            self._is_idle = False
            self._ask()

    def _learn_on(
        self, hosted: HostedPartition, fetched: LeaderAnswer, leader_epoch: LeaderEpoch, now_ms: int
    ) -> None:
        self._parts.counters.reassignment_bytes_in += len(fetched.records)
        super()._learn_on(hosted, fetched, leader_epoch, now_ms)

    # What happens

    def stop(self) -> None:
        self._is_stopped = True
        self._close_channel()
        self._wake.set()

    def on_endpoint_changed(self, endpoint: BrokerEndpoint | None) -> None:
        if (
            endpoint is not None
            and self._endpoint is not None
            and not _is_same_process(endpoint, self._endpoint)
        ):
            self._close_channel()  # another incarnation: the old connection is dead or deaf
        if endpoint is not None and endpoint.active:
            self._parts.view.on_leader_reached(self.leader_id)
        self._pause_ms = RECONNECT_MS_MIN
        self._wake.set()

    def check_silence(self, now_ms: int) -> None:
        if not self._is_waiting_for_answer:
            return
        if now_ms - self._asked_ms > self._parts.silence_ms_max:
            _log.info("leader_silent leader_id=%d ms=%d", self.leader_id, now_ms - self._asked_ms)
            self._close_channel()
        elif self._hurried_ms is not None and now_ms - self._hurried_ms > HURRY_MS_MAX:
            self._is_given_up = True
            self._close_channel()

    def _close_channel(self) -> None:
        self._opening.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            self._parts.poller.remove(channel)
            channel.close()
            self._is_over.set()

    # The task

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            self._close_channel()
            self._parts.not_understood.pop(self.leader_id, None)

    async def _run(self) -> None:
        while not self._is_stopped:
            if not self._positions:
                await self._wait_for_work()
                continue
            try:
                await self._fetch_until_lost()
                self.session.on_failure()  # a session that follows nothing is worth no connection
            except (LeaderLost, OSError, trio.ClosedResourceError, FrameError, MalformedRequest) as error:
                self.session.on_failure()
                self._close_channel()
                self._is_waiting_for_answer = False
                if self._is_given_up:
                    self._is_given_up = False
                    continue
                await self._rest_after(error)

    async def _wait_for_work(self) -> None:
        self._wake = trio.Event()
        await self._wake.wait()

    async def _rest_after(self, error: Exception) -> None:
        if self._is_stopped:
            return
        if isinstance(error, NoCommonVersion | UnknownRule):
            self._note_not_understood(str(error))
        if self._was_connected:
            _log.info("leader_lost leader_id=%d cause=%s", self.leader_id, str(error) or type(error).__name__)
            self._was_connected = False
            self._parts.view.on_leader_lost(self.leader_id, self._parts.clock.mono_ms())
        self._wake = trio.Event()
        pause_ms = self._pause_ms * self._parts.rng.uniform(0.5, 1.0)
        self._pause_ms = min(self._pause_ms * 2, RECONNECT_MS_MAX)
        with self._parts.clock.timeout_ms(pause_ms):
            await self._wake.wait()

    def _note_not_understood(self, cause: str) -> None:
        known = self._parts.not_understood
        text = f"broker {self.leader_id} can't be followed: {cause}"
        if known.get(self.leader_id) != text:
            known[self.leader_id] = text
            _log.warning("leader_not_understood leader_id=%d cause=%s", self.leader_id, cause)

    async def _fetch_until_lost(self) -> None:
        parts = self._parts
        endpoint = parts.view.brokers.get(self.leader_id)
        if endpoint is None:
            raise LeaderLost("its address is not known")
        self._endpoint = endpoint
        channel = await self._connect(endpoint)
        if self._is_stopped:
            channel.close()
            return
        self._reader = FrameReader(
            frame_bytes_max=parts.encoder.response_bytes_max + RESPONSE_SLACK_BYTES, is_lone=True
        )
        self._unsent = memoryview(b"")
        self._wants_write = False
        self._is_idle = False
        self._hurried_ms = None
        self._failure = LeaderLost("the connection was given up")
        self._is_over = trio.Event()
        self._channel = channel
        parts.poller.add(channel, self._on_ready)
        self._ask()
        await self._is_over.wait()
        if self._failure is not None:
            raise self._failure

    async def _connect(self, endpoint: BrokerEndpoint) -> Channel:
        """Return a connection whose version is settled. Raise LeaderLost, OSError, FrameError,
        MalformedRequest."""
        net, clock = self._parts.net, self._parts.clock
        channel = await connect(net, clock, endpoint.host, endpoint.port, timeout_ms=CONNECT_TIMEOUT_MS)
        is_settled = False
        try:
            with clock.timeout_ms(CONNECT_TIMEOUT_MS) as self._opening:
                self._api_version = await common_version(
                    channel, self._parts.encoder.client_id, ApiKey.FETCH, self._parts.versions
                )
                is_settled = True
                return channel
        finally:
            if not is_settled:
                channel.close()
        raise LeaderLost("it does not say which versions it speaks")

    # The connection, in the server's pass

    def _on_ready(self, readiness: ChannelReadiness) -> None:
        """The leader answers, takes the rest of a request, or has gone."""
        try:
            if readiness.is_writable:
                self._push()
            if self._channel is not None and self._read_answer():
                self._ask()
        except Exception as error:  # raised again in the task, which knows a lost leader from a bug
            self._failure = error
            self._close_channel()

    def _read_answer(self) -> bool:
        """Read from the leader; return whether an answer came and was applied. Raises LeaderLost."""
        channel, reader = self._channel, self._reader
        assert channel is not None
        taken = 0
        while (frame := reader.next_frame()) is None or frame[:4] == _HURRIED:
            if frame is not None:
                continue  # there is nothing in it
            if taken >= TURN_BYTES_MAX:
                return False
            room = reader.writable()
            try:
                count = channel.recv_into(room)
            except BlockingIOError:
                return False
            if count == 0:
                raise LeaderLost("it closed the connection")
            reader.received(count)
            taken += count
        if not self._is_waiting_for_answer:
            raise LeaderLost("it answered what was not asked")
        self._is_waiting_for_answer = False
        self._hurried_ms = None
        if not self._was_connected:
            _log.info("leader_reached leader_id=%d", self.leader_id)
            self._parts.view.on_leader_reached(self.leader_id)
        self._was_connected = True
        self._pause_ms = RECONNECT_MS_MIN
        self._on_answer(frame)
        self._parts.not_understood.pop(self.leader_id, None)
        return True

    def _ask(self) -> None:
        """Send the next request, or end the connection for want of anything to ask for."""
        if self._channel is None:  # the answer's effects ended it
            return
        if not self._positions:
            self._is_idle = self.has_waiting_learner
            if not self._is_idle:
                self._failure = None
                self._close_channel()
            return
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        self._unsent = memoryview(
            self._parts.encoder.encode(
                self.session.build(),
                correlation_id=self._correlation_id,
                api_version=self._api_version,
                mark_of=self.mark_of,
            )
        )
        self._asked_ms = self._parts.clock.mono_ms()
        self._is_waiting_for_answer = True
        self._push()

    def _push(self) -> None:
        """Send what is left of the request; a large one may be more than the kernel takes at once."""
        channel = self._channel
        assert channel is not None
        try:
            while self._unsent:
                self._unsent = self._unsent[channel.send((self._unsent,)) :]
        except BlockingIOError:
            pass
        except OSError as error:  # raised in the task: not every caller here knows of connections
            self._failure = error
            self._close_channel()
            return
        wants_write = bool(self._unsent)
        if wants_write is not self._wants_write:
            self._wants_write = wants_write
            self._parts.poller.set_interest(channel, is_readable=True, is_writable=wants_write)

    def _on_answer(self, frame: memoryview) -> None:
        """Everything that one answer brings, without an await: append, then set where to go on."""
        correlation_id, response = decode_fetch_frame(frame, self._api_version)
        if correlation_id != self._correlation_id:
            raise LeaderLost(f"it answered request {correlation_id} where {self._correlation_id} was asked")
        error = response.error
        if not self.session.on_answer(error, session_id=response.session_id):
            if response.session_id == NO_SESSION and error is ErrorCode.NONE:
                return
            _log.debug("fetch_session_ended leader_id=%d error=%s", self.leader_id, error.name)
            return
        parts = self._parts
        now_ms, wall_ms = parts.clock.mono_ms(), parts.clock.wall_ms()
        for data in response.partitions:
            assert isinstance(data.topic, bytes)
            records = data.view
            fetched = LeaderAnswer(
                error=data.error,
                high_watermark=data.high_watermark,
                log_start_offset=data.log_start_offset,
                diverging=data.diverging_epoch,
                records=records,
                compacted=data.compacted,
                producers=data.producers,
            )
            key = (topic_id_text(data.topic), data.partition)
            if self.take(key, fetched, now_ms=now_ms, wall_ms=wall_ms):
                parts.counters.replication_bytes_in += len(records)


def _is_same_process(one: BrokerEndpoint, other: BrokerEndpoint) -> bool:
    return (one.broker_epoch, one.host, one.port) == (other.broker_epoch, other.host, other.port)
