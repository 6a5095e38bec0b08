"""The shell of fetching: connections, the clock and waiting. fetching.py decides what to ask and what answers
mean.

One connection to each broker that has something for us, one request under way on each. The next request
leaves before the records of the last answer are handed out, so brokers and the network work while the reader
decodes; the kernel's receive buffer is the only queue, so a slow reader slows the brokers down, not us. (With
`in_order`, what comes early of later ranges waits here too, within fetch_order's bound.)

Time that the reader spends between two calls does not count against the retry budget.
"""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from pipeline.client.connection import BrokerConnection
from pipeline.client.errors import ConnectionLost, OffsetsGone, RetriesExhausted, broker_error
from pipeline.client.fetch_order import AsTheyCome, OneAfterAnother
from pipeline.client.fetching import Gone, RangeFetching, Stalled
from pipeline.client.messages import FETCH_BY_ID, SPOKEN, fetch_request, parse_fetched
from pipeline.client.offset_words import log_holds
from pipeline.client.pool import ConnectionPool
from pipeline.client.values import (
    EARLIEST,
    LATEST,
    UNKNOWN_TOPIC,
    FetchedRecords,
    PartitionRange,
    TopicPartition,
)
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchPartition
from springtide.wire.fetch_response import FetchResponse

if TYPE_CHECKING:
    from pipeline.client.client import Client

_log = logging.getLogger(__name__)


class _UnderWay(NamedTuple):
    """ids: of the topics by name, if the request had these instead of names."""

    wanted: list[FetchPartition]
    overdue_ms: int
    ids: dict[str, bytes] | None = None


class FetchStream:
    """An iterator of FetchedRecords over all ranges; ends when each range was read to its end. Close it.

    Records of a range come in order. The ranges come as their brokers answer, or with `in_order` one after
    another as they were given.

    Raises OffsetsGone where offsets of a range are below the log's start, beyond its end, or don't come
    within the retry budget; RetriesExhausted where a partition can't be reached for that long; BrokerError
    for an error that stays. With `skip_gone` lost offsets are skipped, logged and counted in `skipped`
    instead; a partition of an unknown topic then counts as lost whole.
    """

    def __init__(
        self,
        client: Client,
        pool: ConnectionPool,
        ranges: Iterable[PartitionRange],
        *,
        isolation_level: int,
        replica_id: int | None,
        skip_gone: bool,
        in_order: bool,
        topic_ids: Mapping[str, str],
        clock_ms: Callable[[], int],
        sleep_s: Callable[[float], None],
    ) -> None:
        self._client = client
        self._config = client.config
        self._pool = pool
        self._isolation_level = isolation_level
        self._skip_gone = skip_gone
        self._clock_ms = clock_ms
        self._sleep_s = sleep_s
        ranges = tuple(ranges)
        self._fetching = RangeFetching(
            ranges, client.config, replica_id=replica_id, in_order=in_order, topic_ids=topic_ids
        )
        self._connections: dict[int, BrokerConnection] = {}
        self._under_way: dict[int, _UnderWay] = {}
        self._ready = OneAfterAnother(one.where for one in ranges) if in_order else AsTheyCome()
        self._is_stale = False
        self._away_ms = 0
        self._left_at_ms: int | None = None
        self.skipped: dict[TopicPartition, int] = {}
        """Number of skipped offsets, by partition."""

    def __iter__(self) -> Iterator[FetchedRecords]:
        return self

    def __next__(self) -> FetchedRecords:
        if self._left_at_ms is not None:
            self._away_ms += self._clock_ms() - self._left_at_ms
            self._left_at_ms = None
        try:
            while (fetched := self._ready.take(self._fetching.is_finished)) is None:
                if self._fetching.is_done:
                    self.close()
                    raise StopIteration
                self._turn()
        except BaseException:
            self.close()
            raise
        self._left_at_ms = self._clock_ms()
        return fetched

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give connections back to the pool; close those with an answer under way."""
        held, self._connections = self._connections, {}
        self._under_way = {}
        for connection in held.values():
            self._pool.give_back(connection, self._config)

    # --- one turn -------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return self._clock_ms() - self._away_ms

    def _turn(self) -> None:
        """Send the requests that can be sent, then wait for one answer or for the end of a pause."""
        only = self._ready.only
        if only is not None:
            self._fetching.hold_back_all_but(only)
        stalled = self._fetching.stalled(now_ms=self._now_ms())
        if stalled is not None:
            self._on_stalled(stalled)
            return
        self._ask()
        if self._under_way:
            broker_id = self._wait()
            if broker_id is not None:
                self._on_readable(broker_id)
                self._ask()  # the next request, before its predecessor's records are handed out
        elif not self._fetching.is_done:
            now_ms = self._now_ms()
            wake_ms = self._fetching.wake_ms(now_ms=now_ms)
            self._sleep_s((1 if wake_ms is None else wake_ms - now_ms) / 1000)

    def _ask(self) -> None:
        fetching, now_ms = self._fetching, self._now_ms()
        is_stale = self._is_stale and fetching.has_askable(now_ms=now_ms)
        if is_stale or fetching.without_leader(self._client.known_metadata(), now_ms=now_ms):
            self._learn_leaders(now_ms)
        requests = fetching.ask(
            self._client.known_metadata(),
            now_ms=now_ms,
            busy=frozenset(self._under_way),
            only=self._ready.only,
        )
        for broker_id, wanted in requests.items():
            try:
                connection = self._connection_to(broker_id)
                ids = fetching.ids_of(wanted) if connection.speaks(ApiKey.FETCH, FETCH_BY_ID) else None
                connection.send(
                    ApiKey.FETCH,
                    fetch_request(
                        wanted
                        if ids is None
                        else [one._replace(topic=ids[str(one.topic)]) for one in wanted],
                        max_wait_ms=self._config.fetch_max_wait_ms,
                        max_bytes=self._config.fetch_max_bytes,
                        isolation_level=self._isolation_level,
                        rack=self._config.client_rack,
                        version=SPOKEN[ApiKey.FETCH] if ids is None else FETCH_BY_ID,
                    ),
                    version=None if ids is None else FETCH_BY_ID,
                )
                overdue_ms = now_ms + self._config.request_timeout_ms + self._config.fetch_max_wait_ms
                self._under_way[broker_id] = _UnderWay(wanted, overdue_ms, ids)
            except ConnectionLost as error:
                self._on_lost(broker_id, wanted, error)

    def _learn_leaders(self, now_ms: int) -> None:
        fetching = self._fetching
        reason = "it has no leader"
        try:
            self._client.refresh(fetching.topics)
            self._is_stale = False
        except ConnectionLost as error:
            reason = str(error)
        metadata = self._client.known_metadata()
        for where in fetching.without_leader(metadata, now_ms=now_ms):
            topic = metadata.topics.get(where.topic)
            another = fetching.made_again(where, metadata)
            is_unknown = bool(another) or (topic is not None and topic.error in UNKNOWN_TOPIC)
            why = another or reason
            if topic is not None and topic.error is not ErrorCode.NONE:
                why = topic.error.name
            fetching.on_no_leader(where, why, is_unknown=is_unknown, now_ms=now_ms)

    def _connection_to(self, broker_id: int) -> BrokerConnection:
        connection = self._connections.get(broker_id)
        broker = self._client.known_metadata().brokers[broker_id]
        address = (broker.host, broker.port)
        if connection is None or not connection.is_open or connection.address != address:
            if connection is not None:
                connection.close()
            connection = self._connections[broker_id] = self._pool.take(address, self._config)
        return connection

    def _wait(self) -> int | None:
        """Wait and return the broker whose answer has begun to arrive; of several, the one that was asked
        first. None if a pause has ended or an answer is overdue (that connection is then lost)."""
        by_socket = {self._connections[broker_id].fileno(): broker_id for broker_id in self._under_way}
        now_ms = self._now_ms()
        wake_ms = self._fetching.wake_ms(now_ms=now_ms)
        overdue_ms = min(one.overdue_ms for one in self._under_way.values())
        until_ms = (overdue_ms if wake_ms is None else min(wake_ms, overdue_ms)) - now_ms
        poll = select.poll()
        for number in by_socket:
            poll.register(number, select.POLLIN)
        readable = {by_socket[number] for number, _ in poll.poll(max(until_ms, 1))}
        for broker_id in self._under_way:
            if broker_id in readable:
                return broker_id
        now_ms = self._now_ms()
        for broker_id, under_way in list(self._under_way.items()):
            if under_way.overdue_ms <= now_ms:
                del self._under_way[broker_id]
                self._on_lost(broker_id, under_way.wanted, ConnectionLost("no answer in time"))
        return None

    def _on_readable(self, broker_id: int) -> None:
        wanted, _, ids = self._under_way.pop(broker_id)
        connection = self._connections[broker_id]
        try:
            frame, position = connection.receive(broker_wait_ms=self._config.fetch_max_wait_ms)
            if ids is None:
                answer = parse_fetched(frame, position)
            else:
                answer = parse_fetched(frame, position, version=FETCH_BY_ID)
                answer = _by_name(answer, {one: name for name, one in ids.items()})
            self._on_answer(wanted, answer)
        except ConnectionLost as error:
            connection.close()
            self._on_lost(broker_id, wanted, error)

    def _on_answer(self, wanted: list[FetchPartition], answer: FetchResponse) -> None:
        if answer.error is not ErrorCode.NONE:
            if not answer.error.is_retriable:
                raise broker_error("fetch", answer.error, principal=self._config.security.principal)
            raise ConnectionLost(f"fetch: {answer.error.name}")
        progress = self._fetching.on_answer(wanted, answer.partitions, now_ms=self._now_ms())
        self._is_stale = self._is_stale or progress.is_stale
        self._ready.put(progress.fetched)
        for gone in progress.gone:
            self._on_gone(gone)

    def _on_lost(self, broker_id: int, wanted: list[FetchPartition], error: ConnectionLost) -> None:
        connection = self._connections.pop(broker_id, None)
        if connection is not None:
            connection.close()
        self._is_stale = True
        self._fetching.on_lost(wanted, str(error), now_ms=self._now_ms())

    # --- offsets that are not there -------------------------------------------------------------------

    def _on_gone(self, gone: Gone) -> None:
        where, offset = gone.where, gone.offset
        start = self._client.list_offsets({where: EARLIEST})[where].offset
        end = self._client.list_offsets({where: LATEST})[where].offset
        if start <= offset <= end:
            # The broker that refused was behind or has changed its answer: ask again, within the budget.
            self._fetching.on_lost([FetchPartition(*where)], "offset out of range", now_ms=self._now_ms())
            return
        message = f"{where}: offset {offset} is out of range, {log_holds(start, end)}"
        if not self._skip_gone:
            raise OffsetsGone(message, topic=where.topic, partition=where.partition, offset=offset)
        self._skip(where, offset, start if start > offset else None, message)

    def _on_stalled(self, stalled: Stalled) -> None:
        where = stalled.where
        message = (
            f"{where}: offset {stalled.offset} (of {stalled.end_offset} to be read) could not be fetched in "
            f"time: {stalled.reason}; high watermark {stalled.high_watermark}"
        )
        is_gone = stalled.is_unknown_topic or 0 <= stalled.high_watermark < stalled.end_offset
        if not is_gone:
            raise RetriesExhausted(message)
        if not self._skip_gone:
            raise OffsetsGone(message, topic=where.topic, partition=where.partition, offset=stalled.offset)
        self._skip(where, stalled.offset, None, message)

    def _skip(self, where: TopicPartition, offset: int, goal: int | None, message: str) -> None:
        """Continue at `goal`; None ends the range."""
        end = self._fetching.end_of(where)
        reached = end if goal is None else min(goal, end)
        _log.warning("offsets_skipped first_offset=%d next_offset=%d cause=%s", offset, reached, message)
        self.skipped[where] = self.skipped.get(where, 0) + reached - offset
        self._fetching.skip_to(where, reached)


def _by_name(answer: FetchResponse, names: Mapping[bytes, str]) -> FetchResponse:
    """Return the answer with names in the place of ids; without topics that were not asked for."""
    partitions = [
        one._replace(topic=names[one.topic])
        for one in answer.partitions
        if isinstance(one.topic, bytes) and one.topic in names
    ]
    return answer._replace(partitions=partitions)
