"""Walks a cluster's chain of hashes, a page at a time, and names the first entry that does not fit.

Every page is a read of its own, so no transaction grows old and memory holds one page, however long the
history. The chain only ever grows at its end: what is appended during the walk lies beyond the head that the
walk began with, and is not looked at.

Where retention has removed rows, the walk begins at the anchor, with what the removal's own row says of it:
the last hash that went, and a digest of the rows that stay below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from heapq import merge
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.chain import CHAIN_FORMAT, LaterFormat, hash_outcome, hash_row, later_format
from controller.audit.removal import KeptDigest, Recorded, RemovalUnreadable, anchoring_row, find_removal
from controller.database.sql import Database
from controller.database.tables import GENESIS, audit, audit_heads, audit_outcomes

ENTRIES_PER_PAGE: Final = 500
#: Entries looked at per call: some seconds. The answer says where to go on.
ENTRIES_MAX: Final = 100_000


class MismatchCode(StrEnum):
    #: One or more entries before this one are not there.
    MISSING = "missing"
    #: The entry is not what it was when it was chained.
    ALTERED = "altered"
    #: The entry was chained to another predecessor than the one that stands there.
    UNLINKED = "unlinked"
    #: Rows are numbered without holes, and this one's number is not the next.
    MISNUMBERED = "misnumbered"
    #: The chain does not end where the head says.
    WRONG_END = "wrong_end"
    #: Rows were removed, and what tells of that is gone, or the rows that stay are not those it names.
    UNANCHORED = "unanchored"
    #: A later release wrote it, in a form that this one can't check. Nothing says that it was altered.
    UNKNOWN_FORMAT = "unknown_format"


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The first entry that does not fit. audit_id, seq: of the row, or of the request whose outcome it is;
    None where there is no entry to name."""

    code: MismatchCode
    chain_position: int
    audit_id: int | None
    seq: int | None
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a walk.

    first_seq, last_seq: of the rows that were found to fit; None: none was looked at.
    chain_position, hash: of the last entry that fits. Noted elsewhere, they show a chain that was
        rewritten as a whole.
    unchained: rows that wait for their place, written by a controller of the release before.
    next_from_seq: where to go on; None: the walk came to the end, or to a mismatch.
    removal: the newest removal; None: nothing was ever removed, or no row tells of it.
    """

    rows: int
    outcomes: int
    first_seq: int | None
    last_seq: int | None
    chain_position: int
    hash: str
    unchained: int
    mismatch: Mismatch | None
    next_from_seq: int | None
    removal: Recorded | None


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    """expected_hash: computed from what the entry says and the previous hash that it carries."""

    chain_position: int
    is_row: bool
    audit_id: int
    seq: int
    previous_hash: str
    hash: str
    expected_hash: str


class _Start(msgspec.Struct, frozen=True, kw_only=True):
    """The head, and the entry before the first to be looked at. seq: of the row before it, where it is
    known. unanchored: why there is no beginning. later: where entries of a later format begin."""

    head_position: int
    head_hash: str
    unchained: int
    position: int
    hash: str
    seq: int | None
    removal: Recorded | None
    unanchored: Mismatch | None = None
    later: LaterFormat | None = None

    @property
    def is_at_anchor(self) -> bool:
        return self.removal is not None and self.position == self.removal.removal.chain_position

    def check_format(self, entry: _Entry) -> Mismatch | None:
        later = self.later
        if later is None or entry.chain_position < later.from_position:
            return None
        detail = (
            f"from entry {later.from_position} on the chain has format {later.format}, and this release "
            f"checks format {CHAIN_FORMAT}: ask a controller of the release that wrote it"
        )
        return _misfit(MismatchCode.UNKNOWN_FORMAT, entry, detail)


class _Walk:
    """The findings of a walk so far."""

    __slots__ = ("first_seq", "hash", "last_seq", "outcomes", "position", "rows", "seq_before", "start")

    def __init__(self, start: _Start) -> None:
        self.start = start
        self.position = start.position
        self.hash = start.hash
        self.rows = self.outcomes = 0
        self.first_seq: int | None = None
        self.last_seq: int | None = None
        self.seq_before = start.seq

    def check_entry(self, entry: _Entry) -> Mismatch | None:
        """Take the next entry, or say why it does not fit."""
        place = self.position + 1
        if not self.hash:
            return _misfit(MismatchCode.MISSING, entry, "the entry before it is missing")
        if entry.chain_position != place:
            lost = entry.chain_position - place
            return _misfit(MismatchCode.MISSING, entry, f"{lost} entries from {place} on are missing")
        if (unknown := self.start.check_format(entry)) is not None:
            return unknown
        if entry.expected_hash != entry.hash:
            detail = f"its content makes {entry.expected_hash}, and it carries {entry.hash}"
            return _misfit(MismatchCode.ALTERED, entry, detail)
        if entry.previous_hash != self.hash:
            detail = f"it follows {entry.previous_hash}, and the entry before it carries {self.hash}"
            return _misfit(MismatchCode.UNLINKED, entry, detail)
        if entry.is_row and self.seq_before is not None and entry.seq != self.seq_before + 1:
            detail = f"row {entry.seq} follows row {self.seq_before}"
            return _misfit(MismatchCode.MISNUMBERED, entry, detail)
        self.position, self.hash = entry.chain_position, entry.hash
        if entry.is_row:
            self.rows += 1
            self.last_seq = self.seq_before = entry.seq
            if self.first_seq is None:
                self.first_seq = entry.seq
        else:
            self.outcomes += 1
        return None

    def check_end(self, until: int) -> Mismatch | None:
        if until < self.start.head_position and self.position == until:
            return None
        if (self.position, self.hash) == (self.start.head_position, self.start.head_hash):
            return None
        return Mismatch(
            code=MismatchCode.WRONG_END,
            chain_position=self.position,
            audit_id=None,
            seq=self.last_seq,
            detail=(
                f"it ends at {self.position} with {self.hash}, and its head names "
                f"{self.start.head_position} with {self.start.head_hash}"
            ),
        )

    def finish(self, mismatch: Mismatch | None = None, *, next_from_seq: int | None = None) -> Verification:
        return Verification(
            rows=self.rows,
            outcomes=self.outcomes,
            first_seq=self.first_seq,
            last_seq=self.last_seq,
            chain_position=self.position,
            hash=self.hash,
            unchained=self.start.unchained,
            mismatch=mismatch,
            next_from_seq=next_from_seq,
            removal=self.start.removal,
        )


async def verify(
    store: Database,
    cluster: str,
    *,
    from_seq: int | None = None,
    to_seq: int | None = None,
    to_position: int | None = None,
    entries_max: int = ENTRIES_MAX,
) -> Verification | None:
    """Check the rows numbered `from_seq` to `to_seq`, both inclusive, and the outcomes written between them;
    without a bound from the beginning, or to the end. to_position: ends with the entry there instead. Return
    None if nothing was ever written about this cluster. Raise DatabaseUnavailable."""
    anchored_by = await store.read(anchoring_row, cluster=cluster)
    while True:
        found = await _walk_once(
            store,
            cluster,
            from_seq=from_seq,
            to_seq=to_seq,
            to_position=to_position,
            entries_max=entries_max,
        )
        if found is None or found.mismatch is None:
            return found
        # What does not fit may have been removed under our feet.
        now_anchored_by = await store.read(anchoring_row, cluster=cluster)
        if now_anchored_by == anchored_by:
            return found
        anchored_by = now_anchored_by


async def _walk_once(
    store: Database,
    cluster: str,
    *,
    from_seq: int | None,
    to_seq: int | None,
    to_position: int | None,
    entries_max: int,
) -> Verification | None:
    start = await store.read(_find_start, cluster=cluster, from_seq=from_seq)
    if start is None:
        return None
    walk = _Walk(start)
    unanchored = start.unanchored
    if start.is_at_anchor:
        unanchored = await _check_anchor(store, cluster, start)
    if unanchored is not None:
        return walk.finish(unanchored)
    if to_seq is not None and start.seq is not None and to_seq <= start.seq:
        return walk.finish()  # all of it was removed
    until = start.head_position if to_position is None else min(to_position, start.head_position)
    looked_at = 0
    while True:
        page = await store.read(_read_page, cluster=cluster, after=walk.position, until=until)
        for entry in page:
            mismatch = walk.check_entry(entry)
            if mismatch is not None:
                return walk.finish(mismatch)
            looked_at += 1
            if to_seq is not None and entry.is_row and entry.seq >= to_seq:
                return walk.finish()
            if walk.rows > 1 and entry.is_row and looked_at >= entries_max:
                # Not the row after it: outcomes may stand between the two.
                return walk.finish(next_from_seq=entry.seq)
        if len(page) < ENTRIES_PER_PAGE:
            return walk.finish(walk.check_end(until))


def _find_start(connection: sa.Connection, *, cluster: str, from_seq: int | None) -> _Start | None:
    found = connection.execute(sa.select(audit_heads).where(audit_heads.c.cluster == cluster))
    head = found.mappings().one_or_none()
    if head is None:
        return None
    unchained = connection.execute(
        sa.select(sa.func.count())
        .select_from(audit)
        .where(audit.c.cluster == cluster, audit.c.chain_position.is_(None))
    ).scalar_one()
    removal: Recorded | None = None
    unanchored: Mismatch | None = None
    try:
        removal = find_removal(connection, cluster)
    except RemovalUnreadable as error:
        unanchored = _unanchored(0, error.audit_id, None, str(error))
    seq: int | None = None
    position, before = 0, GENESIS
    if removal is not None:
        gone = removal.removal
        position, before, seq = gone.chain_position, gone.hash, gone.last_seq
    if from_seq is not None:
        first = connection.execute(
            sa.select(sa.func.min(audit.c.chain_position)).where(
                audit.c.cluster == cluster, audit.c.seq >= from_seq, audit.c.chain_position > position
            )
        ).scalar_one()
        # Beyond the last row there is nothing to look at but the end itself.
        wanted = head["chain_position"] if first is None else first - 1
        if wanted != position:
            position, before, seq = wanted, _hash_at(connection, cluster, wanted), None
    return _Start(
        head_position=head["chain_position"],
        head_hash=head["hash"],
        unchained=unchained,
        position=position,
        hash=before,
        seq=seq,
        removal=removal,
        unanchored=unanchored,
        later=later_format(connection, cluster),
    )


async def _check_anchor(store: Database, cluster: str, start: _Start) -> Mismatch | None:
    """Return a mismatch if the removal's row was changed, or the rows below are not those that it names."""
    recorded = start.removal
    assert recorded is not None
    entry = _row_entry(recorded.row)
    if (unknown := start.check_format(entry)) is not None:
        return unknown
    if entry.expected_hash != entry.hash:
        return _misfit(MismatchCode.ALTERED, entry, "it tells of a removal, and its content was changed")
    if not recorded.is_swept:  # and rows that it does not name are still there
        return None
    kept = KeptDigest()
    position, until = 0, recorded.removal.chain_position
    while True:
        page = await store.read(_read_page, cluster=cluster, after=position, until=until, kind="change")
        for entry in page:
            if (unknown := start.check_format(entry)) is not None:
                return unknown
            if entry.expected_hash != entry.hash:
                return _misfit(MismatchCode.ALTERED, entry, "it stays below the anchor, and was changed")
            kept.add(entry.chain_position, entry.hash)
            position = entry.chain_position
        if len(page) < ENTRIES_PER_PAGE:
            break
    named = (recorded.removal.kept_rows, recorded.removal.kept_hash)
    if (kept.rows, kept.finish()) == named:
        return None
    return _unanchored(
        until,
        recorded.audit_id,
        recorded.row["seq"],
        f"{kept.rows} rows stay up to {until} and make {kept.finish()}, and the removal names "
        f"{named[0]} with {named[1]}",
    )


def _unanchored(position: int, audit_id: int, seq: int | None, detail: str) -> Mismatch:
    return Mismatch(
        code=MismatchCode.UNANCHORED, chain_position=position, audit_id=audit_id, seq=seq, detail=detail
    )


def _misfit(code: MismatchCode, entry: _Entry, detail: str) -> Mismatch:
    return Mismatch(
        code=code,
        chain_position=entry.chain_position,
        audit_id=entry.audit_id,
        seq=entry.seq,
        detail=detail,
    )


def _hash_at(connection: sa.Connection, cluster: str, position: int) -> str:
    """The hash that the entry at `position` carries; empty, which fits nothing, when there is none."""
    for table in (audit, audit_outcomes):
        statement = sa.select(table.c.hash).where(
            table.c.cluster == cluster, table.c.chain_position == position
        )
        found = connection.execute(statement).scalar_one_or_none()
        if found is not None:
            return str(found)
    return ""


def _read_page(
    connection: sa.Connection, *, cluster: str, after: int, until: int, kind: str | None = None
) -> list[_Entry]:
    """The next entries of the chain, in its order: at most ENTRIES_PER_PAGE, fewer only at its end.
    kind: only rows of this kind."""
    of_rows = (
        sa.select(audit)
        .where(audit.c.cluster == cluster, audit.c.chain_position > after, audit.c.chain_position <= until)
        .order_by(audit.c.chain_position)
        .limit(ENTRIES_PER_PAGE)
    )
    if kind is not None:
        found = connection.execute(of_rows.where(audit.c.kind == kind))
        return [_row_entry(row) for row in found.mappings()]
    rows = connection.execute(of_rows)
    outcomes = connection.execute(
        sa.select(audit_outcomes, audit.c.seq)
        .join(audit, audit.c.id == audit_outcomes.c.audit_id)
        .where(
            audit_outcomes.c.cluster == cluster,
            audit_outcomes.c.chain_position > after,
            audit_outcomes.c.chain_position <= until,
        )
        .order_by(audit_outcomes.c.chain_position)
        .limit(ENTRIES_PER_PAGE)
    )
    entries: Iterable[_Entry] = merge(
        [_row_entry(row) for row in rows.mappings()],
        [_outcome_entry(outcome, cluster) for outcome in outcomes.mappings()],
        key=lambda entry: entry.chain_position,
    )
    return list(entries)[:ENTRIES_PER_PAGE]


def _row_entry(row: Mapping[Any, Any]) -> _Entry:
    place: dict[str, Any] = {"position": row["chain_position"], "previous_hash": row["previous_hash"]}
    return _entry(row, audit_id=row["id"], is_row=True, expected_hash=hash_row(row, **place))


def _outcome_entry(outcome: sa.RowMapping, cluster: str) -> _Entry:
    expected = hash_outcome(
        dict(outcome),
        cluster=cluster,
        request_seq=outcome["seq"],
        position=outcome["chain_position"],
        previous_hash=outcome["previous_hash"],
    )
    return _entry(outcome, audit_id=outcome["audit_id"], is_row=False, expected_hash=expected)


def _entry(found: Mapping[Any, Any], *, audit_id: int, is_row: bool, expected_hash: str) -> _Entry:
    return _Entry(
        chain_position=found["chain_position"],
        is_row=is_row,
        audit_id=audit_id,
        seq=found["seq"],
        # An entry whose hash was removed is altered, too.
        previous_hash=found["previous_hash"] or "",
        hash=found["hash"] or "",
        expected_hash=expected_hash,
    )
