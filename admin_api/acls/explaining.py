"""Why a client may or may not do something: the decision of the ACLs in words, and what would change it.

What its role gives over REST, and what a request there needs, is told by `over_rest`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admin_api.acls.models import Explanation, binding_view
from controller.face.cluster import acls_about
from springtide.contract.security import AclsOfPattern, PatternKey
from springtide.security.acls.model import (
    ANY_USER,
    WILDCARD,
    AclBinding,
    Decision,
    Operation,
    PatternType,
    Permission,
    Reason,
    ResourceType,
)
from springtide.security.acls.table import Acls

DENYING_SHOWN_MAX: Final = 100


def explain(
    acls: Mapping[PatternKey, AclsOfPattern],
    configs: Mapping[str, str],
    asked: AclBinding,
    *,
    is_authorizer_on: bool,
) -> Explanation:
    """Return the explanation for a client that asks for what the binding `asked` would allow."""
    table = acls_about(acls, configs, asked.resource_type, asked.resource_name)
    decision = _decide(table, asked)
    denying: list[AclBinding] = []
    add: AclBinding | None = None
    if not decision.allowed:
        denying = [binding for binding in table.bindings if _denies(binding, asked)]
        if not _decide(table.changed(version=1, removed=denying), asked).allowed:
            add = asked
    return Explanation(
        allowed=decision.allowed or not is_authorizer_on,
        authorizer=is_authorizer_on,
        allowed_by_acls=decision.allowed,
        reason=decision.reason.value,
        words=_words(asked, decision),
        binding=None if decision.binding is None else binding_view(decision.binding),
        remove=[binding_view(binding) for binding in denying[:DENYING_SHOWN_MAX]],
        add=None if add is None else binding_view(add),
    )


def _decide(table: Acls, asked: AclBinding) -> Decision:
    return table.decide(
        asked.principal, asked.host, asked.resource_type, asked.resource_name, asked.operation
    )


def _denies(binding: AclBinding, asked: AclBinding) -> bool:
    return (
        binding.permission is Permission.DENY
        and binding.principal in (asked.principal, ANY_USER)
        and binding.host in (asked.host, WILDCARD)
        and binding.operation in (asked.operation, Operation.ALL)
    )


def _words(asked: AclBinding, decision: Decision) -> str:
    where = "each host" if asked.host == WILDCARD else asked.host
    verb = "may" if decision.allowed else "may not"
    resource = f"{_named(asked.resource_type)} {asked.resource_name!r}"
    done = f"{asked.principal} from {where} {verb} {_named(asked.operation)} {resource}"
    match decision.reason:
        case Reason.SUPER_USER:
            because = "it is a super user of the cluster"
        case Reason.NO_BINDING:
            setting = "allow.everyone.if.no.acl.found"
            because = f"the resource has no binding, and {setting} is {str(decision.allowed).lower()}"
        case Reason.NO_MATCHING_BINDING:
            because = "the resource has bindings, and none of them is for this client and operation"
        case _:
            assert decision.binding is not None
            because = _binding_words(decision.binding)
    return f"{done}: {because}"


def _binding_words(binding: AclBinding) -> str:
    permits = "allows" if binding.permission is Permission.ALLOW else "denies"
    who = "each user" if binding.principal == ANY_USER else binding.principal
    where = "each host" if binding.host == WILDCARD else binding.host
    what = "everything" if binding.operation is Operation.ALL else _named(binding.operation)
    kind = _named(binding.resource_type)
    if binding.pattern_type is PatternType.PREFIXED:
        on = f"each {kind} whose name begins with {binding.resource_name!r}"
    else:
        on = f"each {kind}" if binding.resource_name == WILDCARD else f"{kind} {binding.resource_name!r}"
    return f"a binding {permits} {who} from {where} {what} on {on}"


def _named(code: ResourceType | Operation) -> str:
    return code.name.lower().replace("_", " ")
