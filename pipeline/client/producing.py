"""Produce requests under way, at most one to each broker: their sender continues and takes answers in later.

An answer that has come counts however late it is taken in. Only one that has not come in time is lost.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from pipeline.client import messages
from pipeline.client.config import Address, ClientConfig
from pipeline.client.connection import BrokerConnection
from pipeline.client.errors import ConnectionLost
from pipeline.client.pool import ConnectionPool
from pipeline.client.values import (
    ClusterMetadata,
    ProduceResult,
    TopicPartition,
    Unsettled,
    ids_on_the_wire,
)
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Buffer

ACKS_ALL = -1
PRODUCE_TIMEOUT_MS = 30_000
PRODUCE_BYTES = 8 * 1024 * 1024
"""A request with this much takes no further batch."""

Batches = Mapping[TopicPartition, Buffer]
Results = dict[TopicPartition, ProduceResult | Unsettled]


class _UnderWay(NamedTuple):
    """ids: of the topics by name, if the request had these instead of names."""

    connection: BrokerConnection
    partitions: list[TopicPartition]
    overdue_ms: int
    ids: dict[str, bytes] | None


class Producing:
    """The requests of one client, to the leaders that its `metadata` knows, which is not read here. Use from
    one thread; close it. `keep_pace` is called before batches are sent and may wait.

    `sendable` and `start` are two calls, so that a caller can judge what is known of a leader in between.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        config: ClientConfig,
        *,
        clock_ms: Callable[[], int],
        metadata: Callable[[], ClusterMetadata],
        keep_pace: Callable[[Batches], None],
    ) -> None:
        self._pool = pool
        self._config = config
        self._clock_ms = clock_ms
        self._metadata = metadata
        self._keep_pace = keep_pace
        self._under_way: dict[Address, _UnderWay] = {}

    def sendable(self, batches: Batches) -> dict[TopicPartition, Buffer]:
        """Return the batches whose leaders have no request under way, in their order, up to PRODUCE_BYTES for
        each leader; and those without a known leader."""
        metadata = self._metadata()
        chosen: dict[TopicPartition, Buffer] = {}
        sizes: dict[Address, int] = {}
        for where, batch in batches.items():
            leader = metadata.leader_of(where)
            if leader is not None:
                address = (leader.host, leader.port)
                size = sizes.get(address, 0)
                if size >= PRODUCE_BYTES or address in self._under_way:
                    continue
                sizes[address] = size + len(batch)
            chosen[where] = batch
        return chosen

    def start(
        self, batches: Batches, topic_ids: Mapping[str, str] = MappingProxyType({})
    ) -> dict[TopicPartition, Unsettled]:
        """Send `sendable` batches with acks=all, and return those that have no leader or did not get away
        whole; `take` has the answers for the others. Raise UnsupportedBroker.

        `topic_ids`, by name: of the topics that are meant. A broker that knows Produce by id appends to these
        only, not to one that was made again under the name.
        """
        self._keep_pace(batches)
        metadata = self._metadata()
        lost: dict[TopicPartition, Unsettled] = {}
        requests: dict[Address, dict[TopicPartition, Buffer]] = {}
        for where, batch in batches.items():
            leader = metadata.leader_of(where)
            if leader is None:
                lost[where] = Unsettled("its leader is not known")
            else:
                requests.setdefault((leader.host, leader.port), {})[where] = batch
        for address, some in requests.items():
            try:
                self._send(address, some, topic_ids)
            except ConnectionLost as error:
                lost.update(dict.fromkeys(some, Unsettled(str(error))))
        return lost

    def _send(self, address: Address, batches: Batches, topic_ids: Mapping[str, str]) -> None:
        assert address not in self._under_way
        connection = self._pool.take(address, self._config)
        ids = ids_on_the_wire({where.topic: topic_ids.get(where.topic, "") for where in batches})
        if not connection.speaks(ApiKey.PRODUCE, messages.PRODUCE_BY_ID):
            ids = None
        try:
            connection.send(
                ApiKey.PRODUCE,
                messages.produce_request(batches, acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS, ids=ids),
                version=None if ids is None else messages.PRODUCE_BY_ID,
            )
        except BaseException:
            self._pool.give_back(connection, self._config)
            raise
        overdue_ms = self._clock_ms() + self._config.request_timeout_ms + PRODUCE_TIMEOUT_MS
        self._under_way[address] = _UnderWay(connection, list(batches), overdue_ms, ids)

    def take(self, *, wait_ms: int) -> Results:
        """Return the answers that have come, and Unsettled for each partition whose answer is lost. If there
        are none, wait for at most `wait_ms`."""
        if not self._under_way:
            return {}
        by_socket = {one.connection.fileno(): address for address, one in self._under_way.items()}
        poll = select.poll()
        for number in by_socket:
            poll.register(number, select.POLLIN)
        results: Results = {}
        for number, _ in poll.poll(wait_ms):
            results |= self._received(self._under_way.pop(by_socket[number]))
        now_ms = self._clock_ms()
        for address, one in list(self._under_way.items()):
            if one.overdue_ms <= now_ms:
                del self._under_way[address]
                one.connection.close()
                reason = Unsettled(f"broker {one.connection}: no answer in time")
                results |= dict.fromkeys(one.partitions, reason)
        return results

    def _received(self, one: _UnderWay) -> Results:
        try:
            frame, position = one.connection.receive()
            return {**messages.parse_produced(frame, position, one.partitions, ids=one.ids)}
        except ConnectionLost as error:
            one.connection.close()
            return dict.fromkeys(one.partitions, Unsettled(str(error)))
        finally:
            self._pool.give_back(one.connection, self._config)

    def close(self) -> None:
        """Close the connections on which an answer is due. Brokers may still carry those requests out."""
        under_way, self._under_way = self._under_way, {}
        for one in under_way.values():
            one.connection.close()
