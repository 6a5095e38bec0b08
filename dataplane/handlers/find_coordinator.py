"""FindCoordinator as every node answers it, and at once.

A consumer asks when its coordinator has gone to another process, mostly over the connection on which its own
fetch waits for records. Answers come in order, so on an idle topic it would stand without a coordinator until
that fetch is over (500 ms by default). The fetch is answered with what there is instead, and asked again.
"""

from __future__ import annotations

from dataplane.core.fetch_session import FetchSession
from dataplane.handlers.context import BrokerContext
from springtide.node.handlers import find_coordinator
from springtide.node.handlers.context import Request
from springtide.wire.messages import FindCoordinatorRequest


def handle(context: BrokerContext, request: Request, message: FindCoordinatorRequest) -> None:
    session = request.answer.connection.fetch_session
    if isinstance(session, FetchSession):
        context.fetches.hurry(session)
    find_coordinator.handle(context, request, message)
