"""Heartbeat. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import Error, In, Int32, NullableString, RequestMessage, ResponseMessage, String


class HeartbeatRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[NullableString, In(3)] = None


class HeartbeatResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    throttle_time_ms: Annotated[Int32, In(1)] = 0
    error_code: Error = ErrorCode.NONE
