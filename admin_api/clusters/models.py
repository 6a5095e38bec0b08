"""The REST models of clusters."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from admin_api.clusters.resilience import ResilienceSummary
from admin_api.clusters.skew import SkewSummary
from admin_api.http.models import (
    ClusterName,
    LastChange,
    Reason,
    RequestBody,
    SilenceMark,
    View,
    ViewList,
)

ConfigName = Annotated[str, StringConstraints(min_length=1, max_length=249)]
ConfigValue = Annotated[str, StringConstraints(max_length=65_536)]
Configs = Annotated[
    dict[ConfigName, ConfigValue],
    Field(
        max_length=100,
        description="Kafka's dotted names; values are strings, as Kafka's tools send them",
        examples=[{"min.insync.replicas": "2"}],
    ),
]


class NewCluster(RequestBody):
    """A cluster to be created. It is empty until brokers are added."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "prod",
                    "configs": {"default.replication.factor": "3"},
                    "reason": "the first production cluster",
                }
            ]
        }
    )

    name: ClusterName
    configs: Configs = Field(default_factory=dict)
    reason: Reason | None = None


class BrokerCounts(View):
    active: int
    fenced: int
    shutting_down: int
    waiting: int = Field(
        description="registered, not admitted: add them with POST /clusters/{cluster}/brokers"
    )


class PartitionCounts(View):
    total: int
    leaderless: int
    under_min_isr: int = Field(description="refuse acks=all")
    under_replicated: int
    leader_not_preferred: int


class ControllerSummary(View):
    active_url: str | None
    epoch: int


class ClusterOverview(View):
    """A cluster at a glance."""

    name: str = Field(examples=["prod"])
    cluster_id: str = Field(
        description="marks every log directory of the cluster", examples=["Zk1lV0pCTEq4nY6mXw2v3A"]
    )
    health: str = Field(
        description=(
            "`ok`; `degraded`: some partition has too few replicas in sync, a broker is down, or another "
            "alarm is up that is not about client groups; `critical`: some partition has no leader or "
            "refuses acks=all, no coordinator serves groups, or a certificate has ended; "
            "`metadata_went_back`: ZooKeeper lost what it once held, and nothing is decided: see the alarms; "
            "`unknown`: of a standby that sees nothing wrong, for only the active controller hears of alarms"
        ),
        examples=["ok"],
    )
    configs: dict[str, str]
    protected: bool = Field(
        description="changes take a reason and an If-Match, plans a second person's approval"
    )
    brokers: BrokerCounts
    topics: int
    partitions: PartitionCounts
    controller: ControllerSummary
    resilience: ResilienceSummary | None = Field(
        description="what the worst loss of one broker, host or rack would do now; null in lists"
    )
    skew: SkewSummary | None = Field(
        description="how unevenly replicas, leaders and bytes lie on brokers; null in lists"
    )
    last_change: LastChange | None


class ClusterList(ViewList[ClusterOverview]): ...


GoneBrokers = Annotated[
    list[int],
    Field(
        default_factory=list,
        max_length=1_000,
        description="brokers that will never come back: what they alone held is lost",
    ),
]


class MetadataRecovery(RequestBody):
    """Options for recovering a cluster whose ZooKeeper went back to an older state."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "ZooKeeper restored from last night's backup"}]}
    )

    gone_brokers: GoneBrokers
    reason: Reason | None = None


class UndecidedPartition(View):
    topic_id: str
    partition: int


class RecoveredMetadata(View):
    """The metadata that was rebuilt, or would be."""

    brokers: list[int] = Field(description="those that reported what they hold")
    topics_brought_back: list[str] = Field(description="known to brokers, and not to ZooKeeper any more")
    partitions: int
    undecided: list[UndecidedPartition] = Field(
        description="no replica provably holds all of these: they wait for an unclean election"
    )
    dry_run: bool


class SetAsideLogView(View):
    """A log in quarantine on a broker's disk. Unknown values are null."""

    broker_id: int
    directory: str = Field(description="its name in `quarantine/` of the broker's data directory")
    topic: str
    topic_id: str
    partition: int
    leader_epoch: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    size_bytes: int
    why: str
    since: str | None
    can_come_back: bool = Field(description="it is whole, and its topic is not known")


class SetAsideLogList(ViewList[SetAsideLogView]): ...


class TopicsToBringBack(RequestBody):
    """The topics to bring back from logs that brokers have set aside."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"reason": "made after the backup, and set aside by broker 3"}]}
    )

    topic_ids: list[Annotated[str, StringConstraints(max_length=64)]] = Field(
        default_factory=list,
        max_length=1_000,
        description="left out: all that are set aside and not known",
    )
    gone_brokers: GoneBrokers
    reason: Reason | None = None


class BroughtBackPartition(View):
    topic: str
    topic_id: str
    partition: int
    replicas: list[int]
    whole_replica: int | None = Field(
        description="it provably holds every acknowledged record; null: none; an operator must choose"
    )


class BroughtBackTopics(View):
    """The topics that were brought back, or would be. Topics that the cluster already has are not listed."""

    topics: list[str]
    partitions: list[BroughtBackPartition]
    undecided: list[UndecidedPartition] = Field(
        description="no replica provably holds all of these: they wait for an unclean election"
    )
    dry_run: bool


class AlarmView(View):
    """Something an operator should know now. Codes are stable."""

    code: str = Field(examples=["partition_leaderless"])
    topic: str | None
    topic_id: str | None
    partition: int | None
    broker_id: int | None
    group_id: str | None
    transactional_id: str | None
    producer_id: int | None
    detail: str
    follows: dict[str, int] = Field(
        description="how many alarms of which codes follow from this one; they are not listed",
        examples=[{"storage_error": 291}],
    )
    silenced: SilenceMark | None = Field(
        default=None, description="a silence that keeps it from webhooks; null: none"
    )


class AlarmList(ViewList[AlarmView]):
    """A page of the alarms, and how many there are of each code, over all pages."""

    counts: dict[str, int] = Field(
        description="alarms by code, the most severe first", examples=[{"partition_leaderless": 2}]
    )
