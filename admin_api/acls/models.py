"""The REST models of ACLs: Kafka's bindings and filters, with Kafka's words in small letters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from admin_api.http.models import NoSpaceAround, Reason, RequestBody, View, ViewList
from springtide.security.acls.model import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from springtide.security.acls.validation import HOST_LENGTH_MAX, NAME_LENGTH_MAX, PRINCIPAL_LENGTH_MAX

BINDINGS_PER_REQUEST_MAX = 1_000

ResourceTypeName = Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user"]
PatternTypeName = Literal["literal", "prefixed"]
PatternFilter = Literal["literal", "prefixed", "match", "any"]
AskedOperation = Literal[
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
]
OperationName = Literal["all"] | AskedOperation
PermissionName = Literal["allow", "deny"]

ResourceName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=NAME_LENGTH_MAX),
    Field(description="of the resource, `kafka-cluster` for the cluster", examples=["payments"]),
]
PrincipalName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=PRINCIPAL_LENGTH_MAX),
    Field(description="`User:` and a name; `User:*`: each user", examples=["User:alice"]),
]
HostName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=HOST_LENGTH_MAX),
    Field(description="the client's IP address; `*`: each", examples=["10.0.0.7"]),
]


def _check_user(principal: str) -> str:
    kind, _, name = principal.partition(":")
    if (kind, name) != (kind.strip(), name.strip()):
        raise ValueError("must not have a space beside the colon")
    return principal


class BindingBody(RequestBody):
    """A rule: the principal, from the host, is allowed or denied the operation on resources."""

    resource_type: ResourceTypeName
    resource_name: Annotated[ResourceName, NoSpaceAround]
    pattern_type: PatternTypeName = Field(
        default="literal",
        description="`literal`: the resource of this name, or each where it is `*`; `prefixed`: each whose "
        "name begins so",
    )
    principal: Annotated[PrincipalName, NoSpaceAround, AfterValidator(_check_user)]
    host: Annotated[HostName, NoSpaceAround] = "*"
    operation: OperationName
    permission: PermissionName = "allow"

    def binding(self) -> AclBinding:
        """Return the binding, not yet checked."""
        return AclBinding(
            ResourceType[self.resource_type.upper()],
            self.resource_name,
            PatternType[self.pattern_type.upper()],
            self.principal,
            self.host,
            Operation[self.operation.upper()],
            Permission[self.permission.upper()],
        )


class AddAcls(RequestBody):
    """Bindings to add. All are added, or none; one that is there already stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "bindings": [
                        {
                            "resource_type": "topic",
                            "resource_name": "payments",
                            "pattern_type": "prefixed",
                            "principal": "User:billing",
                            "operation": "read",
                        },
                        {
                            "resource_type": "group",
                            "resource_name": "billing",
                            "principal": "User:billing",
                            "operation": "read",
                        },
                    ],
                    "reason": "the new billing service",
                }
            ]
        }
    )

    bindings: Annotated[list[BindingBody], Field(min_length=1, max_length=BINDINGS_PER_REQUEST_MAX)]
    reason: Reason | None = None


class RemoveAcls(RequestBody):
    """A filter. Each binding that it matches is removed; a field that is left out matches each value."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"principal": "User:billing", "reason": "the service is gone"}]}
    )

    resource_type: ResourceTypeName | None = None
    resource_name: ResourceName | None = None
    pattern_type: PatternFilter = Field(
        default="any",
        description="`match`: patterns that stand for the resource of this name, `*` and prefixes included",
    )
    principal: PrincipalName | None = None
    host: HostName | None = None
    operation: OperationName | None = None
    permission: PermissionName | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _says_something(self) -> RemoveAcls:
        named = (self.resource_type, self.resource_name, self.principal, self.host, self.operation)
        if self.permission is None and all(field is None for field in named):
            raise ValueError("this would remove each binding: name a field that they have in common")
        return self

    def filter(self) -> AclFilter:
        return filter_of(**self.model_dump(exclude={"reason"}))


def filter_of(
    *,
    resource_type: str | None,
    resource_name: str | None,
    pattern_type: str,
    principal: str | None,
    host: str | None,
    operation: str | None,
    permission: str | None,
) -> AclFilter:
    """Return the filter, not yet checked. None matches each value."""
    return AclFilter(
        resource_type=ResourceType[(resource_type or "any").upper()],
        resource_name=resource_name,
        pattern_type=PatternType[pattern_type.upper()],
        principal=principal,
        host=host,
        operation=Operation[(operation or "any").upper()],
        permission=Permission[(permission or "any").upper()],
    )


class BindingView(View):
    """A rule: the principal, from the host, is allowed or denied the operation on resources."""

    resource_type: str = Field(examples=["topic"])
    resource_name: str = Field(examples=["payments"])
    pattern_type: str = Field(description="`literal` or `prefixed`", examples=["prefixed"])
    principal: str = Field(examples=["User:billing"])
    host: str = Field(examples=["*"])
    operation: str = Field(examples=["read"])
    permission: str = Field(description="`allow` or `deny`", examples=["allow"])


class BindingList(ViewList[BindingView]): ...


class AddedBinding(BindingView):
    """A binding as it is stored."""

    is_new: bool = Field(description="whether it was not there before")


class AddedAcls(View):
    """The bindings, in the request's order, as they are now; of a dry run, as they would be."""

    items: list[AddedBinding]


class RemovedAcls(View):
    """The bindings that are gone; of a dry run, that would be."""

    items: list[BindingView]


class RightView(View):
    operation: str = Field(examples=["create"])
    resource_type: str = Field(
        description="`topic`, `group`, `cluster`; `access`: ACLs and users; `protection`: what may lose "
        "records, and what guards them",
        examples=["topic"],
    )
    resource_name: str = Field(examples=["orders"])


class RestView(View):
    """What the same principal may do over REST, and why."""

    request: str | None = Field(description="that was asked about", examples=["POST /clusters/prod/topics"])
    needs: RightView
    allowed: bool = Field(description="whether the controller allows it now")
    role: str | None = Field(
        description="the highest role of its tokens and certificates in the tokens file; null: it has none "
        "there, and a token of an OpenID issuer brings its role along"
    )
    roles: list[str] = Field(description="which give that right, the least one first")
    given_by_role: bool
    given_by_acls: bool = Field(
        description="by a binding or `super.users`, once an authorizer is set; not by a default"
    )
    words: str


class Explanation(View):
    """What a client may do, and why."""

    allowed: bool = Field(description="whether a broker allows it now; of a `request`, the controller")
    authorizer: bool = Field(
        description="whether ACLs decide: the cluster's setting `authorizer.class.name` is not empty"
    )
    allowed_by_acls: bool = Field(description="what the ACLs say, also while no authorizer asks them")
    reason: str = Field(
        description="the rule that decided: `super_user`, `deny_binding`, `allow_binding`, "
        "`no_matching_binding` (the resource has bindings, none of them for this client) or `no_binding`",
        examples=["deny_binding"],
    )
    words: str = Field(
        examples=["User:alice may not read topic 'payments': a binding denies it to each user at each host"]
    )
    binding: BindingView | None = Field(description="the one that decided")
    remove: list[BindingView] = Field(
        description="what would have to go before it is allowed: up to a hundred bindings that deny it"
    )
    add: BindingView | None = Field(
        description="what would have to be there, too: the narrowest binding that allows it"
    )
    rest: RestView | None = Field(
        default=None, description="the same over REST; null for what no request there is about"
    )


def binding_view(binding: AclBinding) -> BindingView:
    return BindingView(**_shown(binding))


def added_view(binding: AclBinding, *, is_new: bool) -> AddedBinding:
    return AddedBinding(**_shown(binding), is_new=is_new)


def _shown(binding: AclBinding) -> dict[str, str]:
    return {
        "resource_type": binding.resource_type.name.lower(),
        "resource_name": binding.resource_name,
        "pattern_type": binding.pattern_type.name.lower(),
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation.name.lower(),
        "permission": binding.permission.name.lower(),
    }
