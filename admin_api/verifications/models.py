"""The REST models of verifications."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from admin_api.names import (
    INT32_MAX,
    INT64_MAX,
    BrokerId,
    PartitionNumber,
    Reason,
    TopicName,
    timestamp,
)
from admin_api.views import RequestBody, View
from controller.database.verification_rows import FindingRow, VerificationRow

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

    position: int = Field(description="in the order in which they were told, from 0")
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
    """What a verification of replicas found."""

    partitions: list[VerifiedView] = Field(description="those with findings first; not all of a large one")


class VerificationList(View):
    items: list[VerificationSummary]
    next_page_token: str | None


class FindingList(View):
    items: list[FindingView]
    next_page_token: str | None


def verification_summary(row: VerificationRow) -> VerificationSummary:
    return VerificationSummary(
        id=row.id,
        cluster=row.cluster,
        verdict="damaged" if row.findings else "sound",
        began_at=timestamp(row.began_at_ms),
        ended_at=timestamp(row.ended_at_ms),
        recorded_at=timestamp(row.recorded_at_ms),
        topics=row.topics,
        partitions_total=row.partitions_total,
        batches=row.batches,
        records=row.records,
        bytes=row.bytes,
        compared_bytes=row.compared_bytes,
        findings_total=row.findings,
        findings_kept=row.findings_kept,
        actor=row.actor,
        reason=row.reason,
    )


def verification_view(row: VerificationRow) -> ReplicaVerificationView:
    summary = verification_summary(row)
    return ReplicaVerificationView(
        **summary.model_dump(), partitions=[VerifiedView(**one) for one in row.partitions]
    )


def finding_view(row: FindingRow) -> FindingView:
    return FindingView(
        position=row.position,
        kind=row.kind,
        topic=row.topic,
        partition=row.partition,
        broker_id=row.broker_id,
        first_offset=row.first_offset,
        last_offset=row.last_offset,
        batches=row.batches,
        detail=row.detail,
    )
