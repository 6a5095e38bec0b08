"""A log's partition and settings: those of its topic, and what it shares with its directory's other logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dataplane.core.producer_state import EXPIRATION_MS, PRODUCERS_MAX
from dataplane.storage.disk import Disk
from dataplane.storage.health import DirectoryHealth
from dataplane.storage.tail_cache import TailBudget


class PartitionId(NamedTuple):
    """The partition that a log belongs to. The topic's name is for people; the id decides (I21, topic ids
    decide)."""

    topic_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class LogOptions:
    """A topic's storage settings, under Kafka's names. If `flush_*` is None, the operating system decides."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    index_interval_bytes: int = 4096
    index_bytes_max: int = 16 * 1024 * 1024
    flush_messages: int | None = None
    flush_ms: int | None = None
    tail_bytes_max: int = 8 * 1024 * 1024
    producer_expiration_ms: int = EXPIRATION_MS
    producers_max: int = PRODUCERS_MAX


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Everything that a log directory gives to each of its logs."""

    disk: Disk
    options: LogOptions
    health: DirectoryHealth
    tail_budget: TailBudget
    on_lowered: Callable[[], None]
    """Make a lowered recovery point or log start durable, before it returns."""
    on_cutting: Callable[[PartitionId, int], None]
    """A log is about to be cut to an offset: what is stored as committed must not lie beyond."""
    is_synced_later: bool = False
    """The directory makes many logs durable at once, after they were opened and before one is relied
    on."""
