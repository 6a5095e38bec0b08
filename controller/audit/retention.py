"""Retention: removes a cluster's oldest rows, and says in the cluster's audit that it did.

    find the cut -----> write the removal's row and move the anchor -----> delete what lies below, in pages
    (reads only)        (one transaction, under the head's lock)           (repeatable at any point)

What is old is counted in whole days of UTC, so there is one removal a day. An entry goes only when all before
it go, a request only together with its outcome, and nothing that does not verify. Killed at any point, the
next look goes on: until the anchor has moved nothing is gone, and afterwards all below it that need not stay
may go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec
import sqlalchemy as sa

from controller.audit.chain import lock_head
from controller.audit.change import Entity
from controller.audit.history import AuditedOutcome, Intent, RequestOutcome, append_intent, append_outcome
from controller.audit.kept_rows import digest_kept, is_end, is_superseded, page_end, placed
from controller.audit.placements import audited_since_ms
from controller.audit.removal import (
    REMOVE_ROWS,
    KeptDigest,
    Recorded,
    Removal,
    RemovalUnreadable,
    find_removal,
)
from controller.audit.verification import verify
from controller.database.sql import Database, DatabaseRejected, DatabaseUnavailable
from controller.database.tables import audit, audit_anchors, audit_heads, audit_outcomes

_log = logging.getLogger(__name__)

DAY_MS: Final = 86_400_000
#: Between looks; a day's rows are removed once, by the first look of the day.
LOOK_MS: Final = 3_600_000
#: A removal takes so many entries at most; what is left is taken by another, at once.
ENTRIES_PER_REMOVAL: Final = 50_000


class HistoryAltered(Exception):
    """The rows to be removed were altered. They stay: only as long as they are there can that be told."""


class RetentionClock(Protocol):
    """The part of the shell's clock that is needed here."""

    def expiry_ms(self) -> int | None: ...
    async def sleep_ms(self, duration_ms: int) -> None: ...


class Retention:
    """The task. clusters: names of those whose active controller this is; none on a standby."""

    def __init__(
        self, store: Database, *, clock: RetentionClock, clusters: Callable[[], Sequence[str]], days: int
    ) -> None:
        assert days > 0, days
        self._store = store
        self._clock = clock
        self._clusters = clusters
        self._days = days

    async def run(self) -> None:
        """Look for old rows every LOOK_MS, without end."""
        while True:
            await self._clock.sleep_ms(LOOK_MS)
            await self.look()

    async def look(self) -> None:
        """Remove what is too old by now, by more than one clock's word, and nothing while clocks disagree.
        What fails is tried again by the next look."""
        for cluster in self._clusters():
            now_ms = self._clock.expiry_ms()
            if now_ms is None:
                _log.warning("audit_removal_waits cause=%s", "clocks disagree, or ZooKeeper's is not heard")
                return
            try:
                await remove_old_rows(self._store, cluster, days=self._days, now_ms=now_ms)
            except (HistoryAltered, RemovalUnreadable) as error:
                _log.error("audit_removal_refused cluster=%s cause=%s", cluster, error)
            except (DatabaseUnavailable, DatabaseRejected) as error:
                _log.warning("audit_removal_waits cluster=%s cause=%s", cluster, error)


class _Cut(msgspec.Struct, frozen=True, kw_only=True):
    """The entries that may go. after, until: the last one that is gone already, and the last to go."""

    after: int
    until: int
    last_seq: int
    rows: int
    outcomes: int
    whole_since_ms: int
    head_position: int


async def remove_old_rows(store: Database, cluster: str, *, days: int, now_ms: int) -> int:
    """Remove what is older than `days` whole days; return how many removals that took. Raise
    DatabaseUnavailable, DatabaseRejected, HistoryAltered, RemovalUnreadable."""
    before_ms = now_ms // DAY_MS * DAY_MS - days * DAY_MS
    removals = 0
    while True:
        last = await store.read(find_removal, cluster=cluster)
        if last is not None and not last.is_swept:
            await _sweep(store, cluster, last)
        cut = await store.read(_find_cut, cluster=cluster, last=last, before_ms=before_ms)
        if cut is None:
            return removals
        found = await verify(store, cluster, to_position=cut.until, entries_max=ENTRIES_PER_REMOVAL + 1)
        assert found is not None
        if found.mismatch is not None:
            raise HistoryAltered(f"entry {found.mismatch.chain_position}: {found.mismatch.detail}")
        kept = await digest_kept(store, cluster, until=cut.until, head_position=cut.head_position)
        made = await store.write(
            _anchor,
            cluster=cluster,
            last=last,
            cut=cut,
            hash=found.hash,
            kept=kept,
            days=days,
            now_ms=now_ms,
        )
        if made is None:  # another controller was here
            return removals
        removals += 1
        _log.info(
            "audit_rows_removed cluster=%s rows=%d outcomes=%d last_seq=%d older_than_days=%d",
            cluster,
            made.removed_rows,
            made.removed_outcomes,
            made.last_seq,
            days,
        )


def _find_cut(
    connection: sa.Connection, *, cluster: str, last: Recorded | None, before_ms: int
) -> _Cut | None:
    """Return what to remove next; None if nothing is old enough but rows that tell of earlier removals."""
    head = connection.execute(sa.select(audit_heads).where(audit_heads.c.cluster == cluster))
    found = head.mappings().one_or_none()
    if found is None:
        return None
    after = 0 if last is None else last.removal.chain_position
    until = min(found["chain_position"], after + ENTRIES_PER_REMOVAL)
    for table, is_young in (
        # A back-filled row tells of an earlier time than it was written at; a clock may be wrong.
        (audit, sa.or_(audit.c.recorded_at_ms >= before_ms, audit.c.at_ms >= before_ms)),
        (audit_outcomes, audit_outcomes.c.at_ms >= before_ms),
    ):
        statement = sa.select(sa.func.min(table.c.chain_position)).where(
            *placed(table, cluster, after, until), is_young
        )
        young = connection.execute(statement).scalar_one()
        until = until if young is None else young - 1
    while (torn := _first_torn(connection, cluster, after, until)) is not None:
        until = torn - 1
    of_rows = sa.select(sa.func.count(), sa.func.max(audit.c.seq), sa.func.max(audit.c.at_ms)).where(
        *placed(audit, cluster, after, until)
    )
    rows, last_seq, last_ms = connection.execute(of_rows).one()
    of_removals = sa.select(sa.func.count()).where(
        *placed(audit, cluster, after, until), audit.c.cause == REMOVE_ROWS
    )
    if rows == connection.execute(of_removals).scalar_one():
        return None
    of_outcomes = sa.select(sa.func.count()).where(*placed(audit_outcomes, cluster, after, until))
    return _Cut(
        after=after,
        until=until,
        last_seq=last_seq,
        rows=rows,
        outcomes=connection.execute(of_outcomes).scalar_one(),
        # A row of that very millisecond may have been followed by one that stays.
        whole_since_ms=max(last_ms + 1, audited_since_ms(connection, cluster) or 0),
        head_position=found["chain_position"],
    )


def _first_torn(connection: sa.Connection, cluster: str, after: int, until: int) -> int | None:
    """Return the chain position of the first request whose outcome would stay; None if there is none."""
    statement = (
        sa.select(sa.func.min(audit.c.chain_position))
        .join(audit_outcomes, audit_outcomes.c.audit_id == audit.c.id)
        .where(
            *placed(audit, cluster, after, until),
            sa.or_(audit_outcomes.c.chain_position.is_(None), audit_outcomes.c.chain_position > until),
        )
    )
    found: int | None = connection.execute(statement).scalar_one()
    return found


# -- the removal --


def _anchor(
    connection: sa.Connection,
    *,
    cluster: str,
    last: Recorded | None,
    cut: _Cut,
    hash: str,
    kept: KeptDigest,
    days: int,
    now_ms: int,
) -> Removal | None:
    """Record the removal and return it; None if another change came in between: look again later."""
    lock_head(connection, cluster)
    newest = find_removal(connection, cluster)
    if (newest and newest.audit_id) != (last and last.audit_id):
        return None
    if _first_torn(connection, cluster, cut.after, cut.until) is not None:
        return None
    before = None if last is None else last.removal
    removed_rows = cut.rows + (0 if before is None else before.kept_rows) - kept.rows
    removal = Removal(
        retention_days=days,
        last_seq=cut.last_seq,
        chain_position=cut.until,
        hash=hash,
        whole_since_ms=cut.whole_since_ms,
        removed_rows=removed_rows,
        removed_outcomes=cut.outcomes,
        removed_rows_total=removed_rows + (0 if before is None else before.removed_rows_total),
        removed_outcomes_total=cut.outcomes + (0 if before is None else before.removed_outcomes_total),
        kept_rows=kept.rows,
        kept_hash=kept.finish(),
        head_position=cut.head_position,
    )
    intent = Intent(
        cluster=cluster,
        action=REMOVE_ROWS,
        entity=Entity.CLUSTER,
        entity_id=cluster,
        actor="controller",
        reason=f"rows are kept for {days} days",
        request_id=None,
        at_ms=now_ms,
        body=msgspec.to_builtins(removal),
    )
    audit_id = append_intent(connection, intent, recorded_at_ms=now_ms)
    append_outcome(
        connection, AuditedOutcome(audit_id=audit_id, outcome=RequestOutcome.SUCCEEDED, at_ms=now_ms)
    )
    connection.execute(audit_anchors.delete().where(audit_anchors.c.cluster == cluster))
    connection.execute(audit_anchors.insert().values(cluster=cluster, audit_id=audit_id, is_swept=False))
    return removal


async def _sweep(store: Database, cluster: str, recorded: Recorded) -> None:
    """Delete what lies below the anchor, but for the rows that stay."""
    until, head_position = recorded.removal.chain_position, recorded.removal.head_position
    unanswered = (
        ~sa.select(audit_outcomes.c.audit_id)
        .where(audit_outcomes.c.audit_id == audit.c.id)
        .correlate(audit)
        .exists()
    )
    is_request = sa.and_(audit.c.kind == "request", unanswered)
    is_change = audit.c.kind == "change"
    for table, is_doomed in (
        (audit_outcomes, sa.true()),
        (audit, sa.or_(is_request, sa.and_(is_change, is_superseded(until)))),
        # The last: they are what supersedes the others.
        (audit, sa.and_(is_change, is_end(until, head_position))),
    ):
        position = 0
        while position < until:
            position = await store.write(
                _sweep_page,
                table=table,
                cluster=cluster,
                after=position,
                until=until,
                is_doomed=is_doomed,
            )
    await store.write(_set_swept, cluster=cluster, audit_id=recorded.audit_id)


def _sweep_page(
    connection: sa.Connection,
    *,
    table: sa.Table,
    cluster: str,
    after: int,
    until: int,
    is_doomed: sa.ColumnElement[bool],
) -> int:
    """Return up to where it has looked."""
    end = page_end(connection, table=table, cluster=cluster, after=after, until=until)
    connection.execute(table.delete().where(*placed(table, cluster, after, end), is_doomed))
    return end


def _set_swept(connection: sa.Connection, *, cluster: str, audit_id: int) -> None:
    connection.execute(
        audit_anchors.update()
        .where(audit_anchors.c.cluster == cluster, audit_anchors.c.audit_id == audit_id)
        .values(is_swept=True)
    )
