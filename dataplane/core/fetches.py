"""Fetch requests: evaluated, parked until there is something to say, woken in groups. Pure.

Which partitions a fetch has to look at is its session's business (fetch_session.py), what each may be told
its replica's. This module adds the budget, the wait, and the grouping: what a turn appended is collected, and
at the turn's end each waiting fetch is evaluated once for all of it. A follower then gets one answer that
carries every partition that moved.

A parked fetch is answered when it has min_bytes, an error that it was not told yet, or a divergence, or when
its time is up. A high watermark alone is no reason to wake a follower: it rides with the next records, or is
told within HIGH_WATERMARK_TELL_MS when they stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count

from dataplane.core.fetch_session import (
    HIGH_WATERMARK_TELL_MS,
    NO_SESSION,
    FetchSession,
    FetchSessions,
    FollowedPartition,
)
from dataplane.core.results import FetchResult
from springtide.contract.partition_state import PartitionKey
from springtide.wire.errors import ErrorCode

EMPTY_PARTITIONS_MAX = 100_000
"""Partitions without records that one evaluation within a session looks at. The others stay due, first in
line. A first answer has no such bound: a client takes one that omits a partition for none, and asks again
(KIP-227). What it may list is bounded by the request's frame."""
PARKED_MAX = 20_000
"""Fetches that may wait in all; beyond it a fetch is answered with what there is."""
TIMERS_STALE_MAX = 10_000
"""Timers of fetches that were answered in time may pile up to this before they are swept out."""


@dataclass(slots=True)
class FetchedAnswer:
    """One partition of an answer, as its replica gave it."""

    followed: FollowedPartition
    result: FetchResult
    size_bytes: int

    @property
    def is_plain(self) -> bool:
        """Neither an error nor a divergence, and nothing to tell of compaction or aborted transactions."""
        result = self.result
        return (
            result.error is ErrorCode.NONE
            and result.diverging is None
            and result.compacted is None
            and result.applied_round is None
            and not result.producers
            and not result.aborted
        )


#: (the parked fetch, session, its partitions in order): encodes and sends.
Respond = Callable[["Fetch", FetchSession, list[FetchedAnswer]], None]
#: (session, followed, bytes left for this partition, whether one batch may exceed them, now).
Evaluate = Callable[[FetchSession, FollowedPartition, int, bool, int], FetchResult]


@dataclass(slots=True, eq=False, kw_only=True)
class Fetch:
    """One Fetch request while it is being answered. `context` is the handler's own."""

    session: FetchSession
    min_bytes: int
    max_bytes: int
    deadline_ms: int
    context: object
    is_gone: Callable[[], bool]
    #: Its client is above its quota: it gets an empty answer (KIP-219).
    is_throttled: bool = False
    is_answered: bool = False


class WaitingFetches:
    """The fetches that wait at a broker, and what its turns have changed. holds_lease: whether the broker
    does, at a monotonic time in ms. Every `now_ms` is read before an answer is made."""

    def __init__(
        self,
        *,
        sessions: FetchSessions,
        evaluate: Evaluate,
        respond: Respond,
        holds_lease: Callable[[int], bool],
        empty_partitions_max: int = EMPTY_PARTITIONS_MAX,
    ) -> None:
        self.sessions = sessions
        self._empty_partitions_max = empty_partitions_max
        self._holds_lease = holds_lease
        self._evaluate_partition = evaluate
        self._respond = respond
        #: What this turn changed; dicts, because order must not depend on hashes.
        self._appended: dict[PartitionKey, None] = {}
        self._watermarks: dict[PartitionKey, None] = {}
        self._leaderships: dict[PartitionKey, None] = {}
        self._timers: list[tuple[int, int, Fetch]] = []
        self._sequence = count()
        self.parked = 0

    # What partitions report, through the effects of their replicas

    def on_data_appended(self, key: PartitionKey) -> None:
        self._appended[key] = None

    def on_high_watermark_moved(self, key: PartitionKey) -> None:
        self._watermarks[key] = None

    def on_leadership_changed(self, key: PartitionKey) -> None:
        self._leaderships[key] = None

    # Requests

    def take(self, fetch: Fetch, *, now_ms: int) -> None:
        """Answer now if there is reason to, else park."""
        earlier = fetch.session.parked
        if isinstance(earlier, Fetch):
            # The fetcher has given up on it, or it would not ask again; but its answer keeps its place in the
            # connection's order, so it gets one.
            self._unpark(earlier)
            self._answer(earlier, [], now_ms)
        if fetch.is_throttled:
            if fetch.session.is_full_answer:  # the client takes this for no beginning of a session
                self.sessions.close(fetch.session)
                fetch.session.session_id = NO_SESSION
            self._answer(fetch, [], now_ms)
            return
        answers, has_reason = self._evaluate_anew(fetch, now_ms)
        if (
            has_reason
            or now_ms >= fetch.deadline_ms
            # A new session's first answer carries its id: the fetcher waits better within the session.
            or (fetch.session.session_id != NO_SESSION and fetch.session.is_full_answer)
            or self.parked >= PARKED_MAX
        ):
            self._answer(fetch, answers, now_ms)
            return
        if fetch.session.is_replica and answers:  # news, but only of high watermarks
            fetch.deadline_ms = min(fetch.deadline_ms, now_ms + HIGH_WATERMARK_TELL_MS)
        self.sessions.park(fetch.session, fetch)
        self.parked += 1
        self._arm(fetch)

    @property
    def has_news(self) -> bool:
        """Return whether this turn has changed something."""
        return bool(self._appended or self._watermarks or self._leaderships)

    def answer_woken(self, *, now_ms: int) -> None:
        """The end of a turn: evaluate each fetch that waits for what the turn changed, once."""
        while self.has_news:
            appended, self._appended = self._appended, {}
            watermarks, self._watermarks = self._watermarks, {}
            leaderships, self._leaderships = self._leaderships, {}
            woken: dict[int, FetchSession] = {}
            for key in leaderships:
                _collect(woken, self.sessions.on_leadership_changed(key))
            for key in appended:
                _collect(woken, self.sessions.on_data_appended(key))
            for key in watermarks:
                _collect(woken, self.sessions.on_high_watermark_moved(key))
                for session in self.sessions.replicas_to_tell(key):
                    self._tell_soon(session, now_ms)
            for session in woken.values():
                fetch = session.parked
                if isinstance(fetch, Fetch):
                    answers, has_reason = self._evaluate(fetch, now_ms)
                    if has_reason or fetch.is_gone():
                        self._unpark(fetch)
                        self._answer(fetch, answers, now_ms)

    def _tell_soon(self, session: FetchSession, now_ms: int) -> None:
        fetch, soon_ms = session.parked, now_ms + HIGH_WATERMARK_TELL_MS
        if isinstance(fetch, Fetch) and soon_ms < fetch.deadline_ms:
            fetch.deadline_ms = soon_ms
            self._arm(fetch)

    def _evaluate_anew(self, fetch: Fetch, now_ms: int) -> tuple[list[FetchedAnswer], bool]:
        """As _evaluate does, where no event has said what to look at: one of a lease's end there is none."""
        if not fetch.session.is_replica and not self._holds_lease(now_ms):
            fetch.session.mark_all_due()
        return self._evaluate(fetch, now_ms)

    def _evaluate(self, fetch: Fetch, now_ms: int) -> tuple[list[FetchedAnswer], bool]:
        """The answer as it stands, and whether it is worth sending now. What is no news is settled at
        once, so that a long wait does not look at it again. Only what is read is charged to the client's
        limit, so that a batch is reached however small that is (KIP-74)."""
        session = fetch.session
        answers: list[FetchedAnswer] = []
        budget = fetch.max_bytes
        total = 0
        empty = 0
        has_reason = False
        is_first = True
        for followed in session.due():
            if not session.is_full_answer and (budget <= 0 or empty >= self._empty_partitions_max):
                has_reason = True  # what is left stays due, first in line for the next request
                break
            result = self._evaluate_partition(
                session, followed, min(budget, followed.position.max_bytes), is_first, now_ms
            )
            records = result.records
            size = len(result.producers) + (0 if records is None else records.size_bytes)
            if session.is_news(followed, result, size):
                answers.append(FetchedAnswer(followed, result, size))
            else:
                session.settle(followed, result, is_more_left=False)
            if size:
                is_first = False
                total += size
                budget = max(budget - size, 0)
            elif result.diverging is not None or result.error not in (ErrorCode.NONE, followed.told_error):
                has_reason = True
            empty += size == 0
        return answers, has_reason or total >= fetch.min_bytes

    def _answer(self, fetch: Fetch, answers: list[FetchedAnswer], now_ms: int) -> None:
        """Answer the fetch. `now_ms`: read before the answer was made, so that what follows it is never dated
        too late."""
        fetch.is_answered = True
        session = fetch.session
        session.contact.on_answer(now_ms)
        for answer in answers:
            # More left than what fitted: the next evaluation finds out.
            session.settle(answer.followed, answer.result, is_more_left=answer.size_bytes > 0)
        self._respond(fetch, session, answers)

    def _unpark(self, fetch: Fetch) -> None:
        self.parked -= 1
        self.sessions.unpark(fetch.session)

    # Time

    def _arm(self, fetch: Fetch) -> None:
        """Note when this wait ends at the latest. A driver whose timer is set for later sets it again."""
        if len(self._timers) > 2 * self.parked + TIMERS_STALE_MAX:
            self._timers = [entry for entry in self._timers if not entry[2].is_answered]
            heapify(self._timers)
        heappush(self._timers, (fetch.deadline_ms, next(self._sequence), fetch))

    def end_waits(self, *, now_ms: int) -> int | None:
        """Answer what has waited long enough. Milliseconds until there is something to do again, or None."""
        while self._timers:
            deadline_ms, _, fetch = self._timers[0]
            if deadline_ms > now_ms and not fetch.is_answered:
                return deadline_ms - now_ms
            heappop(self._timers)
            if not fetch.is_answered:
                self._end_wait(fetch, now_ms)
        return None

    def end_wait_of(self, session: FetchSession, *, now_ms: int) -> None:
        """Answer the fetch that waits in this session, if there is one: its fetcher has more to ask for."""
        if isinstance(session.parked, Fetch):
            self._end_wait(session.parked, now_ms)

    def _end_wait(self, fetch: Fetch, now_ms: int) -> None:
        answers, _ = self._evaluate_anew(fetch, now_ms)
        self._unpark(fetch)
        self._answer(fetch, answers, now_ms)

    def drop(self, fetch: Fetch) -> None:
        """Forget a fetch that waits: its connection is gone. The session stays, for the fetcher may come back
        to it."""
        fetch.is_answered = True
        self._unpark(fetch)


def _collect(into: dict[int, FetchSession], sessions: Iterable[FetchSession]) -> None:
    for session in sessions:
        into[id(session)] = session
