"""The controller as one object: election, one driver per cluster while active, refreshed copies while
standby.

admin_api and broker_api ask it, its leadership (who is active) and its drivers (what steps a cluster).
Whether this controller is active can change between any two calls; `submit` says so by raising, and what it
returns is persisted. Reading needs no role: every controller can show every cluster, a standby with the age
of what it shows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus

from controller.audit.change import AuditedChange
from controller.core.events import Event, MetadataRecovered, Process, RecoverMetadata, Refusal, Reply
from controller.core.options import ControllerOptions
from controller.core.records import Cause, Change, ClusterRecord
from controller.shell.clock import ControllerClock, Ids, RandomBytes
from controller.shell.copies import Copies
from controller.shell.driver import ClusterDriver, Outbox
from controller.shell.drivers import Drivers
from controller.shell.known_cluster import KnownCluster
from controller.shell.leadership import CLUSTERS_PATH, Leadership, Resigned, Term
from controller.shell.levels import RunningRow, UnsupportedLevel, keep_running_row, read_running
from controller.shell.listeners import Listeners
from controller.shell.loop_watch import LoopWatch
from controller.shell.meta import (
    Committed,
    Meta,
    MetaUnavailable,
    Rejected,
    SessionState,
    Unknown,
    WriteRejection,
)
from controller.shell.metadata_store import cluster_creation
from controller.shell.outcomes import ClusterExists, NotActive, OutcomeUnknown, Overloaded
from controller.shell.published import truth
from controller.shell.timekeeper import Timekeeper
from springtide.contract.epochs import NO_CONTROLLER_EPOCH, ControllerEpoch
from springtide.levels import NEWEST, SUPPORTED
from springtide.version import VERSION

log = logging.getLogger(__name__)

#: How often a standby looks whether a cluster's head has moved.
STANDBY_REFRESH_MS: Final = 1_000
#: For how many times as long as it read a cluster it then rests: one that changes all the time and takes
#: seconds to read must not keep its processor and ZooKeeper busy.
STANDBY_REST: Final = 4
CLUSTERS_MAX: Final = 100


class Engine:
    """Everything this controller knows and does about its clusters.

    Args:
        random_bytes: `os.urandom`, or a seeded stream.
        controller_id: unique per process; made up when None.
        url: how brokers and operators reach this controller.
        outbox: where persisted changes go; None keeps no history (tests, simulations).
        is_observer: shows clusters, never stands for election.
    """

    def __init__(
        self,
        *,
        meta: Meta,
        clock: ControllerClock,
        random_bytes: RandomBytes,
        listeners: Listeners,
        url: str,
        options: ControllerOptions,
        controller_id: str | None = None,
        outbox: Outbox | None = None,
        is_observer: bool = False,
    ) -> None:
        self._meta = meta
        self.clock = clock = Timekeeper(clock, meta)
        self._ids = Ids(random_bytes)
        self._listeners = listeners
        self._outbox = outbox
        self._url = url
        self._is_observer = is_observer
        self.options = options
        self.url = url
        self.controller_id = controller_id if controller_id is not None else self._ids.new_id()
        self.leadership = Leadership(
            meta=meta,
            clock=clock,
            ids=self._ids,
            listeners=listeners,
            controller_id=self.controller_id,
            url=url,
            may_stand=not is_observer,
        )
        self._copies = Copies(meta, clock, self._ids)
        self.drivers = Drivers(self.leadership, self._copies.unreadable)
        self._new_clusters: list[ClusterDriver] = []
        self._cluster_added = anyio.Event()
        self._stands_down = anyio.Event()
        self.loop_watch = LoopWatch(clock.now_mono_ms, is_heard=lambda: self.role == "active")

    def attach_outbox(self, outbox: Outbox) -> None:
        """The outbox asks the engine for the truth, so one of the two has to come first. Before `run`."""
        self._outbox = outbox

    # -- who we are --

    @property
    def role(self) -> Literal["active", "standby"]:
        """Active from the moment all clusters are loaded, for as long as authority can be proven."""
        return "active" if self.drivers.is_active else "standby"

    @property
    def controller_epoch(self) -> ControllerEpoch:
        """Return the epoch of the term being served, else of the active controller as last seen, else -1."""
        if self.drivers.term is not None:
            return self.drivers.term.controller_epoch
        active = self.leadership.active
        return NO_CONTROLLER_EPOCH if active is None else active.controller_epoch

    @property
    def lineage(self) -> str:
        """Return the lineage of the term being served; "" if none is."""
        return "" if self.drivers.term is None else self.drivers.term.lineage

    @property
    def zookeeper_connected(self) -> bool:
        return self._meta.session.state is SessionState.CONNECTED

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Return why clusters can't be served by this controller as their znodes are, by name."""
        return self._copies.unreadable

    # -- asking --

    async def submit(self, cluster: str, event: Event) -> Reply:
        """Give the event to the cluster's machine; return once everything its reply rests on is persisted.

        Raises:
            NotActive, UnknownCluster, Overloaded: nothing was done.
            OutcomeUnknown: it may have been done.
            NotInForce: it was done, but some may still act by the rule before.
        """
        try:
            reply = await self.drivers.of(cluster).submit(event)
        except NotActive:
            raise NotActive(self.leadership.elsewhere) from None
        assert reply is not None, f"{type(event).__name__} has no reply"
        return reply

    async def notice_death(self, cluster: str, member_id: int) -> None:
        """Ask a broker's or coordinator's listener now whether its process has ended. Raises as `submit`."""
        try:
            await self.drivers.of(cluster).notice_death(member_id)
        except NotActive:
            raise NotActive(self.leadership.elsewhere) from None

    async def create_cluster(
        self,
        name: str,
        *,
        configs: Mapping[str, str],
        actor: str,
        reason: str | None = None,
        request_id: str | None = None,
        operation_id: str | None = None,
    ) -> None:
        """Make an empty cluster: one write, which fails when the name is taken. The caller has validated the
        name (it becomes a znode) and the configs.

        Raises:
            NotActive, ClusterExists, Overloaded: nothing was done. OutcomeUnknown: ask again.
        """
        term = self.drivers.term
        if term is None or not term.has_authority:
            raise NotActive(self.leadership.elsewhere)
        if self.drivers.get(name) is not None or name in self._copies.unreadable:
            raise ClusterExists(name)
        if len(self.drivers) >= CLUSTERS_MAX:
            raise Overloaded(f"there are {CLUSTERS_MAX} clusters already")
        change = Change(
            cause=Cause.CLUSTER_CREATED,
            at_ms=self.clock.now_wall_ms(),
            actor=actor,
            reason=reason,
            request_id=request_id,
            operation_id=operation_id,
        )
        record = ClusterRecord(cluster_id=self._ids.new_id(), configs=dict(configs), change=change)
        operations = cluster_creation(
            name,
            record,
            term=term,
            write_id=self._ids.new_id(),
            level=NEWEST,
        )
        match await self._meta.start_write(operations).outcome():
            case Committed():
                pass
            case Rejected(_, WriteRejection.NODE_EXISTS, _):
                raise ClusterExists(name)
            case Rejected(0, _, detail):
                term.resign(f"another controller took over: {detail}")
                raise NotActive(self.leadership.elsewhere)
            case Rejected(_, reason_code, detail):
                raise OutcomeUnknown(f"ZooKeeper refused: {reason_code} {detail}")
            case Unknown(detail):
                # Whether the cluster is there shows when it is read again, and only a new term reads all.
                term.resign("the outcome of creating a cluster is unknown")
                raise OutcomeUnknown(detail)
        try:
            await self._open(name, term)
        except MetaUnavailable as error:
            term.resign("a created cluster could not be read")
            raise OutcomeUnknown(str(error)) from error
        log.info("cluster_created cluster=%s cluster_id=%s actor=%s", name, record.cluster_id, actor)

    async def recover_metadata(self, cluster: str, event: RecoverMetadata) -> MetadataRecovered | Refusal:
        """Persist what the machine rebuilt, then end the term under a controller epoch that the next one
        starts above. Dying in between leaves a cluster that is halted again, and may be recovered again.
        Raise as `submit` does."""
        driver = self.drivers.of(cluster)
        await driver.settled()
        reply = await self.submit(cluster, event)
        assert isinstance(reply, MetadataRecovered | Refusal), reply
        term = self.drivers.term
        if isinstance(reply, MetadataRecovered) and not reply.dry_run and term is not None:
            await self.leadership.raise_epoch(term, reply.controller_epoch_min)
            log.warning("metadata_recovered cluster=%s actor=%s", cluster, event.actor)
        return reply

    # -- reading --

    def clusters(self) -> list[str]:
        """Sorted names. Raise NotActive on a standby that has not read them yet: "none" would be a claim."""
        if self.drivers.term is not None:
            return [driver.cluster for driver in self.drivers]
        if not self._copies.are_complete:
            raise NotActive(self.leadership.elsewhere)
        return self._copies.names()

    def cluster(self, name: str) -> KnownCluster:
        """Return the cluster as this controller knows it. Raise UnknownCluster; NotActive on a standby
        without a copy of it: only the active controller knows that there is none."""
        if self.drivers.term is None:
            published = self._copies.published(name)
        else:
            driver = self.drivers.get(name)
            published = None if driver is None else driver.published
        if published is not None:
            return KnownCluster(published, self.drivers)
        if self.role != "active":
            raise NotActive(self.leadership.elsewhere)
        raise self.drivers.unknown(name)

    def truth(self, cluster: str) -> Iterable[AuditedChange]:
        """Every entity as it stands, for the audit to compare itself with; read it once, anywhere. Empty when
        not active."""
        driver = self.drivers.get(cluster)
        if driver is None or self.drivers.term is None:
            return ()
        return truth(driver.published, controller_epoch=self.drivers.term.controller_epoch)

    # -- running --

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take part in the election and serve terms until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._refresh)
            tasks.start_soon(self.loop_watch.run, self.clock)
            tasks.start_soon(self.clock.run)
            task_status.started()
            async with anyio.create_task_group() as standing:
                standing.start_soon(self.leadership.run, self._serve)
                if not self._is_observer:
                    standing.start_soon(keep_running_row, self._meta, self.clock, self._running_row())
                await self._stands_down.wait()
                standing.cancel_scope.cancel()

    def _running_row(self) -> RunningRow:
        return RunningRow(controller_id=self.controller_id, url=self._url, version=VERSION, levels=SUPPORTED)

    async def controllers(self) -> tuple[Process, ...]:
        """Return the controllers that run, except those of release 0.1, which say nothing of themselves.
        Raise NotActive if ZooKeeper can't be read."""
        active = self.leadership.active
        try:
            return await read_running(self._meta, active_id=None if active is None else active.controller_id)
        except MetaUnavailable as error:
            raise NotActive(self.leadership.elsewhere) from error

    def stand_down(self) -> None:
        """Resign and stand for no more elections; go on showing clusters. Called before the listener
        closes, so that by the time it does another controller is active."""
        self._stands_down.set()

    async def _serve(self, term: Term) -> None:
        """One term: load every cluster, then drive them all until the term ends."""
        started_ms = self.clock.now_mono_ms()
        try:
            self._new_clusters = []
            for cluster in await self._meta.children(CLUSTERS_PATH):
                await self._open(cluster, term)
            self.drivers.term = term
            for driver in self.drivers:
                driver.published.as_of_ms = None
            self._copies.drop()
            log.info(
                "active controller_epoch=%d clusters=%d load_ms=%d",
                term.controller_epoch,
                len(self.drivers),
                self.clock.now_mono_ms() - started_ms,
            )
            async with anyio.create_task_group() as tasks:

                async def drive(driver: ClusterDriver) -> None:
                    try:
                        await driver.run()
                    except Resigned as error:
                        term.resign(str(error))

                while True:
                    for driver in self._new_clusters:
                        tasks.start_soon(drive, driver)
                    self._new_clusters = []
                    self._cluster_added = anyio.Event()
                    await self._cluster_added.wait()
        except MetaUnavailable as error:
            raise Resigned(f"ZooKeeper could not be read: {error}") from error
        finally:
            self.drivers.end()

    async def _open(self, cluster: str, term: Term) -> None:
        try:
            found = await self._copies.take_over(cluster)
        except UnsupportedLevel as error:
            raise Resigned(str(error)) from error
        if found is None:
            return
        store, published = found
        driver = ClusterDriver(
            store=store,
            published=published,
            term=term,
            clock=self.clock,
            listeners=self._listeners,
            options=self.options,
            outbox=self._outbox,
            deaf_ms=self.loop_watch.deaf_ms,
        )
        await driver.build()
        self.drivers.add(driver)
        self._new_clusters.append(driver)
        self._cluster_added.set()

    # -- standby --

    async def _refresh(self) -> None:
        while True:
            began_ms = self.clock.now_mono_ms()
            try:
                if self.drivers.term is None:
                    await self._copies.refresh(lambda: self.drivers.term is None)
                else:
                    await self._tell_standbys(self.drivers.term)
            except MetaUnavailable as error:
                log.debug("standby_refresh_failed detail=%s", str(error))
            took_ms = self.clock.now_mono_ms() - began_ms
            await self.clock.sleep_ms(max(STANDBY_REFRESH_MS, STANDBY_REST * took_ms))

    async def _tell_standbys(self, term: Term) -> None:
        found = {driver.cluster: driver.machine.went_back for driver in self.drivers}
        halted = {cluster: evidence for cluster, evidence in found.items() if evidence is not None}
        if halted != term.claim.halted:
            await self.leadership.tell_halted(term, halted)
