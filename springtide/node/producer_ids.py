"""Producer ids from blocks that the controller reserves: no id is ever given twice, here or anywhere.

Requests that find no id wait for the block that is on its way; one allocation runs at a time. A block that
arrives after this process died is lost, which costs nothing: there are 2^63 ids.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.updates import ProducerIdsRequest, ProducerIdsResponse
from springtide.node.clock import Clock
from springtide.node.controller_client import ControllerUnavailable

_log = logging.getLogger(__name__)

WAITERS_MAX = 10_000
PREFETCH_BELOW = 100
"""Ids left at which the next block is asked for, so that producers seldom wait."""
ATTEMPTS = 3
RETRY_MS = 200

#: Gets a producer id, or None: the controller could not be reached, try again later.
OnProducerId = Callable[[int | None], None]


class ProducerIds:
    """`ask` sends a request to the active controller; it raises ControllerUnavailable. spawn:
    runs a task, whose end is the end of a turn."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], BrokerEpoch],
        ask: Callable[[ProducerIdsRequest], Awaitable[ProducerIdsResponse]],
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        clock: Clock,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._spawn = spawn
        self._clock = clock
        self._blocks: list[range] = []
        self._waiters: list[OnProducerId] = []
        self._is_allocating = False

    @property
    def available(self) -> int:
        return sum(map(len, self._blocks))

    def take(self, on_id: OnProducerId) -> None:
        """Call `on_id`, now if an id is there, else when the controller has answered."""
        producer_id = self._next()
        if self.available < PREFETCH_BELOW and not self._is_allocating:
            self._is_allocating = True
            self._spawn(self._refill)
        if producer_id is not None or len(self._waiters) >= WAITERS_MAX:
            on_id(producer_id)
        else:
            self._waiters.append(on_id)

    def _next(self) -> int | None:
        while self._blocks:
            block = self._blocks[0]
            if block:
                self._blocks[0] = block[1:]
                return block[0]
            self._blocks.pop(0)
        return None

    async def _refill(self) -> None:
        try:
            for attempt in range(ATTEMPTS):
                if attempt:
                    await self._clock.sleep_ms(RETRY_MS * attempt)
                try:
                    response = await self._ask(
                        ProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
                    )
                except ControllerUnavailable as error:
                    _log.info("producer_ids_refused cause=%s", error)
                    continue
                if response.error is ControllerError.NONE and response.count > 0:
                    first = response.first_producer_id
                    self._blocks.append(range(first, first + response.count))
                    break
                _log.info("producer_ids_refused cause=%s", response.error)
        finally:
            self._is_allocating = False
            waiters, self._waiters = self._waiters, []
            for on_id in waiters:
                on_id(self._next())
