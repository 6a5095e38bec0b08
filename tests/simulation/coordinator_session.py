"""A simulated coordinator's session with the controllers, as springtide.node.controller_session has it: it
registers, beats, polls the metadata stream and applies it, and asks for names of writers. It has a lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.core.records import partition_key
from springtide.contract.errors import ControllerAnswer, ControllerError
from springtide.contract.partition_state import PartitionState, WriterId
from springtide.contract.session import (
    HeartbeatRequest,
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
    Witness,
)
from springtide.contract.updates import NameWriterRequest, NameWriterResponse, PollRequest, UpdateBatch
from springtide.node.controller_client import UNTOLD, seen_after
from springtide.node.lease import Lease
from tests.simulation.clients import REQUEST_TIMEOUT_MS

if TYPE_CHECKING:
    from tests.simulation.coordinator_node import CoordinatorNode

HEARTBEAT_TIMEOUT_MS = 900
RETRY_MS = 100
_DISOWNED = (ControllerError.BROKER_NOT_REGISTERED, ControllerError.STALE_BROKER_EPOCH)


class CoordinatorSession:
    """The session of one process, which knows nothing of the process before it. epoch: the coordinator epoch;
    -1 until it has one."""

    def __init__(self, node: CoordinatorNode) -> None:
        self.node = node
        self.epoch = -1
        self.lease = Lease()
        self._incarnation = f"{node.name}#{node.life}"
        self._controllers = [controller.name for controller in node.cluster.controllers]
        self._seen = UNTOLD
        self._cluster_id: str | None = None
        self._applied = (-1, -1)
        self._is_registering = False

    @property
    def _controller(self) -> str:
        return self._controllers[0]

    @property
    def _witness(self) -> Witness | None:
        if self._cluster_id is None:
            return None
        return Witness(cluster_id=self._cluster_id, **self._seen._asdict())

    def _believes(self, controller: str, answer: ControllerAnswer | None) -> bool:
        """Whether it answers what was asked. Who does not answer, leads no more or does not lead is left."""
        seen = None if answer is None else seen_after(self._seen, answer)
        if seen is None or answer is None or answer.error is ControllerError.NOT_CONTROLLER:
            if self._controller == controller:
                self._controllers.append(self._controllers.pop(0))
            return False
        self._seen = seen
        return answer.error is ControllerError.NONE

    def register(self) -> None:
        node, controller = self.node, self._controller
        self._is_registering = True
        request = RegisterRequest(
            broker_id=node.coordinator_id,
            incarnation_id=self._incarnation,
            host=node.name,
            port=9092,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            previous_broker_epoch=self.epoch,
            cluster_id=self._cluster_id,
            witness=self._witness,
        )

        def answered(response: RegisterResponse | None) -> None:
            if response is None or response.error is not ControllerError.DUPLICATE_BROKER_REGISTRATION:
                node.listen()  # until then the process before this one can be proven dead
            if not self._believes(controller, response) or response is None:
                node.after(RETRY_MS, self.register)
                return
            is_first = self.epoch < 0
            self._is_registering = False
            self._cluster_id = response.cluster_id
            self.epoch = response.broker_epoch
            self._applied = (-1, -1)
            node.events.note(f"{node.name} registered, coordinator epoch {self.epoch}")
            if is_first:
                self._beat()
                self._poll()

        node.call(controller, request, answered, timeout_ms=REQUEST_TIMEOUT_MS)

    def _beat(self) -> None:
        node, controller = self.node, self._controller
        sent_ms = node.clock.mono_ms
        request = HeartbeatRequest(
            broker_id=node.coordinator_id,
            broker_epoch=self.epoch,
            incarnation_id=self._incarnation,
            applied_controller_epoch=self._applied[0],
            applied_sequence=self._applied[1],
            witness=self._witness,
            level=node.tell_level(),
        )

        def answered(response: HeartbeatResponse | None) -> None:
            self._believes(controller, response)
            if response is not None:
                self.lease.on_heartbeat_acked(response, sent_ms=sent_ms, now_ms=node.clock.mono_ms)
            if response is not None and response.error in _DISOWNED and not self._is_registering:
                self.register()

        node.call(controller, request, answered, timeout_ms=HEARTBEAT_TIMEOUT_MS)
        interval_ms = node.cluster.options.heartbeat_interval_ms
        node.after(interval_ms * (0.9 + 0.2 * node.random.random()), self._beat)

    def _poll(self) -> None:
        node, controller = self.node, self._controller
        request = PollRequest(
            broker_id=node.coordinator_id,
            broker_epoch=self.epoch,
            applied_controller_epoch=self._applied[0],
            applied_sequence=self._applied[1],
            witness=self._witness,
        )

        def answered(batch: UpdateBatch | None) -> None:
            if self._believes(controller, batch) and batch is not None:
                self._apply(batch)
                node.after(0.1, self._poll)
            else:
                node.after(RETRY_MS / 2, self._poll)

        node.cluster.on_poll_sent(node.coordinator_id, controller)
        node.call(controller, request, answered, timeout_ms=node.cluster.options.poll_wait_ms + 500)

    def _apply(self, batch: UpdateBatch) -> None:
        position = (batch.controller_epoch, batch.sequence)
        if batch.broker_epoch != self.epoch or not self.lease.on_controller_epoch(batch.controller_epoch):
            return
        if position < self._applied and not batch.full:
            return
        for state in batch.partitions:
            if partition_key(state) == self.node.shards.key:
                self.node.on_state(state)
        self._applied = position
        self.lease.on_applied(controller_epoch=batch.controller_epoch, sequence=batch.sequence)
        self._seen = self._seen._replace(records=max(self._seen.records, batch.records))

    def name_writer(
        self, state: PartitionState, found: WriterId | None, named: Callable[[WriterId | None], None]
    ) -> None:
        """Ask once. `named` hears the name, or None."""
        controller = self._controller
        request = NameWriterRequest(
            broker_id=self.node.coordinator_id,
            broker_epoch=self.epoch,
            topic_id=state.topic_id,
            partition=state.partition,
            found=found,
        )

        def answered(response: NameWriterResponse | None) -> None:
            is_named = self._believes(controller, response)
            named(response.writer if is_named and response is not None else None)

        self.node.call(controller, request, answered, timeout_ms=REQUEST_TIMEOUT_MS)
