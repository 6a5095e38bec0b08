"""A cluster, asked from one thread: metadata, offsets, epochs, producers, produce and fetch.

Each question is put to the partitions' leaders, all of them at once, and put again where an answer says that
the leader is elsewhere, that it is too early, or where none came; until the retry budget is spent. Metadata
is read again before every further try. Only the caller can decide whether a lost request was carried out:
`produce_once` makes one attempt and says what it knows; so does `producing`, whose caller does not wait.

Connections come from the process's pool, so a client costs nothing to make.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, Self, TypeVar

from pipeline.client import messages
from pipeline.client.backoff import Patience
from pipeline.client.config import Address, ClientConfig
from pipeline.client.connection import BrokerConnection, now_ms
from pipeline.client.errors import UNAUTHORIZED, ConnectionLost, RetriesExhausted, TopicUnknown, broker_error
from pipeline.client.fetch_stream import FetchStream
from pipeline.client.messages import Answered
from pipeline.client.pool import ConnectionPool, shared_pool
from pipeline.client.producing import ACKS_ALL, PRODUCE_TIMEOUT_MS, Producing
from pipeline.client.values import (
    UNKNOWN_TOPIC,
    ActiveProducer,
    BrokerLogDir,
    ClusterMetadata,
    FoundOffset,
    LogDirReplica,
    PartitionRange,
    ProduceResult,
    TopicPartition,
    Unsettled,
)
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Buffer
from springtide.wire.errors import ErrorCode, error_code
from springtide.wire.fetch_response import EpochEnd

_log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A", Answered, ProduceResult)
PARTITIONS_PER_REQUEST_MAX = 10_000
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class Client:
    """Use from one thread, and close it. Every method may raise a ClientError.

    `known`: metadata that an earlier client of this cluster learnt. It may be out of date: when a broker
    refuses or can't be reached, Metadata is read again.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        pool: ConnectionPool | None = None,
        clock_ms: Callable[[], int] = now_ms,
        sleep_s: Callable[[float], None] = time.sleep,
        known: ClusterMetadata | None = None,
    ) -> None:
        self.config = config
        self._pool = shared_pool() if pool is None else pool
        self._clock_ms = clock_ms
        self._sleep_s = sleep_s
        self._metadata = ClusterMetadata() if known is None else known
        self._is_stale = False
        self.producing = Producing(
            self._pool,
            config,
            clock_ms=clock_ms,
            metadata=self.known_metadata,
            keep_pace=self.keep_pace,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up what is under way. The process keeps the pool's connections."""
        self.producing.close()

    # --- metadata -------------------------------------------------------------------------------------

    def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Return the cluster's current metadata of these topics, or of all (None). Unknown topics have an
        error.

        Partitions without a leader, and topics that are new to the broker, are returned as they are. Raises
        NotAuthorized for a topic that this client may not see, RetriesExhausted if no broker answers within
        the budget.
        """
        patience = self.config.patience()
        while True:
            try:
                return self._ask_metadata(topics)
            except ConnectionLost as error:
                self._again_or_raise(patience, f"metadata: {error}")

    def _ask_metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        """Ask the known brokers, in any order, then the bootstrap addresses, until one answers. Raises
        ConnectionLost, NotAuthorized."""
        error: ConnectionLost | None = None
        for address in self._addresses():
            try:
                fresh = self._metadata_of(address, topics)
            except ConnectionLost as failure:
                error = failure
                continue
            self._metadata = fresh if topics is None else self._metadata.updated(fresh)
            self._is_stale = False
            self._check_authorized(fresh, topics or ())
            return fresh
        assert error is not None, "there is always an address to ask"
        raise error

    def metadata_of_each(self, topics: Sequence[str] | None) -> list[ClusterMetadata]:
        """Return what each known broker and each bootstrap address tells, in one attempt. Raises
        ConnectionLost if one of them does not answer."""
        return [self._metadata_of(address, topics) for address in self._addresses()]

    def _metadata_of(self, address: Address, topics: Sequence[str] | None) -> ClusterMetadata:
        with self._pool.lease(address, self.config) as connection:
            message = connection.call(ApiKey.METADATA, messages.metadata_request(topics))
        told = messages.parse_metadata(message)
        if not told.brokers:  # the broker has just started and knows no broker yet, not even itself
            raise ConnectionLost(f"broker {address[0]}:{address[1]} knows of no broker yet")
        return told

    def _check_authorized(self, metadata: ClusterMetadata, topics: Sequence[str]) -> None:
        for name in topics:
            topic = metadata.topics.get(name)
            if topic is not None and topic.error in UNAUTHORIZED:
                raise broker_error(f"topic {name!r}", topic.error, principal=self.config.security.principal)

    def _addresses(self) -> list[Address]:
        known = [(broker.host, broker.port) for broker in self._metadata.brokers.values()]
        random.shuffle(known)
        return list(dict.fromkeys((*known, *self.config.bootstrap)))

    def known_metadata(self) -> ClusterMetadata:
        """Return the metadata that was learnt last."""
        return self._metadata

    def refresh(self, topics: Sequence[str]) -> ClusterMetadata:
        """Read the leaders of topics in one attempt. Raises ConnectionLost, NotAuthorized."""
        self._ask_metadata(topics)
        return self._metadata

    # --- questions to leaders -------------------------------------------------------------------------

    def list_offsets(
        self, asked: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, FoundOffset]:
        """Return by partition the first record at or after a timestamp (ms), or at EARLIEST or LATEST.

        An offset of -1 means that no record is that late. Raises BrokerError, RetriesExhausted.
        """
        return self._settle(
            ApiKey.LIST_OFFSETS,
            list(asked),
            lambda some: messages.list_offsets_request(
                {where: asked[where] for where in some}, isolation_level=isolation_level
            ),
            messages.parse_list_offsets,
        )

    def epoch_ends(self, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        """Return where the largest leader epoch at or below each requested one ended (KIP-101).

        Epoch and offset are -1 where the log has no such epoch. Raises BrokerError, RetriesExhausted.
        """
        return self._settle(
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            list(asked),
            lambda some: messages.epoch_end_request({where: asked[where] for where in some}),
            messages.parse_epoch_ends,
        )

    def describe_producers(
        self, asked: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...]]:
        """Return the active producers of each partition, as its leader remembers them. Raises BrokerError,
        RetriesExhausted."""
        return self._settle(
            ApiKey.DESCRIBE_PRODUCERS,
            list(asked),
            messages.describe_producers_request,
            messages.parse_producers,
        )

    def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = ACKS_ALL,
        timeout_ms: int = PRODUCE_TIMEOUT_MS,
    ) -> dict[TopicPartition, ProduceResult]:
        """Append one batch to each partition; send again until each is answered.

        At least once: a batch whose answer was lost is sent again, which only a producer id and sequence
        make harmless. Raises BrokerError for an error that stays, RetriesExhausted.
        """
        return self._until_settled(
            "produce to",
            list(batches),
            lambda left: self.produce_once(
                {where: batches[where] for where in left}, acks=acks, timeout_ms=timeout_ms
            ),
        )

    def produce_once(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = ACKS_ALL,
        timeout_ms: int = PRODUCE_TIMEOUT_MS,
    ) -> dict[TopicPartition, ProduceResult | Unsettled]:
        """Produce in one attempt to the known leaders. No answer to Produce is raised: each partition has a
        result or is Unsettled. The next call reads Metadata again if this one found it wrong, and raises
        NotAuthorized for a topic that this client may not see.

        `acks` 0 is not offered: the caller would not learn the result.
        """
        if acks == 0:
            raise ValueError("acks=0 has no answer")
        answers, lost = self._one_round(
            ApiKey.PRODUCE,
            list(batches),
            lambda some: messages.produce_request(
                {where: batches[where] for where in some}, acks=acks, timeout_ms=timeout_ms
            ),
            messages.parse_produced,
            broker_wait_ms=timeout_ms,
        )
        if any(result.error.is_retriable for result in answers.values()):
            self._is_stale = True
        return {**answers, **lost}

    def keep_pace(self, batches: Mapping[TopicPartition, Buffer]) -> None:
        """Wait until `producing` may send these: here, not at all."""

    def fetch(
        self,
        ranges: Iterable[PartitionRange],
        *,
        isolation_level: int = READ_UNCOMMITTED,
        replica_id: int | None = None,
        skip_gone: bool = False,
        in_order: bool = False,
        topic_ids: Mapping[str, str] = MappingProxyType({}),
    ) -> FetchStream:
        """Return the ranges' record batches as an iterator of FetchedRecords, one request ahead of the
        reader.

        The ranges come as brokers answer, or with `in_order` one after another, as they are given here.
        `topic_ids`, by name: of the topics that are meant, so that one that was made again under its name is
        not read in its place. See
        FetchStream for what it raises, and for what `skip_gone` does instead.
        """
        return FetchStream(
            self,
            self._pool,
            ranges,
            isolation_level=isolation_level,
            replica_id=replica_id,
            skip_gone=skip_gone,
            in_order=in_order,
            topic_ids=topic_ids,
            clock_ms=self._clock_ms,
            sleep_s=self._sleep_s,
        )

    # --- rounds ---------------------------------------------------------------------------------------

    def _settle(
        self,
        api: ApiKey,
        asked: list[TopicPartition],
        request: Callable[[list[TopicPartition]], Mapping[str, object]],
        parse: Callable[[Any, Iterable[TopicPartition]], dict[TopicPartition, Answered]],
    ) -> dict[TopicPartition, Any]:
        """Return every partition's value, in the order asked."""

        def one_round(left: list[TopicPartition]) -> dict[TopicPartition, Answered | Unsettled]:
            answers, lost = self._one_round(
                api,
                left,
                lambda some: [messages.encode_body(api, request(some))],
                lambda frame, position, some: parse(messages.decode_body(api, frame, position), some),
            )
            return {**lost, **answers}

        answers = self._until_settled(f"{api.name} of", asked, one_round)
        return {where: answered.value for where, answered in answers.items()}

    def _until_settled(
        self,
        what: str,
        asked: list[TopicPartition],
        one_round: Callable[[list[TopicPartition]], Mapping[TopicPartition, A | Unsettled]],
    ) -> dict[TopicPartition, A]:
        """Run rounds until every partition has a final answer; return the answers in the order asked."""
        done: dict[TopicPartition, A] = {}
        patience = self.config.patience()
        while len(done) < len(asked):
            reason, is_unknown = "", True
            for where, result in one_round([where for where in asked if where not in done]).items():
                if isinstance(result, Unsettled):
                    reason = f"{what} {where}: {result.reason}"
                    is_unknown = is_unknown and result.is_unknown_topic
                elif result.error is ErrorCode.NONE:
                    done[where] = result
                elif result.error.is_retriable:
                    self._is_stale = True
                    reason = f"{what} {where}: {result.error.name}"
                    is_unknown = is_unknown and result.error in UNKNOWN_TOPIC
                else:
                    principal = self.config.security.principal
                    raise broker_error(f"{what} {where}", result.error, result.message, principal=principal)
            if reason:
                self._again_or_raise(patience, reason, is_unknown_topic=is_unknown)
        return {where: done[where] for where in asked}

    def _one_round(
        self,
        api: ApiKey,
        asked: Sequence[TopicPartition],
        encode: Callable[[list[TopicPartition]], Sequence[Buffer]],
        parse: Callable[[memoryview, int, list[TopicPartition]], dict[TopicPartition, T]],
        *,
        broker_wait_ms: int = 0,
    ) -> tuple[dict[TopicPartition, T], dict[TopicPartition, Unsettled]]:
        """Ask every leader once; send all requests before awaiting the first answer. Return the answers, and
        the reason for each partition that has none."""
        answers: dict[TopicPartition, T] = {}
        lost: dict[TopicPartition, Unsettled] = {}
        under_way: list[tuple[BrokerConnection, list[TopicPartition]]] = []
        try:
            for address, some in self._by_leader(asked, lost):
                try:
                    connection = self._pool.take(address, self.config)
                    under_way.append((connection, some))
                    connection.send(api, encode(some))
                except ConnectionLost as error:
                    lost.update(dict.fromkeys(some, Unsettled(str(error))))
            for connection, some in under_way:
                if some[0] in lost:
                    continue
                try:
                    frame, position = connection.receive(broker_wait_ms=broker_wait_ms)
                    answers.update(parse(frame, position, some))
                except ConnectionLost as error:
                    connection.close()
                    lost.update(dict.fromkeys(some, Unsettled(str(error))))
        finally:
            for connection, _ in under_way:
                self._pool.give_back(connection, self.config)
        self._is_stale = self._is_stale or bool(lost)
        return answers, lost

    def _by_leader(
        self, asked: Sequence[TopicPartition], lost: dict[TopicPartition, Unsettled]
    ) -> Iterator[tuple[Address, list[TopicPartition]]]:
        """Group partitions by their leader's address; those without a leader go to `lost`."""
        if self._is_stale or any(self._metadata.leader_of(where) is None for where in asked):
            try:
                self._ask_metadata(sorted({where.topic for where in asked}))
            except ConnectionLost as error:
                lost.update(dict.fromkeys(asked, Unsettled(str(error))))
                return
        groups: dict[Address, list[TopicPartition]] = {}
        for where in asked:
            leader = self._metadata.leader_of(where)
            if leader is None:
                lost[where] = self._why_no_leader(where)
            else:
                groups.setdefault((leader.host, leader.port), []).append(where)
        for address, some in groups.items():
            for first in range(0, len(some), PARTITIONS_PER_REQUEST_MAX):
                yield address, some[first : first + PARTITIONS_PER_REQUEST_MAX]

    def _why_no_leader(self, where: TopicPartition) -> Unsettled:
        topic = self._metadata.topics.get(where.topic)
        if topic is None or topic.error in UNKNOWN_TOPIC:
            return Unsettled("the cluster does not know the topic", is_unknown_topic=True)
        if topic.error is not ErrorCode.NONE:
            return Unsettled(topic.error.name)
        if where.partition not in topic.partitions:
            return Unsettled("there is no such partition", is_unknown_topic=True)
        return Unsettled("it has no leader")

    def _again_or_raise(self, patience: Patience, reason: str, *, is_unknown_topic: bool = False) -> None:
        """Pause; raise RetriesExhausted if the budget is spent."""
        pause_ms = patience.on_failure(reason, now_ms=self._clock_ms())
        budget = self.config.unknown_topic_budget_ms if is_unknown_topic else None
        if patience.is_spent(self._clock_ms() + pause_ms, budget_ms=budget):
            kind = TopicUnknown if is_unknown_topic else RetriesExhausted
            raise kind(f"given up after {patience.failures} tries: {reason}")
        self.tell_long_wait(patience, budget_ms=budget)
        self.pause(pause_ms)

    def tell_long_wait(self, patience: Patience, *, budget_ms: int | None = None) -> None:
        """Log, once for each wait, what is waited for, and for how long at most."""
        if patience.has_become_long(self._clock_ms()):
            budget_ms = patience.budget_ms if budget_ms is None else min(budget_ms, patience.budget_ms)
            _log.warning("waiting reason=%s gives_up_after_s=%d", patience.reason, budget_ms // 1000)

    def deadline(self, budget_ms: int) -> Deadline:
        """Return a deadline for a caller that repeats questions itself."""
        return Deadline(self, budget_ms)

    def now_ms(self) -> int:
        return self._clock_ms()

    def pause(self, pause_ms: int) -> None:
        """Wait, by the clock that this client was given."""
        self._sleep_s(pause_ms / 1000)


class Deadline:
    """A budget of time for asking again, with the client's pauses."""

    def __init__(self, client: Client, budget_ms: int) -> None:
        self._client = client
        self._patience = client.config.patience(budget_ms)

    def pause(self, reason: str) -> bool:
        """Wait before the next try; return False at once if no time is left. reason: why there is another
        one."""
        now_ms = self._client.now_ms()
        pause_ms = self._patience.on_failure(reason, now_ms=now_ms)
        if self._patience.is_spent(now_ms + pause_ms):
            return False
        self._client.tell_long_wait(self._patience)
        self._client.pause(pause_ms)
        return True


def describe_log_dirs(
    address: Address, config: ClientConfig, *, pool: ConnectionPool | None = None
) -> list[BrokerLogDir]:
    """Return what one broker has on its disks (KIP-113), in one attempt. Raise ConnectionLost,
    UnsupportedBroker."""
    with (pool or shared_pool()).lease(address, config) as connection:
        message = connection.call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
    return [
        BrokerLogDir(
            one.log_dir,
            error_code(int(one.error_code)),
            tuple(
                LogDirReplica(topic.name, replica.partition_index, replica.partition_size)
                for topic in one.topics
                for replica in topic.partitions
            ),
            one.usable_bytes if one.usable_bytes >= 0 else None,
        )
        for one in message.results
    ]
