"""The newest bytes of each partition, kept in memory and handed to followers and consumers as views.

Almost every read of a healthy cluster is of what was just appended; this spares it the file. Bytes are kept
in *blocks*: a large append's own buffers when it is safe to keep them, else copies gathered in blocks of
some kilobytes, so that a slice over many small batches is a few views and not one per batch.

Whose bytes are they: `bytes` and read-only memoryviews are taken as a promise that they stay unchanged,
and are kept without a copy if most of their underlying buffer is wanted; anything writable is copied.

Bytes once handed out never change: a truncated block is never written to again.

Bounds: `partition_bytes_max` a partition and one budget for the broker; the oldest block anywhere goes first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence, Sized
from typing import cast

from dataplane.storage.disk import Buffer
from springtide.wire.record_batch import BatchHeader

GATHER_BYTES_MAX = 16 * 1024
"""Appends up to this size are gathered in common blocks."""
BLOCK_BYTES_MIN = 4 * 1024
BLOCK_BYTES_MAX = 64 * 1024
"""Blocks for gathering grow with the partition's traffic, so that an idle one holds little."""
BATCH_OVERHEAD_BYTES = 32
"""The cost of the three numbers kept per batch, charged to the budget."""
BROKER_BYTES_MAX = 256 * 1024 * 1024


class _Block:
    """`view` holds what stands in the log from stream position `start`; `charged` is its share of the
    budget; a dead block is out of its cache and waits to be swept out of the budget's queue."""

    __slots__ = ("charged", "is_dead", "owner", "start", "view")

    def __init__(self, owner: TailCache, start: int, view: memoryview, charged: int) -> None:
        self.owner = owner
        self.start = start
        self.view = view
        self.charged = charged
        self.is_dead = False


class TailBudget:
    """Bytes that all tail caches of a broker may hold together."""

    __slots__ = ("_dead", "_queue", "bytes_max", "used_bytes")

    def __init__(self, bytes_max: int = BROKER_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.used_bytes = 0
        self._queue: deque[_Block] = deque()  # oldest first
        self._dead = 0

    def admit(self, block: _Block) -> None:
        self._queue.append(block)
        self.used_bytes += block.charged

    def charge(self, block: _Block, size_bytes: int) -> None:
        block.charged += size_bytes
        self.used_bytes += size_bytes

    def release(self, block: _Block) -> None:
        """The block's cache has dropped it."""
        self.used_bytes -= block.charged
        block.is_dead = True
        self._dead += 1
        if self._dead > 64 and self._dead > len(self._queue) // 2:
            self._queue = deque(alive for alive in self._queue if not alive.is_dead)
            self._dead = 0

    def enforce(self) -> None:
        """Drop the oldest blocks, whosever they are, until the budget holds."""
        while self.used_bytes > self.bytes_max and self._queue:
            block = self._queue.popleft()
            if block.is_dead:
                self._dead -= 1
            else:
                self._dead -= 1  # release() counts it again
                block.owner.evict_up_to(block)


class TailCache:
    """One partition's tail. Positions are those of a byte stream that begins anywhere: only differences
    matter, and segments do not show."""

    __slots__ = (
        "_bases",
        "_block_bytes_max",
        "_block_starts",
        "_blocks",
        "_budget",
        "_bytes",
        "_end",
        "_filled",
        "_nexts",
        "_open",
        "_starts",
        "bytes_max",
    )

    def __init__(self, budget: TailBudget, *, bytes_max: int) -> None:
        self._budget = budget
        self.bytes_max = bytes_max
        self._block_bytes_max = min(BLOCK_BYTES_MAX, bytes_max // 4)
        self._bases = array("q")  # base offset of each batch
        self._nexts = array("q")  # offset after it
        self._starts = array("q")  # stream position of its first byte
        self._blocks: list[_Block] = []
        self._block_starts: list[int] = []
        self._end = 0  # stream position after the last batch
        self._bytes = 0
        self._open: bytearray | None = None  # the gathering block's bytes, if the last block is one
        self._filled = 0

    @property
    def first_offset(self) -> int | None:
        """Base offset of the oldest batch held; None when empty."""
        return self._bases[0] if self._bases else None

    def append(self, headers: Sequence[BatchHeader], chunks: Sequence[Buffer], size_bytes: int) -> None:
        """Hold what was just written. A gap in offsets is fine; a gap in bytes there is none."""
        if size_bytes + BATCH_OVERHEAD_BYTES > self.bytes_max:
            self.clear()
            return
        start = self._end
        if size_bytes <= GATHER_BYTES_MAX and size_bytes <= self._block_bytes_max:
            self._gather(chunks, size_bytes)
        else:
            self._open = None
            position = start
            for chunk in chunks:
                self._add_block(position, _own(chunk))
                position += len(chunk)
        for header in headers:
            self._bases.append(header.base_offset)
            self._nexts.append(header.next_offset)
            self._starts.append(start)
            start += header.size_bytes
        self._end += size_bytes
        overhead = BATCH_OVERHEAD_BYTES * len(headers)
        self._bytes += overhead
        self._budget.charge(self._blocks[-1], overhead)
        if self._bytes > self.bytes_max:
            self._evict_to(self.bytes_max)
        if self._budget.used_bytes > self._budget.bytes_max:
            self._budget.enforce()

    def read(
        self, log_offset: int, *, max_bytes: int, end_offset: int, at_least_one: bool
    ) -> tuple[tuple[memoryview, ...], int, int] | None:
        """(views, bytes, next offset) of the whole batches from the one that contains `log_offset`, all below
        `end_offset`; None if that batch is not held. No views when nothing fits."""
        bases = self._bases
        if not bases or log_offset < bases[0]:
            return None
        first = bisect_right(bases, log_offset) - 1
        if log_offset >= self._nexts[first]:  # in a gap, or at the end
            first += 1
        past = bisect_right(self._nexts, end_offset, first)  # batches that end at or before end_offset
        if past == first:
            return (), 0, log_offset
        begin = self._starts[first]
        limit = begin + max_bytes
        if self._position_after(past - 1) > limit:
            # The last batch that begins before the limit may reach over it.
            past = bisect_right(self._starts, limit, first, past)
            while past > first and self._position_after(past - 1) > limit:
                past -= 1
            if past == first:
                if not at_least_one:
                    return (), 0, log_offset
                past = first + 1
        end = self._position_after(past - 1)
        return self._views(begin, end), end - begin, self._nexts[past - 1]

    def truncate_to(self, log_offset: int) -> None:
        """Drop the batches that reach `log_offset` or beyond."""
        keep = bisect_right(self._nexts, log_offset)
        if keep == len(self._nexts):
            return
        if keep == 0:
            self.clear()
            return
        self._end = self._starts[keep]
        del self._bases[keep:], self._nexts[keep:], self._starts[keep:]
        while self._block_starts[-1] >= self._end:
            self._drop_block(len(self._blocks) - 1)
        self._open = None  # its views may be in readers' hands: never written to again
        last = self._blocks[-1]
        last.view = last.view[: self._end - last.start]

    def clear(self) -> None:
        for block in self._blocks:
            self._budget.release(block)
        self._blocks.clear()
        self._block_starts.clear()
        self._bytes = 0
        self._open = None
        del self._bases[:], self._nexts[:], self._starts[:]

    def evict_up_to(self, block: _Block) -> None:
        """The budget's wish: drop everything up to and including `block`."""
        while self._blocks:
            is_last = self._blocks[0] is block
            self._drop_block(0)
            if is_last:
                break
        self._forget_batches()

    def _position_after(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self._starts) else self._end

    def _views(self, begin: int, end: int) -> tuple[memoryview, ...]:
        index = bisect_right(self._block_starts, begin) - 1
        block = self._blocks[index]
        if end - block.start <= len(block.view):  # nearly always: one block
            return (block.view[begin - block.start : end - block.start],)
        views = []
        while begin < end:
            block = self._blocks[index]
            block_end = min(end, block.start + len(block.view))
            views.append(block.view[begin - block.start : block_end - block.start])
            begin = block_end
            index += 1
        return tuple(views)

    def _gather(self, chunks: Sequence[Buffer], size_bytes: int) -> None:
        if self._open is None or self._filled + size_bytes > len(self._open):
            capacity = BLOCK_BYTES_MIN if self._open is None else 2 * len(self._open)
            capacity = max(min(capacity, self._block_bytes_max), size_bytes)
            self._open = bytearray(capacity)
            self._filled = 0
            self._add_block(self._end, memoryview(b""), charged=capacity)
        filled = self._filled
        for chunk in chunks:
            following = filled + len(chunk)
            self._open[filled:following] = chunk
            filled = following
        self._filled = filled
        self._blocks[-1].view = memoryview(self._open).toreadonly()[:filled]

    def _add_block(self, start: int, view: memoryview, *, charged: int | None = None) -> None:
        block = _Block(self, start, view, len(view) if charged is None else charged)
        self._blocks.append(block)
        self._block_starts.append(start)
        self._bytes += block.charged
        self._budget.admit(block)

    def _drop_block(self, index: int) -> None:
        block = self._blocks.pop(index)
        del self._block_starts[index]
        self._bytes -= block.charged
        self._budget.release(block)

    def _evict_to(self, bytes_max: int) -> None:
        while self._bytes > bytes_max and self._blocks:
            self._drop_block(0)
        self._forget_batches()

    def _forget_batches(self) -> None:
        """Drop the batches whose bytes are no longer all there."""
        if not self._blocks:
            self._open = None
            del self._bases[:], self._nexts[:], self._starts[:]
            return
        count = bisect_left(self._starts, self._block_starts[0])
        del self._bases[:count], self._nexts[:count], self._starts[:count]


def is_kept(chunk: Buffer) -> bool:
    """Return whether the cache keeps these bytes without a copy: they never change, and pin little more than
    themselves."""
    return type(chunk) is bytes or (
        type(chunk) is memoryview and chunk.readonly and 2 * chunk.nbytes >= len(cast(Sized, chunk.obj))
    )


def _own(chunk: Buffer) -> memoryview:
    return memoryview(chunk if is_kept(chunk) else bytes(chunk))
