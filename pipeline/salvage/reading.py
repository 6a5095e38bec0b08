"""Reading a copy from the broker that has it: Fetch by the copy's name, as a debugging consumer (replica -2).

A broker checks a whole copy in a thread before it serves any of it. Until then its answers are empty, with
high watermark -1, and the reader asks again. A copy never changes, so an interrupted read continues where it
was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pipeline.client.batch_walk import walk_batches
from pipeline.client.client import Client
from pipeline.client.config import Address, ClientConfig
from pipeline.client.connection import now_ms
from pipeline.client.errors import ConnectionLost, MalformedAnswer, RetriesExhausted
from pipeline.client.messages import fetch_request, parse_fetched
from pipeline.client.pool import ConnectionPool, shared_pool
from pipeline.client.values import TopicPartition
from pipeline.errors import CopyUnreadable
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import DEBUGGING_CONSUMER_ID, FetchPartition
from springtide.wire.fetch_response import FetchedPartition

WAIT_MS = 1_000
"""Longest time for which a broker may wait for the copy to be opened before it answers."""
_READ_UNCOMMITTED = 0
_ONE_BATCH = 1
"""Bytes to ask for if one batch is enough: a broker sends at least one whole batch."""
_GONE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "its broker does not have it any more",
    ErrorCode.OFFSET_OUT_OF_RANGE: "it does not hold the offsets that its name tells",
    ErrorCode.CORRUPT_MESSAGE: "it is damaged",
}


class CopyRead(NamedTuple):
    """Whole record batches of a copy, in order. The first may begin below the offset asked for, the last
    reach beyond the end. `high_watermark`: what the replica knew to be committed when it cut."""

    records: memoryview
    next_offset: int
    high_watermark: int


def take_answer(answer: FetchedPartition, *, start_offset: int, end_offset: int) -> CopyRead | None:
    """Return the answer's batches from `start_offset` on; None if the broker is still opening the copy. An
    answer without records ends the copy: `next_offset` is `end_offset`.

    Raises CopyUnreadable, ConnectionLost for an error that may pass, MalformedAnswer for bytes that are no
    records.
    """
    error = answer.error
    if error in _GONE:
        raise CopyUnreadable(_GONE[error])
    if error is not ErrorCode.NONE:
        raise ConnectionLost(f"the broker says {error.name}")
    if not answer.records:
        if answer.high_watermark < 0:
            return None
        return CopyRead(answer.view, end_offset, answer.high_watermark)
    walk = walk_batches(answer.view, start_offset=start_offset, end_offset=end_offset)
    if walk.next_offset < 0:
        if walk.torn_batch_bytes:
            raise MalformedAnswer("a copy's answer holds half a batch")
        return CopyRead(answer.view[:0], end_offset, answer.high_watermark)
    return CopyRead(answer.view[: walk.whole_bytes], walk.next_offset, answer.high_watermark)


class CopyReader:
    """Reads copies for one task. Use from one thread."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        pool: ConnectionPool | None = None,
        clock_ms: Callable[[], int] = now_ms,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._pool = pool or shared_pool()
        self._clock_ms = clock_ms
        self._sleep_s = sleep_s
        self._client = Client(config, pool=self._pool, clock_ms=clock_ms, sleep_s=sleep_s)
        self._addresses: dict[int, Address] = {}

    def high_watermark(self, broker_id: int, name: str, partition: int, *, first_offset: int) -> int:
        """Have the broker check the whole copy; return its high watermark. Raises CopyUnreadable,
        RetriesExhausted."""
        wanted = FetchPartition(name, partition, fetch_offset=first_offset, max_bytes=_ONE_BATCH)
        return self._fetch(broker_id, wanted, end_offset=first_offset + 1).high_watermark

    def read(
        self, broker_id: int, name: str, partition: int, *, start_offset: int, end_offset: int
    ) -> Iterator[CopyRead]:
        """Yield the batches that hold these offsets. Raises CopyUnreadable, RetriesExhausted,
        UnsupportedBroker."""
        bytes_max = self._config.max_partition_fetch_bytes
        while start_offset < end_offset:
            wanted = FetchPartition(name, partition, fetch_offset=start_offset, max_bytes=bytes_max)
            read = self._fetch(broker_id, wanted, end_offset=end_offset)
            start_offset = read.next_offset
            if len(read.records):
                yield read

    def _fetch(self, broker_id: int, wanted: FetchPartition, *, end_offset: int) -> CopyRead:
        """Ask until there is an answer, within the retry budget."""
        config, copy = self._config, TopicPartition.of(wanted).topic
        patience = config.patience()
        while True:
            try:
                answer = self._ask(broker_id, wanted)
                read = take_answer(answer, start_offset=wanted.fetch_offset, end_offset=end_offset)
                if read is not None:
                    return read
                reason = "its broker is still opening it"
            except ConnectionLost as error:
                self._addresses.pop(broker_id, None)
                reason = str(error)
            except CopyUnreadable as error:
                raise CopyUnreadable(f"the copy {copy} of broker {broker_id}: {error}") from None
            pause_ms = patience.on_failure(reason, now_ms=self._clock_ms())
            if patience.is_spent(self._clock_ms() + pause_ms):
                raise RetriesExhausted(f"the copy {copy} of broker {broker_id} can't be read: {reason}")
            self._sleep_s(pause_ms / 1000)

    def _ask(self, broker_id: int, wanted: FetchPartition) -> FetchedPartition:
        body = fetch_request(
            [wanted],
            max_wait_ms=WAIT_MS,
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=_READ_UNCOMMITTED,
            replica_id=DEBUGGING_CONSUMER_ID,
        )
        with self._pool.lease(self._address(broker_id), self._config) as connection:
            connection.send(ApiKey.FETCH, body)
            frame, position = connection.receive(broker_wait_ms=WAIT_MS)
            answer = parse_fetched(frame, position)
        if answer.error is not ErrorCode.NONE:
            raise ConnectionLost(f"the broker says {answer.error.name}")
        for one in answer.partitions:
            if one[:2] == wanted[:2]:
                return one
        raise MalformedAnswer("Fetch: the answer says nothing of the copy")

    def _address(self, broker_id: int) -> Address:
        found = self._addresses.get(broker_id)
        if found is None:
            broker = self._client.metadata(()).brokers.get(broker_id)
            if broker is None:
                raise ConnectionLost(f"broker {broker_id} is not alive")
            found = self._addresses[broker_id] = (broker.host, broker.port)
        return found
