"""/clusters/{cluster}/partitions and /clusters/{cluster}/replication, each in one pass over a cluster's
partitions.

Lag is what leaders last reported, so only the active controller has it; every controller knows the
placement. A report under an earlier leadership describes another leader's log and is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

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
from controller.contract.lag_report import PartitionLag
from controller.contract.partition_state import PartitionState
from controller.contract.session import BrokerStatus
from controller.core.image import ClusterImage
from controller.shell.engine_port import EnginePort
from controller.shell.published import Published

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
    creating: int = Field(description="their leaders have not told of a log yet", examples=[0])
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


def living(image: ClusterImage) -> Iterator[PartitionState]:
    """Yield the partitions of topics that are not being deleted, as of the first."""
    states = list(image.partitions.values())
    topics = {topic_id for topic_id, topic in image.topics.items() if not topic.deleting}
    for state in states:
        if state.topic_id in topics:
            yield state


@dataclass(slots=True)
class _Sum:
    """The totals over one broker's replicas."""

    bytes: int | None = None
    out_of_sync: int = 0
    followed: int = 0
    unknown: int = 0
    lag_records: int = 0
    lag_records_max: int = 0
    #: None: of a replica that never had everything, so it is farther behind than any time says.
    lag_ms_max: int | None = 0
    farthest: PartitionState | None = None


async def sum_up(engine: EnginePort, cluster: str, view: Published) -> ReplicationView:
    """Return the sums over the partitions as they are now; heartbeats are answered in between."""
    image = view.image
    sums = {
        broker.broker_id: _Sum()
        for broker in image.brokers.values()
        if broker.status is not BrokerStatus.WAITING
    }
    lags = engine.lags(cluster)
    reported = 0
    states: Counter[str] = Counter()
    for done, state in enumerate(living(image), start=1):
        if done % PARTITIONS_PER_TURN == 0:
            await anyio.lowlevel.checkpoint()
        states[state_word(state)] += 1
        for broker_id in state.replicas:
            if broker_id not in state.isr:
                sums.setdefault(broker_id, _Sum()).out_of_sync += 1
        lag = lags.get((state.topic_id, state.partition))
        heard: set[int] = set()
        if lag is not None and lag.leader_epoch == state.leader_epoch:
            reported += 1
            heard = _add(sums, state, lag)
        for broker_id in state.replicas:
            if broker_id != state.leader and broker_id not in heard:
                sums.setdefault(broker_id, _Sum()).unknown += 1
    return ReplicationView(
        cluster=cluster,
        partitions=states.total(),
        reported=reported,
        states=StateCounts(**{word: states[word] for word in SEVERITY}),
        brokers=[_view(image, broker_id, sums[broker_id]) for broker_id in sorted(sums)],
    )


def _add(sums: dict[int, _Sum], state: PartitionState, lag: PartitionLag) -> set[int]:
    """Add what the partition's leader reports; return the followers whose lag it knows."""
    heard: set[int] = set()
    for broker_id in state.replicas:
        broker = sums.setdefault(broker_id, _Sum())
        broker.bytes = (broker.bytes or 0) + lag.size_bytes
    for follower in lag.followers:
        broker = sums.setdefault(follower.broker_id, _Sum())
        if follower.lag_records < 0:  # no report under this leadership: its lag is unknown
            continue
        heard.add(follower.broker_id)
        broker.followed += 1
        broker.lag_records += follower.lag_records
        broker.lag_records_max = max(broker.lag_records_max, follower.lag_records)
        lag_ms = None if follower.lag_ms < 0 else follower.lag_ms
        if broker.farthest is None or _is_longer(lag_ms, broker.lag_ms_max):
            broker.lag_ms_max, broker.farthest = lag_ms, state
    return heard


def _is_longer(lag_ms: int | None, than: int | None) -> bool:
    return than is not None and (lag_ms is None or lag_ms > than)


def _view(image: ClusterImage, broker_id: int, found: _Sum) -> BrokerReplicationView:
    known = found.followed > 0
    farthest = found.farthest
    broker = image.brokers.get(broker_id)
    is_down = broker is None or broker.status is BrokerStatus.FENCED
    return BrokerReplicationView(
        broker_id=broker_id,
        replicas=len(image.replicas_of.get(broker_id, ())),
        leaders=len(image.leader_of.get(broker_id, ())),
        preferred=image.preferred_counts.get(broker_id, 0),
        out_of_sync=found.out_of_sync,
        bytes=found.bytes,
        followed=found.followed,
        unknown=found.unknown,
        lag_records=found.lag_records if known else None,
        lag_records_max=found.lag_records_max if known else None,
        lag_ms_max=found.lag_ms_max if known and not is_down else None,
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
    view = services.engine.image(cluster)
    found = worst_first(view.image, word=state, after=paging.after(_LIST, int, str, int), count=paging.rows)
    page, token = paging.cut(found, lambda p: [_LIST, *position_of(p)])
    items = [show_partition(services.engine, cluster, view, p) for p in page]
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
    view = services.engine.image(cluster)
    return show(request, await sum_up(services.engine, cluster, view), view=view)
