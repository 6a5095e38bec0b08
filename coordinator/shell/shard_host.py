"""One shard that this process owns or follows: its runtime is stepped, and the effects are carried out.

A host has one runtime, and is over when that has closed; whether the shard begins anew is decided by who made
the host (shards.py). Events are taken one after the other: what an effect brings at once waits its turn.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from coordinator.core.machine import Machine
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    AnswerRequest,
    AppendBatch,
    AskWriter,
    BatchAnswered,
    LeaderKnown,
    LogIsAhead,
    LogIsUnreadable,
    LogWasRead,
    MachineTold,
    ReadLog,
    RequestCame,
    SetTimer,
    ShardClosed,
    ShardEffect,
    ShardEvent,
    ShardGiven,
    ShardTaken,
    ShardTimer,
    TimerFired,
    TurnEnded,
    WriterNamed,
)
from coordinator.shell.log_client import LogClient, LogParts
from coordinator.shell.timers import ShardTimers
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState, WriterId
from springtide.contract.updates import NameWriterResponse
from springtide.node.controller_client import ControllerUnavailable
from springtide.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

READ_PAUSE_MS = 100
ASK_AGAIN_MS = (100, 2_000)
"""The pause after a controller that named no writer, and what it grows to."""
REQUESTS_MAX = 20_000
"""Requests of one shard that may wait for their answers."""
NONCE_BYTES = 16

#: (topic id, partition, the highest writer in its log) to the controller's answer. Raises
#: ControllerUnavailable.
WriterNamer = Callable[[str, int, WriterId | None], Awaitable[NameWriterResponse]]


@dataclass(slots=True, eq=False)
class ShardCounters:
    """The counters of one topic's shards in a process, over its life. requests_turned_away: at
    REQUESTS_MAX."""

    appends: int = 0
    failed_appends: int = 0
    openings: int = 0
    endings: int = 0
    requests_turned_away: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardParts(LogParts):
    """What all shards of one topic in a process share. topic: its name. given_writer: returns the writer that
    came with a shard, once; None if none did. is_current: as ShardRuntime has it. end_turn: ends each host's
    turn, and sends the answers that are complete. on_stepped: called after steps of a host. in_turn: hosts
    with records that wait for the turn's end, in order."""

    topic: str
    given_writer: Callable[[PartitionState], WriterId | None]
    new_machine: Callable[[], Machine]
    name_writer: WriterNamer
    is_current: Callable[[int], bool]
    end_turn: Callable[[], None]
    on_stepped: Callable[[ShardHost], None] | None
    in_turn: dict[ShardHost, None]
    counters: ShardCounters


class ShardHost:
    """on_closed: called when the runtime has closed, or failed. opening_ms: from being given to serving, None
    before. ahead: set where the log holds what the controller can't have named yet: the shard stays
    stopped. unread: why it stays stopped because of a record that this process can't take in; "": it does
    not."""

    def __init__(self, key: PartitionKey, parts: ShardParts, on_closed: Callable[[ShardHost], None]) -> None:
        self.key = key
        self.is_owner = False
        self.opening_ms: int | None = None
        self.ahead: LogIsAhead | None = None
        self.unread = ""
        self.runtime = ShardRuntime(
            parts.new_machine, read_pause_ms=READ_PAUSE_MS, is_current=parts.is_current
        )
        self._name = (parts.topic, key[1])
        self._parts = parts
        self._on_closed = on_closed
        self._log = LogClient(key, parts, self._hear)
        self._timers = ShardTimers(
            clock=parts.clock,
            spawn=parts.spawn,
            fire=lambda key: self._hear(TimerFired(key, parts.clock.expiry_ms())),
        )
        self._events: deque[ShardEvent] = deque()
        self._is_stepping = False
        self._is_over = False
        self._waiting: dict[int, Callable[[object], None]] = {}
        self._tokens = 0
        self._given_ms = 0
        self._high_watermark: int | None = None
        self._asked = 0
        self._refusal = ""

    @property
    def is_serving(self) -> bool:
        return not self._is_over and self.runtime.phase is ShardPhase.SERVING

    @property
    def is_level(self) -> bool:
        """Return whether the shard is followed, up to the high watermark that was told last."""
        return self.runtime.phase is ShardPhase.FOLLOWING and not self.is_owner and self.runtime.is_level

    @property
    def lag(self) -> int | None:
        """Return how much of the log is still to be replayed, in records; None before a leader has told its
        end."""
        if self.runtime.phase in (ShardPhase.SERVING, ShardPhase.FINISHING):
            return 0
        return None if self._high_watermark is None else self.runtime.lag(self._high_watermark)

    # What the process brings

    def submit(self, make: Callable[[int], object], answered: Callable[[object], None]) -> None:
        """Have the machine answer make(token). The caller ends the turn."""
        if self._is_over:
            answered(ErrorCode.NOT_COORDINATOR)
        elif len(self._waiting) >= REQUESTS_MAX:
            self._parts.counters.requests_turned_away += 1
            answered(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # every client tries again
        else:
            self._tokens += 1
            request = make(self._tokens)
            self._waiting[self._tokens] = answered
            self._step(RequestCame(self._tokens, request))
            if self.runtime.has_unsent:
                self._parts.in_turn[self] = None

    def tell(self, news: object) -> None:
        """Tell the machine, now and again before it serves. The caller ends the turn."""
        self._step(MachineTold(news))

    def send_written(self) -> None:
        self._step(TurnEnded())

    def on_state(self, state: PartitionState, *, is_owner: bool) -> None:
        """Take in the newest state of the partition. The caller ends the turn."""
        is_given = is_owner and not self.is_owner
        if is_owner is not self.is_owner:
            self.is_owner = is_owner
            self._given_ms = self._parts.clock.mono_ms()
            self._step(self._given(state) if is_owner else ShardTaken())
        if state.leader != NO_LEADER:
            self._step(LeaderKnown(state.leader_epoch, state.unclean_leader_epoch))
        if is_given and self.runtime.phase is ShardPhase.FOLLOWING:
            self._log.hurry()
        if self._log.on_view_changed() or is_given:
            self._timers.hasten(ShardTimer.READ)
            self._timers.hasten(ShardTimer.SEND)

    def _given(self, state: PartitionState) -> ShardGiven:
        return ShardGiven(self._parts.given_writer(state), self._parts.rng.randbytes(NONCE_BYTES))

    def is_of_use(self, named: WriterId, *, is_wanted: bool) -> bool:
        """Return whether to go on with this runtime. named: the controller's last writer of the shard."""
        if self.ahead is not None:
            return self.is_owner and named < self.ahead.found
        return is_wanted or self.runtime.phase is ShardPhase.FINISHING

    def stop(self) -> None:
        """End at once. What is under way may be written or not, and no client is told that it was."""
        self._is_over = True
        self._timers.stop()
        self._log.stop()
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            self._tell(answered, ErrorCode.NOT_COORDINATOR)

    # What tasks bring

    def _hear(self, event: ShardEvent) -> None:
        if isinstance(event, LogWasRead) and event.error is ErrorCode.NONE:
            self._high_watermark = event.high_watermark
        elif isinstance(event, BatchAnswered) and event.error is not ErrorCode.NONE:
            self._parts.counters.failed_appends += 1
        self._step(event)
        self._parts.end_turn()

    def _step(self, event: ShardEvent) -> None:
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        clock, runtime = self._parts.clock, self.runtime
        try:
            while self._events and not self._is_over:
                was_serving = runtime.phase is ShardPhase.SERVING
                effects = runtime.step(
                    self._events.popleft(), now_ms=clock.mono_ms(), wall_ms=clock.wall_ms()
                )
                if runtime.phase is ShardPhase.SERVING and not was_serving:
                    self._on_opened()
                for effect in effects:
                    self._carry_out(effect)
        except Exception:  # a bug: what is in memory is worth nothing any more, what is in the log is
            _log.exception("shard_failed topic=%s shard=%d", *self._name)
            self._close()
        finally:
            self._is_stepping = False
        if self._parts.on_stepped is not None:
            self._parts.on_stepped(self)

    def _on_opened(self) -> None:
        self._log.end_reading()
        self._parts.counters.openings += 1
        self.opening_ms = self._parts.clock.mono_ms() - self._given_ms
        _log.info(
            "shard_opened topic=%s shard=%d ms=%d offset=%d",
            *self._name,
            self.opening_ms,
            self.runtime.position,
        )

    def _carry_out(self, effect: ShardEffect) -> None:
        match effect:
            case AnswerRequest(token=token, answer=answer):
                self._tell(self._waiting.pop(token), answer)
            case AppendBatch():
                self._parts.counters.appends += 1
                self._log.append(effect)
            case ReadLog():
                self._log.read(effect, waits=self.is_level)
            case AskWriter(ask=ask):
                self._asked = ask
                self._parts.spawn(partial(self._ask_writer, ask))
            case SetTimer(key=key, at_ms=at_ms):
                self._timers.set(key, at_ms)
            case ShardClosed(ending=ending):
                _log.info("shard_closed topic=%s shard=%d cause=%s", *self._name, ending.name.lower())
                self._close()
            case LogIsAhead(found=found, named=named):
                _log.error("shard_stopped topic=%s shard=%d found=%s named=%s", *self._name, found, named)
                self.ahead = effect
            case LogIsUnreadable(detail=detail):
                self.unread = (
                    f"shard {self.key[1]} of {self._parts.topic} is not served: this process can't read all "
                    f"of its log: {detail}. Upgrade it, or give the shard to a coordinator of a later release"
                )
                _log.error("shard_stopped topic=%s shard=%d cause=%s", *self._name, self.unread)
            case _:
                assert_never(effect)

    def _close(self) -> None:
        self._parts.counters.endings += 1
        self.stop()
        self._on_closed(self)

    def _tell(self, answered: Callable[[object], None], answer: object) -> None:
        try:
            answered(answer)
        except Exception:  # a bug in one handler must not end the shard of all other clients
            _log.exception("answer_failed topic=%s shard=%d", *self._name)

    async def _ask_writer(self, ask: int) -> None:
        pause_ms = ASK_AGAIN_MS[0]
        while self._is_asking(ask):
            try:
                answer = await self._parts.name_writer(*self.key, self.runtime.found)
            except ControllerUnavailable as error:
                self._note_refusal(str(error), logging.INFO)
            else:
                if answer.writer is not None:
                    nonce = self._parts.rng.randbytes(NONCE_BYTES)
                    self._hear(WriterNamed(ask, answer.writer, nonce))
                    return
                went_back = answer.error is ControllerError.METADATA_WENT_BACK
                self._note_refusal(answer.error, logging.ERROR if went_back else logging.INFO)
            await self._parts.clock.sleep_ms(pause_ms * self._parts.rng.uniform(0.5, 1.0))
            pause_ms = min(2 * pause_ms, ASK_AGAIN_MS[1])

    def _is_asking(self, ask: int) -> bool:
        return not self._is_over and self.runtime.phase is ShardPhase.ASKING and self._asked == ask

    def _note_refusal(self, cause: str, level: int) -> None:
        if cause != self._refusal:
            self._refusal = cause
            _log.log(level, "writer_not_named topic=%s shard=%d cause=%s", *self._name, cause)
