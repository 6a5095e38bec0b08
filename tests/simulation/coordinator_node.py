"""One simulated coordinator: the real runtime of one shard, and a network. It has no disk.

It does what a coordinator's shell does, in the smallest form: has a session with the controllers, hears in
the metadata stream whether it owns the shard or follows it, and carries the runtime's effects out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from controller.core.records import partition_key
from coordinator.core.shard import ShardPhase, ShardRuntime
from coordinator.core.shard_ports import (
    LOST,
    AnswerRequest,
    AppendBatch,
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
from springtide.contract.session import LevelShards
from springtide.node.core.session import MemberSession
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
from tests.simulation.controller_node import process_name
from tests.simulation.coordinator_link import CoordinatorLink
from tests.simulation.events import Timer, keyed_random
from tests.simulation.process import Process
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster
    from tests.simulation.shards import Shards

#: Small, so that a tick of the counter's cells needs two.
BATCH_BYTES_MAX = 230
BEGIN_ANEW_MS = 20
#: Partitions of the topic: spread, and moved to be spread. Clients use the first; none writes to the others.
SHARDS_SIMULATED = 2
ASK_AGAIN_MS = 50
TICK_MS_MAX = 1_000
#: How long the requests of one turn may go on.
TURN_MS_MAX = 10


class CoordinatorNode(Process):
    """told_level: the coordinator epochs under which it told a controller so, since it was named the shard's
    standby. A controller that did not hear of its end may believe an earlier life."""

    def __init__(self, coordinator_id: int, cluster: Cluster, shards: Shards) -> None:
        super().__init__(process_name(coordinator_id), cluster.events, cluster.network)
        self.coordinator_id = coordinator_id
        self.cluster = cluster
        self.shards = shards
        self.random = keyed_random(cluster.seed, self.name)
        self.runtime: ShardRuntime | None = None
        self.link = CoordinatorLink(self)
        self.told_level: set[int] = set()
        self._begun = 0
        self._state: PartitionState | None = None
        #: The last writer that came with the shard and was taken for an opening, in this life.
        self._taken: WriterId | None = None
        self._queue: deque[ShardEvent] = deque()
        self._is_stepping = False
        self._timers: dict[Hashable, Timer] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = 0

    @property
    def session(self) -> MemberSession:
        return self.link.session

    @property
    def wants_shutdown(self) -> bool:
        return self.session.wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        self.session.wants_shutdown = is_wanted

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

    @property
    def _is_owner(self) -> bool:
        shard = None if self._state is None else self._state.shard
        return shard is not None and shard.owner == self.coordinator_id

    @property
    def _is_standby(self) -> bool:
        shard = None if self._state is None else self._state.shard
        return shard is not None and shard.standby == self.coordinator_id and not self._is_owner

    @property
    def is_level(self) -> bool:
        """Whether it follows the shard as its standby, up to the high watermark that it was told."""
        runtime = self.runtime
        is_following = runtime is not None and runtime.phase is ShardPhase.FOLLOWING and runtime.is_level
        return self._is_standby and is_following

    # --- life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.begin_life()
        self._state = None
        self._taken = None
        self.events.note(f"{self.name} starts")
        self.link = CoordinatorLink(self)
        self.link.register()

    def listen(self) -> None:
        if not self.network.is_listening(self.name):
            self.network.listen(self.name, self._on_request)

    def crash(self) -> None:
        self.end_life()
        self._end()
        self.events.note(f"{self.name} is killed")
        self.cluster.on_process_down(self.name, self.coordinator_id, self.session.broker_epoch)

    def finish_shutdown(self) -> None:
        """It has leave to stop, and does so once it has given the shard away."""
        if not self._is_owner:
            self.cluster.marks.reached("coordinator.stopped")
            self.crash()

    def ask(
        self,
        target: str,
        request: Any,
        answered: Callable[[Any], None],
        *,
        timeout_ms: float = REQUEST_TIMEOUT_MS,
        connection: object = None,
    ) -> None:
        """`answered` hears the reply, or None, in this life only."""
        lost = partial(answered, None)
        self.call(target, request, answered, lost, timeout_ms=timeout_ms, connection=connection)

    # --- the shard --------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """A runtime of its own for each time that the shard is taken up."""
        self._end()
        options = self.cluster.options
        self.runtime = ShardRuntime(
            partial(CounterMachine, tick_ms=min(2 * options.pace_ms, TICK_MS_MAX)),
            read_pause_ms=options.consumer_pace_ms,
            is_current=self.session.lease.is_current,
            batch_bytes_max=BATCH_BYTES_MAX,
        )
        if self._is_owner:
            self._submit(self._given())
        self._tell_leader()

    def _given(self) -> ShardGiven:
        """Return the event, with the writer that came with the shard if it is this life's and not used."""
        shard = None if self._state is None else self._state.shard
        if shard is None or shard.opener_epoch != self.session.broker_epoch or shard.writer == self._taken:
            return ShardGiven()
        self._taken = shard.writer
        self.cluster.marks.reached("shard.writer.given")
        return ShardGiven(shard.writer, self.random.randbytes(16))

    def _begin_anew(self, begun: int) -> None:
        if self._begun == begun:
            self._end()
            if self._is_owner or self._is_standby:
                self._begin()

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
                call = ProduceCall(self._key, effect.batch, ACKS_ALL)

                def appended(answer: ProduceAnswer | None) -> None:
                    error, base_offset = (LOST, -1) if answer is None else answer
                    if error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                        self.cluster.marks.reached("shard.append.under.minimum")
                    submit(BatchAnswered(attempt, error, base_offset))

                connection = (self.name, self.life, begun, effect.connection)
                self.ask(self._leader, call, appended, connection=connection)
            case ReadLog(read=read):

                def was_read(answer: ReadAnswer | None) -> None:
                    if answer is None:
                        submit(LogWasRead(read, LOST))
                    else:
                        batches = b"".join(answer.parts)
                        floor = answer.tombstone_floor
                        submit(LogWasRead(read, answer.error, answer.high_watermark, batches, floor))

                self.ask(self._leader, ReadCall(self._key, effect.leader_epoch, effect.offset), was_read)
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
                    self._timers[key] = new = self.after(delay_ms, lambda: self._fire(key, new))
            case ShardClosed(ending=ending):
                self.events.note(f"{self.name} closes the shard: {ending.name}")
                self.cluster.marks.reached(f"shard.closed.{ending.name.lower()}")
                self.after(BEGIN_ANEW_MS, partial(self._begin_anew, begun))
            case LogIsAhead(found=found, named=named):  # the controller was told what was found
                raise Violation("13.6", f"{self.name} told of writer {found}, and {named} was named to it")
            case LogIsUnreadable(detail=detail):  # no record here is of a later release
                raise Violation("U2", f"{self.name}: {detail}")
            case _:
                assert_never(effect)

    def _fire(self, key: Hashable, timer: Timer) -> None:
        if self._timers.get(key) is timer:  # nor was it replaced while the process stood still
            del self._timers[key]
            self._submit(TimerFired(key, self.clock.wall_ms))

    def _ask_writer(self, effect: AskWriter, begun: int) -> None:
        if self._begun != begun or self.runtime is None or self.runtime.phase is not ShardPhase.ASKING:
            return

        def named(writer: WriterId | None) -> None:
            if writer is None:
                self.after(ASK_AGAIN_MS, partial(self._ask_writer, effect, begun))
            elif self._begun == begun:
                self._submit(WriterNamed(effect.ask, writer, self.random.randbytes(16)))

        assert self._state is not None
        self.link.name_writer(self._state, self.runtime.found, named)

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
        was_owner = self._is_owner
        self._state = state
        if not self._is_standby:
            self.told_level.clear()
        if self.runtime is None:
            self._begin_anew(self._begun)
            return
        self._tell_leader()
        if self._is_owner != was_owner:
            self._submit(self._given() if self._is_owner else ShardTaken())
        if self.runtime.phase is ShardPhase.FOLLOWING and not self._is_owner and not self._is_standby:
            self._end()

    def tell_level(self) -> tuple[LevelShards, ...]:
        """Return what the next heartbeat says. The shards that nobody writes to have no standby that is not
        level."""
        if self.shards.key is None:
            return ()
        topic_id, partition = self.shards.key
        if self.is_level:
            self.told_level.add(self.session.broker_epoch)
        level = tuple(n for n in range(SHARDS_SIMULATED) if self.is_level or n != partition)
        return (LevelShards(topic_id=topic_id, partitions=level),)

    def _on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        self.run_in_life(self.life, partial(self._take, request, answer))

    def _take(self, request: Any, answer: Callable[[Any], None]) -> None:
        if self.runtime is None:
            answer(ErrorCode.NOT_COORDINATOR)
            return
        self._tokens += 1
        self._waiting[self._tokens] = answer
        if self.runtime.has_unsent:
            self.cluster.marks.reached("shard.turn.of.several")
        else:
            self.after(self.random.uniform(0, TURN_MS_MAX), partial(self._end_turn, self._begun))
        self._submit(RequestCame(self._tokens, request._replace(token=self._tokens)))

    def _end_turn(self, begun: int) -> None:
        if self._begun == begun:
            self._submit(TurnEnded())
