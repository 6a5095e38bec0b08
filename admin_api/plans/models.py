"""The REST models of plans: goals by name, how a plan is carried out, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ConfigDict, Field

from admin_api.clusters.resilience import LOSE_TERMS_MAX, BrokersTerm
from admin_api.http.models import (
    INT64_MAX,
    BodyMoment,
    BrokerId,
    PartitionNumber,
    Reason,
    ReplicaIds,
    ReplicationFactor,
    RequestBody,
    TopicName,
    View,
    ViewList,
    optional_timestamp,
    timestamp,
)
from admin_api.operations.models import ConcurrentMoves, MoveHours, Throttle
from admin_api.policies.models import VerdictView
from controller.face.database import LaterRelease, PlanRow
from controller.face.operations import CONCURRENT_MOVES
from controller.face.plans import (
    DISK_PERMILLE,
    Level,
    Levels,
    Load,
    Move,
    Plan,
    Rejection,
    StoredPlan,
    content_hash,
    plan_without_moves,
)
from controller.face.policies import Verdict

#: The limit of one request. A change of more partitions needs a goal instead of a list.
ASSIGNMENTS_MAX = 10_000
EVEN_OUT_MOVES_MAX = 10_000
MEASURED_TOPICS_MAX = 100_000
MEASURED_PARTITIONS_MAX = 200_000
#: This limit keeps sums over a cluster within 64 bits.
BYTE_RATE_MAX = 2**40
EXPIRES_IN_S_MAX = 30 * 24 * 3600

ByteRate = Annotated[int, Field(ge=0, le=BYTE_RATE_MAX)]
WeightName = Literal["replicas", "leaders", "disk", "bytes_in", "leader_bytes_in", "bytes_out"]
TargetPermille = Annotated[int, Field(gt=1_000, le=100_000)]
BrokerIds = Annotated[list[BrokerId], Field(max_length=1_000)]


class RebalanceGoal(RequestBody):
    """The goal that numbers of replicas, then of leaders, differ by at most one between all brokers that take
    replicas, and that no broker stores far more than the mean. Brokers that are being drained are emptied."""

    kind: Literal["rebalance"]
    mode: Literal["full", "new_only"] = Field(
        default="full", description="`new_only`: only `new_broker_ids` receive"
    )
    new_broker_ids: BrokerIds = Field(default=[], examples=[[4]])
    disk_target_permille: TargetPermille | None = Field(
        default=DISK_PERMILLE,
        description="a broker's most bytes, in thousandths of the mean, as far as even numbers allow; null: "
        "numbers alone count",
    )
    drain_broker_ids: BrokerIds = Field(
        default=[],
        description="brokers that are emptied by the same plan, as others are filled",
        examples=[[1]],
    )
    floor_percent: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0,
        description="while no broker is farther from the mean than this, nothing moves to even that out",
    )
    floor_bytes: Annotated[int, Field(ge=0, le=INT64_MAX)] = Field(
        default=0, description="the same for bytes: above the mean"
    )


class MeasuredTopic(RequestBody):
    """A topic's rates in bytes a second, partition by partition from 0; partitions that are left out are
    idle."""

    topic_id: Annotated[str, Field(min_length=1, max_length=64)]
    bytes_in: Annotated[list[ByteRate], Field(max_length=MEASURED_PARTITIONS_MAX)] = Field(
        examples=[[52_000, 61_000]]
    )
    bytes_out: Annotated[list[ByteRate], Field(max_length=MEASURED_PARTITIONS_MAX)] = Field(
        default=[], description="to consumers, without followers", examples=[[104_000, 61_000]]
    )


class MeasuredBroker(RequestBody):
    broker_id: BrokerId
    room_bytes: Annotated[int, Field(ge=0, le=INT64_MAX)] = Field(
        description="that moves may bring to it, if that is less than it reports", examples=[800_000_000_000]
    )


class Measurements(RequestBody):
    """Measurements in place of the controller's own. Without topics rates are those that leaders report;
    otherwise a topic that is left out is idle. A broker that is left out has the room that it tells."""

    topics: Annotated[list[MeasuredTopic], Field(max_length=MEASURED_TOPICS_MAX, default_factory=list)]
    brokers: Annotated[list[MeasuredBroker], Field(max_length=1_000, default_factory=list)]


class EvenOutGoal(RequestBody):
    """The goal that no broker is far above the mean of any of these weights, with few bytes copied.
    Weights that are rates (`bytes_in`, `leader_bytes_in`, `bytes_out`) are averages of about an hour, which
    the active controller keeps from what leaders report."""

    kind: Literal["even_out"]
    weights: Annotated[list[WeightName], Field(min_length=1, max_length=6)] = Field(
        examples=[["disk", "bytes_in"]]
    )
    target_permille: TargetPermille = Field(
        default=1_100, description="a broker's highest load, in thousandths of the mean"
    )
    bytes_max: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = Field(
        default=None, description="copied by all moves together. Default: any number"
    )
    moves_max: Annotated[int, Field(ge=1, le=EVEN_OUT_MOVES_MAX)] = Field(
        default=EVEN_OUT_MOVES_MAX, description="partitions that may change"
    )
    measured: Measurements | None = None


class RelieveGoal(RequestBody):
    """The goal that one broker's disk is used no more than this, with few bytes copied. No other disk gets
    fuller than this for it."""

    kind: Literal["relieve"]
    broker_id: BrokerId = Field(examples=[3])
    used_percent: Annotated[int, Field(ge=1, le=99)] = Field(
        description="of the file system that holds its logs, other files there included", examples=[70]
    )


class DrainGoal(RequestBody):
    """The goal that these brokers are empty. Only data on these brokers is copied."""

    kind: Literal["drain"]
    broker_ids: Annotated[BrokerIds, Field(min_length=1)] = Field(examples=[[3]])


class ReplaceGoal(RequestBody):
    """The goal that one broker takes all places of another."""

    kind: Literal["replace"]
    broker_id: BrokerId
    replacement: BrokerId = Field(examples=[4])


class ReplicationFactorGoal(RequestBody):
    """The goal that every partition of a topic has more or fewer replicas."""

    kind: Literal["change_replication_factor"]
    topic: TopicName
    replication_factor: Annotated[ReplicationFactor, Field(examples=[3])]


class SeparateGoal(RequestBody):
    """The goal that replicas of a partition do not share a host or a rack where that can be avoided."""

    kind: Literal["separate_replicas"]


class WantedReplicas(RequestBody):
    topic: TopicName
    partition: PartitionNumber
    replicas: ReplicaIds = Field(description="the preferred leader first", examples=[[4, 2, 3]])


class AssignGoal(RequestBody):
    """The goal that replicas are as listed here. The planner checks and orders the moves and computes their
    cost."""

    kind: Literal["assign"]
    assignments: Annotated[list[WantedReplicas], Field(min_length=1, max_length=ASSIGNMENTS_MAX)]


GoalBody = Annotated[
    RebalanceGoal
    | EvenOutGoal
    | RelieveGoal
    | DrainGoal
    | ReplaceGoal
    | ReplicationFactorGoal
    | SeparateGoal
    | AssignGoal,
    Field(discriminator="kind"),
]


class DestinationChoice(RequestBody):
    """The brokers that replicas may come to. The others keep what they have, and may give."""

    include: Annotated[list[BrokersTerm], Field(max_length=LOSE_TERMS_MAX)] = Field(
        default=[], description="none: all that take replicas", examples=[["rack:r2"]]
    )
    exclude: Annotated[list[BrokersTerm], Field(max_length=LOSE_TERMS_MAX)] = Field(
        default=[], examples=[["broker:3", "host:store7"]]
    )


class MakePlan(RequestBody):
    """The goal of a plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"goal": {"kind": "drain", "broker_ids": [3]}, "reason": "store3 is to be replaced"},
                {"goal": {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4]}},
                {
                    "goal": {
                        "kind": "rebalance",
                        "mode": "new_only",
                        "new_broker_ids": [4, 5],
                        "drain_broker_ids": [1],
                    },
                    "reason": "two new hosts for an old one",
                },
                {
                    "goal": {"kind": "relieve", "broker_id": 3, "used_percent": 70},
                    "destinations": {"include": ["rack:r2"], "exclude": ["broker:7"]},
                    "reason": "store3 fills up",
                },
                {
                    "goal": {
                        "kind": "even_out",
                        "weights": ["disk", "bytes_in", "leader_bytes_in", "bytes_out"],
                        "bytes_max": 500_000_000_000,
                        "measured": {
                            "topics": [
                                {
                                    "topic_id": "hK3m5wQ8QzKqgq2o2v0y1A",
                                    "bytes_in": [52_000, 61_000, 9_000],
                                    "bytes_out": [104_000, 61_000, 0],
                                }
                            ],
                            "brokers": [{"broker_id": 1, "room_bytes": 800_000_000_000}],
                        },
                    },
                    "reason": "before the sale",
                },
            ]
        }
    )

    goal: GoalBody
    destinations: DestinationChoice | None = None
    expires_in_s: Annotated[int, Field(ge=1, le=EXPIRES_IN_S_MAX)] = Field(
        default=86_400, description="how long it may be executed"
    )
    reason: Reason | None = None


#: The treatment of moves whose partitions have changed since the plan was made.
Drifted = Literal["refuse", "skip", "re_plan"]


class CarryOut(RequestBody):
    """Options for carrying out moves."""

    throttle_bytes_per_s: Throttle | None = Field(
        default=None, description="how much each broker may copy for it. Default: unthrottled"
    )
    max_concurrent_moves: ConcurrentMoves = CONCURRENT_MOVES
    not_before: BodyMoment | None = Field(
        default=None, description="begin then; until then the operation is `scheduled`"
    )
    window: MoveHours | None = Field(default=None, description="when moves begin. Default: at any time")
    reason: Reason | None = None


class ExecutePlan(CarryOut):
    """Options for carrying out a plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "throttle_bytes_per_s": 50_000_000,
                    "max_concurrent_moves": 10,
                    "reason": "store3 is to be replaced",
                },
                {"not_before": "2026-11-22T02:00:00Z", "drifted": "re_plan"},
            ]
        }
    )

    moves: Annotated[int, Field(ge=1, le=INT64_MAX)] | None = Field(
        default=None, description="only the plan's first moves: those that pay most"
    )
    bytes_max: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = Field(
        default=None, description="only as many moves from the beginning as copy no more than this"
    )
    drifted: Drifted = Field(
        default="refuse",
        description=(
            "partitions that have changed since: `refuse` (409, they are listed), `skip` their moves, or "
            "`re_plan` just these"
        ),
    )


class UndoOperation(CarryOut):
    """Options for undoing an operation's moves."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"throttle_bytes_per_s": 50_000_000, "reason": "store3 is to be kept after all"}]
        }
    )

    skip_conflicts: bool = Field(
        default=False,
        description="leave out partitions that are not as the operation left them, or can't go back",
    )


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
        description="null: a dry run, which is not kept", examples=["plan_Zk1lV0pCTEq4nY6m"]
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
    unknown_room: list[int] = Field(
        description="brokers that data is copied to although the free space of their disks is not known"
    )
    destinations: list[int] | None = Field(
        description="brokers that replicas may come to, of those that take some; null: all"
    )
    policies: list[VerdictView] | None = Field(
        description="what the cluster's policies said about it; they are asked again when it is executed. "
        "null: they were not"
    )
    approval: ApprovalView | None = Field(description="whose, on a protected cluster; null: none")
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


class PlanList(ViewList[PlanSummary]): ...


class PlannedMoveList(ViewList[PlannedMoveView]): ...


def plan_view(cluster: str, plan: Plan, verdicts: Sequence[Verdict] | None = None) -> PlanView:
    """Return the view of a plan that is not stored: the answer to a dry run."""
    shown = _view(cluster, plan, None, content_hash(plan), plan.moves[:DRY_MOVES_SHOWN])
    if verdicts is None:
        return shown
    return shown.model_copy(update={"policies": [VerdictView.of(one) for one in verdicts]})


def stored_plan_view(stored: StoredPlan) -> PlanView:
    row = stored.row
    return _view(row.cluster, stored.plan, row, row.content_hash, stored.plan.moves[:MOVES_SHOWN])


def plan_row_view(row: PlanRow, first_moves: Sequence[Move]) -> PlanView:
    """Return the view of a stored plan. first_moves: from the plan's beginning."""
    return _view(row.cluster, plan_without_moves(row), row, row.content_hash, first_moves)


def plan_summary(row: PlanRow) -> PlanSummary:
    return PlanSummary.of(
        row,
        kind=row.goal,
        goal=_goal_of(row),
        created_at=timestamp(row.created_at_ms),
        expires_at=timestamp(row.expires_at_ms),
    )


def _goal_of(row: PlanRow) -> dict[str, Any]:
    try:
        return goal_view(plan_without_moves(row))
    except LaterRelease:  # as it is
        return {"kind": row.goal}


def goal_view(plan: Plan) -> dict[str, Any]:
    goal: dict[str, Any] = msgspec.to_builtins(plan.goal)
    return {"kind": goal.pop("type")} | goal


def _view(
    cluster: str, plan: Plan, row: PlanRow | None, digest: str, first_moves: Sequence[Move]
) -> PlanView:
    return PlanView(
        id=None if row is None else row.id,
        cluster=cluster,
        goal=goal_view(plan),
        outcome=plan.outcome.value,
        content_hash=digest,
        totals=TotalsView.of(plan.totals),
        before=_levels(plan.before),
        after=_levels(plan.after),
        curve=[GainPointView.of(point) for point in plan.curve],
        moves=[PlannedMoveView.of(move, position=position) for position, move in enumerate(first_moves)],
        rejections=[rejection_view(found) for found in plan.rejections[:REJECTIONS_SHOWN]],
        skipped=[rejection_view(found) for found in plan.skipped[:REJECTIONS_SHOWN]],
        worst_slack=None if plan.worst_slack is None else SlackView.of(plan.worst_slack),
        unknown_room=[] if plan.unknown_room is msgspec.UNSET else list(plan.unknown_room),
        destinations=None if plan.destinations is msgspec.UNSET else list(plan.destinations),
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
    try:
        verdicts = msgspec.convert(row.policies, list[Verdict])
    except msgspec.ValidationError as error:
        raise LaterRelease(f"the verdicts on plan {row.id}", str(error)) from error
    return [VerdictView.of(one) for one in verdicts]


def rejection_view(found: Rejection) -> RejectionView:
    weight = None if found.weight is msgspec.UNSET else found.weight
    return RejectionView.of(found, weight=weight)


def _levels(levels: Levels) -> LevelsView:
    loads = None if levels.loads is msgspec.UNSET else [load_view(load) for load in levels.loads]
    return LevelsView.of(
        levels,
        replicas=_level(levels.replicas),
        leaders=_level(levels.leaders),
        bytes=_level(levels.bytes),
        loads=loads,
    )


def load_view(load: Load) -> LoadView:
    return LoadView.of(load, highest_over_mean=round(load.highest_over_mean, 6))


def _level(level: Level) -> LevelView:
    return LevelView.of(level, skew=round(level.skew, 6))
