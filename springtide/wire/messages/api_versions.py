"""ApiVersions. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int16,
    Int32,
    Int64,
    MessagePart,
    RequestMessage,
    ResponseMessage,
    String,
)


class ApiVersionsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    client_software_name: Annotated[String, In(3)] = ""
    client_software_version: Annotated[String, In(3)] = ""


class ApiVersionsApiVersion(MessagePart, frozen=True, kw_only=True):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class ApiVersionsSupportedFeatureKey(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class ApiVersionsFinalizedFeatureKey(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.API_VERSIONS
    error_code: Error = ErrorCode.NONE
    api_keys: tuple[ApiVersionsApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    supported_features: Annotated[tuple[ApiVersionsSupportedFeatureKey, ...], In(3, tag=0)] = ()
    finalized_features_epoch: Annotated[Int64, In(3, tag=1)] = -1
    finalized_features: Annotated[tuple[ApiVersionsFinalizedFeatureKey, ...], In(3, tag=2)] = ()
    zk_migration_ready: Annotated[Bool, In(3, tag=3)] = False
