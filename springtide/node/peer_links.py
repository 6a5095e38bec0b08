"""Connections to other processes of the cluster that are kept for the next request, and requests that are
gathered for one peer.

A connection carries one request at a time: an answer that waits, for a partition's followers say, holds up no
other. A connection that was idle may have been closed meanwhile, so the first failure of one that was used
before is not told: the request goes over a new connection. What is asked must therefore bear being asked
twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import trio

from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import Clock
from springtide.node.net import Channel, Net
from springtide.node.peer_requests import ask, connect
from springtide.wire.client import WireClient
from springtide.wire.fields import RequestMessage, ResponseMessage
from springtide.wire.framing import FrameError
from springtide.wire.primitives import RESPONSE_ELEMENTS_MAX, MalformedRequest
from springtide.wire.typed import read_message, write_message

_log = logging.getLogger(__name__)

CONNECT_MS_MAX: Final = 3_000
IDLE_MAX: Final = 64
"""Idle connections, to all peers together; those unused for longest are closed first."""

A = TypeVar("A", bound=ResponseMessage)
Item = TypeVar("Item")
_Process = tuple[int, int, str, int]
_Link = tuple[Channel, WireClient[None]]


class PeerLinks:
    """client_id: this process's, in its requests. answer_bytes_max: of one answer."""

    def __init__(self, *, net: Net, clock: Clock, client_id: str, answer_bytes_max: int) -> None:
        self._net = net
        self._clock = clock
        self._client_id = client_id
        self._answer_bytes_max = answer_bytes_max
        #: Idle connections, the one that was used last at the end.
        self._idle: list[tuple[_Process, _Link]] = []

    async def ask(
        self,
        peer: BrokerEndpoint,
        message: RequestMessage,
        answer_type: type[A],
        *,
        version: int,
        timeout_ms: int,
    ) -> A | None:
        """Return the peer's answer; None if none came in time: the request may have been carried out."""
        try:
            with self._clock.timeout_ms(timeout_ms):
                return await self._ask(peer, message, answer_type, version)
            raise TimeoutError("the peer is silent")
        except (OSError, trio.ClosedResourceError, FrameError, MalformedRequest) as error:
            _log.debug("peer_not_asked node_id=%d api=%d cause=%s", peer.broker_id, message.API, error)
            return None

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop()[1][0].close()

    async def _ask(
        self, peer: BrokerEndpoint, message: RequestMessage, answer_type: type[A], version: int
    ) -> A:
        process = (peer.broker_id, peer.broker_epoch, peer.host, peer.port)
        body = write_message(message, version)
        while (link := self._take(process)) is not None:
            try:
                return await self._exchange(process, link, message, answer_type, version, body)
            except OSError as error:
                _log.debug("peer_connection_over node_id=%d cause=%s", peer.broker_id, error)
        channel = await connect(self._net, self._clock, peer.host, peer.port, timeout_ms=CONNECT_MS_MAX)
        client: WireClient[None] = WireClient(self._client_id, answer_bytes_max=self._answer_bytes_max)
        return await self._exchange(process, (channel, client), message, answer_type, version, body)

    async def _exchange(
        self,
        process: _Process,
        link: _Link,
        message: RequestMessage,
        answer_type: type[A],
        version: int,
        body: bytes,
    ) -> A:
        channel, client = link
        is_sound = False
        try:
            answer = await ask(channel, client, message.API, version, [body])
            read = read_message(
                answer_type, version, answer.frame, answer.position, elements_max=RESPONSE_ELEMENTS_MAX
            )
            is_sound = True
            return read
        finally:
            if is_sound:
                self._keep(process, link)
            else:  # an answer may be on its way there
                channel.close()

    def _take(self, process: _Process) -> _Link | None:
        """Return the idle connection to the process that was used last; close those to one before it."""
        for index in range(len(self._idle) - 1, -1, -1):
            found = self._idle[index][0]
            if found == process:
                return self._idle.pop(index)[1]
            if found[0] == process[0]:
                self._idle.pop(index)[1][0].close()
        return None

    def _keep(self, process: _Process, link: _Link) -> None:
        self._idle.append((process, link))
        if len(self._idle) > IDLE_MAX:
            self._idle.pop(0)[1][0].close()


class PeerBatches(Generic[Item]):
    """Items that wait to be asked of peers. All that came in one turn, and while as many requests as may be
    under way are, goes out together.

    carry: sends a batch to a peer, of which it gets the id, and tells the items' owners what came of it.
    requests_max: under way to one peer. items_max: in one request. spawn: starts a task of the process.
    """

    def __init__(
        self,
        carry: Callable[[int, Sequence[Item]], Awaitable[None]],
        *,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        requests_max: int,
        items_max: int,
    ) -> None:
        self._carry = carry
        self._spawn = spawn
        self._requests_max = requests_max
        self._items_max = items_max
        self._waiting: dict[int, list[Item]] = {}
        self._running: dict[int, int] = {}
        #: Peers for which a task is started that has not taken a batch yet.
        self._starting: set[int] = set()

    def put(self, peer_id: int, item: Item) -> None:
        self._waiting.setdefault(peer_id, []).append(item)
        self._start(peer_id)

    def _start(self, peer_id: int) -> None:
        running = self._running.get(peer_id, 0)
        if peer_id not in self._starting and running < self._requests_max:
            self._starting.add(peer_id)
            self._running[peer_id] = running + 1
            self._spawn(lambda: self._run(peer_id))

    async def _run(self, peer_id: int) -> None:
        """Carry one batch: the end of the task sends what that completed."""
        self._starting.discard(peer_id)
        waiting = self._waiting.pop(peer_id)
        batch, rest = waiting[: self._items_max], waiting[self._items_max :]
        if rest:
            self._waiting[peer_id] = rest
            self._start(peer_id)
        try:
            await self._carry(peer_id, batch)
        finally:
            self._running[peer_id] -= 1
            if not self._running[peer_id]:
                del self._running[peer_id]
            if peer_id in self._waiting:
                self._start(peer_id)
