"""DescribeConfigs: settings in force and their sources, from the controller (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.contract.administration import (
    AdminOutcome,
    ConfigSource,
    ConfigsToDescribe,
    ConfigType,
    DescribeConfigsCall,
    DescribedConfig,
)
from springtide.node.handlers.administer import administer, code_of, message_of, refusals
from springtide.node.handlers.context import NodeContext, Request
from springtide.node.handlers.incremental_alter_configs import KINDS, denial_of_resource, invalid
from springtide.security.acls.model import Operation
from springtide.wire.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

SOURCES = {
    ConfigSource.TOPIC: 1,
    ConfigSource.BROKER: 2,
    ConfigSource.CLUSTER: 3,  # a dynamic default of all brokers
    ConfigSource.DEFAULT: 5,
    ConfigSource.GROUP: 8,
    ConfigSource.UNKNOWN: 0,
}
TYPES = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.LONG: 5,
    ConfigType.LIST: 7,
    ConfigType.UNKNOWN: 0,
}


def handle(context: NodeContext, request: Request, message: DescribeConfigsRequest) -> None:
    resources = message.resources

    def refusal(resource: DescribeConfigsResource) -> AdminOutcome | None:
        if resource.resource_type not in KINDS:
            return invalid("resources of this type have no settings here")
        return denial_of_resource(request, Operation.DESCRIBE_CONFIGS, resource)

    refused = refusals(resources, refusal)
    call = DescribeConfigsCall(
        resources=tuple(
            ConfigsToDescribe(
                kind=KINDS[one.resource_type],
                name=one.resource_name,
                names=one.configuration_keys,
            )
            for place, one in enumerate(resources)
            if place not in refused
        )
    )

    def answer(outcomes: Sequence[AdminOutcome]) -> None:
        results = tuple(
            DescribeConfigsResult(
                error_code=code_of(outcome),
                error_message=message_of(outcome),
                resource_type=one.resource_type,
                resource_name=one.resource_name,
                configs=tuple(
                    _config(
                        config,
                        with_synonyms=message.include_synonyms,
                        with_note=message.include_documentation,
                    )
                    for config in outcome.configs
                ),
            )
            for one, outcome in zip(resources, outcomes, strict=True)
        )
        request.reply(DescribeConfigsResponse(results=results))

    administer(context, request, call, named=len(call.resources), answer=answer, refused=refused)


def _config(
    config: DescribedConfig, *, with_synonyms: bool, with_note: bool
) -> DescribeConfigsResourceResult:
    synonyms = config.synonyms if with_synonyms else ()
    return DescribeConfigsResourceResult(
        name=config.name,
        value=config.value,
        read_only=config.is_read_only,
        config_source=SOURCES[config.source],
        synonyms=tuple(
            DescribeConfigsSynonym(name=one.name, value=one.value, source=SOURCES[one.source])
            for one in synonyms
        ),
        config_type=TYPES[config.type],
        documentation=config.note if with_note else None,
    )
