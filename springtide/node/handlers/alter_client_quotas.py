"""AlterClientQuotas: quotas of entities, to the controller (KIP-546)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite

from springtide.contract.administration import AdminOutcome, AlterQuotasCall, QuotasToAlter
from springtide.node.handlers.administer import administer, code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import invalid
from springtide.node.handlers.quota_entities import InvalidEntity, entity_of
from springtide.node.handlers.security_refusals import refusal_of_client
from springtide.security.acls.model import Operation
from springtide.wire.messages import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    AlterClientQuotasResponseEntryDataEntityData,
)


def handle(context: NodeContext, request: Request, message: AlterClientQuotasRequest) -> None:
    refused = refusal_of_client(request, Operation.ALTER_CONFIGS)
    if refused is not None:
        _answer(request, message.entries, [refused] * len(message.entries))
        return
    found = [_alteration(entry) for entry in message.entries]
    mentions = Counter(one.entity for one in found if isinstance(one, QuotasToAlter))
    parts = [
        invalid("the entity is named twice")
        if isinstance(one, QuotasToAlter) and mentions[one.entity] > 1
        else one
        for one in found
    ]
    call = AlterQuotasCall(
        entities=tuple(one for one in parts if isinstance(one, QuotasToAlter)),
        validate_only=message.validate_only,
    )

    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        told = iter(outcomes)
        _answer(
            request, message.entries, [one if isinstance(one, AdminOutcome) else next(told) for one in parts]
        )

    administer(context, request, call, named=len(call.entities), answer=answer)


def _alteration(entry: AlterClientQuotasEntryData) -> QuotasToAlter | AdminOutcome:
    """Return what the controller is asked for, or the outcome if it can't be asked: JSON, in which it is
    asked, has no infinite numbers."""
    try:
        entity = entity_of(entry.entity)
    except InvalidEntity as error:
        return invalid(str(error))
    quotas = {op.key: None if op.remove else op.value for op in entry.ops}
    if len(quotas) < len(entry.ops):
        return invalid("a quota is named twice")
    if not all(value is None or isfinite(value) for value in quotas.values()):
        return invalid("a quota is not a finite number")
    return QuotasToAlter(entity=entity, quotas=quotas)


def _answer(
    request: Request, entries: Sequence[AlterClientQuotasEntryData], outcomes: Sequence[AdminOutcome]
) -> None:
    request.reply(
        AlterClientQuotasResponse(
            entries=tuple(
                AlterClientQuotasResponseEntryData(
                    error_code=code_of(outcome),
                    error_message=message_of(outcome),
                    entity=tuple(
                        AlterClientQuotasResponseEntryDataEntityData(
                            entity_type=part.entity_type, entity_name=part.entity_name
                        )
                        for part in entry.entity
                    ),
                )
                for entry, outcome in zip(entries, outcomes, strict=True)
            )
        )
    )
