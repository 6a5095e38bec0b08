"""A machine that counts: the smallest state in which a lost, doubled or forgotten step shows.

Each client numbers its increments, one after the other; an increment writes the counter and the client's last
number as one batch. Some time after the last increment a tick writes a row of cells, all to one number, from
the first to the last: more than a small batch holds, and legal after each part.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from coordinator.core.machine import RequestReply, ShardRecord, StepOutcome, Timer, TimerDue, UnreadableState
from coordinator.core.views import TwoViews
from springtide.wire.errors import ErrorCode

COUNTER = b"counter"
CELLS = tuple(b"cell-%d" % n for n in range(6))
TICK = "tick"
OF_A_LATER_RELEASE = b"of a later release"
"""The key of a record that no CounterMachine can take in."""


class Increment(NamedTuple):
    """operation: a new one wherever the client knows that the one before was refused."""

    token: int
    client: str
    number: int
    operation: int


class ReadCounter(NamedTuple):
    token: int


class ReadLatest(NamedTuple):
    """Answered once what it tells is committed."""

    token: int


class AwaitNothing(NamedTuple):
    """Parked until the shard is closed."""

    token: int


class News(NamedTuple):
    text: str


class Counted(NamedTuple):
    value: int


class Last(NamedTuple):
    """The last increment of a client, and what the counter was after it."""

    number: int = 0
    operation: int = 0
    value: int = 0


def client_key(client: str) -> bytes:
    return b"client-" + client.encode()


def tick_key(number: int) -> bytes:
    return b"tick-%d" % number


def decode_last(value: bytes | None) -> Last:
    return Last() if value is None else Last(*map(int, value.split()))


class CounterMachine:
    """tick_ms: how soon after an increment the cells are written; 0: never."""

    def __init__(self, *, tick_ms: int = 0) -> None:
        self.state: TwoViews[bytes, bytes] = TwoViews()
        self.committed_offset = 0
        self.parked: list[int] = []
        self.writes: list[Hashable] = []
        self.refusals: list[Hashable] = []
        self.heard: list[str] = []
        self._tick_ms = tick_ms

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        match event:
            case Increment():
                return self._increment(event, now_ms)
            case ReadCounter(token):
                stored = Counted(int(self.state.committed(COUNTER) or 0))
                return StepOutcome(replies=(RequestReply(token, stored),))
            case ReadLatest(token):
                value = Counted(int(self.state.latest(COUNTER) or 0))
                return StepOutcome(replies=(RequestReply(token, value),), waits=True)
            case News(text):
                self.heard.append(text)
                return StepOutcome()
            case AwaitNothing(token):
                self.parked.append(token)
                return StepOutcome()
            case TimerDue(key=key):
                assert key == TICK
                number = int(self.state.latest(CELLS[-1]) or 0) + 1
                records = [ShardRecord(cell, b"%d" % number) for cell in CELLS]
                if self._tick_ms:
                    records += (
                        ShardRecord(tick_key(number), b"1"),
                        ShardRecord(tick_key(number - 1), None),
                    )
                return StepOutcome(records=tuple(records), work=TICK)
            case _:
                raise AssertionError(event)

    def _increment(self, event: Increment, now_ms: int) -> StepOutcome:
        key = client_key(event.client)
        latest = decode_last(self.state.latest(key))
        if latest.number > event.number or latest[:2] == (event.number, event.operation):
            return StepOutcome(replies=(RequestReply(event.token, Counted(latest.value)),), waits=True)
        value = int(self.state.latest(COUNTER) or 0) + 1
        return StepOutcome(
            records=(
                ShardRecord(COUNTER, b"%d" % value),
                ShardRecord(key, b"%d %d %d" % (event.number, event.operation, value)),
            ),
            replies=(RequestReply(event.token, Counted(value)),),
            timers=self._tick_after(now_ms),
            work=(event.client, event.number),
        )

    def _tick_after(self, now_ms: int) -> tuple[Timer, ...]:
        return (Timer(TICK, now_ms + self._tick_ms),) if self._tick_ms else ()

    def apply(self, record: ShardRecord, offset: int) -> None:
        if record.key == OF_A_LATER_RELEASE:
            raise UnreadableState("a record of a later release")
        self.state.set(record.key, record.value, offset)

    def committed(self, offset: int) -> None:
        self.committed_offset = offset
        self.state.commit(offset)

    def undo(self, offset: int) -> None:
        self.state.undo(offset)

    def written(self, work: Hashable, now_ms: int, wall_ms: int) -> StepOutcome:
        self.writes.append(work)
        return StepOutcome()

    def refused(self, work: Hashable, error: ErrorCode, now_ms: int, wall_ms: int) -> StepOutcome:
        self.refusals.append(work)
        return StepOutcome(timers=self._tick_after(now_ms) if work == TICK else ())

    def opened(self, now_ms: int, wall_ms: int) -> StepOutcome:
        return StepOutcome(timers=self._tick_after(now_ms))

    def closed(self) -> tuple[int, ...]:
        return tuple(self.parked)
