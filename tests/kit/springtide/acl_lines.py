"""ACLs, written and read in a line each, so that tests can state many."""

from __future__ import annotations

from collections.abc import Iterable

from springtide.security.acls.model import (
    AclBinding,
    Decision,
    Operation,
    PatternType,
    Permission,
    Reason,
    ResourceType,
)
from springtide.security.acls.table import Acls

MARKS = {
    (True, Reason.SUPER_USER): "S",
    (True, Reason.ALLOW_BINDING): "+",
    (False, Reason.DENY_BINDING): "-",
    (False, Reason.NO_MATCHING_BINDING): ".",
    (False, Reason.NO_BINDING): "o",
    (True, Reason.NO_BINDING): "O",
}
"""A decision as a letter. `o` and `O`: the resource has no binding."""


def acl(line: str) -> AclBinding:
    """Return the binding of a line such as `ALLOW alice@10.0.0.1 READ TOPIC pay~`. `~` ends a prefix."""
    permission, who, operation, resource_type, name = line.split(" ")
    principal, _, host = who.partition("@")
    return AclBinding(
        ResourceType[resource_type],
        name.removesuffix("~"),
        PatternType.PREFIXED if name.endswith("~") else PatternType.LITERAL,
        f"User:{principal}",
        host,
        Operation[operation],
        Permission[permission],
    )


def acls(
    *lines: str, version: int = 1, super_users: Iterable[str] = (), open_by_default: bool = False
) -> Acls:
    return Acls(
        (acl(line) for line in lines),
        version=version,
        super_users=frozenset(super_users),
        allow_everyone_if_no_acl_found=open_by_default,
    )


def ask(table: Acls, question: str) -> Decision:
    """Return the answer to a question such as `alice@::1 READ TOPIC pay`. Without a name: for any topic."""
    who, operation, resource_type, *name = question.split(" ")
    client = who.partition("@")
    principal, host = f"User:{client[0]}", client[2]
    if not name:
        return table.decide_any(principal, host, ResourceType[resource_type], Operation[operation])
    return table.decide(principal, host, ResourceType[resource_type], name[0], Operation[operation])


def mark(table: Acls, question: str) -> str:
    decision = ask(table, question)
    return MARKS[decision.allowed, decision.reason]
