"""What stands where: no offset has two values, no value two offsets, and nothing is read that was not
written.

An offset with two values is the one thing that no configuration of Kafka allows without an unclean election:
two readers hold different histories. A value at two offsets is what retries do without idempotence, so it is
bad only of an idempotent sender, and not where the dumps show that this client sent it again under another
producer epoch (identities.py).
"""

from __future__ import annotations

from collections.abc import Container

from .history import NO_OFFSET, Function, Item, Key, Outcome
from .identities import Identities
from .index import Index, KeyLog
from .options import CheckOptions
from .values import parse_value
from .verdict import Findings, Kind, Severity, show_key, show_value


def check_places(index: Index, findings: Findings, *, exposed: Container[str] = ()) -> int:
    """How many values stand at several offsets. exposed: transactions of which an aborted record may be read
    by a fault of Kafka's protocol."""
    duplicated = 0
    identities = Identities(index)
    for log in index.logs.values():
        _check_rivals(log, findings)
        duplicated += _check_duplicates(index, log, identities, findings)
        _check_failed(index, log, exposed, findings)
    _check_unknown(index, findings)
    return duplicated


def _check_rivals(log: KeyLog, findings: Findings) -> None:
    for offset, rivals in log.rivals.items():
        findings.add(
            Kind.INCONSISTENT_OFFSETS,
            f"{show_key(log.key)} offset {offset} holds {' and '.join(map(show_value, rivals))}",
            key=log.key,
            offsets=(offset,),
            values=tuple(rivals),
            about=tuple(rivals.values()),
        )


def _check_duplicates(index: Index, log: KeyLog, identities: Identities, findings: Findings) -> int:
    twice = {value: set(offsets) for value, offsets in log.found_twice.items()}
    for offset, value in log.acked.items():
        place = log.places.get(value, offset)
        if place != offset:
            twice.setdefault(value, {place}).add(offset)
    duplicated = 0
    for value, found in twice.items():
        writer = log.sent.get(value)
        if writer is None:  # No client sent it: that is reported elsewhere, once.
            continue
        duplicated += 1
        offsets = sorted(found)
        send = index.operations[writer]
        is_idempotent = send.idempotent
        # A transaction ends with its producer's epoch: in one nothing can be sent again under another.
        was_sent_again = (
            is_idempotent
            and not send.transaction
            and identities.were_sent_again(log.key, offsets, send.process)
        )
        how = "with" if is_idempotent else "without"
        again = ", under an epoch of the producer each" if was_sent_again else ""
        findings.add(
            Kind.DUPLICATE,
            f"{show_value(value)}, sent once {how} idempotence, stands at "
            f"offsets {', '.join(map(str, offsets))} of {show_key(log.key)}{again}",
            key=log.key,
            severity=Severity.BAD if is_idempotent and not was_sent_again else Severity.COUNTED,
            offsets=offsets,
            values=(value,),
            about=(writer, *(log.told_by(offset, value) for offset in offsets)),
        )
    return duplicated


def _check_unknown(index: Index, findings: Findings) -> None:
    """Values that were never sent to where they were read."""
    unknown = [
        (log, value, offset)
        for log in index.logs.values()
        for value, offset in log.places.items()
        if value not in log.sent
    ]
    homes: dict[str, Key] = {}
    if unknown:
        homes = {value: log.key for log in index.logs.values() for value in log.sent}
    for log, value, offset in unknown:
        said = parse_value(value)
        home = homes.get(value) or (said.key if said is not None else None)
        if home is not None and home != log.key:
            kind, what = Kind.MISPLACED, f"was sent to {show_key(home)} and read from {show_key(log.key)}"
        elif said is not None:
            kind, what = Kind.PHANTOM, f"was read from {show_key(log.key)}, and nobody sent it"
        else:
            kind, what = Kind.CORRUPT, f"was read from {show_key(log.key)}, and is no whole value"
        about = [log.told_by(offset, value)]
        if value in homes:
            about.append(index.logs[homes[value]].sent[value])
        findings.add(
            kind,
            f"{show_value(value)} {what} (offset {offset})",
            key=log.key,
            offsets=(offset,),
            values=(value,),
            about=about,
        )


def _check_failed(index: Index, log: KeyLog, exposed: Container[str], findings: Findings) -> None:
    """G1a: reading what was refused or aborted for sure. Retries after a refusal that was none end here."""
    for value, writer in log.sent.items():
        send = index.operations[writer]
        if send.type is Outcome.FAIL and value in log.places:
            offset = log.places[value]
            fate = (
                f"its transaction {send.transaction} aborted" if send.transaction else "its send was refused"
            )
            findings.add(
                Kind.G1A,
                f"{show_value(value)} was read at offset {offset} of {show_key(log.key)}, and {fate} "
                f"({send.error or 'no error told'})",
                key=log.key,
                severity=Severity.COUNTED if send.transaction in exposed else Severity.BAD,
                offsets=(offset,),
                values=(value,),
                about=(log.told_by(offset, value), writer),
            )


class _Committed:
    """What is committed in one partition, by the first operation that showed it."""

    def __init__(self, log: KeyLog, *, is_unclean: bool) -> None:
        self.key = log.key
        # An unclean election drops what was read; replicas agree with each other all the same.
        self.values = {} if is_unclean else dict(log.read)
        self.told_by = {} if is_unclean else dict(log.first_read)

    def compare(self, number: int, item: Item, findings: Findings) -> None:
        offset, value = item
        known = self.values.setdefault(offset, value)
        told_by = self.told_by.setdefault(offset, number)
        if known != value:
            findings.add(
                Kind.REPLICAS_DIFFER,
                f"{show_key(self.key)} offset {offset} is {show_value(value)} in one replica, below its high "
                f"watermark, and {show_value(known)} elsewhere",
                key=self.key,
                offsets=(offset,),
                values=(value, known),
                about=(number, told_by),
            )


def check_replicas(index: Index, options: CheckOptions, findings: Findings) -> None:
    """What replicas hold below their own high watermarks is the same, nothing is missing in between, and it
    is what readers were given."""
    contents: dict[Key, dict[str, list[int]]] = {}
    for number, operation in enumerate(index.operations):
        if (
            operation.f is Function.DUMP
            and operation.key is not None
            and operation.high_watermark is not None
        ):
            contents.setdefault(operation.key, {}).setdefault(operation.process, []).append(number)
    for key, replicas in contents.items():
        committed = _Committed(index.log(key), is_unclean=key in options.unclean)
        held: dict[str, set[int]] = {}
        for replica, dumps in replicas.items():
            end = max(_watermark(index, number) for number in dumps)
            offsets = held[replica] = set[int]()
            for number in dumps:
                for item in index.operations[number].items:
                    offsets.add(item[0])
                    if item[0] < end:
                        committed.compare(number, item, findings)
        for replica, dumps in replicas.items():
            start = max(index.operations[number].log_start_offset or 0 for number in dumps)
            end = max(_watermark(index, number) for number in dumps)
            missing = sorted(o for o in committed.values.keys() - held[replica] if start <= o < end)
            if missing:
                findings.add(
                    Kind.REPLICAS_DIFFER,
                    f"{replica} lacks {len(missing)} committed records of {show_key(key)}, the first at "
                    f"offset {missing[0]}, although its log spans {start} to {end}",
                    key=key,
                    offsets=missing,
                    values=tuple(committed.values[offset] for offset in missing[:10]),
                    about=(dumps[0], committed.told_by[missing[0]]),
                )


def _watermark(index: Index, number: int) -> int:
    watermark = index.operations[number].high_watermark
    return NO_OFFSET if watermark is None else watermark
