"""The shells of coordinators on the virtual network: leaders that answer over the wire, logs with the real
fence, and a controller that names writers. What brokers do among themselves is left out: all have every log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec
import trio

from coordinator.shell.shard_metrics import collect_shards
from coordinator.shell.shards import Shards
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch, PartitionEpoch
from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import (
    NO_COORDINATOR,
    NO_LEADER,
    WRITER_IDS,
    PartitionState,
    Shard,
    TopicState,
    WriterId,
)
from springtide.contract.updates import BrokerEndpoint, NameWriterResponse, UpdateBatch
from springtide.node.clock import BrokerClock
from springtide.node.cluster_view import ClusterView
from springtide.node.controller_client import ControllerUnavailable
from springtide.node.peer_requests import send_all
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition, decode_fetch_request
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.framing import FrameReader, encode_response_frame
from springtide.wire.headers import RequestHeader, decode_request_header
from springtide.wire.produce import ProduceOutcome, decode_produce_request, encode_produce_response
from tests.fullstack.clock import VirtualClock, run_virtually
from tests.fullstack.net import Network
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimChannel, SimNet
from tests.fullstack.world import World
from tests.kit.coordinator.counter import Counted, CounterMachine, Increment
from tests.kit.coordinator.fenced_log import FencedLog

PORT = 9092
TOPIC_ID = "A" * 22
MUTE_MS = 5
"""How often a mute broker looks whether it still is."""
FIRST_BROKER, FIRST_COORDINATOR = 1, 1001


class Produced(NamedTuple):
    """One attempt that reached a broker."""

    broker_id: int
    partition: int
    batch: bytes


async def _next_frame(channel: SimChannel, frames: FrameReader) -> memoryview:
    while (frame := frames.next_frame()) is None:
        try:
            count = channel.recv_into(frames.writable())
        except BlockingIOError:
            await channel.wait_readable()
            continue
        if not count:
            raise ConnectionResetError
        frames.received(count)
    return frame


class ShardBroker:
    """One broker. mute: shards whose appends it takes and does not answer. lost_answers: so many appends are
    taken, and answered by closing the connection. fetches: how many it was asked."""

    def __init__(self, world: ShardWorld, broker_id: int) -> None:
        self.broker_id = broker_id
        self.mute: set[int] = set()
        self.lost_answers = 0
        self.fetches = 0
        self.connections = 0
        self.machine = world.network.add(f"broker-{broker_id}")
        self._world = world
        self._life = Life(world.world, self.machine.name, 1)

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint(
            broker_id=self.broker_id,
            broker_epoch=BrokerEpoch(self.broker_id),
            host=self.machine.address,
            port=PORT,
        )

    def power_off(self) -> None:
        self._life.die()
        self._world.network.power_off(self.machine)

    def kill(self) -> None:
        self._life.die()
        for listener in list(self.machine.listeners.values()):
            listener.kernel_close()
        self._world.network.on_killed(iter(list(self.machine.channels)))

    async def serve(self) -> None:
        with self._life.scope:
            listener = await SimNet(self._world.network, self._life, self.machine).listen("", PORT)
            listener.begin()
            async with trio.open_nursery() as nursery:
                while True:
                    channel = await listener.accept()
                    self.connections += 1
                    nursery.start_soon(self._talk, channel)

    async def _talk(self, channel: SimChannel) -> None:
        """Answers in order; a read that waits holds what comes behind it."""
        frames = FrameReader()
        with suppress(OSError, trio.ClosedResourceError):
            while True:
                frame = await _next_frame(channel, frames)
                header = decode_request_header(frame)
                if header.api_key == ApiKey.PRODUCE:
                    body: Any = await self._produce(header, frame)
                else:
                    body = await self._fetch(header, frame)
                chunks = encode_response_frame(header.correlation_id, body, has_flexible_header=True)
                await send_all(channel, b"".join(bytes(chunk) for chunk in chunks))  # type: ignore[arg-type]
        channel.close()

    async def _produce(self, header: RequestHeader, frame: memoryview) -> list[bytes]:
        request = decode_produce_request(header.api_version, frame, header.body_position)
        ((topic, partition, records),) = request.partitions
        batch = bytes(records)
        self._world.produced.append(Produced(self.broker_id, partition, batch))
        error, base_offset = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        if self._world.states[partition].leader == self.broker_id:
            error, base_offset = self._world.logs[partition].append(batch)
            self._world.on_changed()
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionResetError
        while partition in self.mute:  # noqa: ASYNC110 - the test changes it as it likes
            await trio.sleep(MUTE_MS / 1_000)
        return [
            encode_produce_response(
                header.api_version, [ProduceOutcome(topic, partition, int(error), base_offset)]
            )
        ]

    async def _fetch(self, header: RequestHeader, frame: memoryview) -> object:
        self.fetches += 1
        request = decode_fetch_request(header.api_version, frame, header.body_position)
        (asked,) = request.partitions
        until_ms = self._world.world.now_ms + request.max_wait_ms
        error, data = self._read(asked)
        while not error and len(data) < request.min_bytes and self._world.world.now_ms < until_ms:
            with trio.move_on_after((until_ms - self._world.world.now_ms) / 1_000):
                await self._world.changed.wait()
            error, data = self._read(asked)
        end = self._world.logs[asked.partition].end_offset
        records = (data,) if data else ()
        answer = FetchedPartition(asked.topic, asked.partition, int(error), end, end, 0, records)
        return encode_fetch_response(header.api_version, [answer])

    def _read(self, asked: FetchPartition) -> tuple[ErrorCode, bytes]:
        state = self._world.states[asked.partition]
        if state.leader != self.broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
        if asked.leader_epoch != state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH, b""
        data = b""
        for batch in self._world.logs[asked.partition].batches_from(asked.fetch_offset):
            data += batch
            if len(data) >= asked.max_bytes:
                break
        return ErrorCode.NONE, data


class CoordinatorShell:
    """One coordinator's shards over counting machines. answers: by the number that `increment` returned."""

    def __init__(self, world: ShardWorld, coordinator_id: int, epoch: int) -> None:
        self.coordinator_id = coordinator_id
        self.epoch = epoch
        self.answers: dict[int, object] = {}
        self.machine = world.network.add(f"coordinator-{coordinator_id}")
        self.view = ClusterView()
        self.tasks = 0
        self._world = world
        self._life = Life(world.world, self.machine.name, 1)
        self._nursery: trio.Nursery | None = None
        self._asked = 0
        self._changed = trio.Event()
        self.turns = 0
        self.shards = Shards(
            topic=GROUPS_TOPIC,
            coordinator_id=coordinator_id,
            coordinator_epoch=lambda: BrokerEpoch(epoch),
            view=self.view,
            net=SimNet(world.network, self._life, self.machine),
            clock=BrokerClock(self._life.clock),  # type: ignore[arg-type] # its timeouts are scopes that can be held
            rng=world.world.random("coordinator", coordinator_id),
            new_machine=CounterMachine,
            name_writer=partial(world.name_writer, coordinator_id),
            is_current=lambda now_ms: True,
            spawn=self._spawn,
            end_turn=self._end_turn,
        )

    def _end_turn(self) -> None:
        self.turns += 1
        self.shards.send_written()

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            self.tasks += 1
            await work()
            self.tasks -= 1
            self._end_turn()

        assert self._nursery is not None
        self._nursery.start_soon(run)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        with self._life.scope:
            async with trio.open_nursery() as self._nursery:
                task_status.started()
                await trio.sleep_forever()

    def kill(self) -> None:
        self._life.die()
        self._world.network.on_killed(iter(list(self.machine.channels)))

    def apply(self, batch: UpdateBatch) -> None:
        if not self._life.is_dead:
            self.view.apply(batch, now_ms=self._life.clock.mono_ms())
            self.shards.on_view_changed()

    def submit(self, shard: int, make: Callable[[int], object], *, ends_turn: bool = True) -> int:
        """Returns the key of the answer to come."""
        self._asked += 1
        number = self._asked

        def answered(answer: object) -> None:
            assert number not in self.answers, "a request is answered once"
            self.answers[number] = answer
            changed, self._changed = self._changed, trio.Event()
            changed.set()

        self.shards.submit(shard, make, answered)
        if ends_turn:
            self.shards.send_written()
        return number

    def increment(self, shard: int, number: int = 1, *, ends_turn: bool = True) -> int:
        return self.submit(shard, lambda token: Increment(token, "a", number, number), ends_turn=ends_turn)

    async def answer(self, number: int) -> object:
        while number not in self.answers:
            await self._changed.wait()
        return self.answers[number]

    async def opened(self, shard: int) -> None:
        """Wait until the shard serves."""
        number = 0
        while isinstance(answer := await self.answer(self.increment(shard, number)), ErrorCode):
            assert answer in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
            await trio.sleep(0.001)
        assert isinstance(answer, Counted)

    def metrics(self) -> dict[str, float]:
        """Values by name, and by their only label beside the topic."""
        return {
            "/".join(
                (sample.name, *(told for label, told in sample.labels.items() if label != "topic"))
            ): sample.value
            for family in collect_shards((self.shards,))
            for sample in family.samples
        }


@dataclass
class ShardWorld:
    """produced: all attempts that reached a broker. asked: (coordinator, shard, found) of each request for a
    writer. writer_rtt_ms: how long the controller takes for one."""

    world: World
    nursery: trio.Nursery
    count: int
    writer_rtt_ms: float = 1.0
    is_controller_down: bool = False
    produced: list[Produced] = field(default_factory=list)
    asked: list[tuple[int, int, WriterId | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.network = Network(self.world)
        self.logs = [FencedLog() for _ in range(self.count)]
        self.brokers = {number: ShardBroker(self, number) for number in range(FIRST_BROKER, FIRST_BROKER + 3)}
        self.coordinators: dict[int, CoordinatorShell] = {}
        self._last_epoch = 0
        self.changed = trio.Event()
        brokers = tuple(self.brokers)
        self.states = [
            PartitionState(
                topic_id=TOPIC_ID,
                topic=GROUPS_TOPIC,
                partition=partition,
                replicas=brokers,
                leader=brokers[partition % len(brokers)],
                leader_epoch=LeaderEpoch(1),
                partition_epoch=PartitionEpoch(1),
                isr=brokers,
                min_insync_replicas=2,
                shard=Shard(writer=WriterId(WRITER_IDS.start)),
            )
            for partition in range(self.count)
        ]
        for broker in self.brokers.values():
            self.nursery.start_soon(broker.serve)

    def on_changed(self) -> None:
        """Wake the reads that wait."""
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def start_coordinator(self, coordinator_id: int) -> CoordinatorShell:
        self._last_epoch += 1
        shell = CoordinatorShell(self, coordinator_id, self._last_epoch)
        await self.nursery.start(shell.run)
        self.coordinators[coordinator_id] = shell
        shell.apply(self.update(full=True))
        return shell

    def update(self, *, full: bool = False) -> UpdateBatch:
        topic = TopicState(topic_id=TOPIC_ID, topic=GROUPS_TOPIC, partitions=self.count, replication_factor=3)
        return UpdateBatch(
            full=full,
            brokers=tuple(broker.endpoint for broker in self.brokers.values()),
            topics=(topic,),
            partitions=tuple(self.states),
        )

    # The controller

    @contextmanager
    def _changing(self) -> Iterator[None]:
        yield
        self.on_changed()
        for shell in self.coordinators.values():
            shell.apply(self.update())

    def _replace(self, number: int, **fields: Any) -> None:
        before = self.states[number]
        self.states[number] = msgspec.structs.replace(
            before, partition_epoch=before.partition_epoch + 1, **fields
        )

    def assign(self, owner: int, standby: int = NO_COORDINATOR, *, shards: range | None = None) -> None:
        """Give shards, all of them by default, to a new owner with a writer."""
        with self._changing():
            for number in range(self.count) if shards is None else shards:
                state = self.states[number].shard
                assert state is not None
                shard = msgspec.structs.replace(state, owner=owner, standby=standby)
                if owner != state.owner and owner in self.coordinators:
                    writer = WriterId(WRITER_IDS.start + self.states[number].partition_epoch + 1)
                    epoch = self.coordinators[owner].epoch
                    shard = msgspec.structs.replace(shard, writer=writer, opener_epoch=epoch)
                self._replace(number, shard=shard)

    def elect(self, shard: int, leader: int, *, is_unclean: bool = False) -> None:
        with self._changing():
            epoch = self.states[shard].leader_epoch + 1
            fields = {"unclean_leader_epoch": epoch} if is_unclean else {}
            self._replace(shard, leader=leader, leader_epoch=epoch, **fields)

    def unseat(self, broker_id: int) -> None:
        """Take all leaderships from the broker and give them to no other."""
        with self._changing():
            for number, state in enumerate(self.states):
                if state.leader == broker_id:
                    self._replace(number, leader=NO_LEADER, leader_epoch=state.leader_epoch + 1)

    def name(self, shard: int, writer: WriterId) -> None:
        state = self.states[shard].shard
        assert state is not None
        with self._changing():
            self._replace(shard, shard=msgspec.structs.replace(state, writer=writer))

    async def name_writer(
        self, coordinator_id: int, topic_id: str, partition: int, found: WriterId | None
    ) -> NameWriterResponse:
        assert topic_id == TOPIC_ID
        self.asked.append((coordinator_id, partition, found))
        await trio.sleep(self.writer_rtt_ms / 1_000)
        if self.is_controller_down:
            raise ControllerUnavailable("down")
        state = self.states[partition]
        assert state.shard is not None
        if state.shard.owner != coordinator_id:
            return NameWriterResponse(error=ControllerError.NOT_COORDINATOR)
        writer = WriterId(WRITER_IDS.start + state.partition_epoch + 1)
        self.name(partition, writer)
        return NameWriterResponse(writer=writer)


def in_shard_world(story: Callable[[ShardWorld], Awaitable[None]], *, count: int = 1, seed: int = 1) -> None:
    async def main(clock: VirtualClock) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(clock.watch_timers)
            await story(ShardWorld(World(seed, clock), nursery, count))
            nursery.cancel_scope.cancel()

    run_virtually(seed, main)
