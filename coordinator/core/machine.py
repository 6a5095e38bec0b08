"""The machine that a shard runs: it decides with values, and its state is the records of the shard's log.

The runtime (shard.py) steps a machine with an event, applies the records of the outcome to it at once and
appends them as one record batch. Replies wait until the batch is committed. A machine therefore shows two
states: *latest*, from which it decides, and *committed*, from which it answers reads. If the leader refuses a
batch, the runtime takes its records back (`undo`), and those of every batch behind it, and tells the machine
(`refused`); one that is committed it is told of, too (`written`).

A machine keeps all its replayed state in TwoViews (views.py). Waiting requests and timers are not replayed:
`opened` starts them again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol

from msgspec import Struct

from springtide.wire.errors import ErrorCode


class ShardRecord(NamedTuple):
    """One record of a shard's log. value None: a tombstone."""

    key: bytes
    value: bytes | None


class UnreadableState(Exception):
    """A record of the log can't be taken in: a later release wrote it, or it is none of ours. What was
    replayed is not the shard's state, and must not be served."""


class RequestReply(Struct, frozen=True):
    """token: the request's, chosen by the shell. message: a value of the machine's own (JoinGroupReply)."""

    token: int
    message: object


class Timer(Struct, frozen=True):
    """Step the machine with TimerDue at at_ms; None cancels. A second Timer of the same key replaces the
    first."""

    key: Hashable
    at_ms: int | None


class TimerDue(Struct, frozen=True):
    """The event of a timer. A timer is due once. expiry_ms: the Unix time up to which things have expired;
    None if nothing may be deleted by time now, since clocks disagree (I36, no clock destroys alone)."""

    key: Hashable
    expiry_ms: int | None


class AnswerCame(Struct, frozen=True):
    """The event of the answer to a question of `StepOutcome.asks`. answer: None if it is lost, as it is with
    the process that was asked."""

    question: object
    answer: object


class StepOutcome(Struct, frozen=True):
    """The results of one step.

    records: one record batch, applied and written whole or not at all.
    replies: sent once the batch is committed; where there are no records, at once under the lease (13.8).
    work: what the machine must hear of once the batch is committed or refused: the one that holds the
        records, or that the replies wait for.
    waits: without records, the replies tell of records that were applied before: they are sent once what is
        under way is committed, and fail as that does.
    asks: questions that take longer than a step may, or need what the machine does not see. Each comes back
        once, as AnswerCame, unless the shard is closed before.
    """

    records: tuple[ShardRecord, ...] = ()
    replies: tuple[RequestReply, ...] = ()
    timers: tuple[Timer, ...] = ()
    work: Hashable = None
    waits: bool = False
    asks: tuple[object, ...] = ()


class Machine(Protocol):
    """The state machine of one shard. No method awaits, reads a clock or draws a random number.

    now_ms: monotonic, what timers go by. wall_ms: Unix milliseconds, for times that records hold.
    """

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        """Decide. Changes only what is not in records (waiting requests, timers): the runtime calls `apply`
        with each record right after."""

    def apply(self, record: ShardRecord, offset: int) -> None:
        """Apply a record to the latest view: of this process's own step, of a replay, or of a standby's tail.

        Total: takes any legal history and any legal compaction of it. Raise UnreadableState for a record of
        an unknown type or version: it may hold what must be seen before anything is served.
        """

    def committed(self, offset: int) -> None:
        """Move the committed view: all records below `offset` are committed."""

    def undo(self, offset: int) -> None:
        """Take the records from `offset` on out of the latest view: they were refused and never written."""

    def written(self, work: Hashable, now_ms: int, wall_ms: int) -> StepOutcome:
        """Return what happens now that the batch of `work` is committed, and its replies are sent."""

    def refused(self, work: Hashable, error: ErrorCode, now_ms: int, wall_ms: int) -> StepOutcome:
        """Return what happens now that the batch of `work` was refused and is undone, a rebalance after a
        refused SyncGroup for one. The runtime itself answers the waiting replies with the error."""

    def opened(self, now_ms: int, wall_ms: int) -> StepOutcome:
        """Return what happens now that the replay is complete and the shard serves: session timers start."""

    def closed(self) -> tuple[int, ...]:
        """Return the tokens of all parked requests, which the runtime answers with NOT_COORDINATOR: the shard
        belongs to another process now. The machine is not used afterwards."""
