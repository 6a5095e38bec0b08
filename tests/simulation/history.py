"""What the clients of a simulated cluster saw, in the one history format that every tier's checker reads.

The recorder has no part in the run: it draws nothing, schedules nothing, and a run without it has the same
digest. It keeps clients honest instead: a send is `fail` only by the rule in tests/checker/outcomes.py, and a
client that never heard says `info`.

Decoding every record of every poll and every replica would cost more than the cluster itself. A batch that
was read is looked up among those that were sent, by its bytes from the CRC on: what lies before them is the
broker's to write. Only what nobody sent so is decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NamedTuple

import msgspec

from dataplane.core.effects import CopyDivergent
from dataplane.core.log_port import LogPort
from dataplane.core.scrubbing import good_ranges
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader, CorruptBatch, decode_header, iter_headers
from springtide.wire.records import iter_records
from tests.checker.history import (
    ACKS_ALL,
    NO_OFFSET,
    AdminAction,
    AdminCall,
    Batch,
    Function,
    History,
    Item,
    Operation,
    Outcome,
    Sequence,
)
from tests.checker.outcomes import NO_ANSWER, OK, outcome_of_send
from tests.simulation.events import MS, Events

CRC_FIELD_START = 17
"""Of a batch: in front stand base offset, length, leader epoch and magic."""

READ_BYTES_MAX = 1 << 20


class Found(NamedTuple):
    """One batch that was read somewhere."""

    header: BatchHeader
    values: tuple[str, ...]

    def items(self) -> Iterable[Item]:
        return zip(count(self.header.base_offset), self.values, strict=False)


class OpenSend:
    """One batch of one producer, from the first attempt until its client knows or gives up."""

    __slots__ = ("_attempts", "_history", "acks", "batch", "invoked_ns", "key", "process", "values")

    def __init__(
        self,
        history: HistoryRecorder,
        batch: BatchHeader,
        values: tuple[str, ...],
        *,
        process: str,
        key: PartitionKey,
        acks: int,
    ) -> None:
        self._history = history
        self._attempts: dict[str, None] = {}  # what the attempts were told, each answer once
        self.process = process
        self.key = key
        self.batch = batch
        self.values = values
        self.acks = acks
        self.invoked_ns = history.events.now_ns

    def answered(self, error: ErrorCode, base_offset: int = NO_OFFSET) -> None:
        """One attempt was answered. NONE ends the send; with base_offset -1 it was written, and nobody knows
        where any more."""
        if error is ErrorCode.NONE:
            self._attempts[OK] = None
            self._history.close_send(self, base_offset)
        else:
            self._attempts[error.name] = None

    def unanswered(self) -> None:
        """One attempt timed out."""
        self._attempts[NO_ANSWER] = None

    def give_up(self) -> None:
        """The client will not try again."""
        self._history.close_send(self, NO_OFFSET)

    @property
    def had_no_answer(self) -> bool:
        """Whether some attempt timed out."""
        return NO_ANSWER in self._attempts

    @property
    def outcome(self) -> Outcome:
        return outcome_of_send(self._attempts)

    @property
    def errors(self) -> str:
        return ", ".join(name or "no answer" for name in self._attempts if name != OK)


class HistoryRecorder:
    """Collects operations in order of completion."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.operations: list[Operation] = []
        self._values: dict[bytes, tuple[str, ...]] = {}
        self._open: dict[OpenSend, None] = {}
        self._asides: set[tuple[str, PartitionKey, int, int]] = set()

    def history(self) -> History:
        return History.of(self.operations)

    # --- producers --------------------------------------------------------------------------------------

    def begin_send(
        self,
        process: str,
        key: PartitionKey,
        batch: bytes,
        *,
        acks: int = ACKS_ALL,
        values: tuple[str, ...] | None = None,
    ) -> OpenSend:
        """A client begins to send this batch; its values must be new in this run. values: what the client put
        into it, so that the batch need not be read."""
        header = decode_header(batch)
        if values is None:
            values = _decode(batch)
        self._values[batch[CRC_FIELD_START:]] = values
        send = OpenSend(self, header, values, process=process, key=key, acks=acks)
        self._open[send] = None
        return send

    def close_send(self, send: OpenSend, base_offset: int) -> None:
        """Call it through the send."""
        if send not in self._open:  # given up before, and answered after all
            return
        del self._open[send]
        header = send.batch
        identity = None
        if header.has_producer_id:
            identity = Sequence(
                id=header.producer_id, epoch=header.producer_epoch, sequence=header.base_sequence
            )
        offsets: Iterable[int] = count(base_offset)
        if base_offset == NO_OFFSET:
            offsets = [NO_OFFSET] * len(send.values)
        self._add(
            process=send.process,
            f=Function.SEND,
            type=send.outcome,
            invoked_ns=send.invoked_ns,
            key=send.key,
            items=tuple(zip(offsets, send.values, strict=False)),
            acks=send.acks,
            idempotent=header.has_producer_id,
            producer=identity,
            error="" if send.outcome is Outcome.OK else send.errors,
        )

    def close_sends(self) -> None:
        """The run is over: a client that still waits will never know."""
        for send in list(self._open):
            if send.outcome is Outcome.FAIL:
                send.unanswered()  # its last attempt may still be on its way
            send.give_up()

    def place_old_duplicates(self, place_of: Callable[[PartitionKey, int, int], int]) -> None:
        """Give batches that were acknowledged as old duplicates, without their offset, the offset at which
        they were committed: only with it can it be told whether a client has deleted them since. place_of:
        for a partition, a producer and a sequence; -1 where none was."""
        for number, operation in enumerate(self.operations):
            producer = operation.producer
            is_old = operation.items and operation.items[0][0] == NO_OFFSET
            if operation.type is not Outcome.OK or not is_old or producer is None or operation.key is None:
                continue
            base_offset = place_of(operation.key, producer.id, producer.sequence)
            if operation.acks == ACKS_ALL and base_offset != NO_OFFSET:
                values = (value for _, value in operation.items)
                self.operations[number] = msgspec.structs.replace(
                    operation, items=tuple(zip(count(base_offset), values, strict=False))
                )

    def deleted(self, topic_id: str) -> None:
        """An operator deleted the topic: what was acknowledged in it before is not to be found any more."""
        self._add(
            process="operator",
            f=Function.ADMIN,
            type=Outcome.INFO,
            invoked_ns=self.events.now_ns,
            admin=AdminCall(action=AdminAction.DELETE, topic=topic_id),
        )

    # --- consumers --------------------------------------------------------------------------------------

    def assigned(self, process: str, key: PartitionKey, *, from_offset: int) -> None:
        self._add(
            process=process,
            f=Function.ASSIGN,
            type=Outcome.OK,
            invoked_ns=self.events.now_ns,
            key=key,
            from_offset=from_offset,
        )

    def polled(
        self,
        process: str,
        key: PartitionKey,
        *,
        from_offset: int,
        parts: Iterable[Any],
        invoked_ns: int,
        high_watermark: int | None,
        log_start_offset: int,
        final: bool = False,
    ) -> int:
        """An answered consumer fetch; the offset to fetch next. `parts`: buffers of whole batches."""
        items: list[Item] = []
        next_offset = from_offset
        for found in self._find(parts):
            items += [item for item in found.items() if item[0] >= from_offset]
            next_offset = max(next_offset, found.header.next_offset)
        self._add(
            process=process,
            f=Function.POLL,
            type=Outcome.OK,
            invoked_ns=invoked_ns,
            key=key,
            items=tuple(items),
            high_watermark=high_watermark,
            log_start_offset=log_start_offset,
            final=final,
        )
        return next_offset

    def listed_offsets(
        self, process: str, key: PartitionKey, *, invoked_ns: int, high_watermark: int
    ) -> None:
        self._add(
            process=process,
            f=Function.LIST_OFFSETS,
            type=Outcome.OK,
            invoked_ns=invoked_ns,
            key=key,
            high_watermark=high_watermark,
        )

    # --- replicas and faults ----------------------------------------------------------------------------

    def dumped(self, process: str, key: PartitionKey, log: LogPort, *, high_watermark: int | None) -> None:
        """Everything that this replica's log holds now. high_watermark: None when it does not run."""
        self._dump(process, key, log, (log.log_start_offset, log.log_end_offset), high_watermark)

    def divergent_copied(self, process: str, key: PartitionKey, log: LogPort, effect: CopyDivergent) -> None:
        """What this replica is about to cut off and puts into `divergent/`."""
        suffix = (process, key, effect.first_offset, effect.next_offset)
        if suffix not in self._asides:
            self._asides.add(suffix)
            name = f"{process} divergent {effect.first_offset}-{effect.next_offset}"
            self._dump(name, key, log, (effect.first_offset, effect.next_offset), None)

    def faulted(self, note: str, *, since_ms: int) -> None:
        self._add(
            process="nemesis",
            f=Function.FAULT,
            type=Outcome.INFO,
            invoked_ns=since_ms * MS,
            note=note,
        )

    def _dump(
        self,
        process: str,
        key: PartitionKey,
        log: LogPort,
        span: tuple[int, int],
        high_watermark: int | None,
    ) -> None:
        items: list[Item] = []
        batches: list[Batch] = []
        for offset, end in good_ranges(log.rotten, *span):
            self._dump_range(log, offset, end, items, batches)
        self._add(
            process=process,
            f=Function.DUMP,
            type=Outcome.OK,
            invoked_ns=self.events.now_ns,
            key=key,
            items=tuple(items),
            batches=tuple(batches),
            high_watermark=high_watermark,
            log_start_offset=log.log_start_offset,
        )

    def _dump_range(
        self, log: LogPort, offset: int, end: int, items: list[Item], batches: list[Batch]
    ) -> None:
        while offset < end:
            piece = log.read(offset, max_bytes=READ_BYTES_MAX, end_offset=end)
            if piece.next_offset <= offset:
                break
            for found in self._find(piece.parts):
                items += found.items()
                header = found.header
                batches.append(
                    Batch(
                        base_offset=header.base_offset,
                        record_count=header.record_count,
                        leader_epoch=header.leader_epoch,
                        producer_id=header.producer_id,
                        producer_epoch=header.producer_epoch,
                        base_sequence=header.base_sequence,
                    )
                )
            offset = piece.next_offset

    # --- helpers ----------------------------------------------------------------------------------------

    def _find(self, parts: Iterable[Any]) -> Iterable[Found]:
        for part in parts:
            view = memoryview(part)
            for position, header in iter_headers(view):
                batch = view[position : position + header.size_bytes]
                values = self._values.get(bytes(batch[CRC_FIELD_START:]))
                yield Found(header, _decode(batch) if values is None else values)

    def _add(self, *, invoked_ns: int, **fields: Any) -> None:
        self.operations.append(Operation(t_invoke_ns=invoked_ns, t_return_ns=self.events.now_ns, **fields))

    def digest(self) -> str:
        """Covers every operation, values and times included."""
        digest = hashlib.blake2b(digest_size=16)
        encoder = msgspec.json.Encoder()
        for operation in self.operations:
            digest.update(encoder.encode(operation))
        return digest.hexdigest()


def _decode(batch: Any) -> tuple[str, ...]:
    """The records' values. Damage is a value of its own, which nobody sent."""
    try:
        return tuple((record.value or b"").decode("latin-1") for record in iter_records(batch))
    except CorruptBatch as error:
        return (f"corrupt batch: {error}",)
