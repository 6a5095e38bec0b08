"""The REST models of plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import Field

from admin_api.names import optional_timestamp, timestamp
from admin_api.policies.models import VerdictView, verdict_view
from admin_api.views import View
from controller.core.planning.plan import Level, Levels, Load, Move, Plan, Rejection, Slack, content_hash
from controller.database.plan_rows import plan_without_moves
from controller.database.rows import PlanRow
from controller.operations.shell.plans import StoredPlan
from controller.policies.sandbox import Verdict

#: The most entries of each list in a plan's answer; the totals count all.
MOVES_SHOWN = 1_000
#: The same for a plan that is not stored and therefore has no separate list of moves.
DRY_MOVES_SHOWN = 10_000
REJECTIONS_SHOWN = 1_000


class PlannedMoveView(View):
    """One partition's new assignment, preferred leader first."""

    position: int = Field(description="place in the plan, from 0")
    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    partition_epoch: int | None = Field(description="the state it was planned from")
    replicas_before: list[int] = Field(examples=[[1, 2, 3]])
    replicas_after: list[int] = Field(examples=[[4, 2, 3]])
    reasons: list[str] = Field(examples=[["drain"]])
    bytes: int = Field(description="to be copied, for all replicas that come")
    size_bytes: int | None = Field(description="of one replica; null: not reported, `bytes` is an estimate")
    gain: int = Field(description="imbalance it removes at its place in the order")


class RejectionView(View):
    """A part of the goal that can't be met, and why. Without a partition: the goal as a whole."""

    code: str = Field(examples=["no_receiver"])
    detail: str
    topic: str | None
    topic_id: str | None
    partition: int | None
    weight: str | None = Field(description="of the goal `even_out`: what is not even")


class LevelView(View):
    """How evenly a weight is spread over the brokers that take replicas."""

    lowest: int
    highest: int
    total: int
    brokers: int
    skew: float = Field(description="the spread as a part of the mean; 0 is even", examples=[0.04])


class LoadView(View):
    """The spread of a weight over the brokers that serve."""

    weight: str = Field(examples=["bytes_in"])
    total: int
    highest: int
    brokers: int
    broker_id: int | None = Field(description="that carries the highest; null: none serves")
    highest_over_mean: float = Field(description="1 is even; 0: there is no load", examples=[1.08])


class LevelsView(View):
    replicas: LevelView
    leaders: LevelView
    bytes: LevelView
    crowded: int = Field(description="partitions with replicas closer together than they have to be")
    loads: list[LoadView] | None = Field(
        description="of the goal `even_out`: each weight that was known. null: of other goals, and of a plan "
        "that has lost its measurement"
    )


class TotalsView(View):
    moves: int = Field(description="partitions that change")
    copies: int = Field(description="replicas that come")
    bytes: int = Field(description="that they copy")
    bytes_least: int | None = Field(
        description="no plan to the same balance could copy less; null: not known"
    )
    unknown_sizes: int = Field(description="moves whose bytes are estimates")


class GainPointView(View):
    """The gain of a plan's beginning: the first `moves` moves copy `bytes` and bring `percent` of the whole
    gain."""

    percent: int
    moves: int
    bytes: int


class SlackView(View):
    """The smallest number of in-sync replicas above the minimum that any partition has while it moves."""

    slack: int
    topic: str
    partition: int


class ApprovalView(View):
    """A second person's approval of exactly this plan."""

    actor: str
    at: str
    reason: str | None
    content_hash: str


class PlanView(View):
    """A plan: its moves, those with the largest benefit first, their cost, their outcome, and what can't be
    done."""

    id: str | None = Field(
        description="null: a dry run, which nobody keeps", examples=["plan_Zk1lV0pCTEq4nY6m"]
    )
    cluster: str = Field(examples=["prod"])
    goal: dict[str, Any]
    outcome: str = Field(description="`ready`, `no_improvement` or `infeasible`", examples=["ready"])
    content_hash: str = Field(description="names the whole plan: what is approved is what is executed")
    totals: TotalsView
    before: LevelsView
    after: LevelsView
    curve: list[GainPointView]
    moves: list[PlannedMoveView] = Field(
        description="the first thousand, of a dry run the first ten thousand; `/moves` lists all"
    )
    rejections: list[RejectionView] = Field(description="the first thousand")
    skipped: list[RejectionView] = Field(description="why it is not better, where nothing is at fault")
    worst_slack: SlackView | None
    policies: list[VerdictView] | None = Field(
        description="what the cluster's policies said about it; they are asked again when it is executed. "
        "null: they were not"
    )
    approval: ApprovalView | None = Field(description="whose, on a protected cluster; null: nobody's")
    created_at: str | None
    expires_at: str | None
    actor: str | None
    reason: str | None
    operation_id: str | None = Field(description="the operation that carries it out")


class PlanSummary(View):
    id: str
    cluster: str
    kind: str = Field(description="the goal's", examples=["drain"])
    goal: dict[str, Any]
    outcome: str
    content_hash: str
    moves: int
    bytes: int
    created_at: str
    expires_at: str
    actor: str
    reason: str | None
    operation_id: str | None


class PlanList(View):
    items: list[PlanSummary]
    next_page_token: str | None


class PlannedMoveList(View):
    items: list[PlannedMoveView]
    next_page_token: str | None


def planned_move_view(position: int, move: Move) -> PlannedMoveView:
    return PlannedMoveView(
        position=position,
        topic=move.topic,
        topic_id=move.topic_id,
        partition=move.partition,
        partition_epoch=move.partition_epoch,
        replicas_before=list(move.replicas_before),
        replicas_after=list(move.replicas_after),
        reasons=[reason.value for reason in move.reasons],
        bytes=move.bytes,
        size_bytes=move.size_bytes,
        gain=move.gain,
    )


def plan_view(cluster: str, plan: Plan, verdicts: Sequence[Verdict] | None = None) -> PlanView:
    """Return the view of a plan that is not stored: the answer to a dry run."""
    shown = _view(cluster, plan, None, content_hash(plan), plan.moves[:DRY_MOVES_SHOWN])
    if verdicts is None:
        return shown
    return shown.model_copy(update={"policies": [verdict_view(one) for one in verdicts]})


def stored_plan_view(stored: StoredPlan) -> PlanView:
    row = stored.row
    return _view(row.cluster, stored.plan, row, row.content_hash, stored.plan.moves[:MOVES_SHOWN])


def plan_row_view(row: PlanRow, first_moves: Sequence[Move]) -> PlanView:
    """Return the view of a stored plan. first_moves: from the plan's beginning."""
    return _view(row.cluster, plan_without_moves(row), row, row.content_hash, first_moves)


def plan_summary(row: PlanRow) -> PlanSummary:
    return PlanSummary(
        id=row.id,
        cluster=row.cluster,
        kind=row.goal,
        goal=goal_view(plan_without_moves(row)),
        outcome=row.outcome,
        content_hash=row.content_hash,
        moves=row.moves,
        bytes=row.bytes,
        created_at=timestamp(row.created_at_ms),
        expires_at=timestamp(row.expires_at_ms),
        actor=row.actor,
        reason=row.reason,
        operation_id=row.operation_id,
    )


def goal_view(plan: Plan) -> dict[str, Any]:
    goal: dict[str, Any] = msgspec.to_builtins(plan.goal)
    return {"kind": goal.pop("type")} | goal


def _view(
    cluster: str, plan: Plan, row: PlanRow | None, digest: str, first_moves: Sequence[Move]
) -> PlanView:
    totals = plan.totals
    return PlanView(
        id=None if row is None else row.id,
        cluster=cluster,
        goal=goal_view(plan),
        outcome=plan.outcome.value,
        content_hash=digest,
        totals=TotalsView(**msgspec.structs.asdict(totals)),
        before=_levels(plan.before),
        after=_levels(plan.after),
        curve=[GainPointView(**msgspec.structs.asdict(point)) for point in plan.curve],
        moves=[planned_move_view(position, move) for position, move in enumerate(first_moves)],
        rejections=[rejection_view(found) for found in plan.rejections[:REJECTIONS_SHOWN]],
        skipped=[rejection_view(found) for found in plan.skipped[:REJECTIONS_SHOWN]],
        worst_slack=None if plan.worst_slack is None else _slack(plan.worst_slack),
        policies=None if row is None else _policies(row),
        approval=None if row is None or row.approval is None else ApprovalView(**row.approval),
        created_at=optional_timestamp(None if row is None else row.created_at_ms),
        expires_at=optional_timestamp(None if row is None else row.expires_at_ms),
        actor=None if row is None else row.actor,
        reason=None if row is None else row.reason,
        operation_id=None if row is None else row.operation_id,
    )


def _policies(row: PlanRow) -> list[VerdictView] | None:
    if row.policies is None:
        return None
    return [verdict_view(one) for one in msgspec.convert(row.policies, list[Verdict])]


def rejection_view(found: Rejection) -> RejectionView:
    return RejectionView(
        code=found.code.value,
        detail=found.detail,
        topic=found.topic,
        topic_id=found.topic_id,
        partition=found.partition,
        weight=None if found.weight is msgspec.UNSET else found.weight.value,
    )


def _levels(levels: Levels) -> LevelsView:
    return LevelsView(
        replicas=_level(levels.replicas),
        leaders=_level(levels.leaders),
        bytes=_level(levels.bytes),
        crowded=levels.crowded,
        loads=None if levels.loads is msgspec.UNSET else [load_view(load) for load in levels.loads],
    )


def load_view(load: Load) -> LoadView:
    return LoadView(**msgspec.structs.asdict(load), highest_over_mean=round(load.highest_over_mean, 6))


def _level(level: Level) -> LevelView:
    return LevelView(**msgspec.structs.asdict(level), skew=round(level.skew, 6))


def _slack(slack: Slack) -> SlackView:
    return SlackView(slack=slack.slack, topic=slack.topic, partition=slack.partition)
