"""A broker's questions to coordinators for its clients: tools that ask each listed broker for groups find no
coordinator there (dataplane.handlers.groups).

Each question has a connection of its own, as the broker's own. What the client may know is for the handler to
check. Questions wait for nothing: beyond a bound they count as unanswered, and clients ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import trio

from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import Clock
from springtide.node.net import Net
from springtide.node.peer_requests import ask, connect
from springtide.wire.client import WireClient
from springtide.wire.fields import RequestMessage, ResponseMessage
from springtide.wire.framing import FrameError
from springtide.wire.primitives import RESPONSE_ELEMENTS_MAX, MalformedRequest
from springtide.wire.typed import read_message, write_message

_log = logging.getLogger(__name__)

ANSWER_MS_MAX: Final = 5_000
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
IN_FLIGHT_MAX: Final = 32

Call = tuple[BrokerEndpoint, RequestMessage]
"""A coordinator, and the request's message for it."""
A = TypeVar("A", bound=ResponseMessage)


class CoordinatorCalls:
    """client_id: this process's, in its requests. spawn: starts a task of the broker, whose end sends
    what it completed."""

    def __init__(
        self,
        *,
        net: Net,
        clock: Clock,
        client_id: str,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._net = net
        self._clock = clock
        self._client_id = client_id
        self._spawn = spawn
        self._in_flight = 0

    def start(
        self,
        answer_type: type[A],
        api_version: int,
        calls: Sequence[Call],
        done: Callable[[Sequence[A | None]], None],
    ) -> None:
        """Call `done` once, on the loop, with an answer to each call, in its order, or None where none came
        in time: at once if too many are under way or there is nothing to ask."""
        answers: list[A | None] = [None] * len(calls)
        if not calls or self._in_flight + len(calls) > IN_FLIGHT_MAX:
            done(answers)
            return
        self._in_flight += len(calls)

        async def one(index: int) -> None:
            endpoint, message = calls[index]
            answers[index] = await self._answer(endpoint, message, answer_type, api_version)

        async def carry() -> None:
            try:
                async with trio.open_nursery() as nursery:
                    for index in range(len(calls)):
                        nursery.start_soon(one, index)
            finally:
                self._in_flight -= len(calls)
            done(answers)

        self._spawn(carry)

    async def _answer(
        self, endpoint: BrokerEndpoint, message: RequestMessage, answer_type: type[A], api_version: int
    ) -> A | None:
        try:
            channel = await connect(
                self._net, self._clock, endpoint.host, endpoint.port, timeout_ms=ANSWER_MS_MAX
            )
            try:
                with self._clock.timeout_ms(ANSWER_MS_MAX):
                    client: WireClient[None] = WireClient(self._client_id, answer_bytes_max=ANSWER_BYTES_MAX)
                    body = write_message(message, api_version)
                    answer = await ask(channel, client, message.API, api_version, [body])
                    return read_message(
                        answer_type,
                        api_version,
                        answer.frame,
                        answer.position,
                        elements_max=RESPONSE_ELEMENTS_MAX,
                    )
                raise TimeoutError("the coordinator is silent")
            finally:
                channel.close()
        except (OSError, trio.ClosedResourceError, FrameError, MalformedRequest) as error:
            _log.debug("coordinator_not_asked coordinator_id=%d cause=%s", endpoint.broker_id, error)
            return None
