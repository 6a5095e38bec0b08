"""One simulated broker: its real core, and a real lease, between an in-memory disk and a lossy network.

It drives the cores as the process's shell does. This file is its machine: the disk, and how lives begin and
end. What it does in a life stands in broker_link.py (controllers), broker_metadata.py, broker_following.py,
broker_requests.py, broker_effects.py and broker_upkeep.py. Only what a disk keeps survives a crash: logs (cut
back to what was flushed when the machine dies), the high-watermark checkpoint, and the directory's identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING

from dataplane.core import shutdown
from dataplane.core.broker import (
    Broker,
    Step,
)
from dataplane.core.creations import PendingCreations
from dataplane.core.hosted import Hosted
from dataplane.core.log_port import LogError
from dataplane.core.replica import Replica
from dataplane.core.results import (
    ReplicaOptions,
)
from dataplane.core.shutdown import ShutdownStep
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.lag_report import ReplicaProblem
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.session import (
    UNANSWERED_INCARNATIONS_MAX,
    RegisterRequest,
    ShutdownKind,
)
from springtide.levels import SUPPORTED
from springtide.node.cluster_view import ClusterView
from springtide.node.core.session import MemberSession
from springtide.node.lease import Lease
from tests.kit.memory.log import MemoryLog
from tests.simulation.broker_effects import BrokerHands
from tests.simulation.broker_following import BrokerFollowing
from tests.simulation.broker_link import BrokerLink
from tests.simulation.broker_metadata import BrokerMetadata
from tests.simulation.broker_requests import BrokerRequests
from tests.simulation.broker_upkeep import BrokerUpkeep
from tests.simulation.clock import timekeeper
from tests.simulation.disk import Disk
from tests.simulation.events import Events
from tests.simulation.network import Network
from tests.simulation.process import Process
from tests.simulation.scrubbing import Scrubbing
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

RESTART_MS = 1_000
"""How soon a supervisor starts a process again that ended."""


class Replicas(Mapping[PartitionKey, Replica]):
    """The replicas of a broker's table, by key."""

    __slots__ = ("_partitions",)

    def __init__(self, broker: Broker[Hosted]) -> None:
        self._partitions = broker.partitions

    def __getitem__(self, key: PartitionKey) -> Replica:
        return self._partitions[key].replica

    def __iter__(self) -> Iterator[PartitionKey]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


class WatchedBroker(Broker[Hosted]):
    """Looks at each state before its replica is told."""

    __slots__ = ("_node",)

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(node.broker_id)
        self._node = node

    def enter(self, hosted: Hosted, state: PartitionState, *, now_ms: int) -> list[Step[Hosted]]:
        self._node.cluster.marks.on_state(self._node, hosted.replica, state)
        return super().enter(hosted, state, now_ms=now_ms)


class BrokerNode(Process):
    """poll_delays_ms: faults that hold its metadata stream back, each by so many ms. is_resumed: its host was
    put back to an earlier moment, and it has not found that out (3.10, a host that goes back).
    heard_ms: when it sent the last heartbeat that was acknowledged, by no clock of its own. core: what the
    process runs too, its replicas, and the batch that waits for logs that were given up. time: the process's,
    of one life."""

    core: Broker[Hosted]
    view: ClusterView
    replicas: Replicas
    link: BrokerLink
    metadata: BrokerMetadata
    following: BrokerFollowing
    requests: BrokerRequests
    hands: BrokerHands
    upkeep: BrokerUpkeep
    scrubbing: Scrubbing

    def __init__(
        self,
        broker_id: int,
        events: Events,
        network: Network,
        random: Random,
        cluster: Cluster,
        controllers: tuple[str, ...],
        options: ReplicaOptions,
        disk: Disk,
    ) -> None:
        super().__init__(f"broker-{broker_id}", events, network)
        self.broker_id = broker_id
        self.random = random
        self.cluster = cluster
        self.controllers = controllers
        self.options = options
        self.disk = disk
        self.incarnation = ""
        self.problems_seen: list[ReplicaProblem] = []
        self.poll_delays_ms: list[int] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Nothing of an earlier life is in memory."""
        self.time = timekeeper(self.clock)
        self.begin_session(ShutdownKind.FIRST_START)
        self.metadata = BrokerMetadata(self)
        self.following = BrokerFollowing(self)
        self.requests = BrokerRequests(self)
        self.hands = BrokerHands(self)
        self.upkeep = BrokerUpkeep(self)
        self.carry_out, self.run = self.hands.carry_out, self.hands.run
        self.forget_replicas()
        self.states: dict[PartitionKey, PartitionState] = {}
        self.heard_ms = -(2**60)
        self.is_resumed = False

    @property
    def session(self) -> MemberSession:
        return self.link.session

    @property
    def broker_epoch(self) -> int:
        return self.session.broker_epoch

    @property
    def lease(self) -> Lease:
        return self.session.lease

    def forget_replicas(self) -> None:
        """Nothing of a table is in memory."""
        self.core = WatchedBroker(self)
        self.replicas = Replicas(self.core)
        self.view = ClusterView()
        self.metadata.applying = None

    @property
    def creations(self) -> PendingCreations:
        return self.core.creations

    @property
    def now_ms(self) -> int:
        return self.clock.mono_ms

    @property
    def is_disk_failing(self) -> bool:
        return self.disk.failing is not None

    @property
    def wants_shutdown(self) -> bool:
        return self.session.wants_shutdown

    @wants_shutdown.setter
    def wants_shutdown(self, is_wanted: bool) -> None:
        self.session.wants_shutdown = is_wanted

    @property
    def is_rotten(self) -> bool:
        """Whether its disk holds something else than was written, found or not."""
        return any(log.at_rest for log in self.disk.logs.values())

    # --- life -------------------------------------------------------------------------------------------

    def begin_life(self) -> None:
        super().begin_life()
        self._begin_anew()

    def start(self) -> None:
        self.begin_life()
        self.incarnation = f"{self.name}#{self.life}"
        kind = self.disk.shutdown_kind()
        unanswered = self.disk.unanswered
        self.cluster.marks.on_start(self, kind)
        self.disk.clean_marker = None  # the first act of start-up
        self.disk.unanswered = (*unanswered, self.incarnation)[-UNANSWERED_INCARNATIONS_MAX:]
        for log in self.disk.logs.values():
            log.recover(is_clean=kind is ShutdownKind.CLEAN)
        kind = self._held_against_high_watermarks(kind)
        self.core.found = dict.fromkeys(self.disk.logs)
        self.scrubbing = Scrubbing(self)
        self.network.listen(self.name, self.requests.on_request)
        self.events.note(f"{self.name} starts ({kind.value})")
        self.begin_session(kind, unanswered)
        self.link.register()
        self.upkeep.start()

    def _held_against_high_watermarks(self, kind: ShutdownKind) -> ShutdownKind:
        """A log that ends below what this disk says was committed refutes that only a process stopped: it is
        set aside, and all seats go (5.4, recovery). After a machine crash it has lost what may be lost."""
        disk = self.disk
        short = [
            key for key, log in disk.logs.items() if log.log_end_offset < disk.high_watermarks.get(key, 0)
        ]
        for key in short:
            if kind.is_intact:
                self.core.known_lost.add(key)
                disk.quarantined[key] = disk.logs.pop(key)
                del disk.high_watermarks[key]
                self.events.note(f"{self.name} sets {key[0][:4]}-{key[1]} aside: it is too short")
            else:
                disk.high_watermarks[key] = disk.logs[key].log_end_offset
        if not short or not kind.is_intact:
            return kind
        disk.has_mount_mark = False
        return ShutdownKind.MACHINE_CRASH

    @staticmethod
    def life_of(incarnation: str) -> int:
        return int(incarnation.rpartition("#")[2])

    def crash(self, *, machine: Random | None = None, reboots: bool = True, torn_bytes: int = 0) -> None:
        """The process ends without a word. machine: what was not flushed goes too, by these choices; without
        `reboots` the machine runs on, and only its volume was away (S41, a volume that was away). torn_bytes:
        it died in an append, and so many bytes of that batch are there (S11, killed in an append)."""
        self.cluster.marks.on_crash(self)
        if self.is_resumed:
            self.vouch_for_nothing()  # that nobody could find out before it died is a gap (section 10)
        self.end_life()
        self.forget_replicas()
        for key, log in self.disk.logs.items():  # lowered before each cut
            stored = self.disk.high_watermarks.get(key, 0)
            self.disk.high_watermarks[key] = min(stored, log.log_end_offset)
        if self.metadata.in_hand:
            self.cluster.marks.reached("creation.cut.short")
            for key in self.metadata.in_hand[: self.random.randrange(len(self.metadata.in_hand) + 1)]:
                self.disk.logs[key] = MemoryLog()  # it was there, and nobody was told
                self.cluster.logs_made.add((self.broker_id, key))
            self.metadata.in_hand = ()
        if machine is not None:
            self.disk.boot_id += reboots
            self.disk.has_mount_mark = False
            for _, log in sorted(self.disk.logs.items()):
                log.crash(machine)
                self.cluster.marks.on_power_cut(log)
        if torn_bytes:
            for log in self.disk.logs.values():
                log.die_in_append(bytes(torn_bytes) if not log.batches else log.batches[-1].data[:torn_bytes])
        how = "is killed" if machine is None else "loses power" if reboots else "loses its volume"
        self.events.note(f"{self.name} {how}")
        self.cluster.on_process_down(self.name, self.broker_id, self.broker_epoch)

    def replace_disk(self) -> None:
        assert not self.is_up
        self.disk = Disk(f"{self.disk.directory_id}'", boot_id=self.disk.boot_id)
        self.cluster.oracle.on_log_replaced(self.broker_id)
        self.events.note(f"{self.name} gets an empty disk")

    def copy_disk(self) -> Disk:
        return self.disk.copy()

    def restore_disk(
        self, copy: Disk, *, reboots: bool = True, in_place: bool = False, is_forged: bool = False
    ) -> None:
        """An earlier copy of its disk; in another boot of the machine, or attached to the one that runs.
        in_place: it is copied over the files that are there, and the mount stays. is_forged: the fresh mark
        stays as well, as if the copy were made after the last one, and its broker claims a process crash."""
        assert not self.is_up
        before, self.disk = self.disk, copy.copy()
        self.disk.boot_id = before.boot_id + reboots
        if in_place:
            self.disk.has_mount_mark = before.has_mount_mark
            self.disk.is_written_over = not is_forged
            self.disk.is_forged = is_forged
            self.disk.logs = before.logs | self.disk.logs  # none goes
        self.cluster.oracle.on_log_replaced(self.broker_id)
        self.events.note(f"{self.name} gets an older copy of its disk")

    def begin_session(self, kind: ShutdownKind, unanswered: tuple[str, ...] = ()) -> None:
        identity = RegisterRequest(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation,
            host=f"host-{self.broker_id}",
            port=9092,
            log_dir_ids=(self.disk.directory_id,),
            last_shutdown=kind,
            previous_broker_epoch=BrokerEpoch(self.disk.broker_epoch),
            unanswered_incarnation_ids=unanswered,
            worker_of=self.cluster.options.members[self.broker_id],
            levels=SUPPORTED,
        )
        self.link = BrokerLink(self, MemberSession(identity, cluster_id=self.disk.cluster_id, lease=Lease()))

    def vouch_for_nothing(self) -> None:
        self.disk.has_mount_mark = False
        self.disk.unanswered = ()

    def end_unproven(self, why: str) -> None:
        """It was put back: it vouches for nothing and ends, and is started again."""
        self.cluster.events.note(f"{self.name} {why}")
        self.vouch_for_nothing()
        self.crash()
        life = self.life

        def restart() -> None:
            if not self.is_up and self.life == life:
                self.start()

        self.events.after(RESTART_MS, restart)

    def finish_shutdown(self) -> None:
        """It has leave. The rest takes no time here: what is to end before the logs are closed has ended."""
        ended = {ShutdownStep.LEAVE}
        for step in shutdown.SHUTDOWN:
            if step is ShutdownStep.CLOSE_LOGS:
                going_on = [each.name for each in ShutdownStep if each not in (*ended, step)]
                if going_on:
                    raise Violation("3.8", f"{self.name} vouches for its logs before {going_on}")
                self._close_logs()
            ended.add(step)
        self.crash()

    def _close_logs(self) -> None:
        try:
            for log in self.disk.logs.values():
                log.flush()
        except LogError:
            return  # what could not be flushed is not vouched for
        self.disk.high_watermarks.update(self.core.close())
        self.disk.clean_marker = self.broker_epoch
