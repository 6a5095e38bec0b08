"""Compacts the logs of compacted topics (docs/replication.md 4.10, compaction).

A leader looks at its logs now and then and decides rounds; each replica applies the rounds that stand in its
log, once they are committed and under any policy of its topic: replicas stay equal. One pass runs at a
time, so that the memory for keys is bounded per broker, in a process of its own (compaction_process.py). A
pass that is given up, by a stop or because the log was changed, has changed nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import trio
from prometheus_client.metrics_core import Metric

from dataplane.core.compaction.known import PlacedRound
from dataplane.core.compaction.rounds import CompactionOptions, Dirt
from dataplane.core.leader import Leader
from dataplane.core.log_port import LogChanged, LogError, SuspectBytes
from dataplane.core.role import Offline
from dataplane.shell.compaction_process import CompactionProcess
from dataplane.shell.config import BrokerConfig
from dataplane.shell.effect_runner import EffectRunner
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.partitions import PartitionTable
from dataplane.storage.compaction import PassPutOff
from dataplane.storage.health import ClosedLog
from dataplane.storage.rewritten_files import rewrite_files
from springtide.contract.partition_state import PartitionKey
from springtide.node.clock import BrokerClock
from springtide.node.config import LONG_MAX
from springtide.node.status import counter, gauge
from springtide.node.threads import Threads

_log = logging.getLogger(__name__)


class Compactor:
    """process: writes the files of passes; None: a thread of this process does. on_log_error: a log failed
    under a pass. on_suspect: bytes at an offset are not what they were."""

    def __init__(
        self,
        *,
        table: PartitionTable,
        effects: EffectRunner,
        config: BrokerConfig,
        clock: BrokerClock,
        threads: Threads,
        process: CompactionProcess | None,
        on_log_error: Callable[[HostedPartition, LogError], None],
        on_suspect: Callable[[HostedPartition, int], None],
    ) -> None:
        self._table = table
        self._effects = effects
        self._clock = clock
        self._threads = threads
        self._process = process
        self._on_log_error = on_log_error
        self._on_suspect = on_suspect
        self._interval_ms = config.number("log.cleaner.backoff.ms")
        self._limiter = trio.CapacityLimiter(1)
        self._scope = trio.CancelScope()
        #: Of the logs led here, as last measured.
        self._dirt: dict[PartitionKey, Dirt] = {}
        #: Logs whose last pass failed, and why.
        self._put_off: dict[PartitionKey, str] = {}
        self._last_pass_ms = clock.mono_ms()
        self.rounds = 0
        self.passes = 0
        self.failures = 0
        self.bytes_before = 0
        self.bytes_after = 0
        self.longest_pass_ms = 0

    def stop(self) -> None:
        """Touch the logs no more: the clean shutdown closes them."""
        self._scope.cancel()
        if self._process is not None:
            self._process.kill()

    async def run(self) -> None:
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._every, self.decide_rounds)
                    nursery.start_soon(self._every, self.apply_rounds)
        finally:
            if self._process is not None:
                self._process.close()

    async def _every(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self._clock.sleep_ms(self._interval_ms)
            await work()

    # A leader's choice

    async def decide_rounds(self) -> None:
        """Append the round of each log led here that needs one."""
        measured: dict[PartitionKey, Dirt] = {}
        for number, hosted in enumerate(self._table, start=1):
            await self._table.take_turn(number)
            options = hosted.replica.options.compaction
            if options is not None and isinstance(hosted.replica.role, Leader):
                try:
                    dirt = await self._decide(hosted, options)
                except LogError as error:
                    self._on_error(hosted, error)
                else:
                    if dirt is not None:
                        measured[hosted.key] = dirt
        self._dirt = measured

    async def _decide(self, hosted: HostedPartition, options: CompactionOptions) -> Dirt | None:
        replica, log = hosted.replica, hosted.log
        agreed_ms = self._clock.expiry_ms()
        if agreed_ms is None:
            return None
        has_max_lag = options.max_compaction_lag_ms != LONG_MAX
        if has_max_lag:
            log.roll_for_compaction(now_ms=self._clock.wall_ms(), max_lag_ms=options.max_compaction_lag_ms)
        last = log.rounds.last
        changes = log.changes
        measure = partial(
            log.measure_dirt,
            clean_to=0 if last is None else last.end_offset,
            high_watermark=replica.last_stable_offset,
            young_ms=agreed_ms - options.min_compaction_lag_ms if options.min_compaction_lag_ms else None,
            has_max_lag=has_max_lag,
        )
        dirt = await self._threads.run(measure, limiter=self._limiter)
        if log.changes != changes or log.rounds.last != last or hosted.is_forgotten:
            return None
        end_offset = log.log_end_offset
        leader = replica.leading
        if leader is not None:
            effects = leader.decide_round(
                dirt, agreed_ms=agreed_ms, now_ms=self._clock.mono_ms(), wall_ms=self._clock.wall_ms()
            )
            if effects:
                self._effects.run_alone(hosted, effects)
        if log.log_end_offset > end_offset:
            self.rounds += 1
            _log.info(
                "compaction_round_decided topic=%s partition=%d round_offset=%d end_offset=%d dirty_bytes=%d",
                hosted.topic,
                hosted.partition,
                end_offset,
                dirt.end_offset,
                dirt.dirty_bytes,
            )
        return dirt

    # Every replica's work

    async def apply_rounds(self) -> None:
        """Apply each round that is committed, to one log after the other."""
        for number, hosted in enumerate(self._table, start=1):
            await self._table.take_turn(number)
            try:
                while (placed := _due(hosted)) is not None:
                    await self._apply(hosted, placed)
            except LogError as error:
                self._on_error(hosted, error)
            else:
                self._put_off.pop(hosted.key, None)
        if self._process is not None and self._process.is_running:
            await self._threads.run(self._process.close)

    async def _apply(self, hosted: HostedPartition, placed: PlacedRound) -> None:
        begun_ms = self._clock.mono_ms()
        log = hosted.log
        rewriting = rewrite_files if self._process is None else self._process.rewrite
        under_way = log.begin_compaction(placed, now_ms=self._clock.wall_ms(), rewriting=rewriting)
        bytes_before = under_way.bytes_before
        while not await self._threads.run(under_way.advance, limiter=self._limiter):
            pass
        bytes_after = under_way.bytes_after
        await self._threads.run(under_way.commit, limiter=self._limiter)
        log.finish_compaction()
        await self._threads.run(under_way.release, limiter=self._limiter)
        self.passes += 1
        self.bytes_before += bytes_before
        self.bytes_after += bytes_after
        self._last_pass_ms = self._clock.mono_ms()
        self.longest_pass_ms = max(self.longest_pass_ms, self._last_pass_ms - begun_ms)
        _log.info(
            "compacted topic=%s partition=%d round_offset=%d reaches=%d end_offset=%d bytes_before=%d "
            "bytes_after=%d ms=%d",
            hosted.topic,
            hosted.partition,
            placed.offset,
            under_way.reaches,
            placed.round_.end_offset,
            bytes_before,
            bytes_after,
            self._last_pass_ms - begun_ms,
        )

    def _on_error(self, hosted: HostedPartition, error: LogError) -> None:
        """The log was changed meanwhile: there is another look soon. It can't be compacted now: the alarm
        stands until it can. Bytes that look rotten: the scrub looks at them."""
        if isinstance(error, LogChanged | ClosedLog) or self._scope.cancel_called:
            return
        self.failures += 1
        if isinstance(error, SuspectBytes):
            self._on_suspect(hosted, error.bad_offset)
        elif not isinstance(error, PassPutOff):
            self._on_log_error(hosted, error)
            return
        if self._put_off.get(hosted.key) != str(error):
            self._put_off[hosted.key] = str(error)
            _log.warning(
                "compaction_put_off topic=%s partition=%d cause=%s", hosted.topic, hosted.partition, error
            )

    # Metrics

    def collect(self) -> Iterator[Metric]:
        """Yield what is known; where Kafka has a name for it, under that."""
        ratios = [
            dirt.dirty_bytes / (dirt.clean_bytes + dirt.dirty_bytes)
            for dirt in self._dirt.values()
            if dirt.dirty_bytes
        ]
        put_off = [hosted for hosted in self._table if hosted.key in self._put_off]
        yield gauge(
            "kafka_log_logcleanermanager_max_dirty_percent",
            "Dirtiest log of a compacted topic led here: percent of its bytes that could be compacted",
            100 * max(ratios, default=0),
        )
        yield gauge(
            "kafka_log_logcleanermanager_time_since_last_run_ms",
            "Time since a pass of compaction ended, or since the broker began",
            self._clock.mono_ms() - self._last_pass_ms,
        )
        yield gauge(
            "kafka_log_logcleanermanager_uncleanable_partitions_count",
            "Replicas here whose last pass of compaction failed",
            len(put_off),
        )
        yield gauge(
            "kafka_log_logcleanermanager_uncleanable_bytes",
            "Bytes of their logs",
            sum(hosted.log.size_bytes for hosted in put_off),
        )
        yield gauge(
            "kafka_log_logcleaner_max_clean_time_secs",
            "Longest pass of compaction of this process",
            self.longest_pass_ms / 1_000,
        )
        yield gauge(
            "kafka_log_logcleaner_cleaner_recopy_percent",
            "Percent of the bytes read by passes of compaction that they wrote again",
            100 * self.bytes_after / self.bytes_before if self.bytes_before else 0,
        )
        yield counter("springtide_compaction_rounds", "Rounds decided by leaders here", self.rounds)
        yield counter("springtide_compaction_passes", "Passes that applied a round", self.passes)
        yield counter("springtide_compaction_failures", "Passes that failed", self.failures)
        yield counter("springtide_compaction_bytes_before", "Bytes read by passes", self.bytes_before)
        yield counter("springtide_compaction_bytes_after", "Bytes that passes left", self.bytes_after)


def _due(hosted: HostedPartition) -> PlacedRound | None:
    if hosted.is_forgotten or isinstance(hosted.replica.role, Offline):
        return None
    return hosted.log.rounds.due(hosted.replica.high_watermark)
