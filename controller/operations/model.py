"""The parts of an operation: values that are stored in SQL and advanced by pure functions.

    preflight --all there--> running --done--> succeeded
        |  deadline, mismatch    |  deadline
        +------------------------+--> failed
                                 |  cancelled --> cancelling --rolled back--> cancelled
                                 +--what it works on was taken back or replaced--> cancelled

Operations that carry out a plan (execution.py) have these states, besides:

    awaiting_approval --> scheduled --its time has come--> running <--> paused
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from controller.database.rows import LaterRelease, OperationRow
from controller.operations.hours import DailyWindow
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey

#: Of many, so that an operation's row stays small; its summary has the number of all.
BLOCKED_SHOWN: Final = 100
REFUSED_SHOWN: Final = 1_000


class OperationState(StrEnum):
    PREFLIGHT = "preflight"
    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED)
#: Nothing has been begun yet.
NOT_STARTED = (
    OperationState.PREFLIGHT,
    OperationState.PLANNING,
    OperationState.AWAITING_APPROVAL,
    OperationState.SCHEDULED,
)


class StepState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of an operation's row. Fields are only ever added, so one that is not known here is a later
    release's, and writing the row again would lose it. A new field is left out (UNSET) until the cluster's
    level allows it: the release before leaves rows that have it alone."""


class OperationStep(_Stored, frozen=True, kw_only=True):
    name: str
    state: StepState = StepState.PENDING


class Blocked(_Stored, frozen=True, kw_only=True):
    """The cause of a wait. code: e.g. `broker_unreachable`, `broker_not_active`, `replica_unreachable`,
    `no_other_leader`; of a reassignment, a `BlockedReason`, or why it can't be rolled back now."""

    code: str
    detail: str
    broker_id: int | None = None
    topic: str | None = None
    partition: int | None = None


class OperationError(_Stored, frozen=True, kw_only=True):
    """Why it failed. code: `deadline_exceeded`, `endpoint_mismatch`, `rack_mismatch`, `broker_removed`,
    `topic_deleted`, `elections_refused`, or a refusal's."""

    code: str
    detail: str


#: Moves of one operation that are on their way at once, unless the operator says otherwise.
CONCURRENT_MOVES: Final = 50
CONCURRENT_MOVES_MAX: Final = 1_000


class MoveOptions(_Stored, frozen=True, kw_only=True):
    """The limits for moving data. throttle_bytes_per_s: of each broker; None: unthrottled. not_before_ms:
    wall clock; an operation that makes its own plans makes them no earlier, either. window: when moves begin,
    and plans are made; None: at any time."""

    throttle_bytes_per_s: int | None = None
    max_concurrent_moves: int = CONCURRENT_MOVES
    not_before_ms: int | None = None
    window: DailyWindow | None = None


class BrokerToAdd(_Stored, frozen=True, kw_only=True):
    """replaces: a broker whose every place it takes."""

    broker_id: int
    host: str
    port: int
    rack: str | None = None
    replaces: int | None = None


class BrokerAdd(_Stored, frozen=True, kw_only=True, tag="broker_add"):
    """mode: `new_only`, `full` or `none`; of those that replace no other. disk_permille: as in Rebalance."""

    brokers: tuple[BrokerToAdd, ...]
    mode: str
    disk_permille: int | msgspec.UnsetType = msgspec.UNSET
    moves: MoveOptions = MoveOptions()


class BrokerDrain(_Stored, frozen=True, kw_only=True, tag="broker_drain"):
    broker_id: int
    moves: MoveOptions = MoveOptions()


class TopicDelete(_Stored, frozen=True, kw_only=True, tag="topic_delete"):
    topic: str
    topic_id: str


class LeaderElection(_Stored, frozen=True, kw_only=True, tag="leader_election"):
    topic: str
    partition: int
    election: str
    leader: int
    leader_epoch: LeaderEpoch


class PreferredElection(_Stored, frozen=True, kw_only=True, tag="preferred_election"):
    """elected, refused: how many of the partitions that were named, or that lacked their preferred leader."""

    elected: int
    refused: int


class BrokerDemote(_Stored, frozen=True, kw_only=True, tag="broker_demote"):
    broker_id: int


class BrokerReturn(_Stored, frozen=True, kw_only=True, tag="broker_return"):
    broker_id: int


class PartitionsAdd(_Stored, frozen=True, kw_only=True, tag="partitions_add"):
    """partitions: how many the topic has with the new ones. Nothing here says which are new: a second attempt
    under one Idempotency-Key, whose first answer was lost, could not tell any more."""

    topic: str
    topic_id: str
    partitions: int


class ReassignmentMove(_Stored, frozen=True, kw_only=True):
    """One partition's way. original: its replicas before; replicas: the targets, preferred leader first."""

    topic: str
    topic_id: str
    partition: int
    original: tuple[int, ...]
    replicas: tuple[int, ...]

    @property
    def key(self) -> PartitionKey:
        return (self.topic_id, self.partition)


REASSIGNMENT: Final = "reassignment"


class Reassignment(_Stored, frozen=True, kw_only=True, tag=REASSIGNMENT):
    moves: tuple[ReassignmentMove, ...]


class ReassignmentCancel(_Stored, frozen=True, kw_only=True, tag="reassignment_cancel"):
    topic: str
    partition: int
    replicas: tuple[int, ...]


class PlanExecution(_Stored, frozen=True, kw_only=True, tag="plan_execution"):
    """undoes: the operation whose moves this one takes back."""

    plan_id: str
    undoes: str | None = None


class ReplicationFactorChange(_Stored, frozen=True, kw_only=True, tag="replication_factor_change"):
    topic: str
    topic_id: str
    replication_factor: int
    plan_id: str


Spec = (
    BrokerAdd
    | TopicDelete
    | LeaderElection
    | PreferredElection
    | BrokerDemote
    | BrokerReturn
    | PartitionsAdd
    | Reassignment
    | ReassignmentCancel
    | PlanExecution
    | BrokerDrain
    | ReplicationFactorChange
)


class Fate(StrEnum):
    """The fate of one move, as the partition's row tells it. All but the first three are final."""

    #: A plan's move that has not begun.
    PLANNED = "planned"
    #: A plan's move that is written down to begin now; the partition's row may not show it yet.
    STARTING = "starting"
    MOVING = "moving"
    MOVED = "moved"
    ROLLED_BACK = "rolled_back"
    #: Another request sent the partition elsewhere.
    REPLACED = "replaced"
    TOPIC_DELETED = "topic_deleted"
    #: A plan's move whose partition had been changed before its turn came, or that was refused.
    DRIFTED = "drifted"
    REFUSED = "refused"
    #: A plan's move that had not begun when the operation was cancelled.
    NOT_BEGUN = "not_begun"


class Refused(_Stored, frozen=True, kw_only=True):
    """A part that was refused for good, with a problem's code."""

    topic: str
    partition: int
    code: str
    detail: str


class CancelMode(StrEnum):
    #: What is on its way goes back.
    ROLLBACK = "rollback"
    #: What is on its way arrives.
    KEEP = "keep"


class Cancellation(_Stored, frozen=True, kw_only=True):
    """The request to undo an operation, for the audit rows of the undoing."""

    actor: str
    reason: str | None = None
    request_id: str | None = None
    mode: CancelMode = CancelMode.ROLLBACK


class Execution(MoveOptions, frozen=True, kw_only=True):
    """The progress of a plan's execution; the fate of each move is in the plan's own rows.

    moves_total, bytes_total: of the moves to be made, maybe only the first of the plan. cursor: moves before
    it have begun, or ended. ended: how many by fate. bytes_moved: planned bytes of those that have arrived.
    bytes_dropped: planned bytes of those that have ended in another way.
    elected_to: leaders have been elected for moves before it. elected: how many. turn: counts the plans that
    one operation has made. outcome: the plan's.
    """

    plan_id: str
    outcome: str
    moves_total: int
    bytes_total: int = 0
    cursor: int = 0
    ended: dict[str, int] = {}
    bytes_moved: int = 0
    bytes_dropped: int = 0
    elected_to: int = 0
    elected: int = 0
    turn: int = 0

    @property
    def moved(self) -> int:
        return self.ended.get(Fate.MOVED, 0)


class Campaign(_Stored, frozen=True, kw_only=True):
    """The progress of an operation that may need several plans. goal: the goals before it are reached.
    plans: how many were made so far, for all goals. tries: plans that did not reach the present goal.
    replan_at_ms: wall clock; the latest plan was carried out as far as possible, the next is made then.
    moved, bytes_moved: by the plans before the present one."""

    goal: int = 0
    plans: int = 0
    tries: int = 0
    replan_at_ms: int | None = None
    moved: int = 0
    bytes_moved: int = 0


#: In `Work.sizes`.
UNKNOWN_SIZE: Final = -1


class MoveTally(_Stored, frozen=True, kw_only=True):
    """The progress that is told. bytes_total: None while a move's size is not known."""

    moves_total: int
    moves_done: int
    bytes_total: int | None
    bytes_done: int


class Work(_Stored, frozen=True, kw_only=True):
    """The part of an operation that its kind knows about: what was asked, and how far it is.

    fates: of a reassignment's moves, in their order. refused: at most REFUSED_SHOWN of them. execution: of
    the plan that it carries out, of kinds that do, as soon as there is one. campaign: of kinds that may need
    more than one. sizes: of a reassignment's moves, the bytes to be copied as they were told first. tally:
    the progress of the last look that changed it much.
    """

    spec: Spec
    steps: tuple[OperationStep, ...]
    blocked: tuple[Blocked, ...] = ()
    error: OperationError | None = None
    summary: str | None = None
    fates: tuple[Fate, ...] = ()
    refused: tuple[Refused, ...] = ()
    cancellation: Cancellation | None = None
    execution: Execution | None = None
    campaign: Campaign = Campaign()
    sizes: tuple[int, ...] = ()
    tally: MoveTally | None = None


def encode_work(work: Work) -> dict[str, Any]:
    """Encode the work as SQL returns it, with lists for tuples: unchanged work must compare equal."""
    encoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(work))
    return encoded


def is_progress_alone(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether two encoded works differ at most in the progress that is told."""
    progress = ("sizes", "tally")
    return all(before.get(name) == after.get(name) for name in {*before, *after} if name not in progress)


def decode_work(row: OperationRow) -> Work:
    """Return the operation's work. Raise LaterRelease if it is of a kind, in a state, or has parts that this
    release does not know: such a row is shown as it is, and nothing carries it on or writes it."""
    state_of(row)
    try:
        return msgspec.convert(row.body, Work)
    except msgspec.ValidationError as error:
        raise LaterRelease(f"operation {row.id} ({row.kind})", str(error)) from error


def state_of(row: OperationRow) -> OperationState:
    """Raise LaterRelease."""
    try:
        return OperationState(row.state)
    except ValueError as error:
        raise LaterRelease(f"operation {row.id} ({row.kind})", f"its state is {row.state!r}") from error


def with_steps(work: Work, **states: StepState) -> Work:
    """The same work with the named steps in other states."""
    steps = tuple(
        OperationStep(name=step.name, state=states.get(step.name, step.state)) for step in work.steps
    )
    return msgspec.structs.replace(work, steps=steps)


def begun(spec: Spec, *pending: str, **begun: StepState) -> Work:
    """Return new work: the named steps in these states, then those that are pending."""
    steps = tuple(OperationStep(name=name, state=state) for name, state in begun.items())
    return Work(spec=spec, steps=(*steps, *(OperationStep(name=name) for name in pending)))


def kind_of(work: Work) -> str:
    return str(work.spec.__struct_config__.tag)
