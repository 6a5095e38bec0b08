"""A connection of a test to a broker, for what stock clients don't offer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import decode_fetch_response
from springtide.wire.framing import encode_request_frame
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.produce import decode_produce_response, encode_produce_request
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.springtide.wire_messages import fitting

ANSWER_S = 60.0


class Raw:
    """One connection: bytes as they are, or requests in Kafka's definitions."""

    def __init__(self, stream: trio.abc.Stream, client_id: str = "test") -> None:
        self._stream = stream
        self._client_id = client_id
        self._received = bytearray()

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def frame(self) -> bytes:
        with trio.fail_after(ANSWER_S):
            return await self._exactly(int.from_bytes(await self._exactly(4)))

    async def is_closed(self) -> bool:
        with trio.fail_after(ANSWER_S):
            try:
                return not self._received and await self._stream.receive_some(1) == b""
            except trio.BrokenResourceError:
                return True

    async def is_silent(self) -> bool:
        with trio.move_on_after(0.2):
            return not await self._stream.receive_some(1)
        return True

    async def begin(
        self, api_key: int, api_version: int, fields: dict[str, object], *, correlation_id: int = 1
    ) -> None:
        """Send a request without waiting for its answer."""
        body = _body(api_key, api_version, fields)
        await self._send(api_key, api_version, body, correlation_id=correlation_id)

    async def _send(self, api_key: int, api_version: int, body: bytes, *, correlation_id: int = 1) -> None:
        frame = frame_of(api_key, api_version, body, correlation_id=correlation_id, client_id=self._client_id)
        await self.send(frame)

    async def answer(self, api_key: int, api_version: int, *, correlation_id: int = 1) -> Any:
        frame, position = await self._body(api_key, api_version, correlation_id)
        return codec.decode(codec.response_type(api_key, api_version), frame, position)

    async def _body(self, api_key: int, api_version: int, correlation_id: int = 1) -> tuple[memoryview, int]:
        frame = memoryview(await self.frame())
        echoed, position = decode_response_header(frame, api_key=api_key, api_version=api_version)
        assert echoed == correlation_id
        return frame, position

    async def ask(self, api_key: int, api_version: int, fields: dict[str, object]) -> Any:
        await self.begin(api_key, api_version, fields)
        return await self.answer(api_key, api_version)

    async def _exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            received = await self._stream.receive_some(1 << 16)
            if not received:
                raise EOFError("the broker closed the connection")
            self._received += received
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    async def produce(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        acks: int = -1,
    ) -> tuple[ErrorCode, int]:
        """One batch to partition 0: (error, base offset)."""
        batch = encode_batch(
            [NewRecord(None, value, 1_700_000_000_000) for value in values],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        return await self.produce_batch(topic, batch, acks=acks)

    async def produce_batch(self, topic: str, batch: bytes, *, acks: int = -1) -> tuple[ErrorCode, int]:
        """Any batch to partition 0: (error, base offset)."""
        body = b"".join(encode_produce_request(9, [((topic, 0), batch)], acks=acks, timeout_ms=10_000))
        await self._send(ApiKey.PRODUCE, 9, body)
        (outcome,) = decode_produce_response(9, *await self._body(ApiKey.PRODUCE, 9))
        return ErrorCode(outcome.error_code), outcome.base_offset

    async def producers(self, topic: str) -> tuple[ErrorCode, list[tuple[int, int, int]]]:
        """Return the producers of partition 0: (error, [(producer id, epoch, last sequence)])."""
        fields: dict[str, object] = {"topics": [{"name": topic, "partition_indexes": (0,)}]}
        answer = await self.ask(ApiKey.DESCRIBE_PRODUCERS, 0, fields)
        (partition,) = answer.topics[0].partitions
        return ErrorCode(partition.error_code), [
            (one.producer_id, one.producer_epoch, one.last_sequence) for one in partition.active_producers
        ]

    async def fetch(
        self,
        topic: str,
        fetch_offset: int,
        *,
        replica_id: int = -1,
        leader_epoch: int = -1,
        max_wait_ms: int = 0,
        partition: int = 0,
    ) -> tuple[ErrorCode, int, list[bytes]]:
        """(error, high watermark, values from `fetch_offset` on)."""
        asked = FetchPartition(topic, partition, leader_epoch, fetch_offset, max_bytes=1 << 20)
        request = FetchRequest(
            replica_id, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, partitions=[asked]
        )
        await self._send(ApiKey.FETCH, 12, encode_fetch_request(12, request))
        response = decode_fetch_response(12, *await self._body(ApiKey.FETCH, 12))
        (answered,) = response.partitions
        return (
            answered.error,
            answered.high_watermark,
            [
                record.value or b""
                for position, header in iter_headers(answered.view)
                for record in iter_records(answered.view[position : position + header.size_bytes])
                if record.offset >= fetch_offset
            ],
        )


def request(api_key: int, api_version: int, fields: dict[str, object], *, correlation_id: int = 1) -> bytes:
    """The frame of a request in Kafka's definitions."""
    body = _body(api_key, api_version, fields)
    return frame_of(api_key, api_version, body, correlation_id=correlation_id)


def frame_of(
    api_key: int, api_version: int, body: bytes, *, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    head = encode_request_header(
        api_key=api_key, api_version=api_version, correlation_id=correlation_id, client_id=client_id
    )
    return encode_request_frame(head, body)


@asynccontextmanager
async def connected(port: int, client_id: str = "test") -> AsyncIterator[Raw]:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    assert isinstance(stream, trio.SocketStream)
    async with stream:
        yield Raw(stream, client_id)


def list_offsets_fields(*timestamps: int) -> dict[str, object]:
    partitions = [
        {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1} for timestamp in timestamps
    ]
    return {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions}]}


def _body(api_key: int, api_version: int, fields: dict[str, object]) -> bytes:
    """Return the body with those of the fields that the version has."""
    asked = codec.request_type(api_key, api_version)
    return codec.encode(codec.build(asked, fitting(fields, asked, api_version)))
