"""What the controller stores of clients: ACLs, the secrets of users, and quotas.

The controller stores, audits and pushes these; brokers and coordinators decide by them about each request. A
value replaces the one before of the same pattern, user or entity whole; an empty one ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from springtide.security.acls.model import AclBinding, PatternType, ResourceType

#: Settings of the cluster. AUTHORIZER is empty, and each client may do everything, or it is
#: STANDARD_AUTHORIZER, and the ACLs decide.
AUTHORIZER: Final = "authorizer.class.name"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"

#: Name of the default of all users, client ids or addresses (KIP-257), as Kafka writes it in its metadata.
DEFAULT_ENTITY: Final = "<default>"

#: Stands in the users' rows for one that no client is: its key makes the salts of unknown users.
UNKNOWN_USERS: Final = "<unknown>"

#: A pattern of resources. Patterns have the order of their bindings.
PatternKey = tuple[ResourceType, str, PatternType]


def is_authorizer_on(configs: Mapping[str, str]) -> bool:
    return bool(configs.get(AUTHORIZER))


def super_users(configs: Mapping[str, str]) -> frozenset[str]:
    """Return the principals that may do everything, of a list such as `User:a;User:b`."""
    named = (principal.strip() for principal in configs.get(SUPER_USERS, "").split(";"))
    return frozenset(principal for principal in named if principal)


def is_everyone_allowed(configs: Mapping[str, str]) -> bool:
    """Return whether each client may do everything with a resource that has no binding."""
    return configs.get(ALLOW_EVERYONE) == "true"


class AclsOfPattern(msgspec.Struct, frozen=True, kw_only=True):
    """All bindings of one pattern of resources, in order."""

    resource_type: ResourceType
    pattern_type: PatternType
    resource_name: str
    bindings: tuple[AclBinding, ...] = ()

    @property
    def characters(self) -> int:
        return sum(binding.characters for binding in self.bindings)

    @property
    def key(self) -> PatternKey:
        return (self.resource_type, self.resource_name, self.pattern_type)


class ScramSecret(msgspec.Struct, frozen=True, kw_only=True):
    """The stored part of a user's password for one mechanism (RFC 5802): nothing can log in with it, but a
    password can be guessed against it, so it is never shown. mechanism: its name on the wire."""

    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        return f"ScramSecret({self.mechanism}, iterations={self.iterations})"


class UserSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """A user's name, without Kafka's prefix `User:`, and a secret for each mechanism by which it may log
    in."""

    user: str
    scram: tuple[ScramSecret, ...] = ()


def key_of_unknown_users(key: bytes) -> UserSecrets:
    """Return the row for the key of unknown users' salts. key: 32 random bytes, of the cluster for good."""
    secret = ScramSecret(mechanism="SCRAM-SHA-256", iterations=4096, salt=b"", stored_key=key, server_key=key)
    return UserSecrets(user=UNKNOWN_USERS, scram=(secret,))


class QuotaEntity(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Whose quotas these are: a user's, a client id's, both, or an address's; DEFAULT_ENTITY stands for each
    that has none of its own, None for a part that is not named. ip is alone."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class EntityQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of one entity by Kafka's names: producer_byte_rate, consumer_byte_rate,
    request_percentage, controller_mutation_rate; of an address connection_creation_rate."""

    entity: QuotaEntity
    quotas: dict[str, float] = {}
