"""A simulated coordinator at its controllers, in one life: as every member it registers, beats, and applies
the metadata stream; it tells which shards it is level with, and asks for names of writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from springtide.contract.errors import ControllerError
from springtide.contract.partition_state import PartitionState, WriterId
from springtide.contract.session import (
    HeartbeatResponse,
    RegisterRequest,
    RegisterResponse,
    ShutdownKind,
)
from springtide.contract.updates import NameWriterRequest, NameWriterResponse, UpdateBatch
from springtide.levels import SUPPORTED
from springtide.node.core.session import MemberSession
from springtide.node.lease import Lease
from tests.simulation.clients import REQUEST_TIMEOUT_MS
from tests.simulation.controller_link import Answered, Beat, ControllerLink

if TYPE_CHECKING:
    from tests.simulation.coordinator_node import CoordinatorNode


class CoordinatorLink(ControllerLink):
    def __init__(self, node: CoordinatorNode) -> None:
        identity = RegisterRequest(
            broker_id=node.coordinator_id,
            incarnation_id=f"{node.name}#{node.life}",
            host=node.name,
            port=9092,
            log_dir_ids=(),
            last_shutdown=ShutdownKind.FIRST_START,
            levels=SUPPORTED,
        )
        super().__init__(
            node,
            MemberSession(identity, cluster_id=None, lease=Lease()),
            node.cluster,
            node.random,
            [controller.name for controller in node.cluster.controllers],
        )
        self.node = node

    def _on_registration_answered(self, error: ControllerError | None) -> None:
        if error is not ControllerError.DUPLICATE_BROKER_REGISTRATION:
            self.node.listen()  # until then the process before this one can be proven dead

    def _on_registered(self, response: RegisterResponse, *, is_first: bool) -> None:
        node = self.node
        node.events.note(f"{node.name} registered, coordinator epoch {response.broker_epoch}")

    def _on_heartbeat(self, beat: Beat, response: HeartbeatResponse, meaning: Answered) -> None:
        if self.session.may_shut_down:
            self.node.finish_shutdown()

    def _next_beat(self) -> Beat:
        request = self.session.heartbeat(self.witness)
        wants = self.node.shards.wants_transactions
        return self._beat(structs.replace(request, level=self.node.tell_level(), wants_transactions=wants))

    def _apply(self, batch: UpdateBatch) -> bool:
        for state in batch.partitions:
            self.node.on_state(state)
        if self.session.on_applied(batch, ()):
            seen = self.seen
            self.seen = seen._replace(
                records=max(seen.records, batch.records), level=max(seen.level, batch.level)
            )
        return True

    def name_writer(
        self, state: PartitionState, found: WriterId | None, named: Callable[[WriterId | None], None]
    ) -> None:
        """Ask once. `named` hears the name, or None."""
        controller = self.controller
        request = NameWriterRequest(
            broker_id=self.node.coordinator_id,
            broker_epoch=self.session.broker_epoch,
            topic_id=state.topic_id,
            partition=state.partition,
            found=found,
        )

        def answered(response: NameWriterResponse | None) -> None:
            if response is None or not self.hear(response):
                self.leave(controller)
                named(None)
                return
            if response.error is ControllerError.NOT_CONTROLLER:
                self.leave(controller)
            named(response.writer if response.error is ControllerError.NONE else None)

        self.node.ask(controller, request, answered, timeout_ms=REQUEST_TIMEOUT_MS)
