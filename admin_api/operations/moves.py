"""The moves of an operation, one by one: what became of each, how far it is, what holds it up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pydantic import Field

from admin_api.names import optional_timestamp
from admin_api.operations.model import FINISHED, Fate, Reassignment, decode_work
from admin_api.operations.reassignments import Progress
from admin_api.operations.views import EtaView, eta_view
from admin_api.services import Services
from admin_api.views import View
from controller.audit.operation_rows import OperationRow
from controller.audit.plan_rows import MoveRow, get_moves
from controller.contract.partition_state import PartitionKey
from controller.core.planning.plan import Move
from controller.core.reassignment_progress import ReassignmentProgress


class MoveView(View):
    """One partition's way to its new replicas."""

    position: int = Field(description="place in the plan, from 0")
    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    replicas_before: list[int] = Field(examples=[[1, 2, 3]])
    replicas_after: list[int] = Field(examples=[[4, 2, 3]])
    fate: str = Field(
        description=(
            "`planned`, `starting`, `moving`, `moved`, `rolled_back`, `replaced` (sent elsewhere), "
            "`topic_deleted`, `drifted` (somebody had before its turn), `refused` or `not_begun`"
        ),
        examples=["moving"],
    )
    detail: str | None
    bytes: int | None = Field(description="to be copied, as planned; null: not planned")
    copied_bytes: int | None = Field(description="while it is on its way")
    remaining_bytes: int | None
    rate_bytes_per_s: int | None
    eta: EtaView | None
    blocked: str | None = Field(description="why it does not get on", examples=["target_offline"])
    begun_at: str | None
    ended_at: str | None


class MoveList(View):
    items: list[MoveView]
    next_page_token: str | None


async def moves_of(
    services: Services, row: OperationRow, *, start: int, fate: Fate | None, limit: int
) -> list[MoveView]:
    """From a position on, at most `limit`; none of an operation that moves nothing."""
    work = decode_work(row)
    live = services.operations.live([row]).get(row.cluster, {})
    if work.execution is not None:
        is_over = row.state in FINISHED
        wanted = () if fate is None else _stored_as(fate, is_over=is_over)
        rows = await services.audit.read(
            partial(
                get_moves,
                plan_id=work.execution.plan_id,
                start=min(start, work.execution.moves_total),
                end=work.execution.moves_total,
                fates=wanted,
                limit=limit,
            )
        )
        return [_of_plan(found, live, is_over=is_over) for found in rows] if wanted != ("",) else []
    if not isinstance(work.spec, Reassignment):
        return []
    shown = [
        _view(
            position,
            Move(
                topic_id=move.topic_id,
                topic=move.topic,
                partition=move.partition,
                partition_epoch=None,
                replicas_before=move.original,
                replicas_after=move.replicas,
                reasons=(),
                size_bytes=None,
                bytes=0,
            ),
            work.fates[position],
            live,
        )
        for position, move in enumerate(work.spec.moves)
        if position >= start and fate in (None, work.fates[position])
    ]
    return shown[:limit]


def _stored_as(fate: Fate, *, is_over: bool) -> tuple[str, ...]:
    """What nobody began is written nowhere: its rows are as the plan's."""
    if is_over and fate is Fate.NOT_BEGUN:
        return (Fate.PLANNED, Fate.NOT_BEGUN)
    return ("",) if is_over and fate is Fate.PLANNED else (fate,)


def _of_plan(found: MoveRow, live: Progress, *, is_over: bool) -> MoveView:
    fate = Fate(found.fate)
    if is_over and fate is Fate.PLANNED:
        fate = Fate.NOT_BEGUN
    return _view(found.position, found.move, fate, live, found)


def _view(
    position: int,
    move: Move,
    fate: Fate,
    live: Mapping[PartitionKey, ReassignmentProgress],
    row: MoveRow | None = None,
) -> MoveView:
    now = live.get(move.key) if fate is Fate.MOVING else None
    learners = [] if now is None else [t for t in now.targets if t.is_learner and not t.in_sync]
    rates = [target.rate for target in learners if target.rate is not None]
    return MoveView(
        position=position,
        topic=move.topic,
        topic_id=move.topic_id,
        partition=move.partition,
        replicas_before=list(move.replicas_before),
        replicas_after=list(move.replicas_after),
        fate=fate.value,
        detail=None if row is None else row.detail,
        bytes=None if row is None else move.bytes,
        copied_bytes=None if now is None else now.copied_bytes,
        remaining_bytes=None if now is None else now.remaining_bytes,
        rate_bytes_per_s=sum(rates) if rates else None,
        eta=eta_view(learners),
        blocked=None if now is None or now.blocked is None else now.blocked.value,
        begun_at=None if row is None else optional_timestamp(row.begun_at_ms),
        ended_at=None if row is None else optional_timestamp(row.ended_at_ms),
    )
