"""One cluster as this controller knows it: what is stored, and what only the active controller has heard.

Reading what is stored needs no role: a standby shows its copy. What the machine decides and what brokers
report is the active controller's. Nothing here changes a cluster; changes are events, given to the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from controller.audit.change import Entity
from controller.core.alarms import explain_replicas, way_on
from controller.core.effects import Alarm, AlarmCode
from controller.core.events import Process
from controller.core.image import ClusterImage
from controller.core.lag_book import KnownLag
from controller.core.last_hour import LastHour
from controller.core.loss import LossPreview
from controller.core.planning.snapshot import Rates
from controller.core.preflight import PreflightCheck
from controller.core.rates import RateBook
from controller.core.reassignment_progress import ReassignmentProgress
from controller.core.records import Change
from controller.core.transaction_watch import Hanging
from controller.shell.driver import ClusterDriver
from controller.shell.drivers import Drivers
from controller.shell.published import Published
from springtide.contract.groups import GroupRebalance
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import PartitionLag
from springtide.contract.missing_topics import MissingTopic
from springtide.contract.partition_state import PartitionKey
from springtide.contract.session import DiskSpace


class KnownCluster:
    """A cluster, read only. It follows the cluster: take what belongs together without awaiting.

    Methods that raise NotActive do so on a standby, which has no machine to ask and hears no reports. Those
    that only look up a member's latest word return nothing there.
    """

    __slots__ = ("_drivers", "published")

    def __init__(self, published: Published, drivers: Drivers) -> None:
        self.published = published
        self._drivers = drivers

    # -- as it is stored --

    @property
    def cluster(self) -> str:
        return self.published.cluster

    @property
    def image(self) -> ClusterImage:
        return self.published.image

    @property
    def as_of_ms(self) -> int | None:
        """Return the monotonic time at which this was known to be current; None on the active controller,
        where it always is."""
        return self.published.as_of_ms

    def last_change(self, entity: Entity, entity_id: str) -> Change | None:
        return self.published.changes.get((entity, entity_id))

    def last_change_of_partition(self, key: PartitionKey) -> Change | None:
        return self.published.partition_changes.get(key)

    def version_of(self, entity: Entity, entity_id: str) -> int | None:
        """Return the number of the record that last changed the entity, for ETags; None if none is known."""
        return self.published.version_of(entity, entity_id)

    @property
    def went_back(self) -> str | None:
        """Why ZooKeeper must have lost metadata of this cluster, for which nothing is decided any more; None
        if nothing suggests it. A standby returns what the active controller last wrote about it into its
        claim."""
        return self._drivers.went_back(self.cluster)

    def explain(self, key: PartitionKey) -> str | None:
        """Return why each replica does not lead, one sentence per replica, and what to do if waiting does not
        help; None when the partition has a leader."""
        state = self.image.partitions.get(key)
        if state is None:
            return None
        said = [f"broker {v.broker_id}: {v.detail}" for v in explain_replicas(self.image, state)]
        todo = way_on(state) if said else None
        return "; ".join([*said, todo] if todo else said) or None

    # -- as the machine has decided it --

    @property
    def decided(self) -> ClusterImage:
        """The image with what has been decided and not been persisted yet, for callers that must not miss a
        change that is on its way. Raise NotActive, UnknownCluster."""
        return self._driver.machine.image

    def alarms(self) -> tuple[Alarm, ...]:
        """Return them, most severe first. Raise NotActive, UnknownCluster."""
        return self._driver.machine.alarms()

    def first_alarms(self, each_max: int) -> tuple[Alarm, ...]:
        """Return the first few of each code, in no order. Raise NotActive, UnknownCluster."""
        return self._driver.machine.first_alarms(each_max)

    def alarm_counts(self) -> dict[AlarmCode, int]:
        """Return how many alarms of each code are up; none on a standby, which hears of none."""
        driver = self._drivers.get(self.cluster)
        return {} if driver is None else driver.machine.alarm_counts()

    def hanging_transactions(self) -> list[Hanging]:
        """Return the transactions that are known to hang; none on a standby, which hears of none."""
        driver = self._drivers.get(self.cluster)
        return [] if driver is None else driver.machine.hanging_transactions()

    def set_aside(self) -> dict[int, tuple[SetAsideLog, ...]]:
        """Return what each broker has in quarantine. Raise NotActive, UnknownCluster."""
        machine = self._driver.machine
        return machine.set_aside.of(machine.image)

    def reassignments(self) -> tuple[ReassignmentProgress, ...]:
        """Return every running reassignment: how far, and what holds it up. Raise NotActive,
        UnknownCluster."""
        return self._driver.reassignments()

    def loss_preview(self, key: PartitionKey) -> LossPreview | None:
        """Return what each choice of a leader would lose; None when the partition has a leader. Raise
        NotActive, UnknownCluster."""
        return self._driver.machine.loss_preview(key)

    def way_out(self, key: PartitionKey, preview: LossPreview | None) -> str | None:
        """Return what a person can do for records that no leader has; None if none are known. preview: what
        `loss_preview` has just returned. Raise NotActive, UnknownCluster."""
        return self._driver.machine.way_out(key, preview)

    def preflight(self, broker_ids: Sequence[int]) -> tuple[PreflightCheck, ...]:
        """Return what is known of these brokers before they are admitted. Raise NotActive, UnknownCluster."""
        return self._driver.preflights.judge(broker_ids)

    # -- as members have reported it --

    def lag(self, key: PartitionKey) -> PartitionLag | None:
        """Return the leader's latest report; None if there is none."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.lags.get(key)

    def lags(self) -> dict[PartitionKey, PartitionLag]:
        """Return the leaders' latest reports, as a copy."""
        driver = self._drivers.get(self.cluster)
        return {} if driver is None else dict(driver.reported.lags)

    def rates(self) -> RateBook:
        """Return what passed through the leaders, as a copy; nothing when this controller is not active."""
        driver = self._drivers.get(self.cluster)
        return RateBook() if driver is None else driver.reported.rates.copy()

    def topic_size(self, topic_id: str) -> int | None:
        """Return the bytes of one copy of a topic, as its leaders reported them; None: none has."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.last_hour.size_of(topic_id)

    def topic_rates(self, topic_id: str) -> Rates | None:
        """Return what passes through a topic at present; None if it is not known."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.present.of_topic(topic_id, driver.now_ms())

    def broker_rates(self, broker_id: int) -> Rates | None:
        """Return what passes through a broker, or one of its workers, at present; None if it is not known."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.present.of_broker(broker_id, driver.now_ms())

    def group_lag(self, group_id: str) -> KnownLag | None:
        """Return the latest word of the group's coordinator; None if there is none."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.group_lags.of(group_id)

    def readers(self, topic: str) -> dict[str, KnownLag]:
        """Return the groups that have offsets of a topic, by id, as coordinators tell."""
        driver = self._drivers.get(self.cluster)
        return {} if driver is None else driver.reported.group_lags.readers(topic)

    def readers_count(self, topic: str) -> int | None:
        """Return the number of these; None on a standby, which hears of none."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.group_lags.readers_count(topic)

    def disk(self, broker_id: int) -> DiskSpace | None:
        """Return the broker's latest word; None if there is none."""
        driver = self._drivers.get(self.cluster)
        return None if driver is None else driver.reported.disks.get(broker_id)

    def load(self, member_ids: Sequence[int]) -> tuple[int | None, float | None]:
        """Return the open connections of a broker with these workers, and its requests a second in the last
        sample; None: not known."""
        driver = self._drivers.get(self.cluster)
        if driver is None:
            return None, None
        hour = driver.reported.last_hour
        latest = hour.latest_of_members(member_ids)
        return hour.connections_of(member_ids), None if latest is None else latest.requests

    def last_hour(self) -> LastHour:
        """Return what was reported over the last hour; not while awaiting. Raise NotActive,
        UnknownCluster."""
        return self._driver.reported.last_hour

    def rebalances(self, group_id: str) -> tuple[GroupRebalance, ...]:
        """Return the last rebalances that the group's coordinators told of, the newest first."""
        driver = self._drivers.get(self.cluster)
        return () if driver is None else driver.reported.groups.rebalances(group_id)

    def processes(self) -> tuple[Process, ...]:
        """Return the brokers' and coordinators' processes, with the levels that each has told. Raise
        NotActive, UnknownCluster."""
        return self._driver.machine.processes(self._driver.now_ms())

    def missing_topics(self) -> dict[int, tuple[MissingTopic, ...]]:
        """Return what each member's clients miss. Raise NotActive, UnknownCluster."""
        return self._driver.reported.missing_topics

    def first_unreported(self) -> PartitionKey | None:
        """Return a partition that this controller took over, whose leader is there and has not reported
        since; None: no more. Raise NotActive, UnknownCluster."""
        return self._driver.reported.first_unreported()

    def served_for_ms(self) -> int:
        """Return the time since this controller took the cluster over or created it. Raise NotActive,
        UnknownCluster."""
        return self._driver.served_for_ms()

    # -- waiting --

    async def until_serving(self, topic_ids: Sequence[str], wait_ms: int) -> None:
        """Wait until the partitions of these topics, as they are stored, have leaders and every live member
        knows them. Raise NotInForce after `wait_ms`, or if the term ends before; NotActive."""
        await self._driver.serving(topic_ids, wait_ms)

    async def until_free(self, names: Collection[str]) -> None:
        """Wait until no topic that is being deleted holds one of the names. Raise NotActive."""
        driver = self._driver
        while not driver.published.image.held_names.keys().isdisjoint(names):
            await driver.published_beyond(driver.published.image.sequence)

    @property
    def _driver(self) -> ClusterDriver:
        return self._drivers.of(self.cluster)
