"""Why a partition's replicas are where they are: the rows that put them there, and what led to those.

Read backwards from the newest row until each question about the partition, as it is now, has its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.change import Entity, partition_id
from controller.audit.history import BEGINNINGS
from controller.audit.queries import ROWS, AuditRow, row_of
from controller.database.tables import audit
from springtide.contract.partition_state import NO_LEADER, PartitionState

_ROWS_PER_PAGE: Final = 200
#: Rows of one partition that are read at most: its ISR may have flapped for months.
_ROWS_MAX: Final = 10_000
#: Requests and brokers' changes that are told per row.
_CAUSES_MAX: Final = 10


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The row that made something so.

    is_exact: False when it may have come about earlier, in a change that was never written down.
    caused_by: what led to it, nearest first: the broker's own change in the same step (it died, it came
        back), the operator's request.
    """

    row: AuditRow
    is_exact: bool
    caused_by: tuple[AuditRow, ...]


class ReplicaOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """placed: why the broker holds a replica. in_sync: why the replica is in the ISR, or out of it.
    leads: why it leads; None for all others. Each is None while the history does not show it."""

    broker_id: int
    placed: Origin | None
    in_sync: Origin | None
    leads: Origin | None


_Test = Callable[[Mapping[str, Any]], bool]


class _Question:
    """Since which row has `is_so` held? Asked of snapshots, from the newest row backwards."""

    __slots__ = ("answer", "is_exact", "is_open", "is_so")

    def __init__(self, is_so: _Test) -> None:
        self.is_so = is_so
        self.answer: AuditRow | None = None
        self.is_exact = False
        self.is_open = True

    def look_at(self, row: AuditRow) -> None:
        if row.after is None or not self.is_so(row.after):
            # The newest row is older than what was asked about: its own is not written yet.
            self.is_open = False
            return
        if row.before is not None and self.is_so(row.before):
            return
        self.answer = row
        self.is_exact = not row.gap_before and (row.before is not None or row.cause in BEGINNINGS)
        self.is_open = False


def explain_replicas(
    connection: sa.Connection, *, cluster: str, state: PartitionState
) -> tuple[ReplicaOrigins, ...]:
    """One for each replica of `state`, in its order."""
    placed = {b: _Question(_holds("replicas", b)) for b in state.replicas}
    in_sync = {b: _Question(_is_member("isr", b, b in state.isr)) for b in state.replicas}
    leads = _Question(_is_led_by(state.leader))
    questions = [*placed.values(), *in_sync.values()]
    if state.leader != NO_LEADER:
        questions.append(leads)
    _answer(connection, cluster, state, questions)
    causes: dict[int, tuple[AuditRow, ...]] = {}

    def origin(question: _Question) -> Origin | None:
        row = question.answer
        if row is None:
            return None
        if row.id not in causes:
            causes[row.id] = tuple(_causes(connection, row))
        return Origin(row=row, is_exact=question.is_exact, caused_by=causes[row.id])

    return tuple(
        ReplicaOrigins(
            broker_id=b,
            placed=origin(placed[b]),
            in_sync=origin(in_sync[b]),
            leads=origin(leads) if b == state.leader else None,
        )
        for b in state.replicas
    )


def _holds(role: str, broker_id: int) -> _Test:
    return lambda snapshot: broker_id in (snapshot.get(role) or ())


def _is_member(role: str, broker_id: int, expected: bool) -> _Test:
    # Before it held a replica, a broker was not out of the ISR: it was nothing.
    return lambda snapshot: (
        broker_id in (snapshot.get("replicas") or ())
        and (broker_id in (snapshot.get(role) or ())) is expected
    )


def _is_led_by(broker_id: int) -> _Test:
    return lambda snapshot: snapshot.get("leader") == broker_id


def _answer(
    connection: sa.Connection, cluster: str, state: PartitionState, questions: Sequence[_Question]
) -> None:
    rows_of_it = (
        ROWS.where(
            audit.c.cluster == cluster,
            audit.c.kind == "change",
            audit.c.entity == Entity.PARTITION.value,
            audit.c.entity_id == partition_id(state.topic_id, state.partition),
        )
        .order_by(audit.c.version.desc())
        .limit(_ROWS_PER_PAGE)
    )
    below: int | None = None
    for _ in range(_ROWS_MAX // _ROWS_PER_PAGE):
        page = rows_of_it if below is None else rows_of_it.where(audit.c.version < below)
        rows = [row_of(found) for found in connection.execute(page).mappings()]
        for row in rows:
            still_open = [question for question in questions if question.is_open]
            if not still_open:
                return
            for question in still_open:
                question.look_at(row)
        if len(rows) < _ROWS_PER_PAGE:
            return
        below = rows[-1].version


def _causes(connection: sa.Connection, row: AuditRow) -> Iterable[AuditRow]:
    """The brokers' changes that the same step wrote, for the same cause; then the requests behind it."""
    brokers = ROWS.where(
        audit.c.cluster == row.cluster,
        audit.c.kind == "change",
        audit.c.entity == Entity.BROKER.value,
        audit.c.cause == row.cause,
        audit.c.at_ms == row.at_ms,
    )
    yield from _read(connection, brokers)
    asked_as = [
        column == value
        for column, value in (
            (audit.c.request_id, row.request_id),
            (audit.c.operation_id, row.operation_id),
        )
        if value is not None
    ]
    if asked_as:
        requests = ROWS.where(audit.c.cluster == row.cluster, audit.c.kind == "request", sa.or_(*asked_as))
        yield from _read(connection, requests)


def _read(connection: sa.Connection, statement: sa.Select[Any]) -> list[AuditRow]:
    found = connection.execute(statement.order_by(audit.c.id.desc()).limit(_CAUSES_MAX))
    return [row_of(row) for row in found.mappings()]
