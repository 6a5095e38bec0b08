"""The REST models of the audit."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from admin_api.http.models import View, ViewList, optional_timestamp, timestamp
from controller.face.cluster import Entity
from controller.face.history import AuditRow, MismatchCode, Recorded, Verification


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
            "`request`: a change was asked for, `after` says for what, `outcome` what became of it"
        ),
        examples=["change"],
    )
    entity: str = Field(
        description="such as `topic`, `partition`, `broker`, `acls`, `user`",
        examples=["partition"],
    )
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
    before: dict[str, Any] | None = Field(description="of ACLs and users only for operators")
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


class AuditList(ViewList[AuditView]): ...


#: Entities whose rows say what only operators may see.
_HIDDEN: Final = frozenset({Entity.ACLS.value, Entity.USER.value})
HIDDEN_ID: Final = "hidden"


def for_viewer(shown: AuditView) -> AuditView:
    """Return the row as a viewer may see it: that ACLs or users were changed, by whom and when, not which."""
    if shown.entity not in _HIDDEN:
        return shown
    outcome = shown.outcome and shown.outcome.model_copy(update={"detail": None})
    changes = {"entity_id": HIDDEN_ID, "before": None, "after": None, "outcome": outcome}
    return shown.model_copy(update=changes)


def audit_view(row: AuditRow) -> AuditView:
    outcome = None
    if row.outcome is not None:
        outcome = OutcomeView(
            outcome=row.outcome,
            code=row.outcome_code,
            detail=row.outcome_detail,
            at=optional_timestamp(row.outcome_at_ms),
        )
    return AuditView.of(
        row, at=timestamp(row.at_ms), recorded_at=timestamp(row.recorded_at_ms), outcome=outcome
    )


class MismatchView(View):
    """The first entry that does not match the hash chain."""

    code: MismatchCode = Field(
        description=(
            "`altered`: its content differs from what was written; `missing`: entries before it are gone; "
            "`unlinked`: it was written after an entry other than the one before it; "
            "`misnumbered`: its `seq` is not the next; `wrong_end`: the newest entries are gone; "
            "`unanchored`: rows were removed, and what tells of that, or was to stay, is not as it was; "
            "`unknown_format`: a later release wrote it, and only that one can check it"
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
        description="to continue, ask again with this `from_seq`: one answer covers some 100,000 entries"
    )
    removed: RemovedView | None = Field(description="what is not there any more; null: nothing was removed")


def verification_view(cluster: str, found: Verification) -> VerificationView:
    return VerificationView.of(
        found,
        cluster=cluster,
        ok=found.mismatch is None,
        removed=None if found.removal is None else _removed(found.removal),
    )


def _removed(recorded: Recorded) -> RemovedView:
    removal = recorded.removal
    return RemovedView.of(
        removal,
        rows=removal.removed_rows_total,
        outcomes=removal.removed_outcomes_total,
        before=timestamp(removal.whole_since_ms),
        at=timestamp(recorded.at_ms),
        by=recorded.actor,
        audit=f"/audit/{recorded.audit_id}",
        finished=recorded.is_swept,
    )
