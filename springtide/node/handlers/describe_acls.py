"""DescribeAcls: the bindings that a filter matches, from the metadata stream (KIP-140, KIP-290)."""

from __future__ import annotations

from itertools import groupby
from typing import Any, cast

from springtide.node.handlers.acl_fields import entry_fields, filter_of, pattern_fields
from springtide.node.handlers.administer import error_fields
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import invalid
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import Operation
from springtide.security.acls.validation import InvalidAcl, validate_filter


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    refused = refusal_to_describe(context, request, Operation.DESCRIBE, needs_authorizer=True)
    if refused is not None:
        request.reply({**error_fields(refused), "resources": ()})
        return
    try:
        wanted = validate_filter(filter_of(message))
    except InvalidAcl as error:
        request.reply({**error_fields(invalid(str(error))), "resources": ()})
        return
    by_pattern = groupby(
        context.view.acls.select(wanted),
        key=lambda binding: (binding.resource_type, binding.resource_name, binding.pattern_type),
    )
    resources = []
    for _, group in by_pattern:
        bindings = list(group)
        resources.append(
            {**pattern_fields(bindings[0]), "acls": [entry_fields(binding) for binding in bindings]}
        )
    request.reply({"error_message": None, "resources": resources})
