"""The basis of a plan: brokers, topics and partitions as they were at one moment.

A value of its own rather than the image, because it must not change while a plan is made from it, and
because sizes are not part of the image: brokers report them, and may not have done so yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from controller.core.configs import disk_reserve_percent, effective
from controller.core.hosts import hosts_of
from controller.core.image import ClusterImage
from controller.core.minimum import MINIMUM, own_minimum
from controller.core.records import BrokerRegistration
from springtide.contract.epochs import PartitionEpoch
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import (
    LeaderRecovery,
    PartitionKey,
    PartitionState,
    TopicState,
)
from springtide.contract.session import DiskSpace, owner_of


class Rates(NamedTuple):
    """The measured rates of one partition, in bytes a second. bytes_out: to consumers, without followers."""

    bytes_in: int = 0
    bytes_out: int = 0


class Measured(NamedTuple):
    """The values that a client measured. rates: by partition; None: as leaders report them. room: bytes that
    moves may bring, by broker."""

    rates: Mapping[PartitionKey, Rates] | None
    room: Mapping[int, int]

    def seen_in(self, snapshot: Snapshot) -> Snapshot:
        return msgspec.structs.replace(
            snapshot,
            rates=snapshot.rates if self.rates is None else self.rates,
            brokers=tuple(
                msgspec.structs.replace(broker, room_bytes=self._room_of(broker))
                for broker in snapshot.brokers
            ),
        )

    def _room_of(self, broker: BrokerSnapshot) -> int | None:
        """Return the smaller of what was measured and what the broker says."""
        known = (broker.room_bytes, self.room.get(broker.broker_id))
        return min((room for room in known if room is not None), default=None)


class DiskUse(NamedTuple):
    """The use of a broker's disk, as it is when the moves that are on their way have ended."""

    used_bytes: int
    total_bytes: int


class BrokerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """receives: may be given replicas that it does not have. leaving: it is to be emptied. serves: it is
    running. leads: may be given leaderships. room_bytes: that moves may bring to it; below 0: its disk is too
    full already; None: not known, so any number. is_short: it takes no records, for want of room on its disk.
    disk: None: not known. worker_of: the broker that it is a
    worker of; None: it is the only one."""

    broker_id: int
    host: str
    rack: str | None = None
    receives: bool = True
    leaving: bool = False
    serves: bool = True
    leads: bool = True
    room_bytes: int | None = None
    is_short: bool = False
    disk: DiskUse | None = None
    worker_of: int | None = None

    @property
    def owner_id(self) -> int:
        return owner_of(self.broker_id, self.worker_of)


class TopicSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """min_insync_replicas: as configured; None: not configured, so a majority of the replicas.
    own_minimum: that of the topic itself; 0: it sets none."""

    topic_id: str
    topic: str
    partitions: int
    replication_factor: int
    min_insync_replicas: int | None = None
    own_minimum: int = 0

    def minimum_of(self, replication_factor: int) -> int:
        """Return the minimum as effective_min_insync_replicas does, for another number of replicas."""
        if self.min_insync_replicas is None:
            return replication_factor // 2 + 1
        return min(self.min_insync_replicas, replication_factor)


class PartitionSnapshot(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """replicas: preferred leader first; the target, while a reassignment runs. size_bytes: of the leader's
    log, which each new replica copies; None: not reported yet. gc=False: there are a hundred thousand."""

    topic_id: str
    topic: str
    partition: int
    partition_epoch: PartitionEpoch
    replicas: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    min_insync_replicas: int
    size_bytes: int | None = None
    is_reassigning: bool = False
    is_recovering: bool = False

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.partition)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """brokers: ascending by id. topics, partitions: by name, then by number; none is being deleted.
    rates: a partition without is idle; None: not known. destinations: that replicas may come
    to, if they may at all; None: all."""

    brokers: tuple[BrokerSnapshot, ...]
    topics: tuple[TopicSnapshot, ...]
    partitions: tuple[PartitionSnapshot, ...]
    rates: Mapping[PartitionKey, Rates] | None = None
    destinations: tuple[int, ...] | None = None

    def topic(self, topic_id: str) -> TopicSnapshot | None:
        return next((topic for topic in self.topics if topic.topic_id == topic_id), None)


class Moment(NamedTuple):
    """An image's rows at one moment. Copying them takes a hundredth of the time that a snapshot of them
    takes, which may then be taken beside the controller's work."""

    brokers: Mapping[int, BrokerRegistration]
    topics: Mapping[str, TopicState]
    partitions: Mapping[PartitionKey, PartitionState]
    configs: Mapping[str, str]
    reassigning: Collection[PartitionKey]

    @classmethod
    def of(cls, image: ClusterImage) -> Moment:
        return cls(
            dict(image.brokers),
            dict(image.topics),
            dict(image.partitions),
            image.configs,
            tuple(image.reassigning),
        )


def take_snapshot(
    image: ClusterImage | Moment,
    lags: Mapping[PartitionKey, PartitionLag],
    disks: Mapping[int, DiskSpace] | None = None,
) -> Snapshot:
    """Return the snapshot of all admitted brokers and of all topics that are not being deleted. disks: by
    broker, as far as known."""
    coming, going = _on_their_way(image, lags)
    known = disks or {}
    rooms = {b: room_of(disk, image) - coming[b] for b, disk in known.items()}
    uses = {
        b: DiskUse(disk.total_bytes - disk.free_bytes + coming[b] - going[b], disk.total_bytes)
        for b, disk in known.items()
    }
    hosts = hosts_of(image.brokers.values())
    topics = sorted((t for t in image.topics.values() if not t.deleting), key=lambda t: t.topic)
    minimums = {t.topic_id: effective(MINIMUM, t.configs, image.configs) for t in topics}
    return Snapshot(
        brokers=tuple(
            msgspec.structs.replace(
                _broker(image.brokers[b], hosts[b], rooms.get(b), uses.get(b)),
                is_short=b in known and known[b].is_short,
            )
            for b in sorted(image.brokers)
            if image.brokers[b].admitted
        ),
        topics=tuple(
            TopicSnapshot(
                topic_id=topic.topic_id,
                topic=topic.topic,
                partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                min_insync_replicas=None if (minimum := minimums[topic.topic_id]) is None else int(minimum),
                own_minimum=own_minimum(topic),
            )
            for topic in topics
        ),
        partitions=tuple(
            _partition(state, lags.get((state.topic_id, state.partition)))
            for topic in topics
            for number in range(topic.partitions)
            if (state := image.partitions.get((topic.topic_id, number))) is not None
        ),
    )


def room_of(disk: DiskSpace, image: ClusterImage | Moment) -> int:
    """Return the bytes that moves may bring to a disk: what is free above the reserve that the cluster sets,
    and the broker's own. -1 while the broker takes no records."""
    reserve = max(disk.total_bytes * disk_reserve_percent(image.configs) // 100, disk.reserve_bytes)
    return min(disk.free_bytes - reserve, -1 if disk.is_short else disk.free_bytes)


def _on_their_way(
    image: ClusterImage | Moment, lags: Mapping[PartitionKey, PartitionLag]
) -> tuple[Counter[int], Counter[int]]:
    """Return, by broker, the bytes that replicas that are being copied still lack, and those of replicas that
    go when others have come."""
    coming: Counter[int] = Counter()
    going: Counter[int] = Counter()
    for key in image.reassigning:
        lag, state = lags.get(key), image.partitions[key]
        if lag is not None:
            lacking = {f.broker_id: f.remaining_bytes for f in lag.followers if f.remaining_bytes >= 0}
            coming.update({b: lacking.get(b, lag.size_bytes) for b in state.adding_replicas})
            going.update(dict.fromkeys(state.removing_replicas, lag.size_bytes))
    return coming, going


def _broker(
    broker: BrokerRegistration, host: str, room_bytes: int | None, disk: DiskUse | None
) -> BrokerSnapshot:
    return BrokerSnapshot(
        broker_id=broker.broker_id,
        host=host,
        rack=broker.rack,
        receives=broker.takes_replicas,
        leaving=broker.draining,
        serves=broker.is_eligible,
        leads=not broker.demoted,
        room_bytes=room_bytes,
        disk=disk,
        worker_of=broker.worker_of,
    )


def _partition(state: PartitionState, lag: PartitionLag | None) -> PartitionSnapshot:
    return PartitionSnapshot(
        topic_id=state.topic_id,
        topic=state.topic,
        partition=state.partition,
        partition_epoch=state.partition_epoch,
        replicas=state.target_replicas,
        leader=state.leader,
        isr=state.isr,
        min_insync_replicas=state.min_insync_replicas,
        size_bytes=None if lag is None else lag.size_bytes,
        is_reassigning=state.is_reassigning,
        is_recovering=state.recovery is LeaderRecovery.RECOVERING,
    )
