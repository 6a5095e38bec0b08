"""The REST models of topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from admin_api.clusters.models import Configs
from admin_api.http.models import (
    ClusterName,
    LagView,
    LastChange,
    Reason,
    ReplicaIds,
    ReplicationFactor,
    RequestBody,
    TopicName,
    View,
    ViewList,
)
from admin_api.http.problems import FieldProblem, ProblemError
from admin_api.plans.models import CarryOut
from controller.face.settings import ControllerOptions

PARTITIONS_PER_TOPIC_MAX = ControllerOptions().partitions_per_topic_max
SERVING_WAIT_MS_MAX = 60_000
"""For how long a creation's answer may be asked to wait."""
READERS_SHOWN_MAX = 1_000
PartitionCount = Annotated[int, Field(ge=1, le=PARTITIONS_PER_TOPIC_MAX)]
Assignments = Annotated[list[ReplicaIds], Field(min_length=1, max_length=PARTITIONS_PER_TOPIC_MAX)]

_EXAMPLE: JsonDict = {
    "name": "orders",
    "cluster": "prod",
    "partitions": 12,
    "replication_factor": 3,
    "configs": {"min.insync.replicas": "2"},
    "reason": "the shop opens on Monday",
}


class NewTopic(RequestBody):
    """A topic to be created."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: TopicName
    cluster: ClusterName | None = Field(
        default=None, description="may be left out when there is only one, or in the path"
    )
    partitions: PartitionCount | None = Field(
        default=None, description="default: the cluster's num.partitions"
    )
    replication_factor: ReplicationFactor | None = Field(
        default=None, description="default: the cluster's default.replication.factor"
    )
    assignments: Assignments | None = Field(
        default=None,
        description="brokers of each partition, the preferred leader first; instead of our placement",
    )
    configs: Configs = Field(default_factory=dict)
    if_not_exists: bool = Field(default=False, description="answer with the topic that exists instead of 409")
    wait_ms: int = Field(
        default=0,
        ge=0,
        le=SERVING_WAIT_MS_MAX,
        description="answer when the partitions lead and every live broker knows them, or 504 `not_in_force`"
        " after so long: the topic is stored then, and goes on being made. 0: answer when it is stored",
    )
    reason: Reason | None = None


class TopicView(View):
    """The summary of a topic."""

    name: str = Field(examples=["orders"])
    topic_id: str = Field(
        description="names this topic for good: a later one of the same name has another",
        examples=["Zk1lV0pCTEq4nY6mXw2v3A"],
    )
    cluster: str = Field(examples=["prod"])
    state: str = Field(description="`online` or `deleting`", examples=["online"])
    partitions: int = Field(examples=[12])
    replication_factor: int = Field(examples=[3])
    min_insync_replicas: int = Field(
        description="what applies, never more than there are replicas: the largest of its partitions'",
        examples=[2],
    )
    configured_min_insync_replicas: int | None = Field(
        description="what the topic sets, or else the cluster; null: neither, so a majority of the replicas",
        examples=[2],
    )
    tolerates_broker_losses: int = Field(
        description="brokers that may be lost, from all in sync, before some partition refuses acks=all",
        examples=[1],
    )
    online_partitions: int = Field(examples=[12])
    under_replicated_partitions: int = Field(examples=[0])
    under_min_isr_partitions: int = Field(examples=[0])
    configs: dict[str, str] = Field(description="overrides of the cluster's and our defaults")
    size_bytes: int | None = Field(
        description="of its leaders' logs, one copy, as far as they have told; null: none has",
        examples=[402_653_184],
    )
    bytes_in_per_s: int | None = Field(
        description="from producers, an average of about the last minute; null: not known, as on a standby",
        examples=[52_000],
    )
    bytes_out_per_s: int | None = Field(
        description="to consumers, without copies between brokers; as above", examples=[104_000]
    )
    groups: int | None = Field(
        description="client groups with offsets of it; null: not known, as on a standby", examples=[2]
    )
    warnings: list[str] = Field(
        description="what its settings mean for writes with acks=all and may surprise"
    )
    last_change: LastChange | None


class TopicList(ViewList[TopicView]): ...


class TopicReader(LagView):
    """A client group that has offsets of a topic. Its lag is that in this topic."""

    group_id: str = Field(examples=["billing"])
    members_total: int = Field(description="of the group, also those that read other topics", examples=[3])


class TopicDetail(TopicView):
    """A topic with the groups that read it."""

    readers: list[TopicReader] = Field(
        description=f"at most {READERS_SHOWN_MAX}, those that are farthest behind first; none on a standby"
    )


class PlacedPartition(View):
    partition: int
    replicas: list[int] = Field(description="the preferred leader first")


class TopicPlan(View):
    """The topic that would be created, and its placement."""

    topic: TopicView
    assignments: list[PlacedPartition]


class TopicDeletionPlan(View):
    """The topic that would be deleted."""

    topic: TopicView
    waits_for_brokers: list[int] = Field(description="each confirms that its replicas are gone")
    kept_until: str | None = Field(
        description="until then it can be restored with its records; null: not at all"
    )


#: Fields of the body that limit moves of replicas. They apply only to a change of the replication factor.
_OF_MOVES = ("throttle_bytes_per_s", "max_concurrent_moves", "not_before", "window")


class ChangeTopic(CarryOut):
    """More partitions for a topic, or more or fewer replicas for each of them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"partitions": 24, "reason": "twice as many consumers"},
                {
                    "replication_factor": 3,
                    "throttle_bytes_per_s": 50_000_000,
                    "reason": "orders must survive any one broker",
                },
            ]
        }
    )

    partitions: PartitionCount | None = Field(
        default=None, description="how many it shall have; never fewer than it has"
    )
    assignments: Assignments | None = Field(
        default=None,
        description="brokers of each new partition, the preferred leader first; instead of our placement",
    )
    replication_factor: ReplicationFactor | None = Field(
        default=None, description="replicas that each partition shall have; instead of `partitions`"
    )


def check_one_change(body: ChangeTopic) -> None:
    """Raise invalid_request unless the request is exactly one change and has no field that would be
    ignored."""
    if (body.partitions is None) == (body.replication_factor is None):
        field = FieldProblem(
            pointer="/replication_factor" if body.partitions is not None else "/partitions",
            message="name partitions or replication_factor, one of them",
        )
        raise ProblemError("invalid_request", field.message, errors=(field,))
    idle = ("assignments",) if body.partitions is None else _OF_MOVES
    given = [name for name in idle if name in body.model_fields_set]
    if given:
        field = FieldProblem(pointer=f"/{given[0]}", message="does not belong to this change")
        raise ProblemError("invalid_request", f"{given[0]} {field.message}", errors=(field,))
