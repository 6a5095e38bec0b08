"""One shard in a simulated coordinator: the real runtime, and what carries its effects out.

It does what a coordinator's shell does for a shard, in the smallest form. Its process has a network and no
disk; the metadata stream tells whether the process owns the shard or follows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from controller.core.records import partition_key
from coordinator.core.machine import Machine
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    LOST,
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
    ShardTaken,
    TimerFired,
    TurnEnded,
    WriterNamed,
)
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState, WriterId
from springtide.wire.errors import ErrorCode
from tests.simulation.clients import ACKS_ALL, ProduceAnswer, ProduceCall, ReadAnswer, ReadCall
from tests.simulation.events import Timer
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.coordinator_node import CoordinatorNode

BEGIN_ANEW_MS = 20
ASK_AGAIN_MS = 50
#: How long the requests of one turn may go on.
TURN_MS_MAX = 10


class ShardSeat:
    """new_machine, batch_bytes_max: of the runtime. on_step: called after each step of it.
    told_level: the coordinator epochs under which its process told a controller that it is level, since it
    was named the shard's standby. A controller that did not hear of its end may believe an earlier life."""

    def __init__(
        self,
        node: CoordinatorNode,
        new_machine: Callable[[], Machine],
        *,
        batch_bytes_max: int,
        on_step: Callable[[ShardSeat], None],
    ) -> None:
        self.node = node
        self._new_machine = new_machine
        self._batch_bytes_max = batch_bytes_max
        self._on_step = on_step
        self.runtime: ShardRuntime | None = None
        self.told_level: set[int] = set()
        self.begun = 0
        self._state: PartitionState | None = None
        #: The last writer that came with the shard and was taken for an opening, in this life.
        self._taken: WriterId | None = None
        self._queue: deque[ShardEvent] = deque()
        self._is_stepping = False
        self._timers: dict[Hashable, Timer] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = 0

    @property
    def machine(self) -> Machine:
        assert self.runtime is not None
        return self.runtime.machine

    @property
    def phase(self) -> ShardPhase | None:
        """The phase of its runtime, if it has one; by name, for its process may be of another release."""
        return None if self.runtime is None else ShardPhase[self.runtime.phase.name]

    @property
    def is_serving(self) -> bool:
        return self.phase is ShardPhase.SERVING

    def has_timer(self, key: Hashable) -> bool:
        return key in self._timers

    @property
    def is_writing(self) -> bool:
        writer = None if self.runtime is None else self.runtime.writer
        return writer is not None and not writer.is_empty

    @property
    def is_owner(self) -> bool:
        shard = None if self._state is None else self._state.shard
        return shard is not None and shard.owner == self.node.coordinator_id

    @property
    def _is_standby(self) -> bool:
        shard = None if self._state is None else self._state.shard
        return shard is not None and shard.standby == self.node.coordinator_id and not self.is_owner

    @property
    def is_level(self) -> bool:
        """Whether it follows the shard as its standby, up to the high watermark that it was told."""
        runtime = self.runtime
        is_following = runtime is not None and runtime.phase is ShardPhase.FOLLOWING and runtime.is_level
        return self._is_standby and is_following

    def begin_life(self) -> None:
        self._state = None
        self._taken = None

    def _begin(self) -> None:
        """A runtime of its own for each time that the shard is taken up."""
        self.end()
        node = self.node
        self.runtime = ShardRuntime(
            self._new_machine,
            read_pause_ms=node.cluster.options.consumer_pace_ms,
            is_current=node.session.lease.is_current,
            batch_bytes_max=self._batch_bytes_max,
        )
        if self.is_owner:
            self._submit(self._given())
        self._tell_leader()

    def _given(self) -> ShardGiven:
        """Return the event, with the writer that came with the shard if it is this life's and not used."""
        shard = None if self._state is None else self._state.shard
        if (
            shard is None
            or shard.opener_epoch != self.node.session.broker_epoch
            or shard.writer == self._taken
        ):
            return ShardGiven()
        self._taken = shard.writer
        self.node.cluster.marks.reached("shard.writer.given")
        return ShardGiven(shard.writer, self.node.random.randbytes(16))

    def _begin_anew(self, begun: int) -> None:
        if self.begun == begun:
            self.end()
            if self.is_owner or self._is_standby:
                self._begin()

    def end(self) -> None:
        self.begun += 1
        self.runtime = None
        self._queue.clear()
        self._waiting.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _submit(self, event: ShardEvent) -> None:
        """Step the runtime, and with what its effects bring at once, in order."""
        self._queue.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        while self._queue and self.runtime is not None:
            step = self.runtime.step(
                self._queue.popleft(), now_ms=self.node.clock.mono_ms, wall_ms=self.node.clock.wall_ms
            )
            for effect in step:
                self._carry_out(effect)
            self._on_step(self)
        self._is_stepping = False

    def _carry_out(self, effect: ShardEffect) -> None:
        begun = self.begun

        def submit(event: ShardEvent) -> None:
            if self.begun == begun:
                self._submit(event)

        match effect:
            case AppendBatch(attempt=attempt):
                call = ProduceCall(self._key, effect.batch, ACKS_ALL)

                def appended(answer: ProduceAnswer | None) -> None:
                    error, base_offset = (LOST, -1) if answer is None else answer
                    if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                        self.node.cluster.marks.reached("shard.append.under.minimum")
                    submit(BatchAnswered(attempt, error, base_offset))

                connection = (self.node.name, self.node.life, begun, effect.connection)
                self.node.ask(self._leader, call, appended, connection=connection)
            case ReadLog(read=read):

                def was_read(answer: ReadAnswer | None) -> None:
                    if answer is None:
                        submit(LogWasRead(read, LOST))
                    else:
                        batches = b"".join(answer.parts)
                        floor = answer.tombstone_floor
                        submit(LogWasRead(read, answer.error, answer.high_watermark, batches, floor))

                self.node.ask(self._leader, ReadCall(self._key, effect.leader_epoch, effect.offset), was_read)
            case AskWriter():
                self._ask_writer(effect, begun)
            case AnswerRequest(token=token, answer=answer):
                self._waiting.pop(token)(answer)
            case Ask(question=question):  # no group here is one for another process
                raise AssertionError(question)
            case SetTimer(key=key, at_ms=at_ms):
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
                if at_ms is not None:
                    delay_ms = max(0, at_ms - self.node.clock.mono_ms)
                    self._timers[key] = new = self.node.after(delay_ms, lambda: self._fire(key, new))
            case ShardClosed(ending=ending):
                self.node.events.note(f"{self.node.name} closes the shard: {ending.name}")
                self.node.cluster.marks.reached(f"shard.closed.{ending.name.lower()}")
                self.node.after(BEGIN_ANEW_MS, partial(self._begin_anew, begun))
            case LogIsAhead(found=found, named=named):  # the controller was told what was found
                raise Violation(
                    "13.6", f"{self.node.name} told of writer {found}, and {named} was named to it"
                )
            case LogIsUnreadable(detail=detail):  # no record here is of a later release
                raise Violation("U2", f"{self.node.name}: {detail}")
            case _:
                assert_never(effect)

    def _fire(self, key: Hashable, timer: Timer) -> None:
        if self._timers.get(key) is timer:  # nor was it replaced while the process stood still
            del self._timers[key]
            self._submit(TimerFired(key, self.node.clock.wall_ms))

    def _ask_writer(self, effect: AskWriter, begun: int) -> None:
        if self.begun != begun or self.runtime is None or self.runtime.phase is not ShardPhase.ASKING:
            return

        def named(writer: WriterId | None) -> None:
            if writer is None:
                self.node.after(ASK_AGAIN_MS, partial(self._ask_writer, effect, begun))
            elif self.begun == begun:
                self._submit(WriterNamed(effect.ask, writer, self.node.random.randbytes(16)))

        assert self._state is not None
        self.node.link.name_writer(self._state, self.runtime.found, named)

    # --- what it hears ----------------------------------------------------------------------------------

    @property
    def _key(self) -> PartitionKey:
        assert self._state is not None
        return partition_key(self._state)

    @property
    def _leader(self) -> str:
        return "nobody" if self._state is None else f"broker-{self._state.leader}"

    def _tell_leader(self) -> None:
        if self._state is not None and self._state.leader != NO_LEADER:
            self._submit(LeaderKnown(self._state.leader_epoch, self._state.unclean_leader_epoch))

    def on_state(self, state: PartitionState) -> None:
        """The metadata stream brings the shard's state."""
        if self._state is not None and state.partition_epoch <= self._state.partition_epoch:
            return
        was_owner = self.is_owner
        self._state = state
        if not self._is_standby:
            self.told_level.clear()
        if self.runtime is None:
            self._begin_anew(self.begun)
            return
        self._tell_leader()
        if self.is_owner != was_owner:
            self._submit(self._given() if self.is_owner else ShardTaken())
        if self.runtime.phase is ShardPhase.FOLLOWING and not self.is_owner and not self._is_standby:
            self.end()

    def take(self, request: Any, answer: Callable[[Any], None]) -> None:
        """A request, of which a copy gets a token."""
        if self.runtime is None:
            answer(ErrorCode.NOT_COORDINATOR)
            return
        self._tokens += 1
        self._waiting[self._tokens] = answer
        if self.runtime.has_unsent:
            self.node.cluster.marks.reached("shard.turn.of.several")
        else:
            self.node.after(self.node.random.uniform(0, TURN_MS_MAX), partial(self._end_turn, self.begun))
        self._submit(RequestCame(self._tokens, with_token(request, self._tokens)))

    def _end_turn(self, begun: int) -> None:
        if self.begun == begun:
            self._submit(TurnEnded())


def with_token(request: Any, token: int) -> Any:
    """Return the request with a token of the shard's."""
    return replace(request, token=token) if isinstance(request, Struct) else request._replace(token=token)
