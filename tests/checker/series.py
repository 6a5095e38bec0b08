"""Measures over time: how many writes succeed, how long none does, what no reader has seen yet, how stale
readers are. Each is a figure with its series; a bound that the run sets on one makes exceeding it an anomaly.

Windows count from the first invocation of the history.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from .history import NO_OFFSET, Function, Key, Operation, Outcome
from .index import Index
from .options import CheckOptions
from .verdict import Findings, Kind, Point, Window, show_key

MS = 1_000_000
WINDOWS_MAX = 100_000
"""Points of one series. A longer history gets wider windows."""


class Timeline:
    """Windows of a history."""

    def __init__(self, index: Index, options: CheckOptions) -> None:
        operations = index.operations
        self.start_ns = min((o.t_invoke_ns for o in operations), default=0)
        self.end_ns = max((o.t_return_ns for o in operations), default=0)
        width = options.window_ms * MS
        self.width_ns = width * max(1, -(-(self.end_ns - self.start_ns) // (width * WINDOWS_MAX)))

    def window(self, time_ns: int) -> int:
        return (time_ns - self.start_ns) // self.width_ns

    def at_ms(self, window: int) -> int:
        return window * self.width_ns // MS


class Availability(NamedTuple):
    windows: tuple[Window, ...]
    percent: float | None
    in_faults_percent: float | None


def measure_availability(index: Index, timeline: Timeline) -> Availability:
    """Sends that completed in each window, and the share that succeeded, by operation."""
    counts: dict[int, Counter[Outcome]] = {}
    faults: list[Operation] = []
    for operation in index.operations:
        if operation.f is Function.SEND and not _was_given_up(operation):
            counts.setdefault(timeline.window(operation.t_return_ns), Counter())[operation.type] += 1
        elif operation.f is Function.FAULT:
            faults.append(operation)
    during = _windows_of(faults, timeline)
    total, in_faults = Counter[Outcome](), Counter[Outcome]()
    windows: list[Window] = []
    for window in sorted(counts):
        count = counts[window]
        total.update(count)
        if window in during:
            in_faults.update(count)
        windows.append(
            Window(
                at_ms=timeline.at_ms(window),
                ok=count[Outcome.OK],
                fail=count[Outcome.FAIL],
                info=count[Outcome.INFO],
                during_fault=window in during,
            )
        )
    return Availability(tuple(windows), _percent(total), _percent(in_faults))


def _was_given_up(send: Operation) -> bool:
    """Whether its client aborted the transaction by its own will."""
    return bool(send.transaction) and send.type is Outcome.FAIL and not send.error


def _windows_of(faults: list[Operation], timeline: Timeline) -> set[int]:
    """Windows in which some fault lasted. Each window is added once, however many faults overlap in it."""
    windows: set[int] = set()
    done = -1
    for fault in sorted(faults, key=lambda fault: fault.t_invoke_ns):
        first, last = timeline.window(fault.t_invoke_ns), timeline.window(fault.t_return_ns)
        windows.update(range(max(first, done + 1), last + 1))
        done = max(done, last)
    return windows


def _percent(count: Counter[Outcome]) -> float | None:
    total = count.total()
    return 100 * count[Outcome.OK] / total if total else None


def check_stalls(index: Index, timeline: Timeline, options: CheckOptions, findings: Findings) -> int:
    """The longest time, in milliseconds, in which some partition's senders waited and none was acknowledged.

    Waiting begins with the first send after an acknowledgement (at the acknowledgement itself while others
    are on their way) and only an acknowledgement ends it: quick refusals do not.
    """
    sends: dict[Key, list[tuple[int, int, int]]] = {}
    for number, operation in enumerate(index.operations):
        if operation.f is Function.SEND and operation.key is not None:
            events = sends.setdefault(operation.key, [])
            # At equal times invocations come first: such operations overlap.
            events.append((operation.t_invoke_ns, 0, number))
            events.append((operation.t_return_ns, 1, number))
    longest_ns = 0
    for key, events in sends.items():
        stall_ns, ended_by = _longest_wait(index, sorted(events))
        longest_ns = max(longest_ns, stall_ns)
        if options.stall_ms_max is not None and stall_ns > options.stall_ms_max * MS:
            ended_ms = (index.operations[ended_by].t_return_ns - timeline.start_ns) // MS
            findings.add(
                Kind.STALL,
                f"{show_key(key)} acknowledged nothing for {stall_ns // MS} ms until {ended_ms} ms while "
                f"sends waited; {options.stall_ms_max} ms are allowed",
                key=key,
                about=(ended_by,),
            )
    return longest_ns // MS


def _longest_wait(index: Index, events: list[tuple[int, int, int]]) -> tuple[int, int]:
    """The longest wait and the operation at its end."""
    longest, ended_by = 0, events[-1][2]
    waiting_since: int | None = None
    pending = 0
    for time_ns, is_return, number in events:
        if not is_return:
            pending += 1
            waiting_since = time_ns if waiting_since is None else waiting_since
            continue
        pending -= 1
        assert waiting_since is not None
        if time_ns - waiting_since > longest:
            longest, ended_by = time_ns - waiting_since, number
        if index.operations[number].type is Outcome.OK:
            waiting_since = time_ns if pending else None
    return longest, ended_by


class Unseen(NamedTuple):
    """at_end: values. zero_ms: from the last acknowledgement until every acknowledged record had been read;
    None if that never came, or nothing was acknowledged."""

    at_end: int
    zero_ms: int | None
    series: dict[str, tuple[Point, ...]]


def measure_unseen(index: Index, timeline: Timeline, excused: dict[Key, set[str]]) -> Unseen:
    """Return the records acknowledged by each window's end and not read by then, per partition."""
    changes: dict[Key, Counter[int]] = {}
    at_end = 0
    last_ack = last_seen = -1
    for operation in index.operations:
        if operation.f is not Function.SEND or operation.type is not Outcome.OK or operation.key is None:
            continue
        log, acked_ns = index.logs[operation.key], operation.t_return_ns
        change = changes.setdefault(operation.key, Counter())
        last_ack = max(last_ack, acked_ns)
        for _, value in operation.items:
            offset = log.places.get(value)
            if offset is None and value in excused.get(operation.key, ()):
                continue
            change[timeline.window(acked_ns)] += 1
            if offset is None:
                at_end += 1
                continue
            seen_ns = max(acked_ns, index.operations[log.first_read[offset]].t_return_ns)
            last_seen = max(last_seen, seen_ns)
            change[timeline.window(seen_ns)] -= 1
    series: dict[str, tuple[Point, ...]] = {}
    for key, change in changes.items():
        points: list[Point] = []
        unseen = 0
        for window in sorted(change):
            if change[window]:
                unseen += change[window]
                points.append(Point(at_ms=timeline.at_ms(window), value=unseen))
        series[show_key(key)] = tuple(points)
    is_zero = at_end == 0 and last_seen >= 0
    return Unseen(at_end, max(0, last_seen - last_ack) // MS if is_zero else None, series)


class Lag(NamedTuple):
    max_ms: int
    series: dict[str, tuple[Point, ...]]


def check_lag(index: Index, timeline: Timeline, options: CheckOptions, findings: Findings) -> Lag:
    """How stale each poll left its reader: how long before the poll began the next record was known already,
    acknowledged or read. An empty poll without a key speaks for the whole assignment. The final read is old
    by design and does not count."""
    known = {key: _known_times(index, key) for key in index.logs}
    offsets = {key: sorted(times) for key, times in known.items()}
    positions: dict[str, dict[Key, int]] = {}
    largest: dict[Key, dict[int, int]] = {}
    worst: dict[Key, tuple[int, int]] = {}
    for number in index.order:
        operation = index.operations[number]
        standing = positions.setdefault(operation.process, {})
        if operation.f is Function.ASSIGN:
            _reposition(standing, operation)
            continue
        if operation.f is not Function.POLL or operation.final:
            continue
        if operation.key is not None and operation.items:
            standing[operation.key] = operation.items[-1][0] + 1
        for key in list(standing) if operation.key is None else [operation.key]:
            if key not in standing or key not in known:
                continue
            position = standing[key]
            if position not in known[key]:
                at = bisect_left(offsets[key], position)
                if at == len(offsets[key]):
                    continue
                position = offsets[key][at]
            lag_ns = operation.t_invoke_ns - known[key][position]
            if lag_ns > 0:
                windows = largest.setdefault(key, {})
                window = timeline.window(operation.t_return_ns)
                windows[window] = max(windows.get(window, 0), lag_ns // MS)
                worst[key] = max(worst.get(key, (0, number)), (lag_ns, number))
        if operation.type is not Outcome.OK and operation.key is not None:
            standing.pop(operation.key, None)
    for key, (lag_ns, number) in worst.items():
        if options.real_time_lag_ms_max is not None and lag_ns > options.real_time_lag_ms_max * MS:
            findings.add(
                Kind.REAL_TIME_LAG,
                f"{index.operations[number].process} polled {show_key(key)} and was not given a record that "
                f"had been known for {lag_ns // MS} ms; {options.real_time_lag_ms_max} ms are allowed",
                key=key,
                about=(number,),
            )
    series = {
        show_key(key): tuple(Point(at_ms=timeline.at_ms(w), value=windows[w]) for w in sorted(windows))
        for key, windows in largest.items()
    }
    return Lag(max((lag_ns for lag_ns, _ in worst.values()), default=0) // MS, series)


def _reposition(standing: dict[Key, int], operation: Operation) -> None:
    if operation.key is None:
        standing.clear()
    elif operation.from_offset is None:
        standing.pop(operation.key, None)
    else:
        standing[operation.key] = operation.from_offset


def _known_times(index: Index, key: Key) -> dict[int, int]:
    log = index.logs[key]
    times = {offset: index.operations[number].t_return_ns for offset, number in log.first_read.items()}
    for offset, number in log.acked_by.items():
        assert offset != NO_OFFSET
        acked_ns = index.operations[number].t_return_ns
        if acked_ns < times.get(offset, acked_ns + 1):
            times[offset] = acked_ns
    return times
