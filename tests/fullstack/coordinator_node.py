"""A coordinator's machine: its process over many lives, and the ways in which either ends. It has no disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from coordinator.config import CoordinatorConfig
from coordinator.process import CoordinatorProcess, CoordinatorSettings, listen
from springtide.node.controller_session import RegistrationRefused, WentBack
from springtide.node.listeners import ListenersSettings
from springtide.node.settings import NodePorts
from tests.fullstack.http import SimTransport
from tests.fullstack.node import Node
from tests.fullstack.ports import DiskHost, SimThreads
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimNet
from tests.kit.memory.disk import MemoryDisk

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

PORT = 9192
CONFIG = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
    "offsets.retention.check.interval.ms": "2000",
}
"""Rebalances within seconds, and looks for expired offsets, of which a run has none."""


class CoordinatorNode(Node):
    exit_errors = (RegistrationRefused, WentBack, OSError)

    def __init__(self, cluster: Cluster, coordinator_id: int) -> None:
        super().__init__(cluster, f"coordinator-{coordinator_id}")
        self.coordinator_id = coordinator_id
        self.coordinator: CoordinatorProcess | None = None

    def _die(self) -> bool:
        self.coordinator = None
        return super()._die()

    async def _run(self, life: Life) -> None:
        cluster = self._cluster
        net = SimNet(cluster.network, life, self.machine)
        ports = NodePorts(
            clock=life.clock,  # type: ignore[arg-type] # its timeouts are scopes that can be held
            net=net,
            threads=SimThreads(life, DiskHost(MemoryDisk())),
            rng=life.world.random("coordinator", self.name, life.number),
            controller_transport=SimTransport(life, net),
        )
        settings = CoordinatorSettings(
            cluster=cluster.name,
            coordinator_id=self.coordinator_id,
            listeners=ListenersSettings.one(self.machine.address, PORT),
            controllers=tuple(cluster.controller_urls),
            config=CoordinatorConfig.parse(CONFIG.items()),
            version="simulated",
        )
        self.coordinator = await listen(settings, ports)
        await self.coordinator.run()

    def _stops(self) -> Callable[[], Awaitable[object]] | None:
        return None if self.coordinator is None else self.coordinator.shut_down
