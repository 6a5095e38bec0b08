"""What is missing: records that were acknowledged, or that a client has read, and that are there no more.

Each missing record gets one name:

- *lost-acked*: acknowledged, and the final read does not have it. With the replicas' contents it is told
  apart: *lost* (no replica has it), *hidden* (a replica has it and no leader serves it), *retained away*.
- *lost-write* (the Jepsen rule): written for certain, and readers passed its offset without it. It needs no
  final read; where there is one it says no more of a record that is lost-acked already.
- *read-then-gone*: read once, and later a reader passes its offset, or the final read ends, without it. Said
  beside lost-acked too: then a consumer acted on a record that the log denies.

A record without the promise (acks other than all) is counted. Whether a partition may lose its beginning is
for the run to say (options.py): a leader that moves its log start too far must not be its own excuse.
"""

from __future__ import annotations

from typing import NamedTuple

from .history import ACKS_ALL, NO_OFFSET, Function, Key, Operation, Outcome
from .index import Index, KeyLog, Step
from .options import CheckOptions
from .verdict import Findings, Kind, Severity, show_key, show_value

EXAMINED_MAX = 100
"""Offsets within one step of a reader that are looked at one by one. A longer jump is named by its first
ones, so that many readers that jump far cost no more than that."""


class Losses(NamedTuple):
    """Counts of values; `excused`: acknowledged values whose absence is explained, by partition."""

    lost: int
    hidden: int
    retained_away: int
    unpromised: int
    excused: dict[Key, set[str]]


class _Missing(NamedTuple):
    log: KeyLog
    send: int
    offset: int
    value: str


def check_losses(index: Index, options: CheckOptions, findings: Findings) -> Losses:
    missing, excused = _find_missing(index, options)
    where = _find_in_replicas(index, missing) if index.has_final_read else {}
    lost = hidden = unpromised = 0
    for case in missing:
        holders = where.get((case.log.key, case.value), [])
        is_given_up = case.log.key in options.unclean and bool(holders)
        with_all = index.operations[case.send].acks == ACKS_ALL
        promised = with_all and not is_given_up
        severity = Severity.BAD if promised else Severity.COUNTED
        lost, unpromised = lost + promised, unpromised + (not promised)
        if not index.has_final_read:
            _add_lost_write(index, case, severity, findings)
            continue
        hidden += bool(holders) and promised
        findings.add(
            Kind.LOST_ACKED,
            f"{show_value(case.value)} was acknowledged "
            f"{'' if with_all else 'without acks=all '}at offset {_show_offset(case.offset)} of "
            f"{show_key(case.log.key)} and the final read does not have it: {_fate(index, case, holders)}",
            key=case.log.key,
            severity=severity,
            offsets=() if case.offset == NO_OFFSET else (case.offset,),
            values=(case.value,),
            about=(case.send, *holders),
        )
    for case in _find_unacked_but_proven(index, options):
        lost += case.log.key not in options.unclean
        _add_lost_write(index, case, Severity.BAD, findings)
    if index.has_final_read:
        _check_gone_from_final_read(index, options, findings)
    elif options.final_read and any(log.acked for log in index.logs.values()):
        findings.add(
            Kind.NO_FINAL_READ,
            "the history has acknowledged writes and no final read: nothing shows that they survived",
            key=None,
        )
    else:
        _count_unseen(index, excused, findings)
    return Losses(lost, hidden, sum(map(len, excused.values())), unpromised, excused)


def is_excused(log: KeyLog, operation: Operation, offset: int, options: CheckOptions) -> bool:
    """Retention or the topic's deletion explains that the record is not there."""
    return operation.t_invoke_ns < log.deleted_ns or (
        options.retention and NO_OFFSET < offset < log.log_start_offset
    )


def _find_missing(index: Index, options: CheckOptions) -> tuple[list[_Missing], dict[Key, set[str]]]:
    """Acknowledged values that should have been read and were not, and those whose absence is explained."""
    missing: list[_Missing] = []
    excused: dict[Key, set[str]] = {}
    for number in index.order:
        operation = index.operations[number]
        if operation.f is not Function.SEND or operation.type is not Outcome.OK or operation.key is None:
            continue
        log = index.logs[operation.key]
        for offset, value in operation.items:
            if value in log.final_values or (not index.has_final_read and value in log.places):
                continue
            if is_excused(log, operation, offset, options):
                excused.setdefault(log.key, set()).add(value)
            elif index.has_final_read or (offset != NO_OFFSET and log.was_passed(offset)):
                missing.append(_Missing(log, number, offset, value))
    return missing, excused


def _find_in_replicas(index: Index, missing: list[_Missing]) -> dict[tuple[Key, str], list[int]]:
    """The dumps that hold each missing value."""
    wanted = {(case.log.key, case.value) for case in missing}
    found: dict[tuple[Key, str], list[int]] = {}
    if not wanted:
        return found
    for number, operation in enumerate(index.operations):
        if operation.f is Function.DUMP and operation.key is not None:
            for _, value in operation.items:
                if (place := (operation.key, value)) in wanted:
                    found.setdefault(place, []).append(number)
    return found


def _fate(index: Index, case: _Missing, holders: list[int]) -> str:
    if holders:
        names = dict.fromkeys(index.operations[number].process for number in holders)
        return f"hidden, it is in the log of {', '.join(names)} and not served"
    if NO_OFFSET < case.offset < case.log.log_start_offset:
        return f"the log starts at {case.log.log_start_offset}, and nothing here may be retained away"
    if case.log.key in index.dumped:
        return "lost, no replica has it"
    return "lost (no replica's contents were given)"


def _show_offset(offset: int) -> str:
    return "unknown" if offset == NO_OFFSET else str(offset)


def _add_lost_write(index: Index, case: _Missing, severity: Severity, findings: Findings) -> None:
    how = "acknowledged" if index.operations[case.send].type is Outcome.OK else "proven written by its batch"
    passed_by = case.log.next_read_offset(case.offset)
    findings.add(
        Kind.LOST_WRITE,
        f"{show_value(case.value)} was {how} at offset {case.offset} of {show_key(case.log.key)}; readers "
        "went past that offset and none was given it",
        key=case.log.key,
        severity=severity,
        offsets=(case.offset,),
        values=(case.value,),
        about=(case.send, *((case.log.first_read[passed_by],) if passed_by >= 0 else ())),
    )


def _find_unacked_but_proven(index: Index, options: CheckOptions) -> list[_Missing]:
    """Return sends of one batch that no broker answered: a batch is all or nothing, so one record that was
    read proves the others and their offsets."""
    found: list[_Missing] = []
    for number in index.order:
        operation = index.operations[number]
        if operation.type is not Outcome.INFO or operation.producer is None or operation.key is None:
            continue
        log = index.logs[operation.key]
        values = [value for _, value in operation.items]
        anchor = next(((n, log.places[v]) for n, v in enumerate(values) if v in log.places), None)
        if anchor is None:
            continue
        base = anchor[1] - anchor[0]
        for position, value in enumerate(values):
            offset = base + position
            if value not in log.places and log.was_passed(offset):
                if is_excused(log, operation, offset, options):
                    continue
                found.append(_Missing(log, number, offset, value))
    return found


def _check_gone_from_final_read(index: Index, options: CheckOptions, findings: Findings) -> None:
    for log in index.logs.values():
        for value in [value for value in log.places if value not in log.final_values]:
            offset = log.places[value]
            if offset in log.rivals:  # Another value took its place: inconsistent-offsets has said so.
                continue
            reader = index.operations[log.first_read[offset]]
            if is_excused(log, reader, offset, options) or value not in log.sent:
                continue
            findings.add(
                Kind.READ_THEN_GONE,
                f"{show_value(value)} was read at offset {offset} of {show_key(log.key)}, and the final read "
                "does not have it",
                key=log.key,
                offsets=(offset,),
                values=(value,),
                about=(log.first_read[offset],),
            )


def _count_unseen(index: Index, excused: dict[Key, set[str]], findings: Findings) -> None:
    for log in index.logs.values():
        unseen = [
            (o, v)
            for o, v in log.acked.items()
            if v not in log.places and v not in excused.get(log.key, ()) and not log.was_passed(o)
        ]
        if unseen:
            findings.add(
                Kind.UNSEEN,
                f"{len(unseen)} acknowledged records of {show_key(log.key)} were read by nobody when the "
                "history ended",
                key=log.key,
                severity=Severity.COUNTED,
                offsets=[offset for offset, _ in unseen],
                values=[value for _, value in unseen],
                about=(log.acked_by[unseen[0][0]],),
            )


def find_last_reads(index: Index, wanted: dict[Key, set[int]]) -> dict[tuple[Key, int], int]:
    """When each of these offsets was last asked for and returned: the latest invocation among its polls."""
    last: dict[tuple[Key, int], int] = {}
    if not any(wanted.values()):
        return last
    for operation in index.operations:
        if operation.f is Function.POLL and operation.key is not None and operation.key in wanted:
            offsets = wanted[operation.key]
            for offset, _ in operation.items:
                if offset in offsets:
                    place = (operation.key, offset)
                    last[place] = max(last.get(place, -1), operation.t_invoke_ns)
    return last


class Skip(NamedTuple):
    """A reader went over offsets that others have read."""

    log: KeyLog
    step: Step
    total: int
    offsets: list[int]


def check_skips(index: Index, options: CheckOptions, findings: Findings) -> None:
    """Name every jump over records that some reader was given: the jump's own fault (poll-skip), or that of a
    log that no longer has them (read-then-gone). Holes that no client ever read are legal, or lost writes."""
    skips: list[Skip] = []
    wanted: dict[Key, set[int]] = {}
    for log in index.logs.values():
        for step in log.steps:
            if step.got > step.expected:
                total, offsets = log.read_between(step.expected, step.got, limit=EXAMINED_MAX)
                if total:
                    skips.append(Skip(log, step, total, offsets))
                    wanted.setdefault(log.key, set()).update(offsets)
    last_reads = find_last_reads(index, wanted)
    gone_already: set[tuple[Key, int]] = set()
    for skip in skips:
        gone, skipped = _part(index, options, skip, last_reads)
        if skipped:
            _add_skip(index, skip, skipped, findings)
        fresh = [offset for offset in gone if (skip.log.key, offset) not in gone_already]
        gone_already.update((skip.log.key, offset) for offset in fresh)
        # What the final read lacks is named once, there, with all that it lacks.
        fresh = [o for o in fresh if not index.has_final_read or skip.log.read[o] in skip.log.final_values]
        for offset in fresh:
            findings.add(
                Kind.READ_THEN_GONE,
                f"offset {offset} of {show_key(skip.log.key)} was read, and a later read went on past it "
                f"from {skip.step.expected} to {skip.step.got}",
                key=skip.log.key,
                offsets=(offset,),
                values=(skip.log.read[offset],),
                about=(skip.step.poll, skip.log.first_read[offset]),
            )


def _part(
    index: Index, options: CheckOptions, skip: Skip, last_reads: dict[tuple[Key, int], int]
) -> tuple[list[int], list[int]]:
    """The offsets of the jump that were gone by then, and those that were there to be read."""
    poll = index.operations[skip.step.poll]
    gone: list[int] = []
    skipped: list[int] = []
    for offset in skip.offsets:
        last_read_ns = last_reads[(skip.log.key, offset)]
        is_readable_later = last_read_ns >= poll.t_return_ns
        if not is_readable_later and options.retention and offset < skip.log.log_start_offset:
            continue
        first = index.operations[skip.log.first_read[offset]]
        is_gone = first.t_return_ns < poll.t_invoke_ns and last_read_ns < poll.t_invoke_ns
        (gone if is_gone else skipped).append(offset)
    return gone, skipped


def _add_skip(index: Index, skip: Skip, skipped: list[int], findings: Findings) -> None:
    step = skip.step
    is_inside = step.poll == step.previous
    findings.add(
        Kind.INT_POLL_SKIP if is_inside else Kind.POLL_SKIP,
        f"{index.operations[step.poll].process} read on from {step.expected} to {step.got} of "
        f"{show_key(skip.log.key)}{' inside one poll' if is_inside else ''}, over {skip.total} records that "
        "were read",
        key=skip.log.key,
        offsets=skipped,
        values=[skip.log.read[offset] for offset in skipped],
        about=(step.poll, step.previous, skip.log.first_read[skipped[0]]),
    )
