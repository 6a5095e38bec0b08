"""What an operation is: values that are stored in SQL and advanced by pure functions.

    preflight --all there--> running --done--> succeeded
        |  deadline, mismatch    |  deadline
        +------------------------+--> failed

`planning`, `awaiting_approval`, `scheduled`, `paused`, `cancelling` and `cancelled` belong to operations that
move data; the names are reserved.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from controller.audit.operation_rows import OperationRow


class OperationState(StrEnum):
    PREFLIGHT = "preflight"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


FINISHED = (OperationState.SUCCEEDED, OperationState.FAILED)


class StepState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: StepState = StepState.PENDING


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """What it waits for. code: `broker_unreachable`, `broker_not_active`, `replica_unreachable`."""

    code: str
    detail: str
    broker_id: int | None = None
    topic: str | None = None
    partition: int | None = None


class OperationError(msgspec.Struct, frozen=True, kw_only=True):
    """Why it failed. code: `deadline_exceeded`, `endpoint_mismatch`, `rack_mismatch`, or a refusal's."""

    code: str
    detail: str


class BrokerToAdd(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: int
    host: str
    port: int
    rack: str | None = None


class BrokerAdd(msgspec.Struct, frozen=True, kw_only=True, tag="broker_add"):
    brokers: tuple[BrokerToAdd, ...]
    mode: str


class TopicDelete(msgspec.Struct, frozen=True, kw_only=True, tag="topic_delete"):
    topic: str
    topic_id: str


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, tag="leader_election"):
    topic: str
    partition: int
    election: str
    leader: int
    leader_epoch: int


Spec = BrokerAdd | TopicDelete | LeaderElection


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an operation that its kind knows about: what was asked, and how far it is."""

    spec: Spec
    steps: tuple[Step, ...]
    blocked: tuple[Blocked, ...] = ()
    error: OperationError | None = None
    summary: str | None = None


def encode_work(work: Work) -> dict[str, Any]:
    encoded: dict[str, Any] = msgspec.to_builtins(work)
    return encoded


def decode_work(row: OperationRow) -> Work:
    return msgspec.convert(row.body, Work)


def with_steps(work: Work, **states: StepState) -> Work:
    """The same work with the named steps in other states."""
    steps = tuple(Step(name=step.name, state=states.get(step.name, step.state)) for step in work.steps)
    return msgspec.structs.replace(work, steps=steps)


def kind_of(work: Work) -> str:
    return str(work.spec.__struct_config__.tag)
