"""In which order one client saw and wrote: a log is read forwards, and written in the order of the sends.

Skips of readers are in losses.py, because what a reader skipped may be gone. A reader that was moved on
purpose says so with an `assign`.
"""

from __future__ import annotations

from itertools import pairwise

from .history import NO_OFFSET, Function, Key, Operation, Outcome
from .index import Index
from .verdict import Findings, Kind, Severity, show_key


def check_polls(index: Index, findings: Findings) -> None:
    """No reader is given again what it was given, without asking for it."""
    for log in index.logs.values():
        for step in log.steps:
            if step.got < step.expected:
                is_inside = step.poll == step.previous
                findings.add(
                    Kind.INT_NONMONOTONIC_POLL if is_inside else Kind.NONMONOTONIC_POLL,
                    f"{index.operations[step.poll].process} was at {step.expected} of {show_key(log.key)} "
                    f"and was given {step.got}{' inside one poll' if is_inside else ''}",
                    key=log.key,
                    offsets=(step.expected, step.got),
                    about=(step.poll, step.previous),
                )


def check_sends(index: Index, findings: Findings) -> None:
    """Records stand in the order in which their process sent them; in one send, without gaps.

    Without idempotence a retry may overtake its successor, so that is counted there. A gap inside one batch
    is bad; inside a send that may be several batches it is counted, if another's record stands in it.
    """
    by_process: dict[tuple[str, Key], list[int]] = {}
    for number in index.order:
        operation = index.operations[number]
        if operation.f is Function.SEND and operation.type is Outcome.OK and operation.key is not None:
            _check_inside(index, number, operation, operation.key, findings)
            if operation.items[0][0] != NO_OFFSET:
                by_process.setdefault((operation.process, operation.key), []).append(number)
    for (process, key), numbers in by_process.items():
        numbers.sort(key=lambda number: index.operations[number].t_invoke_ns)
        highest, highest_by = NO_OFFSET, NO_OFFSET
        for number in numbers:
            operation = index.operations[number]
            first = operation.items[0][0]
            if first <= highest and operation.t_invoke_ns > index.operations[highest_by].t_invoke_ns:
                findings.add(
                    Kind.NONMONOTONIC_SEND,
                    f"{process} had {highest} of {show_key(key)} acknowledged for an earlier send, and "
                    f"{first} for a later one",
                    key=key,
                    severity=Severity.BAD if operation.idempotent else Severity.COUNTED,
                    offsets=(highest, first),
                    about=(number, highest_by),
                )
            last = max(offset for offset, _ in operation.items)
            if last > highest:
                highest, highest_by = last, number


def _check_inside(index: Index, number: int, operation: Operation, key: Key, findings: Findings) -> None:
    log = index.logs[key]
    is_batch = operation.producer is not None
    for (before, _), (after, _) in pairwise(operation.items):
        if NO_OFFSET in (before, after) or after == before + 1:
            continue
        if after <= before:
            findings.add(
                Kind.INT_NONMONOTONIC_SEND,
                f"one send to {show_key(key)} had {before} told for a record and {after} for the next",
                key=key,
                offsets=(before, after),
                about=(number,),
            )
        elif is_batch or before + 1 in log.acked or before + 1 in log.read:
            findings.add(
                Kind.INT_SEND_SKIP,
                f"one {'batch' if is_batch else 'send'} to {show_key(key)} has offsets {before} and {after} "
                "for records that follow one another",
                key=key,
                severity=Severity.BAD if is_batch else Severity.COUNTED,
                offsets=(before, after),
                about=(number,),
            )
