"""CreateAcls: bindings to add, to the controller (KIP-140, KIP-290)."""

from __future__ import annotations

from typing import Any, cast

from springtide.contract.administration import AlterAclsCall
from springtide.node.handlers.acl_fields import binding_of
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    bindings = tuple(binding_of(creation) for creation in message.creations)
    refused = refusal_of_client(request, Operation.ALTER)
    if refused is not None:
        request.reply({"results": [error_fields(refused)] * len(bindings)})
        return
    administer(
        context,
        request,
        AlterAclsCall(create=bindings),
        named=len(bindings),
        answer=lambda outcomes: request.reply({"results": [error_fields(one) for one in outcomes]}),
    )
