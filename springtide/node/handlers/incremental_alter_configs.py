"""IncrementalAlterConfigs: settings of topics, brokers and the cluster, to the controller (KIP-339).

Lists are set as a whole: nothing is appended to one or subtracted from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from controller.contract.administration import AdminOutcome, AlterConfigsCall, ConfigsToAlter, ResourceKind
from springtide.node.handlers.administer import administer, denial, error_fields, refusals
from springtide.node.handlers.context import NodeContext, Request
from springtide.security.acls.model import CLUSTER_NAME, Operation, ResourceType
from springtide.wire.errors import ErrorCode

KINDS = {2: ResourceKind.TOPIC, 4: ResourceKind.BROKER}
"""Kafka's resource types that have settings here."""
SET, DELETE = 0, 1


def handle(context: NodeContext, request: Request) -> None:
    alter(context, request, refusal_of=_refusal, configs_of=_configs)


def alter(
    context: NodeContext,
    request: Request,
    *,
    refusal_of: Callable[[Any], AdminOutcome | None],
    configs_of: Callable[[Any], dict[str, str | None]],
    replaces: bool = False,
) -> None:
    """Send what can be asked of the controller, and answer for all resources of the request. replaces: what a
    resource does not name is unset."""
    message = cast(Any, request.decode())
    resources = message.resources

    def refusal(resource: Any) -> AdminOutcome | None:
        return denial_of_resource(request, Operation.ALTER_CONFIGS, resource) or refusal_of(resource)

    refused = refusals(resources, refusal)
    call = AlterConfigsCall(
        resources=tuple(
            ConfigsToAlter(
                kind=KINDS[one.resource_type],
                name=one.resource_name,
                configs=configs_of(one),
                replaces=replaces,
            )
            for place, one in enumerate(resources)
            if place not in refused
        ),
        validate_only=message.validate_only,
    )

    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        request.reply(
            {
                "responses": [
                    {
                        "resource_type": one.resource_type,
                        "resource_name": one.resource_name,
                        **error_fields(outcome),
                    }
                    for one, outcome in zip(resources, outcomes, strict=True)
                ]
            }
        )

    administer(context, request, call, named=len(call.resources), answer=answer, refused=refused)


def _configs(resource: Any) -> dict[str, str | None]:
    return {
        config.name: None if config.config_operation == DELETE else config.value
        for config in resource.configs
    }


def _refusal(resource: Any) -> AdminOutcome | None:
    refused = refusal_of_resource(resource)
    if refused is not None:
        return refused
    for config in resource.configs:
        if config.config_operation not in (SET, DELETE):
            return AdminOutcome(
                error_code=ErrorCode.INVALID_CONFIG,
                message=f"{config.name} can't be appended to or subtracted from: set it, or delete it",
            )
        if config.config_operation == SET and config.value is None:
            return invalid(f"{config.name} can't be set to null: delete it")
    return None


def refusal_of_resource(resource: Any) -> AdminOutcome | None:
    """Return the outcome for a resource that has no settings, or one whose settings are named twice."""
    names = [config.name for config in resource.configs]
    if resource.resource_type not in KINDS:
        return invalid(f"resources of type {resource.resource_type} have no settings here")
    if len(set(names)) < len(names):
        return invalid("a setting is named twice")
    return None


def denial_of_resource(request: Request, operation: Operation, resource: Any) -> AdminOutcome | None:
    """Return the outcome for a client that may not do this with a resource's settings, None if it may, or if
    the resource has none. Brokers' settings are the cluster's."""
    kind = KINDS.get(resource.resource_type)
    if kind is ResourceKind.TOPIC:
        return denial(request, operation, ResourceType.TOPIC, resource.resource_name)
    if kind is ResourceKind.BROKER:
        return denial(request, operation, ResourceType.CLUSTER, CLUSTER_NAME)
    return None


def invalid(message: str) -> AdminOutcome:
    return AdminOutcome(error_code=ErrorCode.INVALID_REQUEST, message=message)
