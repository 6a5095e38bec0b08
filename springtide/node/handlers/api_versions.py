"""ApiVersions: the APIs and versions of this broker (KIP-35, KIP-511)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from springtide.kafka_features import told_features
from springtide.levels import CONSUMER_GROUPS, Feature
from springtide.node.handlers.context import NodeContext, Request, check_level
from springtide.node.refusals import software_of
from springtide.wire.apis import APIS, ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import Chunk, encode_response_frame
from springtide.wire.messages import (
    ApiVersionsApiVersion,
    ApiVersionsFinalizedFeatureKey,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsSupportedFeatureKey,
)
from springtide.wire.typed import write_message

SOFTWARE_SINCE = 3
LOWEST_ZERO_SINCE = 4
"""Clients of earlier versions refuse the answer if a feature's lowest version is 0 (KAFKA-17011)."""
SINCE: Final[dict[int, Feature]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: CONSUMER_GROUPS,
    ApiKey.CONSUMER_GROUP_DESCRIBE: CONSUMER_GROUPS,
}
"""APIs by which clients may choose what they use: listed at the levels that serve them only, and as long as a
process does not know its cluster's."""
LIBRDKAFKA: Final = re.compile(r"librdkafka |\S+ .*-rdkafka-")
"""It takes the protocol that it was set to. Where that is not listed, version 2.16 waits for ever without an
error, and where it is listed and refused, it ends with one: so it is told of these APIs always."""


def handle(context: NodeContext, request: Request, message: ApiVersionsRequest) -> None:
    """Answer with all versions, and the cluster's features; of two answers clients take the features with the
    higher epoch, and a level never falls. From v3 on an unusable name of the client's software is an error,
    as in Kafka."""
    error = ErrorCode.NONE
    if request.api_version >= SOFTWARE_SINCE:
        software = software_of(message.client_software_name, message.client_software_version)
        if software is None:
            error = ErrorCode.INVALID_REQUEST
        else:
            request.answer.connection.software = software
    level = context.level()
    features = told_features(level)
    request.reply(
        ApiVersionsResponse(
            error_code=error,
            api_keys=_api_keys(lambda api_key: _is_listed(context, request, api_key)),
            supported_features=tuple(
                ApiVersionsSupportedFeatureKey(name=one.name, min_version=one.lowest, max_version=one.highest)
                for one in features
                if one.lowest or request.api_version >= LOWEST_ZERO_SINCE
            ),
            finalized_features_epoch=level,
            finalized_features=tuple(
                ApiVersionsFinalizedFeatureKey(
                    name=one.name, max_version_level=one.finalized, min_version_level=one.finalized
                )
                for one in features
                if one.finalized
            ),
        )
    )


def refuse_version(correlation_id: int) -> list[Chunk]:
    """Return the answer to an unknown version of ApiVersions: a v0 body, which every client can read."""
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys(lambda _: True))
    return encode_response_frame(correlation_id, [write_message(answer, 0)], has_flexible_header=False)


def _is_listed(context: NodeContext, request: Request, api_key: int) -> bool:
    feature = SINCE.get(api_key)
    if feature is None or LIBRDKAFKA.match(request.answer.connection.software):
        return True
    return check_level(context, feature) is not ErrorCode.UNSUPPORTED_VERSION


def _api_keys(is_listed: Callable[[int], bool]) -> tuple[ApiVersionsApiVersion, ...]:
    return tuple(
        ApiVersionsApiVersion(
            api_key=spec.api_key, min_version=spec.version_min, max_version=spec.version_max
        )
        for spec in APIS.values()
        if is_listed(spec.api_key)
    )
