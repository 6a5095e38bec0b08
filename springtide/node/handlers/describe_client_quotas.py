"""DescribeClientQuotas: the quotas of the entities that a filter matches, from the metadata stream (KIP-546).

A component of the filter matches entities that have a name of its type: this name, the default's, or any.
Strictly, an entity matches only if it has no name of another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from springtide.contract.administration import AdminOutcome
from springtide.node.handlers.administer import code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import invalid
from springtide.node.handlers.quota_entities import CLIENT_ID, FIELDS, IP, USER, parts_of
from springtide.node.handlers.security_refusals import refusal_to_describe
from springtide.security.acls.model import Operation
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    DescribeClientQuotasComponentData,
    DescribeClientQuotasEntityData,
    DescribeClientQuotasEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValueData,
)

EXACT, DEFAULT, ANY = 0, 1, 2
"""The kinds of match."""
ANY_NAME: Final = ""
"""Stands for each name in a filter: no entity's name is empty."""


def handle(context: NodeContext, request: Request, message: DescribeClientQuotasRequest) -> None:
    refused = refusal_to_describe(context, request, Operation.DESCRIBE_CONFIGS)
    if refused is None:
        refused = _refusal_of_filter(message.components)
    if refused is not None:
        request.reply(
            DescribeClientQuotasResponse(error_code=code_of(refused), error_message=message_of(refused))
        )
        return
    wanted = {
        component.entity_type: ANY_NAME if component.match_type == ANY else component.match
        for component in message.components
    }
    entries = []
    for entity in sorted(context.view.quotas, key=lambda entity: sorted(parts_of(entity), key=str)):
        parts = parts_of(entity)
        if _matches(wanted, parts, strict=message.strict):
            entries.append(
                DescribeClientQuotasEntryData(
                    entity=tuple(
                        DescribeClientQuotasEntityData(entity_type=of_type, entity_name=name)
                        for of_type, name in parts.items()
                    ),
                    values=tuple(
                        DescribeClientQuotasValueData(key=key, value=value)
                        for key, value in sorted(context.view.quotas[entity].quotas.items())
                    ),
                )
            )
    request.reply(DescribeClientQuotasResponse(entries=tuple(entries)))


def _matches(wanted: Mapping[str, str | None], parts: Mapping[str, str | None], *, strict: bool) -> bool:
    if strict and len(parts) != len(wanted):
        return False
    return all(of_type in parts and name in (ANY_NAME, parts[of_type]) for of_type, name in wanted.items())


def _refusal_of_filter(components: Iterable[DescribeClientQuotasComponentData]) -> AdminOutcome | None:
    seen: set[str] = set()
    for component in components:
        of_type = component.entity_type
        if of_type not in FIELDS:
            shown = f"there is no entity of type {of_type[:60]!r}"
            return (
                AdminOutcome(error_code=ErrorCode.UNSUPPORTED_VERSION, message=shown)
                if of_type
                else invalid(shown)
            )
        if of_type in seen:
            return invalid(f"the filter has two components of type {of_type}")
        if component.match_type not in (EXACT, DEFAULT, ANY):
            return invalid(f"there is no match of type {component.match_type}")
        if (component.match_type == EXACT) != bool(component.match is not None):
            return invalid("an exact match has a name, and no other has one")
        seen.add(of_type)
    if IP in seen and seen & {USER, CLIENT_ID}:
        return invalid("an address has no quotas together with a user or a client id")
    return None
