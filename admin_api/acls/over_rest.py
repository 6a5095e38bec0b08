"""What a principal may do over REST, and why: what a request needs, and what its role and its ACLs give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match

from admin_api.acls.models import RestView, RightView
from admin_api.http.gate import is_write
from admin_api.http.guard import counts, decision, may_read
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.rights import NEEDS, RESOURCE_TYPES, Area, Right, gives, right_of, roles_that_give
from admin_api.http.tokens import Role, Tokens
from controller.face.cluster import ClusterImage
from springtide.contract.security import is_authorizer_on
from springtide.security.acls.model import ANONYMOUS, WILDCARD, AclBinding, Operation, ResourceType

REQUEST_CHARS_MAX: Final = 2_000
_USER: Final = "User:"
_AREAS: Final = {
    ResourceType.TOPIC: Area.TOPIC,
    ResourceType.GROUP: Area.GROUP,
    ResourceType.CLUSTER: Area.CLUSTER,
}


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request over REST that is asked about. words: its method and address. cluster: the one in its path,
    whose ACLs count."""

    words: str
    right: Right
    cluster: str | None


def refuse_together(**given: str | None) -> None:
    """Raise invalid_request if a parameter is given beside `request`, which says all of it."""
    errors = tuple(
        FieldProblem(parameter=name, message="can't be given beside a request")
        for name, value in given.items()
        if value is not None
    )
    if errors:
        raise ProblemError("invalid_request", f"{errors[0].parameter} {errors[0].message}", errors=errors)


def find_request(routes: Iterable[BaseRoute], text: str, cluster: str, name: str | None) -> AskedRequest:
    """Return the request that a text such as `POST /clusters/prod/topics` stands for. name: of the topic that
    its body would name. Raise invalid_request for what no route answers, or for another cluster."""
    method, _, address = text.strip().partition(" ")
    path, _, query = address.strip().partition("?")
    scope = {"type": "http", "method": method.upper(), "path": unquote(path), "query_string": query.encode()}
    for route in routes:
        match, matched = route.matches(scope)
        operation_id = route.operation_id if isinstance(route, APIRoute) else None
        if match is Match.FULL and operation_id is not None and operation_id in NEEDS:
            params = matched["path_params"]
            if params.get("cluster", cluster) != cluster:
                break
            right = right_of(operation_id, params)
            if right.area is Area.TOPIC and right.name == WILDCARD:
                right = Right(right.area, right.operation, name or WILDCARD)
            if scope["method"] != "GET" and not is_write(scope):
                right = right.tried
            return AskedRequest(f"{scope['method']} {address.strip()}", right, params.get("cluster"))
    message = f"is no request of this API about {cluster!r}, such as POST /clusters/{cluster}/topics"
    field = FieldProblem(parameter="request", message=message)
    raise ProblemError("invalid_request", f"request {message}", errors=(field,))


def right_about(asked: AclBinding) -> Right | None:
    """Return the right over REST for what a client asks a broker for; None for what REST does not have."""
    area = _AREAS.get(asked.resource_type)
    return None if area is None else Right(area, asked.operation, asked.resource_name)


def over_rest(
    image: ClusterImage,
    asked: AclBinding,
    right: Right,
    *,
    tokens: Tokens | None,
    request: AskedRequest | None = None,
) -> RestView:
    """Return what the role and the ACLs of a principal give. asked: names it and its host. tokens: None if
    each client may do everything."""
    if right.area is Area.TOPIC and right.operation is Operation.READ:
        return _of_reading(image, asked, right, tokens=tokens, request=request)
    principal = asked.principal
    role = None if tokens is None else tokens.role_of(principal.removeprefix(_USER))
    by_role = role is not None and gives(role, right)
    has_cluster = request is None or request.cluster is not None
    decided = decision(image, principal, asked.host, right) if has_cluster else None
    by_acls = decided is not None and counts(decided)
    allowed = tokens is None or by_role or by_acls
    what = "do this over REST" if request is None else request.words
    because = (
        "this controller takes no tokens, and each client that reaches it may do everything"
        if tokens is None
        else f"{_role_words(role, right)}; "
        + _acl_words(image, right, has_cluster=has_cluster, by_acls=by_acls)
    )
    return RestView(
        request=None if request is None else request.words,
        needs=_needs(right),
        allowed=allowed,
        role=role,
        roles=[one.value for one in roles_that_give(right)],
        given_by_role=by_role,
        given_by_acls=by_acls,
        words=f"{principal} {'may' if allowed else 'may not'} {what}, which needs {right.words}: {because}",
    )


def _of_reading(
    image: ClusterImage,
    asked: AclBinding,
    right: Right,
    *,
    tokens: Tokens | None,
    request: AskedRequest | None,
) -> RestView:
    """Return what the cluster's ACLs alone decide: to look at records is no role's."""
    principal = asked.principal if tokens is not None else ANONYMOUS
    allowed = may_read(image, principal, asked.host, right)
    because = (
        ("its ACLs give it" if allowed else "its ACLs do not give it, and no role does")
        if is_authorizer_on(image.configs)
        else "the cluster has no authorizer, and each client may read its records"
    )
    nameless = "" if tokens is not None else f"; without tokens each caller is {ANONYMOUS} to ACLs"
    what = "do this over REST" if request is None else request.words
    return RestView(
        request=None if request is None else request.words,
        needs=_needs(right),
        allowed=allowed,
        role=None if tokens is None else tokens.role_of(asked.principal.removeprefix(_USER)),
        roles=[],
        given_by_role=False,
        given_by_acls=allowed and is_authorizer_on(image.configs),
        words=f"{asked.principal} {'may' if allowed else 'may not'} {what}, which needs {right.words}: "
        f"{because}{nameless}",
    )


def _needs(right: Right) -> RightView:
    return RightView(
        operation=right.operation.name.lower(),
        resource_type=right.area.value,
        resource_name=right.resource_name,
    )


def _role_words(role: Role | None, right: Right) -> str:
    roles = roles_that_give(right)
    if role is None:
        giver = f"the role {roles[0]} would give it" if roles else "no role gives it"
        return f"the controller's tokens file does not name it, and {giver}"
    if role in roles:
        return f"its role {role} gives it"
    return f"its role {role} does not give it, " + (
        f"the role {roles[0]} does" if roles else "and no role does"
    )


def _acl_words(image: ClusterImage, right: Right, *, has_cluster: bool, by_acls: bool) -> str:
    if right.area not in RESOURCE_TYPES:
        return "no ACL can give it"
    if not has_cluster:
        return "ACLs do not count, since its path names no cluster"
    if not is_authorizer_on(image.configs):
        return "ACLs do not count, since the cluster has no authorizer"
    return "its ACLs give it" if by_acls else "its ACLs do not give it"
