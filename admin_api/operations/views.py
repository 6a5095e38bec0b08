"""What operations look like over REST."""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import Field

from admin_api.answers import Answer
from admin_api.names import optional_timestamp, timestamp
from admin_api.operations.model import Fate, Work, decode_work
from admin_api.views import View
from controller.audit.operation_rows import OperationRow

LOCATION_HEADERS = {
    "Location": {"description": "the operation", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds until a look is worth it", "schema": {"type": "integer"}},
}


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


class ProgressView(View):
    """How many partitions are where they were to be; null of operations that move none."""

    moves_total: int | None = None
    moves_done: int | None = None
    bytes_total: int | None = None
    bytes_done: int | None = None


class LinksView(View):
    self: str
    audit: str


class OperationView(View):
    """Work on a cluster: what was asked, how far it is, and what holds it up."""

    id: str = Field(examples=["op_Zk1lV0pCTEq4nY6mXw2v3A"])
    kind: str = Field(
        description=(
            "`broker_add`, `broker_demote`, `broker_return`, `topic_delete`, `partitions_add`, "
            "`leader_election`, `preferred_election`, `reassignment`, `reassignment_cancel`"
        ),
        examples=["broker_add"],
    )
    cluster: str = Field(examples=["prod"])
    state: str = Field(
        description="`preflight`, `running`, `cancelling`, `succeeded`, `failed` or `cancelled`",
        examples=["preflight"],
    )
    created_at: str
    started_at: str | None
    finished_at: str | None
    deadline_at: str
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
    links: LinksView


class OperationList(View):
    items: list[OperationView]
    next_page_token: str | None


def operation_view(row: OperationRow) -> OperationView:
    work = decode_work(row)
    spec = msgspec.to_builtins(work.spec)
    spec.pop("type", None)
    return OperationView(
        id=row.id,
        kind=row.kind,
        cluster=row.cluster,
        state=row.state,
        created_at=timestamp(row.created_at_ms),
        started_at=optional_timestamp(row.started_at_ms),
        finished_at=optional_timestamp(row.finished_at_ms),
        deadline_at=timestamp(row.deadline_at_ms),
        actor=row.actor,
        reason=row.reason,
        request_id=row.request_id,
        spec=spec,
        steps=[StepView(name=step.name, state=step.state.value) for step in work.steps],
        progress=_progress(work),
        blocked=[BlockedView(**msgspec.structs.asdict(item)) for item in work.blocked],
        refused=[RefusedView(**msgspec.structs.asdict(item)) for item in work.refused],
        error=None
        if work.error is None
        else OperationErrorView(code=work.error.code, detail=work.error.detail),
        summary=work.summary,
        links=LinksView(self=f"/operations/{row.id}", audit=f"/audit?operation={row.id}"),
    )


def _progress(work: Work) -> ProgressView:
    if not work.fates:
        return ProgressView()
    return ProgressView(
        moves_total=len(work.fates), moves_done=sum(fate is Fate.MOVED for fate in work.fates)
    )


def accepted(row: OperationRow, *, retry_after_s: int) -> Answer:
    """202: the work outlives its request, and this is the operation to follow."""
    return Answer.of(
        202, operation_view(row), Location=f"/operations/{row.id}", Retry_After=str(retry_after_s)
    )
