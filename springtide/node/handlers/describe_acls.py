"""DescribeAcls: the bindings that a filter matches, from the metadata stream (KIP-140, KIP-290)."""

from __future__ import annotations

from itertools import groupby

from springtide.contract.administration import AdminOutcome
from springtide.node.handlers.acl_fields import filter_of
from springtide.node.handlers.administer import code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import invalid
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import AclBinding, Operation
from springtide.security.acls.validation import InvalidAcl, validate_filter
from springtide.wire.messages import (
    DescribeAclsAclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(context: NodeContext, request: Request, message: DescribeAclsRequest) -> None:
    refused = refusal_to_describe(context, request, Operation.DESCRIBE, needs_authorizer=True)
    if refused is not None:
        _refuse(request, refused)
        return
    try:
        wanted = validate_filter(filter_of(message))
    except InvalidAcl as error:
        _refuse(request, invalid(str(error)))
        return
    by_pattern = groupby(
        context.view.acls.select(wanted),
        key=lambda binding: (binding.resource_type, binding.resource_name, binding.pattern_type),
    )
    resources = tuple(
        DescribeAclsResource(
            resource_type=resource_type,
            resource_name=name,
            pattern_type=pattern_type,
            acls=tuple(map(_description, bindings)),
        )
        for (resource_type, name, pattern_type), bindings in by_pattern
    )
    request.reply(DescribeAclsResponse(resources=resources))


def _description(binding: AclBinding) -> DescribeAclsAclDescription:
    return DescribeAclsAclDescription(
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )


def _refuse(request: Request, refused: AdminOutcome) -> None:
    request.reply(DescribeAclsResponse(error_code=code_of(refused), error_message=message_of(refused)))
