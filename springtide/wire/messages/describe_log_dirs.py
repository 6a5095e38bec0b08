"""DescribeLogDirs. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Bool,
    Error,
    In,
    Int32,
    Int64,
    MessagePart,
    RequestMessage,
    ResponseMessage,
    String,
)


class DescribeLogDirsDescribableLogDirTopic(MessagePart, frozen=True, kw_only=True):
    topic: String = ""
    partitions: tuple[Int32, ...] = ()


class DescribeLogDirsRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    topics: tuple[DescribeLogDirsDescribableLogDirTopic, ...] | None = None


class DescribeLogDirsPartition(MessagePart, frozen=True, kw_only=True):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(MessagePart, frozen=True, kw_only=True):
    name: String = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


class DescribeLogDirsResult(MessagePart, frozen=True, kw_only=True):
    error_code: Error = ErrorCode.NONE
    log_dir: String = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: Annotated[Int64, In(4)] = -1
    usable_bytes: Annotated[Int64, In(4)] = -1
    is_cordoned: Annotated[Bool, In(5)] = False


class DescribeLogDirsResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.DESCRIBE_LOG_DIRS
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Error, In(3)] = ErrorCode.NONE
    results: tuple[DescribeLogDirsResult, ...] = ()
