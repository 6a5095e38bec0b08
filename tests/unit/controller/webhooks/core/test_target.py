"""One webhook's messages: which, in which order, when again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import pytest

from controller.core.silences import Silence, Subject
from controller.webhooks.core.message import Message, MessageKind
from controller.webhooks.core.target import (
    CHANGE_MS_MIN,
    EACH_MAX,
    FAILS_MS,
    GIVE_UP_MS,
    HOLD_MS,
    PAUSE_MS_MAX,
    QUEUE_MAX,
    RETRY_MS_MAX,
    SLOW_HOLD_MS,
    AttemptFailed,
    Delays,
    Kept,
    Looked,
    MessageDelivered,
    Now,
    ReceiverGone,
    Save,
    SeenAlarm,
    SendMessage,
    Target,
)

WAIT_MS, SETTLE_MS = 10_000, 60_000
BEGIN, CHANGE, END = MessageKind.BEGIN, MessageKind.CHANGE, MessageKind.END
DOWN = Subject(code="broker_fenced", broker_id=3)
DISK = Subject(code="disk_fills", broker_id=1)


class Desk:
    """A webhook, its receiver, and time. `got`: what the receiver took."""

    def __init__(self, kept: Kept | None = None, *, mono_ms: int = 0, wall_ms: int = 1_000_000) -> None:
        self.now = Now(mono_ms, wall_ms)
        self.silences: list[Silence] = []
        self.answers: str = "ok"
        self.attempts: list[tuple[int, str]] = []
        self.got: list[Message] = []
        self.others_fail = False
        self.target = Target(
            Delays(WAIT_MS, SETTLE_MS), kept or Kept(), prefix=f"msg_{mono_ms}", revision=1, now=self.now
        )

    def wait(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, self.now.wall_ms + ms)

    def look(self, *up: Subject, detail: str = "down", counts: dict[str, int] | None = None) -> None:
        seen = [SeenAlarm(subject, detail) for subject in up]
        looked = Looked(
            seen=seen,
            is_whole=counts is None,
            counts=Counter(one.code for one in up) if counts is None else counts,
            silences=self.silences,
            others_fail=self.others_fail,
        )
        self._run(self.target.step(looked, self.now))

    def _run(self, effects: Sequence[object]) -> None:
        """Answer each attempt at once, unless the receiver hangs."""
        while sent := [effect.message for effect in effects if isinstance(effect, SendMessage)]:
            (message,) = sent
            self.attempts.append((self.now.mono_ms, message.id))
            match self.answers:
                case "ok":
                    self.got.append(message)
                    effects = self.target.step(MessageDelivered(message.id), self.now)
                case "fail":
                    effects = self.target.step(AttemptFailed(message.id, "500", 0.5), self.now)
                case "gone":
                    effects = self.target.step(ReceiverGone(message.id), self.now)
                case _:
                    return

    def looks(self, ms: int, *up: Subject, each_ms: int = 1_000, detail: str = "down") -> None:
        """Look again and again for so long."""
        for _ in range(0, ms, each_ms):
            self.wait(each_ms)
            self.look(*up, detail=detail)

    @property
    def events(self) -> list[tuple[MessageKind, Subject | None]]:
        return [(message.event, message.subject) for message in self.got]


def silence(until_ms: int, **fields: object) -> Silence:
    named = ("code", "topic", "partition", "broker_id", "group_id", "transactional_id", "producer_id")
    empty = dict.fromkeys(named)
    found = {"id": "sil_1", "cluster": "prod", "reason": "r", "actor": "a", "created_at_ms": 0}
    return msgspec.convert(found | empty | fields | {"until_ms": until_ms}, Silence)


def test_an_alarm_begins_after_the_wait_and_ends_after_it_has_settled() -> None:
    desk = Desk()
    desk.look(DOWN)
    desk.looks(WAIT_MS - 1_000, DOWN)
    assert desk.got == []
    desk.looks(HOLD_MS, DOWN)
    assert desk.events == [(BEGIN, DOWN)]
    assert desk.got[0].since_ms == 1_000_000
    desk.look()
    desk.looks(SETTLE_MS - 1_000)
    assert desk.events == [(BEGIN, DOWN)]
    desk.looks(1_000)
    assert desk.events == [(BEGIN, DOWN), (END, DOWN)]
    assert desk.target.kept.told == ()
    assert len({message.id for message in desk.got}) == 2
    assert all("." not in message.id for message in desk.got)


def test_what_is_shorter_than_the_wait_is_not_told() -> None:
    desk = Desk()
    desk.looks(WAIT_MS - 2_000, DOWN)
    desk.looks(2 * SETTLE_MS)
    assert desk.got == []
    assert desk.target.kept == Kept()


def test_a_flapping_alarm_begins_once_and_ends_when_it_has_settled() -> None:
    desk = Desk()
    for _ in range(600):
        desk.looks(1_000, DOWN)
        desk.looks(1_000)
    assert desk.events == [(BEGIN, DOWN)]
    desk.looks(SETTLE_MS)
    assert desk.events == [(BEGIN, DOWN), (END, DOWN)]


def test_new_words_are_told_and_not_too_often() -> None:
    desk = Desk()
    desk.looks(60_000, DISK)
    for minute in range(20):
        desk.looks(60_000, DISK, detail=f"{minute} % free")
    assert [event for event, _ in desk.events] == [BEGIN, *[CHANGE] * 4]
    assert CHANGE_MS_MIN == 300_000
    assert desk.got[-1].detail == "19 % free"


def test_a_takeover_neither_repeats_a_begin_nor_loses_an_end() -> None:
    before = Desk()
    before.looks(60_000, DOWN, DISK)
    assert before.events == [(BEGIN, DOWN), (BEGIN, DISK)]
    after = Desk(before.target.kept, mono_ms=77, wall_ms=before.now.wall_ms)
    after.look()  # brokers have not reported yet: nothing is up
    after.looks(5_000)
    after.looks(120_000, DOWN)
    assert after.events == [(END, DISK)]
    after.looks(2 * SETTLE_MS)
    assert after.events == [(END, DISK), (END, DOWN)]


def test_after_a_takeover_nothing_ends_before_brokers_can_have_reported() -> None:
    slow = Subject(code="broker_stopped", broker_id=4)
    before = Desk()
    before.looks(60_000, DOWN, slow)
    after = Desk(before.target.kept, wall_ms=before.now.wall_ms)
    after.target.delays = Delays(0, 1_000)
    after.looks(HOLD_MS - 1_000)
    assert after.got == []
    after.looks(2_000)
    assert after.events == [(END, DOWN)]
    after.looks(SLOW_HOLD_MS)
    assert after.events == [(END, DOWN), (END, slow)]


def test_what_waits_is_taken_over_under_its_id() -> None:
    before = Desk()
    before.answers = "fail"
    before.looks(60_000, DOWN)
    (waiting,) = before.target.kept.queue
    after = Desk(before.target.kept, wall_ms=before.now.wall_ms)
    after.look(DOWN)
    assert after.got == [waiting]
    assert after.target.kept.queue == ()


def test_what_is_kept_survives_json() -> None:
    desk = Desk()
    desk.answers = "fail"
    desk.looks(60_000, DOWN, DISK)
    kept = desk.target.kept
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(kept))), Kept) == kept


def test_each_change_is_saved_before_it_is_sent_and_nothing_else_is() -> None:
    desk = Desk()
    looked = Looked(seen=[SeenAlarm(DOWN, "down")], is_whole=True, counts={}, silences=[], others_fail=False)
    assert desk.target.step(looked, desk.now) == ()
    desk.wait(WAIT_MS)
    effects = desk.target.step(looked, desk.now)
    assert [type(effect) for effect in effects] == [Save, SendMessage]
    assert desk.target.step(looked, desk.now) == ()


def test_one_attempt_is_made_at_a_time_and_order_is_kept_for_each_alarm() -> None:
    desk = Desk()
    desk.answers = "hangs"
    desk.looks(30_000, DOWN)
    desk.looks(90_000, DISK)
    assert len(desk.attempts) == 1
    assert [(one.event, one.subject) for one in desk.target.kept.queue] == [
        (BEGIN, DOWN),
        (BEGIN, DISK),
        (END, DOWN),
    ]
    first = desk.attempts[0][1]
    desk.answers = "ok"
    desk._run(desk.target.step(AttemptFailed(first, "400", 0.5, retry_after_ms=600_000), desk.now))
    assert desk.got == []
    desk.looks(700_000, DISK)
    assert desk.events == [(BEGIN, DOWN), (BEGIN, DISK), (END, DOWN)]


def test_a_message_that_is_refused_does_not_hold_up_other_alarms() -> None:
    desk = Desk()
    desk.answers = "hangs"
    desk.looks(30_000, DOWN)
    for _ in range(9):  # its turn comes after minutes
        desk._run(desk.target.step(AttemptFailed(desk.attempts[-1][1], "400", 0.5), desk.now))
        desk.looks(300_000, DOWN)
    desk.answers = "ok"
    desk._run(desk.target.step(AttemptFailed(desk.attempts[-1][1], "400", 0.5), desk.now))
    desk.looks(90_000, DOWN, DISK)
    assert desk.events == [(BEGIN, DISK)]


def test_a_receiver_that_fails_is_asked_more_and_more_seldom() -> None:
    desk = Desk()
    desk.answers = "fail"
    desk.looks(7_200_000, DOWN)
    times = [at for at, _ in desk.attempts]
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses[:4] == [1_000, 2_000, 4_000, 8_000]
    assert pauses == sorted(pauses)
    assert pauses[-1] == RETRY_MS_MAX
    desk.answers = "ok"
    desk.looks(RETRY_MS_MAX, DOWN)
    assert desk.events == [(BEGIN, DOWN)]
    assert desk.target.kept.failing_since_ms is None


@pytest.mark.parametrize(("jitter", "share"), [(0.0, 0.5), (1.0, 1.5)])
def test_retries_are_spread(jitter: float, share: float) -> None:
    desk = Desk()
    desk.answers = "hangs"
    desk.looks(20_000, DOWN)
    for _ in range(4):
        desk._run(desk.target.step(AttemptFailed(desk.attempts[-1][1], "500", jitter), desk.now))
        desk.looks(60_000, DOWN)
    before = desk.now.mono_ms
    desk._run(desk.target.step(AttemptFailed(desk.attempts[-1][1], "500", jitter), desk.now))
    desk.looks(60_000, DOWN)
    assert desk.attempts[-1][0] - before == 16_000 * share


def test_many_messages_to_a_dead_receiver_share_its_pause() -> None:
    desk = Desk()
    desk.answers = "fail"
    many = [Subject(code=f"code_{number}", broker_id=number) for number in range(50)]
    desk.looks(3_600_000, *many)
    assert len(desk.attempts) < 3_600_000 // PAUSE_MS_MAX + 20


def test_the_oldest_change_goes_first_and_what_went_is_told() -> None:
    desk = Desk()
    desk.answers = "fail"
    disks = [Subject(code="disk_fills", broker_id=number) for number in range(EACH_MAX)]
    desk.looks(60_000, *disks)
    for number in range(40):
        desk.looks(CHANGE_MS_MIN, *disks, each_ms=60_000, detail=f"{number}")
    queue = desk.target.kept.queue
    assert len(queue) == QUEUE_MAX
    assert [one.event for one in queue[:EACH_MAX]] == [BEGIN] * EACH_MAX
    dropped = desk.target.kept.dropped
    assert dropped == EACH_MAX + 40 * EACH_MAX - QUEUE_MAX
    desk.answers = "ok"
    desk.looks(2 * RETRY_MS_MAX, *disks, each_ms=60_000, detail="39")
    told = [one for one in desk.got if one.event is MessageKind.DROPPED]
    assert [one.dropped for one in told] == [dropped]
    assert desk.target.kept.queue == ()


def test_without_a_change_the_oldest_message_goes() -> None:
    desk = Desk()
    desk.answers = "hangs"
    many = [Subject(code=f"code_{number}") for number in range(QUEUE_MAX + 3)]
    desk.looks(15_000, many[0])
    desk.looks(15_000, *many)
    queue = desk.target.kept.queue
    assert len(queue) == QUEUE_MAX
    assert queue[0].subject == many[0], "it is on its way"
    assert queue[1].subject == many[4]


def test_a_message_is_given_up_in_the_end() -> None:
    desk = Desk()
    desk.answers = "fail"
    desk.looks(GIVE_UP_MS + 120_000, DOWN, each_ms=60_000)
    assert desk.target.kept.queue == ()
    assert desk.target.kept.dropped == 1


def test_410_switches_off_until_the_settings_are_written_again() -> None:
    desk = Desk()
    desk.answers = "gone"
    desk.looks(60_000, DOWN, DISK)
    assert len(desk.attempts) == 1
    kept = desk.target.kept
    assert (kept.off_revision, kept.told, kept.queue, kept.dropped) == (1, (), (), 2)
    assert desk.target.fails(desk.now)
    again = Desk(kept, wall_ms=desk.now.wall_ms)
    again.looks(60_000, DOWN)
    assert again.attempts == []
    again.target.configure(Delays(WAIT_MS, SETTLE_MS), 2)
    again.looks(60_000, DOWN)
    assert again.events == [(BEGIN, DOWN)]
    assert not again.target.fails(again.now)


def test_of_one_code_some_are_told_and_the_others_as_a_number() -> None:
    desk = Desk()
    many = [Subject(code="partition_leaderless", topic="orders", partition=n) for n in range(40)]
    more = Subject(code="partition_leaderless", is_more=True)
    desk.looks(60_000, *many)
    assert desk.events == [*((BEGIN, one) for one in many[:EACH_MAX]), (BEGIN, more)]
    assert desk.got[-1].detail == "35 more alarms partition_leaderless are up"
    # While it heals, those behind do not begin one after the other.
    for left in range(35, 0, -1):
        desk.looks(5_000, *many[-left:])
    assert Counter(event for event, _ in desk.events)[BEGIN] == EACH_MAX + 1
    desk.looks(2 * SETTLE_MS)
    assert Counter(event for event, _ in desk.events)[END] == EACH_MAX + 1
    assert desk.target.kept.told == ()


def test_of_alarms_too_many_to_list_the_first_are_told_and_the_others_counted() -> None:
    desk = Desk()
    many = [Subject(code="partition_below_min_isr", topic="orders", partition=n) for n in range(90)]
    more = Subject(code="partition_below_min_isr", is_more=True)
    counts = {"broker_fenced": 1, "partition_below_min_isr": 90_000}
    desk.looks(60_000, DISK)
    for _ in range(80):
        desk.wait(1_000)
        desk.look(DOWN, *many[:10], counts=counts)
    firsts = [(BEGIN, one) for one in many[:EACH_MAX]]
    assert desk.events == [(BEGIN, DISK), (BEGIN, DOWN), *firsts, (BEGIN, more), (END, DISK)]
    assert desk.got[-2].detail == "89995 more alarms partition_below_min_isr are up"
    # Others are listed first: those that were told may be among the many that are not.
    for _ in range(120):
        desk.wait(1_000)
        desk.look(*many[40:50], counts={"partition_below_min_isr": 80_000})
    assert desk.events[-1] == (END, DOWN)
    for _ in range(120):
        desk.wait(1_000)
        desk.look(many[0], counts={"partition_below_min_isr": 1, "storage_error": 2_000})
    ended = [subject for event, subject in desk.events if event is END]
    assert ended == [DISK, DOWN, *many[1:EACH_MAX], more]


def test_subjects_that_come_and_go_take_bounded_memory() -> None:
    desk = Desk()
    for number in range(500):
        desk.looks(1_000, *(Subject(code="group_lag_grows", group_id=f"g{number}-{n}") for n in range(9)))
    assert len(desk.target._tracked) <= EACH_MAX + 1


def test_a_silenced_alarm_is_told_when_the_silence_is_over() -> None:
    desk = Desk()
    desk.silences = [silence(desk.now.wall_ms + 600_000, broker_id=3)]
    desk.looks(599_000, DOWN)
    assert desk.got == []
    desk.looks(2_000, DOWN)
    assert desk.events == [(BEGIN, DOWN)]


def test_the_end_of_an_alarm_that_had_begun_waits_for_the_silence() -> None:
    desk = Desk()
    desk.looks(60_000, DOWN)
    desk.silences = [silence(desk.now.wall_ms + 600_000, code="broker_fenced")]
    desk.looks(590_000)
    assert desk.events == [(BEGIN, DOWN)]
    desk.looks(20_000)
    assert desk.events == [(BEGIN, DOWN), (END, DOWN)]


def test_a_webhook_is_not_told_that_it_fails_itself() -> None:
    fails = Subject(code="webhook_fails")
    desk = Desk()
    desk.looks(60_000, fails)
    assert desk.got == []
    desk.others_fail = True
    desk.looks(60_000, fails)
    assert desk.events == [(BEGIN, fails)]


def test_it_counts_as_failing_after_some_minutes() -> None:
    desk = Desk()
    desk.answers = "fail"
    desk.looks(20_000, DOWN)
    assert not desk.target.fails(desk.now)
    desk.wait(FAILS_MS)
    assert desk.target.fails(desk.now)
