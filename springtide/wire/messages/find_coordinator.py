"""FindCoordinator. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
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


class FindCoordinatorRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    key: Annotated[String, In(until=3)] = ""
    key_type: Annotated[Int8, In(1)] = 0
    coordinator_keys: Annotated[tuple[String, ...], In(4)] = ()


class FindCoordinatorCoordinator(MessagePart, frozen=True, kw_only=True):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Error = ErrorCode.NONE
    error_message: NullableString = None


class FindCoordinatorResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Annotated[Error, In(until=3)] = ErrorCode.NONE
    error_message: Annotated[NullableString, In(1, until=3)] = None
    node_id: Annotated[Int32, In(until=3)] = 0
    host: Annotated[String, In(until=3)] = ""
    port: Annotated[Int32, In(until=3)] = 0
    coordinators: Annotated[tuple[FindCoordinatorCoordinator, ...], In(4)] = ()
