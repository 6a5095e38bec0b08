"""One webhook: which messages it is told, in which order, and when each is tried again.

    the alarms that are up, look by look --> begin, change, end --> queue --> one attempt at a time

It goes by what is up, not by what was raised or cleared: a look that is missed or a controller that is
replaced loses nothing, because the next look is compared with what the webhook was told, which is kept. An
alarm that comes and goes begins once, and ends when it has been gone for `settle_ms`; one that is shorter
than `wait_ms` is not told. Of one code at most EACH_MAX alarms are told one by one, the others as a number.

The queue keeps order for each alarm, and has a bound: the oldest change goes first, and what went is counted
and told. A webhook that fails is left alone for longer and longer, up to PAUSE_MS_MAX, and a message for up
to RETRY_MS_MAX; after GIVE_UP_MS a message is dropped. The answer 410 switches the webhook off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from controller.core.effects import AlarmCode
from controller.core.silences import Silence, Subject, silence_of
from controller.webhooks.core.message import DETAIL_CHARS_MAX, Message, MessageKind

#: Alarms of one code that are told one by one.
EACH_MAX: Final = 5
#: Messages that wait for one webhook.
QUEUE_MAX: Final = 100
#: An alarm's new words are told at most so often.
CHANGE_MS_MIN: Final = 300_000
RETRY_MS_MIN: Final = 1_000
RETRY_MS_MAX: Final = 15 * 60_000
#: Between two attempts at a webhook whose attempts fail.
PAUSE_MS_MAX: Final = 60_000
#: A message older than this is dropped.
GIVE_UP_MS: Final = 24 * 3_600_000
#: A webhook that fails for so long is an alarm.
FAILS_MS: Final = 300_000
#: How long after a takeover no alarm ends: brokers report first.
HOLD_MS: Final = 20_000
#: The same for alarms that a new controller raises again only after it has watched for a while.
SLOW_HOLD_MS: Final = 15 * 60_000
_SLOW: Final = frozenset({AlarmCode.BROKER_STOPPED, AlarmCode.THROTTLED_BELOW_PRODUCE_RATE})


class Now(msgspec.Struct, frozen=True):
    mono_ms: int
    wall_ms: int


class Delays(msgspec.Struct, frozen=True):
    """wait_ms: how long an alarm is up before it is told. settle_ms: how long it is gone before it ends."""

    wait_ms: int
    settle_ms: int


class ToldAlarm(msgspec.Struct, frozen=True):
    """An alarm that has begun for the webhook. detail: as it was told last."""

    subject: Subject
    detail: str
    since_ms: int


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What outlives a controller. dropped: messages given up in all; untold: those of them that no message
    has told of yet. off_revision: of the settings under which the receiver answered 410."""

    told: tuple[ToldAlarm, ...] = ()
    queue: tuple[Message, ...] = ()
    delivered: int = 0
    delivered_ms: int | None = None
    dropped: int = 0
    untold: int = 0
    failing_since_ms: int | None = None
    last_error: str | None = None
    off_revision: int | None = None

    def fails(self, wall_ms: int) -> bool:
        """Return whether it has failed for so long that it is an alarm, or is switched off."""
        is_long = self.failing_since_ms is not None and wall_ms - self.failing_since_ms >= FAILS_MS
        return is_long or self.off_revision is not None


class SeenAlarm(msgspec.Struct, frozen=True):
    """An alarm that is up."""

    subject: Subject
    detail: str


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A look at the cluster. seen: the alarms that are up, or unless `is_whole` some of each code. counts:
    how many are up, by code. others_fail: whether another webhook of the cluster fails."""

    seen: Sequence[SeenAlarm]
    is_whole: bool
    counts: Mapping[str, int]
    silences: Sequence[Silence]
    others_fail: bool


class MessageDelivered(msgspec.Struct, frozen=True):
    message_id: str


class AttemptFailed(msgspec.Struct, frozen=True):
    """jitter: a random number from 0 to 1. retry_after_ms: what the receiver asked for."""

    message_id: str
    why: str
    jitter: float
    retry_after_ms: int = 0


class ReceiverGone(msgspec.Struct, frozen=True):
    """The receiver answered 410: it wants no more."""

    message_id: str


class Save(msgspec.Struct, frozen=True):
    """What is kept has changed. Before the effects after it are carried out it has to be stored, if SQL takes
    writes."""


class SendMessage(msgspec.Struct, frozen=True):
    """Try this message once, and submit how it ended."""

    message: Message


class Said(msgspec.Struct, frozen=True):
    """A line for the log."""

    code: str
    detail: str


TargetEvent = Looked | MessageDelivered | AttemptFailed | ReceiverGone
TargetEffect = Save | SendMessage | Said


class _Tracked:
    """An alarm that is up, or has been lately. up_ms, gone_ms, told_ms: monotonic."""

    __slots__ = ("gone_ms", "since_ms", "told", "told_ms", "up_ms")

    def __init__(self, now: Now, told: ToldAlarm | None = None) -> None:
        self.told = told
        self.since_ms = now.wall_ms if told is None else told.since_ms
        self.up_ms = self.told_ms = now.mono_ms
        self.gone_ms: int | None = None


class Target:
    """The machine of one webhook, during one term.

    Args:
        kept: as the controller before left it.
        prefix: of its messages' ids; no other term and no other webhook has it.
        revision: of the webhook's settings.
    """

    def __init__(self, delays: Delays, kept: Kept, *, prefix: str, revision: int, now: Now) -> None:
        self.delays = delays
        self.revision = revision
        self._prefix = prefix
        self._number = 0
        self._taken_over_ms = now.mono_ms
        self._tracked = {told.subject: _Tracked(now, told) for told in kept.told}
        self._queue = list(kept.queue)
        self._kept = kept
        self._expires = {
            message.id: now.mono_ms + GIVE_UP_MS - max(0, now.wall_ms - message.at_ms)
            for message in kept.queue
        }
        #: Attempts that failed, and when the next is due, by message.
        self._tries: dict[str, tuple[int, int]] = {}
        self._in_flight: str | None = None
        self._failures = 0
        self._paused_until_ms = now.mono_ms
        self._effects: list[TargetEffect] = []

    @property
    def kept(self) -> Kept:
        told = tuple(one.told for one in self._tracked.values() if one.told is not None)
        return msgspec.structs.replace(self._kept, told=told, queue=tuple(self._queue))

    @property
    def is_off(self) -> bool:
        return self._kept.off_revision == self.revision

    def fails(self, now: Now) -> bool:
        return self.kept.fails(now.wall_ms)

    def configure(self, delays: Delays, revision: int) -> None:
        """Take new settings; they switch the webhook on again."""
        if revision != self.revision:
            self.delays, self.revision = delays, revision
            self._change(off_revision=None)
            self._paused_until_ms = 0
            self._tries.clear()

    def step(self, event: TargetEvent, now: Now) -> tuple[TargetEffect, ...]:
        before = self.kept
        self._effects = []
        match event:
            case Looked():
                if not self.is_off:
                    self._on_looked(event, now)
            case MessageDelivered():
                self._on_delivered(event, now)
            case AttemptFailed():
                self._on_failed(event, now)
            case ReceiverGone():
                self._on_refused()
            case _:
                assert_never(event)
        sent = self._next(now)
        effects: list[TargetEffect] = [Save()] if self.kept != before else []
        effects += self._effects
        if sent is not None:
            self._in_flight = sent.id
            effects.append(SendMessage(sent))
        return tuple(effects)

    # -- alarms --

    def _on_looked(self, looked: Looked, now: Now) -> None:
        for message_id in [one.id for one in self._queue if now.mono_ms >= self._expires[one.id]]:
            if message_id != self._in_flight:
                self._drop(message_id, "it could not be delivered in time")
        up = self._up(looked, now)
        for subject, detail in up.items():
            tracked = self._tracked.setdefault(subject, _Tracked(now))
            tracked.gone_ms = None
            if silence_of(looked.silences, subject, now.wall_ms) is None:
                self._tell(subject, tracked, detail[:DETAIL_CHARS_MAX], now)
        for subject in [subject for subject in self._tracked if subject not in up]:
            tracked = self._tracked[subject]
            if tracked.gone_ms is None:
                tracked.gone_ms = now.mono_ms
            self._end(subject, tracked, looked.silences, now)

    def _up(self, looked: Looked, now: Now) -> dict[Subject, str]:
        """Return what is up, by what is told: alarms one by one, and for the further ones of a code their
        number."""
        up: dict[Subject, str] = {}
        more: dict[str, int] = {}
        room: dict[str, int] = {}
        for subject in self._tracked:
            room[subject.code] = 0 if subject.is_more else room.get(subject.code, EACH_MAX) - 1
        for one in looked.seen:
            code = one.subject.code
            if code == AlarmCode.WEBHOOK_FAILS and not looked.others_fail:
                continue
            if one.subject not in self._tracked:
                if room.setdefault(code, EACH_MAX) <= 0:
                    is_silenced = silence_of(looked.silences, one.subject, now.wall_ms) is not None
                    more[code] = more.get(code, 0) + (not is_silenced)
                    continue
                room[code] -= 1
            up[one.subject] = one.detail
        if not looked.is_whole:
            self._add_unseen(looked, up, more)
        for code, count in more.items():
            if count > 0:
                up[Subject(code=code, is_more=True)] = f"{count} more alarms {code} are up"
        return up

    def _add_unseen(self, looked: Looked, up: dict[Subject, str], more: dict[str, int]) -> None:
        """Count what was not listed. An alarm that was told and is not in the list is up as far as is known,
        while more of its code are up than were listed."""
        listed = Counter(one.subject.code for one in looked.seen)
        for subject, tracked in self._tracked.items():
            is_listed_whole = looked.counts.get(subject.code, 0) <= listed[subject.code]
            if subject not in up and not subject.is_more and not is_listed_whole:
                up[subject] = "" if tracked.told is None else tracked.told.detail
        told = Counter(subject.code for subject in up)
        for code, count in looked.counts.items():
            if count > listed[code]:
                more[code] = count - told[code]

    def _tell(self, subject: Subject, tracked: _Tracked, detail: str, now: Now) -> None:
        told = tracked.told
        if told is None:
            if now.mono_ms - tracked.up_ms < self.delays.wait_ms:
                return
            event = MessageKind.BEGIN
        else:
            pause_ms = max(CHANGE_MS_MIN, self.delays.settle_ms)
            if told.detail == detail or now.mono_ms - tracked.told_ms < pause_ms:
                return
            event = MessageKind.CHANGE
        tracked.told = ToldAlarm(subject, detail, tracked.since_ms)
        tracked.told_ms = now.mono_ms
        self._push(event, now, detail=detail, subject=subject, since_ms=tracked.since_ms)

    def _end(self, subject: Subject, tracked: _Tracked, silences: Iterable[Silence], now: Now) -> None:
        assert tracked.gone_ms is not None
        if now.mono_ms - tracked.gone_ms < self.delays.settle_ms:
            return
        if tracked.told is not None:
            hold_ms = SLOW_HOLD_MS if subject.code in _SLOW else HOLD_MS
            if now.mono_ms - self._taken_over_ms < hold_ms:
                return
            if silence_of(silences, subject, now.wall_ms) is not None:
                return  # the end is told when the silence is over
            detail = tracked.told.detail
            self._push(MessageKind.END, now, detail=detail, subject=subject, since_ms=tracked.since_ms)
        del self._tracked[subject]

    # -- the queue --

    def _push(
        self,
        event: MessageKind,
        now: Now,
        *,
        detail: str,
        subject: Subject | None = None,
        since_ms: int | None = None,
        dropped: int = 0,
    ) -> None:
        self._number += 1
        message = Message(
            id=f"{self._prefix}_{self._number}",
            event=event,
            at_ms=now.wall_ms,
            detail=detail,
            subject=subject,
            since_ms=since_ms,
            dropped=dropped,
        )
        self._queue.append(message)
        self._expires[message.id] = now.mono_ms + GIVE_UP_MS
        if len(self._queue) > QUEUE_MAX:
            waiting = [one for one in self._queue if one.id != self._in_flight]
            changes = [one for one in waiting if one.event is MessageKind.CHANGE]
            self._drop((changes or waiting)[0].id, "the queue is full")

    def _drop(self, message_id: str, why: str) -> None:
        """Give a message up. What it would have told of dropped ones is told by a later one."""
        told = sum(one.dropped for one in self._queue if one.id == message_id)
        self._forget(message_id)
        self._change(dropped=self._kept.dropped + 1, untold=self._kept.untold + 1 + told)
        self._effects.append(Said("webhook_message_dropped", f"{message_id}: {why}"))

    def _forget(self, message_id: str) -> None:
        self._queue = [one for one in self._queue if one.id != message_id]
        self._expires.pop(message_id, None)
        self._tries.pop(message_id, None)

    def _next(self, now: Now) -> Message | None:
        """Return the first message that is due and follows no other of its alarm."""
        if self._in_flight is not None or self.is_off or now.mono_ms < self._paused_until_ms:
            return None
        behind: set[Subject | None] = set()
        for message in self._queue:
            if message.subject in behind:
                continue
            if self._tries.get(message.id, (0, 0))[1] <= now.mono_ms:
                return message
            behind.add(message.subject)
        return None

    # -- attempts --

    def _on_delivered(self, event: MessageDelivered, now: Now) -> None:
        self._in_flight = None
        self._forget(event.message_id)
        self._failures = 0
        if self._kept.failing_since_ms is not None:
            self._effects.append(Said("webhook_delivers_again", event.message_id))
        untold = self._kept.untold
        self._change(
            delivered=self._kept.delivered + 1,
            delivered_ms=now.wall_ms,
            failing_since_ms=None,
            last_error=None,
            untold=0,
        )
        if untold:
            detail = f"{untold} messages were given up: the alarms say what is up"
            self._push(MessageKind.DROPPED, now, detail=detail, dropped=untold)

    def _on_failed(self, event: AttemptFailed, now: Now) -> None:
        self._in_flight = None
        attempts = self._tries.get(event.message_id, (0, 0))[0] + 1
        spread = 0.5 + event.jitter
        wait_ms = int(min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** min(attempts - 1, 20)) * spread)
        wait_ms = max(wait_ms, min(event.retry_after_ms, RETRY_MS_MAX))
        pause_ms = int(min(PAUSE_MS_MAX, RETRY_MS_MIN * 2 ** min(self._failures, 20)) * spread)
        self._failures += 1
        self._tries[event.message_id] = (attempts, now.mono_ms + wait_ms)
        self._paused_until_ms = now.mono_ms + max(pause_ms, min(event.retry_after_ms, RETRY_MS_MAX))
        since_ms = self._kept.failing_since_ms
        if since_ms is None:
            since_ms = now.wall_ms
            self._effects.append(Said("webhook_fails", event.why))
        self._change(failing_since_ms=since_ms, last_error=event.why)

    def _on_refused(self) -> None:
        """Switch it off. What is up begins anew for it when it is switched on again."""
        self._in_flight = None
        self._change(
            off_revision=self.revision,
            dropped=self._kept.dropped + len(self._queue),
            untold=0,
            last_error="the receiver answered 410 Gone",
        )
        self._queue.clear()
        self._expires.clear()
        self._tries.clear()
        self._tracked.clear()
        self._effects.append(Said("webhook_switched_off", "the receiver answered 410 Gone"))

    def _change(self, **fields: int | str | None) -> None:
        self._kept = msgspec.structs.replace(self._kept, **fields)
