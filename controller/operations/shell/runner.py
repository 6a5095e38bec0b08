"""Carries operations on while this controller is active: one task, started with the engine.

Reads unfinished operations from SQL when the role arrives, decides with `advance`, submits what that asks
for, stores the result under a compare-and-set token. Killing the controller at any point loses nothing: what
was submitted shows in the cluster's image, and the next controller decides from there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

import anyio
import msgspec
import sqlalchemy as sa

from controller.core.events import (
    AdmitBrokers,
    AlterReassignments,
    MaintainBrokers,
    ReassignmentsAltered,
    Refusal,
)
from controller.core.preflight import PreflightCheck
from controller.database.operation_rows import (
    get_operation,
    insert_operation,
    unfinished_operations,
    update_operation,
    update_progress,
)
from controller.database.plan_rows import claim_plan, is_approved, set_approval, update_fates
from controller.database.rows import LaterRelease, OperationRow, PlanRow
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
from controller.operations.advance import advance
from controller.operations.campaign import is_between_plans
from controller.operations.model import (
    FINISHED,
    NOT_STARTED,
    REASSIGNMENT,
    Blocked,
    BrokerAdd,
    BrokerDrain,
    Cancellation,
    OperationState,
    Reassignment,
    Spec,
    Work,
    decode_work,
    encode_work,
    is_progress_alone,
    state_of,
)
from controller.operations.outcome import Advance, DrainMark, fail
from controller.operations.pace import OperationPace, Sample, pace_of, sampled, watched, with_sample
from controller.operations.reassignments import Progress, not_rolled_back
from controller.operations.shell.executing import Executions, asked_by
from controller.operations.shell.guarding import guarded
from controller.shell.clock import ControllerClock
from controller.shell.engine import Engine
from controller.shell.outcomes import NotActive, OutcomeUnknown, Overloaded, UnknownCluster, UnreadableCluster
from springtide.contract.partition_state import PartitionKey
from springtide.log_lines import ids_in_log

_log = logging.getLogger(__name__)


class OperationsRunner:
    """The task, and the way to hand it new work."""

    def __init__(
        self, *, engine: Engine, store: Database, clock: ControllerClock, wake_ms: int, sizes_wait_ms: int
    ) -> None:
        """wake_ms: how often it looks when nothing woke it. sizes_wait_ms: how long after taking over, at
        most, an operation puts its plan off because some leader has not told yet how large its log is."""
        self._engine = engine
        self._store = store
        self._clock = clock
        self._wake_ms = wake_ms
        self._executions = Executions(engine=engine, store=store, sizes_wait_ms=sizes_wait_ms)
        self._running: dict[str, OperationRow] = {}
        #: Of each operation that copies: its plan and rate, and samples of these.
        self._samples: dict[str, tuple[tuple[str, int | None], tuple[Sample, ...]]] = {}
        #: Epoch under which `_running` was read; another one means: read again.
        self._read_under: int | None = None
        self._wake = anyio.Event()
        self._sql_failed = False

    async def start(self, row: OperationRow) -> None:
        """Store a new operation and take it up at once. Raise DatabaseUnavailable."""
        await self._store.write(insert_operation, row=row)
        if row.state not in FINISHED:
            self._running[row.id] = row
        self._wake.set()

    async def execute(self, row: OperationRow, plan_id: str) -> bool:
        """Store and take up an operation that carries out a stored plan. Return False if another operation
        has the plan, or the plan is gone. Raise DatabaseUnavailable."""
        if not await self._store.write(_insert_claiming, row=row, plan_id=plan_id):
            return False
        stored = await self._store.read(get_operation, operation_id=row.id)
        self._running.setdefault(row.id, stored or row)
        self._wake.set()
        return True

    async def follow(self, row: OperationRow) -> None:
        """Store and take up an operation whose work has begun already. A failure to store it does not undo
        the work, so it must not read as a failure of the work. Raise OutcomeUnknown."""
        try:
            await self.start(row)
        except (DatabaseUnavailable, DatabaseRejected) as error:
            raise OutcomeUnknown(f"it was begun, and its operation could not be stored: {error}") from error

    def running(self) -> Sequence[OperationRow]:
        """Unfinished operations as far as this controller knows."""
        return tuple(self._running.values())

    def reassigning(self, cluster: str) -> dict[PartitionKey, str]:
        """The unfinished operation that follows each partition's reassignment; of several, the latest."""
        found: dict[PartitionKey, str] = {}
        for row in self._running.values():
            spec = decode_work(row).spec
            if row.cluster == cluster and isinstance(spec, Reassignment):
                found |= {move.key: row.id for move in spec.moves}
            elif row.cluster == cluster:
                found |= dict.fromkeys(self._executions.moving(row.id), row.id)
        return found

    async def cancel(self, row: OperationRow, cancellation: Cancellation) -> OperationRow | None:
        """Store that `row` is to be undone; the next look begins with it. Return None if the row has changed
        meanwhile: read it again. Raise DatabaseUnavailable."""
        work = msgspec.structs.replace(decode_work(row), cancellation=cancellation)
        return await self.amend(row, OperationState.CANCELLING, work)

    async def amend(self, row: OperationRow, state: OperationState, work: Work) -> OperationRow | None:
        """Store what an operator wants of an unfinished operation; the next look goes by it. Return None if
        the row has changed meanwhile: read it again. Raise DatabaseUnavailable."""
        amended = msgspec.structs.replace(
            row, state=state.value, body=encode_work(work), revision=row.revision + 1
        )
        if not await self._store.write(update_operation, row=amended):
            return None
        self._running[row.id] = amended
        self._wake.set()
        return amended

    async def approve(
        self, plan: PlanRow, approval: Mapping[str, str | None], waiting: OperationRow | None
    ) -> bool:
        """Store that a plan may be carried out; the operation that waits for approval goes on. Return False
        if either has changed meanwhile: read both again. Raise DatabaseUnavailable."""
        freed = None
        if waiting is not None:
            freed = msgspec.structs.replace(
                waiting, state=OperationState.RUNNING.value, revision=waiting.revision + 1
            )
        try:
            await self._store.write(_approve, plan=plan, approval=approval, freed=freed)
        except _MovedOn:
            return False
        if freed is not None:
            self._running[freed.id] = freed
            self._wake.set()
        return True

    async def run(self) -> None:
        """Run until cancelled; idle on a standby."""
        while True:
            if self._engine.role == "active":
                await self.advance_all()
            else:
                self._read_under = None
            self._wake = anyio.Event()
            with self._clock.timeout_ms(self._wake_ms):
                await self._wake.wait()

    async def advance_all(self) -> None:
        """One look at every unfinished operation."""
        try:
            if self._read_under != self._engine.controller_epoch:
                epoch = self._engine.controller_epoch
                rows = await self._store.read(unfinished_operations)
                self._running = {row.id: row for row in rows if _is_ours(row)}
                self._executions.forget_all()
                self._samples.clear()
                self._read_under = epoch
            progress: dict[str, Progress] = {}
            for row in tuple(self._running.values()):
                with ids_in_log(operation_id=row.id, request_id=row.request_id):
                    try:
                        await self._advance(row, progress)
                    except LaterRelease as error:  # of its plan
                        _leave_alone(row, error)
                        self._running.pop(row.id, None)
            if self._sql_failed:
                self._sql_failed = False
                _log.info("operations_go_on")
        except (DatabaseUnavailable, DatabaseRejected) as error:
            self._read_under = None  # a look that reads nothing would not tell that it is back
            if not self._sql_failed:
                self._sql_failed = True
                _log.warning("operations_wait cause=%s", error)
        except (NotActive, Overloaded, OutcomeUnknown) as error:
            _log.info("operations_wait cause=%s", error)

    async def _advance(self, row: OperationRow, progress: dict[str, Progress]) -> None:
        """Take an operation one step on. progress: of clusters that have been asked in this look. A cluster
        tells of all its reassignments at once, and may have an operation for each."""
        try:
            view = self._engine.cluster(row.cluster)
        except UnreadableCluster:
            return  # a controller that can serve it goes on
        except UnknownCluster:
            failed = fail(decode_work(row), "cluster_not_found", f"no cluster {row.cluster!r}")
            await self._store_progress(row, failed)
            return
        if view.went_back is not None:
            return
        work = decode_work(row)
        now_ms = self._clock.now_wall_ms()
        execution = work.execution
        if (execution is not None or isinstance(work.spec, Reassignment)) and row.cluster not in progress:
            progress[row.cluster] = self._progress(row.cluster)
        window = None if execution is None else await self._executions.window(row.id, execution)
        step = advance(
            work,
            state_of(row),
            self._engine.cluster(row.cluster).image,  # as it is after everything that was read
            now_ms=now_ms,
            deadline_at_ms=row.deadline_at_ms,
            operation_id=row.id,
            progress=progress.get(row.cluster),
            window=window,
            checks=self._checks(row.cluster, work.spec, state=state_of(row)),
            unplannable=self._unplannable(row.cluster, work),
        )
        if step.admit:
            step = await self._admit(row, step, now_ms)
        if step.mark is not None:
            step = await self._mark(row, step, step.mark, now_ms)
        if step.roll_back:
            step = await self._roll_back(row, step, now_ms)
        if step.elect:
            await self._executions.elect(row, step, now_ms)
        if step.order is not None:
            made = await self._executions.make(row, step.work, step.order, now_ms)
            step = msgspec.structs.replace(step, work=made, order=None)
            step = await guarded(self._engine, self._store, row.cluster, step)
        if await self._store_progress(row, step):
            self._executions.stored(row.id, step)
            self._sample(row.id, step, progress.get(row.cluster, {}))
            await self._executions.submit(row, step, now_ms)

    def _sample(self, operation_id: str, step: Advance, progress: Progress) -> None:
        """Keep a sample of an operation that runs; forget the samples of one that does not, or of another
        plan or rate. progress: as it was before what `step` changed."""
        work = step.work
        of = watched(work, progress)
        held, samples = self._samples.pop(operation_id, (of, ()))
        if step.state is not OperationState.RUNNING or work.campaign.replan_at_ms is not None:
            return
        current = self._executions.current(operation_id)
        sample = sampled(work, current, progress, now_ms=self._clock.now_mono_ms())
        if sample is not None:
            known = samples if held == of else ()
            self._samples[operation_id] = (of, with_sample(known, sample))

    def pace(self, operation_id: str) -> OperationPace:
        """Return how fast the operation copies, as of the last look; nothing is known on a standby."""
        return pace_of(self._samples.get(operation_id, (("", None), ()))[1])

    def _unplannable(self, cluster: str, work: Work) -> Blocked | None:
        """Return why an operation that is about to order a plan should wait with it; None if it need not."""
        if not isinstance(work.spec, BrokerAdd | BrokerDrain) or not is_between_plans(work):
            return None
        return self._executions.unplannable(cluster)

    def _checks(self, cluster: str, spec: Spec, *, state: OperationState) -> Sequence[PreflightCheck]:
        """Return the preflight checks of the brokers that an operation is about to admit."""
        if not isinstance(spec, BrokerAdd) or state is not OperationState.PREFLIGHT:
            return ()
        return self._engine.cluster(cluster).preflight([broker.broker_id for broker in spec.brokers])

    def live(self, rows: Iterable[OperationRow]) -> dict[str, Progress]:
        """Return, by cluster, the progress of these operations' reassignments; nothing on a standby."""
        if self._engine.role != "active":
            return {}
        clusters = {
            row.cluster
            for row in rows
            if row.state not in FINISHED and (row.kind == REASSIGNMENT or self._executions.is_known(row.id))
        }
        try:
            return {cluster: self._progress(cluster) for cluster in sorted(clusters)}
        except (NotActive, UnknownCluster):
            return {}

    def moving(self, operation_id: str) -> tuple[PartitionKey, ...]:
        """Return the partitions that this operation's plan is moving, as far as this controller knows."""
        return self._executions.moving(operation_id)

    def _progress(self, cluster: str) -> Progress:
        return {
            (found.topic_id, found.partition): found
            for found in self._engine.cluster(cluster).reassignments()
        }

    async def _admit(self, row: OperationRow, step: Advance, now_ms: int) -> Advance:
        return await self._submit(row, step, AdmitBrokers(**asked_by(row, now_ms), broker_ids=step.admit))

    async def _mark(self, row: OperationRow, step: Advance, mark: DrainMark, now_ms: int) -> Advance:
        by = asked_by(row, now_ms, step.work.cancellation)
        event = MaintainBrokers(**by, broker_ids=mark.broker_ids, draining=mark.draining)
        return await self._submit(row, step, event)

    async def _submit(
        self, row: OperationRow, step: Advance, event: AdmitBrokers | MaintainBrokers
    ) -> Advance:
        reply = await self._engine.submit(row.cluster, event)
        return fail(step.work, reply.code, reply.detail) if isinstance(reply, Refusal) else step

    async def _roll_back(self, row: OperationRow, step: Advance, now_ms: int) -> Advance:
        """Roll back the moves. The next look sees the result; a refusal is kept as what the cancellation
        waits for."""
        by = asked_by(row, now_ms, step.work.cancellation or Cancellation(actor=row.actor))
        event = AlterReassignments(**by, targets=step.roll_back)
        reply = await self._engine.submit(row.cluster, event)
        assert isinstance(reply, ReassignmentsAltered)
        return msgspec.structs.replace(step, work=not_rolled_back(step.work, reply.results))

    async def _store_progress(self, row: OperationRow, step: Advance) -> bool:
        """Store what was decided. Return False if the operation was changed meanwhile: the decision is then
        void."""
        body = encode_work(step.work)
        if body == row.body and step.state == row.state and not step.changed:
            return True
        is_quiet = step.state == row.state and not step.changed and is_progress_alone(row.body, body)
        now_ms = self._clock.now_wall_ms()
        moved = msgspec.structs.replace(
            row,
            state=step.state.value,
            body=body,
            started_at_ms=row.started_at_ms or (now_ms if step.state not in NOT_STARTED else None),
            finished_at_ms=now_ms if step.state in FINISHED else None,
            revision=row.revision if is_quiet else row.revision + 1,
        )
        if not await self._store.write(_update, row=moved, step=step, is_quiet=is_quiet):
            self._read_under = None  # changed meanwhile; read it again
            return False
        if step.state in FINISHED:
            self._running.pop(row.id, None)
            self._executions.forget(row.id)
            _log.info("operation_finished cluster=%s kind=%s state=%s", row.cluster, row.kind, step.state)
        else:
            self._running[row.id] = moved
        return True


def _is_ours(row: OperationRow) -> bool:
    """Return whether this release can carry the operation on. Another one is left to the release that began
    it."""
    try:
        decode_work(row)
    except LaterRelease as error:
        _leave_alone(row, error)
        return False
    return True


def _leave_alone(row: OperationRow, error: LaterRelease) -> None:
    _log.warning("operation_left_alone operation=%s cause=%s", row.id, error)


def _update(connection: sa.Connection, row: OperationRow, step: Advance, is_quiet: bool) -> bool:
    """The operation and the fates of its moves, or neither. is_quiet: only its progress differs, which gives
    it no revision: an operator's change that was made for an earlier look still fits."""
    if not (update_progress if is_quiet else update_operation)(connection, row):
        return False
    if step.work.execution is not None:
        update_fates(connection, step.work.execution.plan_id, step.changed)
    return True


def _insert_claiming(connection: sa.Connection, row: OperationRow, plan_id: str) -> bool:
    """The operation and its hold on the plan, or neither."""
    if not claim_plan(connection, plan_id, row.id):
        return False
    if row.state == OperationState.AWAITING_APPROVAL and is_approved(connection, plan_id):
        row = msgspec.structs.replace(row, state=OperationState.RUNNING.value)  # in this very moment
    insert_operation(connection, row)
    return True


class _MovedOn(Exception):
    """Takes the unit of work back."""


def _approve(
    connection: sa.Connection,
    plan: PlanRow,
    approval: Mapping[str, str | None],
    freed: OperationRow | None,
) -> None:
    """The approval and the operation that it frees, or neither."""
    if not set_approval(connection, plan, approval):
        raise _MovedOn
    if freed is not None and not update_operation(connection, freed):
        raise _MovedOn
