"""When a fetch is answered, and with what: the wait, its timers, the budget, and what wakes it."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from dataplane.core import fetches
from dataplane.core.fetch_session import (
    CONSUMER,
    HIGH_WATERMARK_TELL_MS,
    NO_SESSION,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowedPartition,
    SessionRequest,
)
from dataplane.core.fetches import Fetch, FetchedAnswer, WaitingFetches
from dataplane.core.results import FetchResult
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction, AppliedRound, Compacted, EpochEnd

A, B, C = ("a", 0), ("b", 0), ("c", 0)
NOW, WAIT_MS = 1_000, 500


class Broker:
    """Answers of partitions are set by hand: `sizes` of records, `errors`, high watermarks."""

    def __init__(self, **options: Any) -> None:
        self.sizes: dict[PartitionKey, int] = {}
        self.errors: dict[PartitionKey, ErrorCode] = {}
        self.watermarks: dict[PartitionKey, int] = {}
        self.diverging: dict[PartitionKey, EpochEnd] = {}
        self.has_lease = True
        self.looked_at: list[PartitionKey] = []
        self.answered: list[tuple[Fetch, list[PartitionKey]]] = []
        self.sessions = FetchSessions(count(100))
        self.waiting = WaitingFetches(
            sessions=self.sessions,
            evaluate=self._evaluate,
            respond=self._respond,
            holds_lease=lambda now_ms: self.has_lease,
            **options,
        )

    def _respond(self, fetch: Fetch, session: FetchSession, told: list[FetchedAnswer]) -> None:
        self.answered.append((fetch, [each.followed.key for each in told]))

    def _evaluate(
        self, session: FetchSession, followed: FollowedPartition, left: int, one: bool, now_ms: int
    ) -> FetchResult:
        key = followed.key
        assert left >= 0
        self.looked_at.append(key)
        size = self.sizes.get(key, 0)
        fits = size and (size <= left or one)
        records: Any = SimpleNamespace(size_bytes=size) if fits else None
        error = self.errors.get(key, ErrorCode.NONE)
        return FetchResult(error, self.watermarks.get(key, 0), 0, records, self.diverging.get(key))

    def take(
        self, *keys: PartitionKey, session: tuple[int, int] = (0, -1), now_ms: int = NOW, **fields: Any
    ) -> Fetch:
        """A fetch of these partitions; of an own session if the session's epoch is not -1."""
        position = FetchPosition(0, LeaderEpoch(-1), LeaderEpoch(1), 0)
        asked = SessionRequest(
            session_id=session[0],
            session_epoch=session[1],
            replica_id=fields.pop("replica_id", CONSUMER),
            partitions=[AskedPartition(key, position) for key in keys],
        )
        opened = self.sessions.open(asked, now_ms=now_ms)
        assert isinstance(opened, FetchSession)
        defaults = {"min_bytes": 1, "max_bytes": 100, "deadline_ms": now_ms + WAIT_MS, "context": None}
        fetch = Fetch(session=opened, **{**defaults, "is_gone": lambda: False, **fields})
        self.looked_at.clear()
        self.waiting.take(fetch, now_ms=now_ms)
        return fetch

    def told(self, fetch: Fetch) -> list[PartitionKey] | None:
        """What the only answer to it listed; None while it waits."""
        answers = [keys for answered, keys in self.answered if answered is fetch]
        assert len(answers) == int(fetch.is_answered) and len(answers) <= 1
        return answers[0] if answers else None


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def follower(broker: Broker) -> Broker:
    """One with the session of a follower of A, whose first answer is given."""
    broker.take(A, session=(0, 0), replica_id=2)
    broker.answered.clear()
    return broker


@pytest.mark.parametrize(("min_bytes", "is_answered"), [(7, True), (8, False)])
def test_a_fetch_waits_for_its_least_bytes(broker: Broker, min_bytes: int, is_answered: bool) -> None:
    broker.sizes[A] = 7
    fetch = broker.take(A, min_bytes=min_bytes)
    assert (broker.told(fetch), broker.waiting.parked) == (([A], 0) if is_answered else (None, 1))
    assert broker.waiting.end_waits(now_ms=NOW) == (None if is_answered else WAIT_MS)


@pytest.mark.parametrize(("deadline_ms", "is_answered"), [(NOW, True), (NOW + 1, False)])
def test_a_fetch_without_time_left_is_answered_at_once(
    broker: Broker, deadline_ms: int, is_answered: bool
) -> None:
    assert broker.take(A, deadline_ms=deadline_ms).is_answered is is_answered


def test_so_many_fetches_wait_and_no_more(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "PARKED_MAX", 2)
    assert [broker.take(A).is_answered for _ in range(3)] == [False, False, True]


def test_a_second_fetch_of_a_session_ends_the_wait_of_the_first(follower: Broker) -> None:
    first, second = (follower.take(session=(100, epoch), replica_id=2) for epoch in (1, 2))
    assert (follower.told(first), follower.told(second), follower.waiting.parked) == ([], None, 1)


def test_a_wait_ends_at_its_deadline_and_what_was_answered_is_not_answered_again(broker: Broker) -> None:
    early, late = broker.take(A, deadline_ms=NOW + 10), broker.take(B, deadline_ms=NOW + 20)
    broker.sizes[A] = 7
    broker.waiting.on_high_watermark_moved(A)
    broker.waiting.answer_woken(now_ms=NOW)
    assert (broker.told(early), broker.told(late)) == ([A], None)
    assert broker.waiting.end_waits(now_ms=NOW + 9) == 11, "the timer of what was answered counts no more"
    assert broker.waiting.end_waits(now_ms=NOW + 20) is None
    assert (broker.told(late), broker.waiting.parked) == ([B], 0)


def test_a_fetch_whose_connection_is_gone_is_forgotten(broker: Broker) -> None:
    fetch = broker.take(A)
    broker.waiting.drop(fetch)
    assert (broker.waiting.parked, fetch.session.parked) == (0, None)
    assert broker.waiting.end_waits(now_ms=NOW + WAIT_MS) is None
    assert broker.answered == []


def test_a_fetch_that_nobody_waits_for_any_more_ends_when_it_is_woken(broker: Broker) -> None:
    gone, waits = broker.take(A, min_bytes=9, is_gone=lambda: True), broker.take(A, min_bytes=9)
    broker.waiting.on_high_watermark_moved(A)
    broker.waiting.answer_woken(now_ms=NOW)
    assert (gone.is_answered, waits.is_answered, broker.waiting.parked) == (True, False, 1)


def test_timers_of_answered_fetches_are_swept_out(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetches, "TIMERS_STALE_MAX", 2)
    for _ in range(20):
        broker.waiting.drop(broker.take(A))
        assert len(broker.waiting._timers) <= 2 + 2 + 1


def test_those_that_are_left_after_a_sweep_end_in_their_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = [broker.take(A, deadline_ms=NOW + 1 + n) for n in range(3)]
    left = [broker.take(A, deadline_ms=NOW + wait_ms) for wait_ms in (20, 21, 5)]
    for fetch in gone:
        broker.waiting.drop(fetch)
    monkeypatch.setattr(fetches, "TIMERS_STALE_MAX", -3)
    broker.take(A)
    assert len(broker.waiting._timers) == len(left) + 1
    assert broker.waiting.end_waits(now_ms=NOW) == 5


def test_a_throttled_consumer_gets_nothing_and_begins_no_session(broker: Broker) -> None:
    broker.sizes[A] = 7
    fetch = broker.take(A, session=(0, 0), is_throttled=True)
    assert (broker.told(fetch), fetch.session.session_id, len(broker.sessions)) == ([], NO_SESSION, 0)


def test_a_throttled_fetch_within_a_session_keeps_it(follower: Broker) -> None:
    follower.take(session=(100, 1), replica_id=2, is_throttled=True)
    assert len(follower.sessions) == 1


def test_the_first_answer_of_a_session_is_not_waited_for(broker: Broker) -> None:
    assert broker.told(broker.take(A, session=(0, 0), min_bytes=9)) == [A]


def test_a_high_watermark_wakes_no_follower_but_is_told_soon(follower: Broker) -> None:
    fetch = follower.take(session=(100, 1), replica_id=2)
    follower.watermarks[A] = 5
    follower.waiting.on_high_watermark_moved(A)
    follower.waiting.answer_woken(now_ms=NOW + 1)
    assert follower.told(fetch) is None
    assert follower.waiting.end_waits(now_ms=NOW + 1) == HIGH_WATERMARK_TELL_MS
    follower.waiting.end_waits(now_ms=NOW + 1 + HIGH_WATERMARK_TELL_MS)
    assert follower.told(fetch) == [A]


def test_a_high_watermark_that_moved_before_the_fetch_is_told_soon_as_well(follower: Broker) -> None:
    follower.watermarks[A] = 5
    follower.waiting.on_high_watermark_moved(A)
    follower.waiting.answer_woken(now_ms=NOW)
    follower.take(session=(100, 1), replica_id=2)
    assert follower.waiting.end_waits(now_ms=NOW) == HIGH_WATERMARK_TELL_MS


def test_a_wait_that_ends_earlier_anyway_is_not_made_longer(follower: Broker) -> None:
    for epoch in (1, 2):
        follower.watermarks[A] = epoch
        follower.take(session=(100, epoch), replica_id=2, deadline_ms=NOW + HIGH_WATERMARK_TELL_MS - 1)
        follower.waiting.on_high_watermark_moved(A)
        follower.waiting.answer_woken(now_ms=NOW)
        assert follower.waiting.end_waits(now_ms=NOW) == HIGH_WATERMARK_TELL_MS - 1


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE])
def test_a_change_of_leadership_answers_whoever_waits_if_it_is_one_for_them(
    broker: Broker, error: ErrorCode
) -> None:
    fetch = broker.take(A, B)
    broker.errors[A] = error
    broker.waiting.on_leadership_changed(A)
    assert broker.waiting.has_news
    broker.waiting.answer_woken(now_ms=NOW)
    assert (fetch.is_answered, broker.waiting.has_news) == (error is not ErrorCode.NONE, False)


def test_a_follower_hears_at_once_where_its_log_diverges(follower: Broker) -> None:
    fetch = follower.take(session=(100, 1), replica_id=2)
    follower.diverging[A] = EpochEnd(LeaderEpoch(1), 3)
    follower.waiting.on_leadership_changed(A)
    follower.waiting.answer_woken(now_ms=NOW)
    assert follower.told(fetch) == [A]


def test_an_error_that_was_told_is_no_reason_to_answer_again(follower: Broker) -> None:
    follower.errors[A] = ErrorCode.FENCED_LEADER_EPOCH
    answered = [follower.take(session=(100, epoch), replica_id=2).is_answered for epoch in (1, 2)]
    assert answered == [False, False], "nothing says that the follower should look at it"
    follower.waiting.on_leadership_changed(A)
    follower.waiting.answer_woken(now_ms=NOW)
    assert follower.take(session=(100, 3), replica_id=2).is_answered is False


def test_what_does_not_fit_stays_due_and_is_a_reason_to_answer(broker: Broker) -> None:
    """Whoever waits for more bytes than fit would wait for nothing."""
    broker.take(A, B, C, session=(0, 0))
    broker.sizes = {A: 100, B: 30}
    for key in (A, B, C):
        broker.waiting.on_high_watermark_moved(key)
    broker.waiting.answer_woken(now_ms=NOW)
    fetch = broker.take(session=(100, 1), min_bytes=1_000)
    assert broker.told(fetch) == [A]
    assert broker.looked_at == [A]
    broker.sizes = {A: 1, B: 99}
    fetch = broker.take(session=(100, 2), min_bytes=100)
    assert broker.told(fetch) == [B, A]


def test_a_look_at_partitions_without_records_is_bounded_within_a_session() -> None:
    broker = Broker(empty_partitions_max=2)
    broker.sizes[B] = 150
    broker.take(A, B, C, session=(0, 0))
    assert broker.looked_at == [A, B, C], "a first answer has no such bound"
    broker.sizes[B] = 5
    for key in (A, C, B):
        broker.waiting.on_leadership_changed(key)
    broker.waiting.answer_woken(now_ms=NOW)
    fetch = broker.take(session=(100, 1), min_bytes=1_000)
    assert (broker.looked_at, broker.told(fetch)) == ([B, A, C], None), "all were looked at"
    broker.sizes.clear()
    broker.looked_at.clear()
    for key in (A, B, C):
        broker.waiting.on_leadership_changed(key)
    broker.waiting.answer_woken(now_ms=NOW)
    assert (len(broker.looked_at), broker.told(fetch)) == (2, []), "the third waits for the next request"


@pytest.mark.parametrize(("replica_id", "looks"), [(CONSUMER, [[], [A]]), (2, [[], []])])
def test_a_consumer_is_told_of_a_lease_that_ended_though_nothing_has_happened(
    broker: Broker, replica_id: int, looks: list[list[PartitionKey]]
) -> None:
    """A leader without its lease may be one no more; a follower is told by its own leader epoch."""
    broker.take(A, session=(0, 0), replica_id=replica_id)
    for broker.has_lease, (epoch, seen) in zip((True, False), enumerate(looks, start=1), strict=True):
        broker.take(session=(100, epoch), replica_id=replica_id)
        assert broker.looked_at == seen


@pytest.mark.parametrize(
    "fields",
    [
        {"error": ErrorCode.OFFSET_OUT_OF_RANGE},
        {"diverging": EpochEnd(LeaderEpoch(1), 3)},
        {"compacted": Compacted(1, 2)},
        {"applied_round": AppliedRound(1, 2, 3)},
        {"producers": b"x"},
        {"aborted": (AbortedTransaction(7, 3),)},
    ],
)
def test_what_is_more_than_records_is_not_plain(fields: dict[str, Any]) -> None:
    def is_plain(result: FetchResult) -> bool:
        followed: Any = None
        return FetchedAnswer(followed, result, 0).is_plain

    plain = FetchResult(ErrorCode.NONE, 5, 0)
    assert is_plain(plain)
    assert not is_plain(msgspec.structs.replace(plain, **fields))
