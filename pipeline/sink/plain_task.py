"""One attempt of a task under delivery=at-least-once, as the official connector delivers: every attempt
writes all its rows, after those of earlier attempts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pyarrow as pa

from pipeline.client.client import Client
from pipeline.client.values import TopicPartition
from pipeline.records.encode import BatchOptions, PartitionEncoder
from pipeline.sink.placement import RowPlacement
from pipeline.sink.task import HELD_BATCHES_MAX


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
        self._full_bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        for where, some in self._placement.split(rows):
            if where not in self._encoders:
                self._encoders[where] = PartitionEncoder(options=self._batches, timestamp_ms=self._now_ms())
            self._take(where, [batch.data for batch in self._encoders[where].add(some)])
        while self._full_bytes > HELD_BATCHES_MAX * self._batches.batch_bytes_max:
            self._run_round()

    def finish(self) -> dict[TopicPartition, int]:
        """Write the rest; return the records written, by partition."""
        for where, encoder in self._encoders.items():
            self._take(where, [batch.data for batch in encoder.finish()])
        while self._full:
            self._run_round()
        return {where: encoder.rows_added for where, encoder in self._encoders.items()}

    def _take(self, where: TopicPartition, batches: list[bytes]) -> None:
        if batches:
            self._full.setdefault(where, deque()).extend(batches)
            self._full_bytes += sum(map(len, batches))

    def _run_round(self) -> None:
        """Send one batch to every partition that has any; the next one follows the answer, which keeps the
        order."""
        sending = {where: batches.popleft() for where, batches in self._full.items()}
        self._full = {where: batches for where, batches in self._full.items() if batches}
        self._full_bytes -= sum(map(len, sending.values()))
        self._client.produce(sending)
