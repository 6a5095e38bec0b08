"""The source's options: Spark's Kafka source's names, defaults and refusals, and a few of our own.

Names are case-insensitive. What the official source refuses is refused, with what to do instead. A name that
looks like a misspelt known one is refused too: the official source ignores it, so `startingOffset=earliest`
silently skips data. Other unknown names are left to Spark and to other layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import NamedTuple

from pipeline.client.config import CLIENT_PREFIX, ClientConfig
from pipeline.client.security import JAAS_OPTION
from pipeline.client.values import TopicPartition
from pipeline.errors import InvalidOption
from pipeline.options import (
    NO_JAAS,
    boolean,
    by_lower_name,
    client_of,
    client_options,
    duration_ms,
    one_of,
    positive,
)
from pipeline.source.offset_json import parse_assignment
from pipeline.source.patterns import pattern_of_java
from pipeline.source.planning import PlanOptions
from pipeline.source.positions import Position, parse_ending, parse_starting

MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
COALESCE_RECORDS = 10_000
TOPICS_MAX = 100_000
_ALIKE = 0.85

READ_OPTIONS = (
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "view",
    "columns",
    "replica",
    "coalesce",
    "coalesceRecords",
    "epochCheck",
    "startState",
)
"""Every name that means something to this source."""

REFUSED_CLIENT_OPTIONS = {
    "auto.offset.reset": "instead set the source option 'startingOffsets' to 'earliest' or 'latest'; which "
    "offsets are read is managed here, so that no data is missed when new topics appear",
    "key.deserializer": "keys are read as bytes; use DataFrame operations to deserialize them",
    "value.deserializer": "values are read as bytes; use DataFrame operations to deserialize them",
    "enable.auto.commit": "offsets are kept in the query's checkpoint and never committed by a consumer",
    "interceptor.classes": "there is no consumer that could run them",
    JAAS_OPTION: NO_JAAS,
}


class SourceView(Enum):
    """The kind of rows: records, headers of record batches, or each partition's ends."""

    RECORDS = "records"
    BATCHES = "batches"
    OFFSETS = "offsets"


class Isolation(Enum):
    """`kafka.isolation.level`. The value is its number in Kafka's protocol."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True)
class Topics:
    """`subscribe`: whole topics by name."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class TopicPattern:
    """`subscribePattern`: whole topics whose name matches, also those that appear later; no internal ones.
    pattern: as Python has it."""

    pattern: str

    def matches(self, topic: str) -> bool:
        return re.fullmatch(self.pattern, topic) is not None


@dataclass(frozen=True)
class Assignment:
    """`assign`: these partitions and no others."""

    partitions: tuple[TopicPartition, ...]


Subscription = Topics | TopicPattern | Assignment


@dataclass(frozen=True)
class RowShape:
    """The columns of a row. `columns`: None for all that the view has."""

    view: SourceView = SourceView.RECORDS
    columns: tuple[str, ...] | None = None
    include_headers: bool = False


@dataclass(frozen=True)
class SourceOptions:
    """All options; it pickles. Limits that were not given are None."""

    subscription: Subscription
    client: ClientConfig
    starting: Position
    ending: Position
    is_streaming: bool
    shape: RowShape = RowShape()
    fail_on_data_loss: bool = True
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    replica_id: int | None = None
    coalesce: bool = True
    coalesce_records: int = COALESCE_RECORDS
    epoch_check: bool = True
    start_state: str | None = None
    """A directory's path: see StartState."""
    warnings: tuple[str, ...] = ()
    """Messages to show to the user once."""

    @property
    def plan(self) -> PlanOptions:
        return PlanOptions(
            self.min_partitions,
            self.max_records_per_partition,
            self.coalesce_records if self.coalesce else None,
        )


class TaskReading(NamedTuple):
    """Settings for reading, the same for every task of a query. Pickles, and needs no Spark."""

    client: ClientConfig
    view: SourceView
    columns: tuple[str, ...]
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    replica_id: int | None = None
    fail_on_data_loss: bool = True


def parse_options(given: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
    """Parse the options. Raises InvalidOption, which tells the option and what to do."""
    options = by_lower_name(given)
    _refuse_misspelt(options)
    told: list[str] = []
    client = _client(options, told)
    maximum = positive(options, "maxOffsetsPerTrigger")
    minimum = positive(options, "minOffsetsPerTrigger")
    if maximum is not None and minimum is not None and minimum > maximum:
        raise InvalidOption(
            f"the value of minOffsetsPerTrigger ({minimum}) is higher than maxOffsetsPerTrigger ({maximum})"
        )
    if not is_streaming:
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "startState"):
            if name.lower() in options:
                told.append(f"option '{name}' is ignored in batch queries")
        maximum = minimum = None
    shape = parse_shape(options)
    if is_streaming and shape.view is SourceView.OFFSETS:
        raise InvalidOption("option 'view'='offsets' shows the log's ends as they are: batch queries only")
    return SourceOptions(
        subscription=_subscription(options),
        client=client,
        starting=parse_starting(options, is_streaming=is_streaming),
        ending=parse_ending(options, is_streaming=is_streaming),
        is_streaming=is_streaming,
        shape=shape,
        fail_on_data_loss=boolean(options, "failOnDataLoss", default=True),
        isolation=_isolation(options),
        min_partitions=positive(options, "minPartitions"),
        max_records_per_partition=positive(options, "maxRecordsPerPartition"),
        max_offsets_per_trigger=maximum,
        min_offsets_per_trigger=minimum,
        max_trigger_delay_ms=duration_ms(options, "maxTriggerDelay", default=MAX_TRIGGER_DELAY_MS),
        replica_id=_replica(options),
        coalesce=boolean(options, "coalesce", default=True),
        coalesce_records=positive(options, "coalesceRecords") or COALESCE_RECORDS,
        epoch_check=boolean(options, "epochCheck", default=True),
        start_state=_start_state(options) if is_streaming else None,
        warnings=tuple(told),
    )


def parse_shape(given: Mapping[str, str]) -> RowShape:
    """Parse what decides the schema: Spark asks for it before it says whether it streams. Raises
    InvalidOption."""
    options = by_lower_name(given)
    return RowShape(
        one_of(options, "view", SourceView, SourceView.RECORDS),
        _columns(options),
        boolean(options, "includeHeaders", default=False),
    )


def _refuse_misspelt(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in READ_OPTIONS}
    for name in options:
        if name in known or name.startswith(CLIENT_PREFIX):
            continue
        if name in ("group.id", *REFUSED_CLIENT_OPTIONS, "bootstrap.servers"):
            raise InvalidOption(f"option '{name}' lacks its prefix: 'kafka.{name}'")
        alike = get_close_matches(name, known, n=1, cutoff=_ALIKE)
        if alike:
            raise InvalidOption(f"there is no option '{name}': is '{known[alike[0]]}' meant?")


def _client(options: Mapping[str, str], told: list[str]) -> ClientConfig:
    ours = client_options(options, REFUSED_CLIENT_OPTIONS)
    if "group.id" in ours or "groupidprefix" in options:
        told.append("'kafka.group.id' and 'groupIdPrefix' have no effect: no consumer group is joined")
    timeout = positive(options, "kafkaConsumer.pollTimeoutMs")
    config = client_of(ours)
    if timeout is not None:
        config = replace(config, retry_budget_ms=timeout)
    return config


def _subscription(options: Mapping[str, str]) -> Subscription:
    named = [name for name in ("assign", "subscribe", "subscribePattern") if name.lower() in options]
    if not named:
        raise InvalidOption("one of the options 'assign', 'subscribe', 'subscribePattern' must be given")
    if len(named) > 1:
        raise InvalidOption(f"only one of the options {named} may be given")
    name = named[0]
    value = options[name.lower()]
    match name:
        case "assign":
            partitions = parse_assignment(value, name)
            if not partitions:
                raise InvalidOption(f"option 'assign' names no partition: {value!r}")
            return Assignment(partitions)
        case "subscribe":
            names = tuple(sorted({part.strip() for part in value.split(",") if part.strip()}))
            if not 0 < len(names) <= TOPICS_MAX:
                raise InvalidOption(
                    f"option 'subscribe' must name 1 to {TOPICS_MAX} topics, not {len(names)}"
                )
            return Topics(names)
        case _:
            return TopicPattern(pattern_of_java(value))


def _isolation(options: Mapping[str, str]) -> Isolation:
    text = options.get("kafka.isolation.level", "read_uncommitted").strip().upper()
    if text not in Isolation.__members__:
        raise InvalidOption(
            f"option 'kafka.isolation.level' must be 'read_committed' or 'read_uncommitted', not {text!r}"
        )
    return Isolation[text]


def _columns(options: Mapping[str, str]) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    if not names or len(set(names)) != len(names):
        raise InvalidOption(f"option 'columns' must name columns, each once, not {text!r}")
    return names


def _replica(options: Mapping[str, str]) -> int | None:
    text = options.get("replica", "leader").strip().lower()
    if text in ("leader", "nearest"):
        return None  # with 'kafka.client.rack' leaders name a nearer replica themselves (KIP-392)
    if text.isascii() and text.isdigit() and len(text) <= 9:
        return int(text)
    raise InvalidOption(f"option 'replica' must be 'leader', 'nearest' or a broker id, not {text!r}")


def _start_state(options: Mapping[str, str]) -> str | None:
    text = options.get("startstate")
    if text is not None and not text.strip():
        raise InvalidOption("option 'startState' is empty: it names a directory of the query's own")
    return text
