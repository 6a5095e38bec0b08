"""The REST models of operations."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Self

import msgspec
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from admin_api.http.answers import Answer
from admin_api.http.models import (
    INT64_MAX,
    Reason,
    RequestBody,
    View,
    ViewList,
    optional_timestamp,
    timestamp,
)
from admin_api.operations.cancellation import CancellationView, cancellation_of
from admin_api.settings import RETRY_AFTER_S
from controller.face.cluster import TargetProgress
from controller.face.database import LaterRelease, OperationRow
from controller.face.operations import (
    CONCURRENT_MOVES_MAX,
    FINISHED,
    NOT_STARTED,
    BrokerAdd,
    BrokerDrain,
    DailyWindow,
    Fate,
    OperationPace,
    PlanExecution,
    Progress,
    Reassignment,
    ReplicationFactorChange,
    Spec,
    Work,
    counted,
    decode_work,
)
from springtide.contract.partition_state import PartitionKey


class StepView(View):
    name: str = Field(examples=["preflight"])
    state: str = Field(
        description="`pending`, `running`, `succeeded`, `failed`, `cancelled` or `skipped`",
        examples=["running"],
    )


class BlockedView(View):
    """Something the operation waits for."""

    code: str = Field(examples=["broker_unreachable"])
    detail: str
    broker_id: int | None
    topic: str | None
    partition: int | None


class RefusedView(View):
    """A part of the operation that was refused for good."""

    topic: str
    partition: int
    code: str = Field(description="a problem's", examples=["ineligible_broker"])
    detail: str


class OperationErrorView(View):
    code: str = Field(examples=["deadline_exceeded"])
    detail: str


Throttle = Annotated[int, Field(ge=1, le=INT64_MAX, description="bytes per second", examples=[50_000_000])]

ConcurrentMoves = Annotated[
    int,
    Field(ge=1, le=CONCURRENT_MOVES_MAX, description="partitions on their way at once", examples=[10]),
]


TimeOfDay = Annotated[str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]


class MoveHours(RequestBody):
    """The time of day in which moves begin. Those that are on their way at its end arrive."""

    start: TimeOfDay = Field(examples=["22:00"])
    end: TimeOfDay = Field(description="before the start: of the next day", examples=["06:00"])
    utc_offset: Annotated[
        str, StringConstraints(pattern=r"^(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])$"), Field(examples=["+01:00"])
    ] = "Z"

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.start == self.end:
            raise ValueError("it ends when it starts")
        return self

    def daily(self) -> DailyWindow:
        ahead = 0 if self.utc_offset == "Z" else _minutes(self.utc_offset[1:])
        return DailyWindow(
            start_minute=_minutes(self.start),
            end_minute=_minutes(self.end),
            offset_minutes=-ahead if self.utc_offset[0] == "-" else ahead,
        )


def _minutes(clock: str) -> int:
    hours, _, minutes = clock.partition(":")
    return 60 * int(hours) + int(minutes)


def daily(hours: MoveHours | None) -> DailyWindow | None:
    return None if hours is None else hours.daily()


class EtaView(View):
    """The time until all is copied, from the recent speed at which the bytes that are left became fewer."""

    p50_ms: int | None = Field(description="at the usual speed")
    p90_ms: int | None = Field(description="at the speed that nine of ten intervals reached; null: not known")


class ProgressView(View):
    """The partitions that have arrived, and the bytes that were copied: all of a finished move's. None of the
    four goes back: totals are those of the beginning, and grow when another plan adds moves. Null for
    operations that move none."""

    moves_total: int | None = None
    moves_done: int | None = None
    bytes_total: int | None = Field(default=None, description="of all moves; null: not known yet")
    bytes_done: int | None = Field(
        default=None,
        description="as of the last thousandth that was reached; stays when moves are taken back",
    )
    rate_bytes_per_s: int | None = Field(
        default=None, description="copied in the last minute by all together; null: not known yet"
    )
    eta: EtaView | None = Field(
        default=None, description="of the whole operation, or of its present plan; null: not known"
    )
    throttle_bytes_per_s: int | None = Field(
        default=None, description="the lowest rate that bounds one that copies; null: none does"
    )


class LinksView(View):
    """Links to more information. Null: there is none."""

    self: str
    events: str | None = Field(description="the stream to follow it by, until it has ended")
    moves: str | None = Field(description="of operations that move replicas")
    receipt: str | None = Field(description="how safe its partitions were, once it has begun")
    audit: str


class OperationView(View):
    """Work on a cluster: the request, its progress, and what blocks it."""

    id: str = Field(examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])
    kind: str = Field(
        description=(
            "`broker_add`, `broker_demote`, `broker_return`, `topic_delete`, `partitions_add`, "
            "`leader_election`, `preferred_election`, `reassignment`, `reassignment_cancel`, "
            "`plan_execution`, `replication_factor_change`, `broker_drain`; another one is of a later "
            "release, and shown with what was asked as it is"
        ),
        examples=["broker_add"],
    )
    cluster: str = Field(examples=["prod"])
    state: str = Field(
        description=(
            "`preflight`, `planning`, `awaiting_approval`, `scheduled`, `running`, `paused`, `cancelling`, "
            "`succeeded`, `failed` or `cancelled`"
        ),
        examples=["preflight"],
    )
    created_at: str
    started_at: str | None
    finished_at: str | None
    deadline_at: str | None = Field(description="of a `broker_add`, for its brokers to be active; null: none")
    actor: str
    reason: str | None
    request_id: str | None
    plan_id: str | None = None
    spec: dict[str, Any] = Field(description="what was asked")
    steps: list[StepView]
    progress: ProgressView
    blocked: list[BlockedView]
    refused: list[RefusedView] = Field(description="the first thousand; `summary` counts all")
    error: OperationErrorView | None
    summary: str | None
    cancellation: CancellationView | None = Field(description="what its cancellation leaves; null: not asked")
    links: LinksView


class OperationList(ViewList[OperationView]): ...


def operation_view(
    row: OperationRow,
    live: Progress | None = None,
    moving: Collection[PartitionKey] = (),
    pace: OperationPace | None = None,
) -> OperationView:
    """Return the view of an operation. live: the cluster's running reassignments, as far as this controller
    receives reports. moving: the partitions of the operation's plan whose moves are not finished. pace: of
    the whole operation; None if not known."""
    try:
        work = decode_work(row)
    except LaterRelease as error:
        return _unknown_view(row, str(error))
    spec = msgspec.to_builtins(work.spec)
    spec.pop("type", None)
    return OperationView.of(
        row,
        created_at=timestamp(row.created_at_ms),
        started_at=optional_timestamp(row.started_at_ms),
        finished_at=optional_timestamp(row.finished_at_ms),
        deadline_at=timestamp(row.deadline_at_ms) if isinstance(work.spec, BrokerAdd) else None,
        plan_id=None if work.execution is None else work.execution.plan_id,
        spec=spec,
        steps=work.steps,
        progress=_progress(work, live or {}, moving, pace or OperationPace()),
        blocked=work.blocked,
        refused=work.refused,
        error=work.error,
        summary=work.summary,
        cancellation=cancellation_of(row, work),
        links=_links(row, work),
    )


def _unknown_view(row: OperationRow, why: str) -> OperationView:
    """Return what can be said of an operation of a later release: its row, and what it was asked as it is."""
    spec = row.body.get("spec")
    return OperationView.of(
        row,
        created_at=timestamp(row.created_at_ms),
        started_at=optional_timestamp(row.started_at_ms),
        finished_at=optional_timestamp(row.finished_at_ms),
        deadline_at=None,
        plan_id=None,
        spec={name: spec[name] for name in spec if name != "type"} if isinstance(spec, dict) else {},
        steps=[],
        progress=ProgressView(),
        blocked=[],
        refused=[],
        error=None,
        summary=why,
        cancellation=None,
        links=_links(row, None),
    )


def _links(row: OperationRow, work: Work | None) -> LinksView:
    """work: None: not known."""
    path = f"/operations/{row.id}"
    return LinksView(
        self=path,
        events=None if row.state in FINISHED else f"{path}/events",
        moves=f"{path}/moves" if work is not None and _moves_replicas(work.spec) else None,
        receipt=f"{path}/receipt" if row.state not in NOT_STARTED else None,
        audit=f"/audit?operation={row.id}",
    )


def _moves_replicas(spec: Spec) -> bool:
    match spec:
        case BrokerAdd():
            return spec.mode != "none" or any(broker.replaces is not None for broker in spec.brokers)
        case BrokerDrain() | PlanExecution() | Reassignment() | ReplicationFactorChange():
            return True
        case _:
            return False


def _progress(
    work: Work, live: Progress, keys: Collection[PartitionKey], pace: OperationPace
) -> ProgressView:
    tally = work.tally or counted(work)
    if tally is None:
        return ProgressView()
    if isinstance(work.spec, Reassignment):
        keys = [
            move.key for move, fate in zip(work.spec.moves, work.fates, strict=True) if fate is Fate.MOVING
        ]
    rates = [
        target.throttled_rate
        for key in keys
        if key in live
        for target in live[key].targets
        if target.is_learner and target.throttled_rate is not None
    ]
    rate = None if work.execution is None else work.execution.throttle_bytes_per_s
    return ProgressView(
        moves_total=tally.moves_total,
        moves_done=tally.moves_done,
        bytes_total=tally.bytes_total,
        bytes_done=None if tally.bytes_total is None else tally.bytes_done,
        rate_bytes_per_s=pace.rate,
        eta=None if pace.eta_ms_p50 is None else EtaView(p50_ms=pace.eta_ms_p50, p90_ms=pace.eta_ms_p90),
        throttle_bytes_per_s=min(rates, default=None) if rate is None else rate,
    )


def eta_view(targets: Sequence[TargetProgress]) -> EtaView | None:
    """Return the latest time of all targets, or None if one is unknown."""
    medians = [target.eta_ms_p50 for target in targets]
    p50 = None if None in medians else max((ms for ms in medians if ms is not None), default=None)
    if p50 is None:
        return None
    late = [target.eta_ms_p90 for target in targets]
    p90 = None if None in late else max((ms for ms in late if ms is not None), default=None)
    return EtaView(p50_ms=p50, p90_ms=p90)


def accepted(row: OperationRow) -> Answer:
    """Answer 202 with the operation to follow: the work outlives its request."""
    return Answer.of(
        202, operation_view(row), Location=f"/operations/{row.id}", Retry_After=str(RETRY_AFTER_S)
    )


class CancelOperation(RequestBody):
    """The reason for cancelling an operation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "clients time out"}]})

    reason: Reason | None = None


class SteerOperation(RequestBody):
    """The reason for pausing or resuming an operation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "the month is being closed"}]})

    reason: Reason | None = None


class ChangeOperation(RequestBody):
    """The limits of an operation's moves."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"throttle_bytes_per_s": 50_000_000, "reason": "clients time out"}]}
    )

    throttle_bytes_per_s: Throttle | None = Field(
        default=None,
        description="how much each broker may copy for it; null: unthrottled; left out: unchanged",
    )
    max_concurrent_moves: ConcurrentMoves | None = Field(
        default=None, description="of one that carries out a plan: partitions on their way at once"
    )
    window: MoveHours | None = Field(
        default=None,
        description="for a plan: when moves begin; null: at any time; left out: unchanged",
    )
    reason: Reason | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if not self.model_fields_set & {"throttle_bytes_per_s", "max_concurrent_moves", "window"}:
            raise ValueError("throttle_bytes_per_s, max_concurrent_moves or window is needed")
        return self
