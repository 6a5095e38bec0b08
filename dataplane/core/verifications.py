"""Transactional batches that wait for their coordinator's word: what is asked, and what answers do (KIP-890).

A leader appends the first batch of a producer's transaction only after the transaction's coordinator has said
that the partition is in it; else a batch that comes late, behind the transaction's end, would open one that
nothing ends. Until then the batch is parked here and nothing of it is written. Its bytes stay where they are:
a frame's buffer is never written again (springtide/wire/framing.py; KAFKA-15653).

    parked -> due at its coordinator -> asked -> released: appended with its guard, or refused
                 ^                        |
                 +--- after a rest, while the coordinator's error may pass ---+

1. Batches of one producer epoch in one partition wait in one queue and are released together, in the order in
   which they came. If the first is refused, so are those behind it.
2. An answer counts for the queue that it was asked for, not for a later one at the same place: the
   transaction may have ended in between.
3. One question about a transactional id is on its way at a time; what is parked meanwhile is in the next.
4. A queue has one guard, the leader's. A batch that comes with another one ends the older queue with an error
   on which its client sends again: something was written meanwhile, and the coordinator is to judge anew.
5. Nothing waits for ever: a queue ends with its first deadline. What is parked is bounded in bytes and count.

What the guard means, and whether it still holds, is the leader's to judge when it appends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from springtide.wire.errors import ErrorCode

PARKED_MAX: Final = 20_000
"""Batches that may be parked in a broker."""
PARKED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Their bytes. The server counts those of open connections, too; these may be of clients that have left."""
PARKED_MS_MAX: Final = 10_000
"""The longest wait. Clients wait 30 s for an answer by default."""
RETRY_MS: Final = 20
"""The first rest before a question is asked again (Kafka's add.partitions.to.txn.retry.backoff.ms); each is
twice as long as the one before."""
RETRY_MS_MAX: Final = 160
RETRIED_MS_MAX: Final = 1_000
"""The time for which an error that may pass is not told, but asked again. A client of transaction version 2
begins its next transaction while the last one's markers are on their way: CONCURRENT_TRANSACTIONS ends within
milliseconds."""
TRANSACTIONS_PER_REQUEST: Final = 1_000
ID_CHARS_PER_REQUEST: Final = 1_000_000
"""A request to a coordinator ends with the transaction that exceeds it."""
TIMERS_STALE_MAX: Final = 10_000
"""Timers of what was answered in time may pile up to this before they are swept out."""
NO_OWNER: Final = -1
"""No live coordinator has the transactional id's shard."""

_MAY_PASS: Final = frozenset(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # beside a partition that could not be added
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # it is led here: the coordinator has not heard of it yet
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
#: Said to the producer, who sends the batch again: nothing was written.
SEND_AGAIN: Final = ErrorCode.NOT_ENOUGH_REPLICAS

OwnerOf = Callable[[str], int]
"""The coordinator that has a transactional id's shard, or NO_OWNER."""


class ClaimedPlace(NamedTuple):
    """A partition, by the name that its coordinator knows and the id that it has here."""

    topic: str
    partition: int
    topic_id: str


class ClaimedTransaction(NamedTuple):
    """The transaction that a batch says it is in. is_verify_only: the coordinator must not add the partition;
    the client has done so itself (before Produce v12)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_verify_only: bool


class ClaimQuestion(NamedTuple):
    """One transaction of a request to a coordinator."""

    transaction: ClaimedTransaction
    places: tuple[ClaimedPlace, ...]


class CoordinatorAnswer(NamedTuple):
    """A coordinator's word on a transaction: an error of the whole, or of each (topic, partition)."""

    error: ErrorCode = ErrorCode.NONE
    partitions: Mapping[tuple[str, int], ErrorCode] = {}


class ReleasedBatches(NamedTuple):
    """Batches of one queue, in order. error NONE: append them with the guard; else answer each with it.
    waited_ms: the first one's wait."""

    batches: tuple[object, ...]
    guard: object
    error: ErrorCode
    waited_ms: int


@dataclass(slots=True, eq=False)
class _Queue:
    place: ClaimedPlace
    guard: object
    parked_ms: int
    expires_ms: int
    batches: list[object] = field(default_factory=list)
    size_bytes: int = 0


@dataclass(slots=True, eq=False)
class _Waiting:
    """A transaction with batches parked. asked: the queues that the question on its way is about.
    rests_until_ms: it is asked again then; None: it is due, or on its way. rest_ms: the next rest."""

    transaction: ClaimedTransaction
    queues: dict[ClaimedPlace, _Queue] = field(default_factory=dict)
    asked: dict[ClaimedPlace, _Queue] | None = None
    rests_until_ms: int | None = None
    rest_ms: int = RETRY_MS


class Verifications:
    """See the module. Every `now_ms` is monotonic. What a call returns as released, it has forgotten."""

    def __init__(self, owner_of: OwnerOf) -> None:
        self._owner_of = owner_of
        self._waiting: dict[ClaimedTransaction, _Waiting] = {}
        #: Due transactions by the coordinator that owned the id when they became due; in order.
        self._due: dict[int, dict[ClaimedTransaction, None]] = {}
        #: Transactional ids with a question on its way.
        self._asked_ids: dict[str, None] = {}
        self._timers: list[tuple[int, int, ClaimedTransaction]] = []
        self._sequence = count()
        self.parked = 0
        self.parked_bytes = 0

    def park(
        self,
        transaction: ClaimedTransaction,
        place: ClaimedPlace,
        guard: object,
        batch: object,
        *,
        size_bytes: int,
        expires_ms: int,
        now_ms: int,
    ) -> tuple[ReleasedBatches, ...]:
        """Park a batch that its leader has found in order but for the coordinator's word. What this releases
        is the batch itself, where there is no room, or an older queue of its place."""
        if self.parked >= PARKED_MAX or self.parked_bytes + size_bytes > PARKED_BYTES_MAX:
            return (ReleasedBatches((batch,), guard, SEND_AGAIN, 0),)
        waiting = self._waiting.get(transaction)
        if waiting is None:
            waiting = self._waiting[transaction] = _Waiting(transaction)
        released: list[ReleasedBatches] = []
        queue = waiting.queues.get(place)
        expires_ms = min(expires_ms, now_ms + PARKED_MS_MAX)
        if queue is None or queue.guard is not guard:
            older, queue = queue, _Queue(place, guard, now_ms, expires_ms)
            if older is not None:
                released.append(self._release(waiting, older, SEND_AGAIN, now_ms))
            self._waiting[transaction] = waiting
            waiting.queues[place] = queue
            self._arm(expires_ms, transaction)
            if waiting.asked is None and waiting.rests_until_ms is None:
                released += self._make_due(waiting, now_ms)
        elif expires_ms < queue.expires_ms:
            queue.expires_ms = expires_ms
            self._arm(expires_ms, transaction)
        queue.batches.append(batch)
        queue.size_bytes += size_bytes
        self.parked += 1
        self.parked_bytes += size_bytes
        return tuple(released)

    # Questions

    def due_owners(self) -> tuple[int, ...]:
        """Return the coordinators that there is something to ask."""
        return tuple(self._due)

    def take(self, owner: int) -> tuple[ClaimQuestion, ...]:
        """Return what to ask a coordinator now, in one request; each question names another transactional id.
        The caller calls `on_answers` once with all of them."""
        due = self._due.pop(owner, {})
        questions: list[ClaimQuestion] = []
        left: dict[ClaimedTransaction, None] = {}
        chars = 0
        for transaction in due:
            waiting = self._waiting.get(transaction)
            if waiting is None:
                continue
            is_full = len(questions) >= TRANSACTIONS_PER_REQUEST or chars > ID_CHARS_PER_REQUEST
            if is_full or transaction.transactional_id in self._asked_ids:
                left[transaction] = None
                continue
            waiting.asked = dict(waiting.queues)
            self._asked_ids[transaction.transactional_id] = None
            chars += len(transaction.transactional_id)
            questions.append(ClaimQuestion(transaction, tuple(waiting.asked)))
        if left:
            self._due[owner] = left
        return tuple(questions)

    def on_answers(
        self, questions: Iterable[ClaimQuestion], answers: Mapping[str, CoordinatorAnswer], *, now_ms: int
    ) -> tuple[ReleasedBatches, ...]:
        """Note a coordinator's answers, by transactional id, to what was taken; what lacks did not come."""
        released: list[ReleasedBatches] = []
        for question in questions:
            transaction = question.transaction
            self._asked_ids.pop(transaction.transactional_id, None)
            waiting = self._waiting.get(transaction)
            if waiting is None or waiting.asked is None:
                continue
            asked, waiting.asked = waiting.asked, None
            answer = answers.get(transaction.transactional_id, _UNANSWERED)
            released += self._settle(waiting, asked, answer, now_ms)
        return tuple(released)

    def _settle(
        self, waiting: _Waiting, asked: Mapping[ClaimedPlace, _Queue], answer: CoordinatorAnswer, now_ms: int
    ) -> list[ReleasedBatches]:
        """Release what the answer decides. What is left rests, unless something has come meanwhile that the
        question was not about."""
        released = []
        for place, queue in asked.items():
            if waiting.queues.get(place) is queue:
                error = _error_at(answer, place)
                if error not in _MAY_PASS or now_ms - queue.parked_ms >= RETRIED_MS_MAX:
                    released.append(self._release(waiting, queue, error, now_ms))
        if any(asked.get(place) is not queue for place, queue in waiting.queues.items()):
            released += self._make_due(waiting, now_ms)
        elif waiting.queues:
            waiting.rests_until_ms = now_ms + waiting.rest_ms
            waiting.rest_ms = min(2 * waiting.rest_ms, RETRY_MS_MAX)
            self._arm(waiting.rests_until_ms, waiting.transaction)
        return released

    def _make_due(self, waiting: _Waiting, now_ms: int) -> list[ReleasedBatches]:
        owner = self._owner_of(waiting.transaction.transactional_id)
        if owner == NO_OWNER:
            return self._settle(waiting, dict(waiting.queues), _NO_COORDINATOR, now_ms)
        self._due.setdefault(owner, {})[waiting.transaction] = None
        return []

    # Time

    @property
    def next_ms(self) -> int | None:
        """Return when `on_time` has something to do, or None. It may be early, never late."""
        return self._timers[0][0] if self._timers else None

    def on_time(self, now_ms: int) -> tuple[ReleasedBatches, ...]:
        """End queues whose time is up, and have rested transactions asked again."""
        released: list[ReleasedBatches] = []
        while self._timers and self._timers[0][0] <= now_ms:
            _, _, transaction = heappop(self._timers)
            waiting = self._waiting.get(transaction)
            if waiting is None:
                continue
            for queue in [one for one in waiting.queues.values() if one.expires_ms <= now_ms]:
                released.append(self._release(waiting, queue, SEND_AGAIN, now_ms))
            if waiting.queues and waiting.rests_until_ms is not None and waiting.rests_until_ms <= now_ms:
                waiting.rests_until_ms = None
                released += self._make_due(waiting, now_ms)
        return tuple(released)

    def _arm(self, at_ms: int, transaction: ClaimedTransaction) -> None:
        if len(self._timers) > 4 * self.parked + TIMERS_STALE_MAX:
            self._timers = [
                (ms, next(self._sequence), waiting.transaction)
                for waiting in self._waiting.values()
                for ms in (waiting.rests_until_ms, *(queue.expires_ms for queue in waiting.queues.values()))
                if ms is not None
            ]
            heapify(self._timers)
        heappush(self._timers, (at_ms, next(self._sequence), transaction))

    # Ends

    def _release(self, waiting: _Waiting, queue: _Queue, error: ErrorCode, now_ms: int) -> ReleasedBatches:
        del waiting.queues[queue.place]
        if not waiting.queues:
            del self._waiting[waiting.transaction]
        self.parked -= len(queue.batches)
        self.parked_bytes -= queue.size_bytes
        said = SEND_AGAIN if error in _MAY_PASS else error
        return ReleasedBatches(tuple(queue.batches), queue.guard, said, now_ms - queue.parked_ms)


_UNANSWERED: Final = CoordinatorAnswer(ErrorCode.NETWORK_EXCEPTION)
_NO_COORDINATOR: Final = CoordinatorAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _error_at(answer: CoordinatorAnswer, place: ClaimedPlace) -> ErrorCode:
    if answer.error is not ErrorCode.NONE:
        return answer.error
    return answer.partitions.get((place.topic, place.partition), ErrorCode.NETWORK_EXCEPTION)


ABORTABLE_SINCE: Final = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE (KIP-890)."""
ADDS_SINCE: Final = 12
"""The first version of Produce whose clients leave it to the leader to add the partition (KIP-890)."""


def producer_error(error: ErrorCode, api_version: int) -> ErrorCode:
    """Return a coordinator's error as a producer is told it, by the version of its Produce request."""
    match error:
        case ErrorCode.PRODUCER_FENCED:  # fatal to a client that may only be late
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:  # this broker's trouble, not the client's
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.INVALID_TXN_STATE | ErrorCode.TRANSACTION_ABORTABLE:
            abortable, older = ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE
            return abortable if api_version >= ABORTABLE_SINCE else older
    return error
