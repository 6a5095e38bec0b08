"""A shard's log with one leader, which judges each batch as the leaders of coordinator topics do."""

from __future__ import annotations

from collections.abc import Sequence

from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import SEQUENCE_MAX, BatchHeader, decode_header, stamp_head

BATCHES_KNOWN = 5


def judge(header: BatchHeader, last_batches: Sequence[BatchHeader]) -> ErrorCode | BatchHeader:
    """Return whether to append the batch (NONE), to refuse it, or where it stands already. last_batches: the
    log's last data batches, five if it has so many."""
    for stored in last_batches:
        if stored.batch_length == header.batch_length and stored[3:] == header[3:]:
            return stored
    writer = (header.producer_id, header.producer_epoch)
    last = last_batches[-1] if last_batches else None
    latest = (-1, -1) if last is None else (last.producer_id, last.producer_epoch)
    if writer < latest:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    expected = 0 if last is None or writer > latest else (last.last_sequence + 1) & SEQUENCE_MAX
    if header.base_sequence != expected:
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return ErrorCode.NONE


class FencedLog:
    """batches: all of them, stamped. error: what every append is refused with, NONE if it is not."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.error = ErrorCode.NONE

    @property
    def end_offset(self) -> int:
        return decode_header(self.batches[-1]).next_offset if self.batches else 0

    def append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = decode_header(batch)
        verdict = judge(header, [decode_header(each) for each in self.batches[-BATCHES_KNOWN:]])
        if isinstance(verdict, BatchHeader):
            return ErrorCode.NONE, verdict.base_offset
        if verdict is not ErrorCode.NONE or self.error is not ErrorCode.NONE:
            return verdict or self.error, -1
        base_offset = self.end_offset
        self.batches.append(stamp_head(base_offset=base_offset, header=header, leader_epoch=0) + batch[16:])
        return ErrorCode.NONE, base_offset

    def read(self, offset: int) -> bytes:
        """Return all batches that do not end at or before the offset."""
        return b"".join(batch for batch in self.batches if decode_header(batch).next_offset > offset)
