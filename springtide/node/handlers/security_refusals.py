"""Why a call about ACLs, users or quotas is refused before anything is asked or told.

This is the one place where such a call is authorized: each handler names the operation on the cluster that
Kafka asks for.
"""

from __future__ import annotations

from springtide.contract.administration import AdminOutcome
from springtide.contract.security import AUTHORIZER
from springtide.node.handlers.administer import denial
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import Operation, ResourceType
from springtide.wire.errors import ErrorCode


def refusal_of_client(request: Request, operation: Operation) -> AdminOutcome | None:
    """Return the outcome for a client that may not do the operation on the cluster."""
    return denial(request, operation, ResourceType.CLUSTER)


def refusal_to_describe(
    context: NodeContext, request: Request, operation: Operation, *, needs_authorizer: bool = False
) -> AdminOutcome | None:
    """Return the outcome for a client that can't be told now what the cluster stores."""
    refused = refusal_of_client(request, operation)
    if refused is not None:
        return refused
    if not context.may_judge():
        return AdminOutcome(error_code=ErrorCode.NOT_CONTROLLER, message="this broker knows nothing of now")
    if needs_authorizer and not context.view.is_authorizer_on:
        return AdminOutcome(
            error_code=ErrorCode.SECURITY_DISABLED,
            message=f"the cluster has no authorizer: its setting {AUTHORIZER} is empty",
        )
    return None
