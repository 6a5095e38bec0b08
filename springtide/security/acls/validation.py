"""The check of bindings and filters that a client or an operator sends.

Kafka's brokers accept more: a host that is not an address, a principal of another type than User, and an
operation that the resource type does not have. Such a binding never matches a request: a DENY would protect
nothing, although the operator believes that it does. Here it is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final

import msgspec

from .model import (
    CLUSTER_NAME,
    WILDCARD,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

NAME_LENGTH_MAX: Final = 1000
PRINCIPAL_LENGTH_MAX: Final = 1000
HOST_LENGTH_MAX: Final = 64
_QUOTED_LENGTH_MAX: Final = 60
_USER: Final = "User:"

_CONFIGS: Final = frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS})
OPERATIONS: Final[Mapping[ResourceType, frozenset[Operation]]] = {
    ResourceType.TOPIC: _CONFIGS
    | {Operation.READ, Operation.WRITE, Operation.CREATE}
    | {Operation.DESCRIBE, Operation.DELETE, Operation.ALTER},
    ResourceType.GROUP: _CONFIGS | {Operation.READ, Operation.DESCRIBE, Operation.DELETE},
    ResourceType.CLUSTER: _CONFIGS
    | {Operation.CREATE, Operation.DESCRIBE, Operation.ALTER}
    | {Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE},
    ResourceType.TRANSACTIONAL_ID: frozenset(
        {Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT}
    ),
    ResourceType.DELEGATION_TOKEN: frozenset({Operation.DESCRIBE}),
    ResourceType.USER: frozenset({Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS}),
}
"""The operations that a request can do with a resource of a type; a binding may also have ALL."""


class InvalidAcl(ValueError):
    """A binding, a filter or a host that can't be accepted. The text says why."""


def validate_binding(binding: AclBinding) -> AclBinding:
    """Return the binding, its host in canonical form. Raise InvalidAcl if it could match no request."""
    operations = OPERATIONS.get(binding.resource_type)
    if operations is None:
        raise InvalidAcl(f"resource type {binding.resource_type.name} is not one of a resource")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidAcl(f"pattern type {binding.pattern_type.name} is not LITERAL or PREFIXED")
    if binding.permission not in (Permission.ALLOW, Permission.DENY):
        raise InvalidAcl(f"permission {binding.permission.name} is not ALLOW or DENY")
    if binding.operation is not Operation.ALL and binding.operation not in operations:
        raise InvalidAcl(
            f"operation {binding.operation.name} is not one of resource type {binding.resource_type.name}"
        )
    _check_text("resource name", binding.resource_name, NAME_LENGTH_MAX)
    if binding.resource_type is ResourceType.CLUSTER and binding.resource_name != CLUSTER_NAME:
        raise InvalidAcl(f"the only resource of type CLUSTER is {CLUSTER_NAME}")
    _check_text("principal", binding.principal, PRINCIPAL_LENGTH_MAX)
    if not binding.principal.startswith(_USER) or binding.principal == _USER:
        raise InvalidAcl(f"principal {_quoted(binding.principal)} is not {_USER} followed by a name")
    return msgspec.structs.replace(binding, host=canonical_host(binding.host))


def validate_filter(wanted: AclFilter) -> AclFilter:
    """Return the filter, its host in canonical form. Raise InvalidAcl for UNKNOWN in it, or a bad host."""
    codes = (wanted.resource_type, wanted.pattern_type, wanted.operation, wanted.permission)
    if any(code.name == "UNKNOWN" for code in codes):
        raise InvalidAcl("a filter has an unknown resource type, pattern type, operation or permission")
    return (
        wanted if wanted.host is None else msgspec.structs.replace(wanted, host=canonical_host(wanted.host))
    )


def canonical_host(host: str) -> str:
    """Return `*`, or the shortest form of an IP address; raise InvalidAcl if the host is neither.

    Bindings and connections are compared in this form. The IPv4 address within an IPv6 one (::ffff:10.0.0.1)
    becomes that of IPv4, and the zone of a link-local address is left out: it has a meaning on one machine.
    """
    if host == WILDCARD:
        return host
    _check_text("host", host, HOST_LENGTH_MAX)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise InvalidAcl(f"host {_quoted(host)} is not an IP address or {WILDCARD}") from None
    return str(getattr(address, "ipv4_mapped", None) or address).partition("%")[0]


def host_of_peer(peer: str) -> str:
    """Return a connection's address as bindings and quotas have it. What is no address matches the bindings
    for each host alone."""
    try:
        return canonical_host(peer)
    except InvalidAcl:
        return peer


def _check_text(field: str, text: str, length_max: int) -> None:
    if not text:
        raise InvalidAcl(f"the {field} is empty")
    if len(text) > length_max:
        raise InvalidAcl(f"the {field} has {len(text)} characters, more than {length_max}")
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
        raise InvalidAcl(f"the {field} has a character that no client can send: NUL, or half of a pair")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED_LENGTH_MAX else f"{text[:_QUOTED_LENGTH_MAX]}...")
