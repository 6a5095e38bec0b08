"""The REST models of the audit."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator, Field

from admin_api.names import timestamp
from admin_api.views import View
from controller.audit.queries import AuditRow
from controller.audit.removal import Recorded
from controller.audit.verification import MismatchCode, Verification


def _check_zone(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone: end it with Z")
    return moment


def _check_text(value: Any) -> Any:
    # Pydantic would read a bare number as a time since 1970, and guess between seconds and milliseconds.
    if isinstance(value, str) and value.lstrip("+-").replace(".", "", 1).isdigit():
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: A time in a request, in RFC 3339.
Moment = Annotated[
    datetime,
    BeforeValidator(_check_text),
    AfterValidator(_check_zone),
]


def _only_text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be RFC 3339, as in 2026-11-21T09:30:00Z")
    return value


#: The same in a body. Types are strict there, but JSON has no type for times.
BodyMoment = Annotated[Moment, Field(strict=False), BeforeValidator(_only_text)]
SinceTime = Annotated[
    Moment | None,
    Query(description="not before this time (RFC 3339)", examples=["2026-11-21T09:30:00Z"]),
]
UntilTime = Annotated[
    Moment | None, Query(description="before this time (RFC 3339)", examples=["2026-11-21T10:30:00Z"])
]


def milliseconds(moment: datetime | None) -> int | None:
    """Return the milliseconds of the wall clock since 1970 UTC."""
    return None if moment is None else int(moment.timestamp() * 1000)


class OutcomeView(View):
    """The outcome of a request."""

    outcome: str = Field(description="`succeeded`, `refused` or `unknown`", examples=["succeeded"])
    code: str | None
    detail: str | None
    at: str | None


class AuditView(View):
    """One row of the history. Rows never change; retention, if configured, removes the oldest."""

    id: int
    cluster: str = Field(examples=["prod"])
    seq: int = Field(description="counts the cluster's rows, without holes")
    kind: str = Field(
        description=(
            "`change`: something has changed, `before` and `after` say how; "
            "`request`: somebody asked for a change, `after` says for what, `outcome` what became of it"
        ),
        examples=["change"],
    )
    entity: str = Field(description="`cluster`, `broker`, `topic` or `partition`", examples=["partition"])
    entity_id: str
    version: int | None = Field(description="of the entity; the partition epoch for partitions")
    topic: str | None = Field(examples=["orders"])
    partition: int | None
    brokers: list[int] = Field(description="brokers whose role changed")
    cause: str = Field(examples=["broker_died"])
    actor: str = Field(description="an operator, `broker:<id>` or `controller`", examples=["controller"])
    reason: str | None
    request_id: str | None
    operation_id: str | None
    at: str = Field(description="when it was done")
    recorded_at: str = Field(description="when it was written down")
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    controller_epoch: int | None
    backfilled: bool = Field(description="written from ZooKeeper's truth after an outage")
    gap_before: bool = Field(description="earlier changes of this entity may not have been recorded")
    chain_position: int | None = Field(
        description="place in the cluster's chain of hashes, which runs over rows and outcomes; null: not yet"
    )
    previous_hash: str | None = Field(description="hash of the entry before it in the chain")
    hash: str | None = Field(description="SHA-256 over `previous_hash` and everything the row says")
    outcome: OutcomeView | None = Field(description="of a request; null while it is not known")


class AuditList(View):
    items: list[AuditView]
    next_page_token: str | None


def audit_view(row: AuditRow) -> AuditView:
    outcome = None
    if row.outcome is not None:
        outcome = OutcomeView(
            outcome=row.outcome,
            code=row.outcome_code,
            detail=row.outcome_detail,
            at=None if row.outcome_at_ms is None else timestamp(row.outcome_at_ms),
        )
    return AuditView(
        id=row.id,
        cluster=row.cluster,
        seq=row.seq,
        kind=row.kind,
        entity=row.entity,
        entity_id=row.entity_id,
        version=row.version,
        topic=row.topic,
        partition=row.partition,
        brokers=list(row.brokers),
        cause=row.cause,
        actor=row.actor,
        reason=row.reason,
        request_id=row.request_id,
        operation_id=row.operation_id,
        at=timestamp(row.at_ms),
        recorded_at=timestamp(row.recorded_at_ms),
        before=None if row.before is None else dict(row.before),
        after=None if row.after is None else dict(row.after),
        controller_epoch=row.controller_epoch,
        backfilled=row.backfilled,
        gap_before=row.gap_before,
        chain_position=row.chain_position,
        previous_hash=row.previous_hash,
        hash=row.hash,
        outcome=outcome,
    )


class MismatchView(View):
    """The first entry that does not match the hash chain."""

    code: MismatchCode = Field(
        description=(
            "`altered`: it is not what it was when it was written; `missing`: entries before it are gone; "
            "`unlinked`: it was written after another entry than the one that stands before it; "
            "`misnumbered`: its `seq` is not the next; `wrong_end`: the newest entries are gone; "
            "`unanchored`: rows were removed, and what tells of that, or was to stay, is not as it was"
        )
    )
    chain_position: int
    audit_id: int | None = Field(description="the row, or the request whose outcome it is")
    seq: int | None
    detail: str


class RemovedView(View):
    """The oldest rows that retention has removed so far."""

    rows: int = Field(description="rows that are gone")
    outcomes: int = Field(description="outcomes of requests that are gone")
    kept_rows: int = Field(
        description="older rows that stay: the newest of each entity that existed; they were verified, too"
    )
    last_seq: int = Field(description="of the last row of the removed part")
    chain_position: int = Field(description="of the last entry of the removed part")
    hash: str = Field(description="of that entry: what the first one that is there follows")
    before: str = Field(description="the history is whole from this time on")
    at: str = Field(description="when rows were removed last")
    by: str = Field(examples=["controller"])
    retention_days: int = Field(description="what had been asked for", examples=[90])
    audit: str = Field(description="the row that says so", examples=["/audit/1180"])
    finished: bool = Field(description="false while the rows are still being deleted")


class VerificationView(View):
    """The result of checking that the history is unchanged since it was written."""

    cluster: str = Field(examples=["prod"])
    ok: bool = Field(description="everything that was looked at fits")
    rows: int = Field(description="rows that were found to fit")
    outcomes: int = Field(description="outcomes of requests that were found to fit")
    first_seq: int | None = Field(description="of the first row looked at; null: there was none, or no more")
    last_seq: int | None = Field(description="of the last row that fits")
    chain_position: int = Field(description="of the last entry that fits")
    hash: str = Field(
        description=(
            "of the last entry that fits. Kept where the database's administrators can't write, it shows, "
            "compared with the row's `hash` later, a history that was rewritten as a whole"
        )
    )
    unchained: int = Field(
        description="rows that the next change will chain: written by an earlier release during an upgrade"
    )
    mismatch: MismatchView | None
    next_from_seq: int | None = Field(
        description="ask again with this `from_seq` to go on: one answer covers some 100,000 entries"
    )
    removed: RemovedView | None = Field(description="what is not there any more; null: nothing was removed")


def verification_view(cluster: str, found: Verification) -> VerificationView:
    mismatch = None
    if found.mismatch is not None:
        mismatch = MismatchView(
            code=found.mismatch.code,
            chain_position=found.mismatch.chain_position,
            audit_id=found.mismatch.audit_id,
            seq=found.mismatch.seq,
            detail=found.mismatch.detail,
        )
    return VerificationView(
        cluster=cluster,
        ok=mismatch is None,
        rows=found.rows,
        outcomes=found.outcomes,
        first_seq=found.first_seq,
        last_seq=found.last_seq,
        chain_position=found.chain_position,
        hash=found.hash,
        unchained=found.unchained,
        mismatch=mismatch,
        next_from_seq=found.next_from_seq,
        removed=None if found.removal is None else _removed(found.removal),
    )


def _removed(recorded: Recorded) -> RemovedView:
    removal = recorded.removal
    return RemovedView(
        rows=removal.removed_rows_total,
        outcomes=removal.removed_outcomes_total,
        kept_rows=removal.kept_rows,
        last_seq=removal.last_seq,
        chain_position=removal.chain_position,
        hash=removal.hash,
        before=timestamp(removal.whole_since_ms),
        at=timestamp(recorded.at_ms),
        by=recorded.actor,
        retention_days=removal.retention_days,
        audit=f"/audit/{recorded.audit_id}",
        finished=recorded.is_swept,
    )
