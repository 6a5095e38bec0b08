"""A shard's log with one leader, whose fence judges each batch. Any writer that is higher may open."""

from __future__ import annotations

from collections.abc import Iterator

from dataplane.core.fence import Fence
from dataplane.core.producer_state import Duplicate
from springtide.contract.partition_state import WRITER_BATCHES_MAX, WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header, stamp_head


class FencedLog:
    """batches: all of them, stamped. error: what every append is refused with, NONE if it is not.
    tombstone_floor: of what a test has left out of `batches`."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.error = ErrorCode.NONE
        self.tombstone_floor = 0

    @property
    def end_offset(self) -> int:
        return decode_header(self.batches[-1]).next_offset if self.batches else 0

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = decode_header(batch)
        fence = Fence([decode_header(each) for each in self.batches[-WRITER_BATCHES_MAX:]])
        verdict = fence.judge(header, named=WriterId(header.producer_id, header.producer_epoch))
        if isinstance(verdict, Duplicate):
            return ErrorCode.NONE, verdict.base_offset
        if verdict is not ErrorCode.NONE or self.error is not ErrorCode.NONE:
            return verdict or self.error, -1
        base_offset = self.end_offset
        self.batches.append(stamp_head(base_offset=base_offset, header=header, leader_epoch=0) + batch[16:])
        return ErrorCode.NONE, base_offset

    def read(self, offset: int) -> bytes:
        """Return all batches that do not end at or before the offset."""
        return b"".join(self.batches_from(offset))

    def batches_from(self, offset: int) -> Iterator[bytes]:
        return (batch for batch in self.batches if decode_header(batch).next_offset > offset)
