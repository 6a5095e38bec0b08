"""What the pipeline's fetching asks, and answers made of batches that are headers only."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from pipeline.client.fetching import RangeFetching
from pipeline.client.values import (
    BrokerAddress,
    ClusterMetadata,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from springtide.wire.fetch_request import FetchPartition
from springtide.wire.fetch_response import FetchedPartition

HEAD_BYTES = 27


def batch(base_offset: int, count: int, *, size: int = 100, magic: int = 2) -> bytes:
    """The header fields that fetching looks at, in a batch of `size` bytes."""
    return head_of(base_offset, count, size=size, magic=magic) + bytes(size - HEAD_BYTES)


def head_of(base_offset: int, count: int, *, size: int, magic: int = 2) -> bytes:
    return struct.pack(">qiibIhi", base_offset, size - 12, 0, magic, 0, 0, count - 1)


def cluster(leaders: dict[int, int], *, replicas: tuple[int, ...] = (1, 2)) -> ClusterMetadata:
    return ClusterMetadata(
        "c",
        {number: BrokerAddress(number, "h", number) for number in (1, 2)},
        {
            "t": TopicMetadata(
                partitions={
                    partition: PartitionMetadata(leader, 5, replicas, replicas)
                    for partition, leader in leaders.items()
                }
            )
        },
    )


def answer(where: TopicPartition, records: bytes = b"", **fields: Any) -> FetchedPartition:
    values: dict[str, Any] = {
        "high_watermark": 1_000_000,
        "last_stable_offset": 1_000_000,
        "log_start_offset": 0,
        **fields,
    }
    return FetchedPartition(*where, records=(memoryview(records),) if records else (), **values)


def asked(
    fetching: RangeFetching, metadata: ClusterMetadata, now_ms: int = 0
) -> dict[int, list[FetchPartition]]:
    return fetching.ask(metadata, now_ms=now_ms)


def offsets(wanted: Sequence[FetchPartition]) -> list[tuple[int, int]]:
    return [(one.partition, one.fetch_offset) for one in wanted]
