"""The REST models of safety receipts."""

from __future__ import annotations

from pydantic import Field

from admin_api.views import View


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


class TallyView(View):
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
        description="whether rows wait to be written; null: this controller can't tell, ask the active one"
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
    below_min: TallyView = Field(description="partitions with fewer in sync than their minimum")
    began_below_min: int = Field(description="of these: how many were so when the operation began")
    leaderless: TallyView = Field(description="partitions that nobody led for a time")
    evidence: EvidenceView
