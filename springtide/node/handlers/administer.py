"""The way to the controller and back, which all handlers of administrators' calls share.

Each handler translates its request into a call of the contract, and the outcome for each named thing into its
answer. What the controller checks is not checked here, so that one place decides and one audit records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from springtide.contract.administration import AdminCall, AdminOutcome, AdminResponse
from springtide.contract.errors import ControllerError
from springtide.node.authorization import DENIED
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import ANONYMOUS, CLUSTER_NAME, Operation, ResourceType
from springtide.wire.errors import ErrorCode, error_code

T = TypeVar("T")

MESSAGE_CHARS_MAX = 1_000
DEFAULT_TIMEOUT_MS = 30_000
"""The timeout of a request that states none."""
ANSWER_MS = 500
"""What is left of a client's timeout for the way back, once the controller has stopped waiting."""

_ERRORS: dict[ControllerError, tuple[ErrorCode, str]] = {
    ControllerError.OUTCOME_UNKNOWN: (
        ErrorCode.REQUEST_TIMED_OUT,
        "the controller did not answer in time: whether it was done is not known",
    ),
    ControllerError.UNKNOWN: (
        ErrorCode.REQUEST_TIMED_OUT,
        "the controller is of a later release and gave an error that this one does not know: look whether it "
        "was done",
    ),
    ControllerError.INVALID_REQUEST: (
        ErrorCode.INVALID_REQUEST,
        "the controller could not read the request; it may be of an earlier release, and then this process's "
        "log says so",
    ),
}
_UNAVAILABLE = (ErrorCode.NOT_CONTROLLER, "no controller can be asked now; nothing was done")
"""Clients try again on this one, after they have looked for a controller again."""


def administer(
    context: NodeContext,
    request: Request,
    call: AdminCall,
    *,
    named: int,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
    answer: Callable[[Sequence[AdminOutcome]], None],
    refused: Mapping[int, AdminOutcome] | None = None,
) -> None:
    """Ask the controller; `answer` gets an outcome for each thing of the request, in their order.

    named: how many the call names; -1: any number, then a failure of the whole is one outcome without a
    topic. refused: the outcomes of things that the controller is not asked about, by their place among all.

    Before the first full state, and from the end of its lease until it has applied what it missed, this
    process knows neither the ACLs of now nor whether they decide: it asks nothing.
    """

    def merge(outcomes: Sequence[AdminOutcome]) -> None:
        told, decided = iter(outcomes), refused or {}
        places = range(len(outcomes) + len(decided))
        answer([decided[place] if place in decided else next(told) for place in places])

    def done(response: AdminResponse) -> None:
        outcomes = response.outcomes
        if response.error is not ControllerError.NONE:
            code, message = _ERRORS.get(response.error, _UNAVAILABLE)
            outcomes = (AdminOutcome(error_code=code, message=message),) * (1 if named < 0 else named)
        elif named not in (-1, len(outcomes)):
            failed = AdminOutcome(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
            outcomes = (failed,) * named
        merge(outcomes)

    if named == 0:
        merge(())
        return
    if not context.may_judge():
        done(AdminResponse(error=ControllerError.NOT_CONTROLLER))
        return
    connection = request.answer.connection
    context.administration.start(
        call,
        client_id=connection.client_id,
        client_host=connection.peer,
        principal=_principal(request),
        timeout_ms=timeout_ms,
        done=done,
    )


def wait_ms(timeout_ms: int) -> int:
    """Return for how long the controller may wait before it answers a client that waits for so long."""
    return max(0, timeout_ms - ANSWER_MS)


def _principal(request: Request) -> str | None:
    """Return the principal by which the ACLs have allowed the request."""
    is_known = request.rights is not None and request.principal != ANONYMOUS
    return request.principal if is_known else None


def refusals(things: Iterable[T], refusal_of: Callable[[T], AdminOutcome | None]) -> dict[int, AdminOutcome]:
    """Return the outcome of each thing that is refused here, by its place."""
    outcomes = enumerate(map(refusal_of, things))
    return {place: outcome for place, outcome in outcomes if outcome is not None}


def denial(
    request: Request, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
) -> AdminOutcome | None:
    """Return the outcome for a client that may not do the operation, None if it may."""
    if request.may(operation, resource_type, name):
        return None
    return denied(request, operation, resource_type, name)


def denied(
    request: Request, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
) -> AdminOutcome:
    text = f"{request.principal} may not {operation.name} {resource_type.name} {name}"
    return AdminOutcome(error_code=DENIED[resource_type], message=text)


def throttled(request: Request, partitions: Callable[[], int], *, told_since: int) -> AdminOutcome | None:
    """Return the outcome for a client that has to wait before it creates or deletes so many partitions, None
    if they were charged to its quota. A version below `told_since` knows no such error: its call is carried
    out, and its connection waits (KIP-599)."""
    account = request.account
    if account is None or account.may_mutate(partitions(), is_strict=request.api_version >= told_since):
        return None
    text = "the client creates and deletes partitions faster than its quota allows"
    return AdminOutcome(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED, message=text)


def code_of(outcome: AdminOutcome) -> ErrorCode:
    """Return the error that the client is told."""
    return error_code(outcome.error_code)


def message_of(outcome: AdminOutcome) -> str | None:
    """Return what the client is told beside the error."""
    return None if outcome.message is None else outcome.message[:MESSAGE_CHARS_MAX]


def grouped_by_topic(
    partitions: Sequence[tuple[str, int]], outcomes: Sequence[AdminOutcome]
) -> Mapping[str, list[tuple[int, AdminOutcome]]]:
    """Return numbers and outcomes by topic, topics in the order of their first partition."""
    grouped: dict[str, list[tuple[int, AdminOutcome]]] = {}
    for (topic, number), outcome in zip(partitions, outcomes, strict=True):
        grouped.setdefault(topic, []).append((number, outcome))
    return grouped
