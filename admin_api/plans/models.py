"""The request models of plans: goals by name, and how a plan is carried out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from admin_api.history.models import BodyMoment
from admin_api.names import INT64_MAX, BrokerId, PartitionNumber, Reason, TopicName
from admin_api.operations.views import ConcurrentMoves, Throttle
from admin_api.topics.models import REPLICATION_FACTOR_MAX
from admin_api.views import RequestBody
from controller.operations.model import CONCURRENT_MOVES

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
BrokerIds = Annotated[list[BrokerId], Field(max_length=1_000)]


class RebalanceGoal(RequestBody):
    """The goal that numbers of replicas, then of leaders, differ by at most one between all brokers that take
    replicas. Brokers that are being drained are emptied."""

    kind: Literal["rebalance"]
    mode: Literal["full", "new_only"] = Field(
        default="full", description="`new_only`: only `new_broker_ids` receive"
    )
    new_broker_ids: BrokerIds = Field(default=[], examples=[[4]])


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
        description="that moves may bring to it", examples=[800_000_000_000]
    )


class Measured(RequestBody):
    """Measurements that the controller can't make. A topic that is left out is idle; a broker that is left
    out has room for everything."""

    topics: Annotated[list[MeasuredTopic], Field(max_length=MEASURED_TOPICS_MAX, default_factory=list)]
    brokers: Annotated[list[MeasuredBroker], Field(max_length=1_000, default_factory=list)]


class EvenOutGoal(RequestBody):
    """The goal that no broker is far above the mean of any of these weights, with few bytes copied.
    Weights that are rates (`bytes_in`, `leader_bytes_in`, `bytes_out`) have to be measured: `pipeline
    plan` does it."""

    kind: Literal["even_out"]
    weights: Annotated[list[WeightName], Field(min_length=1, max_length=6)] = Field(
        examples=[["disk", "bytes_in"]]
    )
    target_permille: Annotated[int, Field(gt=1_000, le=100_000)] = Field(
        default=1_100, description="a broker's highest load, in thousandths of the mean"
    )
    bytes_max: Annotated[int, Field(ge=0, le=INT64_MAX)] | None = Field(
        default=None, description="copied by all moves together. Default: any number"
    )
    moves_max: Annotated[int, Field(ge=1, le=EVEN_OUT_MOVES_MAX)] = Field(
        default=EVEN_OUT_MOVES_MAX, description="partitions that may change"
    )
    measured: Measured | None = None


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
    replication_factor: Annotated[int, Field(ge=1, le=REPLICATION_FACTOR_MAX, examples=[3])]


class SeparateGoal(RequestBody):
    """The goal that replicas of a partition do not share a host or a rack where that can be avoided."""

    kind: Literal["separate_replicas"]


class WantedReplicas(RequestBody):
    topic: TopicName
    partition: PartitionNumber
    replicas: Annotated[list[BrokerId], Field(min_length=1, max_length=REPLICATION_FACTOR_MAX)] = Field(
        description="the preferred leader first", examples=[[4, 2, 3]]
    )


class AssignGoal(RequestBody):
    """The goal that replicas are as listed here. The planner checks and orders the moves and computes their
    cost."""

    kind: Literal["assign"]
    assignments: Annotated[list[WantedReplicas], Field(min_length=1, max_length=ASSIGNMENTS_MAX)]


GoalBody = Annotated[
    RebalanceGoal | EvenOutGoal | DrainGoal | ReplaceGoal | ReplicationFactorGoal | SeparateGoal | AssignGoal,
    Field(discriminator="kind"),
]


class MakePlan(RequestBody):
    """The goal of a plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"goal": {"kind": "drain", "broker_ids": [3]}, "reason": "store3 is to be replaced"},
                {"goal": {"kind": "rebalance", "mode": "new_only", "new_broker_ids": [4]}},
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
