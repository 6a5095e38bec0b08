"""The check of a caller's rights, in front of every route of the API.

A request needs the right that the table of `rights` has for it. The caller's role gives it, or, once an
authorizer decides for the cluster that the path names, the cluster's ACLs do, for `User:` and the caller's
name: the principal that a client of that name is over Kafka's protocol. Only a binding or `super.users`
counts here; `allow.everyone.if.no.acl.found` opens nothing. A denial takes nothing from a role.

The records of a topic are not behind roles: who looks at them needs what a Kafka client of that name and
address needs, by the same decision. Where no tokens are used, that is the client without a name.
"""

from __future__ import annotations

import logging
from typing import Final

from fastapi import Request

from admin_api.http.gate import PRINCIPAL_SCOPE_KEY, check_writable, insufficient_scope, is_write
from admin_api.http.problems import ProblemError
from admin_api.http.rights import (
    ASKED_AGAIN,
    READS_RECORDS,
    RESOURCE_TYPES,
    Area,
    Right,
    gives,
    right_of,
    roles_that_give,
)
from admin_api.http.tokens import Principal, Role
from admin_api.settings import ApiSettings
from controller.face.cluster import ClusterImage, Engine, acls_about
from controller.face.commands import UnknownCluster
from springtide.contract.security import is_authorizer_on
from springtide.security.acls.model import ANONYMOUS, CLUSTER_NAME, Decision, Operation, Reason, ResourceType
from springtide.security.acls.validation import InvalidAcl, canonical_host

_log = logging.getLogger(__name__)

#: Reasons that name the principal, or each user, as allowed.
_BY_NAME: Final = frozenset({Reason.ALLOW_BINDING, Reason.SUPER_USER})


def check_request(request: Request, operation_id: str) -> None:
    """Raise forbidden unless the caller may send the request; raise read_only for a write if the controller
    is. Without tokens each client may send any request."""
    principal: Principal | None = request.scope.get(PRINCIPAL_SCOPE_KEY)
    settings: ApiSettings = request.app.state.settings
    if principal is not None and operation_id != READS_RECORDS:
        right = right_of(operation_id, request.path_params)
        if request.method not in ("GET", "HEAD") and not is_write(request.scope):
            right = right.tried
        cluster = request.path_params.get("cluster")
        is_asked_again = operation_id in ASKED_AGAIN and right.operation is not Operation.DESCRIBE
        if not (is_asked_again and _decides(request, cluster)):
            check_right(request, principal, right, cluster)
    check_writable(request.scope, settings)


def check_right(request: Request, principal: Principal, right: Right, cluster: str | None = None) -> None:
    """Raise forbidden unless the caller's role, or an ACL of the cluster, gives the right. cluster: None
    where ACLs don't count."""
    if gives(principal.role, right):
        return
    image = _image(request, cluster)
    if image is not None and principal.role is not Role.BROKER:
        decided = decision(image, f"User:{principal.name}", _host_of(request), right)
        if decided is not None and counts(decided):
            return
    raise refusal(principal, right, has_acls=image is not None and is_authorizer_on(image.configs))


def check_reading(request: Request, cluster: str, topic: str) -> None:
    """Raise forbidden unless a Kafka client with the caller's name and address could read the topic."""
    principal: Principal | None = request.scope.get(PRINCIPAL_SCOPE_KEY)
    name = ANONYMOUS if principal is None else f"User:{principal.name}"
    right = Right(Area.TOPIC, Operation.READ, topic)
    image = _image(request, cluster)
    if image is not None and not may_read(image, name, _host_of(request), right):
        _log.warning("forbidden name=%s right=%s", name, right.words)
        raise ProblemError(
            "forbidden",
            f"this needs {right.words}, which the cluster's ACLs do not give {name}; no role gives it",
            facts={
                "principal": name,
                "operation": right.operation.name.lower(),
                "resource_type": right.area.value,
                "resource_name": right.resource_name,
            },
            headers=insufficient_scope(),
        )


def may_read(image: ClusterImage, principal: str, host: str | None, right: Right) -> bool:
    """Return whether brokers would let a client read the topic: each client, without an authorizer."""
    if not is_authorizer_on(image.configs):
        return True
    decided = decision(image, principal, host, right)
    return decided is not None and decided.allowed


def counts(decided: Decision) -> bool:
    """Return whether the decision of ACLs gives a right over REST."""
    return decided.allowed and decided.reason in _BY_NAME


def decision(image: ClusterImage, principal: str, host: str | None, right: Right) -> Decision | None:
    """Return what the cluster's ACLs decide about the right; None where no ACL can give it, or no authorizer
    is set. To create a topic is allowed by CREATE on the cluster, too, as in Kafka."""
    if host is None or right.area is Area.PROTECTION or not is_authorizer_on(image.configs):
        return None
    asked = [(RESOURCE_TYPES[right.area], right.resource_name)]
    if right.area is Area.TOPIC and right.operation is Operation.CREATE:
        asked.append((ResourceType.CLUSTER, CLUSTER_NAME))
    decisions = [
        acls_about(image.acls, image.configs, resource_type, name).decide(
            principal, host, resource_type, name, right.operation
        )
        for resource_type, name in asked
    ]
    return next((one for one in decisions if counts(one)), decisions[0])


def refusal(principal: Principal, right: Right, *, has_acls: bool) -> ProblemError:
    """Return forbidden, with the operation and the resource that were missing, and log it."""
    roles = roles_that_give(right)
    needed, role = roles[0].value, principal.role.value
    _log.warning(
        "forbidden name=%s role=%s needed=%s right=%s",
        principal.name,
        role,
        needed,
        right.words,
    )
    acls = ", and no ACL does" if has_acls and right.area in RESOURCE_TYPES else ""
    facts = {
        "role": role,
        "needed": needed,
        "operation": right.operation.name.lower(),
        "resource_type": right.area.value,
        "resource_name": right.resource_name,
    }
    return ProblemError(
        "forbidden",
        f"this needs {right.words}, which the role {principal.role} of {principal.name} does not give{acls}; "
        f"the role {needed} does",
        facts=facts,
        headers=insufficient_scope(),
    )


def _decides(request: Request, cluster: str | None) -> bool:
    image = _image(request, cluster)
    return image is not None and is_authorizer_on(image.configs)


def _image(request: Request, cluster: str | None) -> ClusterImage | None:
    engine: Engine = request.app.state.services.engine
    try:
        return None if cluster is None else engine.cluster(cluster).image
    except UnknownCluster:
        return None


def _host_of(request: Request) -> str | None:
    """Return the caller's address as ACLs have it, or None for a caller without one."""
    try:
        return None if request.client is None else canonical_host(request.client.host)
    except InvalidAcl:
        return None
