"""A connection that asks one thing at a time, in Kafka's definitions: for what stock clients don't offer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import encode_request_frame
from springtide.wire.headers import decode_response_header, encode_request_header
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import NewRecord, encode_batch, iter_records

ANSWER_S = 15.0


class Raw:
    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._received = bytearray()

    async def ask(self, api_key: int, api_version: int, fields: dict[str, object]) -> Any:
        head = encode_request_header(
            api_key=api_key, api_version=api_version, correlation_id=5, client_id="raw"
        )
        body = codec.encode(codec.build(codec.request_type(api_key, api_version), fields))
        await self._stream.send_all(encode_request_frame(head, body))
        with trio.fail_after(ANSWER_S):
            size = int.from_bytes(await self._exactly(4))
            frame = memoryview(await self._exactly(size))
        _, position = decode_response_header(frame, api_key=api_key, api_version=api_version)
        return codec.decode(codec.response_type(api_key, api_version), frame, position)

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
        fields: dict[str, object] = {
            "transactional_id": None,
            "acks": acks,
            "timeout": 10_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
        }
        answer = await self.ask(ApiKey.PRODUCE, 9, fields)
        (partition,) = answer.responses[0].partition_responses
        return ErrorCode(partition.error_code), int(partition.base_offset)

    async def producers(self, topic: str) -> tuple[ErrorCode, list[tuple[int, int, int]]]:
        """Of partition 0: (error, [(producer id, epoch, last sequence)])."""
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
        fields: dict[str, object] = {
            "replica_id": replica_id,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": topic,
                    "partitions": [
                        {
                            "partition": partition,
                            "current_leader_epoch": leader_epoch,
                            "fetch_offset": fetch_offset,
                            "partition_max_bytes": 1 << 20,
                        }
                    ],
                }
            ],
        }
        answer = await self.ask(ApiKey.FETCH, 12, fields)
        (answered,) = answer.responses[0].partitions
        records = memoryview(answered.records or b"")
        return (
            ErrorCode(answered.error_code),
            int(answered.high_watermark),
            [
                record.value or b""
                for position, header in iter_headers(records)
                for record in iter_records(records[position : position + header.size_bytes])
                if record.offset >= fetch_offset
            ],
        )


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Raw]:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    assert isinstance(stream, trio.SocketStream)
    async with stream:
        yield Raw(stream)
