"""Building of receipts: which partitions, which time, and what the audit lacks."""

from __future__ import annotations

from functools import partial

from admin_api.names import timestamp
from admin_api.receipts.models import (
    EvidenceView,
    HoleView,
    ReceiptView,
    StretchView,
    TallyView,
    WorstView,
)
from admin_api.services import Services
from controller.audit.change import partition_id
from controller.audit.receipts import Receipt, begun_moves, read_receipt
from controller.audit.safety import Stretch, Tally, Worst
from controller.database.rows import OperationRow
from controller.operations.model import FINISHED, Reassignment, decode_work


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
            removed_before=(
                None if receipt.removed_before_ms is None else timestamp(receipt.removed_before_ms)
            ),
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
    return await services.database.read(partial(begun_moves, operation_id=row.id))


def _is_pending(services: Services, cluster: str) -> bool | None:
    if services.engine.role != "active":
        return None
    return services.outbox.depth > 0 or cluster in services.outbox.behind


def _worst(worst: Worst) -> WorstView:
    return WorstView(
        slack=worst.slack,
        partitions=worst.partitions,
        minute=timestamp(worst.minute_ms),
        partition_ms=worst.partition_ms,
        first=[_stretch(one) for one in worst.first],
    )


def _tally(tally: Tally) -> TallyView:
    return TallyView(
        partitions=tally.partitions, ms_max=tally.ms_max, first=[_stretch(one) for one in tally.first]
    )


def _stretch(stretch: Stretch) -> StretchView:
    return StretchView(
        topic=stretch.topic,
        partition=stretch.partition,
        slack=stretch.slack,
        in_sync=stretch.in_sync,
        min_insync_replicas=stretch.min_insync_replicas,
        since=timestamp(stretch.from_ms),
        until=timestamp(stretch.until_ms),
        cause=stretch.cause,
        audit=f"/audit/{stretch.audit_id}",
    )
