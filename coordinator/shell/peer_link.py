"""A group's coordinator asks that of a transaction whether a commit of offsets belongs to it (KIP-890).

Producers of version 2 don't announce their groups: the question then adds the partition of
`__consumer_offsets` to the transaction. Those of version 1 have announced it, and it is only verified.

The answer of a coordinator that can't be reached, or does not own the transactional id any more, is
COORDINATOR_NOT_AVAILABLE, on which every client tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from coordinator.core.offsets_question import OffsetsQuestion
from coordinator.shell.timers import Spawn
from springtide.contract.updates import BrokerEndpoint
from springtide.node.cluster_view import ClusterView
from springtide.node.peer_links import PeerBatches, PeerLinks
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC, shard_of
from springtide.wire.errors import ErrorCode
from springtide.wire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

VERSION: Final = 5
ANSWER_MS_MAX: Final = 5_000
QUESTIONS_MAX: Final = 10_000
"""Without an answer, to all coordinators together. What is beyond them is refused."""
QUESTIONS_PER_REQUEST_MAX: Final = 500
REQUESTS_MAX: Final = 8
"""Under way to one coordinator."""

_ABSENT: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE
_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


_Asked = tuple[OffsetsQuestion, Callable[[ErrorCode], None]]


class TransactionLink:
    """spawn: starts a task of the process, whose end sends what it completed."""

    def __init__(self, *, view: ClusterView, links: PeerLinks, spawn: Spawn) -> None:
        self._view = view
        self._links = links
        self._batches: PeerBatches[_Asked] = PeerBatches(
            self._carry, spawn=spawn, requests_max=REQUESTS_MAX, items_max=QUESTIONS_PER_REQUEST_MAX
        )
        self._unanswered = 0

    def ask(self, question: OffsetsQuestion, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` once, on the loop: NONE if the partition is in the transaction."""
        owner = self._owner_of(question.transactional_id)
        if owner is None or self._unanswered >= QUESTIONS_MAX:
            done(_ABSENT)
            return
        self._unanswered += 1
        self._batches.put(owner.broker_id, (question, done))

    def _owner_of(self, transactional_id: str) -> BrokerEndpoint | None:
        topic = self._view.topic_by_name(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        return self._view.shard_owner(TRANSACTIONS_TOPIC, shard_of(transactional_id, topic.partitions))

    async def _carry(self, peer_id: int, batch: Sequence[_Asked]) -> None:
        """Ask about each transactional id once in a request; what else is asked of it goes in the next."""
        now: dict[str, list[_Asked]] = {}
        for asked in batch:
            of_id = now.setdefault(asked[0].transactional_id, [])
            if not of_id or of_id[0][0]._replace(partition=asked[0].partition) == asked[0]:
                of_id.append(asked)
            else:
                self._batches.put(peer_id, asked)
        errors = await self._errors_of(peer_id, now)
        for of_id in now.values():
            for question, done in of_id:
                self._unanswered -= 1
                error = errors.get((question.transactional_id, question.partition), _ABSENT)
                done(_ABSENT if error in _UNAVAILABLE else error)

    async def _errors_of(
        self, peer_id: int, asked: dict[str, list[_Asked]]
    ) -> dict[tuple[str, int], ErrorCode]:
        peer = self._view.coordinators.get(peer_id)
        if peer is None:
            return {}
        message = AddPartitionsToTxnRequest(
            transactions=tuple(
                _transaction(of_id[0][0], sorted({question.partition for question, _ in of_id}))
                for of_id in asked.values()
            )
        )
        answer = await self._links.ask(
            peer, message, AddPartitionsToTxnResponse, version=VERSION, timeout_ms=ANSWER_MS_MAX
        )
        if answer is None or answer.error_code is not ErrorCode.NONE:
            return {}
        return {
            (result.transactional_id, partition.partition_index): partition.partition_error_code
            for result in answer.results_by_transaction
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }


def _transaction(question: OffsetsQuestion, partitions: Sequence[int]) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.producer_epoch,
        verify_only=question.is_verify_only,
        topics=(AddPartitionsToTxnTopic(name=GROUPS_TOPIC, partitions=tuple(partitions)),),
    )
