"""A shard's runtime on a desk: what it asks for is done at once, but for appends while the desk holds
them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from coordinator.core.machine import Machine
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    AnswerRequest,
    AppendBatch,
    Ask,
    AskWriter,
    BatchAnswered,
    LeaderKnown,
    LogIsAhead,
    LogIsUnreadable,
    LogWasRead,
    ReadLog,
    RequestCame,
    SetTimer,
    ShardClosed,
    ShardEffect,
    ShardEvent,
    ShardGiven,
    TimerFired,
    TurnEnded,
    WriterNamed,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WRITER_IDS, WriterId
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.counter import CounterMachine, Increment
from tests.kit.coordinator.fenced_log import FencedLog

WRITER_ID = WRITER_IDS.start


class ControllerOfOne:
    """Names writers, each above all before it."""

    def __init__(self) -> None:
        self.named = 0

    def name(self) -> WriterId:
        self.named += 1
        return WriterId(WRITER_ID + self.named)


class ShardDesk:
    """answers: by token. held: attempts that the leader has not heard of yet, while is_holding. effects: of
    all steps, in order. is_in_turn: more requests come; else each ends its turn."""

    def __init__(
        self,
        log: FencedLog,
        controller: ControllerOfOne,
        *,
        batch_bytes_max: int = 10_000,
        new_machine: Callable[[], Machine] = CounterMachine,
    ) -> None:
        self.log = log
        self.controller = controller
        self.runtime = ShardRuntime(
            new_machine,
            read_pause_ms=50,
            is_current=lambda now_ms: self.is_current,
            batch_bytes_max=batch_bytes_max,
        )
        self.now_ms = 0
        self.leader_epoch = 0
        self.is_current = True
        self.is_holding = False
        self.is_in_turn = False
        self.held: list[AppendBatch] = []
        self.answers: dict[int, object] = {}
        self.timers: dict[Hashable, int] = {}
        self.effects: list[ShardEffect] = []

    @property
    def machine(self) -> CounterMachine:
        machine = self.runtime.machine
        assert isinstance(machine, CounterMachine)
        return machine

    def step(self, event: ShardEvent) -> None:
        effects = self.runtime.step(event, now_ms=self.now_ms, wall_ms=self.now_ms)
        self.effects += effects
        for effect in effects:
            self._carry_out(effect)
        if isinstance(event, RequestCame) and not self.is_in_turn:
            self.step(TurnEnded())

    def _carry_out(self, effect: ShardEffect) -> None:
        match effect:
            case AppendBatch():
                self.held.append(effect)
                if not self.is_holding:
                    self.deliver()
            case ReadLog(read=read, offset=offset, leader_epoch=leader_epoch):
                if leader_epoch != self.leader_epoch:
                    self.step(LogWasRead(read, ErrorCode.FENCED_LEADER_EPOCH))
                    return
                log = self.log
                floor = log.tombstone_floor if offset < log.tombstone_floor else 0
                self.step(LogWasRead(read, ErrorCode.NONE, log.end_offset, log.read(offset), floor))
            case AskWriter(ask=ask):
                writer = self.controller.name()
                self.step(WriterNamed(ask, writer, b"nonce %d" % writer.producer_id))
            case AnswerRequest(token=token, answer=answer):
                assert token not in self.answers
                self.answers[token] = answer
            case Ask():
                pass
            case SetTimer(key=key, at_ms=None):
                self.timers.pop(key, None)
            case SetTimer(key=key, at_ms=int() as at_ms):
                self.timers[key] = at_ms
            case ShardClosed() | LogIsAhead() | LogIsUnreadable():
                self.timers.clear()

    def deliver(self) -> None:
        """The leader hears of the first attempt that is held, and its answer arrives."""
        append = self.held.pop(0)
        self.step(BatchAnswered(append.attempt, *self.log.append(append.batch)))

    def fail(self, error: ErrorCode, *, is_written: bool) -> None:
        """End the first attempt that is held with this error, written or not."""
        append = self.held.pop(0)
        if is_written:
            self.log.append(append.batch)
        self.step(BatchAnswered(append.attempt, error))

    def wait(self) -> None:
        """The next timer fires."""
        key = min(self.timers, key=lambda key: self.timers[key])
        self.now_ms = max(self.now_ms, self.timers.pop(key))
        self.step(TimerFired(key, self.now_ms))

    def follow(self) -> None:
        self.step(LeaderKnown(LeaderEpoch(self.leader_epoch), -1))

    def open(self) -> None:
        """Follow, be given the shard, and serve it, if nothing is held."""
        self.follow()
        self.step(ShardGiven())
        if self.runtime.phase is ShardPhase.FOLLOWING:
            self.wait()

    def increment(self, token: int, client: str = "a", number: int = 1) -> None:
        self.step(RequestCame(token, Increment(token, client, number, token)))
