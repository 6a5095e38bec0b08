"""What handlers of transactions have in common: the way to a transactional id's shard, and old clients' words
for a fenced producer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.core.transactions.options import STRING_BYTES_MAX
from coordinator.core.transactions.requests import NeedsProducerId, ProducerClient
from coordinator.handlers.asking import TOLD, shard_in
from coordinator.handlers.context import CoordinatorContext, MakeRequest
from springtide.levels import TRANSACTIONS
from springtide.node.handlers.context import Request, check_level
from springtide.node.refusals import client_id_of
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode


def check_id(context: CoordinatorContext, request: Request, transactional_id: str) -> ErrorCode:
    """Return why a producer may not use the transactional id, or NONE."""
    if not request.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if error := check_level(context, TRANSACTIONS):
        return error
    if not 0 < len(transactional_id) <= STRING_BYTES_MAX:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def client_of(request: Request) -> ProducerClient:
    connection = request.answer.connection
    return ProducerClient(client_id_of(connection), connection.peer, connection.number)


def ask_transaction(
    context: CoordinatorContext, transactional_id: str, make: MakeRequest, answer: Callable[[Any], None]
) -> None:
    """Ask the shard of a transactional id that `check_id` has passed. answer: gets the machine's reply, or an
    error that clients know."""

    def answered(reply: object) -> None:
        answer(TOLD.get(reply, reply) if isinstance(reply, ErrorCode) else reply)

    context.transactions.submit(shard_in(context, TRANSACTIONS_TOPIC, transactional_id), make, answered)


def ask_with_id(
    context: CoordinatorContext,
    transactional_id: str,
    make: Callable[[int, int | None], object],
    answer: Callable[[Any], None],
) -> None:
    """Ask as `ask_transaction` does, and again with a fresh producer id if the machine needs one. make: the
    request from its token and that id."""

    def on_id(producer_id: int | None) -> None:
        if producer_id is None:  # Kafka's answer while its block of ids is on the way
            answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            ask_transaction(context, transactional_id, lambda token: make(token, producer_id), answer)

    def answered(reply: object) -> None:
        if isinstance(reply, NeedsProducerId):
            context.producer_ids.take(on_id)
        else:
            answer(reply)

    ask_transaction(context, transactional_id, lambda token: make(token, None), answered)


def fenced_as(error: ErrorCode, request: Request, *, since: int) -> ErrorCode:
    """Return the error as the client's version knows it: PRODUCER_FENCED came late (KIP-588)."""
    is_old = error is ErrorCode.PRODUCER_FENCED and request.api_version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_old else error
