"""A cluster whose every process has a host of its own: a network, a disk, a boot id and a wall clock.

It is the local cluster with other places: the same commands, the same REST calls, the same waits. What is
added is what can happen to a machine. Build it inside the sandbox:

    enter_sandbox()
    with HostCluster(brokers=5, controllers=2, zookeepers=3) as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=5, replication_factor=3)
        with cluster.network.cut("broker-1", ["broker-2", "broker-3"]):
            ...
        cluster.cut_power(2)
        cluster.start_broker(2)
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcluster.cluster import FIRST_COORDINATOR_ID, FirstPorts, LocalCluster
from localcluster.ports import is_accepting
from localcluster.processes import ProcessFailed, ProcessPlace, SupervisedProcess
from tests.faults.hosts.disk import SIZE_BYTES, HostDisk, remove_stale_cgroups
from tests.faults.hosts.network import Network
from tests.faults.hosts.sandbox import NETNS_FOLDER, clock_environment, find_faketime, require_sandbox

_ENTER_HOST = Path(__file__).with_name("enter_host.py")
NO_SHIFT = "+0"


def broker_host(broker_id: int) -> str:
    return f"broker-{broker_id}"


def controller_host(index: int) -> str:
    return f"controller-{index}"


def coordinator_host(coordinator_id: int) -> str:
    return f"coordinator-{coordinator_id}"


def zookeeper_host(server_id: int) -> str:
    return f"zookeeper-{server_id}"


@dataclass(slots=True)
class Host:
    """One simulated machine. Only brokers' hosts have a disk of their own: theirs is the data."""

    name: str
    boot_id_file: Path
    clock_file: Path
    disk: HostDisk | None = None
    has_own_clock: bool = False
    """Whether its processes read `clock_file`."""

    def reboot(self) -> None:
        """The next process that starts here sees that the machine was started anew."""
        self.boot_id_file.write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    def shift_clock(self, seconds: float) -> None:
        """How far the wall clock is off from now on; elapsed time goes on as ever. Processes see it
        within a second."""
        assert self.has_own_clock or not seconds, f"{self.name} was built without clock faults"
        shift = f"{seconds:+g}" if seconds else NO_SHIFT
        # In place: a reader sees one or the other, both of which fit one write.
        self.clock_file.write_text(f"{shift}\n", encoding="ascii")


class HostCluster(LocalCluster):
    """Starts, breaks, mends and stops a cluster of simulated hosts.

    Args:
        directory: where everything lives; None makes a temporary folder, removed when all went well. Disks
            are gone at the end in any case: their contents are the caller's to save.
        clock_faults: whether `Host.shift_clock` works on brokers' hosts. Nowhere else: libfaketime 0.9.10
            fails a sleep whose end has just passed (EINVAL), which no kernel does; kazoo's thread ends by it,
            and a controller is then without ZooKeeper for ever. Brokers sleep in epoll.
        force_sync: whether ZooKeeper fsyncs. No ZooKeeper host loses power here, so it need not.
        others: see `LocalCluster`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        brokers: int = 5,
        controllers: int = 2,
        zookeepers: int = 3,
        coordinators: int = 0,
        broker_config: Mapping[str, str] | None = None,
        controller_flags: Sequence[str] = (),
        force_sync: bool = False,
        clock_faults: bool = False,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        require_sandbox()
        self._is_own_directory = directory is None
        root = (
            Path(tempfile.mkdtemp(prefix="springtide-hosts-")) if directory is None else directory.resolve()
        )
        super().__init__(
            root,
            brokers=brokers,
            controllers=controllers,
            zookeepers=zookeepers,
            coordinators=coordinators,
            broker_config=broker_config,
            # Its disks are small, so that they can be filled.
            controller_flags=[f"--preflight-free-bytes-min={SIZE_BYTES // 4}", *controller_flags],
            force_sync=force_sync,
            first_ports=FirstPorts(required=True),
            on_progress=on_progress,
            place_of=self._place,
        )
        self.root = root
        names = [
            *(zookeeper_host(number) for number in range(1, zookeepers + 1)),
            *(controller_host(number) for number in range(1, controllers + 1)),
            *(broker_host(number) for number in range(1, brokers + 1)),
            *(coordinator_host(FIRST_COORDINATOR_ID + index) for index in range(coordinators)),
        ]
        self.network = Network(names)
        self._faketime = find_faketime() if clock_faults else None
        self.hosts = {name: self._describe_host(name) for name in names}

    def _describe_host(self, name: str) -> Host:
        folder = self.root / "hosts" / name
        disk = None
        if name.startswith("broker-"):
            # Where LocalCluster keeps a broker's data.
            disk = HostDisk(
                name=name,
                medium=folder / "medium",
                mount_point=self.root / name,
                kept=self.root / "kept",
            )
        return Host(
            name=name,
            boot_id_file=folder / "boot_id",
            clock_file=folder / "clock",
            disk=disk,
            has_own_clock=self._faketime is not None and name.startswith("broker-"),
        )

    def _place(self, name: str) -> ProcessPlace:
        host = self.hosts[name]
        environment = {}
        if self._faketime is not None and host.has_own_clock:
            environment = clock_environment(self._faketime, host.clock_file)
        prefix = [
            *(sys.executable, "-I", "-S", str(_ENTER_HOST)),
            str(NETNS_FOLDER / name),
            str(host.boot_id_file),
            "-" if host.disk is None else host.disk.cgroup_procs,
        ]
        return ProcessPlace(address=self.network.addresses[name], prefix=prefix, environment=environment)

    # --- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Builds network and disks, then starts every process."""
        remove_stale_cgroups()
        self.network.open()
        for host in self.hosts.values():
            host.boot_id_file.parent.mkdir(parents=True, exist_ok=True)
            host.reboot()
            host.shift_clock(0)
            if host.disk is not None:
                host.disk.open()
                host.disk.mount()
        super().start()

    def stop(self, *, keep_directory: bool = False) -> None:
        """Heals and stops everything; leaves no mount, namespace or loop device."""
        with contextlib.suppress(Exception):  # The kernel would do it all; stopping processes comes first.
            self.network.heal_all()
        try:
            super().stop(keep_directory=keep_directory)
        finally:
            for host in self.hosts.values():
                if host.disk is not None:
                    host.disk.close()
            self.network.close()
        if self._is_own_directory and not keep_directory:
            shutil.rmtree(self.root, ignore_errors=True)
        elif keep_directory:
            self._tell(f"logs are kept in {self.log_directory}")

    # --- breaking and mending -----------------------------------------------------------------------------

    def disk(self, broker_id: int) -> HostDisk:
        disk = self.hosts[broker_host(broker_id)].disk
        assert disk is not None
        return disk

    def process_on(self, host: str) -> SupervisedProcess:
        """The one process of a host."""
        kind, _, number = host.partition("-")
        match kind:
            case "broker":
                return self.brokers[int(number)].process
            case "controller":
                return self.controllers[int(number)].process
            case "coordinator":
                return self.coordinators[int(number)].process
            case _:
                return self.zookeeper.servers[int(number) - 1].process

    def is_back(self, host: str) -> bool:
        """Whether the host's process, which was started, serves again.

        Raises:
            ProcessFailed: it has ended instead.
        """
        process = self.process_on(host)
        if process.has_failed:
            raise ProcessFailed(f"{process.name} ended with {process.exit_code}.{process.last_words()}")
        kind, _, number = host.partition("-")
        match kind:
            case "broker":
                broker = self.brokers[int(number)]
                return is_accepting(broker.port, address=broker.address)
            case "controller":
                return self.controllers[int(number)].readiness() is not None
            case "coordinator":
                coordinator = self.coordinators[int(number)]
                return is_accepting(coordinator.port, address=coordinator.address)
            case _:
                return self.zookeeper.servers[int(number) - 1].mode() is not None

    def cut_power(self, broker_id: int) -> None:
        """The broker's machine loses power: what was not synced is gone. `start_broker` is its return, with
        another boot id."""
        self.disk(broker_id).cut_power()
        self.kill_broker(broker_id)
        self.disk(broker_id).unmount()
        self.hosts[broker_host(broker_id)].reboot()
        self.disk(broker_id).mount()

    def turn_off(self, broker_id: int) -> None:
        """SIGKILL and the disk unmounted, flushed: now its image can be changed. Then `turn_on`."""
        self.kill_broker(broker_id)
        self.disk(broker_id).unmount()

    def turn_on(self, broker_id: int) -> None:
        """After `turn_off`: the machine starts anew, and its broker is started; `is_back` tells when it
        serves."""
        self.hosts[broker_host(broker_id)].reboot()
        self.disk(broker_id).mount()
        self.brokers[broker_id].process.start()

    def wipe_broker_disk(self, broker_id: int) -> None:
        """Replaces the disk of a broker that is not running by an empty one."""
        disk = self.disk(broker_id)
        if disk.is_mounted:
            disk.unmount()
        disk.format()
        disk.mount()
