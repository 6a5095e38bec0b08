"""A broker's machine: its disk, its process over many lives, and the ways in which either ends."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import trio

from dataplane.__main__ import open_broker
from dataplane.broker import BrokerSettings, Ports, StorageBroker
from dataplane.core.log_port import LogError
from dataplane.shell.config import BrokerConfig
from dataplane.storage.log_dir import DIVERGENT, QUARANTINE
from dataplane.storage.log_dir_identity import LogDirRefused
from dataplane.storage.segment_list import DELETED_SUFFIX
from springtide.node.controller_session import RegistrationRefused
from tests.fullstack.http import SimTransport
from tests.fullstack.life import Life, WallClock
from tests.fullstack.ports import DiskHost, FencedDisk, SimThreads
from tests.fullstack.sockets import SimNet
from tests.simulation.memory_disk import MemoryDisk

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

DATA_DIR = "/data"
PORT = 9092
RESTART_MS = 1_000
"""After a process ended by itself: what supervises it starts it again."""
BOOT_MS = (2, 50)
"""From a process's start to its first act."""


class BrokerNode:
    """`cluster` runs it. A broker keeps its machine and address over its lives; its disk, until it is
    replaced."""

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.machine = cluster.network.add(self.name)
        self.clock = WallClock()
        self.host = DiskHost(MemoryDisk())
        self.process: Life | None = None
        self.broker: StorageBroker | None = None
        self.lives = 0
        self.boots = 0
        self.disk: FencedDisk | None = None
        self._wants_shutdown = False
        #: Changes after which a life kills itself, for the next one to be started.
        self.kill_at: int | None = None
        self._cluster = cluster

    @property
    def life(self) -> int:
        """Which life this is, or was the last."""
        return self.lives

    @property
    def broker_epoch(self) -> int:
        """What this life was given; -1: nothing yet."""
        session = getattr(self.broker, "session", None)
        return -1 if session is None else session.broker_epoch

    @property
    def is_up(self) -> bool:
        return self.process is not None and not self.process.is_dead

    @property
    def is_disk_failing(self) -> bool:
        """Whether a write would fail, or is about to."""
        return self.host.memory.is_failing

    @property
    def is_rotten(self) -> bool:
        """Whether a log of its holds something else than was written, found or not; not one that was set
        aside or deleted."""
        others = (f"{DATA_DIR}/{QUARANTINE}/", f"{DATA_DIR}/{DIVERGENT}/")
        return any(
            DELETED_SUFFIX not in path and not path.startswith(others)
            for path in self.host.memory.rotten_paths()
        )

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    # Life and death

    def start(self) -> None:
        """Power on if it was off, and start the process."""
        if self.is_up:
            return
        self.machine.is_on = True
        self.lives += 1
        self._wants_shutdown = False
        self.process = Life(self._cluster.world, self.name, self.lives, self.clock)
        self._cluster.world.note(f"{self.name} starts, life {self.lives}")
        self._cluster.spawn(self._live, self.process)

    def crash(self, machine: Random | None = None, *, reboots: bool = True, torn_bytes: int = 0) -> None:
        """The process is killed, or the whole machine loses power: what a disk keeps then, `machine`
        chooses. Without `reboots` only the volume goes, and the machine runs on. torn_bytes: the other
        simulation's way to die within an append; here `kill_at` does it."""
        del torn_bytes
        if machine is None:
            self._kill()
        elif reboots:
            self._power_off(machine)
        else:
            self._kill()
            self._cluster.world.note(f"{self.name} loses its volume")
            self.host.memory.crash_machine(machine)

    def _kill(self) -> None:
        """The kernel keeps what was written, and ends the connections."""
        if self._die():
            self._cluster.world.note(f"{self.name} is killed")
            self.host.memory.crash_process()
            for listener in list(self.machine.listeners.values()):
                listener.kernel_close()
            for channel in list(self.machine.channels):
                channel.kernel_close()

    def _power_off(self, random: Random) -> None:
        """The machine loses power: what was not synced is lost, as `random` chooses, and nobody is told."""
        if self._die():
            self._cluster.world.note(f"{self.name} loses power")
            self.boots += 1
            self._cluster.network.power_off(self.machine)
            self.host.memory.crash_machine(random)

    def _die(self) -> bool:
        life = self.process
        if life is None or life.is_dead:
            return False
        self.process = None
        self.broker = None
        life.die()
        return True

    def replace_disk(self) -> None:
        """The broker is down. It will come back with an empty disk."""
        assert not self.is_up
        self.host = DiskHost(MemoryDisk())
        self._cluster.world.note(f"{self.name} gets a new disk")

    def copy_disk(self) -> MemoryDisk:
        return self.host.memory.snapshot()

    def restore_disk(self, copy: MemoryDisk, *, reboots: bool = True) -> None:
        """The broker is down. It will come back with an older state of its disk."""
        assert not self.is_up
        self.boots += reboots
        self.host.memory.restore(copy)
        self._cluster.world.note(f"{self.name} gets an older copy of its disk")

    def pause(self) -> None:
        assert self.process is not None
        self.process.pause()
        self._cluster.world.note(f"{self.name} is paused")

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._cluster.world.note(f"{self.name} goes on")
            self.process.resume()

    @property
    def wants_shutdown(self) -> bool:
        return self._wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        """SIGTERM: a controlled shutdown, after which the process is gone."""
        if is_wanted and not self._wants_shutdown and self.broker is not None:
            self._wants_shutdown = True
            assert self.process is not None
            self._cluster.spawn(self._shut_down, self.process, self.broker)

    # The process

    async def _live(self, life: Life) -> None:
        reason = ""
        with life.scope:
            try:
                await life.clock.sleep_ms(life.world.random("boot", self.name, life.number).uniform(*BOOT_MS))
                await self._run(life)
            except* (RegistrationRefused, LogDirRefused, LogError, OSError) as group:
                reason = f"{group.exceptions[0]!r}"
            except* Exception as group:
                if not life.is_dead:
                    self._cluster.fail(f"{self.name} crashed", group)
        if not life.is_dead:
            self._on_exit(life, reason)

    async def _run(self, life: Life) -> None:
        cluster = self._cluster
        net = SimNet(cluster.network, life, self.machine)
        self.disk = disk = FencedDisk(self.host.memory, life, self._kill)
        disk.kill_at, self.kill_at = self.kill_at, None
        ports = Ports(
            clock=life.clock,  # type: ignore[arg-type] # its timeouts are scopes that can be held
            net=net,
            disk=disk,
            threads=SimThreads(life, self.host),
            rng=life.world.random("broker", self.name, life.number),
            controller_transport=SimTransport(life, net),
        )
        settings = BrokerSettings(
            cluster=cluster.name,
            broker_id=self.broker_id,
            listen_host=self.machine.address,
            listen_port=PORT,
            controllers=tuple(cluster.controller_urls),
            config=BrokerConfig.parse(cluster.options.broker_configs().items()),
            version="simulated",
        )
        opened = open_broker(settings, ports, data_dir=DATA_DIR, boot_id=f"{self.name}-{self.boots}")
        self.broker = await opened.listen()
        await self.broker.run()

    async def _shut_down(self, life: Life, broker: StorageBroker) -> None:
        with trio.CancelScope() as scope:
            life.shields[scope] = None  # so that it ends with the process
            try:
                await broker.shut_down()
            except (LogError, OSError) as error:
                self._cluster.world.note(f"{self.name}: no clean shutdown: {error}")
            life.shields.pop(scope, None)
        if not life.is_dead:
            self._cluster.world.note(f"{self.name} has stopped")
            self._kill()

    def _on_exit(self, life: Life, reason: str) -> None:
        """The process ended by itself."""
        self._cluster.world.note(f"{self.name} exits: {reason}")
        self._kill()
        number = life.number

        def again() -> None:
            if self.lives == number and not self.is_up:
                self.start()

        self._cluster.world.after_ms(RESTART_MS, again)
