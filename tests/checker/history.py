"""The one history format: what each client asked, what it was told, and when.

A history is a sequence of completed operations. As a file it is JSON lines, one operation a line, written
when the operation completes; a line's number is how the checker names the operation. Times are nanoseconds of
one monotonic clock that all processes of the run share (in a simulation, of virtual time): order between
processes is judged by them, so two clocks in one history make its verdict worthless.

`ok` means: happened, exactly so. `fail` means: surely did not happen, and never will (outcomes.py has the
rule for sends). `info` means: the outcome can't be known, now or ever. A client that is not sure says `info`;
saying `fail` wrongly accuses the system of what the client made up.

Nothing here opens a file: the reader and the writer take streams. A hostile file costs bounded memory: a line
has a bound, and so has the number of lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO

import msgspec

LINE_BYTES_MAX = 16 * 1024 * 1024
LINES_MAX = 20_000_000
NAME_CHARACTERS_MAX = 256

NO_OFFSET = -1
"""The offset of a record whose sender was never told it."""
ACKS_ALL = -1

Key = tuple[str, int]
"""Topic and partition. Where a topic is deleted and made again, its id: names come back, ids never do."""

Item = tuple[int, str]
"""Offset and value. The value is text as values.py makes it: unique in the history."""


class HistoryError(ValueError):
    """The history is no history: the test that wrote it is broken, which says nothing about the system."""


class Function(StrEnum):
    SEND = "send"
    POLL = "poll"
    ASSIGN = "assign"
    LIST_OFFSETS = "list_offsets"
    TRANSACTION = "transaction"
    ADMIN = "admin"
    DUMP = "dump"
    FAULT = "fault"


class Outcome(StrEnum):
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


class AdminAction(StrEnum):
    CREATE = "create"
    DELETE = "delete"
    CONFIGURE = "configure"
    DESCRIBE = "describe"


class Sequence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Under which identity an idempotent producer sent a batch (KIP-98). `sequence` is the first record's."""

    id: int
    epoch: int
    sequence: int


class Batch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A batch header as it stands in a replica's log; producer_id -1 where the producer is not idempotent."""

    base_offset: int
    record_count: int
    leader_epoch: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class AdminCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What was asked of the controller about one topic.

    configs: of `create` all overrides, of `configure` those that are set ("" unsets one), of a `describe`
    that succeeded those that were answered.
    exists: what a refused call or a `describe` proved about the topic's existence; None where it proves
    nothing.
    """

    action: AdminAction
    topic: str
    configs: dict[str, str] = {}
    exists: bool | None = None


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """One completed operation.

    process: who did it. A process does one thing at a time, except that its sends may overlap (a producer
        pipelines); a client that is started again is a new process.
    f, type: see the module. t_invoke_ns, t_return_ns: of the shared clock; for a fault, how long it lasted.
    key: which partition; None only for a poll that asked every partition of its assignment and got nothing,
        for an `assign` that forgets every position (a rebalance), and for `admin` and `fault`.
    items: of a send what was to be written, in order, with NO_OFFSET where no offset was told; of a poll what
        was returned, in that order; of a dump what the replica holds.
    acks, idempotent: how a send was configured. Only acks=all (-1) is a promise.
    producer: of a send that is known to be exactly one batch, its identity.
    from_offset: of an assign, where reading will begin, when that is a number.
    high_watermark, log_start_offset: as the broker told them with this answer, fresh. A cached one must be
        left out: it may be older than what the process has seen since.
    final: this poll is part of the final read, that is done after every send has completed and every fault
        was mended, by a fresh consumer, from the beginning, until the end.
    batches: of a dump, the headers of its batches.
    transaction: of a send or a poll in a transaction, and of the transaction's end, its name, new in the
        history; empty outside of one.
    error: the code of a fail or info, for people. note: of a fault, what was broken.

    A dump is the contents of one replica's log, read from its disk after the end; `process` names the
    replica. With a high_watermark, what is below it must equal what every other replica has; without one (a
    divergent suffix put aside, a broker that never came back) it only serves to find records that are missing
    elsewhere. A large log is several dumps of the same process.

    A `transaction` is the end of one: invoked when the end was asked for, `ok` if its commit was answered,
    `fail` if it surely was not committed and never will be (it was aborted, or its client never asked for a
    commit), `info` if that can't be known. Its sends, one for each partition, have the same type and may have
    their offsets whatever it is: an aborted record has one too. Its polls are those whose offsets it was to
    commit. A process has one transaction after the other, with one transactional id.
    """

    process: str
    f: Function
    type: Outcome
    t_invoke_ns: int
    t_return_ns: int
    key: Key | None = None
    items: tuple[Item, ...] = ()
    acks: int = ACKS_ALL
    idempotent: bool = False
    producer: Sequence | None = None
    from_offset: int | None = None
    high_watermark: int | None = None
    log_start_offset: int | None = None
    final: bool = False
    batches: tuple[Batch, ...] = ()
    transaction: str = ""
    admin: AdminCall | None = None
    error: str = ""
    note: str = ""


_NEEDS_KEY = frozenset({Function.SEND, Function.LIST_OFFSETS, Function.DUMP})
_HAS_ITEMS = frozenset({Function.SEND, Function.POLL, Function.DUMP})
_HAS_TRANSACTION = frozenset({Function.SEND, Function.POLL, Function.TRANSACTION})


def check_operation(operation: Operation) -> str:
    """Why this is no operation of a history; empty when it is one."""
    o = operation
    if not 0 < len(o.process) <= NAME_CHARACTERS_MAX:
        return f"process has {len(o.process)} characters; 1 to {NAME_CHARACTERS_MAX} are allowed"
    if not 0 <= o.t_invoke_ns <= o.t_return_ns:
        return f"it returned at {o.t_return_ns} ns and was invoked at {o.t_invoke_ns} ns"
    if o.key is None:
        if o.f in _NEEDS_KEY or o.items:
            return f"a {o.f} with items, and every send, list_offsets and dump, needs a key"
    elif not (0 < len(o.key[0]) <= NAME_CHARACTERS_MAX and o.key[1] >= 0):
        return f"{o.key!r} is no key: a topic's name or id and a partition from 0"
    if o.items and o.f not in _HAS_ITEMS:
        return f"a {o.f} has no items"
    if o.f is Function.SEND:
        if not o.items:
            return "a send needs the values that were to be written"
        if min(o.items)[0] < NO_OFFSET:
            return f"offset {min(o.items)[0]}; the least is 0, and {NO_OFFSET} says unknown"
    elif o.items and min(o.items)[0] < 0:
        return f"offset {min(o.items)[0]} cannot be read"
    if (o.f is Function.TRANSACTION and not o.transaction) or (o.transaction and o.f not in _HAS_TRANSACTION):
        return "the end of a transaction has its name, and only a send or a poll may have it too"
    if len(o.transaction) > NAME_CHARACTERS_MAX:
        return f"a transaction's name has {len(o.transaction)} characters; {NAME_CHARACTERS_MAX} are allowed"
    if (o.f is Function.ADMIN) != (o.admin is not None):
        return "the field admin belongs to operations whose f is admin, and to each of them"
    if o.batches and o.f is not Function.DUMP:
        return "only a dump has batches"
    if o.final and o.f is not Function.POLL:
        return "only a poll can be part of the final read"
    return ""


@dataclass(frozen=True, slots=True)
class History:
    """Checked operations. The operation at index i is line i + 1."""

    operations: tuple[Operation, ...]

    @classmethod
    def of(cls, operations: Iterable[Operation]) -> History:
        """Raises HistoryError, naming the line, at the first operation that is none."""
        kept = tuple(operations)
        for line, operation in enumerate(kept, start=1):
            if reason := check_operation(operation):
                raise HistoryError(f"operation {line}: {reason}")
        return cls(kept)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Operation)


def encode_operation(operation: Operation) -> bytes:
    """One line with its end. Raises HistoryError for what the reader would refuse."""
    reason = check_operation(operation)
    line = _encoder.encode(operation) + b"\n"
    if not reason and len(line) > LINE_BYTES_MAX:
        reason = f"its line of {len(line)} bytes is longer than {LINE_BYTES_MAX}: split the operation"
    if reason:
        raise HistoryError(f"{operation.f} by {operation.process}: {reason}")
    return line


def decode_operation(line: bytes) -> Operation:
    """Raises HistoryError saying what is wrong with the line."""
    try:
        operation = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HistoryError(str(error)) from error
    if reason := check_operation(operation):
        raise HistoryError(reason)
    return operation


def write_history(stream: BinaryIO, operations: Iterable[Operation]) -> int:
    """Writes one line an operation; how many. Flushing and closing are the caller's."""
    written = 0
    for operation in operations:
        stream.write(encode_operation(operation))
        written += 1
    return written


def read_history(stream: BinaryIO, *, name: str = "history", lines_max: int = LINES_MAX) -> History:
    """Reads to the end of the stream.

    Raises HistoryError naming `name` and the line. A last line without its end is an error too: the run that
    wrote it died while writing, and what it knew last is what we would miss.
    """
    return History(tuple(_read_operations(stream, name, lines_max)))


def _read_operations(stream: BinaryIO, name: str, lines_max: int) -> Iterator[Operation]:
    number = 0
    while line := stream.readline(LINE_BYTES_MAX + 1):
        number += 1
        if number > lines_max:
            raise HistoryError(f"{name} has more than {lines_max} lines")
        if not line.endswith(b"\n"):
            why = f"is longer than {LINE_BYTES_MAX} bytes" if len(line) > LINE_BYTES_MAX else "has no end"
            raise HistoryError(f"{name} line {number} {why}")
        try:
            yield decode_operation(line)
        except HistoryError as error:
            raise HistoryError(f"{name} line {number}: {error}") from error
