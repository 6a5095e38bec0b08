"""What a shard's runtime and its shell say to each other. Values only.

The shell steps the runtime with an event and carries out the effects in their order. It answers each
AppendBatch exactly once, with LOST where no answer came, and so each ReadLog that no later one has replaced.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, auto

from msgspec import Struct

from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WriterId
from springtide.wire.errors import ErrorCode

LOST = ErrorCode.NETWORK_EXCEPTION
"""The answer that never came: what was asked for may have been done, or may still be."""


class Ending(Enum):
    """Why a shard was closed. FENCED: a later opening has been named or written. BROKEN: the log is not what
    this writer wrote. CUT: an unclean election may have cut the log. RELEASED: it was given away."""

    FENCED = auto()
    BROKEN = auto()
    CUT = auto()
    RELEASED = auto()


class ShardTimer(Enum):
    """The runtime's own timers; all others are the machine's."""

    READ = auto()
    SEND = auto()
    HELD = auto()


# Events.


class LeaderKnown(Struct, frozen=True):
    """What the newest metadata says of the partition. unclean_leader_epoch: the latest leader epoch that an
    unclean election began, or -1."""

    leader_epoch: LeaderEpoch
    unclean_leader_epoch: int


class ShardGiven(Struct, frozen=True):
    """The controller gives the shard to this coordinator, which followed its log until now. writer: named
    with it, and in no ShardGiven before; None: one has to be asked for. nonce: fresh random bytes."""

    writer: WriterId | None = None
    nonce: bytes = b""


class ShardTaken(Struct, frozen=True):
    """The controller gives the shard to another coordinator. What is under way is finished or fenced."""


class WriterNamed(Struct, frozen=True):
    """The answer to AskWriter `ask`. nonce: fresh random bytes."""

    ask: int
    writer: WriterId
    nonce: bytes


class BatchAnswered(Struct, frozen=True):
    """What the leader said to one attempt. base_offset: where the batch stands, if it does."""

    attempt: int
    error: ErrorCode
    base_offset: int = -1


class LogWasRead(Struct, frozen=True):
    """What the leader said to one ReadLog. batches: whole record batches below its high watermark.
    tombstone_floor: tombstones below it are gone; 0 unless it is above the offset that was asked for."""

    read: int
    error: ErrorCode
    high_watermark: int = -1
    batches: bytes = b""
    tombstone_floor: int = 0


class RequestCame(Struct, frozen=True):
    """A client's request, as the machine understands it. token: the shell's name of it."""

    token: int
    request: object


class MachineTold(Struct, frozen=True):
    """Something of the cluster that the machine has to know beside requests. The last is kept, and told to
    each machine before it serves."""

    news: object


class TurnEnded(Struct, frozen=True):
    """No more requests come for now: what the last ones wrote is sent."""


class TimerFired(Struct, frozen=True):
    """expiry_ms: see TimerDue."""

    key: Hashable
    expiry_ms: int | None


ShardEvent = (
    LeaderKnown
    | ShardGiven
    | ShardTaken
    | WriterNamed
    | BatchAnswered
    | LogWasRead
    | RequestCame
    | MachineTold
    | TurnEnded
    | TimerFired
)


# Effects.


class AppendBatch(Struct, frozen=True):
    """Produce it with acks=all to the partition's leader. connection: attempts with an equal number go over
    one connection, in order; a new number needs a new connection."""

    attempt: int
    connection: int
    batch: bytes


class ReadLog(Struct, frozen=True):
    """Fetch from the leader of this leader epoch, and no other broker."""

    read: int
    offset: int
    leader_epoch: LeaderEpoch


class AskWriter(Struct, frozen=True):
    """Have the controller name a new writer for this shard; ask again until it answers, or the shard is
    taken."""

    ask: int


class AnswerRequest(Struct, frozen=True):
    """answer: a message of the machine's, or the error."""

    token: int
    answer: object


class SetTimer(Struct, frozen=True):
    """Step with TimerFired(key) at at_ms; None cancels. Replaces an earlier one of the key."""

    key: Hashable
    at_ms: int | None


class ShardClosed(Struct, frozen=True):
    """The last effect: forget this runtime and its timers. If the shard is still this coordinator's, begin
    anew."""

    ending: Ending


class LogIsAhead(Struct, frozen=True):
    """The log holds batches of a writer that the controller has not named yet: its metadata went back (I27,
    one writer per opening). The runtime stops; tell an operator."""

    found: WriterId
    named: WriterId


class LogIsUnreadable(Struct, frozen=True):
    """The log holds what this process can't take in (machine.UnreadableState), so it must not serve the
    shard. The runtime stops; tell an operator."""

    detail: str


ShardEffect = (
    AppendBatch | ReadLog | AskWriter | AnswerRequest | SetTimer | ShardClosed | LogIsAhead | LogIsUnreadable
)
