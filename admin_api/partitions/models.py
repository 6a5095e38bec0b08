"""The REST models of partitions, and of the loss of an unclean election."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from admin_api.http.models import (
    INT32_MAX,
    INT64_MAX,
    BrokerId,
    LastChange,
    PartitionNumber,
    Reason,
    RequestBody,
    TopicName,
    View,
    ViewList,
)
from admin_api.operations.models import RefusedView


class HeldElsewhereView(View):
    """Records that one replica holds and would have to truncate if another replica led."""

    broker_id: int
    first_offset: int
    next_offset: int = Field(description="the first offset after them")
    records: int
    committed: int = Field(description="of them, those known to be acknowledged with acks=all")
    is_exact: bool = Field(
        description="false: there may be fewer; the histories were too long to report in full"
    )


class CandidateLossView(View):
    """A replica as the possible leader."""

    broker_id: int
    standing: str = Field(
        description="`in_sync`, `eligible`, `excluded`, `learner`, `behind`: as in `why`", examples=["behind"]
    )
    broker_status: str = Field(examples=["active"])
    may_lead: bool = Field(description="it is live: an election can choose it now")
    last_leader_epoch: int | None = Field(description="in which its last record was written")
    log_start_offset: int | None
    log_end_offset: int | None = Field(description="null: it has not reported the end of its log")
    high_watermark: int | None = Field(description="as it knows it: what lies below is committed")
    lost_records: int | None = Field(description="null: not known", examples=[30])
    lost_committed: int | None = Field(
        description="of them, those known to be acknowledged with acks=all", examples=[10]
    )
    held_elsewhere: list[HeldElsewhereView] = Field(
        description="what other replicas hold and would set aside"
    )


class LossPreviewView(View):
    """A partition without a leader, and the loss with each possible leader, according to its replicas'
    reports."""

    topic: str = Field(examples=["orders"])
    partition: int = Field(examples=[0])
    partition_epoch: int = Field(description="for the election's body, so that it is about this very state")
    unheard: list[int] = Field(
        description="replicas that have not reported: they may hold more than is counted"
    )
    last_leader: int | None
    last_log_end_offset: int | None = Field(
        description="by the last leader's last report; null: none is known"
    )
    last_high_watermark: int | None
    known_committed: int = Field(
        description="records below it are known to be committed, by all that controllers have heard"
    )
    way_out: str | None = Field(
        description="which broker to bring back, or which log to choose, the way that loses least first"
    )
    least: int | None = Field(
        description="who may lead and loses least; null: no live replica's log is known"
    )
    candidates: list[CandidateLossView] = Field(description="in assignment order")


class FollowerView(View):
    """A follower as its leader last reported it."""

    broker_id: int
    in_sync: bool
    log_end_offset: int | None = Field(description="null: not heard of in this leader epoch")
    lag_records: int = Field(description="-1: not heard of in this leader epoch")
    lag_ms: int = Field(description="since it last had everything")


class PartitionView(View):
    """A partition: its state as the controller decided it, and its log as its leader last reported it."""

    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    state: str = Field(
        description=(
            "`online`; `creating`: its leader has not reported its log yet; `under_replicated`: "
            "not every replica is in sync; `under_min_isr`: refuses acks=all; `recovering`: its leader was "
            "chosen uncleanly; `leaderless`: blocked, see `why`"
        ),
        examples=["online"],
    )
    leader: int | None = Field(examples=[1])
    leader_epoch: int
    partition_epoch: int
    preferred_leader: int
    replicas: list[int] = Field(examples=[[1, 2, 3]])
    isr: list[int] = Field(description="replicas in sync: any of them may lead", examples=[[1, 2, 3]])
    elr: list[int] = Field(description="left the ISR under its minimum and still hold every committed record")
    adding_replicas: list[int]
    removing_replicas: list[int]
    min_insync_replicas: int
    last_known_leader: int | None
    last_known_elr: list[int] = Field(description="excluded because their logs may lack something")
    unclean_leader_epoch: int | None = Field(description="the latest leader epoch that began uncleanly")
    log_start_offset: int | None
    log_end_offset: int | None = Field(description="next to be written")
    high_watermark: int | None = Field(description="first offset that is not committed")
    size_bytes: int | None
    followers: list[FollowerView]
    why: str | None = Field(description="when it is blocked: each surviving replica, and why it can't lead")
    last_change: LastChange | None


class PartitionList(ViewList[PartitionView]): ...


class ElectPreferredLeader(RequestBody):
    """An election that gives the leadership back to the partition's first replica."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"election": "preferred", "reason": "after maintenance of store1"}]}
    )

    election: Literal["preferred"]
    reason: Reason | None = None


class ElectUncleanLeader(RequestBody):
    """An election of a leader for a partition that has none. It may lose acknowledged records: see the
    partition's loss-preview."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "election": "unclean",
                    "broker_id": 2,
                    "partition_epoch": 17,
                    "lost_records_max": 30,
                    "reason": "brokers 1 and 3 are lost for good",
                }
            ]
        }
    )

    election: Literal["unclean"]
    broker_id: BrokerId = Field(description="who shall lead")
    partition_epoch: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(
        description="the state that was looked at; refused when it has changed"
    )
    lost_records_max: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = Field(
        default=None,
        description=(
            "refused when more would be lost, as far as replicas told, or while a live one has not told; "
            "null: no limit"
        ),
    )
    reason: Reason


def _which(value: Any) -> str:
    election = value.get("election") if isinstance(value, dict) else getattr(value, "election", None)
    return "ElectUncleanLeader" if election == "unclean" else "ElectPreferredLeader"


ElectLeader = ElectPreferredLeader | ElectUncleanLeader
ElectLeaderBody = Annotated[
    Annotated[ElectPreferredLeader, Tag("ElectPreferredLeader")]
    | Annotated[ElectUncleanLeader, Tag("ElectUncleanLeader")],
    Discriminator(_which),
]


class NamedPartition(RequestBody):
    topic: TopicName
    partition: PartitionNumber


class RestorePreferredLeaders(RequestBody):
    """The partitions that get their preferred leaders back. If none is named: all that are led by another
    replica."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"topics": ["orders"], "reason": "after maintenance of store1"}]}
    )

    topics: Annotated[list[TopicName], Field(min_length=1, max_length=1_000)] | None = Field(
        default=None, description="of these topics, all that lack their preferred leader"
    )
    partitions: Annotated[list[NamedPartition], Field(min_length=1, max_length=10_000)] | None = Field(
        default=None, description="exactly these; instead of topics"
    )
    reason: Reason | None = None


class ElectedView(View):
    topic: str
    partition: int
    leader: int
    leader_epoch: int


class PreferredElectionPlan(View):
    """The outcome that the elections would have, each alone; the first thousand of either list."""

    elected: list[ElectedView]
    refused: list[RefusedView]


class ElectionPlan(View):
    """The outcome that the election would have. loss: of an unclean election. Null: nothing has to be
    lost."""

    partition: PartitionView
    loss: LossPreviewView | None
