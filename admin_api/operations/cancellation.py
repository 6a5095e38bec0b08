"""What the cancellation of an operation leaves as it is, in numbers and in words, and the command that takes
it back."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from admin_api.http.models import View
from controller.face.database import OperationRow
from controller.face.operations import (
    FINISHED,
    BrokerAdd,
    BrokerDrain,
    CancelMode,
    Fate,
    Reassignment,
    ReplicationFactorChange,
    StepState,
    Work,
)


class CancellationView(View):
    """What a cancellation leaves: what had arrived stays."""

    mode: str = Field(description="`rollback` or `keep`", examples=["rollback"])
    moved: int = Field(description="moves that have arrived: they stay")
    under_way: int = Field(description="moves that go back (`rollback`) or arrive (`keep`); 0 at the end")
    rolled_back: int = Field(description="moves that are back")
    not_begun: int = Field(description="moves that never begin")
    detail: str = Field(description="all of it in words, with the command that takes back what stays")
    undo: str | None = Field(
        description="the command that takes that back once the operation has ended; null: nothing stays",
        examples=["springtide operations undo op_Zk1lV0pCTEq4nY6mXw2v3A"],
    )


class _Counts(NamedTuple):
    moved: int
    under_way: int
    rolled_back: int
    not_begun: int


def cancellation_of(row: OperationRow, work: Work) -> CancellationView | None:
    """Return None of an operation whose cancellation was not asked for."""
    asked = work.cancellation
    if asked is None:
        return None
    counts = _counts(work)
    stay = counts.moved + (counts.under_way if asked.mode is CancelMode.KEEP else 0)
    undo = f"springtide operations undo {row.id}" if stay else None
    words = [*_of_moves(counts, asked.mode), *_of_kind(work)]
    if counts.under_way and _is_throttled(work):
        words.append("the throttle ends with the moves under way")
    if undo is not None:
        when = "" if row.state in FINISHED else " once it has ended"
        words.append(f"`{undo}` takes back what stays{when}")
    return CancellationView(
        mode=asked.mode.value, **counts._asdict(), detail="; ".join(words) or "nothing had begun", undo=undo
    )


def _counts(work: Work) -> _Counts:
    if isinstance(work.spec, Reassignment):
        count = work.fates.count
        return _Counts(count(Fate.MOVED), count(Fate.MOVING), count(Fate.ROLLED_BACK), 0)
    execution, before = work.execution, work.campaign.moved
    if execution is None:
        return _Counts(before, 0, 0, 0)
    ended = execution.ended
    return _Counts(
        moved=before + execution.moved,
        under_way=execution.cursor - sum(ended.values()),
        rolled_back=ended.get(Fate.ROLLED_BACK, 0),
        not_begun=execution.moves_total - execution.cursor + ended.get(Fate.NOT_BEGUN, 0),
    )


def _of_moves(counts: _Counts, mode: CancelMode) -> list[str]:
    if not any(counts):
        return []
    told = (
        (counts.under_way, "moves under way, which " + ("arrive" if mode is CancelMode.KEEP else "go back")),
        (counts.rolled_back, "moves that went back"),
        (counts.not_begun, "moves that never begin"),
    )
    return [
        f"finished moves, which stay: {counts.moved} of {sum(counts)}",
        *(f"{what}: {number}" for number, what in told if number),
    ]


def _of_kind(work: Work) -> list[str]:
    spec = work.spec
    if isinstance(spec, BrokerDrain):
        return [f"broker {spec.broker_id} takes new replicas again"]
    if isinstance(spec, BrokerAdd):
        ids = ", ".join(str(broker.broker_id) for broker in spec.brokers)
        is_in = any(step.name == "register" and step.state is StepState.SUCCEEDED for step in work.steps)
        return [f"brokers {ids} stay in the cluster" if is_in else "brokers that were admitted stay so"]
    if isinstance(spec, ReplicationFactorChange):
        return [f"partitions whose move is finished have {spec.replication_factor} replicas"]
    return []


def _is_throttled(work: Work) -> bool:
    return work.execution is not None and work.execution.throttle_bytes_per_s is not None
