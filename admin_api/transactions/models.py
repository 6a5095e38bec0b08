"""The REST models of transactions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from admin_api.http.models import INT64_MAX, Reason, RequestBody, View, ViewList

#: The most partitions of a transaction, and transactions that hang, that one answer shows.
PARTITIONS_SHOWN_MAX: Final = 10_000
HANGING_SHOWN_MAX: Final = 100

ProducerId = Annotated[int, Field(ge=0, le=INT64_MAX)]


class TransactionPhase(StrEnum):
    """Kafka's states of a transaction, by which a list may be narrowed."""

    ONGOING = "ongoing"
    PREPARE_COMMIT = "prepare_commit"
    PREPARE_ABORT = "prepare_abort"
    PREPARE_EPOCH_FENCE = "prepare_epoch_fence"
    COMPLETE_COMMIT = "complete_commit"
    COMPLETE_ABORT = "complete_abort"
    EMPTY = "empty"
    DEAD = "dead"
    UNKNOWN = "unknown"


class TransactionSummary(View):
    """A transactional id and its transaction. It is live while its state is `ongoing` or begins with
    `prepare`; of others there is no start, timeout and partition."""

    transactional_id: str = Field(examples=["payments-1"])
    producer_id: int = Field(examples=[4000])
    producer_epoch: int | None = Field(description="null: not live")
    client_id: str | None = Field(
        description="of the producer, as its last request to the coordinator had it; null: not known, as of "
        "one that is not live, or after another coordinator took over",
        examples=["payments-app"],
    )
    client_host: str | None = Field(examples=["10.0.0.7"])
    state: str = Field(
        description="`ongoing`; `prepare_commit`, `prepare_abort`: its end is decided, and is being written "
        "to its partitions; `complete_commit`, `complete_abort`, `empty`: none is live",
        examples=["ongoing"],
    )
    started_at: str | None
    age_ms: int | None = Field(examples=[65_000])
    timeout_ms: int | None = Field(description="after so long its coordinator aborts it", examples=[60_000])
    lingers: bool = Field(description="it is older than its timeout by more than a minute: an alarm")
    partitions_total: int | None = Field(description="in which it is not ended yet", examples=[3])
    waiting_records: int | None = Field(
        description="records that readers of committed records do not get because of it, in all partitions; "
        "null: not known, as on a standby",
        examples=[1200],
    )


class WaitView(View):
    """What readers of committed records wait for in a partition. Unknown values are null."""

    topic: str
    partition: int
    readers_wait_at: int | None = Field(
        description="the last stable offset, if this transaction holds it; null: another one does"
    )
    waiting_records: int | None = Field(
        description="from there to the high watermark; 0: readers do not wait for this transaction",
        examples=[1200],
    )
    freed_records: int | None = Field(
        description="of those, the ones before the next open transaction: readers get them when this ends",
        examples=[800],
    )


class HangingTransaction(WaitView):
    """A transaction that is open in a partition, and that no coordinator has: nothing ends it by itself."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    open_since: str


class TransactionList(ViewList[TransactionSummary]):
    unanswered: list[str] = Field(
        description="why coordinators did not answer; their transactions are missing from the list"
    )
    hanging: list[HangingTransaction] = Field(
        description=f"those that no coordinator has, whatever the list is narrowed to; at most "
        f"{HANGING_SHOWN_MAX}; an alarm for each producer"
    )


class TransactionView(TransactionSummary):
    coordinator_id: int = Field(examples=[1001])
    coordinator_endpoint: str = Field(examples=["desk1:9092"])
    partitions: list[WaitView] = Field(description=f"at most {PARTITIONS_SHOWN_MAX}")


class AbortTransaction(RequestBody):
    """The reason."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "its job was removed"}]})

    reason: Reason | None = None


class TransactionAborted(View):
    """The transaction that is aborted, with its partitions as they were."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str = Field(description="after it; of a dry run, now", examples=["complete_abort"])
    changed: bool = Field(description="false of a dry run")
    freed_records: int | None = Field(
        description="records that readers of committed records get once it has ended; null: not known"
    )
    partitions: list[WaitView] = Field(description=f"at most {PARTITIONS_SHOWN_MAX}")


class EndHangingTransaction(RequestBody):
    """The producer whose transaction hangs in the partition."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"producer_id": 4000, "reason": "no coordinator has it"}]}
    )

    producer_id: ProducerId = Field(examples=[4000])
    reason: Reason | None = None


class TransactionEnded(HangingTransaction):
    """The transaction that hung, with the partition as it was."""

    changed: bool = Field(description="false of a dry run")
    fences: str | None = Field(
        description="the transactional id whose producer still has this epoch: it is fenced first, with what "
        "it has open elsewhere aborted, or the marker could end what it begins meanwhile; null: none"
    )
