"""/operations/{operation_id}/receipt: how close an operation's partitions came to refusing acks=all while it
ran, and what the audit lacks to prove it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import Field

from admin_api.http.answers import show
from admin_api.http.models import OperationPath, View, optional_timestamp, timestamp
from admin_api.http.problems import problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.operations.service import find_operation
from controller.face.cluster import partition_id
from controller.face.database import OperationRow
from controller.face.history import Receipt, Stretch, StretchTally, Worst, begun_moves, read_receipt
from controller.face.operations import FINISHED, Reassignment, decode_work

router = APIRouter(route_class=StrictRoute, tags=["Operations"])


class StretchView(View):
    """A time in which one partition's state did not change."""

    topic: str = Field(examples=["orders"])
    partition: int
    slack: int = Field(description="replicas in sync beyond the minimum; below 0, acks=all is refused")
    in_sync: int
    min_insync_replicas: int
    since: str
    until: str
    cause: str = Field(description="of the change that began it", examples=["isr_shrunk"])
    audit: str = Field(description="the row of that change", examples=["/audit/812"])


class WorstView(View):
    """The partitions of the operation that came closest to refusing acks=all."""

    slack: int = Field(description="0: takes writes and may lose no further replica", examples=[0])
    partitions: int = Field(description="that came to this slack")
    minute: str = Field(
        description="the minute, by the clock, in which they spent most time at it",
        examples=["2026-11-21T09:31:00.000Z"],
    )
    partition_ms: int = Field(description="that time, of all of them together")
    first: list[StretchView] = Field(description="up to twenty of them")


class BadStateView(View):
    """The partitions that were in one bad state, and for how long."""

    partitions: int
    ms_max: int = Field(description="how long, added up, for the one that had it longest")
    first: list[StretchView] = Field(description="up to twenty of them, each when it happened first")


class HoleView(View):
    topic: str
    partition: int


class EvidenceView(View):
    """The evidence of the receipt. A later verification of the audit up to this row confirms it."""

    states: int = Field(description="audited states of partitions that were looked at")
    audit_id: int | None = Field(description="the newest row among them; null: there is none")
    seq: int | None
    hash: str | None
    covered: bool = Field(description="whether the audit reaches back to the beginning of the operation")
    removed_before: str | None = Field(
        description=(
            "retention has removed rows of this operation's time, up to then: breaches before it may "
            "not show; null: it has not"
        )
    )
    pending: bool | None = Field(
        description="whether rows wait to be written; null: this controller does not know, ask the active one"
    )
    holes_total: int = Field(description="partitions about which rows are missing")
    holes: list[HoleView] = Field(description="up to twenty of them")


class ReceiptView(View):
    """The audit's evidence about the safety of an operation's partitions while it ran."""

    operation_id: str
    kind: str
    cluster: str
    state: str
    verdict: str = Field(
        description=(
            "`kept`: every partition had its minimum of replicas in sync all the time; `broken`: some had "
            "not; `not_proven`: what is in the audit shows no breach, and something is missing in it; "
            "`nothing_moved`: the operation is about no partition"
        ),
        examples=["kept"],
    )
    final: bool = Field(description="whether the operation has ended and nothing can change the receipt")
    since: str
    until: str = Field(description="now, while it runs")
    partitions: int = Field(description="of the operation, with any state in this time")
    worst: WorstView | None
    below_min: BadStateView = Field(description="partitions with fewer in sync than their minimum")
    began_below_min: int = Field(description="of these: how many were so when the operation began")
    leaderless: BadStateView = Field(description="partitions that had no leader for a time")
    evidence: EvidenceView


async def receipt_of(services: Services, row: OperationRow) -> ReceiptView:
    """Return the operation's receipt. Raises DatabaseUnavailable."""
    # Checked before anything is read: a change that is queued meanwhile may come after the rows that were
    # read.
    pending = _is_pending(services, row.cluster)
    begin_ms = row.started_at_ms or row.created_at_ms
    end_ms = max(begin_ms, row.finished_at_ms or services.clock.now_wall_ms())
    receipt = await read_receipt(
        services.database,
        cluster=row.cluster,
        operation_id=row.id,
        named=await _named(services, row),
        begin_ms=begin_ms,
        end_ms=end_ms,
        is_over=row.finished_at_ms is not None,
    )
    measured = receipt.measured
    return ReceiptView(
        operation_id=row.id,
        kind=row.kind,
        cluster=row.cluster,
        state=row.state,
        verdict=verdict(receipt, pending=pending),
        final=row.state in FINISHED and pending is False,
        since=timestamp(begin_ms),
        until=timestamp(end_ms),
        partitions=measured.partitions,
        worst=None if measured.worst is None else _worst(measured.worst),
        below_min=_tally(measured.below),
        began_below_min=measured.began_below,
        leaderless=_tally(measured.leaderless),
        evidence=EvidenceView(
            states=measured.states,
            audit_id=None if receipt.anchor is None else receipt.anchor.audit_id,
            seq=None if receipt.anchor is None else receipt.anchor.seq,
            hash=None if receipt.anchor is None else receipt.anchor.hash,
            covered=receipt.is_covered,
            removed_before=optional_timestamp(receipt.removed_before_ms),
            pending=pending,
            holes_total=measured.holes_total,
            holes=[HoleView(topic=topic, partition=number) for topic, number in measured.holes],
        ),
    )


def verdict(receipt: Receipt, *, pending: bool | None) -> str:
    """Return the verdict. Incomplete evidence can prove a breach; only complete evidence can prove that there
    was none."""
    measured = receipt.measured
    if measured.below.partitions:
        return "broken"
    # The missing rows may have named partitions of the operation.
    if pending is not False or measured.holes_total or receipt.removed_before_ms is not None:
        return "not_proven"
    if not measured.partitions:
        return "nothing_moved"
    return "kept" if receipt.is_covered else "not_proven"


async def _named(services: Services, row: OperationRow) -> dict[str, str]:
    """Return topics by partition id, of the moves that were begun."""
    work = decode_work(row)
    if isinstance(work.spec, Reassignment):
        return {partition_id(*move.key): move.topic for move in work.spec.moves}
    return await services.database.read(begun_moves, operation_id=row.id)


def _is_pending(services: Services, cluster: str) -> bool | None:
    if services.engine.role != "active":
        return None
    return services.outbox.depth > 0 or cluster in services.outbox.behind


def _worst(worst: Worst) -> WorstView:
    first = [_stretch(one) for one in worst.first]
    return WorstView.of(worst, minute=timestamp(worst.minute_ms), first=first)


def _tally(tally: StretchTally) -> BadStateView:
    return BadStateView.of(tally, first=[_stretch(one) for one in tally.first])


def _stretch(stretch: Stretch) -> StretchView:
    return StretchView.of(
        stretch,
        since=timestamp(stretch.from_ms),
        until=timestamp(stretch.until_ms),
        audit=f"/audit/{stretch.audit_id}",
    )


@router.get(
    "/operations/{operation_id}/receipt",
    operation_id="getReceipt",
    summary="Show how safe an operation's partitions were while it ran",
    response_model=ReceiptView,
    responses=problems("operation_not_found", "stored_by_later_release", "audit_unavailable"),
)
async def get_receipt(request: Request, services: Serving, operation_id: OperationPath) -> Response:
    """Show an operation's safety receipt, from the audited changes of the in-sync sets: how close any
    partition of the operation came to refusing acks=all, in which minute, and which partitions refused it.
    The controller that was active at the time wrote the changes down, so the receipt of an operation of last
    year is as good as one of today, as far as the audit reaches."""
    row = await find_operation(services, operation_id)
    return show(request, await receipt_of(services, row))
