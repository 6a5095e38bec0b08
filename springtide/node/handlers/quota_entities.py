"""The entities of quotas in Kafka's messages (KIP-546): a type and a name each, where null is the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from springtide.contract.security import DEFAULT_ENTITY, QuotaEntity

USER, CLIENT_ID, IP = "user", "client-id", "ip"
FIELDS: Mapping[str, str] = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}
"""Types of entities, and the fields of QuotaEntity that have their names."""


class EntityPart(Protocol):
    """A part of an entity in a message."""

    @property
    def entity_type(self) -> str: ...

    @property
    def entity_name(self) -> str | None: ...


class InvalidEntity(ValueError):
    """An entity that can't have quotas. The text says why."""


def entity_of(parts: Iterable[EntityPart]) -> QuotaEntity:
    """Return the entity that the parts of a message name. Raise InvalidEntity if they can't be one."""
    names: dict[str, str] = {}
    for part in parts:
        if part.entity_type not in FIELDS:
            raise InvalidEntity(f"there is no entity of type {part.entity_type[:60]!r}")
        if FIELDS[part.entity_type] in names:
            raise InvalidEntity(f"the entity has two names of type {part.entity_type}")
        if part.entity_name in ("", DEFAULT_ENTITY):
            raise InvalidEntity(f"{part.entity_name!r} can't be the name of a {part.entity_type}")
        names[FIELDS[part.entity_type]] = DEFAULT_ENTITY if part.entity_name is None else part.entity_name
    return QuotaEntity(**names)


def parts_of(entity: QuotaEntity) -> dict[str, str | None]:
    """Return the names of the entity by their types; None: the default's."""
    named = ((of_type, getattr(entity, field)) for of_type, field in FIELDS.items())
    return {of_type: None if name == DEFAULT_ENTITY else name for of_type, name in named if name is not None}
