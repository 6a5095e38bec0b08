"""The values of ACLs: a binding, a filter over bindings, a decision; with the numbers of Kafka's protocol."""

from __future__ import annotations

from enum import IntEnum, StrEnum, unique
from typing import Final, Self

import msgspec

WILDCARD: Final = "*"
"""As a literal resource name: each resource of the type. As a host: each host."""
ANY_USER: Final = "User:*"
ANONYMOUS: Final = "User:ANONYMOUS"
"""A client that no certificate and no login names."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class _Code(IntEnum):
    """A number of the protocol. A number that has no name becomes UNKNOWN, as in Kafka."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) else None


@unique
class ResourceType(_Code):
    """The type of a resource. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


@unique
class PatternType(_Code):
    """How a pattern's name stands for resources (KIP-290). ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


@unique
class Operation(_Code):
    """What a request does with a resource. ANY is for filters, ALL for bindings."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


@unique
class Permission(_Code):
    """Whether a binding allows or denies. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(msgspec.Struct, frozen=True, order=True):
    """A rule: `principal` on `host` is allowed, or denied, `operation` on each resource of the pattern.

    Bindings are ordered by resource first, as an answer to DescribeAcls lists them.
    principal: `User:alice`, or `User:*` for each principal. host: an IP address, or `*`.
    """

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def characters(self) -> int:
        """Return the length of what can be long."""
        return len(self.resource_name) + len(self.principal)


class AclFilter(msgspec.Struct, frozen=True):
    """A filter of DescribeAcls or DeleteAcls. A field that is None or ANY matches each value.

    pattern_type ANY and a name: the patterns of exactly that name. MATCH and a name: the patterns that stand
    for the resource of that name, which are its literal, its prefixes and the wildcard (KIP-290).
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, binding: AclBinding) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, binding.resource_type)
            and self._matches_pattern(binding)
            and self.principal in (None, binding.principal)
            and self.host in (None, binding.host)
            and self.operation in (Operation.ANY, binding.operation)
            and self.permission in (Permission.ANY, binding.permission)
        )

    def _matches_pattern(self, binding: AclBinding) -> bool:
        name = self.resource_name
        if self.pattern_type is not PatternType.MATCH:
            same_type = self.pattern_type in (PatternType.ANY, binding.pattern_type)
            return same_type and name in (None, binding.resource_name)
        if name is None:
            return True
        if binding.pattern_type is PatternType.PREFIXED:
            return name.startswith(binding.resource_name)
        return binding.resource_name in (name, WILDCARD)


@unique
class Reason(StrEnum):
    """The rule that decided."""

    SUPER_USER = "super_user"
    DENY_BINDING = "deny_binding"
    ALLOW_BINDING = "allow_binding"
    #: The resource has bindings, but none for this principal, host and operation.
    NO_MATCHING_BINDING = "no_matching_binding"
    #: The resource has no binding: `allow.everyone.if.no.acl.found` decides.
    NO_BINDING = "no_binding"


class Decision(msgspec.Struct, frozen=True):
    """An answer and its reason. binding: the one that decided, for DENY_BINDING and ALLOW_BINDING."""

    allowed: bool
    reason: Reason
    binding: AclBinding | None = None
