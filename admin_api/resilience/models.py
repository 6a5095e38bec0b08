"""The REST models of losses."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from admin_api.views import View
from controller.contract.partition_state import NO_LEADER
from controller.core.resilience import PartitionLoss, Tally, WorstLoss

LoseTerm = Annotated[
    str,
    StringConstraints(pattern=r"^(broker:[0-9]{1,10}|host:.{1,255}|rack:.{1,255})$"),
    Field(description="what is lost: broker:<id>, host:<name> or rack:<name>", examples=["broker:3"]),
]
ConditionWord = Literal["leaderless", "recovering", "under_min_isr", "under_replicated"]


class TallyView(View):
    """The partitions that the loss makes worse, by their state after it. Each is counted once, except in
    `stops_acks_all`."""

    leaderless: int = Field(description="go offline: nobody in sync is left to lead")
    recovering: int = Field(
        description="get a leader uncleanly, as their topic allows: acknowledged records may be lost"
    )
    under_min_isr: int = Field(description="refuse acks=all, and go on being read")
    under_replicated: int = Field(
        description="go on, with fewer replicas in sync than they are meant to have"
    )
    stops_acks_all: int = Field(
        description="take acks=all now and then would not: those offline and those under the minimum"
    )


class WorstLossView(View):
    """The most harmful loss of its kind."""

    lose: str = Field(examples=["broker:3"])
    partitions: TallyView


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
    partitions: TallyView
    items: list[PartitionLossView] = Field(description="the worst first, then by topic and partition")
    next_page_token: str | None


def tally_view(found: Tally) -> TallyView:
    return TallyView(
        leaderless=found.leaderless,
        recovering=found.recovering,
        under_min_isr=found.under_min_isr,
        under_replicated=found.under_replicated,
        stops_acks_all=found.stops_acks_all,
    )


def worst_loss_view(worst: WorstLoss | None) -> WorstLossView | None:
    return None if worst is None else WorstLossView(lose=worst.name, partitions=tally_view(worst.tally))


def loss_view(loss: PartitionLoss) -> PartitionLossView:
    after = loss.after
    return PartitionLossView(
        topic=after.topic,
        topic_id=after.topic_id,
        partition=after.partition,
        state=loss.condition.name.lower(),
        state_now=loss.before.name.lower(),
        stops_acks_all=loss.stops_acks_all,
        leader=None if after.leader == NO_LEADER else after.leader,
        isr=list(after.isr),
        min_insync_replicas=after.min_insync_replicas,
        replicas=list(after.replicas),
    )
