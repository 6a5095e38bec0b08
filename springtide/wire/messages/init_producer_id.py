"""InitProducerId. Written by `python -m tests.kit.springtide.wire_classes`; not by hand."""

from __future__ import annotations

from typing import Annotated, ClassVar

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fields import (
    Error,
    In,
    Int16,
    Int32,
    Int64,
    NullableString,
    RequestMessage,
    ResponseMessage,
)


class InitProducerIdRequest(RequestMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    transactional_id: NullableString = None
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, In(3)] = -1
    producer_epoch: Annotated[Int16, In(3)] = -1


class InitProducerIdResponse(ResponseMessage, frozen=True, kw_only=True):
    API: ClassVar[ApiKey] = ApiKey.INIT_PRODUCER_ID
    throttle_time_ms: Int32 = 0
    error_code: Error = ErrorCode.NONE
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
