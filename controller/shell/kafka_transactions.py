"""Transactions over the Kafka protocol: each coordinator is asked for its own, one's own coordinator for that
one, and leaders for what they hold open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from controller.shell.client_groups import GroupsUnavailable, Place
from controller.shell.client_transactions import (
    STATES,
    OpenProducer,
    TransactionAbsent,
    TransactionChanged,
    TransactionDetail,
    TransactionListing,
)
from controller.shell.group_messages import KafkaRefusal, check, in_words, only, state_word
from controller.shell.kafka_connection import KafkaPeer, NodeLost
from controller.shell.kafka_questions import (
    QUESTION_MS_MAX,
    TRANSACTION,
    KafkaQuestions,
    Way,
    at_once,
    by_leader,
)
from controller.shell.outcomes import OutcomeUnknown
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode, error_code

T = TypeVar("T")

#: Of one coordinator, in one list. Further ones are listed without their details.
DESCRIBED_MAX: Final = 5_000
DESCRIBED_PER_REQUEST: Final = 1_000
#: What fences a producer names a timeout, which the next producer of the id replaces by its own.
FENCE_TIMEOUT_MS_MAX: Final = 60_000
_CHANGED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    }
)
_BEGUN: Final = frozenset({ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS})


class KafkaTransactions(KafkaQuestions):
    """Implements ClientTransactions."""

    async def listed(
        self, cluster: str, *, producer_ids: Iterable[int] = ()
    ) -> tuple[list[TransactionListing], list[str]]:
        nodes: dict[KafkaPeer, list[str]] = {}

        def read(node: KafkaPeer, answer: Any) -> Mapping[str, TransactionListing]:
            told = {one.transactional_id: _listing(one) for one in answer.transaction_states}
            nodes[node] = [one.transactional_id for one in told.values() if one.is_live][:DESCRIBED_MAX]
            return told

        fields = {"producer_id_filters": tuple(producer_ids)}
        found, errors = await self.of_each_coordinator(cluster, ApiKey.LIST_TRANSACTIONS, fields, read)

        async def describe(way: Way, node: KafkaPeer, live: Sequence[str]) -> None:
            with suppress(NodeLost):
                for start in range(0, len(live), DESCRIBED_PER_REQUEST):
                    asked = {"transactional_ids": tuple(live[start : start + DESCRIBED_PER_REQUEST])}
                    answer = await way.ask(node, ApiKey.DESCRIBE_TRANSACTIONS, asked)
                    for one in answer.transaction_states:
                        if not one.error_code and one.transactional_id in found:
                            found[one.transactional_id] = _described(one)

        if any(nodes.values()):
            async with self.way(self.view_of(cluster)) as way:
                await at_once(partial(describe, way, node, live) for node, live in nodes.items())
        return list(found.values()), errors

    async def described(self, cluster: str, transactional_id: str) -> TransactionDetail:
        return await self.of_coordinator(
            cluster,
            transactional_id,
            ApiKey.DESCRIBE_TRANSACTIONS,
            {"transactional_ids": (transactional_id,)},
            _detail,
            key_type=TRANSACTION,
        )

    async def fence(self, cluster: str, seen: TransactionDetail) -> None:
        fields = {
            "transactional_id": seen.transactional_id,
            "transaction_timeout_ms": max(1, min(seen.timeout_ms, FENCE_TIMEOUT_MS_MAX)),
            "producer_id": seen.producer_id,
            "producer_epoch": seen.producer_epoch,
        }
        await self.of_coordinator(
            cluster,
            seen.transactional_id,
            ApiKey.INIT_PRODUCER_ID,
            fields,
            lambda _, answer: _check_begun(answer.error_code),
            key_type=TRANSACTION,
            is_write=True,
        )

    async def open_producers(self, cluster: str, place: Place) -> list[OpenProducer]:
        fields = {"topics": ({"name": place[0], "partition_indexes": (place[1],)},)}

        def read(node: KafkaPeer, answer: Any) -> list[OpenProducer]:
            told = only(node, only(node, answer.topics).partitions)
            check(told.error_code)
            return [
                OpenProducer(
                    producer_id=one.producer_id,
                    producer_epoch=one.producer_epoch,
                    coordinator_epoch=one.coordinator_epoch,
                    first_offset=one.current_txn_start_offset,
                    last_timestamp_ms=one.last_timestamp if one.last_timestamp >= 0 else None,
                )
                for one in told.active_producers
                if one.current_txn_start_offset >= 0
            ]

        return await self._of_leader(cluster, place, ApiKey.DESCRIBE_PRODUCERS, fields, read)

    async def write_abort(self, cluster: str, place: Place, seen: OpenProducer) -> None:
        marker = {
            "producer_id": seen.producer_id,
            "producer_epoch": seen.producer_epoch,
            "transaction_result": False,
            "topics": ({"name": place[0], "partition_indexes": (place[1],)},),
            "coordinator_epoch": max(0, seen.coordinator_epoch),
        }

        def read(node: KafkaPeer, answer: Any) -> None:
            told = only(node, only(node, only(node, answer.markers).topics).partitions)
            _check_unchanged(told.error_code)

        await self._of_leader(
            cluster, place, ApiKey.WRITE_TXN_MARKERS, {"markers": (marker,)}, read, is_write=True
        )

    async def _of_leader(
        self,
        cluster: str,
        place: Place,
        api_key: ApiKey,
        fields: Mapping[str, object],
        read: Callable[[KafkaPeer, Any], T],
        *,
        is_write: bool = False,
    ) -> T:
        view = self.view_of(cluster)
        leaders = by_leader(view, [place])
        if not leaders:
            raise GroupsUnavailable("it has no leader")
        silence = f"the leader did not answer within {QUESTION_MS_MAX / 1000:g} s"
        lost: Exception = OutcomeUnknown(silence) if is_write else GroupsUnavailable(silence)
        async with self.way(view) as way:
            node = leaders[0][0]
            try:
                return read(node, await way.ask(node, api_key, fields))
            except KafkaRefusal as error:
                lost = error.failure()
            except NodeLost as error:
                is_unknown = is_write and error.may_have_heard
                lost = OutcomeUnknown(f"{error}") if is_unknown else GroupsUnavailable(f"{error}")
        raise lost


def _listing(told: Any) -> TransactionListing:
    return TransactionListing(
        transactional_id=told.transactional_id,
        producer_id=told.producer_id,
        state=state_word(told.transaction_state, STATES),
    )


def _described(told: Any) -> TransactionListing:
    listing = _listing(told)
    return replace(
        listing,
        producer_epoch=told.producer_epoch,
        timeout_ms=told.transaction_timeout_ms,
        # Of one that is over, the start stays on record until the next one begins.
        started_ms=told.transaction_start_time_ms if listing.is_live else None,
        partitions=tuple(
            sorted((topic.topic, number) for topic in told.topics for number in topic.partitions)
        ),
        client_id=told.client_id if told.client_host else None,
        client_host=told.client_host or None,
    )


def _detail(node: KafkaPeer, answer: Any) -> TransactionDetail:
    told = only(node, answer.transaction_states)
    if told.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise TransactionAbsent(in_words(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    check(told.error_code)
    one = _described(told)
    return TransactionDetail(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        state=one.state,
        producer_epoch=told.producer_epoch,
        timeout_ms=told.transaction_timeout_ms,
        started_ms=one.started_ms,
        partitions=one.partitions,
        client_id=one.client_id,
        client_host=one.client_host,
        coordinator_id=node.node_id,
        endpoint=node.endpoint,
    )


def _check_begun(code: int) -> None:
    if error_code(int(code)) not in _BEGUN:
        _check_unchanged(code)


def _check_unchanged(code: int) -> None:
    """Raise TransactionChanged; raise KafkaRefusal for other errors."""
    if error_code(int(code)) in _CHANGED:
        raise TransactionChanged(in_words(error_code(int(code))))
    check(code)
