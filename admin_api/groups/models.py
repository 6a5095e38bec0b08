"""The REST models of client groups."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from admin_api.http.models import (
    INT64_MAX,
    BodyMoment,
    LagView,
    Reason,
    RequestBody,
    TopicName,
    View,
    ViewList,
)
from admin_api.partitions.models import NamedPartition

TOPICS_PER_RESET_MAX = 1_000
PARTITIONS_PER_RESET_MAX = 10_000
#: The most members and partitions of a group that one answer shows.
MEMBERS_SHOWN_MAX = 1_000
PARTITIONS_SHOWN_MAX = 10_000


class GroupPhase(StrEnum):
    """Kafka's states of a group, by which a list may be narrowed."""

    STABLE = "stable"
    EMPTY = "empty"
    PREPARING_REBALANCE = "preparing_rebalance"
    COMPLETING_REBALANCE = "completing_rebalance"
    ASSIGNING = "assigning"
    RECONCILING = "reconciling"
    UNKNOWN = "unknown"


class GroupSummary(LagView):
    """A consumer group."""

    group_id: str = Field(examples=["billing"])
    state: str = Field(
        description="`stable`, `preparing_rebalance`, `completing_rebalance`; of the protocol of KIP-848 "
        "`stable`, `assigning`, `reconciling`; `empty`: no members, but offsets",
        examples=["stable"],
    )
    protocol_type: str = Field(
        description="`consumer`; empty where a client without a membership stores offsets",
        examples=["consumer"],
    )
    members_total: int | None = Field(
        description="null: its coordinator has not told this controller", examples=[3]
    )


class GroupList(ViewList[GroupSummary]):
    unanswered: list[str] = Field(
        description="why nodes did not answer; groups that they coordinate are missing from the list"
    )


class AssignedPartitions(View):
    topic: str
    partitions: list[int]


class GroupMemberView(View):
    member_id: str
    instance_id: str | None = Field(description="of a static member")
    client_id: str
    host: str = Field(examples=["/10.0.0.12"])
    assigned: list[AssignedPartitions]


class GroupPartitionView(View):
    """A group's progress in a partition. Unknown values are null."""

    topic: str
    partition: int
    member_id: str | None = Field(description="who reads it now")
    committed_offset: int | None = Field(description="of the record that is read next; null: none")
    leader_epoch: int | None = Field(description="committed with the offset")
    log_end_offset: int | None = Field(description="null: no leader answers")
    lag: int | None = Field(
        description="records from the committed offset to the log's end, as both are at this moment"
    )
    lag_ms: int | None = Field(
        description="from the record that is read next to the newest, by their timestamps; told of the 100 "
        "partitions with the most records to read, where leaders answer at once"
    )
    next_record_at: str | None
    newest_record_at: str | None


class RebalanceView(View):
    """The last rebalance of a group: it gives all partitions to its members again."""

    began_at: str | None = Field(description="null: before the present coordinator knew the group")
    ended_at: str | None = Field(description="null: it is running")
    reason: str | None = Field(
        description="what began it; null: not known, because the coordinator took the group over since",
        examples=["member app-1 joined"],
    )


class GroupView(GroupSummary):
    """A group with its members and how far it has read."""

    assignor: str = Field(description="empty while there is none", examples=["range"])
    coordinator_id: int = Field(examples=[1001])
    coordinator_endpoint: str = Field(examples=["desk1:9092"])
    lag_by_offsets: int | None = Field(
        description="the sum of the partitions' lags, as they are at this moment: between two commits it "
        "swings with what is produced; null: of one it is not known",
        examples=[250],
    )
    last_rebalance: RebalanceView | None = Field(
        description="as its coordinator told the active controller; null: not told, since this controller "
        "became active"
    )
    partitions_total: int
    members: list[GroupMemberView] = Field(description=f"at most {MEMBERS_SHOWN_MAX}")
    partitions: list[GroupPartitionView] = Field(
        description=f"assigned or with a committed offset; at most {PARTITIONS_SHOWN_MAX}"
    )


class ResetToEarliest(RequestBody):
    """To the first record that there is."""

    kind: Literal["earliest"]


class ResetToLatest(RequestBody):
    """To the end: records that are there now are not read."""

    kind: Literal["latest"]


class ResetToOffset(RequestBody):
    """To one offset, within each log."""

    kind: Literal["offset"]
    offset: Annotated[int, Field(ge=0, le=INT64_MAX)]


class ResetToTime(RequestBody):
    """To the first record at or after a time; to the end where there is none."""

    kind: Literal["time"]
    time: BodyMoment = Field(examples=["2026-11-21T09:30:00Z"])


class ResetByShift(RequestBody):
    """Forward from what is committed, or, below 0, back; within each log."""

    kind: Literal["shift"]
    by: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)]


ResetTarget = Annotated[
    ResetToEarliest | ResetToLatest | ResetToOffset | ResetToTime | ResetByShift, Field(discriminator="kind")
]


class ResetOffsets(RequestBody):
    """The place where a group goes on reading: by default in all partitions that it has offsets of."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"to": {"kind": "earliest"}, "topics": ["orders"], "reason": "the index is built again"},
                {"to": {"kind": "time", "time": "2026-11-21T09:30:00Z"}},
                {"to": {"kind": "shift", "by": -1}, "partitions": [{"topic": "orders", "partition": 0}]},
            ]
        }
    )

    to: ResetTarget
    topics: Annotated[list[TopicName], Field(min_length=1, max_length=TOPICS_PER_RESET_MAX)] | None = Field(
        default=None, description="all partitions of these topics"
    )
    partitions: (
        Annotated[list[NamedPartition], Field(min_length=1, max_length=PARTITIONS_PER_RESET_MAX)] | None
    ) = Field(default=None, description="exactly these; with topics: these, too")
    reason: Reason | None = None


class OffsetReset(View):
    topic: str
    partition: int
    before: int | None = Field(description="the committed offset; null: there was none")
    after: int
    log_start_offset: int
    log_end_offset: int


class OffsetsReset(View):
    """The offsets before and after."""

    group_id: str
    changed: bool = Field(description="false of a dry run")
    items: list[OffsetReset]
