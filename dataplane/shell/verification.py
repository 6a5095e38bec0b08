"""A leader's questions to transaction coordinators: core/verifications.py decides, and tasks ask.

What a turn has parked for one coordinator goes into one request, because the task that asks runs after the
turn; so does what is parked while as many requests as may be are on their way. What is not answered in time
is asked again or told to the producers, as the core decides.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import trio

from dataplane.core.verifications import (
    NO_OWNER,
    ClaimedPlace,
    ClaimedTransaction,
    ClaimQuestion,
    CoordinatorAnswer,
    ReleasedBatches,
    Verifications,
)
from dataplane.shell.metrics import BrokerCounters
from springtide.node.clock import Clock
from springtide.node.cluster_view import ClusterView
from springtide.node.net import Net
from springtide.node.peer_links import PeerLinks
from springtide.node.sharding import TRANSACTIONS_TOPIC, shard_of
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

API_VERSION: Final = 5
"""Of AddPartitionsToTxn: every coordinator of a cluster that has transactions speaks it."""
ANSWER_MS_MAX: Final = 5_000
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
REQUESTS_MAX: Final = 4
"""Requests on their way to one coordinator: one that waits for a shard's log must not hold up all others."""

OnReleased = Callable[[ReleasedBatches], None]


class CoordinatorQuestions:
    """client_id: this process's, in its requests. spawn: starts a task of the broker. on_released: takes what
    the core releases, on the loop."""

    def __init__(
        self,
        *,
        view: ClusterView,
        net: Net,
        clock: Clock,
        client_id: str,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        end_turn: Callable[[], None],
        on_released: OnReleased,
        counters: BrokerCounters,
    ) -> None:
        self._view = view
        self._clock = clock
        self._spawn = spawn
        self._end_turn = end_turn
        self._on_released = on_released
        self._counters = counters
        self._core = Verifications(self._owner_of)
        self._links = PeerLinks(net=net, clock=clock, client_id=client_id, answer_bytes_max=ANSWER_BYTES_MAX)
        #: Requests on their way, by coordinator, and coordinators for which a task has not begun to ask yet.
        self._running: dict[int, int] = {}
        self._starting: set[int] = set()
        self._armed_ms: int | None = None
        self._wake_timer = trio.Event()

    @property
    def parked(self) -> int:
        """Return how many batches wait."""
        return self._core.parked

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
    ) -> None:
        """Have the coordinator asked; `on_released` takes the batch then, or at once if there is no room."""
        released = self._core.park(
            transaction, place, guard, batch, size_bytes=size_bytes, expires_ms=expires_ms, now_ms=now_ms
        )
        self._go_on(released)

    def _go_on(self, released: Sequence[ReleasedBatches]) -> None:
        """Hand over what is released; have asked what is due; keep the timer."""
        for one in released:
            self._counters.verifications += 1
            self._counters.verification_ms += one.waited_ms
            self._counters.verification_failures += one.error is not ErrorCode.NONE
            self._on_released(one)
        self._start()
        next_ms = self._core.next_ms
        if next_ms is not None and (self._armed_ms is None or next_ms < self._armed_ms):
            self._wake_timer.set()

    def _owner_of(self, transactional_id: str) -> int:
        topic = self._view.topic_by_name(TRANSACTIONS_TOPIC)
        if topic is None:
            return NO_OWNER
        owner = self._view.shard_owner(TRANSACTIONS_TOPIC, shard_of(transactional_id, topic.partitions))
        return NO_OWNER if owner is None else owner.broker_id

    # Time

    async def run(self) -> None:
        """The one task for all waits."""
        try:
            await self._run_timer()
        finally:
            self._links.close()

    async def _run_timer(self) -> None:
        while True:
            self._wake_timer = trio.Event()
            self._armed_ms = -1  # no wake-up is needed while we look
            self._go_on(self._core.on_time(self._clock.mono_ms()))
            self._end_turn()
            next_ms = self._armed_ms = self._core.next_ms
            if next_ms is None:
                await self._wake_timer.wait()
            else:
                with self._clock.timeout_ms(next_ms - self._clock.mono_ms()):
                    await self._wake_timer.wait()

    # Coordinators

    def _start(self) -> None:
        """Begin to ask each coordinator that there is something to ask, within its bound."""
        for owner in self._core.due_owners():
            if owner not in self._starting and self._running.get(owner, 0) < REQUESTS_MAX:
                self._starting.add(owner)
                self._running[owner] = self._running.get(owner, 0) + 1
                self._spawn(partial(self._ask, owner))

    async def _ask(self, owner: int) -> None:
        """Ask a coordinator all that is due, in one request."""
        self._starting.discard(owner)
        questions = self._core.take(owner)
        if questions:
            self._start()  # it may not have been all
        coordinator = self._view.coordinators.get(owner)
        answer = None
        if questions and coordinator is not None:
            answer = await self._links.ask(
                coordinator,
                _request(questions),
                AddPartitionsToTxnResponse,
                version=API_VERSION,
                timeout_ms=ANSWER_MS_MAX,
            )
        self._running[owner] -= 1
        answers = {} if answer is None else _read(answer, questions)
        self._go_on(self._core.on_answers(questions, answers, now_ms=self._clock.mono_ms()))


def _request(questions: Sequence[ClaimQuestion]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                verify_only=transaction.is_verify_only,
                topics=_by_topic(places),
            )
            for transaction, places in questions
        )
    )


def _by_topic(places: Sequence[ClaimedPlace]) -> tuple[AddPartitionsToTxnTopic, ...]:
    by_topic: dict[str, dict[int, None]] = {}
    for place in places:
        by_topic.setdefault(place.topic, {})[place.partition] = None
    return tuple(
        AddPartitionsToTxnTopic(name=topic, partitions=tuple(partitions))
        for topic, partitions in by_topic.items()
    )


def _read(
    message: AddPartitionsToTxnResponse, questions: Sequence[ClaimQuestion]
) -> dict[str, CoordinatorAnswer]:
    if message.error_code is not ErrorCode.NONE:
        refused = CoordinatorAnswer(message.error_code)
        return {question.transaction.transactional_id: refused for question in questions}
    return {
        result.transactional_id: CoordinatorAnswer(
            partitions={
                (topic.name, one.partition_index): one.partition_error_code
                for topic in result.topic_results
                for one in topic.results_by_partition
            }
        )
        for result in message.results_by_transaction
    }
