"""One simulated coordinator: the real runtime of one shard, and a network. It has no disk.

It does what a coordinator's shell does, in the smallest form: tells the controller that it lives, hears who
owns the shard, asks any broker for metadata, and carries the runtime's effects out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from controller.contract.partition_state import NO_LEADER, WRITER_IDS, PartitionState, WriterId
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    LOST,
    AnswerRequest,
    AppendBatch,
    AskWriter,
    BatchAnswered,
    LeaderKnown,
    LogIsAhead,
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
    WriterNamed,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.counter import TICK, CounterMachine
from tests.simulation.clients import (
    ACKS_ALL,
    REQUEST_TIMEOUT_MS,
    ProduceAnswer,
    ProduceCall,
    ReadAnswer,
    ReadCall,
)
from tests.simulation.clock import NodeClock
from tests.simulation.events import Timer, keyed_random
from tests.simulation.shard_authority import AUTHORITY, Beat, NameWriter, Role
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.shards import Shards

#: Small, so that a tick of the counter's cells needs two.
BATCH_BYTES_MAX = 230
BEGIN_ANEW_MS = 20
TICK_MS_MAX = 1_000


class CoordinatorNode:
    def __init__(self, coordinator_id: int, cluster: Cluster, shards: Shards) -> None:
        self.name = f"coordinator-{coordinator_id}"
        self.cluster = cluster
        self.shards = shards
        self.events = cluster.events
        self.random = keyed_random(cluster.seed, self.name)
        self.clock = NodeClock(cluster.events)
        self.life = 0
        self.is_up = False
        self.is_paused = False
        self.parked: list[Callable[[], None]] = []
        self.runtime: ShardRuntime | None = None
        self._begun = 0
        self._is_owner = False
        self._found = 0
        self._state: PartitionState | None = None
        self._queue: deque[ShardEvent] = deque()
        self._is_stepping = False
        self._timers: dict[Hashable, Timer] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = 0

    @property
    def machine(self) -> CounterMachine:
        assert self.runtime is not None
        machine = self.runtime.machine
        assert isinstance(machine, CounterMachine)
        return machine

    @property
    def is_busy(self) -> bool:
        """Whether it has something to write, now or soon."""
        writer = None if self.runtime is None else self.runtime.writer
        return TICK in self._timers or (writer is not None and not writer.is_empty)

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.is_paused = False
        self._is_owner = False
        self._state = None
        self.cluster.network.listen(self.name, self._on_request)
        self.events.note(f"{self.name} starts")
        self._begin()
        self._beat()

    def crash(self) -> None:
        self.is_up = False
        self.is_paused = False
        self.parked.clear()
        self.cluster.network.close(self.name)
        self._end()
        self.events.note(f"{self.name} is killed")

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        parked, self.parked = self.parked, []
        for call in parked:
            call()

    def _run_in_life(self, life: int, call: Callable[[], None]) -> None:
        if not self.is_up or self.life != life:
            return
        if self.is_paused:
            self.parked.append(partial(self._run_in_life, life, call))
            return
        call()

    def _after(self, delay_ms: float, call: Callable[[], None]) -> Timer:
        return self.events.after(delay_ms, partial(self._run_in_life, self.life, call))

    def _call(self, target: str, request: Any, answered: Callable[[Any], None], **options: Any) -> None:
        """`answered` hears the reply, or None, in this life only."""
        life = self.life

        def heard(reply: Any) -> None:
            self._run_in_life(life, partial(answered, reply))

        self.cluster.network.call(
            self.name,
            target,
            request,
            heard,
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lambda: heard(None),
            **options,
        )

    # --- the shard --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A runtime of its own for each time that the shard is taken up."""
        self._end()
        options = self.cluster.options
        self.runtime = ShardRuntime(
            partial(CounterMachine, tick_ms=min(2 * options.pace_ms, TICK_MS_MAX)),
            read_pause_ms=options.consumer_pace_ms,
            batch_bytes_max=BATCH_BYTES_MAX,
        )
        self._found = 0
        if self._is_owner:
            self._submit(ShardGiven())
        if self._state is not None:
            self._submit(LeaderKnown(self._state.leader_epoch, self._state.unclean_leader_epoch))

    def _end(self) -> None:
        self._begun += 1
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
                self._queue.popleft(), now_ms=self.clock.mono_ms, wall_ms=self.clock.wall_ms
            )
            for effect in step:
                self._carry_out(effect)
            self.shards.check(self)
        self._is_stepping = False

    def _carry_out(self, effect: ShardEffect) -> None:
        begun = self._begun

        def submit(event: ShardEvent) -> None:
            if self._begun == begun:
                self._submit(event)

        match effect:
            case AppendBatch(attempt=attempt):
                self._refresh()
                call = ProduceCall(self.shards.key, effect.batch, ACKS_ALL)

                def appended(answer: ProduceAnswer | None) -> None:
                    error, base_offset = (LOST, -1) if answer is None else answer
                    if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                        self.cluster.marks.reached("shard.append.under.minimum")
                    submit(BatchAnswered(attempt, error, base_offset))

                connection = (self.name, self.life, begun, effect.connection)
                self._call(self._leader, call, appended, connection=connection)
            case ReadLog(read=read):
                self._refresh()

                def was_read(answer: ReadAnswer | None) -> None:
                    if answer is None:
                        submit(LogWasRead(read, LOST))
                    else:
                        submit(LogWasRead(read, answer.error, answer.high_watermark, b"".join(answer.parts)))

                self._call(
                    self._leader, ReadCall(self.shards.key, effect.leader_epoch, effect.offset), was_read
                )
            case AskWriter():
                self._ask_writer(effect, begun)
            case AnswerRequest(token=token, answer=answer):
                self._waiting.pop(token)(answer)
            case SetTimer(key=key, at_ms=at_ms):
                timer = self._timers.pop(key, None)
                if timer is not None:
                    timer.cancel()
                if at_ms is not None:
                    delay_ms = max(0, at_ms - self.clock.mono_ms)
                    self._timers[key] = new = self._after(delay_ms, lambda: self._fire(key, new))
            case ShardClosed(ending=ending):
                self.events.note(f"{self.name} closes the shard: {ending.name}")
                self.cluster.marks.reached(f"shard.closed.{ending.name.lower()}")
                self._after(BEGIN_ANEW_MS, lambda: self._begin() if self._begun == begun else None)
            case LogIsAhead(found=found, named=named):
                self.events.note(f"{self.name} stops: writer {found} in the log, {named} named")
                self.cluster.marks.reached("shard.stopped")
                if not self.cluster.zookeeper.times_back:
                    raise Violation("went back", f"ZooKeeper did not: {effect}")
                self._found = found.producer_id - WRITER_IDS.start
            case _:
                assert_never(effect)

    def _fire(self, key: Hashable, timer: Timer) -> None:
        if self._timers.get(key) is timer:  # nor was it replaced while the process stood still
            del self._timers[key]
            self._submit(TimerFired(key))

    def _ask_writer(self, effect: AskWriter, begun: int) -> None:
        if self._begun != begun or self.runtime is None or self.runtime.phase is not ShardPhase.ASKING:
            return

        def named(writer: WriterId | None) -> None:
            if writer is None:
                self._ask_writer(effect, begun)
            elif self._begun == begun:
                self._submit(WriterNamed(effect.ask, writer, self.random.randbytes(16)))

        self._call(AUTHORITY, NameWriter(self.name), named)

    # --- what it hears ----------------------------------------------------------------------------------

    @property
    def _leader(self) -> str:
        return "nobody" if self._state is None else f"broker-{self._state.leader}"

    def _refresh(self) -> None:
        """Metadata from any broker that is up, so it may be old."""
        key, before = self.shards.key, self._state
        up = [b for b in self.cluster.brokers.values() if b.is_up and not b.is_paused and key in b.states]
        if not up:
            return
        state = self.random.choice(up).states[key]
        if state.leader == NO_LEADER or (before is not None and state.leader_epoch <= before.leader_epoch):
            return
        self._state = state
        self._submit(LeaderKnown(state.leader_epoch, state.unclean_leader_epoch))

    def _beat(self) -> None:
        self._refresh()
        is_level = self.runtime is not None and self.runtime.is_level
        self._call(AUTHORITY, Beat(self.name, is_level, self._found), self._on_role)
        interval_ms = self.cluster.options.heartbeat_interval_ms
        self._after(interval_ms * (0.9 + 0.2 * self.random.random()), self._beat)

    def _on_role(self, role: Role | None) -> None:
        if role is None:
            return
        if self._found and role.named >= self._found:
            self._begin()
        if role.is_owner != self._is_owner:
            self._is_owner = role.is_owner
            self._submit(ShardGiven() if role.is_owner else ShardTaken())

    def _on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        self._run_in_life(self.life, partial(self._take, request, answer))

    def _take(self, request: Any, answer: Callable[[Any], None]) -> None:
        if self.runtime is None:
            return
        self._tokens += 1
        self._waiting[self._tokens] = answer
        self._submit(RequestCame(self._tokens, request._replace(token=self._tokens)))
