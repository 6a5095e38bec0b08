"""/clusters/{cluster}/partitions, which costs what it shows, and /clusters/{cluster}/replication, one pass
over what leaders last reported and over the partitions that are not well.

Lag is what leaders last reported, so only the active controller has it; every controller knows the
placement. A report under an earlier leadership describes another leader's log and is ignored.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, TypeVar

import anyio.lowlevel
from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from admin_api.http.answers import AGE_HEADERS, show
from admin_api.http.models import ClusterPath, View
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from admin_api.partitions.models import PartitionList
from admin_api.partitions.routes import StateWord
from admin_api.partitions.service import show_partition, state_word
from admin_api.partitions.worst_first import SEVERITY, position_of, worst_first
from controller.face.cluster import ClusterImage
from springtide.contract.lag_report import PartitionLag
from springtide.contract.partition_state import PartitionKey, PartitionState
from springtide.contract.session import BrokerStatus

Item = TypeVar("Item")

router = APIRouter(route_class=StrictRoute)
#: Partitions summed up before other tasks get a turn.
PARTITIONS_PER_TURN: Final = 2_000
_LIST: Final = "partitions of the cluster"


class BrokerReplicationView(View):
    """The replicas of one broker, and how far its followers are behind their leaders."""

    broker_id: int = Field(examples=[1])
    replicas: int = Field(description="partitions assigned to it", examples=[36])
    leaders: int = Field(description="partitions it leads", examples=[12])
    preferred: int = Field(
        description="partitions it would lead if every one had its first choice", examples=[12]
    )
    out_of_sync: int = Field(description="replicas of it that are not in their ISR", examples=[0])
    bytes: int | None = Field(
        description="of its replicas, as their leaders last reported the logs' sizes; null: none has",
        examples=[48_318_382_080],
    )
    followed: int = Field(
        description="replicas whose leaders have said how far they are; the lags below are over these",
        examples=[24],
    )
    lag_records: int | None = Field(
        description="records it has still to fetch, over all of them", examples=[210]
    )
    lag_records_max: int | None = Field(description="of the replica that is farthest behind", examples=[37])
    unknown: int = Field(
        description="followers whose lag is not known: no leader has said how far they are", examples=[0]
    )
    lag_ms_max: int | None = Field(
        description=(
            "longest time since one of them last had everything; null: not known, as of a broker that is "
            "down or a replica that never had everything"
        ),
        examples=[120],
    )
    farthest_topic: str | None = Field(
        description="of the replica that lacks everything for the longest time", examples=["orders"]
    )
    farthest_partition: int | None = Field(examples=[7])


class StateCounts(View):
    """The partitions by the worst state that applies to each: every partition is counted once."""

    leaderless: int = Field(examples=[0])
    under_min_isr: int = Field(examples=[0])
    recovering: int = Field(examples=[0])
    under_replicated: int = Field(examples=[0])
    creating: int = Field(description="their leaders have not reported a log yet", examples=[0])
    online: int = Field(examples=[12])


class ReplicationView(View):
    """The state of a cluster's replication."""

    cluster: str = Field(examples=["prod"])
    partitions: int = Field(examples=[12])
    reported: int = Field(
        description="partitions whose leaders have reported in their present epoch; 0 on a standby",
        examples=[12],
    )
    states: StateCounts
    brokers: list[BrokerReplicationView] = Field(description="those that hold replicas, or may")


@dataclass(slots=True)
class _Sum:
    """The totals over one broker's replicas."""

    bytes: int | None = None
    out_of_sync: int = 0
    followed: int = 0
    lag_records: int = 0
    lag_records_max: int = 0
    #: Infinite: of a replica that never had everything, so it is farther behind than any time says.
    lag_ms_max: float = 0
    farthest: PartitionState | None = None


async def sum_up(
    cluster: str, image: ClusterImage, lags: Mapping[PartitionKey, PartitionLag]
) -> ReplicationView:
    """Return the sums as they are now; heartbeats are answered in between. lags: the leaders' latest reports,
    which are not changed meanwhile."""
    sums: defaultdict[int, _Sum] = defaultdict(_Sum)
    for broker in image.brokers.values():
        if broker.status is not BrokerStatus.WAITING:
            sums[broker.broker_id] = _Sum()
    reported = 0
    sizes: Counter[tuple[int, ...]] = Counter()
    async for turn in _in_turns(lags.items()):
        for key, lag in turn:
            state = image.partitions.get(key)
            if state is None or lag.leader_epoch != state.leader_epoch or key[0] in image.deletions:
                continue
            reported += 1
            sizes[state.replicas] += lag.size_bytes
            _add(sums, state, lag)
    for replicas, size in sizes.items():
        for broker_id in replicas:
            sums[broker_id].bytes = (sums[broker_id].bytes or 0) + size
    states: Counter[str] = Counter()
    async for keys in _in_turns(_troubled(image)):
        for state in (image.partitions[key] for key in keys if _is_shown(image, key)):
            states[state_word(state)] += 1
            for broker_id in state.replicas:
                sums[broker_id].out_of_sync += broker_id not in state.isr
    total = sum(topic.partitions for topic in image.topics.values() if not topic.deleting)
    states["online"] += max(0, total - states.total())
    return ReplicationView(
        cluster=cluster,
        partitions=total,
        reported=reported,
        states=StateCounts(**{word: states[word] for word in SEVERITY}),
        brokers=[_view(image, broker_id, sums[broker_id]) for broker_id in sorted(sums)],
    )


async def _in_turns(items: Iterable[Item]) -> AsyncIterator[list[Item]]:
    """Yield the items in parts; others have their turn in between."""
    left = iter(items)
    while part := list(islice(left, PARTITIONS_PER_TURN)):
        yield part
        await anyio.lowlevel.checkpoint()


def _troubled(image: ClusterImage) -> dict[PartitionKey, None]:
    """Return all partitions but those that are online with every replica in sync."""
    return (
        image.leaderless
        | image.below_min
        | image.recovering
        | image.under_replicated
        | image.unconfirmed_new
        | image.reassigning
    )


def _is_shown(image: ClusterImage, key: PartitionKey) -> bool:
    """Return whether the partition is there, and its topic is announced and not being deleted."""
    topic = image.topics.get(key[0])
    return topic is not None and not topic.deleting and key[1] < topic.partitions and key in image.partitions


def _add(sums: defaultdict[int, _Sum], state: PartitionState, lag: PartitionLag) -> None:
    """Add what the partition's leader reports of its followers."""
    for follower in lag.followers:
        records, broker = follower.lag_records, sums[follower.broker_id]
        if records < 0:  # no report under this leadership: its lag is unknown
            continue
        broker.followed += 1
        broker.lag_records += records
        broker.lag_records_max = max(broker.lag_records_max, records)
        lag_ms = math.inf if follower.lag_ms < 0 else follower.lag_ms
        if broker.farthest is None or lag_ms > broker.lag_ms_max:
            broker.lag_ms_max, broker.farthest = lag_ms, state


def _view(image: ClusterImage, broker_id: int, found: _Sum) -> BrokerReplicationView:
    known = found.followed > 0
    farthest = found.farthest
    broker = image.brokers.get(broker_id)
    is_down = broker is None or broker.status is BrokerStatus.FENCED
    replicas, leaders = len(image.replicas_of.get(broker_id, ())), len(image.leader_of.get(broker_id, ()))
    return BrokerReplicationView(
        broker_id=broker_id,
        replicas=replicas,
        leaders=leaders,
        preferred=image.preferred_counts.get(broker_id, 0),
        out_of_sync=found.out_of_sync,
        bytes=found.bytes,
        followed=found.followed,
        unknown=max(0, replicas - leaders - found.followed),
        lag_records=found.lag_records if known else None,
        lag_records_max=found.lag_records_max if known else None,
        lag_ms_max=int(found.lag_ms_max) if known and not is_down and found.lag_ms_max < math.inf else None,
        farthest_topic=None if farthest is None else farthest.topic,
        farthest_partition=None if farthest is None else farthest.partition,
    )


@router.get(
    "/clusters/{cluster}/partitions",
    operation_id="listPartitionsOfCluster",
    tags=["Partitions"],
    summary="List a cluster's partitions, worst first",
    response_model=PartitionList,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def list_partitions(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    state: Annotated[StateWord | None, Query(description="only partitions in this state")] = None,
    paging: Paged,
) -> Response:
    """List the cluster's partitions, the worst state first: without a leader, refusing acks=all, with a
    leader that has not confirmed its log, lacking a replica, healthy. Partitions in the same state are
    ordered by topic and number."""
    view = services.engine.cluster(cluster)
    found = worst_first(view.image, word=state, after=paging.after(_LIST, int, str, int), count=paging.rows)
    page, token = paging.cut(found, lambda p: [_LIST, *position_of(p)])
    items = [show_partition(view, p) for p in page]
    return show(request, PartitionList(items=items, next_page_token=token), view=view)


@router.get(
    "/clusters/{cluster}/replication",
    operation_id="getReplication",
    tags=["Brokers"],
    summary="Look at what each broker carries, and how far its followers are",
    response_model=ReplicationView,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found")},
)
async def get_replication(request: Request, services: Serving, cluster: ClusterPath) -> Response:
    """Show the cluster's replication, with the lags and sizes that leaders last reported. Only the active
    controller receives reports: a standby shows placement only."""
    view = services.engine.cluster(cluster)
    found = await sum_up(cluster, view.image, view.lags())
    return show(request, found, view=view)
