"""Producer ids: none twice, nobody waits for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
import trio.testing

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.updates import ProducerIdsRequest, ProducerIdsResponse
from springtide.node.controller_client import ControllerUnavailable
from springtide.node.producer_ids import ProducerIds
from tests.kit.clocks import EagerClock


def collect(outcomes: list[ProducerIdsResponse | None], takes: int) -> list[int | None]:
    """What `takes` requests get when the controller answers `outcomes` in turn (None: not at all)."""
    given: list[int | None] = []

    async def ask(request: ProducerIdsRequest) -> ProducerIdsResponse:
        assert request == ProducerIdsRequest(broker_id=3, broker_epoch=BrokerEpoch(7))
        await trio.lowlevel.checkpoint()
        outcome = outcomes.pop(0) if outcomes else None
        if outcome is None:
            raise ControllerUnavailable("nobody")
        return outcome

    async def run() -> None:
        async with trio.open_nursery() as nursery:

            def spawn(work: Callable[[], Awaitable[None]]) -> None:
                nursery.start_soon(work)

            ids = ProducerIds(
                broker_id=3,
                broker_epoch=lambda: BrokerEpoch(7),
                ask=ask,
                spawn=spawn,
                clock=EagerClock(),
            )
            for _ in range(takes):
                ids.take(given.append)
                await trio.testing.wait_all_tasks_blocked()

    trio.run(run)
    return given


def block(first: int, count: int) -> ProducerIdsResponse:
    return ProducerIdsResponse(first_producer_id=first, count=count)


def test_ids_come_from_the_blocks_in_order_and_only_once() -> None:
    assert collect([block(10, 2), block(50, 2), block(70, 1000)], 5) == [10, 11, 50, 51, 70]


def test_a_controller_that_comes_back_in_time_is_asked_again() -> None:
    refused = ProducerIdsResponse(error=ControllerError.NOT_CONTROLLER)
    assert collect([None, refused, block(7, 1000)], 1) == [7]


def test_a_controller_that_does_not_come_back_is_an_answer_too() -> None:
    assert collect([], 2) == [None, None]
