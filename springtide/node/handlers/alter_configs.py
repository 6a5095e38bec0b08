"""AlterConfigs: all settings of topics, brokers and the cluster at once, to the controller (KIP-133).

What the request does not name goes back to its default. Clients have IncrementalAlterConfigs since Kafka 2.3;
older tools and librdkafka's `AlterConfigs` still send this one.
"""

from __future__ import annotations

from typing import Any

from springtide.contract.administration import AdminOutcome
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import Changes, alter, invalid, refusal_of_resource


def handle(context: NodeContext, request: Request) -> None:
    alter(context, request, refusal_of=_refusal, configs_of=_configs, replaces=True)


def _configs(resource: Any) -> Changes:
    return {config.name: config.value for config in resource.configs}


def _refusal(resource: Any) -> AdminOutcome | None:
    nulls = [config.name for config in resource.configs if config.value is None]
    if nulls:
        return invalid(f"{nulls[0]} can't be set to null: leave it out")
    return refusal_of_resource(resource)
