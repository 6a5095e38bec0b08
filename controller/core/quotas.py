"""Operators' requests about quotas: which entities there are, and which values their quotas can have.

Entities and names are those of KIP-546 (quotas by user and client id), KIP-599 (controller mutations) and
KIP-612 (connections by address). As in Kafka, a quota is above zero, a rate of bytes or connections is a
whole number, and an address stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from controller.core.draft import Draft
from controller.core.events import AlterQuotas, EntityAltered, QuotasAltered, Refusal, RefusalCode
from controller.core.records import Cause, QuotasRecord
from controller.core.request_size import check_size
from controller.core.settings_table import INT32_MAX, INT64_MAX
from controller.core.topics import operator_change
from springtide.contract.administration import QuotasToAlter
from springtide.contract.security import DEFAULT_ENTITY, EntityQuotas, QuotaEntity
from springtide.security.acls.model import WILDCARD
from springtide.security.acls.validation import InvalidAcl, canonical_host

ENTITIES_MAX: Final = 10_000
ENTITY_LENGTH_MAX: Final = 255


class _Rule(NamedTuple):
    high: float
    is_whole: bool


_OF_CLIENTS: Final[Mapping[str, _Rule]] = {
    "consumer_byte_rate": _Rule(float(INT64_MAX), is_whole=True),
    "controller_mutation_rate": _Rule(math.inf, is_whole=False),
    "producer_byte_rate": _Rule(float(INT64_MAX), is_whole=True),
    "request_percentage": _Rule(math.inf, is_whole=False),
}
_OF_ADDRESSES: Final[Mapping[str, _Rule]] = {"connection_creation_rate": _Rule(INT32_MAX, is_whole=True)}


def alter_quotas(draft: Draft, event: AlterQuotas) -> QuotasAltered | Refusal:
    refusal = check_size(len(event.changes))
    if refusal is not None:
        return refusal
    image = draft.image
    change = operator_change(event, Cause.QUOTAS_ALTERED)
    count = len(image.quotas)
    done: dict[QuotaEntity, None] = {}
    outcomes = []
    for asked in event.changes:
        entity = checked_entity(asked.entity)
        known = asked.entity if isinstance(entity, Refusal) else entity
        before = image.quotas.get(known) or EntityQuotas(entity=known)
        after = entity if isinstance(entity, Refusal) else _altered(before, asked)
        if known in done:
            after = _refusal("the request names an entity twice", "entity", code=RefusalCode.NAMED_TWICE)
        elif isinstance(after, EntityQuotas) and after.quotas and not before.quotas and count >= ENTITIES_MAX:
            after = Refusal(
                code=RefusalCode.TOO_MANY_QUOTAS,
                field="entity",
                detail=f"the cluster has quotas of {ENTITIES_MAX} entities already",
                limit=ENTITIES_MAX,
                hint="the quotas of the default entity are for each that has none of its own",
            )
        done[known] = None
        if isinstance(after, Refusal):
            outcomes.append(EntityAltered(quotas=before, refusal=after))
            continue
        count += bool(after.quotas) - bool(before.quotas)
        outcomes.append(EntityAltered(quotas=after))
        if after != before and not event.dry_run:
            draft.write(QuotasRecord(quotas=after, change=change))
    return QuotasAltered(entities=tuple(outcomes), dry_run=event.dry_run)


def checked_entity(entity: QuotaEntity) -> QuotaEntity | Refusal:
    """Return the entity, its address in canonical form, or why there is none such."""
    names = [name for name in (entity.user, entity.client_id, entity.ip) if name is not None]
    if not names:
        return _refusal("an entity names a user, a client id or an address", "entity")
    if entity.ip is not None and len(names) > 1:
        return _refusal("an address has no user or client id beside it", "entity.ip")
    for name in names:
        if not 0 < len(name) <= ENTITY_LENGTH_MAX or not name.isprintable():
            return _refusal(
                f"a name is not 1 to {ENTITY_LENGTH_MAX} characters that can be printed", "entity"
            )
    if entity.ip in (None, DEFAULT_ENTITY):
        return entity
    try:
        address = canonical_host(entity.ip)
    except InvalidAcl as error:
        return _refusal(str(error), "entity.ip")
    if address == WILDCARD:
        return _refusal(f"{WILDCARD} is no address; {DEFAULT_ENTITY} stands for all", "entity.ip")
    return msgspec.structs.replace(entity, ip=address)


def _altered(before: EntityQuotas, asked: QuotasToAlter) -> EntityQuotas | Refusal:
    rules = _OF_CLIENTS if before.entity.ip is None else _OF_ADDRESSES
    quotas = dict(before.quotas)
    for name, value in asked.quotas.items():
        if name not in rules:
            known = ", ".join(sorted(rules))
            return _refusal(f"{name[:100]!r} is no quota of this entity, which can have {known}", "quotas")
        if value is None:
            quotas.pop(name, None)
            continue
        detail = _fault(rules[name], value)
        if detail is not None:
            return _refusal(f"{name} {detail}, not {value}", f"quotas.{name}")
        quotas[name] = float(value)
    return EntityQuotas(entity=before.entity, quotas=dict(sorted(quotas.items())))


def _fault(rule: _Rule, value: float) -> str | None:
    if not math.isfinite(value) or not 0 < value <= rule.high:
        return "must be above 0" if math.isinf(rule.high) else f"must be above 0 and at most {rule.high}"
    return "must be a whole number" if rule.is_whole and value != int(value) else None


def _refusal(detail: str, field: str, *, code: RefusalCode = RefusalCode.INVALID_QUOTA) -> Refusal:
    return Refusal(code=code, field=field, detail=detail)
