"""One attempt of a task under delivery=at-least-once, as the official connector delivers: every attempt
writes all its rows, after those of earlier attempts.

As in task.py, batches are sent and answered while more are made. A batch without an answer, or with an error,
is sent again, and awaited, before the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pyarrow as pa

from pipeline.client.client import Client
from pipeline.client.producing import Results
from pipeline.client.values import TopicPartition, Unsettled
from pipeline.records.encode import BatchOptions, PartitionEncoder
from pipeline.sink.placement import RowPlacement
from pipeline.sink.task import HELD_BATCHES_MAX, ROUND_BYTES, WAIT_MS_MAX
from springtide.wire.errors import ErrorCode


class PlainTaskWriter:
    """Any method may raise ClientError, InvalidRows or what the encoder raises."""

    def __init__(
        self,
        client: Client,
        *,
        placement: RowPlacement,
        batches: BatchOptions,
        now_ms: Callable[[], int],
    ) -> None:
        self._client = client
        self._placement = placement
        self._batches = batches
        self._now_ms = now_ms
        self._encoders: dict[TopicPartition, PartitionEncoder] = {}
        self._full: dict[TopicPartition, deque[bytes]] = {}
        self._under_way: dict[TopicPartition, bytes] = {}
        """Batches that were sent, and whose answers have not been taken in."""
        self._full_bytes = 0
        """Of those under way, too."""
        self._new_bytes = 0
        """Since the last round."""

    def add(self, rows: pa.RecordBatch) -> None:
        for where, some in self._placement.split(rows):
            if where not in self._encoders:
                self._encoders[where] = PartitionEncoder(options=self._batches, timestamp_ms=self._now_ms())
            self._take(where, [batch.data for batch in self._encoders[where].add(some)])
        self._run_round(wait_ms=0)
        while self._full_bytes > HELD_BATCHES_MAX * self._batches.batch_bytes_max:
            self._run_round(wait_ms=WAIT_MS_MAX)

    def finish(self) -> dict[TopicPartition, int]:
        """Write the rest; return the records written, by partition."""
        for where, encoder in self._encoders.items():
            self._take(where, [batch.data for batch in encoder.finish()])
        while self._full or self._under_way:
            self._run_round(wait_ms=WAIT_MS_MAX)
        return {where: encoder.rows_added for where, encoder in self._encoders.items()}

    def _take(self, where: TopicPartition, batches: list[bytes]) -> None:
        if not batches:
            return
        size = sum(map(len, batches))
        self._full.setdefault(where, deque()).extend(batches)
        self._full_bytes += size
        self._new_bytes += size
        if self._new_bytes >= ROUND_BYTES:
            self._run_round(wait_ms=0)

    def _run_round(self, *, wait_ms: int) -> None:
        """Take in the answers that have come; then send one batch to each partition whose last one is
        answered, which keeps the order, and to each leader that owes no answer. If that is nothing, wait for
        an answer."""
        self._new_bytes = 0
        producing = self._client.producing
        has_answers = self._settle(producing.take(wait_ms=0))
        chosen = producing.sendable(
            {where: batches[0] for where, batches in self._full.items() if where not in self._under_way}
        )
        for where in chosen:
            self._under_way[where] = self._full[where].popleft()
            if not self._full[where]:
                del self._full[where]
        if chosen:
            self._settle({**producing.start(chosen)})
        elif not has_answers:
            self._settle(producing.take(wait_ms=wait_ms))

    def _settle(self, results: Results) -> bool:
        """Take in the results, and send again what is not stored; return whether there are any."""
        again = {}
        for where, result in results.items():
            batch = self._under_way.pop(where)
            self._full_bytes -= len(batch)
            if isinstance(result, Unsettled) or result.error is not ErrorCode.NONE:
                again[where] = batch
        if again:
            self._client.produce(again)
        return bool(results)
