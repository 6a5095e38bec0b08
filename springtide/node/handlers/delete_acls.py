"""DeleteAcls: filters, each of which removes the bindings that it matches, to the controller (KIP-140)."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import AdminOutcome, AlterAclsCall
from springtide.node.handlers.acl_fields import filter_of
from springtide.node.handlers.administer import administer, code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import AclBinding, Operation
from springtide.wire.messages import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(context: NodeContext, request: Request, message: DeleteAclsRequest) -> None:
    filters = tuple(filter_of(wanted) for wanted in message.filters)
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is not None:
        _answer(request, [refused] * len(filters))
        return
    administer(
        context,
        request,
        AlterAclsCall(delete=filters),
        named=len(filters),
        answer=lambda outcomes: _answer(request, outcomes),
    )


def _answer(request: Request, outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        DeleteAclsResponse(
            filter_results=tuple(
                DeleteAclsFilterResult(
                    error_code=code_of(outcome),
                    error_message=message_of(outcome),
                    matching_acls=tuple(map(_matching, outcome.bindings)),
                )
                for outcome in outcomes
            )
        )
    )


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
