"""Stores plans: what was to be moved and why, and, move by move, what has become of it.

A plan is written in pages, so that a large one holds no lock for long: first its row, marked incomplete, then
its moves, then the mark goes. An incomplete plan is shown to no reader. The fates of an operation's moves are
written together with the operation's own row, under its revision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.core.planning.plan import Move, Plan, content_hash
from controller.database.rows import LaterRelease, MoveRow, PlanRow
from controller.database.tables import all_rows, inert, newest_first, one_row, plan_moves, plans, values_of

#: Rows a transaction.
MOVES_PER_WRITE: Final = 5_000


def plan_row(
    plan: Plan,
    *,
    plan_id: str,
    cluster: str,
    actor: str,
    reason: str | None,
    request_id: str | None,
    created_at_ms: int,
    expires_at_ms: int,
) -> PlanRow:
    bare = msgspec.structs.replace(plan, moves=())
    return PlanRow(
        id=plan_id,
        cluster=cluster,
        goal=str(plan.goal.__struct_config__.tag),
        outcome=plan.outcome.value,
        content_hash=content_hash(plan),
        actor=actor,
        reason=reason,
        request_id=request_id,
        created_at_ms=created_at_ms,
        expires_at_ms=expires_at_ms,
        moves=len(plan.moves),
        bytes=plan.totals.bytes,
        body=msgspec.json.decode(msgspec.json.encode(bare)),
    )


def decode_plan(row: PlanRow, moves: Sequence[MoveRow]) -> Plan:
    """Return the plan as it was made. Its hash is the row's, unless the rows were changed. Raise
    LaterRelease."""
    return msgspec.structs.replace(plan_without_moves(row), moves=tuple(found.move for found in moves))


def plan_without_moves(row: PlanRow) -> Plan:
    """Raise LaterRelease."""
    try:
        return msgspec.convert(row.body, Plan)
    except msgspec.ValidationError as error:
        raise LaterRelease(f"plan {row.id} ({row.goal})", str(error)) from error


def begin_plan(connection: sa.Connection, row: PlanRow) -> bool:
    """Store the incomplete row, in the place of what an interrupted attempt left; return False if the plan is
    there already, complete."""
    there = connection.execute(sa.select(plans.c.complete).where(plans.c.id == row.id)).scalar_one_or_none()
    if there:
        return False
    _delete(connection, [row.id])
    values = values_of(row, "actor", "reason") | {"body": dict(row.body), "complete": False}
    connection.execute(plans.insert().values(**values))
    return True


def insert_moves(connection: sa.Connection, plan_id: str, moves: Sequence[MoveRow]) -> None:
    if moves:
        connection.execute(plan_moves.insert(), [_values(plan_id, found) for found in moves])


def complete_plan(connection: sa.Connection, plan_id: str) -> None:
    connection.execute(plans.update().where(plans.c.id == plan_id).values(complete=True))


def get_plan(connection: sa.Connection, cluster: str, plan_id: str) -> PlanRow | None:
    statement = sa.select(plans).where(
        plans.c.id == inert(plan_id), plans.c.cluster == inert(cluster), plans.c.complete
    )
    return one_row(connection, statement, PlanRow)


def list_plans(
    connection: sa.Connection, cluster: str, *, below: tuple[int, str] | None, limit: int
) -> list[PlanRow]:
    """Newest first. below: (created_at_ms, id) of the last one seen."""
    statement = sa.select(plans).where(plans.c.cluster == inert(cluster), plans.c.complete)
    statement = newest_first(statement, plans.c.created_at_ms, plans.c.id, below=below)
    return all_rows(connection, statement.limit(limit), PlanRow)


def get_moves(
    connection: sa.Connection,
    plan_id: str,
    *,
    start: int = 0,
    end: int | None = None,
    fates: Sequence[str] = (),
    limit: int | None = None,
) -> list[MoveRow]:
    """Return moves in the plan's order. start, end: positions, the second exclusive. fates: only those; all
    if empty. Raise LaterRelease."""
    statement = (
        sa.select(plan_moves)
        .where(plan_moves.c.plan_id == inert(plan_id), plan_moves.c.position >= start)
        .order_by(plan_moves.c.position)
    )
    if end is not None:
        statement = statement.where(plan_moves.c.position < end)
    if fates:
        statement = statement.where(plan_moves.c.fate.in_(list(fates)))
    if limit is not None:
        statement = statement.limit(limit)
    return [_move_row(found) for found in connection.execute(statement).mappings()]


#: Of plans that one operation made within a millisecond, the tenth comes after the second.
_AS_MADE: Final = (plans.c.created_at_ms, sa.func.length(plans.c.id), plans.c.id)


def plans_of(connection: sa.Connection, operation_id: str) -> list[PlanRow]:
    """The plans that an operation carries out, or has, in their order."""
    statement = (
        sa.select(plans)
        .where(plans.c.operation_id == inert(operation_id), plans.c.complete)
        .order_by(*_AS_MADE)
    )
    return [PlanRow(**found) for found in connection.execute(statement).mappings()]


def plan_ids_of(connection: sa.Connection, operation_id: str) -> list[str]:
    """Return the ids of the plans that `plans_of` returns, in the same order."""
    statement = (
        sa.select(plans.c.id)
        .where(plans.c.operation_id == inert(operation_id), plans.c.complete)
        .order_by(*_AS_MADE)
    )
    return list(connection.execute(statement).scalars())


def claim_plan(connection: sa.Connection, plan_id: str, operation_id: str) -> bool:
    """Give the plan to the operation that carries it out; return False if another has it, or it is gone."""
    statement = (
        plans.update()
        .where(
            plans.c.id == plan_id,
            plans.c.complete,
            sa.or_(plans.c.operation_id.is_(None), plans.c.operation_id == operation_id),
        )
        .values(operation_id=operation_id)
    )
    return connection.execute(statement).rowcount == 1


def is_approved(connection: sa.Connection, plan_id: str) -> bool:
    found = connection.execute(sa.select(plans.c.approval).where(plans.c.id == plan_id)).scalar_one_or_none()
    return found is not None


def set_approval(connection: sa.Connection, row: PlanRow, approval: Mapping[str, Any]) -> bool:
    """Set the approval. Return False if the plan is gone, approved, or another operation's than when it was
    read."""
    statement = (
        plans.update()
        .where(
            plans.c.id == row.id,
            plans.c.approval.is_(None),
            plans.c.operation_id.is_(None)
            if row.operation_id is None
            else plans.c.operation_id == row.operation_id,
        )
        .values(approval=dict(approval) | {"reason": inert(approval.get("reason"))})
    )
    return connection.execute(statement).rowcount == 1


def update_fates(connection: sa.Connection, plan_id: str, moves: Iterable[MoveRow]) -> None:
    for found in moves:
        connection.execute(
            plan_moves.update()
            .where(plan_moves.c.plan_id == plan_id, plan_moves.c.position == found.position)
            .values(
                fate=found.fate,
                detail=inert(found.detail),
                begun_at_ms=found.begun_at_ms,
                ended_at_ms=found.ended_at_ms,
            )
        )


def delete_plan(connection: sa.Connection, plan_id: str) -> bool:
    """Delete the plan. Return False if it is gone, or if an operation carries it out and needs it."""
    free = connection.execute(
        sa.select(plans.c.id).where(plans.c.id == plan_id, plans.c.operation_id.is_(None)).with_for_update()
    ).scalar_one_or_none()
    if free is None:
        return False
    _delete(connection, [plan_id])
    return True


def forget_expired(connection: sa.Connection, *, before_ms: int, limit: int) -> int:
    """Delete expired plans that no operation carried out; return how many."""
    ids = (
        connection.execute(
            sa.select(plans.c.id)
            .where(plans.c.expires_at_ms < before_ms, plans.c.operation_id.is_(None))
            .limit(limit)
        )
        .scalars()
        .all()
    )
    _delete(connection, list(ids))
    return len(ids)


def _delete(connection: sa.Connection, plan_ids: Sequence[str]) -> None:
    connection.execute(plan_moves.delete().where(plan_moves.c.plan_id.in_(plan_ids)))
    connection.execute(plans.delete().where(plans.c.id.in_(plan_ids)))


def _values(plan_id: str, found: MoveRow) -> dict[str, Any]:
    values: dict[str, Any] = msgspec.to_builtins(found)
    move: dict[str, Any] = values.pop("move")
    return values | move | {"plan_id": plan_id, "gain": str(found.move.gain)}


_MOVE_FIELDS: Final = tuple(field for field in Move.__struct_fields__ if field != "gain")


def _move_row(found: sa.RowMapping) -> MoveRow:
    fields = {name: found[name] for name in _MOVE_FIELDS}
    try:
        move = msgspec.convert(fields | {"gain": int(found["gain"])}, Move)
    except msgspec.ValidationError as error:
        raise LaterRelease(f"move {found['position']} of plan {found['plan_id']}", str(error)) from error
    return MoveRow(
        position=found["position"],
        move=move,
        fate=found["fate"],
        detail=found["detail"],
        begun_at_ms=found["begun_at_ms"],
        ended_at_ms=found["ended_at_ms"],
    )
