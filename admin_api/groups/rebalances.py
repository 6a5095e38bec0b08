"""The rebalances of a group, as its coordinator told the active controller."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from admin_api.http.models import View, optional_timestamp
from springtide.contract.groups import (
    AwaitedStep,
    GroupRebalance,
    MovedPartition,
    MovedPartitions,
    RebalanceCause,
)


class RebalanceProgress(StrEnum):
    UNDER_WAY = "under_way"
    DONE = "done"
    SUPERSEDED = "superseded"


class RebalanceCauseView(View):
    """Why a group is rebalanced."""

    kind: str = Field(
        description="`joined`, `returned`, `left`, `silent`, `kept_partitions`, `not_joined`, `not_synced`, "
        "`missed_rebalance`, `subscription`, `assignor`, `rejoined`, `topics`, `not_written`, `too_large`, "
        "`converted`; `not_known`: a coordinator took the group over meanwhile",
        examples=["silent"],
    )
    text: str = Field(
        examples=["member app-1 sent no heartbeat for 45 s, its session; its last came from host /10.0.0.12"]
    )
    at: str | None = Field(description="null: not known")
    member_id: str | None = Field(description="who did it; null: no member did")

    @classmethod
    def of_told(cls, told: RebalanceCause) -> RebalanceCauseView:
        return cls(
            kind=told.kind,
            text=told.text,
            at=_at(told.at_ms),
            member_id=told.member_id or None,
        )


class MovedPartitionView(View):
    topic: str
    partition: int
    unowned_ms: int | None = Field(
        description="for how long no member consumed it; null: it had no member before"
    )

    @classmethod
    def of_told(cls, told: MovedPartition) -> MovedPartitionView:
        return cls(topic=told.topic, partition=told.partition, unowned_ms=_known(told.unowned_ms))


class MovedPartitionsView(View):
    """Partitions that went from one member to another."""

    from_member_id: str | None = Field(description="null: from none")
    to_member_id: str
    count: int
    unowned_ms_max: int | None = Field(description="the longest of them; null: they had no member before")
    partitions: list[MovedPartitionView] = Field(description="the first ones of `count`")

    @classmethod
    def of_told(cls, told: MovedPartitions) -> MovedPartitionsView:
        return cls(
            from_member_id=told.before or None,
            to_member_id=told.after,
            count=told.count,
            unowned_ms_max=_known(told.unowned_ms_max),
            partitions=[MovedPartitionView.of_told(one) for one in told.partitions],
        )


class AwaitedView(View):
    """Whom a rebalance waits for."""

    member_id: str | None = Field(description="null: for no member")
    since: str
    what: str = Field(examples=["to give up 3 partitions, from host /10.0.0.12"])

    @classmethod
    def of_told(cls, told: AwaitedStep) -> AwaitedView:
        return cls(
            member_id=told.member_id or None, since=optional_timestamp(told.since_ms) or "", what=told.what
        )


class RebalanceView(View):
    """A rebalance of a group: what made it necessary, and which partitions it gave to other members."""

    began_at: str | None = Field(description="null: before the present coordinator knew the group")
    ended_at: str | None = Field(
        description="when each member had its partitions, or the next rebalance began; null: it is running"
    )
    reason: str | None = Field(
        description="what began it; null: not known, because the coordinator took the group over since",
        examples=["member app-1 joined from host /10.0.0.12"],
    )
    took_ms: int | None = Field(description="null: it is running, or it is not known when it began")
    state: RebalanceProgress = Field(
        description="`superseded`: the next one began before each member had its partitions"
    )
    generation_id: int = Field(
        description="the generation that it leads to; of a group of the `consumer` protocol, the epoch",
        examples=[12],
    )
    assigned_at: str | None = Field(description="when the assignments were made; null: not yet, or not known")
    assignor: str = Field(description="empty: not known", examples=["uniform"])
    causes: list[RebalanceCauseView] = Field(
        description="all causes that came before the assignments were made; the first ones of `causes_total`"
    )
    causes_total: int
    partitions_to_move: int | None = Field(
        description="that the assignments give to another member than has them; null: not known"
    )
    partitions_moved: int | None = Field(description="that are with that member by now; null: not known")
    moves: list[MovedPartitionsView] = Field(description="from whom to whom; the first ones")
    partitions_paused: int | None = Field(
        description="that stayed with their member, which did not consume them meanwhile; null: not known"
    )
    paused_ms_max: int | None = Field(description="the longest of these; null: none paused")
    waiting_for: list[AwaitedView] = Field(description="the first ones of `waiting_for_total`")
    waiting_for_total: int

    @classmethod
    def of_told(cls, told: GroupRebalance) -> RebalanceView:
        is_under_way = told.ended_ms < 0
        done = RebalanceProgress.SUPERSEDED if told.is_superseded else RebalanceProgress.DONE
        return cls(
            began_at=_at(told.began_ms),
            ended_at=_at(told.ended_ms),
            reason=told.reason or None,
            took_ms=None if is_under_way or told.began_ms < 0 else told.ended_ms - told.began_ms,
            state=RebalanceProgress.UNDER_WAY if is_under_way else done,
            generation_id=told.generation_id,
            assigned_at=_at(told.assigned_ms),
            assignor=told.assignor,
            causes=[RebalanceCauseView.of_told(one) for one in told.causes],
            causes_total=told.causes_total,
            partitions_to_move=_known(told.to_move),
            partitions_moved=_known(told.moved),
            moves=[MovedPartitionsView.of_told(one) for one in told.moves],
            partitions_paused=_known(told.paused),
            paused_ms_max=_known(told.paused_ms_max),
            waiting_for=[AwaitedView.of_told(one) for one in told.awaited],
            waiting_for_total=told.awaited_total,
        )


class RebalanceList(View):
    items: list[RebalanceView] = Field(description="the newest first")


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _at(at_ms: int) -> str | None:
    return optional_timestamp(_known(at_ms))
