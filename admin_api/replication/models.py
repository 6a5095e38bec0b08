"""The REST models of a cluster's replication."""

from __future__ import annotations

from pydantic import Field

from admin_api.views import View


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
    lag_ms_max: int | None = Field(
        description="longest time since one of them last had everything", examples=[120]
    )
    farthest_topic: str | None = Field(description="of the replica with `lag_ms_max`", examples=["orders"])
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
