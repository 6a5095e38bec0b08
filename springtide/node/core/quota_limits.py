"""The quota that holds for a client or an address, by Kafka's precedence. Pure.

Quotas of users and client ids are those of KIP-13, KIP-55 (users), KIP-124 (time of requests) and KIP-599
(changes of topics); those of addresses are of KIP-612 (new connections).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Final, NamedTuple

from springtide.contract.security import DEFAULT_ENTITY, EntityQuotas, QuotaEntity

NAME_CHARS_MAX: Final = 255
"""Longer client ids and users are cut to this; no quota can name them."""

Key = tuple[str | None, str | None]
"""Who shares a quota: the user and the client id, None where one does not matter. Of an address: itself and
None."""


@unique
class QuotaName(StrEnum):
    """Kafka's names. Rates are per second, REQUEST_PERCENTAGE is of one processor core."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


class Limit(NamedTuple):
    """The value of a quota, and who shares it."""

    key: Key
    value: float


class Limits:
    """The limits that the quotas of all entities make."""

    __slots__ = ("_of_addresses", "_of_clients")

    def __init__(self, quotas: Mapping[QuotaEntity, EntityQuotas]) -> None:
        self._of_clients: dict[str, dict[Key, float]] = {}
        self._of_addresses: dict[str, float] = {}
        for entity, of_entity in quotas.items():
            for name, value in of_entity.quotas.items():
                if entity.ip is None:
                    values = self._of_clients.setdefault(name, {})
                    values[entity.user, entity.client_id] = value
                elif name == QuotaName.CONNECTION_CREATION_RATE:
                    self._of_addresses[entity.ip] = value

    def of_client(self, name: QuotaName, user: str, client_id: str) -> Limit | None:
        """Return the limit of the most specific entity that has this quota: the user with the client id, with
        each client id, or alone; then the same of the default user; then of the client id alone (KIP-55).

        Clients to which a default applies do not share it: each has as much.
        """
        values = self._of_clients.get(name)
        if values is None:
            return None
        for named_user in (user, DEFAULT_ENTITY, None):
            for named_id in (client_id, DEFAULT_ENTITY, None):
                value = values.get((named_user, named_id))
                if value is not None:
                    key = (None if named_user is None else user, None if named_id is None else client_id)
                    return Limit(key, value)
        return None

    def of_address(self, address: str) -> Limit | None:
        """Return the limit of new connections of the address, or of each that has none of its own."""
        value = self._of_addresses.get(address, self._of_addresses.get(DEFAULT_ENTITY))
        return None if value is None else Limit((address, None), value)
