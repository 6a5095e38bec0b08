"""One pass over a history: which value was seen at which offset, by which client, and in which steps.

Everything the checks ask is a dictionary or a sorted list here, so that each of them is linear (a bisection
where it must look between offsets). The pass runs in order of completion; ties keep the history's order.

A *step* is kept only where a reader did not go on at the very next offset: a healthy log has next to none.
A *run* is a stretch of offsets that one reader went over without being moved: what lies within a run and was
not returned was passed over.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from .history import NO_OFFSET, AdminAction, Function, History, HistoryError, Key, Operation, Outcome

NOWHERE = -1
FAIL = Outcome.FAIL


class Step(NamedTuple):
    """A reader at `expected` (the offset after its last one) was given `got` instead. `poll` is that poll,
    `previous` the operation that put it at `expected`; the same when the step is inside one poll."""

    poll: int
    previous: int
    expected: int
    got: int


class _Position:
    """Where one process stands in one partition."""

    __slots__ = ("by", "next_offset", "run_start")

    def __init__(self, *, by: int, next_offset: int) -> None:
        self.by = by
        self.next_offset = next_offset
        self.run_start = next_offset


class KeyLog:
    """What a history tells about one partition. Integers that are not offsets are indices of operations."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.sent: dict[str, int] = {}
        """Every value that was sent here, by its send."""
        self.acked: dict[int, str] = {}
        self.acked_by: dict[int, int] = {}
        self.read: dict[int, str] = {}
        """What was first read at each offset."""
        self.first_read: dict[int, int] = {}
        self.rivals: dict[int, dict[str, int]] = {}
        """Offsets at which two values were told of: each value with the operation that told it first."""
        self.places: dict[str, int] = {}
        """The inverse of `read`, and rivals that were read: where each value was found."""
        self.found_twice: dict[str, set[int]] = {}
        """Values that were read at several offsets."""
        self.steps: list[Step] = []
        self.runs: list[tuple[int, int]] = []
        self.final_values: set[str] = set()
        self.log_start_offset = 0
        """The highest that a client was told: what is below it was retained away, at some time."""
        self.deleted_ns = NOWHERE
        """When the last deletion of the topic completed."""
        self.records_read = 0
        self.rival_reads: list[tuple[int, str]] = []
        self._read_offsets: list[int] = []
        self._covered: list[tuple[int, int]] = []

    def finish(self) -> None:
        for offset, value in self.acked.items():
            known = self.read.get(offset)
            if known is not None and known != value:
                rivals = self.rivals.setdefault(offset, {known: self.first_read[offset]})
                rivals.setdefault(value, self.acked_by[offset])
        self.places = dict(zip(self.read.values(), self.read, strict=True))
        if len(self.places) != len(self.read):
            for offset, value in self.read.items():
                if self.places[value] != offset:
                    self.found_twice.setdefault(value, {self.places[value]}).add(offset)
        for offset, value in self.rival_reads:
            if self.places.setdefault(value, offset) != offset:
                self.found_twice.setdefault(value, {self.places[value]}).add(offset)
        self._read_offsets = sorted(self.read)
        for start, end in sorted(self.runs):
            if self._covered and start <= self._covered[-1][1]:
                self._covered[-1] = (self._covered[-1][0], max(end, self._covered[-1][1]))
            else:
                self._covered.append((start, end))

    def was_passed(self, offset: int) -> bool:
        """Whether some reader went over this offset."""
        at = bisect_right(self._covered, (offset, float("inf"))) - 1
        return at >= 0 and offset < self._covered[at][1]

    def told_by(self, offset: int, value: str) -> int:
        """Return the operation that first told of this value at this offset."""
        if self.read.get(offset) == value:
            return self.first_read[offset]
        rival = self.rivals.get(offset, {}).get(value)
        return self.sent[value] if rival is None else rival

    def read_between(self, start: int, end: int, *, limit: int) -> tuple[int, list[int]]:
        """Return how many offsets in [start, end) a client ever read, and the first `limit` of them."""
        low, high = bisect_left(self._read_offsets, start), bisect_left(self._read_offsets, end)
        return max(0, high - low), self._read_offsets[low : min(high, low + limit)]

    def next_read_offset(self, offset: int) -> int:
        """Return the first offset from `offset` on that a client ever read; NOWHERE if there is none."""
        if offset in self.read:
            return offset
        at = bisect_left(self._read_offsets, offset)
        return self._read_offsets[at] if at < len(self._read_offsets) else NOWHERE


class Index:
    """All partitions of a history. Build it with `build_index`."""

    def __init__(self, history: History) -> None:
        self.operations = history.operations
        self.logs: dict[Key, KeyLog] = {}
        self.order: list[int] = sorted(
            range(len(self.operations)), key=lambda index: self.operations[index].t_return_ns
        )
        self.has_final_read = False
        self.dumped: set[Key] = set()
        """Partitions of which some replica's contents are known."""
        self._positions: dict[str, dict[Key, _Position]] = {}

    def log(self, key: Key) -> KeyLog:
        found = self.logs.get(key)
        if found is None:
            found = self.logs[key] = KeyLog(key)
        return found

    # --- one operation ----------------------------------------------------------------------------------

    def on_send(self, index: int, operation: Operation) -> None:
        assert operation.key is not None
        log = self.log(operation.key)
        is_ok = operation.type is Outcome.OK
        for offset, value in operation.items:
            if value in log.sent:
                raise HistoryError(
                    f"operations {log.sent[value] + 1} and {index + 1} send the same value {value!r}: "
                    "values must be unique, or nothing can be told from them"
                )
            log.sent[value] = index
            if not is_ok or offset == NO_OFFSET:
                continue
            known = log.acked.setdefault(offset, value)
            if known == value:
                log.acked_by[offset] = index
            else:
                rivals = log.rivals.setdefault(offset, {known: log.acked_by[offset]})
                rivals.setdefault(value, index)

    def on_poll(self, index: int, operation: Operation) -> None:
        positions = self._positions.setdefault(operation.process, {})
        if operation.key is None:
            return
        log = self.log(operation.key)
        position = positions.get(operation.key)
        if operation.final:
            self.has_final_read = True
            log.final_values.update([value for _, value in operation.items])
        if operation.items:
            log.records_read += len(operation.items)
            if position is None:
                position = _Position(by=index, next_offset=operation.items[0][0])
            self._walk(log, index, operation, position)
        if operation.type is Outcome.OK:
            if position is not None:
                positions[operation.key] = position
        else:  # The reader's position after this poll is not known.
            self._forget(operation.process, operation.key, position)

    @staticmethod
    def _walk(log: KeyLog, index: int, operation: Operation, position: _Position) -> None:
        """The hot loop: once for each record read."""
        read, first_read = log.read, log.first_read
        expected, by = position.next_offset, position.by
        for offset, value in operation.items:
            if offset != expected:
                log.steps.append(Step(index, by, expected, offset))
                if offset < expected:
                    log.runs.append((position.run_start, expected))
                    position.run_start = offset
            expected, by = offset + 1, index
            known = read.get(offset)
            if known is None:
                read[offset] = value
                first_read[offset] = index
            elif known != value:
                log.rivals.setdefault(offset, {known: first_read[offset]}).setdefault(value, index)
                log.rival_reads.append((offset, value))
        position.next_offset, position.by = expected, index

    def on_assign(self, index: int, operation: Operation) -> None:
        if operation.key is None:
            for key in list(self._positions.get(operation.process, {})):
                self._forget(operation.process, key)
            return
        self._forget(operation.process, operation.key)
        if operation.from_offset is not None and operation.type is Outcome.OK:
            self._positions.setdefault(operation.process, {})[operation.key] = _Position(
                by=index, next_offset=operation.from_offset
            )

    def _forget(self, process: str, key: Key, position: _Position | None = None) -> None:
        kept = self._positions.get(process, {}).pop(key, None)
        position = position or kept
        if position is not None and position.next_offset > position.run_start:
            self.log(key).runs.append((position.run_start, position.next_offset))

    def on_log_start(self, operation: Operation) -> None:
        start = operation.log_start_offset
        if start is not None and operation.key is not None:
            log = self.log(operation.key)
            log.log_start_offset = max(log.log_start_offset, start)

    def finish(self) -> None:
        for process, positions in self._positions.items():
            for key in list(positions):
                self._forget(process, key)
        for log in self.logs.values():
            log.finish()


def build_index(history: History) -> Index:
    """Raises HistoryError where two sends have the same value."""
    index = Index(history)
    deleted_ns: dict[str, int] = {}
    for number in index.order:
        operation = index.operations[number]
        match operation.f:
            case Function.SEND:
                index.on_send(number, operation)
            case Function.POLL:
                index.on_poll(number, operation)
                index.on_log_start(operation)
            case Function.LIST_OFFSETS:
                index.on_log_start(operation)
            case Function.ASSIGN:
                index.on_assign(number, operation)
            case Function.ADMIN:
                call = operation.admin
                if call is not None and call.action is AdminAction.DELETE and operation.type is not FAIL:
                    deleted_ns[call.topic] = operation.t_return_ns
            case Function.DUMP:
                assert operation.key is not None
                index.dumped.add(operation.key)
            case Function.TRANSACTION | Function.FAULT:
                pass
    index.finish()
    for log in index.logs.values():
        log.deleted_ns = deleted_ns.get(log.key[0], NOWHERE)
    return index
