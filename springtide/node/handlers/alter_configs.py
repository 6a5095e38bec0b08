"""AlterConfigs: all settings of topics, brokers and the cluster at once, to the controller (KIP-133).

What the request does not name goes back to its default. Clients have IncrementalAlterConfigs since Kafka 2.3;
older tools and librdkafka's `AlterConfigs` still send this one.
"""

from __future__ import annotations

from typing import Any, cast

from controller.contract.administration import AdminOutcome, AlterConfigsCall, ConfigsToAlter
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import KINDS, alter, invalid, refusal_of_resource


def handle(context: NodeContext, request: Request) -> None:
    message = cast(Any, request.decode())
    resources = message.resources
    refused = {place: error for place, one in enumerate(resources) if (error := _refusal(one)) is not None}
    call = AlterConfigsCall(
        resources=tuple(
            ConfigsToAlter(
                kind=KINDS[one.resource_type],
                name=one.resource_name,
                configs={config.name: config.value for config in one.configs},
                replaces=True,
            )
            for place, one in enumerate(resources)
            if place not in refused
        ),
        validate_only=message.validate_only,
    )
    alter(context, request, call, resources, refused)


def _refusal(resource: Any) -> AdminOutcome | None:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        return invalid(f"{nulls[0]} can't be set to null: leave it out")
    return refusal_of_resource(resource)
