"""The effects of a replica: what it asks its shell to do. Values only: a replica never calls out.

Every call on a replica returns its effects in order; the shell carries them out in that order, for the
replica it called (effects don't name the partition). An effect's docstring says what must be durable before
it and what must be reported back. Effects without fields are shared objects, so that a busy partition makes
none per batch, and an idle one makes none at all.

All standing effects (`StartFetching`, `StopFetching`) are idempotent: the shell compares with what runs. A
state delivered twice repeats them, which is how a half-carried-out transition gets finished (I25 (applied is
said afterwards), S33 (an exception in a transition)).
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from dataplane.core.results import DeletionResult
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import ReplicaProblem
from springtide.wire.errors import ErrorCode


class CompleteProduce(msgspec.Struct, frozen=True):
    """Answer these waiting producers, all with `error`. `waiters` are the objects given to `append`, in
    offset order. With NONE, every record they wait for is committed (I4, acknowledged means committed). With
    any other error the outcome is unknown to the producer: its records may be in the log and may yet
    commit."""

    waiters: tuple[object, ...]
    error: ErrorCode


class CompleteDeletion(msgspec.Struct, frozen=True):
    """Answer these waiting deletions, all with `result`. `waiters` are the objects given to `delete_records`.
    With an error the outcome is unknown to the client: the records are gone here, and may come back (I37,
    what a client deleted stays deleted)."""

    waiters: tuple[object, ...]
    result: DeletionResult


class LogStartMoved(msgspec.Struct, frozen=True):
    """Store the log start, durably, in a thread; then call `on_log_start_stored` with what was stored. A
    leader's followers are told with their next answer, or soon, as of a high watermark."""


class DataAppended(msgspec.Struct, frozen=True):
    """The leader's log grew: answer parked replica fetches of this partition
    (`FetchSessions.on_data_appended`)."""


class HighWatermarkMoved(msgspec.Struct, frozen=True):
    """Read `replica.high_watermark`. Answer parked consumer fetches at once; tell followers with their
    next answer, or soon (`FetchSessions.on_high_watermark_moved`). Checkpoint it within its interval."""


class LeadershipChanged(msgspec.Struct, frozen=True):
    """Role or leader epoch changed: every parked fetch of this partition must be evaluated again, because its
    answer is now an error (`FetchSessions.on_leadership_changed`)."""


class ProposalReady(msgspec.Struct, frozen=True):
    """Call `due_proposal` when the next lag report is put together, and send one soon. The promise begins
    when `due_proposal` returns it."""


class StartFetching(msgspec.Struct, frozen=True):
    """Fetch this partition from `leader_id` in `leader_epoch`, from `next_fetch()` on, and from no other
    broker. Replaces any earlier StartFetching. Answers of requests sent before are harmless: `on_fetched`
    drops them."""

    leader_id: int
    leader_epoch: LeaderEpoch


class StopFetching(msgspec.Struct, frozen=True):
    """Take the partition out of the fetch session, telling the leader (KIP-227 forgotten topics): the leader
    reads a session that still holds the partition as proof that this follower still follows it."""


class BackOff(msgspec.Struct, frozen=True):
    """The leader could not answer for this partition: take it out of the session for `delay_ms`, then fetch
    again from `next_fetch()` if the replica still wants to (L6: never drop it for good)."""

    delay_ms: int
    error: ErrorCode


class CopyDivergent(msgspec.Struct, frozen=True):
    """A truncation to `cut_offset` is due. Copy the whole batches in [first_offset, next_offset) to
    `divergent/`, with a description, fsync both and their directory, in a thread; then call
    `on_divergent_copied(hold_id, ...)`. The log is not touched before that (nothing is lost silently).

    May come again with the same hold_id while the first is under way: do it once. `cut_offset` is
    first_offset; lower when the whole log goes; at or beyond next_offset when the log begins anew at the
    leader's start. Below `high_watermark` only after an unclean election, and where a replica
    without a seat begins anew because its leader's log was compacted. What is rotten is not copied.
    """

    hold_id: int
    first_offset: int
    next_offset: int
    leader_epoch: LeaderEpoch
    high_watermark: int
    cut_offset: int


class MendLog(msgspec.Struct, frozen=True):
    """Fetch what is rotten in the log from the leader, write it over, and call `on_mended`. The replica holds
    no seat and follows no leader meanwhile (5.7, scrubbing). Idempotent, like a standing effect."""

    leader_id: int
    leader_epoch: LeaderEpoch


class CheckAtRest(msgspec.Struct, frozen=True):
    """Read the log's bytes from this offset on at once, as a scrub does: a follower asks again and again for
    what it was given, so it may refuse it."""

    first_offset: int


class PersistEpochs(msgspec.Struct, frozen=True):
    """A leader epoch began, or a mark had its effect: write the leader-epoch file if it is behind, and fsync
    it, in a thread (I20, an epoch's start is recorded; I15, no cut below the high watermark; KAFKA-15046).
    Nothing waits for it. What a killed process loses is an epoch without a record, and no log has to be told
    from another by that; a machine crash costs the replica its seat."""


class Vouch(msgspec.Struct, frozen=True):
    """The log is sealed, and records were written beyond its seal: remove the seal, durably, or make the
    records durable, in a thread; then call `on_vouched`. May come again while the first is under way."""


class ReportProblem(msgspec.Struct, frozen=True):
    """Put it in the next lag report, and send one soon. Deliver at least once."""

    problem: ReplicaProblem


class RemarkKind(Enum):
    """What a remark is about, for a driver that looks for it."""

    STATE_GOES_BACK = auto()
    BEGUN_ANEW_FOR_A_ROUND = auto()
    BEGINS_ANEW_FOR_ROT = auto()
    BATCH_REFUSED = auto()
    DIVERGES_AT_UNKNOWN = auto()
    DIVERGES_NOWHERE = auto()
    LEASE_LAPSED = auto()


class Remark(msgspec.Struct, frozen=True):
    """Something for the log file. `text` is complete; the shell adds topic and partition."""

    kind: RemarkKind
    text: str
    is_warning: bool = False


Effect = (
    CompleteProduce
    | CompleteDeletion
    | LogStartMoved
    | DataAppended
    | HighWatermarkMoved
    | LeadershipChanged
    | ProposalReady
    | StartFetching
    | StopFetching
    | BackOff
    | CopyDivergent
    | MendLog
    | CheckAtRest
    | PersistEpochs
    | Vouch
    | ReportProblem
    | Remark
)

Effects = tuple[Effect, ...]

NO_EFFECTS: Effects = ()
DATA_APPENDED = DataAppended()
HIGH_WATERMARK_MOVED = HighWatermarkMoved()
LEADERSHIP_CHANGED = LeadershipChanged()
PROPOSAL_READY = ProposalReady()
STOP_FETCHING = StopFetching()
PERSIST_EPOCHS = PersistEpochs()
VOUCH = Vouch()
LOG_START_MOVED = LogStartMoved()
