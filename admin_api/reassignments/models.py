"""The REST models of reassignments."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from admin_api.http.models import Reason, ReplicaIds, RequestBody, View, ViewList
from admin_api.operations.models import EtaView, Throttle
from admin_api.partitions.models import PartitionView


class AssignReplicas(RequestBody):
    """The brokers that shall have the partition's replicas."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"replicas": [4, 2, 3], "reason": "store1 is to be replaced"}]}
    )

    replicas: ReplicaIds = Field(
        description="the preferred leader first; as many as the partition shall have"
    )
    throttle_bytes_per_s: Throttle | None = Field(
        default=None,
        description="how much each broker may copy for it; it ends with the move. Default: unthrottled",
    )
    reason: Reason | None = None


class TargetView(View):
    """One target replica, as the partition's leader last reported it."""

    broker_id: int
    is_learner: bool = Field(description="it had no replica before")
    in_sync: bool
    log_end_offset: int | None = Field(description="null: not heard of in this leader epoch, or it leads")
    lag_records: int | None = Field(description="null: not heard of in this leader epoch, or it leads")
    copied_bytes: int | None = Field(description="of a learner: of the leader's log as it is now")
    remaining_bytes: int | None = Field(description="of a learner: what it lacks of that")
    rate_bytes_per_s: int | None = Field(description="of a learner: copied lately")
    eta: EtaView | None = Field(description="of a learner; null: the gap is not known to close")
    throttle_bytes_per_s: int | None = Field(description="the lowest rate that bounds it; null: none does")


class BlockedReasonView(View):
    """The reason why a reassignment can't continue by itself."""

    code: str = Field(
        description=(
            "`leaderless`, `leader_recovering`, `target_offline`, `no_successor`, `no_progress`: a target "
            "that lacks records has not advanced for a minute, or `throttled_below_produce_rate`"
        ),
        examples=["target_offline"],
    )
    detail: str


class ReassignmentView(View):
    """One partition on its way to other brokers. It has arrived when all of its targets are in sync."""

    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    partition_epoch: int
    original_replicas: list[int] = Field(description="what a cancellation brings back", examples=[[1, 2, 3]])
    target_replicas: list[int] = Field(examples=[[4, 2, 3]])
    adding_replicas: list[int] = Field(examples=[[4]])
    removing_replicas: list[int] = Field(examples=[[1]])
    targets: list[TargetView]
    targets_in_sync: int
    copied_bytes: int | None = Field(description="by its learners, all together")
    remaining_bytes: int | None = Field(description="what they lack")
    size_bytes: int | None = Field(
        description="of the leader's log, which each learner copies; null: not reported yet"
    )
    blocked: BlockedReasonView | None = Field(description="null while it gets on")
    operation_id: str | None = Field(description="the operation that follows it")


class ReassignmentList(ViewList[ReassignmentView]): ...


class ReassignmentPlan(View):
    """The reassignment that an assignment would begin, or the result of a cancellation."""

    partition: PartitionView = Field(description="right after the request")
    bytes_to_copy: int | None = Field(
        description="the leader's log, for each broker that has no replica yet; null: not reported",
        examples=[402_653_184],
    )
