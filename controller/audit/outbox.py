"""Carries changes from the driver to SQL: in order, in batches, without the driver ever waiting.

A failover must not wait for SQL, so the driver only appends to a bounded queue in memory. While SQL is down
the queue grows and is retried; when it is full, the cluster's further changes are not kept at all, and once
SQL answers again the gap is closed from what ZooKeeper holds: each entity's present version, marked as
back-filled, with what lay between marked as missing (docs/replication.md 4.8, history; S40, the controller
dies before SQL). The same happens for every cluster when this controller becomes active, because its
predecessor's queue died with it.

    driver --record_changes--> queue --batches--> SQL        queue full --> behind --truth--> back-fill

Nothing here decides anything, and losing the queue loses no truth: ZooKeeper has it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

import anyio
import sqlalchemy as sa

from controller.audit import history
from controller.audit.change import AuditedChange, Entity
from controller.audit.history import AuditedOutcome
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
from springtide.contract.epochs import ControllerEpoch

_log = logging.getLogger(__name__)

#: Changes held in memory while SQL is away: some minutes of a bad day with 100,000 partitions.
CHANGES_MAX = 200_000
BATCH_MAX = 500
#: For how many times as long as a part of a back-fill took it rests before the next, and how long at most:
#: brokers that want the whole state from a new controller wait for the same processor.
BACKFILL_REST = 3
BACKFILL_REST_MS_MAX = 2_000
RETRY_MS_FIRST = 100
RETRY_MS_MAX = 5_000


class OutboxClock(Protocol):
    """The part of the shell's clock that is needed here."""

    def now_wall_ms(self) -> int: ...
    async def sleep_ms(self, duration_ms: int) -> None: ...


#: The cluster's entities as they stand in the published image: one change each, `before` unset, with the
#: cause, actor and time of the record that made it so. Nothing at all: this controller is no longer active,
#: and its successor will fill the gap. Called on the event loop; must not block. Read in a thread.
Truth = Callable[[str], Iterable[AuditedChange]]


class AuditOutbox:
    """The queue and the task that empties it."""

    def __init__(
        self, store: Database, *, clock: OutboxClock, truth: Truth, changes_max: int = CHANGES_MAX
    ) -> None:
        self._store = store
        self._clock = clock
        self._truth = truth
        self._changes_max = changes_max
        self._queue: deque[AuditedChange | AuditedOutcome] = deque()
        #: Clusters to be back-filled; True: changes were dropped, and will be until the image is read.
        self._behind: dict[str, bool] = {}
        self._dropped = 0
        self._rejected = 0
        self._wake = anyio.Event()
        #: Who flushes owns the head of the queue.
        self._flushing = anyio.Lock()

    @property
    def depth(self) -> int:
        """Changes and outcomes that are not in SQL yet."""
        return len(self._queue)

    @property
    def dropped(self) -> int:
        """Changes not kept because the queue was full. Their entities were or will be back-filled."""
        return self._dropped

    @property
    def rejected(self) -> int:
        """Rows that SQL refused for what they are: each is in the log, none is in the history."""
        return self._rejected

    @property
    def behind(self) -> tuple[str, ...]:
        """Clusters that wait for a back-fill."""
        return tuple(self._behind)

    def record_changes(self, changes: Sequence[AuditedChange]) -> None:
        """Take what the driver has persisted and published, in that order. Never block, never raise."""
        for change in changes:
            if self._behind.get(change.cluster, False):
                self._dropped += 1  # the back-fill will read what it came to
            elif len(self._queue) >= self._changes_max:
                self._dropped += 1
                self._behind[change.cluster] = True
                _log.warning(
                    "audit_queue_full cluster=%s changes_max=%d consequence=%s",
                    change.cluster,
                    self._changes_max,
                    "its changes will be back-filled",
                )
            else:
                self._queue.append(change)
        self._wake.set()

    def record_outcome(self, outcome: AuditedOutcome) -> None:
        """Take what became of a request. Dropped when the queue is full: a request without an outcome reads
        as unknown, which is then the truth."""
        if len(self._queue) < self._changes_max:
            self._queue.append(outcome)
        else:
            self._dropped += 1
        self._wake.set()

    def backfill(self, cluster: str) -> None:
        """Ask that the cluster's history be brought up to its published image: at activation, per cluster,
        after the image is published. Changes recorded meanwhile are kept and written first."""
        self._behind.setdefault(cluster, False)
        self._wake.set()

    async def run(self) -> None:
        """Empty the queue, for ever."""
        retry_ms = RETRY_MS_FIRST
        while True:
            if not self._queue and not self._behind:
                await self._wake.wait()
            self._wake = anyio.Event()
            try:
                await self.flush()
            except DatabaseUnavailable as error:
                if retry_ms == RETRY_MS_FIRST:
                    _log.warning("audit_waits_for_database rows=%d cause=%s", len(self._queue), error)
                await self._clock.sleep_ms(retry_ms)
                retry_ms = min(retry_ms * 2, RETRY_MS_MAX)
            else:
                retry_ms = RETRY_MS_FIRST

    async def flush(self) -> None:
        """Write everything that waits now. Raise DatabaseUnavailable; what was not written stays."""
        async with self._flushing:
            await self._write_queue()
            for cluster in tuple(self._behind):
                await self._backfill(cluster)

    async def _write_queue(self, written: list[tuple[Entity, str]] | None = None) -> None:
        """Empty the queue; add the entities that changed to `written`."""
        while self._queue:
            batch = [self._queue[index] for index in range(min(BATCH_MAX, len(self._queue)))]
            await self._write(batch)
            if written is not None:
                written += ((i.entity, i.entity_id) for i in batch if isinstance(i, AuditedChange))
            for _ in batch:
                self._queue.popleft()

    async def _write(self, batch: Sequence[AuditedChange | AuditedOutcome]) -> None:
        try:
            await self._store.write(_append, batch=batch, recorded_at_ms=self._clock.now_wall_ms())
        except DatabaseRejected as error:
            if len(batch) == 1:
                self._rejected += 1
                _log.error("audit_row_refused cause=%s row=%s", error, batch[0])
                return
            for item in batch:  # find the one; the others keep their order
                await self._write([item])

    async def _backfill(self, cluster: str) -> None:
        # From here on the cluster's changes are queued again; those that the image already has are
        # recognised by their version.
        was_dropping = self._behind.pop(cluster)
        try:
            rows = iter(self._truth(cluster))
            epoch = -1
            present: list[tuple[Entity, str]] = []
            missing = 0
            began_ms = self._clock.now_wall_ms()
            # A part at a time: rendered, the partitions of a large cluster are gigabytes.
            while part := await self._store.compute(lambda: list(islice(rows, BATCH_MAX))):
                epoch = max(epoch, *(row.controller_epoch for row in part))
                present += ((row.entity, row.entity_id) for row in part)
                missing += await self._store.write(
                    history.backfill_rows, rows=part, recorded_at_ms=self._clock.now_wall_ms()
                )
                if len(part) == BATCH_MAX:
                    await self._write_queue(present)  # what came to be meanwhile is there, too
                    took_ms = self._clock.now_wall_ms() - began_ms
                    await self._clock.sleep_ms(min(max(BACKFILL_REST * took_ms, 0), BACKFILL_REST_MS_MAX))
                    began_ms = self._clock.now_wall_ms()
            if not present:
                return  # not ours to tell any more, and surely not a cluster that lost everything it had
            gone = await self._store.read(history.entities_not_in, cluster=cluster, present=present)
            for start in range(0, len(gone), BATCH_MAX):
                missing += await self._store.write(
                    history.append_lost_removals,
                    cluster=cluster,
                    keys=gone[start : start + BATCH_MAX],
                    at_ms=self._clock.now_wall_ms(),
                    controller_epoch=ControllerEpoch(epoch),
                )
        except BaseException:
            self._behind[cluster] = was_dropping or self._behind.get(cluster, False)
            raise
        if missing:
            _log.info("audit_back_filled cluster=%s rows=%d", cluster, missing)


def _append(
    connection: sa.Connection, *, batch: Sequence[AuditedChange | AuditedOutcome], recorded_at_ms: int
) -> None:
    changes = [item for item in batch if isinstance(item, AuditedChange)]
    history.append_changes(connection, changes, recorded_at_ms=recorded_at_ms)
    for item in batch:
        if isinstance(item, AuditedOutcome):
            history.append_outcome(connection, item)
