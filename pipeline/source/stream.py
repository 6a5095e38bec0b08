"""Streaming queries: Spark's calls on the driver go to the planner; tasks only read.

Spark pickles the reader for its tasks, so the planner is made on first use.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from pipeline.client.client import Client
from pipeline.source.batch import ReadTask, TaskReader
from pipeline.source.cluster import SourceCluster
from pipeline.source.offset_json import topic_ids_from_json
from pipeline.source.options import SourceOptions
from pipeline.source.start_state import StartState, state_directory
from pipeline.source.stream_planner import StreamPlanner, plan_between

_log = logging.getLogger(__name__)


class RecordStreamReader(TaskReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The views `records` and `batches`, micro-batch by micro-batch."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:
        return self._at_work().initial()

    def prepareForTriggerAvailableNow(self) -> None:
        self._at_work().freeze()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Say to Spark that there is a limit; latestOffset applies it."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return dict(self._at_work().next_end(start, is_limited=not isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        seen = self._at_work().latest_seen()
        return None if seen is None else dict(seen)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        topic_ids = topic_ids_from_json(end)
        return [ReadTask(ranges, topic_ids) for ranges in plan_between(self._options, start, end)]

    def _at_work(self) -> StreamPlanner:
        if self._planner is None:
            for warning in self._options.warnings:
                _log.warning("option_ignored detail=%s", warning)
            client = Client(self._options.client)
            state = self._options.start_state
            self._planner = StreamPlanner(
                self._options,
                SourceCluster(self._options, client),
                client.now_ms,
                None if state is None else StartState(state_directory(state)),
            )
        return self._planner
