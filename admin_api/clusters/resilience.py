"""/clusters/{cluster}/resilience: the effects of losing brokers, hosts or racks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, StringConstraints

from admin_api.http.answers import AGE_HEADERS, show
from admin_api.http.models import ClusterPath, View
from admin_api.http.paging import Paged
from admin_api.http.problems import FieldProblem, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Serving
from controller.face.cluster import (
    ClusterImage,
    Condition,
    PartitionLoss,
    WorstLoss,
    hosts_of,
    lose,
    tally,
    worst_loss,
)
from springtide.contract.partition_state import NO_LEADER

router = APIRouter(route_class=StrictRoute, tags=["Clusters"])
LOSE_TERMS_MAX = 50

BrokersTerm = Annotated[
    str,
    StringConstraints(pattern=r"^(broker:[0-9]{1,10}|host:.{1,255}|rack:.{1,255})$"),
    Field(description="broker:<id>, host:<name> or rack:<name>", examples=["broker:3"]),
]
ConditionWord = Literal["leaderless", "recovering", "under_min_isr", "under_replicated"]


class HarmView(View):
    """The partitions that the loss makes worse, by their state after it. Each is counted once, except in
    `stops_acks_all`."""

    leaderless: int = Field(description="go offline: no replica in sync is left to lead")
    recovering: int = Field(
        description="get a leader uncleanly, as their topic allows: acknowledged records may be lost"
    )
    under_min_isr: int = Field(description="refuse acks=all; reads continue")
    under_replicated: int = Field(
        description="continue, with fewer replicas in sync than their replication factor"
    )
    stops_acks_all: int = Field(
        description="take acks=all now and then would not: those offline and those under the minimum"
    )


class WorstLossView(View):
    """The most harmful loss of its kind."""

    lose: str = Field(examples=["broker:3"])
    partitions: HarmView


class ResilienceSummary(View):
    """The effects of the worst single loss. Null: there is nothing of that kind to lose, or no two brokers
    share one."""

    broker: WorstLossView | None
    host: WorstLossView | None
    rack: WorstLossView | None


class PartitionLossView(View):
    """A partition that the loss makes worse, and its state after it."""

    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    state: str = Field(description="what it would be", examples=["under_min_isr"])
    state_now: str = Field(examples=["online"])
    stops_acks_all: bool
    leader: int | None = Field(description="who would lead", examples=[2])
    isr: list[int] = Field(description="who would be in sync", examples=[[2]])
    min_insync_replicas: int
    replicas: list[int] = Field(examples=[[1, 2, 3]])


class ResilienceView(View):
    """The effects of losing everything that was named, at once and without warning."""

    lost_brokers: list[int] = Field(examples=[[3]])
    down_already: list[int] = Field(description="those of them that are fenced: their loss changes nothing")
    partitions: HarmView
    items: list[PartitionLossView] = Field(description="the worst first, then by topic and partition")
    next_page_token: str | None


def worst_loss_view(worst: WorstLoss | None) -> WorstLossView | None:
    return None if worst is None else WorstLossView(lose=worst.name, partitions=HarmView.of(worst.tally))


def loss_view(loss: PartitionLoss) -> PartitionLossView:
    after = loss.after
    return PartitionLossView.of(
        after,
        state=loss.condition.name.lower(),
        state_now=loss.before.name.lower(),
        stops_acks_all=loss.stops_acks_all,
        leader=None if after.leader == NO_LEADER else after.leader,
    )


def brokers_named(image: ClusterImage, terms: Sequence[str], pointer: str | None = None) -> tuple[int, ...]:
    """Return the ids of all brokers that the terms name, ascending. Raise ProblemError for a term that names
    no broker: it is more likely a typing error than a question. pointer: the list's place in the body; None:
    it is the parameter `lose`."""
    lost: dict[int, None] = {}
    unknown: list[FieldProblem] = []
    for place, term in enumerate(terms):
        kind, wanted = term.partition(":")[0], _canonical(term)
        found = [b for b, name in _named(image, kind).items() if name == wanted]
        if kind == "broker":  # one worker of a broker may be named, too
            found = found or [b for b in image.brokers if f"broker:{b}" == wanted]
        if not found:
            unknown.append(
                FieldProblem(
                    parameter="lose" if pointer is None else None,
                    pointer=None if pointer is None else f"{pointer}/{place}",
                    message=f"{term}: no registered broker is that",
                )
            )
        lost |= dict.fromkeys(found)
    if unknown:
        raise ProblemError("unknown_broker", unknown[0].message, errors=tuple(unknown))
    return tuple(sorted(lost))


def summary(image: ClusterImage) -> ResilienceSummary:
    """Return the summary. Hosts and racks are included only if brokers share them: otherwise the summary of
    brokers already covers them."""
    return ResilienceSummary(
        broker=worst_loss_view(worst_loss(image, _named(image, "broker"))),
        host=worst_loss_view(worst_loss(image, _shared(_named(image, "host")))),
        rack=worst_loss_view(worst_loss(image, _shared(_named(image, "rack")))),
    )


def _canonical(term: str) -> str:
    kind, _, name = term.partition(":")
    return f"broker:{int(name)}" if kind == "broker" else term


def _named(image: ClusterImage, kind: str) -> dict[int, str]:
    """Return, by broker, the term that names the broker, its host or its rack. Brokers without a rack have no
    rack term."""
    brokers = image.brokers.values()
    match kind:
        case "broker":
            return {b.broker_id: f"broker:{b.owner_id}" for b in brokers}
        case "host":
            return {broker_id: f"host:{host}" for broker_id, host in hosts_of(brokers).items()}
        case _:
            return {b.broker_id: f"rack:{b.rack}" for b in brokers if b.rack is not None}


def _shared(named: Mapping[int, str]) -> Mapping[int, str]:
    return named if len(set(named.values())) < len(named) else {}


@router.get(
    "/clusters/{cluster}/resilience",
    operation_id="getResilience",
    summary="Ask what a loss would do",
    response_model=ResilienceView,
    responses={200: {"headers": AGE_HEADERS}, **problems("cluster_not_found", "unknown_broker")},
)
async def get_resilience(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    terms: Annotated[
        list[BrokersTerm],
        Query(
            alias="lose",
            min_length=1,
            max_length=LOSE_TERMS_MAX,
            description="what is lost; repeat it for what is lost together",
            examples=[["broker:3"]],
        ),
    ],
    state: Annotated[
        ConditionWord | None, Query(description="list only partitions that would be in this state")
    ] = None,
    paging: Paged,
) -> Response:
    """Show which partitions would go offline, stop accepting acks=all, or continue with fewer replicas if
    these brokers, hosts or racks were lost now, all at once. The election rules themselves decide this, and
    nothing is changed."""
    view = services.engine.cluster(cluster)
    image = view.image
    lost = brokers_named(image, terms)
    losses = lose(image, lost)
    chosen = [loss for loss in losses if state is None or loss.condition.name.lower() == state]
    page, token = paging.page_of(chosen, _position, name="resilience", kinds=(int, str, int))
    body = ResilienceView(
        lost_brokers=list(lost),
        down_already=[b for b in lost if image.brokers[b].fenced],
        partitions=HarmView.of(tally(losses)),
        items=[loss_view(loss) for loss in page],
        next_page_token=token,
    )
    return show(request, body, view=view)


def _position(loss: PartitionLoss) -> tuple[int, str, int]:
    return (Condition.LEADERLESS - loss.condition, loss.after.topic, loss.after.partition)
