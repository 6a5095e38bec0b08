"""All replicas of one range side by side, as their bytes come: equal, or which replica is wrong where.

    the same offset next everywhere, the same bytes --> taken as they are, many batches at a time
    anything else ------------------------------------> one batch offset at a time:

 1. The batch at the lowest offset that any replica has next is judged. A replica whose next batch begins
    later, or that ended after it, has no batch there.
 2. Among copies with a fitting CRC the right one is the one that most replicas have; if equally many, the
    leader's. A replica without a batch is wrong while another has a sound one: offsets are dense, so its log
    has a hole.
 3. A batch below the end of what was taken overlaps with it: its replica has a batch too many.
 4. The right batch goes to LogOrder, so a log that is damaged on one replica is checked as if it were not.

A replica that stopped early (it is behind, or can't be read) tells up to where it gave everything; after
that, and below its log start (retention runs meanwhile), a missing batch proves nothing.

The fast way compares bytes before it parses them: a second replica costs a memcmp. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
from crc32c import crc32c

from pipeline.records.headers import BatchHeaders
from pipeline.verify.batch_runs import BatchRun, Fault
from pipeline.verify.findings import EVERY_REPLICA, Findings, Flaw
from pipeline.verify.log_order import LogOrder
from springtide.wire.record_batch import CRC_START, CorruptBatch, decode_header
from springtide.wire.records import iter_records


class _Copy:
    """One replica's batches that wait for the others'."""

    __slots__ = (
        "broker_id",
        "is_malformed_told",
        "log_start_offset",
        "malformed",
        "parts",
        "reached",
        "waiting_bytes",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.parts: deque[BatchRun | Fault] = deque()
        self.waiting_bytes = 0
        self.log_start_offset = 0
        self.reached: int | None = None
        """The replica has ended, and has nothing more below this offset."""
        self.malformed: Fault | None = None
        """Bytes that are no batch, since the last compared batch. The other replicas' batches tell their
        offsets."""
        self.is_malformed_told = False

    @property
    def run(self) -> BatchRun | None:
        """The next part, if that is a run."""
        head = self.parts[0] if self.parts else None
        return head if isinstance(head, BatchRun) else None

    def lacks(self, offset: int) -> bool:
        """Return whether this replica, whose next batch does not begin at `offset`, should have a batch
        there: its next batch begins later, or it has ended above `offset`."""
        if offset < self.log_start_offset:
            return False
        return self.run is not None or (self.reached is not None and offset < self.reached)

    def drop(self, count: int) -> None:
        """Drop the first `count` batches of the run."""
        run = self.run
        assert run is not None, "only a run has batches"
        begin = run.position
        run.at += count
        self.waiting_bytes -= (run.position if run.at < run.stop else run.end_position) - begin
        if run.at == run.stop:
            self.parts.popleft()


class Comparison:
    """brokers: the replicas, the leader's first. Each replica's parts come in the order of offsets.
    is_whole: there are no replicas but these. is_compacted: batches may have been compressed again, and are
    equal if their headers and records are."""

    def __init__(
        self,
        brokers: Sequence[int],
        order: LogOrder,
        findings: Findings,
        *,
        is_whole: bool = True,
        is_compacted: bool = False,
    ) -> None:
        self._is_whole = is_whole
        self._is_compacted = is_compacted
        self._copies = {broker_id: _Copy(broker_id) for broker_id in brokers}
        self._order = order
        self._findings = findings
        self.compared_bytes = 0
        """Bytes of all replicas together."""

    def add(self, broker_id: int, parts: Sequence[BatchRun | Fault]) -> None:
        """Add the replica's next parts."""
        copy = self._copies[broker_id]
        assert copy.reached is None, "it had ended"
        copy.parts.extend(parts)
        copy.waiting_bytes += sum(
            part.end_position - part.position for part in parts if isinstance(part, BatchRun)
        )

    def on_log_start(self, broker_id: int, offset: int) -> None:
        """Note that the replica's log begins there now."""
        copy = self._copies[broker_id]
        copy.log_start_offset = max(copy.log_start_offset, offset)
        self._order.log_start_offset = max(self._order.log_start_offset, offset)

    def end(self, broker_id: int, reached: int) -> None:
        """Note that the replica has ended, and gave everything that it has below `reached`."""
        self._copies[broker_id].reached = reached

    def waiting_bytes(self, broker_id: int) -> int:
        """Return the bytes that wait for other replicas, which bounds how far a reader reads ahead."""
        return self._copies[broker_id].waiting_bytes

    def run(self) -> None:
        """Compare as far as there is something of every replica."""
        while self._step():
            pass

    def _step(self) -> bool:
        for copy in self._copies.values():
            while copy.parts and isinstance(fault := copy.parts[0], Fault):
                copy.parts.popleft()
                self._on_fault(copy, fault)
            if not copy.parts and copy.reached is None:
                return False
        live = [copy for copy in self._copies.values() if copy.parts]
        if not live:
            for copy in self._copies.values():
                self._on_sound(copy)
            return False
        offset = min(_run(copy).base_offset for copy in live)
        at = [copy for copy in live if _run(copy).base_offset == offset]
        lacking = [copy for copy in self._copies.values() if copy not in at and copy.lacks(offset)]
        is_plain = not lacking and len(at) == len(live) and offset >= self._order.next_offset
        if not (is_plain and self._take_equal(at)):
            self._judge(offset, at, lacking)
        return True

    def _take_equal(self, copies: list[_Copy]) -> bool:
        """Take the batches whose bytes all copies share; return whether the first one is among them."""
        runs = [_run(copy) for copy in copies]
        first = runs[0]
        headers, at = first.headers, first.at
        ends = headers.position[at : first.stop] + headers.size_bytes[at : first.stop] - first.position
        room = min(run.end_position - run.position for run in runs)
        mine = first.octets[first.position : first.position + room]
        same = room
        for run in runs[1:]:
            differs = mine[:same] != run.octets[run.position : run.position + same]
            if differs.any():
                same = int(differs.argmax())
        count = int(np.searchsorted(ends, same, side="right"))
        if count == 0:
            return False
        self._settle(copies, first, count)
        for copy in copies:
            copy.drop(count)
        return True

    def _settle(self, copies: list[_Copy], run: BatchRun, count: int) -> None:
        """Take the run's next `count` batches, which these copies have."""
        for copy in copies:
            self._on_sound(copy)
        stop = run.at + count
        bad = _bad_crcs(run.data, run.headers, run.at, stop)
        of_whom = [copy.broker_id for copy in copies]
        is_everywhere = self._is_whole and len(copies) == len(self._copies) > 1
        for index, detail in bad:
            first, last = int(run.headers.base_offset[index]), int(run.headers.last_offset[index])
            for broker_id in [EVERY_REPLICA] if is_everywhere else of_whom:
                self._findings.add(Flaw.CRC_MISMATCH, broker_id, first, last, detail)
        self._order.take(run.data, run.headers, run.at, stop)
        begin, last_index = run.position, stop - 1
        size = int(run.headers.position[last_index] + run.headers.size_bytes[last_index]) - begin
        self.compared_bytes += size * len(copies)

    def _judge(self, offset: int, at: list[_Copy], lacking: list[_Copy]) -> None:
        """Judge one batch offset at which the replicas don't agree."""
        last_offset = max(_run(copy).last_offset for copy in at)
        if offset < self._order.next_offset:
            for copy in at:
                self._on_sound(copy)
                self._tell(Flaw.BATCH_EXTRA, copy, offset, _run(copy).last_offset, "it overlaps the log")
                copy.drop(1)
            return
        groups: list[list[_Copy]] = []
        for copy in at:
            mine = _run(copy).first_batch
            for group in groups:
                other = _run(group[0]).first_batch
                if other == mine or (self._is_compacted and _are_equal_inside(other, mine)):
                    group.append(copy)
                    break
            else:
                groups.append([copy])
        # Sorting is stable: of equally many, those with the leader come first.
        groups.sort(key=lambda group: (_has_bad_crc(_run(group[0])), -len(group)))
        right, *wrong = groups
        expected = _run(right[0])
        for group in wrong:
            for copy in group:
                self._on_sound(copy)
                self._tell_wrong(copy, expected)
        for copy in lacking:
            if copy.malformed is not None:
                self._tell(Flaw.MALFORMED_BATCH, copy, offset, last_offset, copy.malformed.detail)
                copy.is_malformed_told = True
            else:
                self._tell(Flaw.BATCH_MISSING, copy, offset, last_offset, "it has none there")
        self._settle(right, expected, 1)
        for copy in at:
            self.compared_bytes += 0 if copy in right else len(_run(copy).first_batch)
            copy.drop(1)

    def _tell(self, kind: Flaw, copy: _Copy, first: int, last: int, detail: str) -> None:
        self._findings.add(kind, copy.broker_id, first, last, detail)

    def _tell_wrong(self, copy: _Copy, expected: BatchRun) -> None:
        run = _run(copy)
        bad = _bad_crcs(run.data, run.headers, run.at, run.at + 1)
        if bad:
            self._tell(Flaw.CRC_MISMATCH, copy, run.base_offset, run.last_offset, bad[0][1])
            return
        detail = f"{_described(run)}, not {_described(expected)}"
        last_offset = max(run.last_offset, expected.last_offset)
        self._tell(Flaw.BATCH_DIFFERS, copy, run.base_offset, last_offset, detail)

    def _on_fault(self, copy: _Copy, fault: Fault) -> None:
        if fault.kind is not Flaw.MALFORMED_BATCH:
            self._tell(fault.kind, copy, fault.first_offset, fault.last_offset, fault.detail)
        elif copy.malformed is None:
            copy.malformed, copy.is_malformed_told = fault, False

    def _on_sound(self, copy: _Copy) -> None:
        """Report malformed bytes before this batch or end, unless another replica had a batch in their
        place."""
        fault = copy.malformed
        if fault is not None and not copy.is_malformed_told:
            self._tell(fault.kind, copy, fault.first_offset, fault.last_offset, fault.detail)
        copy.malformed = None


def _run(copy: _Copy) -> BatchRun:
    run = copy.run
    assert run is not None, "asked only of a copy that has one next"
    return run


def _bad_crcs(data: memoryview, headers: BatchHeaders, start: int, stop: int) -> list[tuple[int, str]]:
    """Return (index, detail) of the batches whose bytes don't fit their CRC."""
    positions = headers.position[start:stop].tolist()
    sizes = headers.size_bytes[start:stop].tolist()
    stored = headers.crc[start:stop].tolist()
    return [
        (start + row, f"stored CRC {stored[row]:08x}, the bytes have {computed:08x}")
        for row, (position, size) in enumerate(zip(positions, sizes, strict=True))
        if (computed := crc32c(data[position + CRC_START : position + size])) != stored[row]
    ]


def _are_equal_inside(one: memoryview, other: memoryview) -> bool:
    """Return whether two batches are the same but for how they were compressed."""
    headers = [decode_header(batch)._replace(crc=0, batch_length=0) for batch in (one, other)]
    try:
        return headers[0] == headers[1] and list(iter_records(one)) == list(iter_records(other))
    except CorruptBatch:
        return False


def _has_bad_crc(run: BatchRun) -> bool:
    return bool(_bad_crcs(run.data, run.headers, run.at, run.at + 1))


def _described(run: BatchRun) -> str:
    headers, at = run.headers, run.at
    return (
        f"offsets {run.base_offset} to {run.last_offset} of leader epoch {int(headers.leader_epoch[at])}, "
        f"{int(headers.size_bytes[at])} bytes, CRC {int(headers.crc[at]):08x}"
    )
