"""/clusters/{cluster}/verifications: results of `pipeline verify`, whether replicas are identical, complete
and in order."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import ConfigDict, Field, StringConstraints

from admin_api.http.answers import LOCATION_HEADERS, REPLAYED_HEADERS, Answer, show
from admin_api.http.models import (
    INT32_MAX,
    INT64_MAX,
    BrokerId,
    ClusterPath,
    PartitionNumber,
    Reason,
    RequestBody,
    TopicName,
    View,
    ViewList,
    timestamp,
)
from admin_api.http.paging import Paged
from admin_api.http.problems import WRITE_PROBLEMS, FieldProblem, ProblemError, problems
from admin_api.http.routes import StrictRoute
from admin_api.http.services import Services, Serving
from admin_api.http.writes import Asked, Attempt, Write
from controller.face.history import (
    FindingRow,
    VerificationRow,
    get_verification,
    insert_verification,
    list_findings,
    list_verifications,
)

router = APIRouter(route_class=StrictRoute, tags=["Verifications"])

FINDINGS_MAX = 1_000
PARTITIONS_MAX = 2_000
DETAIL_CHARS_MAX = 300
#: The end of the year 9999, the latest that a timestamp can show.
WALL_MS_MAX = 253_402_300_799_999

Count = Annotated[int, Field(ge=0, le=INT32_MAX)]
BigCount = Annotated[int, Field(ge=0, le=INT64_MAX)]
Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
WallMs = Annotated[int, Field(ge=0, le=WALL_MS_MAX, description="Unix milliseconds")]
FindingKind = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$"),
    Field(description="what is wrong, in a word", examples=["crc_mismatch"]),
]
VerificationId = Annotated[
    str, StringConstraints(min_length=1, max_length=64), Field(examples=["ver_Zk1lV0pCTEq4nY6mXw2v3A"])
]


class FoundBody(RequestBody):
    """A fault at offsets of one partition."""

    kind: FindingKind
    topic: TopicName
    partition: PartitionNumber
    broker_id: BrokerId | None = Field(
        default=None, description="whose replica it is; null: all replicas have it alike", examples=[3]
    )
    first_offset: Offset
    last_offset: Offset = Field(description="the last one that it is about")
    batches: BigCount = Field(default=0, description="wrong in this way one after another; 0: no batches")
    detail: Annotated[str, StringConstraints(max_length=DETAIL_CHARS_MAX)] = ""


class VerifiedBody(RequestBody):
    """The verified range of a partition."""

    topic: TopicName
    partition: PartitionNumber
    first_offset: Offset
    next_offset: Offset = Field(description="the first that was not looked at")
    records: BigCount
    findings: BigCount = 0


class RecordVerification(RequestBody):
    """A verification that was carried out: totals of everything; findings and partitions as far as they
    fit."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "began_at_ms": 1_795_305_600_000,
                    "ended_at_ms": 1_795_305_720_000,
                    "topics": 1,
                    "partitions_total": 1,
                    "batches": 1_200,
                    "records": 24_000,
                    "bytes": 2_640_000,
                    "compared_bytes": 7_920_000,
                    "findings_total": 1,
                    "findings": [
                        {
                            "kind": "crc_mismatch",
                            "topic": "orders",
                            "partition": 0,
                            "broker_id": 3,
                            "first_offset": 4_000,
                            "last_offset": 4_019,
                            "batches": 1,
                            "detail": "stored CRC 1c6e0d58, the bytes have 77e1a9f0",
                        }
                    ],
                    "partitions": [
                        {
                            "topic": "orders",
                            "partition": 0,
                            "first_offset": 0,
                            "next_offset": 24_000,
                            "records": 24_000,
                            "findings": 1,
                        }
                    ],
                    "reason": "nightly",
                }
            ]
        }
    )

    began_at_ms: WallMs
    ended_at_ms: WallMs
    topics: Count
    partitions_total: Count
    batches: BigCount
    records: BigCount
    bytes: BigCount = Field(description="of one replica of each partition")
    compared_bytes: BigCount = Field(description="of all replicas together")
    findings_total: Count
    findings: Annotated[list[FoundBody], Field(max_length=FINDINGS_MAX, default_factory=list)]
    partitions: Annotated[list[VerifiedBody], Field(max_length=PARTITIONS_MAX, default_factory=list)]
    reason: Reason | None = None


class FindingView(View):
    """A fault at offsets of one partition."""

    position: int = Field(description="in the order in which they were reported, from 0")
    kind: str = Field(examples=["crc_mismatch"])
    topic: str = Field(examples=["orders"])
    partition: int
    broker_id: int | None = Field(description="whose replica it is; null: all replicas have it alike")
    first_offset: int
    last_offset: int = Field(description="the last one that it is about")
    batches: int
    detail: str


class VerifiedView(View):
    """The verified range of a partition."""

    topic: str = Field(examples=["orders"])
    partition: int
    first_offset: int
    next_offset: int = Field(description="the first that was not looked at")
    records: int
    findings: int


class VerificationSummary(View):
    """A verification, without what it says of each partition."""

    id: str = Field(examples=["ver_Zk1lV0pCTEq4nY6mXw2v3A"])
    cluster: str = Field(examples=["prod"])
    verdict: str = Field(description="`sound`, or `damaged` if anything was found", examples=["sound"])
    began_at: str
    ended_at: str
    recorded_at: str
    topics: int
    partitions_total: int
    batches: int
    records: int
    bytes: int = Field(description="of one replica of each partition")
    compared_bytes: int = Field(description="of all replicas together")
    findings_total: int
    findings_kept: int = Field(description="of them, those that `/findings` lists")
    actor: str
    reason: str | None


class ReplicaVerificationView(VerificationSummary):
    """The findings of a verification of replicas."""

    partitions: list[VerifiedView] = Field(description="those with findings first; not all of a large one")


class VerificationList(ViewList[VerificationSummary]): ...


class FindingList(ViewList[FindingView]): ...


def verification_summary(row: VerificationRow) -> VerificationSummary:
    return VerificationSummary.of(
        row,
        verdict="damaged" if row.findings else "sound",
        began_at=timestamp(row.began_at_ms),
        ended_at=timestamp(row.ended_at_ms),
        recorded_at=timestamp(row.recorded_at_ms),
        findings_total=row.findings,
    )


def verification_view(row: VerificationRow) -> ReplicaVerificationView:
    return ReplicaVerificationView.of(verification_summary(row), partitions=row.partitions)


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
    kept = await services.database.write(insert_verification, row=row, findings=findings)
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
    row = await services.database.read(get_verification, cluster=cluster, verification_id=verification_id)
    if row is None:
        raise ProblemError(
            "verification_not_found", f"cluster {cluster!r} has no verification {verification_id!r}"
        )
    return row


VerificationPath = Annotated[
    VerificationId, Path(description="the verification's id", examples=["ver_Zk1lV0pCTEq4nY6mXw2v3A"])
]


@router.get(
    "/clusters/{cluster}/verifications",
    operation_id="listVerifications",
    summary="List the cluster's verifications, newest first",
    response_model=VerificationList,
    responses=problems("cluster_not_found", "audit_unavailable"),
)
async def list_them(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    paging: Paged,
) -> Response:
    """List verifications: whether replicas were identical, complete and in order, each time that they were
    checked."""
    services.engine.cluster(cluster)
    below = paging.after("verifications", int, str)
    rows = await services.database.read(list_verifications, cluster=cluster, below=below, limit=paging.rows)
    page, token = paging.cut(rows, lambda row: ["verifications", row.recorded_at_ms, row.id])
    items = [verification_summary(row) for row in page]
    return show(request, VerificationList(items=items, next_page_token=token))


@router.post(
    "/clusters/{cluster}/verifications",
    operation_id="recordVerification",
    summary="Keep what a verification found",
    status_code=201,
    response_model=ReplicaVerificationView,
    responses={
        200: {"model": ReplicaVerificationView, "description": "Dry run: what would be kept"},
        201: {"headers": {"Location": LOCATION_HEADERS["Location"]} | REPLAYED_HEADERS},
        **problems("cluster_not_found", "audit_unavailable", *WRITE_PROBLEMS),
    },
)
async def record_it(
    *, body: RecordVerification, services: Serving, write: Write, cluster: ClusterPath
) -> Response:
    """Record a verification, as `pipeline verify --record` does. The newest four hundred of a cluster are
    kept."""
    asked = Asked(
        cluster=cluster,
        action="record_verification",
        # The lists are stored in their own tables.
        body=body.model_dump(mode="json", exclude={"findings", "partitions"}),
        reason=body.reason,
    )
    return await write.carry_out(asked, partial(record_verification, services, cluster, body=body))


@router.get(
    "/clusters/{cluster}/verifications/{verification_id}",
    operation_id="getVerification",
    summary="Look at a verification",
    response_model=ReplicaVerificationView,
    responses=problems("cluster_not_found", "verification_not_found", "audit_unavailable"),
)
async def get_it(
    request: Request, services: Serving, cluster: ClusterPath, verification_id: VerificationPath
) -> Response:
    """Show what a verification has compared and found. Answers 404 if none has this id."""
    services.engine.cluster(cluster)
    return show(request, verification_view(await find_verification(services, cluster, verification_id)))


@router.get(
    "/clusters/{cluster}/verifications/{verification_id}/findings",
    operation_id="listFindings",
    summary="List what a verification found to be wrong",
    response_model=FindingList,
    responses=problems("cluster_not_found", "verification_not_found", "audit_unavailable"),
)
async def list_what_is_wrong(
    *,
    request: Request,
    services: Serving,
    cluster: ClusterPath,
    verification_id: VerificationPath,
    paging: Paged,
) -> Response:
    """List what a verification found to be wrong. Answers 404 if no verification has this id."""
    services.engine.cluster(cluster)
    await find_verification(services, cluster, verification_id)
    (after,) = paging.after("findings", int) or (-1,)
    rows = await services.database.read(
        list_findings, verification_id=verification_id, after=after, limit=paging.rows
    )
    page, token = paging.cut(rows, lambda row: ["findings", row.position])
    return show(request, FindingList(items=[FindingView.of(row) for row in page], next_page_token=token))
