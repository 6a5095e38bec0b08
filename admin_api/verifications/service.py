"""Storing and finding verifications."""

from __future__ import annotations

from functools import partial

from admin_api.answers import Answer
from admin_api.problem import FieldProblem, ProblemError
from admin_api.services import Services
from admin_api.verifications.models import RecordVerification, verification_view
from admin_api.writes import Attempt
from controller.database.verification_rows import (
    FindingRow,
    VerificationRow,
    get_verification,
    insert_verification,
)


async def record_verification(
    services: Services, cluster: str, attempt: Attempt, *, body: RecordVerification
) -> Answer:
    """Store the verification and answer 201 with it; for a dry run answer 200 with what would be stored."""
    _check(body)
    row = VerificationRow(
        id=f"ver_{attempt.seed}",
        cluster=cluster,
        actor=attempt.actor,
        reason=attempt.reason,
        request_id=attempt.request_id,
        recorded_at_ms=attempt.wall_ms,
        began_at_ms=body.began_at_ms,
        ended_at_ms=body.ended_at_ms,
        topics=body.topics,
        partitions_total=body.partitions_total,
        batches=body.batches,
        records=body.records,
        bytes=body.bytes,
        compared_bytes=body.compared_bytes,
        findings=body.findings_total,
        findings_kept=len(body.findings),
        partitions=[one.model_dump() for one in body.partitions],
    )
    if attempt.dry_run:
        return Answer.of(200, verification_view(row))
    findings = [
        FindingRow(position=position, **found.model_dump()) for position, found in enumerate(body.findings)
    ]
    kept = await services.database.write(partial(insert_verification, row=row, findings=findings))
    location = f"/clusters/{cluster}/verifications/{row.id}"
    return Answer.of(201, verification_view(kept), Location=location)


def _check(body: RecordVerification) -> None:
    """Raise invalid_request if the verification contradicts itself."""
    wrong = []
    if body.ended_at_ms < body.began_at_ms:
        wrong.append(FieldProblem(pointer="/ended_at_ms", message="lies before began_at_ms"))
    if body.findings_total < len(body.findings):
        wrong.append(FieldProblem(pointer="/findings_total", message="is less than the findings"))
    if body.partitions_total < len(body.partitions):
        wrong.append(FieldProblem(pointer="/partitions_total", message="is less than the partitions"))
    wrong += [
        FieldProblem(pointer=f"/findings/{place}/last_offset", message="lies before first_offset")
        for place, found in enumerate(body.findings)
        if found.last_offset < found.first_offset
    ]
    wrong += [
        FieldProblem(pointer=f"/partitions/{place}/next_offset", message="lies before first_offset")
        for place, one in enumerate(body.partitions)
        if one.next_offset < one.first_offset
    ]
    if wrong:
        raise ProblemError("invalid_request", "the verification contradicts itself", errors=tuple(wrong[:20]))


async def find_verification(services: Services, cluster: str, verification_id: str) -> VerificationRow:
    """Return the verification; raise verification_not_found if it does not exist."""
    row = await services.database.read(
        partial(get_verification, cluster=cluster, verification_id=verification_id)
    )
    if row is None:
        raise ProblemError(
            "verification_not_found", f"cluster {cluster!r} has no verification {verification_id!r}"
        )
    return row
