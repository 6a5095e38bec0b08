"""Coordinators' shards on real brokers: replicated logs with a real fence, whose leaders change."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from controller.core.events import (
    AdmitCoordinators,
    BrokerApplied,
    BrokerProvenDead,
    Heartbeat,
    NameWriter,
    RegisterMember,
)
from controller.core.records import MemberKind
from controller.core.shards import SHARDS
from coordinator.shell.shard_metrics import collect_shards
from coordinator.shell.shards import Shards
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch
from springtide.contract.partition_state import NO_LEADER, WriterId
from springtide.contract.session import (
    HeartbeatRequest,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import NameWriterRequest, NameWriterResponse, PollRequest
from springtide.levels import SUPPORTED
from springtide.node.clock import BrokerClock, MachineClock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import SystemNet
from springtide.node.sharding import GROUPS_TOPIC
from springtide.wire.errors import ErrorCode
from tests.kit.controller.images import build_update
from tests.kit.coordinator.counter import Counted, CounterMachine, Increment, ReadCounter
from tests.kit.dataplane.cluster_in_process import ClusterInProcess, CoreController, cluster_in_process

BEAT_S = 0.1


class Coordinator:
    """The shards of one coordinator, and as much of its session as they need, without HTTP."""

    def __init__(self, controller: CoreController, coordinator_id: int, nursery: trio.Nursery) -> None:
        self._controller = controller
        self._id = coordinator_id
        self._clock = BrokerClock(MachineClock())
        self._nursery = nursery
        self.view = ClusterView()
        self.applied = -1
        self.epoch = -1
        self.shards = Shards(
            topic=GROUPS_TOPIC,
            coordinator_id=coordinator_id,
            coordinator_epoch=lambda: BrokerEpoch(self.epoch),
            view=self.view,
            net=SystemNet(),
            clock=self._clock,
            rng=random.Random(coordinator_id),
            new_machine=CounterMachine,
            name_writer=self._name_writer,
            is_current=lambda now_ms: True,
            spawn=nursery.start_soon,
            end_turn=lambda: None,
        )

    def join(self) -> None:
        request = RegisterRequest(
            broker_id=self._id,
            incarnation_id=f"coordinator-{self._id}",
            host="127.0.0.1",
            port=1,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=SUPPORTED,
        )
        answer = self._controller.submit(
            RegisterMember(kind=MemberKind.COORDINATOR, wall_ms=0, request=request)
        )
        assert isinstance(answer, RegisterResponse)
        self.epoch = answer.broker_epoch
        self._controller.submit(AdmitCoordinators(wall_ms=0, actor="test", coordinator_ids=(self._id,)))
        self._nursery.start_soon(self._live)

    async def _live(self) -> None:
        while True:
            poll = PollRequest(
                broker_id=self._id,
                broker_epoch=BrokerEpoch(self.epoch),
                applied_controller_epoch=ControllerEpoch(1),
                applied_sequence=self.applied,
            )
            batch = build_update(self._controller.image, poll, controller_epoch=1)
            if batch is not None:
                self.applied = batch.sequence
                self.view.apply(batch, now_ms=self._clock.mono_ms())
                self.shards.on_view_changed()
            self._controller.submit(
                BrokerApplied(
                    wall_ms=0,
                    broker_id=self._id,
                    broker_epoch=BrokerEpoch(self.epoch),
                    controller_epoch=ControllerEpoch(1),
                    sequence=self.applied,
                    kind=MemberKind.COORDINATOR,
                )
            )
            beat = HeartbeatRequest(
                broker_id=self._id,
                broker_epoch=BrokerEpoch(self.epoch),
                incarnation_id=f"coordinator-{self._id}",
                applied_controller_epoch=ControllerEpoch(1),
                applied_sequence=self.applied,
                level=self.shards.level(),
            )
            self._controller.submit(
                Heartbeat(
                    wall_ms=0, request=beat, received_ms=self._clock.mono_ms(), kind=MemberKind.COORDINATOR
                )
            )
            await trio.sleep(BEAT_S)

    async def _name_writer(self, topic_id: str, partition: int, found: WriterId | None) -> NameWriterResponse:
        await trio.lowlevel.checkpoint()
        request = NameWriterRequest(
            broker_id=self._id,
            broker_epoch=BrokerEpoch(self.epoch),
            topic_id=topic_id,
            partition=partition,
            found=found,
        )
        answer = self._controller.submit(NameWriter(wall_ms=0, request=request))
        assert isinstance(answer, NameWriterResponse)
        return answer

    async def ask(self, shard: int, make: Callable[[int], object]) -> object:
        answered = trio.Event()
        answers: list[object] = []

        def on_answer(answer: object) -> None:
            answers.append(answer)
            answered.set()

        self.shards.submit(shard, make, on_answer)
        self.shards.send_written()
        await answered.wait()
        return answers[0]

    async def increment(self, shard: int, number: int) -> int:
        """Return the counter, once an owner has answered."""
        while True:
            answer = await self.ask(shard, lambda token: Increment(token, "a", number, number))
            if isinstance(answer, Counted):
                return answer.value
            assert isinstance(answer, ErrorCode)
            await trio.sleep(0.02)

    def is_serving(self, count: int) -> bool:
        values = {
            sample.labels.get("state", sample.name): sample.value
            for family in collect_shards((self.shards,))
            for sample in family.samples
        }
        return values["active"] == count


def run(
    root: Path, story: Callable[[ClusterInProcess, Callable[[int], Coordinator]], Awaitable[None]]
) -> None:
    """Three brokers with the topic of the shards, in sync."""

    async def main() -> None:
        async with cluster_in_process(root) as cluster, trio.open_nursery() as nursery:
            await cluster.form(1, 2, 3)
            controller = cluster.controller

            def start(coordinator_id: int) -> Coordinator:
                coordinator = Coordinator(controller, coordinator_id, nursery)
                coordinator.join()
                return coordinator

            await story(cluster, start)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_shards_are_opened_written_through_a_leaders_death_and_taken_over(tmp_path: Path) -> None:
    async def story(cluster: ClusterInProcess, start: Callable[[int], Coordinator]) -> None:
        controller = cluster.controller
        one = start(1001)
        await controller.wait_for(lambda: one.is_serving(SHARDS), "one coordinator serves all shards")
        for shard in range(SHARDS):
            assert await one.increment(shard, 1) == 1

        # A leader dies: what was under way is written once, by the next.
        topic_id, _ = min(controller.image.shards)
        leader = controller.state(topic_id, 7).leader
        await cluster.brokers.pop(leader).kill()
        for number in range(2, 12):
            assert await one.increment(7, number) == number
        assert controller.state(topic_id, 7).leader not in (leader, NO_LEADER)

        # Another coordinator joins: it gets its share once it is level, and all when the first dies.
        other = start(1002)
        await controller.wait_for(lambda: other.is_serving(SHARDS // 2), "the shards are shared")
        assert len(one.shards.owned()) == len(other.shards.owned()) == SHARDS // 2
        one.shards.stop()
        controller.submit(BrokerProvenDead(wall_ms=0, broker_id=1001, broker_epoch=BrokerEpoch(one.epoch)))
        await controller.wait_for(lambda: other.is_serving(SHARDS), "the other has taken over")
        assert await other.ask(7, ReadCounter) == Counted(11)
        for shard in range(SHARDS):
            assert await other.increment(shard, 20) == (12 if shard == 7 else 2)

    run(tmp_path, story)
