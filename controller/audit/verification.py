"""Walks a cluster's chain of hashes, a page at a time, and names the first entry that does not fit.

Every page is a read of its own, so no transaction grows old and memory holds one page, however long the
history. The chain only ever grows at its end: what is appended during the walk lies beyond the head that the
walk began with, and is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from heapq import merge
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from controller.audit.chain import GENESIS, hash_outcome, hash_row
from controller.audit.store import AuditStore
from controller.audit.tables import audit, audit_heads, audit_outcomes

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


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """The first entry that does not fit. audit_id, seq: of the row, or of the request whose outcome it is;
    None where there is no entry to name."""

    code: MismatchCode
    chain_position: int
    audit_id: int | None
    seq: int | None
    detail: str


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What a walk has found.

    first_seq, last_seq: of the rows that were found to fit; None: none was looked at.
    chain_position, hash: of the last entry that fits. Noted elsewhere, they show a chain that was
        rewritten as a whole.
    unchained: rows that wait for their place, written by a controller of the release before.
    next_from_seq: where to go on; None: the walk came to the end, or to a mismatch.
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
    """The head, and the entry before the first to be looked at."""

    head_position: int
    head_hash: str
    unchained: int
    position: int
    hash: str


class _Walk:
    """What has been found so far."""

    __slots__ = ("first_seq", "hash", "last_seq", "outcomes", "position", "rows", "start")

    def __init__(self, start: _Start) -> None:
        self.start = start
        self.position = start.position
        self.hash = start.hash
        self.rows = self.outcomes = 0
        self.first_seq: int | None = None
        self.last_seq: int | None = None

    def check_entry(self, entry: _Entry) -> Mismatch | None:
        """Takes the next entry, or says why it does not fit."""
        place = self.position + 1
        if not self.hash:
            return self._mismatch(MismatchCode.MISSING, entry, "the entry before it is missing")
        if entry.chain_position != place:
            lost = entry.chain_position - place
            return self._mismatch(MismatchCode.MISSING, entry, f"{lost} entries from {place} on are missing")
        if entry.expected_hash != entry.hash:
            detail = f"its content makes {entry.expected_hash}, and it carries {entry.hash}"
            return self._mismatch(MismatchCode.ALTERED, entry, detail)
        if entry.previous_hash != self.hash:
            detail = f"it follows {entry.previous_hash}, and the entry before it carries {self.hash}"
            return self._mismatch(MismatchCode.UNLINKED, entry, detail)
        if entry.is_row and self.last_seq is not None and entry.seq != self.last_seq + 1:
            detail = f"row {entry.seq} follows row {self.last_seq}"
            return self._mismatch(MismatchCode.MISNUMBERED, entry, detail)
        self.position, self.hash = entry.chain_position, entry.hash
        if entry.is_row:
            self.rows += 1
            self.last_seq = entry.seq
            if self.first_seq is None:
                self.first_seq = entry.seq
        else:
            self.outcomes += 1
        return None

    def check_end(self) -> Mismatch | None:
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
        )

    @staticmethod
    def _mismatch(code: MismatchCode, entry: _Entry, detail: str) -> Mismatch:
        return Mismatch(
            code=code,
            chain_position=entry.chain_position,
            audit_id=entry.audit_id,
            seq=entry.seq,
            detail=detail,
        )


async def verify(
    store: AuditStore,
    cluster: str,
    *,
    from_seq: int | None = None,
    to_seq: int | None = None,
    entries_max: int = ENTRIES_MAX,
) -> Verification | None:
    """Checks the rows numbered `from_seq` to `to_seq`, both inclusive, and the outcomes written between them;
    from the beginning, or to the end, where a bound is not given. None: nothing was ever written about this
    cluster. Raises AuditUnavailable."""
    start = await store.read(partial(_find_start, cluster=cluster, from_seq=from_seq))
    if start is None:
        return None
    walk = _Walk(start)
    looked_at = 0
    while True:
        page = await store.read(
            partial(_read_page, cluster=cluster, after=walk.position, until=start.head_position)
        )
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
            return walk.finish(walk.check_end())


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
    position, before = 0, GENESIS
    if from_seq is not None:
        first = connection.execute(
            sa.select(sa.func.min(audit.c.chain_position)).where(
                audit.c.cluster == cluster, audit.c.seq >= from_seq
            )
        ).scalar_one()
        # Beyond the last row there is nothing to look at but the end itself.
        position = head["chain_position"] if first is None else first - 1
        before = GENESIS if position == 0 else _hash_at(connection, cluster, position)
    return _Start(
        head_position=head["chain_position"],
        head_hash=head["hash"],
        unchained=unchained,
        position=position,
        hash=before,
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


def _read_page(connection: sa.Connection, *, cluster: str, after: int, until: int) -> list[_Entry]:
    """The next entries of the chain, in its order: at most ENTRIES_PER_PAGE, fewer only at its end."""
    rows = connection.execute(
        sa.select(audit)
        .where(audit.c.cluster == cluster, audit.c.chain_position > after, audit.c.chain_position <= until)
        .order_by(audit.c.chain_position)
        .limit(ENTRIES_PER_PAGE)
    )
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


def _row_entry(row: sa.RowMapping) -> _Entry:
    place: dict[str, Any] = {"position": row["chain_position"], "previous_hash": row["previous_hash"]}
    return _entry(row, audit_id=row["id"], is_row=True, expected_hash=hash_row(dict(row), **place))


def _outcome_entry(outcome: sa.RowMapping, cluster: str) -> _Entry:
    expected = hash_outcome(
        dict(outcome),
        cluster=cluster,
        request_seq=outcome["seq"],
        position=outcome["chain_position"],
        previous_hash=outcome["previous_hash"],
    )
    return _entry(outcome, audit_id=outcome["audit_id"], is_row=False, expected_hash=expected)


def _entry(found: sa.RowMapping, *, audit_id: int, is_row: bool, expected_hash: str) -> _Entry:
    return _Entry(
        chain_position=found["chain_position"],
        is_row=is_row,
        audit_id=audit_id,
        seq=found["seq"],
        # Whoever takes a hash away has altered the entry, too.
        previous_hash=found["previous_hash"] or "",
        hash=found["hash"] or "",
        expected_hash=expected_hash,
    )
