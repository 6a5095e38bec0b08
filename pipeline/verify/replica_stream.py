"""Reading one range of one replica: what to ask it next, and what its answer means. Pure; times are given.

    reading --answer--> reading (further on) ... --> done: everything below `reached` was given
        |---nothing yet--> waiting for it to catch up, within the patience --> stale, or catching up
        `---error, no answer--> waiting, within the patience --------------> unreadable, or gone

Every request but the first asks again for the last batch that was understood, and skips the bytes that were
seen: a Fetch begins at the first batch that holds the offset, so a batch that was written twice would be
missed between two answers. In a compacted log the last batch may be another, or gone, by then: there each
request asks for what follows.

The end of the range was committed when it was planned, so a replica in sync reaches it within a moment. A
replica that is not in sync gets the patience once, to show whether it moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from pipeline.verify.batch_runs import BatchRun, Cut, Fault, cut_runs
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import FetchedPartition

FETCH_BYTES_MIN = 64 * 1024
FETCH_BYTES_MAX = 64 * 1024 * 1024
"""Most bytes to ask for if a single batch does not fit."""
PAUSE_MS = 100
PAUSE_MAX_MS = 1_000

_NOT_YET = frozenset({ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.OFFSET_OUT_OF_RANGE})


class End(StrEnum):
    """The ways in which the reading of a replica can end."""

    WHOLE = "whole"
    STALE = "stale"
    CATCHING_UP = "catching_up"
    UNREADABLE = "unreadable"
    LEFT = "left"
    """The broker has no replica of the partition any more."""


class Wanted(NamedTuple):
    """The next request. `max_wait_ms`: how long the broker may wait for something new."""

    offset: int
    bytes_max: int
    max_wait_ms: int


class ReplicaStream:
    """Offsets `start` to `end` (exclusive) of one replica. `takes_head`: a batch that begins below `start`
    and reaches into the range is part of it: a log may begin in the middle of a batch."""

    def __init__(
        self,
        *,
        start: int,
        end: int,
        is_in_sync: bool,
        takes_head: bool,
        fetch_bytes: int,
        patience_ms: int,
        wait_ms: int,
        is_compacted: bool = False,
    ) -> None:
        self._start = 0 if takes_head else start
        self._end = end
        self._is_in_sync = is_in_sync
        self._is_compacted = is_compacted
        self._fetch_bytes = self._bytes_max = max(fetch_bytes, FETCH_BYTES_MIN)
        self._patience_ms = patience_ms
        self._wait_ms = wait_ms
        self.next_offset = start
        """After the last batch that was understood."""
        self.log_start_offset = 0
        self.high_watermark = -1
        """In the replica's last answer; -1 before that."""
        self.end: End | None = None
        self.reason = ""
        """Why the reading ended before the end, for people."""
        self._floor = 0
        self._tail_offset: int | None = None
        self._tail_bytes = 0
        self._is_waiting = False
        self._pause_ms = PAUSE_MS
        self.not_before_ms = 0
        """Earliest time at which the replica may be asked again."""
        self._trouble_since_ms: int | None = None
        self._behind_since_ms: int | None = None
        self._watermark_before = -1

    @property
    def reached(self) -> int:
        """Below this offset the replica has nothing more to give."""
        return self._end if self.end is End.WHOLE else min(self.next_offset, self._end)

    def wanted(self) -> Wanted:
        """Return the next request."""
        assert self.end is None, "it has ended"
        if self._tail_offset is None or self._is_waiting:
            return Wanted(self.next_offset, self._bytes_max, self._wait_ms)
        return Wanted(self._tail_offset, self._bytes_max + self._tail_bytes, 0)

    def on_answer(
        self, asked: Wanted, answer: FetchedPartition, *, now_ms: int
    ) -> Sequence[BatchRun | Fault]:
        """Return the range's new batches."""
        self.log_start_offset = max(self.log_start_offset, answer.log_start_offset)
        if answer.error is not ErrorCode.NONE:
            self._on_error(asked, answer, now_ms)
            return ()
        if answer.high_watermark > self.high_watermark:
            self._trouble_since_ms = None
        self.high_watermark = answer.high_watermark
        # Fewer bytes than were seen: the last batch is all that came, or a longer one than was asked for.
        seen = min(self._tail_bytes, len(answer.view)) if asked.offset == self._tail_offset else 0
        data = answer.view[seen:]
        cut = cut_runs(data, floor=self._floor, start=self._start, end=self._end)
        if not cut.end_position and not cut.is_broken:
            self._on_nothing(asked, len(data), now_ms)
            return ()
        self._advance(asked, cut, seen)
        if cut.is_broken:
            self._finish(End.UNREADABLE, f"no batch can be found from offset {self.next_offset} on")
        elif cut.is_past_end or (self.next_offset >= self._end and _was_all(asked, answer, self.next_offset)):
            self._finish(End.WHOLE)
        elif self._tail_bytes > FETCH_BYTES_MAX:
            self._finish(End.UNREADABLE, f"nothing but damage from offset {self.next_offset} on")
        return cut.parts

    def _advance(self, asked: Wanted, cut: Cut, seen: int) -> None:
        self._is_waiting = False
        self._bytes_max = self._fetch_bytes
        self._pause_ms = PAUSE_MS
        self._trouble_since_ms = None
        self._floor = self.next_offset = max(self.next_offset, cut.next_offset)
        if cut.tail_position is None:  # nothing in its place: ask again, and for more
            self._tail_offset, self._tail_bytes = asked.offset, seen + cut.end_position
        elif self._is_compacted:
            self._tail_offset, self._tail_bytes = None, 0
        else:
            self._tail_offset = cut.next_offset - 1
            self._tail_bytes = cut.end_position - cut.tail_position

    def _on_nothing(self, asked: Wanted, torn_bytes: int, now_ms: int) -> None:
        """React to an answer without a whole new batch."""
        if torn_bytes:  # one that is larger than what was asked for
            if self._bytes_max >= FETCH_BYTES_MAX:
                self._finish(End.UNREADABLE, f"a batch of more than {FETCH_BYTES_MAX} bytes")
            self._bytes_max = min(2 * self._bytes_max, FETCH_BYTES_MAX)
        elif self.next_offset >= self._end:
            self._finish(End.WHOLE)
        elif not self._is_waiting and asked.offset == self._tail_offset:
            self._is_waiting = True  # the next request waits at the broker for what follows
        elif self.high_watermark >= self._end:
            self._finish(End.WHOLE)  # it has nothing up to the end: a gap
        else:
            self._is_waiting = True
            self._on_behind(now_ms)

    def _on_error(self, asked: Wanted, answer: FetchedPartition, now_ms: int) -> None:
        error = answer.error
        if error is ErrorCode.OFFSET_OUT_OF_RANGE and answer.log_start_offset > asked.offset:
            # Retention has removed the offset.
            self._tail_offset = None
            self.next_offset = max(self.next_offset, answer.log_start_offset)
            self._start = max(self._start, answer.log_start_offset)
            if self.next_offset >= self._end:
                self._finish(End.WHOLE)
        elif error in _NOT_YET:
            self._on_behind(now_ms)
        elif error.is_retriable:
            self.on_lost(error.name, now_ms=now_ms)
        else:
            self._finish(End.UNREADABLE, error.name)

    def on_lost(self, reason: str, *, now_ms: int) -> None:
        """React to a missing or unusable answer."""
        if self._is_out_of_patience(now_ms):
            self._finish(End.UNREADABLE, reason)

    def on_left(self) -> None:
        """End: the broker has no replica of the partition any more."""
        self._finish(End.LEFT)

    def _on_behind(self, now_ms: int) -> None:
        """React to a replica that does not know yet that these offsets are committed."""
        if self._behind_since_ms is None:
            self._behind_since_ms = now_ms
            self._watermark_before = self.high_watermark
        is_spent = self._is_out_of_patience(now_ms)
        if self._is_in_sync:
            if is_spent:
                self._finish(End.STALE, self._behind())
        elif now_ms - self._behind_since_ms >= self._patience_ms:
            moves = self.high_watermark > self._watermark_before
            self._finish(End.CATCHING_UP if moves else End.STALE, self._behind())

    def _is_out_of_patience(self, now_ms: int) -> bool:
        self.not_before_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, PAUSE_MAX_MS)
        if self._trouble_since_ms is None:
            self._trouble_since_ms = now_ms
        return now_ms - self._trouble_since_ms >= self._patience_ms

    def _behind(self) -> str:
        knows = f"up to {self.high_watermark - 1}" if self.high_watermark > 0 else "none"
        return f"of the records up to {self._end - 1}, which are committed, it knows {knows}"

    def _finish(self, end: End, reason: str = "") -> None:
        self.end, self.reason = end, reason


def _was_all(asked: Wanted, answer: FetchedPartition, next_offset: int) -> bool:
    """Return whether the answer had room for a further batch below the high watermark, if there were one."""
    return next_offset >= answer.high_watermark and 2 * len(answer.view) <= asked.bytes_max
