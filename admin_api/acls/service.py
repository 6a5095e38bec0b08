"""Listing, adding, removing and explaining ACLs. REST and Kafka's calls both come here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from admin_api.acls.explaining import explain
from admin_api.acls.models import (
    AddAcls,
    AddedAcls,
    BindingBody,
    BindingView,
    Explanation,
    RemoveAcls,
    RemovedAcls,
    added_view,
    binding_view,
)
from admin_api.acls.over_rest import AskedRequest, over_rest, right_about
from admin_api.http.all_or_none import Part, submit_whole
from admin_api.http.answers import Answer
from admin_api.http.paging import Paging
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.http.rights import RESOURCE_TYPES, Area, Right
from admin_api.http.services import Services
from admin_api.http.tokens import Tokens
from admin_api.http.writes import Attempt
from controller.face.cluster import ClusterImage
from controller.face.commands import AclsAltered, AlterAcls
from springtide.contract.security import ALLOW_EVERYONE, AclsOfPattern, PatternKey, is_authorizer_on
from springtide.security.acls.model import AclBinding, AclFilter, PatternType, Permission, ResourceType
from springtide.security.acls.validation import InvalidAcl, validate_binding, validate_filter

#: How much of a resource's name is in a page's token.
_ORDER_CHARS = 40
_Place = tuple[int, str, str]


def listed(image: ClusterImage, wanted: AclFilter, paging: Paging) -> tuple[list[BindingView], str | None]:
    """Return a page of the bindings that the filter matches, and the next page's token. Bindings are ordered
    by the type and the beginning of the name of their resource, which is all that a token has room for."""
    last = paging.after("acls", int, str, str)
    found: list[tuple[_Place, AclBinding]] = []
    patterns = sorted((_beginning(key), key) for key in image.acls)
    for beginning, group in groupby(patterns, key=lambda pattern: pattern[0]):
        if len(found) > paging.limit:
            break
        if last is None or beginning >= last[:2]:
            placed = (item for _, key in group for item in _placed(beginning, image.acls[key], wanted))
            found += sorted(item for item in placed if last is None or item[0] > last)
    page, token = paging.cut(found, lambda item: ["acls", *item[0]])
    return [binding_view(binding) for _, binding in page], token


def _beginning(key: PatternKey) -> tuple[int, str]:
    resource_type, name, _ = key
    return int(resource_type), name[:_ORDER_CHARS]


def _placed(
    beginning: tuple[int, str], acls: AclsOfPattern, wanted: AclFilter
) -> Iterator[tuple[_Place, AclBinding]]:
    for binding in acls.bindings:
        if wanted.matches(binding):
            digest = hashlib.sha256(msgspec.json.encode(binding)).hexdigest()
            yield (*beginning, digest[:32]), binding


def checked_filter(wanted: AclFilter) -> AclFilter:
    """Return the filter, its host in canonical form. Raise invalid_acl."""
    try:
        return validate_filter(wanted)
    except InvalidAcl as error:
        field = FieldProblem(parameter="host", message=str(error))
        raise ProblemError("invalid_acl", str(error), errors=(field,)) from None


async def add_acls(services: Services, cluster: str, body: AddAcls, attempt: Attempt) -> Answer:
    """Add the bindings and answer 200 with them, each as it is stored."""
    event = AlterAcls(**attempt.event, added=tuple(one.binding() for one in body.bindings))

    def parts(done: AclsAltered) -> Iterator[Part]:
        return ((f"/bindings/{place}", one.refusal) for place, one in enumerate(done.added))

    done = await submit_whole(services.engine, cluster, event, AclsAltered, parts)
    items = [added_view(one.binding, is_new=one.is_new) for one in done.added]
    return Answer.of(200, AddedAcls(items=items))


async def remove_acls(services: Services, cluster: str, body: RemoveAcls, attempt: Attempt) -> Answer:
    """Remove what the filter matches and answer 200 with it."""
    event = AlterAcls(**attempt.event, removed=(body.filter(),))

    def parts(done: AclsAltered) -> Iterator[Part]:
        return (("/host", one.refusal) for one in done.removed)

    done = await submit_whole(services.engine, cluster, event, AclsAltered, parts)
    items = [binding_view(binding) for one in done.removed for binding in one.bindings]
    return Answer.of(200, RemovedAcls(items=items))


def explanation(
    image: ClusterImage, asked: AclBinding, *, tokens: Tokens | None, request: AskedRequest | None = None
) -> Explanation:
    """Return why the client may, or may not, do what the binding would allow, or send a request over REST.
    Raise invalid_acl if no client can ask for that."""
    try:
        asked = validate_binding(asked)
    except InvalidAcl as error:
        raise ProblemError("invalid_acl", str(error)) from None
    is_on = is_authorizer_on(image.configs)
    if request is None:
        right = right_about(asked)
        rest = None if right is None else over_rest(image, asked, right, tokens=tokens)
        told = explain(image.acls, image.configs, asked, is_authorizer_on=is_on)
        return told.model_copy(update={"rest": rest})
    rest = over_rest(image, asked, request.right, tokens=tokens, request=request)
    # Over REST a default gives nothing: a binding would have to be there.
    named = {name: value for name, value in image.configs.items() if name != ALLOW_EVERYONE}
    told = explain(image.acls, named, asked, is_authorizer_on=is_on)
    of_request: dict[str, Any] = {"rest": rest, "allowed": rest.allowed, "words": rest.words}
    if rest.allowed or request.right.area is Area.PROTECTION:
        of_request |= {"remove": [], "add": None}
    return told.model_copy(update=of_request)


def asked_binding(principal: str, host: str, named: Mapping[str, str | None]) -> AclBinding:
    """Return the binding that would allow what is asked about. Raise invalid_request if a part is missing."""
    errors = tuple(
        FieldProblem(parameter=name, message="is needed where no request is named")
        for name, value in named.items()
        if value is None
    )
    if errors:
        raise ProblemError("invalid_request", f"{errors[0].parameter} {errors[0].message}", errors=errors)
    return BindingBody.model_validate({"principal": principal, "host": host, **named}).binding()


def binding_of(principal: str, host: str, right: Right) -> AclBinding:
    """Return the binding that would give the right."""
    return AclBinding(
        RESOURCE_TYPES.get(right.area, ResourceType.CLUSTER),
        right.resource_name,
        PatternType.LITERAL,
        principal,
        host,
        right.operation,
        Permission.ALLOW,
    )
