"""What a table keeps beside its data: what it is, a plan before each batch, a manifest after it. Pure.

    _springtide/table.json                 once: how rows are laid out, and of which cluster
    _springtide/batches/<n>.plan.json      before anything of batch n is read: which ranges, which tasks
    _springtide/batches/<n>.manifest.json  after: the files that count, and how far each partition is now

Both are written once and never changed, so a batch that was interrupted is done again by the same plan, and
two drivers at one table do the same work. Documents come from a file system that others write to: every
number is checked before it is believed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.land.errors import LandError
from pipeline.land.layout import check_partition_by, check_path, check_topic

T = TypeVar("T")
VERSION = 1
BYTES_MAX = 256 * 1024 * 1024
"""Of one document. A manifest has some 300 bytes for each file of a batch."""
COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
_PARTITION_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_LEVEL_MAX = 22


@dataclass(frozen=True, slots=True)
class TableSettings:
    """What every batch of a table has in common."""

    cluster_id: str
    partition_by: tuple[str, ...]


class PartitionSpan(NamedTuple):
    """What a batch lands of a partition: offsets `start_offset` to `end_offset` (exclusive), perhaps none.

    `leader_epoch` is the leader's as the end was asked for, -1 if unknown.
    """

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    leader_epoch: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch before it is done. `tasks` together are the spans that are not empty."""

    batch: int
    planned_ms: int
    topic_ids: Mapping[str, str]
    spans: tuple[PartitionSpan, ...]
    tasks: tuple[tuple[PartitionRange, ...], ...]
    compression: str = "zstd"
    compression_level: int | None = None
    read_committed: bool = False
    losses: tuple[str, ...] = ()
    """What was given up when it was planned, for people to read."""


class LandedFile(NamedTuple):
    """A data file: `path` is relative to the table. `start_offset` to `end_offset` (exclusive) is the range
    that was read; of it, the file has the rows of one folder. Of a file without rows there is none."""

    path: str
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    records: int
    bytes: int
    min_offset: int
    max_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def range(self) -> PartitionRange:
        return PartitionRange(self.topic, self.partition, self.start_offset, self.end_offset)


class LandedSpan(NamedTuple):
    """A span as it came out. `skipped`: offsets that were gone, and passed over because that was allowed."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    leader_epoch: int
    records: int
    skipped: int

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch that is done."""

    batch: int
    committed_ms: int
    topic_ids: Mapping[str, str]
    spans: tuple[LandedSpan, ...]
    files: tuple[LandedFile, ...]
    losses: tuple[str, ...] = ()


# --- encoding
# -------------------------------------------------------------------------------------------------------


def encode_settings(settings: TableSettings) -> bytes:
    return encode_document(
        "table", {"clusterId": settings.cluster_id, "partitionBy": list(settings.partition_by)}
    )


def encode_plan(plan: Plan) -> bytes:
    return encode_document(
        "plan",
        {
            "batch": plan.batch,
            "plannedMs": plan.planned_ms,
            "topicIds": dict(sorted(plan.topic_ids.items())),
            "compression": plan.compression,
            "compressionLevel": plan.compression_level,
            "readCommitted": plan.read_committed,
            "spans": [list(span) for span in plan.spans],
            "tasks": [[list(one) for one in task] for task in plan.tasks],
            "losses": list(plan.losses),
        },
    )


def encode_manifest(manifest: Manifest) -> bytes:
    return encode_document(
        "manifest",
        {
            "batch": manifest.batch,
            "committedMs": manifest.committed_ms,
            "topicIds": dict(sorted(manifest.topic_ids.items())),
            "spans": [list(span) for span in manifest.spans],
            "files": [list(file) for file in manifest.files],
            "losses": list(manifest.losses),
        },
    )


def encode_document(kind: str, fields: Mapping[str, Any]) -> bytes:
    return json.dumps({"version": VERSION, "kind": kind, **fields}, separators=(",", ":")).encode()


# --- decoding
# -------------------------------------------------------------------------------------------------------


def decode_settings(encoded: bytes, name: str) -> TableSettings:
    """`name`: where it stands, for the message. Raises LandError; the same for the others."""

    def build(document: Mapping[str, Any]) -> TableSettings:
        columns = tuple(_text(each) for each in _list(document["partitionBy"]))
        check_partition_by(columns)
        return TableSettings(_text(document["clusterId"]), columns)

    return decode_document(encoded, name, "table", build)


def decode_plan(encoded: bytes, name: str, *, batch: int) -> Plan:
    def build(document: Mapping[str, Any]) -> Plan:
        spans = tuple(PartitionSpan(*_span(each, 5)) for each in _list(document["spans"]))
        tasks = tuple(
            tuple(PartitionRange(*_span(one, 4)) for one in _list(task)) for task in _list(document["tasks"])
        )
        check_once(span.where for span in spans)
        _check_tasks(spans, tasks)
        compression = _text(document["compression"])
        if compression not in COMPRESSIONS:
            raise ValueError(f"compression {compression!r}")
        level = document["compressionLevel"]
        return Plan(
            _batch(document, batch),
            number(document["plannedMs"]),
            _topic_ids(document, spans),
            spans,
            tasks,
            compression,
            None if level is None else number(level, most=_LEVEL_MAX),
            _boolean(document["readCommitted"]),
            tuple(_text(each) for each in _list(document["losses"])),
        )

    return decode_document(encoded, name, "plan", build)


def decode_manifest(encoded: bytes, name: str, *, batch: int) -> Manifest:
    def build(document: Mapping[str, Any]) -> Manifest:
        spans = tuple(_landed_span(each) for each in _list(document["spans"]))
        check_once(span.where for span in spans)
        files = tuple(read_file(each) for each in _list(document["files"]))
        check_once(file.path for file in files)
        _check_records(spans, files)
        return Manifest(
            _batch(document, batch),
            number(document["committedMs"]),
            _topic_ids(document, spans),
            spans,
            files,
            tuple(_text(each) for each in _list(document["losses"])),
        )

    return decode_document(encoded, name, "manifest", build)


def decode_document(encoded: bytes, name: str, kind: str, build: Callable[[Mapping[str, Any]], T]) -> T:
    """What `build` makes of a document of this kind; ValueError, KeyError and TypeError of it mean damage."""
    try:
        document = json.loads(encoded)
        if not isinstance(document, dict) or document.get("kind") != kind:
            raise ValueError(f"no {kind}")
        if document["version"] != VERSION:
            raise ValueError(f"version {document['version']!r}, this release knows {VERSION}")
        return build(document)
    except (ValueError, KeyError, TypeError, RecursionError, LandError) as error:
        raise LandError(
            f"{name} is damaged, or not ours: {error!r}",
            "What landed before is untouched. Restore the file from a backup, or land to another place.",
        ) from error


def _span(values: object, length: int) -> tuple[Any, ...]:
    told = _list(values)
    if len(told) != length:
        raise ValueError(f"{length} values are wanted, not {len(told)}")
    topic, partition, start, end, *epoch = told
    number(partition, most=_PARTITION_MAX)
    if number(end) < number(start):
        raise ValueError(f"offsets {start} to {end}")
    for one in epoch:
        number(one, least=-1, most=_PARTITION_MAX)
    return check_topic(_text(topic)), partition, start, end, *epoch


def _landed_span(values: object) -> LandedSpan:
    told = _list(values)
    span = LandedSpan(*_span(told[:5], 5), *(number(each) for each in told[5:]))
    if span.records + span.skipped > span.end_offset - span.start_offset:
        raise ValueError(f"{span.where}: more records than offsets")
    return span


def read_file(values: object) -> LandedFile:
    path, *rest = _list(values)
    topic, partition, start, end = _span(rest[:4], 4)
    records, size, least, most = (number(each) for each in rest[4:8])
    earliest, latest = (number(each, least=-_INT64_MAX) for each in rest[8:])
    if not start <= least <= most < end or not 0 < records <= most - least + 1 or earliest > latest:
        raise ValueError(f"{path!r}: its figures contradict each other")
    return LandedFile(
        check_path(path), topic, partition, start, end, records, size, least, most, earliest, latest
    )


def _check_tasks(spans: Sequence[PartitionSpan], tasks: Sequence[Sequence[PartitionRange]]) -> None:
    """Tasks must be exactly the spans: a range that is in two of them would land twice."""
    by_partition: dict[TopicPartition, list[tuple[int, int]]] = {}
    for task in tasks:
        check_once(one.where for one in task)
        for one in task:
            by_partition.setdefault(one.where, []).append((one.start_offset, one.end_offset))
    for span in spans:
        reached = span.start_offset
        for start, end in sorted(by_partition.pop(span.where, [])):
            if start != reached or end <= start:
                raise ValueError(f"{span.where}: tasks don't meet at offset {reached}")
            reached = end
        if reached != span.end_offset:
            raise ValueError(f"{span.where}: tasks end at offset {reached}, not at {span.end_offset}")
    if by_partition:
        raise ValueError(f"a task reads {next(iter(by_partition))}, which is in no span")


def _check_records(spans: Sequence[LandedSpan], files: Sequence[LandedFile]) -> None:
    by_partition: dict[TopicPartition, int] = {}
    bounds = {span.where: span for span in spans}
    for file in files:
        where = TopicPartition(file.topic, file.partition)
        span = bounds.get(where)
        if span is None or not span.start_offset <= file.start_offset < file.end_offset <= span.end_offset:
            raise ValueError(f"{file.path} is of no span")
        by_partition[where] = by_partition.get(where, 0) + file.records
    for span in spans:
        if by_partition.get(span.where, 0) != span.records:
            raise ValueError(f"{span.where}: its files don't have {span.records} records")


def _topic_ids(
    document: Mapping[str, Any], spans: Sequence[PartitionSpan] | Sequence[LandedSpan]
) -> dict[str, str]:
    ids = texts(document["topicIds"])
    missing = {span.topic for span in spans} - ids.keys()
    if missing:
        raise ValueError(f"topicIds lacks {sorted(missing)}")
    return ids


def texts(value: object) -> dict[str, str]:
    """Texts by topic."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r:.80} is no object")
    return {check_topic(topic): _text(text) for topic, text in value.items()}


def _batch(document: Mapping[str, Any], batch: int) -> int:
    if document["batch"] != batch or isinstance(document["batch"], bool):
        raise ValueError(f"batch {document['batch']!r} where {batch} should be")
    return batch


def check_once(values: Any) -> None:
    told = list(values)
    if len(set(told)) != len(told):
        raise ValueError("something is named twice")


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{value!r:.80} is no list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is no text")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.80} is neither true nor false")
    return value


def number(value: object, *, least: int = 0, most: int = _INT64_MAX) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r:.80} is no whole number from {least} to {most}")
    return value
