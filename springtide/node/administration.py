"""Carries administrators' requests to the controller, and its outcomes back to the handlers.

Requests wait here within a bound and are answered in any order; each connection sends its answers in order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from springtide.contract.administration import AdminCall, AdminRequest, AdminResponse
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.errors import ControllerError
from springtide.node.controller_client import AnswerLost, ControllerUnavailable, NotUnderstood

IN_FLIGHT_MAX = 64
"""Requests of all clients together; clients try further ones again later."""
TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 1_000, 120_000

OnAnswer = Callable[[AdminResponse], None]


class Administration:
    """`ask` sends a request to the active controller within so many milliseconds; it raises
    ControllerUnavailable. spawn: runs a task, whose end is the end of a turn."""

    def __init__(
        self,
        *,
        broker_id: int,
        broker_epoch: Callable[[], BrokerEpoch],
        ask: Callable[[AdminRequest, int], Awaitable[AdminResponse]],
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._spawn = spawn
        self.in_flight = 0

    def start(
        self,
        call: AdminCall,
        *,
        client_id: str | None,
        client_host: str,
        principal: str | None,
        timeout_ms: int,
        done: OnAnswer,
    ) -> None:
        """Call `done` once, on the loop: at once if too many wait, else when the controller has answered or
        the time is over. principal: that the ACLs have allowed the call to."""
        if self.in_flight >= IN_FLIGHT_MAX:
            done(AdminResponse(error=ControllerError.OPERATION_NOT_ATTEMPTED))
            return
        request = AdminRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            client_id=client_id,
            client_host=client_host,
            principal=principal,
            call=call,
        )
        self.in_flight += 1

        async def carry() -> None:
            try:
                answer = await self._ask(request, min(max(timeout_ms, TIMEOUT_MS_MIN), TIMEOUT_MS_MAX))
            except AnswerLost:
                answer = AdminResponse(error=ControllerError.OUTCOME_UNKNOWN)
            except NotUnderstood:
                answer = AdminResponse(error=ControllerError.INVALID_REQUEST)
            except ControllerUnavailable:
                answer = AdminResponse(error=ControllerError.NOT_CONTROLLER)
            finally:
                self.in_flight -= 1
            done(answer)

        self._spawn(carry)
