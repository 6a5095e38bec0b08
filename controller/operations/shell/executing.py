"""The shell around executions: reads the part of a plan that matters now, makes plans that operations order,
submits what a look decided.

What it keeps in memory is a copy of rows and is read again whenever the role arrives or another controller
has stored an operation.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from controller.core.events import (
    AlterReassignments,
    ElectPreferredLeaders,
    ReassignmentsAltered,
    ReassignmentTarget,
)
from controller.database.plan_rows import claim_plan, get_moves
from controller.database.rows import MoveRow, OperationRow
from controller.database.sql import Database
from controller.operations.execution import (
    ELECTED_AT_ONCE,
    STARTED_AT_ONCE,
    Window,
    after_storing,
    after_submission,
    begin_execution,
    rejections_of,
)
from controller.operations.model import Blocked, Cancellation, Execution, Fate, StepState, Work, with_steps
from controller.operations.outcome import Advance, PlanOrder
from controller.operations.shell.plans import PlanOrigin, keep_plan, plan_id_of
from controller.shell.engine import Engine
from springtide.contract.partition_state import PartitionKey

#: Moves read ahead of the cursor, so that not every look reads.
READ_AHEAD: Final = 5 * STARTED_AT_ONCE


def asked_by(row: OperationRow, now_ms: int, cancellation: Cancellation | None = None) -> dict[str, Any]:
    """Return the fields of an operation's event that say who asked for it: for the operation, or to undo
    it."""
    by = cancellation or row
    return {
        "wall_ms": now_ms,
        "actor": by.actor,
        "reason": by.reason,
        "request_id": by.request_id,
        "operation_id": row.id,
    }


class Executions:
    """The plans' executions by the operations that this controller carries on."""

    def __init__(self, *, engine: Engine, store: Database, sizes_wait_ms: int) -> None:
        self._engine = engine
        self._store = store
        self._sizes_wait_ms = sizes_wait_ms
        self._windows: dict[str, Window] = {}

    def forget_all(self) -> None:
        self._windows.clear()

    def forget(self, operation_id: str) -> None:
        self._windows.pop(operation_id, None)

    def is_known(self, operation_id: str) -> bool:
        return operation_id in self._windows

    def moving(self, operation_id: str) -> tuple[PartitionKey, ...]:
        return tuple(found.move.key for found in self.current(operation_id))

    def current(self, operation_id: str) -> tuple[MoveRow, ...]:
        """Return the moves of this operation's plan that have begun and not ended."""
        window = self._windows.get(operation_id)
        return () if window is None else window.current

    async def window(self, operation_id: str, execution: Execution) -> Window:
        """Raise DatabaseUnavailable."""
        window = self._windows.get(operation_id)
        if window is None or window.plan_id != execution.plan_id:
            current = await self._moves(execution, fates=(Fate.STARTING, Fate.MOVING))
            window = Window(plan_id=execution.plan_id, current=tuple(current))
        start = window.upcoming[-1].position + 1 if window.upcoming else execution.cursor
        if len(window.upcoming) < STARTED_AT_ONCE and start < execution.moves_total:
            more = await self._moves(execution, start=start, end=execution.moves_total, limit=READ_AHEAD)
            window = msgspec.structs.replace(window, upcoming=(*window.upcoming, *more))
        arrived: list[MoveRow] = []
        if not window.current and execution.elected_to < execution.moves_total <= execution.cursor:
            first, end = execution.elected_to, execution.moves_total
            arrived = await self._moves(execution, start=first, end=end, limit=ELECTED_AT_ONCE)
        window = msgspec.structs.replace(window, arrived=tuple(arrived))
        self._windows[operation_id] = window
        return window

    async def _moves(self, execution: Execution, **wanted: Any) -> list[MoveRow]:
        return await self._store.read(get_moves, plan_id=execution.plan_id, **wanted)

    def stored(self, operation_id: str, step: Advance) -> None:
        """Note that what `step` changed is now stored in SQL."""
        window = self._windows.get(operation_id)
        if window is not None and step.work.execution is not None:
            self._windows[operation_id] = after_storing(window, step.changed, step.work.execution.cursor)

    async def submit(self, row: OperationRow, step: Advance, now_ms: int) -> None:
        """The moves that begin, and new rates for those on their way; their fates are stored already."""
        execution = step.work.execution
        if execution is None:
            return
        if step.start:
            reply = await self._alter(row, step.start, execution, now_ms)
            window = self._windows[row.id]
            self._windows[row.id] = after_submission(window, step.start, reply.results)
        if step.throttle:
            await self._alter(row, step.throttle, execution, now_ms)

    async def _alter(
        self, row: OperationRow, targets: tuple[ReassignmentTarget, ...], execution: Execution, now_ms: int
    ) -> ReassignmentsAltered:
        rate = execution.throttle_bytes_per_s
        event = AlterReassignments(**asked_by(row, now_ms), targets=targets, throttled_rate=rate)
        reply = await self._engine.submit(row.cluster, event)
        assert isinstance(reply, ReassignmentsAltered)
        return reply

    async def elect(self, row: OperationRow, step: Advance, now_ms: int) -> None:
        """Elect preferred leaders. A refusal changes nothing: a preferred leader that can't lead now is
        elected when it can."""
        event = ElectPreferredLeaders(**asked_by(row, now_ms), partitions=step.elect)
        await self._engine.submit(row.cluster, event)

    def unplannable(self, cluster: str) -> Blocked | None:
        """Return why no plan should be made yet. A plan made before leaders have reported the sizes of their
        logs copies more than it must. A client that asks for a plan over REST gets one, with its
        `unknown_sizes`."""
        view = self._engine.cluster(cluster)
        if view.served_for_ms() >= self._sizes_wait_ms:
            return None
        key = view.first_unreported()
        if key is None:
            return None
        state = view.image.partitions[key]
        name = f"{state.topic}-{state.partition}"
        return Blocked(
            code="sizes_unknown",
            topic=state.topic,
            partition=state.partition,
            broker_id=state.leader,
            detail=f"{name}: broker {state.leader} has not reported the size of its log to this controller",
        )

    async def make(self, row: OperationRow, work: Work, order: PlanOrder, now_ms: int) -> Work:
        """The work with the execution of the plan that was ordered; the next look decides with it."""
        origin = PlanOrigin(
            plan_id=plan_id_of(row.id, turn=order.turn),
            actor=row.actor,
            reason=row.reason,
            request_id=row.request_id,
        )
        stored = await keep_plan(self._engine, self._store, row.cluster, order.goal, origin, now_ms=now_ms)
        await self._store.write(claim_plan, plan_id=stored.row.id, operation_id=row.id)
        return msgspec.structs.replace(
            with_steps(work, plan=StepState.SUCCEEDED),
            execution=begin_execution(stored.row.id, stored.plan, order),
            refused=rejections_of(stored.plan),
        )
