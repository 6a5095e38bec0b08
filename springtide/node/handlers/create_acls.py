"""CreateAcls: bindings to add, to the controller (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import AdminOutcome, AlterAclsCall
from springtide.node.handlers.acl_fields import binding_of
from springtide.node.handlers.administer import administer, code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation
from springtide.wire.messages import (
    CreateAclsAclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(context: NodeContext, request: Request, message: CreateAclsRequest) -> None:
    bindings = tuple(binding_of(creation) for creation in message.creations)
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is not None:
        _answer(request, [refused] * len(bindings))
        return
    administer(
        context,
        request,
        AlterAclsCall(create=bindings),
        named=len(bindings),
        answer=lambda outcomes: _answer(request, outcomes),
    )


def _answer(request: Request, outcomes: Sequence[AdminOutcome]) -> None:
    request.reply(
        CreateAclsResponse(
            results=tuple(
                CreateAclsAclCreationResult(error_code=code_of(one), error_message=message_of(one))
                for one in outcomes
            )
        )
    )
