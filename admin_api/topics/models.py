"""The REST models of topics."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from admin_api.clusters.models import Configs
from admin_api.names import BrokerId, ClusterName, Reason, TopicName
from admin_api.views import LastChange, RequestBody, View

PARTITIONS_PER_REQUEST_MAX = 100_000
REPLICATION_FACTOR_MAX = 1_000

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
    partitions: Annotated[int, Field(ge=1, le=PARTITIONS_PER_REQUEST_MAX)] | None = Field(
        default=None, description="default: the cluster's num.partitions"
    )
    replication_factor: Annotated[int, Field(ge=1, le=REPLICATION_FACTOR_MAX)] | None = Field(
        default=None, description="default: the cluster's default.replication.factor"
    )
    assignments: (
        Annotated[
            list[Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICATION_FACTOR_MAX)]],
            Field(min_length=1, max_length=PARTITIONS_PER_REQUEST_MAX),
        ]
        | None
    ) = Field(
        default=None,
        description="brokers of each partition, the preferred leader first; instead of our placement",
    )
    configs: Configs = Field(default_factory=dict)
    if_not_exists: bool = Field(default=False, description="answer with the topic that exists instead of 409")
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
    min_insync_replicas: int = Field(description="the largest of its partitions'", examples=[2])
    tolerates_broker_losses: int = Field(
        description="brokers that may be lost, from all in sync, before some partition refuses acks=all",
        examples=[1],
    )
    online_partitions: int = Field(examples=[12])
    under_replicated_partitions: int = Field(examples=[0])
    under_min_isr_partitions: int = Field(examples=[0])
    configs: dict[str, str] = Field(description="overrides of the cluster's and our defaults")
    last_change: LastChange | None


class TopicList(View):
    items: list[TopicView]
    next_page_token: str | None


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
