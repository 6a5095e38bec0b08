"""AlterConfigs: all settings of topics, brokers and the cluster at once, to the controller (KIP-133).

What the request does not name goes back to its default. Clients have IncrementalAlterConfigs since Kafka 2.3;
older tools and librdkafka's `AlterConfigs` still send this one.
"""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import AdminOutcome
from springtide.node.handlers.administer import code_of, message_of
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import Changes, alter, invalid, refusal_of_resource
from springtide.wire.messages import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def handle(context: NodeContext, request: Request, message: AlterConfigsRequest) -> None:
    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        responses = tuple(
            AlterConfigsResourceResponse(
                error_code=code_of(outcome),
                error_message=message_of(outcome),
                resource_type=one.resource_type,
                resource_name=one.resource_name,
            )
            for one, outcome in zip(message.resources, outcomes, strict=True)
        )
        request.reply(AlterConfigsResponse(responses=responses))

    alter(
        context,
        request,
        message.resources,
        refusal_of=_refusal,
        configs_of=_configs,
        validate_only=message.validate_only,
        answer=answer,
        replaces=True,
    )


def _configs(resource: AlterConfigsResource) -> Changes:
    return {config.name: config.value for config in resource.configs}


def _refusal(resource: AlterConfigsResource) -> AdminOutcome | None:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        return invalid(f"{nulls[0]} can't be set to null: leave it out")
    return refusal_of_resource(resource)
