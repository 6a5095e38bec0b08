"""A shard's machine on a desk: its clock, and a log that commits at once unless it is held.

The desk does what a shard's runtime does (coordinator/core/shard.py): it applies records at once, answers
when they are committed, undoes what is refused. `fail_over` goes on with a new machine and what the log
holds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from coordinator.core.machine import AnswerCame, Machine, RequestReply, ShardRecord, StepOutcome, TimerDue
from springtide.wire.errors import ErrorCode

M = TypeVar("M", bound=Machine)
R = TypeVar("R")

WALL_MS = 1_700_000_000_000


@dataclass(slots=True)
class InFlight:
    first_offset: int
    records: list[ShardRecord] = field(default_factory=list)
    replies: list[RequestReply] = field(default_factory=list)
    works: list[Hashable] = field(default_factory=list)

    def hold(self, outcome: StepOutcome) -> None:
        """Let what the outcome has beside its records wait for the batch."""
        self.replies += outcome.replies
        if outcome.work is not None:
            self.works.append(outcome.work)


class MachineDesk(Generic[M]):
    """records: what the log holds, committed. replies: by token; an ErrorCode where the runtime answered.
    is_holding: batches stay in flight until `commit` or `refuse`. questions: those without an answer. heard:
    those that had one, the last at the end."""

    def __init__(self, make: Callable[[], M]) -> None:
        self._make = make
        self.records: list[ShardRecord] = []
        self.in_flight: list[InFlight] = []
        self.is_holding = False
        self.replies: dict[int, object] = {}
        self.timers: dict[Hashable, int] = {}
        self.now_ms = 0
        self.do_clocks_agree = True
        self.tokens = 0
        self.questions: list[Any] = []
        self.heard: list[Any] = []
        self.open()

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def open(self) -> None:
        self.machine = self._make()
        for offset, record in enumerate(self.records):
            self.machine.apply(record, offset)
        self.machine.committed(len(self.records))
        self._carry_out(self.machine.opened(self.now_ms, self.wall_ms))

    def step(self, event: object) -> None:
        self._carry_out(self.machine.step(event, self.now_ms, self.wall_ms))

    def _carry_out(self, outcome: StepOutcome) -> None:
        for timer in outcome.timers:
            self.timers.pop(timer.key, None)
            if timer.at_ms is not None:
                self.timers[timer.key] = timer.at_ms
        if outcome.records:
            first = len(self.records) + sum(len(batch.records) for batch in self.in_flight)
            for offset, record in enumerate(outcome.records, first):
                self.machine.apply(record, offset)
            self.in_flight.append(InFlight(first, list(outcome.records)))
            self.in_flight[-1].hold(outcome)
            if not self.is_holding:
                self.commit()
        elif outcome.waits and self.in_flight:
            self.in_flight[-1].hold(outcome)
        else:
            self.send(outcome.replies)

        self.questions += outcome.asks

    def send(self, replies: list[RequestReply] | tuple[RequestReply, ...]) -> None:
        for reply in replies:
            assert reply.token not in self.replies, "a request is answered once"
            self.replies[reply.token] = reply.message

    def commit(self, batches: int | None = None) -> None:
        """The oldest batches in flight are committed, all unless it is said how many."""
        for batch in self.in_flight[:batches]:
            self.in_flight.remove(batch)
            self.records += batch.records
            self.machine.committed(len(self.records))
            self.send(batch.replies)
            for work in batch.works:
                self._carry_out(self.machine.written(work, self.now_ms, self.wall_ms))

    def refuse(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """All in flight is refused."""
        refused, self.in_flight = self.in_flight, []
        if refused:
            self.machine.undo(refused[0].first_offset)
        for batch in refused:
            self.send([RequestReply(reply.token, error) for reply in batch.replies])
        for batch in refused:
            for work in batch.works:
                self._carry_out(self.machine.refused(work, error, self.now_ms, self.wall_ms))

    def hear(self, question: object, answer: object) -> None:
        """Let the answer to a question come; None: it is lost."""
        self.heard.append(question)
        self.step(AnswerCame(question, answer))

    def fail_over(self, *, written: int = 0) -> None:
        """Let another process take the shard over. `written` of the batches in flight reached the log."""
        waiting = [reply.token for batch in self.in_flight for reply in batch.replies]
        for token in (*self.machine.closed(), *waiting):
            self.send([RequestReply(token, ErrorCode.NOT_COORDINATOR)])
        for batch in self.in_flight[:written]:
            self.records += batch.records
        self.in_flight.clear()
        self.timers.clear()
        self.open()

    def wait(self, duration_ms: int) -> None:
        """Let time pass; timers fire in order."""
        until = self.now_ms + duration_ms
        while due := [(at_ms, number) for number, at_ms in enumerate(self.timers.values()) if at_ms <= until]:
            at_ms, number = min(due)
            key = list(self.timers)[number]
            del self.timers[key]
            self.now_ms = max(self.now_ms, at_ms)
            self.step(TimerDue(key, self.wall_ms if self.do_clocks_agree else None))
        self.now_ms = until

    def answer(self, token: int, kind: type[R]) -> R:
        message = self.replies[token]
        assert isinstance(message, kind), message
        return message

    def token(self) -> int:
        self.tokens += 1
        return self.tokens
