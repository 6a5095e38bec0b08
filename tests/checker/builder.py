"""Writes histories by hand: for the checker's own tests, and for simulated clients that know their times.

Operations are kept in the order in which they are added, which should be that of their completion. Where no
times are given, the operations follow one another: each takes a millisecond, and the next begins a
millisecond later.
"""

from __future__ import annotations

from collections.abc import Sequence as Several

from .history import (
    ACKS_ALL,
    NO_OFFSET,
    AdminCall,
    Batch,
    Function,
    History,
    Item,
    Key,
    Operation,
    Outcome,
    Sequence,
)
from .values import make_value

MS = 1_000_000

At = tuple[int, int]
"""Invoked and returned, in milliseconds."""


class HistoryBuilder:
    """Grows a history. `new_value` numbers the values so that no two are equal within one `run`."""

    def __init__(self, run: str = "run") -> None:
        self.operations: list[Operation] = []
        self._run = run
        self._numbers: dict[str, int] = {}
        self._now_ns = 0

    def new_value(self, key: Key, process: str = "producer", *, value_bytes: int = 0) -> str:
        number = self._numbers.get(process, 0)
        self._numbers[process] = number + 1
        return make_value(run=self._run, process=process, number=number, key=key, value_bytes=value_bytes)

    def add(self, operation: Operation) -> Operation:
        self.operations.append(operation)
        self._now_ns = max(self._now_ns, operation.t_return_ns + MS)
        return operation

    def history(self) -> History:
        return History.of(self.operations)

    def times(self, at: At | None) -> tuple[int, int]:
        if at is None:
            return self._now_ns, self._now_ns + MS
        return at[0] * MS, at[1] * MS

    def send(
        self,
        process: str,
        key: Key,
        items: Several[Item],
        *,
        type: Outcome = Outcome.OK,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
        producer: Sequence | None = None,
        transaction: str = "",
        error: str = "",
        at: At | None = None,
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.SEND,
                type=type,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                key=key,
                items=tuple(items),
                acks=acks,
                idempotent=idempotent,
                producer=producer,
                transaction=transaction,
                error=error,
            )
        )

    def send_unknown(
        self,
        process: str,
        key: Key,
        values: Several[str],
        *,
        producer: Sequence | None = None,
        at: At | None = None,
    ) -> Operation:
        """Add a send that no broker answered."""
        items = [(NO_OFFSET, value) for value in values]
        return self.send(
            process, key, items, type=Outcome.INFO, producer=producer, error="REQUEST_TIMED_OUT", at=at
        )

    def poll(
        self,
        process: str,
        key: Key | None,
        items: Several[Item] = (),
        *,
        type: Outcome = Outcome.OK,
        high_watermark: int | None = None,
        log_start_offset: int | None = None,
        final: bool = False,
        transaction: str = "",
        at: At | None = None,
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.POLL,
                type=type,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                key=key,
                items=tuple(items),
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
                final=final,
                transaction=transaction,
            )
        )

    def end(
        self, process: str, transaction: str, type: Outcome = Outcome.OK, *, at: At | None = None
    ) -> Operation:
        """Add the end of a transaction."""
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.TRANSACTION,
                type=type,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                transaction=transaction,
            )
        )

    def assign(
        self, process: str, key: Key | None, *, from_offset: int | None = None, at: At | None = None
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.ASSIGN,
                type=Outcome.OK,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                key=key,
                from_offset=from_offset,
            )
        )

    def list_offsets(
        self,
        process: str,
        key: Key,
        *,
        high_watermark: int | None = None,
        log_start_offset: int | None = None,
        at: At | None = None,
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.LIST_OFFSETS,
                type=Outcome.OK,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                key=key,
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
            )
        )

    def dump(
        self,
        process: str,
        key: Key,
        items: Several[Item] = (),
        *,
        batches: Several[Batch] = (),
        high_watermark: int | None = None,
        log_start_offset: int = 0,
        at: At | None = None,
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.DUMP,
                type=Outcome.OK,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                key=key,
                items=tuple(items),
                batches=tuple(batches),
                high_watermark=high_watermark,
                log_start_offset=log_start_offset,
            )
        )

    def admin(
        self, process: str, call: AdminCall, *, type: Outcome = Outcome.OK, at: At | None = None
    ) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process=process,
                f=Function.ADMIN,
                type=type,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                admin=call,
            )
        )

    def fault(self, note: str, *, at: At | None = None) -> Operation:
        invoked, returned = self.times(at)
        return self.add(
            Operation(
                process="nemesis",
                f=Function.FAULT,
                type=Outcome.INFO,
                t_invoke_ns=invoked,
                t_return_ns=returned,
                note=note,
            )
        )
