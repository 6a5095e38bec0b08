"""The moves of an operation, one by one: the outcome of each, its progress, and what blocks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from admin_api.http.models import View, ViewList, optional_timestamp
from admin_api.http.paging import refuse_token
from admin_api.http.services import Services
from admin_api.operations.models import EtaView, eta_view
from controller.face.cluster import ReassignmentProgress
from controller.face.database import MoveRow, OperationRow
from controller.face.operations import FINISHED, Fate, Progress, Reassignment, Work, decode_work
from controller.face.plans import Move, get_moves, plan_id_of, plan_ids_of
from springtide.contract.partition_state import PartitionKey


class MoveView(View):
    """One partition's move to its new replicas."""

    plan_id: str | None = Field(description="the plan that it is a part of; null: of no plan")
    position: int = Field(description="place in the plan, from 0")
    topic: str = Field(examples=["orders"])
    topic_id: str
    partition: int = Field(examples=[0])
    replicas_before: list[int] = Field(examples=[[1, 2, 3]])
    replicas_after: list[int] = Field(examples=[[4, 2, 3]])
    fate: str = Field(
        description=(
            "`planned`, `starting`, `moving`, `moved`, `rolled_back`, `replaced` (sent elsewhere), "
            "`topic_deleted`, `drifted` (it was changed before its turn), `refused` or `not_begun`"
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


class MoveList(ViewList[MoveView]): ...


class MovePosition(NamedTuple):
    """The place of a move in its operation's list. plan_id: empty where there is no plan."""

    plan_id: str
    position: int


async def moves_of(
    services: Services, row: OperationRow, *, after: MovePosition | None, fate: Fate | None, limit: int
) -> list[MoveView]:
    """Return at most `limit` moves after a place; none if the operation moves nothing. Plans come in the
    order in which they were made. Raises ProblemError if the place is not in the list."""
    work = decode_work(row)
    live = services.operations.live([row]).get(row.cluster, {})
    start = 0 if after is None else after.position + 1
    plan_ids = await services.database.read(plan_ids_of, operation_id=row.id)
    if plan_ids:
        first = 0
        if after is not None:
            if after.plan_id not in plan_ids:
                refuse_token()
            first = plan_ids.index(after.plan_id)
        newest = _newest_plan(row, work)
        found: list[MoveView] = []
        for plan_id in plan_ids[first:]:
            # Moves that an earlier plan has not begun never begin: a newer plan replaced it.
            is_over = row.state in FINISHED or plan_id != newest
            found += await _of_one_plan(
                services,
                work,
                plan_id,
                live,
                start=start,
                fate=fate,
                limit=limit - len(found),
                is_over=is_over,
            )
            if len(found) == limit:
                break
            start = 0
        return found
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
            plan_id=None,
        )
        for position, move in enumerate(work.spec.moves)
        if position >= start and fate in (None, work.fates[position])
    ]
    return shown[:limit]


def _newest_plan(row: OperationRow, work: Work) -> str:
    """Return the plan that the operation carries out, or else the one that it has requested."""
    if work.execution is not None:
        return work.execution.plan_id
    return plan_id_of(row.id, turn=max(0, work.campaign.plans - 1))


async def _of_one_plan(
    services: Services,
    work: Work,
    plan_id: str,
    live: Progress,
    *,
    start: int,
    fate: Fate | None,
    limit: int,
    is_over: bool,
) -> list[MoveView]:
    wanted = () if fate is None else _stored_as(fate, is_over=is_over)
    if wanted == ("",):
        return []
    end: int | None = None
    if work.execution is not None and work.execution.plan_id == plan_id:
        end = work.execution.moves_total  # the plan may be cut
    rows = await services.database.read(
        get_moves, plan_id=plan_id, start=start, end=end, fates=wanted, limit=limit
    )
    return [_of_plan(plan_id, found, live, is_over=is_over) for found in rows]


def _stored_as(fate: Fate, *, is_over: bool) -> tuple[str, ...]:
    """Return the stored fates that are shown as this fate. NOT_BEGUN is not stored: the rows of moves that
    never began stay as planned."""
    if is_over and fate is Fate.NOT_BEGUN:
        return (Fate.PLANNED, Fate.NOT_BEGUN)
    return ("",) if is_over and fate is Fate.PLANNED else (fate,)


def _of_plan(plan_id: str, found: MoveRow, live: Progress, *, is_over: bool) -> MoveView:
    fate = found.fate
    if is_over and fate == Fate.PLANNED:
        fate = Fate.NOT_BEGUN
    return _view(found.position, found.move, fate, live, found, plan_id=plan_id)


def _view(
    position: int,
    move: Move,
    fate: str,
    live: Mapping[PartitionKey, ReassignmentProgress],
    row: MoveRow | None = None,
    *,
    plan_id: str | None,
) -> MoveView:
    now = live.get(move.key) if fate == Fate.MOVING else None
    learners = [] if now is None else [t for t in now.targets if t.is_learner and not t.in_sync]
    rates = [target.rate for target in learners if target.rate is not None]
    return MoveView.of(
        move,
        plan_id=plan_id,
        position=position,
        fate=fate,
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
