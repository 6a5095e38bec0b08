"""Writes samples of a cluster's load to files, again and again; rates are worked out later.

A sample that can't be taken is a gap, noted once: rates are taken between samples with their times. Samples
in memory are written when the collection ends, also by an error.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import httpx
import pyarrow as pa

from pipeline.plan.documents import PartitionItem
from pipeline.plan.samples import BadMetrics, TopicCounters, parse_metrics, partition_rows, topic_rows
from springtide.cli.client import Unreachable

METRICS_BYTES_MAX = 64 * 1024 * 1024
METRICS_SECONDS_MAX = 10.0


class Source(Protocol):
    def partitions(self) -> list[PartitionItem]: ...


class Store(Protocol):
    def append(
        self, name: str, batches: list[pa.RecordBatch], *, first_ms: int, last_ms: int
    ) -> str | None: ...


class Schedule(NamedTuple):
    """samples: None goes on until interrupted. each_file: most samples in one file."""

    every_ms: int
    samples: int | None
    each_file: int = 10


class Collected(NamedTuple):
    """partitions: of the last sample. missed: samples that could not be taken."""

    samples: int
    partitions: int
    missed: int
    files: tuple[str, ...]


class Collector:
    """store: None writes nothing. metrics: addresses by broker. ask_metrics: returns a broker's counters;
    raises BadMetrics. now_ms: wall clock. sleep_ms: may be interrupted. on_sample: samples taken,
    partitions."""

    def __init__(
        self,
        cluster: str,
        source: Source,
        store: Store | None,
        *,
        metrics: Mapping[int, str],
        ask_metrics: Callable[[str], Sequence[TopicCounters]],
        now_ms: Callable[[], int],
        sleep_ms: Callable[[int], None],
        note: Callable[[str], None],
        on_sample: Callable[[int, int], None] = lambda taken, partitions: None,
    ) -> None:
        self._cluster = cluster
        self._source = source
        self._store = store
        self._metrics = metrics
        self._ask_metrics = ask_metrics
        self._now_ms = now_ms
        self._sleep_ms = sleep_ms
        self._note = note
        self._on_sample = on_sample
        self._waiting: list[tuple[int, pa.RecordBatch, pa.RecordBatch]] = []
        self._files: list[str] = []

    def run(self, schedule: Schedule) -> Collected:
        """Take samples at even distances; after a slow sample the next one is late. Raises what the first
        sample raises."""
        taken = missed = partitions = tries = 0
        next_ms = self._now_ms()
        try:
            while schedule.samples is None or tries < schedule.samples:
                if tries:
                    self._sleep_ms(max(0, next_ms - self._now_ms()))
                tries += 1
                try:
                    partitions = self._take()
                    taken += 1
                    self._on_sample(taken, partitions)
                except Unreachable as error:
                    if not taken:
                        raise
                    missed += 1
                    self._note(f"no sample: {error}")
                if len(self._waiting) >= schedule.each_file:
                    self._write()
                next_ms = max(next_ms + schedule.every_ms, self._now_ms())
        except KeyboardInterrupt:
            if schedule.samples is not None:
                raise
        finally:
            self._write()
        return Collected(taken, partitions, missed, tuple(self._files))

    def _take(self) -> int:
        at = self._now_ms()
        items = self._source.partitions()
        counters: dict[int, Sequence[TopicCounters]] = {}
        for broker_id, where in self._metrics.items():
            try:
                counters[broker_id] = self._ask_metrics(where)
            except BadMetrics as error:
                self._note(f"broker {broker_id}: {error}")
        self._waiting.append(
            (at, partition_rows(self._cluster, at, items), topic_rows(self._cluster, at, counters))
        )
        return len(items)

    def _write(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting or self._store is None:
            return
        span = {"first_ms": waiting[0][0], "last_ms": waiting[-1][0]}
        for name, batches in (
            ("partitions", [partitions for _, partitions, _ in waiting]),
            ("topics", [topics for _, _, topics in waiting]),
        ):
            written = self._store.append(name, batches, **span)
            if written is not None:
                self._files.append(written)


def ask_metrics(where: str, *, verify: ssl.SSLContext | bool = True) -> Sequence[TopicCounters]:
    """Read a broker's metrics at `host:port` or a URL. verify: as httpx takes it. Raises BadMetrics."""
    url = where if "://" in where else f"http://{where}/metrics"
    page = bytearray()
    try:
        with httpx.stream("GET", url, timeout=METRICS_SECONDS_MAX, verify=verify) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_bytes():
                page += chunk
                if len(page) > METRICS_BYTES_MAX:
                    raise BadMetrics(f"{url} has more than {METRICS_BYTES_MAX} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BadMetrics(f"{url}: {error or type(error).__name__}") from error
    return parse_metrics(page.decode("utf-8", "replace"))
