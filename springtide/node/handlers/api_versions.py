"""ApiVersions: the APIs and versions of this broker (KIP-35, KIP-511)."""

from __future__ import annotations

from springtide.node.handlers.context import NodeContext, Request
from springtide.node.refusals import software_of
from springtide.wire.apis import APIS
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import Chunk, encode_response_frame
from springtide.wire.messages import (
    ApiVersionsApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from springtide.wire.typed import write_message

SOFTWARE_SINCE = 3


def handle(_context: NodeContext, request: Request, message: ApiVersionsRequest) -> None:
    """Answer with all versions. From v3 on an unusable name of the client's software is an error, as in
    Kafka."""
    error = ErrorCode.NONE
    if request.api_version >= SOFTWARE_SINCE:
        software = software_of(message.client_software_name, message.client_software_version)
        if software is None:
            error = ErrorCode.INVALID_REQUEST
        else:
            request.answer.connection.software = software
    request.reply(ApiVersionsResponse(error_code=error, api_keys=_api_keys()))


def refuse_version(correlation_id: int) -> list[Chunk]:
    """Return the answer to an unknown version of ApiVersions: a v0 body, which every client can read."""
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_api_keys())
    return encode_response_frame(correlation_id, [write_message(answer, 0)], has_flexible_header=False)


def _api_keys() -> tuple[ApiVersionsApiVersion, ...]:
    return tuple(
        ApiVersionsApiVersion(
            api_key=spec.api_key, min_version=spec.version_min, max_version=spec.version_max
        )
        for spec in APIS.values()
    )
