"""A broker's machine: its disk, its process over many lives, and the ways in which either ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from dataplane.__main__ import open_broker
from dataplane.broker import BrokerSettings, Ports, StorageBroker
from dataplane.core.log_port import LogError
from dataplane.shell.config import BrokerConfig
from dataplane.storage.disk import DELETED_SUFFIX
from dataplane.storage.log_dir import DIVERGENT, QUARANTINE
from dataplane.storage.log_dir_identity import LogDirRefused
from springtide.node.controller_session import RegistrationRefused
from springtide.node.listeners import ListenersSettings
from tests.fullstack.http import SimTransport
from tests.fullstack.node import Node
from tests.fullstack.ports import DiskHost, FencedDisk, SimThreads
from tests.fullstack.process_life import Life
from tests.fullstack.sockets import SimNet
from tests.kit.memory.disk import MemoryDisk

if TYPE_CHECKING:
    from tests.fullstack.cluster import Cluster

DATA_DIR = "/data"
PORT = 9092


class BrokerNode(Node):
    """A broker keeps its disk over its lives, until it is replaced."""

    exit_errors = (RegistrationRefused, LogDirRefused, LogError, OSError)

    def __init__(self, cluster: Cluster, broker_id: int) -> None:
        super().__init__(cluster, f"broker-{broker_id}")
        self.broker_id = broker_id
        self.host = DiskHost(MemoryDisk())
        self.broker: StorageBroker | None = None
        self.boots = 0
        self.disk: FencedDisk | None = None
        #: Changes after which a life kills itself, for the next one to be started.
        self.kill_at: int | None = None

    @property
    def broker_epoch(self) -> int:
        """What this life was given; -1: nothing yet."""
        session = getattr(self.broker, "session", None)
        return -1 if session is None else session.broker_epoch

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

    # Life and death

    def start(self) -> None:
        """Power on if it was off, and start the process."""
        if not self.is_up:
            self.machine.is_on = True
        super().start()

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

    def _kill(self) -> bool:
        """The kernel keeps what was written."""
        was_up = super()._kill()
        if was_up:
            self.host.memory.crash_process()
        return was_up

    def _power_off(self, random: Random) -> None:
        """The machine loses power: what was not synced is lost, as `random` chooses, and nobody is told."""
        if self._die():
            self._cluster.world.note(f"{self.name} loses power")
            self.boots += 1
            self._cluster.network.power_off(self.machine)
            self.host.memory.crash_machine(random)

    def _die(self) -> bool:
        self.broker = None
        return super()._die()

    def replace_disk(self) -> None:
        """The broker is down. It will come back with an empty disk."""
        assert not self.is_up
        self.host = DiskHost(MemoryDisk())
        self._cluster.world.note(f"{self.name} gets a new disk")

    def copy_disk(self) -> MemoryDisk:
        return self.host.memory.snapshot()

    def restore_disk(self, copy: MemoryDisk, *, reboots: bool = True, in_place: bool = False) -> None:
        """The broker is down. It will come back with an older state of its disk. in_place: it is copied over
        the files that are there."""
        assert not self.is_up
        self.boots += reboots
        if in_place:
            self.host.memory.overwrite(copy)
        else:
            self.host.memory.restore(copy)
        self._cluster.world.note(f"{self.name} gets an older copy of its disk")

    # The process

    async def _run(self, life: Life) -> None:
        cluster = self._cluster
        net = SimNet(cluster.network, life, self.machine)
        self.disk = disk = FencedDisk(self.host.memory, life, self.crash)
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
            listeners=ListenersSettings.one(self.machine.address, PORT),
            controllers=tuple(cluster.controller_urls),
            config=BrokerConfig.parse(cluster.options.broker_configs().items()),
            version="simulated",
        )
        opened = open_broker(settings, ports, data_dir=DATA_DIR, boot_id=f"{self.name}-{self.boots}")
        self.broker = await opened.listen()
        await self.broker.run()

    def _stops(self) -> Callable[[], Awaitable[object]] | None:
        return None if self.broker is None else self.broker.shut_down
