"""DeleteAcls: filters, each of which removes the bindings that it matches, to the controller (KIP-140)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from springtide.contract.administration import AdminOutcome, AlterAclsCall
from springtide.node.handlers.acl_fields import entry_fields, filter_of, pattern_fields
from springtide.node.handlers.administer import administer, error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
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
        {
            "filter_results": [
                {
                    **error_fields(outcome),
                    "matching_acls": [
                        {"error_message": None, **pattern_fields(binding), **entry_fields(binding)}
                        for binding in outcome.bindings
                    ],
                }
                for outcome in outcomes
            ]
        }
    )
