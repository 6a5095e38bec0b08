"""One shard's life in a coordinator: follow its log, open it, serve from memory, and stop in time.

                 +--- the log was cut: from the beginning, with a new machine
                 v    |
                       +----given with its writer, level-------+
                       |                                       v
    start --> FOLLOWING --given, level--> ASKING --named--> OPENING --written--> READING --nonce--> SERVING
                 ^                          |                  |                    |                  |
                 |                          v                  +--- fenced ---------+                  |
                 |                       STOPPED: the log knows a later writer, or  |                  |
                 |                                    what can't be read            |                  |
                 +------------------------------------------------------------------+                  |
                                CLOSED <--fenced, broken, cut-- FINISHING <--taken---------------------+

The rules:

1. (one writer) An opening has a writer that was never named before, and begins with its opening record. The
   first one's comes with the shard; for each later one the controller is asked. An opening that was not
   completed is never resumed.
2. (level) No client is answered from the machine before the replay has come to that record. Another nonce in
   its place, or a later writer's batch before it, begins another opening.
3. (committed) A reply to a step with records waits until their batch is committed; one that tells of
   records under way, until these are. Without the lease any other waits for a record of this opening's, and
   so do replies whose batch was sent long ago: this process may have stood still, and another have the shard.
4. (unknown) An attempt with an unknown outcome is made again with the same bytes (writer.py).
5. (undone) What was refused is taken out of the machine before anything else is decided.
6. (cut) A leader epoch that an unclean election began, after this replay did, ends the replay, and a shard
   that serves: even an idle one may hold what is gone. Reads name the leader epoch, so no answer is from
   another log.
7. (held) What is asked while an opening is under way waits for it, and not for long: most end sooner than a
   client that was refused would come back.
8. (together) What requests write waits for the next event that is no request, TurnEnded at the latest: the
   records of a turn are one batch, as far as it has room.
9. (ahead) A writer in the log that is not below the one that the controller names afterwards proves that the
   controller's metadata went back: stop, and say so.
10. (unread) A record that can't be taken in, such as a later release's, stops the shard here: no client is
    answered without it, and it is not tried again and again.

Pure: `step` takes an event and the clocks and returns effects. A clock's reading is an argument, a nonce a
part of an event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import Enum, auto
from typing import assert_never

from coordinator.core.machine import AnswerCame, Machine, RequestReply, StepOutcome, TimerDue, UnreadableState
from coordinator.core.opening import opening_record
from coordinator.core.replay import NO_WRITER, ShardReplay
from coordinator.core.shard_ports import (
    AnswerRequest,
    Ask,
    AskWriter,
    BatchAnswered,
    Ending,
    LeaderKnown,
    LogIsAhead,
    LogIsUnreadable,
    LogWasRead,
    MachineTold,
    QuestionAnswered,
    ReadLog,
    RequestCame,
    SetTimer,
    ShardClosed,
    ShardEffect,
    ShardEvent,
    ShardGiven,
    ShardTaken,
    ShardTimer,
    TimerFired,
    TurnEnded,
    WriterNamed,
)
from coordinator.core.writer import ShardWriter, Stand
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import WriterId
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import CorruptBatch

BATCH_BYTES_MAX = 900_000
"""Below the max.message.bytes that coordinator topics are pinned to."""
HELD_MAX = 1_000
"""Requests that wait for an opening."""
HELD_MS_MAX = 500
"""How long they do. The opening of a level standby takes tens of milliseconds; a client that is refused comes
back after a tenth of a second or more."""
LATE_MS = 1_000
"""From then on a committed batch shows no longer, without the lease, that no other has opened the shard. Less
than the shortest sessions, after which another coordinator gives what a member has to others."""
SEND_AGAIN_MS = (20, 1_000)
"""The pause after a failed attempt, and what it grows to."""


class ShardPhase(Enum):
    FOLLOWING = auto()
    ASKING = auto()
    OPENING = auto()
    READING = auto()
    SERVING = auto()
    FINISHING = auto()
    STOPPED = auto()
    CLOSED = auto()


_REPLAYS = frozenset({ShardPhase.FOLLOWING, ShardPhase.READING})
_OPENS = frozenset({ShardPhase.ASKING, ShardPhase.OPENING, ShardPhase.READING})


class ShardRuntime:
    """new_machine: makes an empty one for each replay. read_pause_ms: between two reads where there was
    nothing to read. is_current: whether the process has its lease at a monotonic time in ms, and has heard of
    what had happened when it was granted (Lease.is_current). is_level: the replay has come to the high
    watermark that the leader last told: a shard that is followed so can be given here."""

    __slots__ = (
        "_ask",
        "_batch_bytes_max",
        "_effects",
        "_given",
        "_held",
        "_is_current",
        "_is_ours",
        "_leader_epoch",
        "_new_machine",
        "_news",
        "_nonce",
        "_now_ms",
        "_opening_offset",
        "_pause_ms",
        "_read",
        "_read_pause_ms",
        "_replay",
        "_unclean_epoch",
        "_wall_ms",
        "_writer",
        "is_level",
        "phase",
    )

    def __init__(
        self,
        new_machine: Callable[[], Machine],
        *,
        read_pause_ms: int,
        is_current: Callable[[int], bool],
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        self._new_machine = new_machine
        self._is_current = is_current
        self._read_pause_ms = read_pause_ms
        self._batch_bytes_max = batch_bytes_max
        self.phase = ShardPhase.FOLLOWING
        self.is_level = False
        self._is_ours = False
        #: As it was given, until its writer is used.
        self._given = ShardGiven()
        self._leader_epoch = -1
        self._unclean_epoch = -1
        self._replay = ShardReplay(new_machine())
        self._writer: ShardWriter | None = None
        self._nonce = b""
        self._opening_offset = -1
        self._ask = 0
        self._read = 0
        self._news: object = None
        self._pause_ms = SEND_AGAIN_MS[0]
        self._now_ms = self._wall_ms = 0
        self._effects: list[ShardEffect] = []
        #: Requests that wait for the opening that is under way.
        self._held: list[RequestCame] = []

    @property
    def machine(self) -> Machine:
        return self._replay.machine

    @property
    def position(self) -> int:
        """Return up to where the log has been replayed."""
        return self._replay.position

    def lag(self, high_watermark: int) -> int:
        """Return what the replay still has to do, in records."""
        return self._replay.lag(high_watermark)

    @property
    def found(self) -> WriterId | None:
        """Return the highest writer that was met in the log, if any was."""
        writer = self._replay.writer
        return None if writer == NO_WRITER else writer

    @property
    def has_unsent(self) -> bool:
        """Return whether requests have written what TurnEnded sends, if it may be sent yet."""
        return self._writer is not None and self._writer.has_waiting

    @property
    def writer(self) -> ShardWriter | None:
        """Return the writer of the opening that is under way or serves, if there is one."""
        return self._writer

    def step(self, event: ShardEvent, *, now_ms: int, wall_ms: int) -> list[ShardEffect]:
        """Return what is to be done, in order. now_ms: monotonic, what timers go by; wall_ms: Unix
        milliseconds, what records are stamped with."""
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._effects = []
        match event:
            case RequestCame():
                self._on_request(event)
                return self._effects
            case _ if self.phase in (ShardPhase.STOPPED, ShardPhase.CLOSED):
                pass
            case LeaderKnown():
                self._on_leader(event)
            case ShardGiven():
                self._on_given(event)
            case ShardTaken():
                self._finish()
            case WriterNamed():
                self._on_writer(event)
            case BatchAnswered():
                self._on_answer(event)
            case LogWasRead():
                self._on_read(event)
            case TimerFired():
                self._on_timer(event)
            case MachineTold():
                self._on_news(event)
            case QuestionAnswered(question, answer):
                if self.phase is ShardPhase.SERVING:
                    self._take(self.machine.step(AnswerCame(question, answer), self._now_ms, self._wall_ms))
            case TurnEnded():
                pass
            case _:
                assert_never(event)
        if self._held and self.phase not in _OPENS:
            self._release()
        if self._writer is not None:
            self._effects += self._writer.due(wall_ms, now_ms)
        return self._effects

    # Following.

    def _on_leader(self, event: LeaderKnown) -> None:
        if event.leader_epoch <= self._leader_epoch:
            return
        is_first = self._leader_epoch < 0
        self._leader_epoch = event.leader_epoch
        is_cut = event.unclean_leader_epoch > self._unclean_epoch and not is_first
        self._unclean_epoch = event.unclean_leader_epoch
        if is_cut and self.phase in (ShardPhase.SERVING, ShardPhase.FINISHING):
            self._close(Ending.CUT)
        elif is_cut:
            self._begin_anew()
            self._follow()
        elif is_first:
            self._read_on()

    def _follow(self) -> None:
        """Go on from the position. An opening that was begun is not taken up again."""
        self.phase = ShardPhase.FOLLOWING
        self.is_level = False
        self._writer = None
        self._effects.append(SetTimer(ShardTimer.SEND, None))
        self._read_on()

    def _read_on(self) -> None:
        self._read += 1
        self._effects.append(ReadLog(self._read, self._replay.position, LeaderEpoch(self._leader_epoch)))

    def _begin_anew(self) -> None:
        self._replay = ShardReplay(self._new_machine())
        self.is_level = False

    def _read_later(self) -> None:
        self._effects.append(SetTimer(ShardTimer.READ, self._now_ms + self._read_pause_ms))

    def _on_read(self, event: LogWasRead) -> None:
        if event.read != self._read or self.phase not in _REPLAYS:
            return
        replay = self._replay
        before = replay.position
        if event.error is ErrorCode.OFFSET_OUT_OF_RANGE:  # cut, by an election that is not known here yet
            self._begin_anew()
            self._read_later()
            return
        if event.error is ErrorCode.NONE:
            if replay.has_missed_deletions(event.tombstone_floor):
                self._begin_anew()
                self._read_on()
                return
            try:
                replay.read(event.batches)
                if self.phase is ShardPhase.READING:
                    replay.apply(None)
                elif replay.position >= event.high_watermark:
                    replay.apply()
            except CorruptBatch:  # the leader's scrub finds it
                self._read_later()
                return
            except UnreadableState as error:
                self._stop_unread(str(error))
                return
            self.is_level = replay.is_applied and replay.position >= event.high_watermark
        if self.phase is ShardPhase.READING and self._has_ended_reading():
            return
        if self.is_level and self._is_ours and self.phase is ShardPhase.FOLLOWING:
            self._begin_opening()
        elif replay.position > before or (event.error is ErrorCode.NONE and not replay.is_applied):
            self._read_on()
        else:
            self._read_later()

    def _stop_unread(self, detail: str) -> None:
        self.phase = ShardPhase.STOPPED
        self.is_level = False
        self._writer = None
        self._effects += [SetTimer(ShardTimer.SEND, None), LogIsUnreadable(detail)]

    # Opening.

    def _on_given(self, event: ShardGiven) -> None:
        """Open at once where the replay was level: what was written since is read behind the opening."""
        self._is_ours = True
        self._given = event
        if self.is_level and self.phase is ShardPhase.FOLLOWING:
            self._effects.append(SetTimer(ShardTimer.READ, None))
            self._begin_opening()
        self.is_level = False  # by what it knew before; the next read tells

    def _begin_opening(self) -> None:
        """Open under the writer that came with the shard, unless the log has a later one; or ask for one."""
        given, self._given = self._given, ShardGiven()
        self._ask += 1
        if given.writer is not None and given.writer > self._replay.writer:
            self._open(given.writer, given.nonce)
        else:
            self.phase = ShardPhase.ASKING
            self._effects.append(AskWriter(self._ask))

    def _on_writer(self, event: WriterNamed) -> None:
        if self.phase is not ShardPhase.ASKING or event.ask != self._ask:
            return
        if event.writer <= self._replay.writer:
            self.phase = ShardPhase.STOPPED
            self._effects.append(LogIsAhead(found=self._replay.writer, named=event.writer))
            return
        self._open(event.writer, event.nonce)

    def _open(self, writer: WriterId, nonce: bytes) -> None:
        self.phase = ShardPhase.OPENING
        self._nonce = nonce
        self._writer = ShardWriter(
            writer,
            next_offset=self._replay.position,
            batch_bytes_max=self._batch_bytes_max,
            first_attempt=self._ask << 32,
        )
        self._writer.add((opening_record(nonce),))

    def _has_ended_reading(self) -> bool:
        """Serve if the opening record was found; begin another opening if it can't be found any more."""
        assert self._writer is not None
        replay = self._replay
        if replay.writer > self._writer.writer:
            self._follow()
        elif replay.position > self._opening_offset:
            if replay.opening != opening_record(self._nonce):
                self._follow()
            else:
                self.phase = ShardPhase.SERVING
                self._writer.next_offset = replay.position
                if self._news is not None:
                    self._take(self.machine.step(self._news, self._now_ms, self._wall_ms))
                self._take(self.machine.opened(self._now_ms, self._wall_ms))
        else:
            return False
        return True

    # Serving.

    def _on_request(self, event: RequestCame) -> None:
        if self.phase is ShardPhase.SERVING:
            assert self._writer is not None
            if self._writer.is_full:
                self._answer(event.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # every client tries again
            else:
                self._take(self.machine.step(event.request, self._now_ms, self._wall_ms))
        elif self.phase is ShardPhase.STOPPED:
            self._answer(event.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif self.phase in _OPENS and len(self._held) < HELD_MAX:
            if not self._held:
                self._effects.append(SetTimer(ShardTimer.HELD, self._now_ms + HELD_MS_MAX))
            self._held.append(event)
        elif self._is_ours and self.phase is not ShardPhase.CLOSED:
            self._answer(event.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._answer(event.token, ErrorCode.NOT_COORDINATOR)

    def _on_news(self, event: MachineTold) -> None:
        self._news = event.news
        if self.phase is ShardPhase.SERVING:
            self._take(self.machine.step(event.news, self._now_ms, self._wall_ms))

    def _release(self) -> None:
        """Take the requests that were held as if they came now."""
        self._effects.append(SetTimer(ShardTimer.HELD, None))
        held, self._held = self._held, []
        for event in held:
            self._on_request(event)

    def _take(self, outcome: StepOutcome) -> None:
        """Carry one step of the machine out: its records are applied at once, and written as one batch."""
        assert self._writer is not None
        offset = self._writer.next_offset
        for place, record in enumerate(outcome.records):
            self.machine.apply(record, offset + place)
        if outcome.records:
            self._writer.add(outcome.records, outcome.replies, outcome.work)
        elif (outcome.replies or outcome.waits) and not self._is_current(self._now_ms):
            self._prove(outcome.replies, outcome.work)
        elif outcome.waits and not self._writer.is_empty:
            self._writer.add_replies(outcome.replies, outcome.work)
        else:
            for reply in outcome.replies:
                self._answer(reply.token, reply.message)
        for timer in outcome.timers:
            self._effects.append(SetTimer(timer.key, timer.at_ms))
        self._effects += map(Ask, outcome.asks)

    def _prove(
        self, replies: Iterable[RequestReply], work: Hashable = None, *, are_committed: bool = False
    ) -> None:
        """Let replies wait for a record that is written from now on. What is in flight proves nothing: it may
        have been committed before another opened the shard."""
        assert self._writer is not None
        if not self._writer.has_waiting:
            self._writer.add((opening_record(self._nonce),))
        self._writer.add_replies(replies, work, are_committed=are_committed)

    def _answer(self, token: int, answer: object) -> None:
        self._effects.append(AnswerRequest(token, answer))

    def _on_answer(self, event: BatchAnswered) -> None:
        writer = self._writer
        if writer is None:
            return
        stand, committed = writer.on_answer(event)
        for batch in committed:
            self._pause_ms = SEND_AGAIN_MS[0]
            if self.phase is ShardPhase.SERVING:
                self.machine.committed(batch.next_offset)
            replies = batch.proves + batch.replies
            is_late = self._now_ms - batch.sent_ms >= LATE_MS and not self._is_current(self._now_ms)
            if is_late and replies and self.phase is ShardPhase.SERVING:
                self._prove(replies, are_committed=True)
            else:
                for reply in replies:
                    self._answer(reply.token, reply.message)
            if self.phase is ShardPhase.SERVING:
                for work in batch.works:
                    self._take(self.machine.written(work, self._now_ms, self._wall_ms))
        if committed and self.phase is ShardPhase.OPENING:
            self.phase = ShardPhase.READING
            self._opening_offset = event.base_offset
            self._read_on()
        match stand:
            case Stand.FENCED | Stand.BROKEN if self.phase in (ShardPhase.OPENING, ShardPhase.READING):
                self._follow()
            case Stand.FENCED:
                self._close(Ending.FENCED)
            case Stand.BROKEN:
                self._close(Ending.BROKEN)
            case Stand.FAILED | Stand.REFUSED:
                if stand is Stand.REFUSED and self.phase is ShardPhase.SERVING:
                    self._undo()
                self._effects.append(SetTimer(ShardTimer.SEND, self._now_ms + self._pause_ms))
                self._pause_ms = min(2 * self._pause_ms, SEND_AGAIN_MS[1])
            case Stand.GOES_ON:
                pass
            case _:
                assert_never(stand)
        if self.phase is ShardPhase.FINISHING and writer.is_empty:
            self._close(Ending.RELEASED)

    def _undo(self) -> None:
        """Refuse all that is under way, of which nothing was written. The machine forgets all of it before it
        hears of any."""
        assert self._writer is not None
        refused = self._writer.take_back()
        error = refused[0].refusal
        self.machine.undo(refused[0].first_offset)
        for batch in refused:
            for reply in batch.proves:  # what they tell of is there
                self._answer(reply.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            for reply in batch.replies:
                self._answer(reply.token, error)
        for batch in refused:
            for work in batch.works:
                self._take(self.machine.refused(work, error, self._now_ms, self._wall_ms))

    def _on_timer(self, fired: TimerFired) -> None:
        key = fired.key
        if key is ShardTimer.READ:
            if self.phase in _REPLAYS:
                self._read_on()
        elif key is ShardTimer.SEND:
            if self._writer is not None:
                self._writer.send_again()
        elif key is ShardTimer.HELD:
            held, self._held = self._held, []
            for event in held:
                self._answer(event.token, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        elif self.phase is ShardPhase.SERVING:
            self._take(self.machine.step(TimerDue(key, fired.expiry_ms), self._now_ms, self._wall_ms))

    # The end.

    def _finish(self) -> None:
        """Answer what is parked, and wait until what is under way is known. Follow on, where nothing is."""
        self._is_ours = False
        if self.phase is ShardPhase.SERVING:
            assert self._writer is not None
            self.phase = ShardPhase.FINISHING
            for token in self.machine.closed():
                self._answer(token, ErrorCode.NOT_COORDINATOR)
            if self._writer.is_empty:
                self._close(Ending.RELEASED)
        elif self.phase in (ShardPhase.ASKING, ShardPhase.OPENING, ShardPhase.READING):
            self._follow()

    def _close(self, ending: Ending) -> None:
        tokens = self.machine.closed() if self.phase is ShardPhase.SERVING else ()
        self.phase = ShardPhase.CLOSED
        assert self._writer is not None
        replies = [
            reply.token for batch in self._writer.take_back() for reply in batch.proves + batch.replies
        ]
        self._writer = None
        for token in (*tokens, *replies):
            self._answer(token, ErrorCode.NOT_COORDINATOR)
        self._effects.append(ShardClosed(ending))
