"""A replica's answer, cut into runs of batches that can be compared, and faults between them.

A run is one stretch of bytes whose batches have sound headers and ascending offsets. Other bytes are a
`Fault`, which is reported and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.records.headers import BatchHeaders, survey_headers
from pipeline.records.varints import Octets
from pipeline.verify.findings import Flaw


@dataclass(slots=True, eq=False)
class BatchRun:
    """Batches `at` to `stop` (exclusive) of `headers` are still to be compared."""

    data: memoryview
    octets: Octets
    headers: BatchHeaders
    at: int
    stop: int

    @property
    def base_offset(self) -> int:
        return int(self.headers.base_offset[self.at])

    @property
    def last_offset(self) -> int:
        return int(self.headers.last_offset[self.at])

    @property
    def position(self) -> int:
        """Return where the run's first batch begins in `data`."""
        return int(self.headers.position[self.at])

    @property
    def end_position(self) -> int:
        last = self.stop - 1
        return int(self.headers.position[last] + self.headers.size_bytes[last])

    @property
    def first_batch(self) -> memoryview:
        return self.data[self.position : self.position + int(self.headers.size_bytes[self.at])]


@dataclass(frozen=True, slots=True)
class Fault:
    """A batch, or bytes, that can't stand in a log here. `first_offset` and `last_offset` are the header's if
    they can be believed (OFFSETS_GO_BACK), else where the log should continue."""

    kind: Flaw
    first_offset: int
    last_offset: int
    detail: str


@dataclass(frozen=True, slots=True)
class Cut:
    """`parts` in the order of the bytes. `next_offset` follows the last batch in its place, which begins at
    `tail_position`; without such a batch they are the floor and None. `end_position`: the bytes were
    understood up to there. `is_broken`: the bytes after it can't be. `is_past_end`: a batch at or after the
    end was there."""

    parts: tuple[BatchRun | Fault, ...]
    next_offset: int
    tail_position: int | None
    end_position: int
    is_broken: bool
    is_past_end: bool


def cut_runs(data: memoryview, *, floor: int, start: int, end: int) -> Cut:
    """Cut `data` into the batches that begin at or after `start` and below `end`. floor: the offset after the
    last batch before `data`. Batches below `start` are left out: they are not of this range."""
    headers, faults, broken = survey_headers(data)
    octets = np.frombuffer(data, np.uint8)
    count = len(headers)
    base, last = headers.base_offset, headers.last_offset
    parts: list[BatchRun | Fault]
    next_offset, tail, is_past_end = floor, None, False
    if count and not faults and base[0] >= floor and bool(np.all(base[1:] > last[:-1])):
        first, stop = int(np.searchsorted(base, start)), int(np.searchsorted(base, end))
        parts = [BatchRun(data, octets, headers, first, stop)] if first < stop else []
        next_offset, tail, is_past_end = int(last[-1]) + 1, int(headers.position[-1]), stop < count
    else:
        parts, floor, tail, is_past_end = _cut_damaged(
            data, octets, headers, faults, floor=floor, start=start, end=end
        )
        next_offset = floor
    if broken is not None and next_offset < end:
        parts.append(Fault(Flaw.MALFORMED_BATCH, next_offset, next_offset, broken.reason))
    return Cut(tuple(parts), next_offset, tail, headers.end, broken is not None, is_past_end)


def _cut_damaged(
    data: memoryview,
    octets: Octets,
    headers: BatchHeaders,
    faults: Mapping[int, str],
    *,
    floor: int,
    start: int,
    end: int,
) -> tuple[list[BatchRun | Fault], int, int | None, bool]:
    """Return (parts, offset after the last batch in its place, where that batch begins, whether a batch at or
    after the end was seen)."""
    parts: list[BatchRun | Fault] = []
    run: BatchRun | None = None
    tail: int | None = None
    is_past_end = False
    for index in range(len(headers)):
        base, last = int(headers.base_offset[index]), int(headers.last_offset[index])
        if index in faults:
            run = None
            if start <= floor < end:
                parts.append(Fault(Flaw.MALFORMED_BATCH, floor, floor, faults[index]))
            continue
        if base < floor:
            run = None
            if start <= base < end:
                detail = f"offsets {base} to {last} where {floor} was the next to come"
                parts.append(Fault(Flaw.OFFSETS_GO_BACK, base, last, detail))
            continue
        if base > floor and _is_misplaced(headers, index, floor):
            # The CRC does not cover the base offset. Believed, it would make later batches seem to go back.
            run = None
            due = floor + last - base
            if start <= floor < end:
                detail = f"its base offset is {base} where {floor} was due"
                parts.append(Fault(Flaw.MALFORMED_BATCH, floor, due, detail))
            floor, tail = due + 1, int(headers.position[index])
            continue
        floor, tail = last + 1, int(headers.position[index])
        if base >= end:
            is_past_end = True
            run = None
        elif base >= start:
            if run is None:
                run = BatchRun(data, octets, headers, index, index)
                parts.append(run)
            run.stop = index + 1
    return parts, floor, tail, is_past_end


def _is_misplaced(headers: BatchHeaders, index: int, due: int) -> bool:
    """Return whether the next batch begins where it would if this one began at offset `due`."""
    if index + 1 >= len(headers):
        return False
    span = int(headers.last_offset[index] - headers.base_offset[index]) + 1
    return int(headers.base_offset[index + 1]) == due + span
