"""What a transactional producer, its coordinator and a committed reader send, on one connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import decode_fetch_response
from springtide.wire.headers import decode_response_header
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.dataplane.raw import Raw, frame_of, request

TOPIC = "orders"
ADDED_BY_CLIENT, ADDED_BY_LEADER = 9, 12
"""Versions of Produce: before and since the leader adds a partition to its transaction (KIP-890)."""


class ReadCommitted(NamedTuple):
    """A fetch's answer: values of all data batches, as (producer id, values) each, in order of offsets."""

    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    aborted: list[tuple[int, int]]
    batches: list[tuple[int, list[bytes]]]


class Producer:
    """One transactional producer; `batch` counts its sequences up. raw: its connection."""

    def __init__(
        self,
        raw: Raw,
        transactional_id: str | None = "t",
        *,
        producer_id: int = 7,
        producer_epoch: int = 0,
        version: int = ADDED_BY_CLIENT,
    ) -> None:
        self.raw = raw
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.version = version
        self.sequence = 0

    def batch(self, *values: bytes, is_transactional: bool = True) -> bytes:
        encoded = batch_of(
            values,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequence,
            is_transactional=is_transactional,
        )
        self.sequence += len(values)
        return encoded

    async def send(
        self,
        *batches: bytes,
        partitions: Sequence[int] = (0,),
        acks: int = -1,
        timeout_ms: int = 10_000,
        correlation_id: int = 1,
    ) -> None:
        """Send one request with a batch for each of the partitions, and do not wait."""
        fields: dict[str, object] = {
            "transactional_id": self.transactional_id,
            "acks": acks,
            "timeout_ms": timeout_ms,
            "topic_data": [
                {
                    "name": TOPIC,
                    "partition_data": [
                        {"index": number, "records": batch}
                        for number, batch in zip(partitions, batches, strict=True)
                    ],
                }
            ],
        }
        await self.raw.send(request(ApiKey.PRODUCE, self.version, fields, correlation_id=correlation_id))

    async def answer(self, *, correlation_id: int = 1) -> list[tuple[ErrorCode, int]]:
        """Return (error, base offset) of each partition."""
        answer = await self.raw.answer(ApiKey.PRODUCE, self.version, correlation_id=correlation_id)
        return [
            (ErrorCode(one.error_code), one.base_offset)
            for topic in answer.responses
            for one in topic.partition_responses
        ]

    async def produce(self, *values: bytes, **how: Any) -> tuple[ErrorCode, int]:
        """Send one batch to partition 0; return (error, base offset)."""
        await self.send(self.batch(*values), **how)
        (answered,) = await self.answer()
        return answered

    async def end(self, **how: Any) -> ErrorCode:
        """Have a marker written to partition 0 as this producer's coordinator does."""
        return await write_marker(
            self.raw, producer_id=self.producer_id, **{"producer_epoch": self.producer_epoch, **how}
        )


def batch_of(values: Sequence[bytes], *, is_transactional: bool = True, **of_producer: int) -> bytes:
    records = [NewRecord(None, value, 1_700_000_000_000) for value in values]
    return encode_batch(records, is_transactional=is_transactional, **of_producer)  # type: ignore[arg-type]


async def write_marker(
    raw: Raw,
    *,
    producer_id: int,
    producer_epoch: int,
    commits: bool = False,
    coordinator_epoch: int = 1,
    version: int = 1,
    topic: str = TOPIC,
    partition: int = 0,
) -> ErrorCode:
    fields: dict[str, object] = {
        "markers": [
            {
                "producer_id": producer_id,
                "producer_epoch": producer_epoch,
                "transaction_result": commits,
                "topics": [{"name": topic, "partition_indexes": [partition]}],
                "coordinator_epoch": coordinator_epoch,
                "transaction_version": 2,
            }
        ]
    }
    answer = await raw.ask(ApiKey.WRITE_TXN_MARKERS, version, fields)
    ((marker,),) = (answer.markers,)
    return ErrorCode(marker.topics[0].partitions[0].error_code)


async def read(
    raw: Raw,
    fetch_offset: int = 0,
    *,
    is_committed: bool = True,
    max_wait_ms: int = 0,
    leader_epoch: int = -1,
    version: int = 12,
    topic: str | bytes = TOPIC,
) -> ReadCommitted:
    """Fetch from partition 0, outside every session. topic: its id from version 13 on."""
    asked = FetchPartition(topic, 0, leader_epoch, fetch_offset, max_bytes=1 << 20)
    message = FetchRequest(
        -1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=int(is_committed),
        session_epoch=-1,
        partitions=[asked],
    )
    await raw.send(frame_of(ApiKey.FETCH, version, encode_fetch_request(version, message)))
    frame = memoryview(await raw.frame())
    _, position = decode_response_header(frame, api_key=ApiKey.FETCH, api_version=version)
    (one,) = decode_fetch_response(version, frame, position).partitions
    return ReadCommitted(
        ErrorCode(one.error_code),
        one.high_watermark,
        one.last_stable_offset,
        [(each.producer_id, each.first_offset) for each in one.aborted or ()],
        [
            (
                header.producer_id,
                [each.value or b"" for each in iter_records(one.view[at : at + header.size_bytes])],
            )
            for at, header in iter_headers(one.view)
            if not header.is_control
        ],
    )


async def latest_offset(raw: Raw, *, is_committed: bool) -> tuple[ErrorCode, int]:
    """Return what ListOffsets says of the latest offset of partition 0."""
    fields: dict[str, object] = {
        "replica_id": -1,
        "isolation_level": int(is_committed),
        "topics": [
            {
                "name": TOPIC,
                "partitions": [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}],
            }
        ],
    }
    answer = await raw.ask(ApiKey.LIST_OFFSETS, 7, fields)
    (one,) = answer.topics[0].partitions
    return ErrorCode(one.error_code), one.offset
