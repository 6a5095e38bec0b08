"""/clusters/{cluster}/transactions"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from admin_api.http.answers import done, show
from admin_api.http.models import (
    INT64_MAX,
    NAMES_MAX,
    ClusterPath,
    PartitionPath,
    Search,
    TopicPath,
    is_found,
)
from admin_api.http.paging import Paged
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Write
from admin_api.partitions.service import find_partition
from admin_api.transactions import ending, service
from admin_api.transactions.models import (
    AbortTransaction,
    EndHangingTransaction,
    TransactionAborted,
    TransactionEnded,
    TransactionList,
    TransactionPhase,
    TransactionView,
)
from admin_api.transactions.service import TransactionPath
from controller.face.cluster import Entity
from controller.face.transactions import TransactionListing

router = APIRouter(route_class=StrictRoute, tags=["Transactions"])

TransactionSort = Literal[
    "transactional_id",
    "-transactional_id",
    "age",
    "-age",
    "waiting_records",
    "-waiting_records",
    "producer_id",
    "-producer_id",
    "state",
    "-state",
]
#: Characters of an id by which the audit finds it; its body has the whole id.
ENTITY_ID_CHARS = 300


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """The transactions that a list is narrowed to."""

    states: frozenset[str]
    is_live: bool | None
    lingers: bool | None
    age_ms_min: int | None
    prefix: str | None
    search: str | None
    producer_id: int | None

    def takes(self, services: Services, one: TransactionListing) -> bool:
        age = service.age_ms(services, one)
        return (
            (not self.states or one.state in self.states)
            and self.is_live in (None, one.is_live)
            and self.lingers in (None, service.lingers(services, one))
            and (self.age_ms_min is None or (age is not None and age >= self.age_ms_min))
            and (self.prefix is None or one.transactional_id.startswith(self.prefix))
            and is_found(self.search, one.transactional_id)
        )


async def filter_of(
    *,
    state: Annotated[
        list[TransactionPhase],
        Query(default_factory=list, max_length=NAMES_MAX, description="only these; may be repeated"),
    ],
    is_live: Annotated[
        bool | None, Query(description="only those that are not over, or only those that are")
    ] = None,
    lingers: Annotated[
        bool | None, Query(description="only those that are older than their timeouts by a minute")
    ] = None,
    age_ms_min: Annotated[
        int | None, Query(ge=0, le=INT64_MAX, description="only those that are so old", examples=[60_000])
    ] = None,
    prefix: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=249,
            description="only ids that begin with this",
            examples=["payments-"],
        ),
    ] = None,
    search: Search = None,
    producer_id: Annotated[
        int | None, Query(ge=0, le=INT64_MAX, description="only this producer's", examples=[4000])
    ] = None,
) -> TransactionFilter:
    states = frozenset(one.value for one in state)
    return TransactionFilter(states, is_live, lingers, age_ms_min, prefix, search, producer_id)


@router.get(
    "/clusters/{cluster}/transactions",
    operation_id="listTransactions",
    summary="List transactions",
    response_model=TransactionList,
    responses=problems("cluster_not_found", "coordinator_unavailable"),
)
async def list_transactions(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
    wanted: Annotated[TransactionFilter, Depends(filter_of)],
    sort: Annotated[
        TransactionSort, Query(description="`-` before it: descending; what is not known comes below 0")
    ] = "transactional_id",
) -> Response:
    """List the transactional ids that coordinators know, with the transactions of those that have one: each
    page asks them again. What readers wait for is as leaders reported it last."""
    view = services.engine.cluster(cluster)
    found: list[TransactionListing] = []
    unanswered: list[str] = []
    if service.has_transactions(view):
        named = () if wanted.producer_id is None else (wanted.producer_id,)
        with service.as_problems(services, cluster):
            found, unanswered = await services.transactions.listed(cluster, producer_ids=named)
    transactions, token = paging.page_of(
        filter(partial(wanted.takes, services), found),
        lambda one: (service.sort_value(services, view, one, sort), *service.order_of(one)),
        name=f"transactions {sort}",
        kinds=(int, str, str),
        descending=sort.startswith("-"),
    )
    items = [service.summary(services, view, one) for one in transactions]
    listed = TransactionList(
        items=items, next_page_token=token, unanswered=unanswered, hanging=service.hanging_views(view)
    )
    return show(request, listed)


@router.get(
    "/clusters/{cluster}/transactions/{transactional_id:whole}",
    operation_id="getTransaction",
    summary="Look at a transaction: since when, in which partitions, who waits for it",
    response_model=TransactionView,
    responses=problems("cluster_not_found", "transaction_not_found", "coordinator_unavailable"),
)
async def get_transaction(
    request: Request, services: Serving, cluster: ClusterPath, transactional_id: TransactionPath
) -> Response:
    """Show a transactional id and its transaction. Answers 404 if its coordinator does not know it."""
    return show(request, await service.transaction_view(services, cluster, transactional_id))


@router.post(
    "/clusters/{cluster}/transactions/{transactional_id:whole}:abort",
    operation_id="abortTransaction",
    summary="Abort an open transaction, and fence its producer",
    response_model=TransactionAborted,
    responses=done(
        "Done; of a dry run, as it would be",
        "cluster_not_found",
        "transaction_not_found",
        "transaction_not_open",
        "coordinator_unavailable",
    ),
)
async def abort_transaction(
    body: AbortTransaction,
    services: Serving,
    write: Write,
    cluster: ClusterPath,
    transactional_id: TransactionPath,
) -> Response:
    """Abort a transaction that is open, and fence its producer, which gets an error and has to begin again.
    The answer comes when the end is decided, and then it is written to the partitions; a dry run says what
    readers get by it."""
    asked = Asked(
        cluster=cluster,
        action="abort_transaction",
        entity=Entity.TRANSACTION,
        entity_id=transactional_id[:ENTITY_ID_CHARS],
        body={"transactional_id": transactional_id, **body.model_dump(mode="json")},
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(ending.abort, services, cluster, transactional_id))


@router.post(
    "/clusters/{cluster}/topics/{topic}/partitions/{partition:int}:end-transaction",
    operation_id="endTransaction",
    summary="End a transaction that hangs in a partition",
    response_model=TransactionEnded,
    responses=done(
        "Done; of a dry run, as it would be",
        "cluster_not_found",
        "topic_not_found",
        "partition_not_found",
        "transaction_not_found",
        "transaction_not_open",
        "transaction_not_hanging",
        "coordinator_unavailable",
    ),
)
async def end_transaction(
    body: EndHangingTransaction,
    services: Serving,
    write: Write,
    cluster: ClusterPath,
    topic: TopicPath,
    partition: PartitionPath,
) -> Response:
    """Have a partition's leader end a transaction that no coordinator has, as aborted: the alarm
    `transaction_hangs` names it. A dry run says what readers get by it, and whether a producer is fenced
    for it."""
    find_partition(services.engine.cluster(cluster), cluster, topic, partition)
    asked = Asked(
        cluster=cluster,
        action="end_transaction",
        entity=Entity.TOPIC,
        entity_id=topic,
        body=body.model_dump(mode="json"),
        reason=body.reason,
        topic=topic,
        partition=partition,
    )
    return await write.carry_out(asked, partial(ending.end, services, cluster, (topic, partition), body=body))
