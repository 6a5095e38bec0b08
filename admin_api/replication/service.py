"""A summary of replication over a whole cluster, in one pass over its partitions.

Lag is what leaders last reported, so only the active controller has it; every controller knows the placement.
A report under an earlier leadership describes another leader's log and is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from admin_api.partitions.service import state_word
from admin_api.replication.models import BrokerReplicationView, ReplicationView, StateCounts
from controller.contract.lag_report import PartitionLag
from controller.contract.partition_state import PartitionState
from controller.contract.session import BrokerStatus
from controller.core.image import ClusterImage
from controller.shell.engine_port import EnginePort
from controller.shell.published import Published

#: Worst first.
SEVERITY = {
    word: rank
    for rank, word in enumerate(
        ("leaderless", "under_min_isr", "recovering", "under_replicated", "creating", "online")
    )
}


def severity(state: PartitionState) -> int:
    return SEVERITY[state_word(state)]


def living(image: ClusterImage) -> Iterator[PartitionState]:
    """Return the partitions of topics that are not being deleted."""
    for (topic_id, _), state in image.partitions.items():
        if topic_id in image.topics and topic_id not in image.deletions:
            yield state


@dataclass(slots=True)
class _Sum:
    """The totals over one broker's replicas."""

    bytes: int | None = None
    out_of_sync: int = 0
    followed: int = 0
    lag_records: int = 0
    lag_records_max: int = 0
    lag_ms_max: int = 0
    farthest: PartitionState | None = None


def sum_up(engine: EnginePort, cluster: str, view: Published) -> ReplicationView:
    image = view.image
    sums = {
        broker.broker_id: _Sum()
        for broker in image.brokers.values()
        if broker.status is not BrokerStatus.WAITING
    }
    reported = 0
    states: Counter[str] = Counter()
    for state in living(image):
        states[state_word(state)] += 1
        for broker_id in state.replicas:
            if broker_id not in state.isr:
                sums.setdefault(broker_id, _Sum()).out_of_sync += 1
        lag = engine.lag(cluster, (state.topic_id, state.partition))
        if lag is not None and lag.leader_epoch == state.leader_epoch:
            reported += 1
            _add(sums, state, lag)
    return ReplicationView(
        cluster=cluster,
        partitions=states.total(),
        reported=reported,
        states=StateCounts(**{word: states[word] for word in SEVERITY}),
        brokers=[_view(image, broker_id, sums[broker_id]) for broker_id in sorted(sums)],
    )


def _add(sums: dict[int, _Sum], state: PartitionState, lag: PartitionLag) -> None:
    for broker_id in state.replicas:
        broker = sums.setdefault(broker_id, _Sum())
        broker.bytes = (broker.bytes or 0) + lag.size_bytes
    for follower in lag.followers:
        broker = sums.setdefault(follower.broker_id, _Sum())
        if follower.lag_records < 0:  # no report under this leadership: its lag is unknown
            continue
        broker.followed += 1
        broker.lag_records += follower.lag_records
        broker.lag_records_max = max(broker.lag_records_max, follower.lag_records)
        if broker.farthest is None or follower.lag_ms > broker.lag_ms_max:
            broker.lag_ms_max, broker.farthest = follower.lag_ms, state


def _view(image: ClusterImage, broker_id: int, found: _Sum) -> BrokerReplicationView:
    known = found.followed > 0
    farthest = found.farthest
    return BrokerReplicationView(
        broker_id=broker_id,
        replicas=len(image.replicas_of.get(broker_id, ())),
        leaders=len(image.leader_of.get(broker_id, ())),
        preferred=image.preferred_counts.get(broker_id, 0),
        out_of_sync=found.out_of_sync,
        bytes=found.bytes,
        followed=found.followed,
        lag_records=found.lag_records if known else None,
        lag_records_max=found.lag_records_max if known else None,
        lag_ms_max=found.lag_ms_max if known else None,
        farthest_topic=None if farthest is None else farthest.topic,
        farthest_partition=None if farthest is None else farthest.partition,
    )
