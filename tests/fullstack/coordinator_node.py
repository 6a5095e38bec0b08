"""A coordinator's machine: its process over many lives, and the ways in which either ends. It has no disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.config import CoordinatorConfig
from coordinator.process import CoordinatorProcess, CoordinatorSettings, listen
from springtide.node.controller_session import RegistrationRefused, WentBack
from springtide.node.settings import NodePorts
from tests.fullstack.broker_node import BOOT_MS, RESTART_MS
from tests.fullstack.http import SimTransport
from tests.fullstack.life import Life, WallClock
from tests.fullstack.ports import DiskHost, SimThreads
from tests.fullstack.sockets import SimNet
from tests.simulation.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

PORT = 9192
CONFIG = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "300",
    "offsets.retention.check.interval.ms": "2000",
}
"""Rebalances within seconds, and looks for expired offsets, of which a run has none."""


class CoordinatorNode:
    """`cluster` runs it."""

    def __init__(self, cluster: Cluster, coordinator_id: int) -> None:
        self.coordinator_id = coordinator_id
        self.name = f"coordinator-{coordinator_id}"
        self.machine = cluster.network.add(self.name)
        self.clock = WallClock()
        self.process: Life | None = None
        self.coordinator: CoordinatorProcess | None = None
        self.lives = 0
        self._cluster = cluster

    @property
    def life(self) -> int:
        """Which life this is, or was the last."""
        return self.lives

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_dead

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    def start(self) -> None:
        if self.is_up:
            return
        self.lives += 1
        self.process = Life(self._cluster.world, self.name, self.lives, self.clock)
        self._cluster.world.note(f"{self.name} starts, life {self.lives}")
        self._cluster.spawn(self._live, self.process)

    def crash(self) -> None:
        """SIGKILL: the kernel ends its connections."""
        life = self.process
        if life is None or life.is_dead:
            return
        self._cluster.world.note(f"{self.name} is killed")
        self.process = self.coordinator = None
        life.die()
        for listener in list(self.machine.listeners.values()):
            listener.kernel_close()
        for channel in list(self.machine.channels):
            channel.kernel_close()

    def pause(self) -> None:
        assert self.process is not None
        self.process.pause()
        self._cluster.world.note(f"{self.name} is paused")

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._cluster.world.note(f"{self.name} goes on")
            self.process.resume()

    # The process

    async def _live(self, life: Life) -> None:
        reason = ""
        with life.scope:
            try:
                await life.clock.sleep_ms(life.world.random("boot", self.name, life.number).uniform(*BOOT_MS))
                await self._run(life)
            except* (RegistrationRefused, WentBack, OSError) as group:
                reason = f"{group.exceptions[0]!r}"
            except* Exception as group:
                if not life.is_dead:
                    self._cluster.fail(f"{self.name} crashed", group)
        if not life.is_dead:
            self._on_exit(life, reason)

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
            listen_host=self.machine.address,
            listen_port=PORT,
            controllers=tuple(cluster.controller_urls),
            config=CoordinatorConfig.parse(CONFIG.items()),
            version="simulated",
        )
        self.coordinator = await listen(settings, ports)
        await self.coordinator.run()

    def _on_exit(self, life: Life, reason: str) -> None:
        """The process ended by itself."""
        self._cluster.world.note(f"{self.name} exits: {reason}")
        self.crash()
        number = life.number

        def again() -> None:
            if self.lives == number and not self.is_up:
                self.start()

        self._cluster.world.after_ms(RESTART_MS, again)
