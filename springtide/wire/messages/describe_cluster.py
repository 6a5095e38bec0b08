"""DescribeCluster. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int8,
    Int32,
    MessagePart,
    NullableString,
    RequestMessage,
    ResponseMessage,
    String,
)


class DescribeClusterRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, In(1)] = 1
    include_fenced_brokers: Annotated[Bool, In(2)] = False


class DescribeClusterBroker(MessagePart, frozen=True, kw_only=True):
    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Annotated[Bool, In(2)] = False


class DescribeClusterResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_CLUSTER
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None
    endpoint_type: Annotated[Int8, In(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: Int32 = -2147483648
