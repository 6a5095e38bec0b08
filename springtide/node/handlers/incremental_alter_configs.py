"""IncrementalAlterConfigs: settings of topics, brokers, groups and the cluster, to the controller (KIP-339).

What is appended to a list, or subtracted from it, the controller applies to the value that it knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from springtide.contract.administration import (
    AdminOutcome,
    AlterConfigsCall,
    ConfigsToAlter,
    ListChange,
    ResourceKind,
)
from springtide.node.handlers.administer import administer, code_of, denial, message_of, refusals
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import CLUSTER_NAME, Operation, ResourceType
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsAlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

KINDS = {2: ResourceKind.TOPIC, 4: ResourceKind.BROKER, 32: ResourceKind.GROUP}
"""Kafka's resource types that have settings here."""
SET, DELETE, APPEND, SUBTRACT = range(4)
Changes = Mapping[str, str | ListChange | None]


class NamedSetting(Protocol):
    """A setting of a resource in a message."""

    @property
    def name(self) -> str: ...


class NamedResource(Protocol):
    """A resource in a message about settings."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


class ChangedResource(NamedResource, Protocol):
    """A resource whose settings are to be changed."""

    @property
    def configs(self) -> Sequence[NamedSetting]: ...


R = TypeVar("R", bound=ChangedResource)


def handle(context: NodeContext, request: Request, message: IncrementalAlterConfigsRequest) -> None:
    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        responses = tuple(
            IncrementalAlterConfigsAlterConfigsResourceResponse(
                error_code=code_of(outcome),
                error_message=message_of(outcome),
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, outcome in zip(message.resources, outcomes, strict=True)
        )
        request.reply(IncrementalAlterConfigsResponse(responses=responses))

    alter(
        context,
        request,
        message.resources,
        refusal_of=_refusal,
        configs_of=_configs,
        validate_only=message.validate_only,
        answer=answer,
    )


def alter(
    context: NodeContext,
    request: Request,
    resources: Sequence[R],
    *,
    refusal_of: Callable[[R], AdminOutcome | None],
    configs_of: Callable[[R], Changes],
    validate_only: bool,
    answer: Callable[[Sequence[AdminOutcome]], None],
    replaces: bool = False,
) -> None:
    """Send what can be asked of the controller, and answer for all resources of the request. replaces: what a
    resource does not name is unset."""
    times = Counter((one.resource_type, one.resource_name) for one in resources)

    def refusal(resource: R) -> AdminOutcome | None:
        if times[resource.resource_type, resource.resource_name] > 1:  # as Kafka: each of them
            return invalid("Each resource must appear at most once.")
        return denial_of_resource(request, Operation.ALTER_CONFIGS, resource) or refusal_of(resource)

    refused = refusals(resources, refusal)
    call = AlterConfigsCall(
        resources=tuple(
            ConfigsToAlter(
                kind=KINDS[one.resource_type],
                name=one.resource_name,
                configs=dict(configs_of(one)),
                replaces=replaces,
            )
            for place, one in enumerate(resources)
            if place not in refused
        ),
        validate_only=validate_only,
    )
    administer(context, request, call, named=len(call.resources), answer=answer, refused=refused)


def _configs(resource: IncrementalAlterConfigsAlterConfigsResource) -> Changes:
    return {config.name: _change(config) for config in resource.configs}


def _change(config: IncrementalAlterConfigsAlterableConfig) -> str | ListChange | None:
    operation = config.config_operation
    if operation == SET:
        return config.value
    if operation == DELETE or config.value is None:
        return None
    items = tuple(item.strip() for item in config.value.split(","))
    return ListChange(append=items) if operation == APPEND else ListChange(subtract=items)


def _refusal(resource: IncrementalAlterConfigsAlterConfigsResource) -> AdminOutcome | None:
    refused = refusal_of_resource(resource)
    if refused is not None:
        return refused
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE, APPEND, SUBTRACT):
            return invalid(f"{config.name}: unknown operation {config.config_operation}")
        if config.config_operation != DELETE and config.value is None:
            return invalid(f"{config.name} can't be changed by null: delete it")
    return None


def refusal_of_resource(resource: ChangedResource) -> AdminOutcome | None:
    """Return the outcome for a resource that has no settings, or one whose settings are named twice."""
    names = [config.name for config in resource.configs]
    if resource.resource_type not in KINDS:
        return invalid(f"resources of type {resource.resource_type} have no settings here")
    if len(set(names)) < len(names):
        return invalid("a setting is named twice")
    return None


def denial_of_resource(
    request: Request, operation: Operation, resource: NamedResource
) -> AdminOutcome | None:
    """Return the outcome for a client that may not do this with a resource's settings, None if it may, or if
    the resource has none. Brokers' settings are the cluster's."""
    kind = KINDS.get(resource.resource_type)
    if kind is ResourceKind.TOPIC:
        return denial(request, operation, ResourceType.TOPIC, resource.resource_name)
    if kind is ResourceKind.BROKER:
        return denial(request, operation, ResourceType.CLUSTER, CLUSTER_NAME)
    if kind is ResourceKind.GROUP:
        return denial(request, operation, ResourceType.GROUP, resource.resource_name)
    return None


def invalid(message: str) -> AdminOutcome:
    return AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message=message)
