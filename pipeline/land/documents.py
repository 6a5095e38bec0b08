"""Documents that a table keeps beside its data: settings, a plan before and a manifest after a batch. Pure.

    _springtide/table.json                 once: how rows are laid out, and of which cluster
    _springtide/batches/<n>.plan.json      before anything of batch n is read: which ranges, which tasks
    _springtide/batches/<n>.manifest.json  after: the files that count, and how far each partition is now

They are written once and never changed, so an interrupted batch is done again by the same plan, and two
drivers at one table do the same work. Other programs write to the same file system: every value is checked as
it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple, TypeVar, get_args

import msgspec

from pipeline.client.values import PartitionRange, TopicPartition
from pipeline.errors import LandError
from pipeline.land.layout import check_partition_by, check_path
from pipeline.stored import INT64_MAX, Epoch, Int32, Int64, TopicName, check_version, encode_fields

VERSION = 1
BYTES_MAX = 256 * 1024 * 1024
"""Bytes of one document. A manifest has some 300 for each file of a batch."""
Compression = Literal["zstd", "snappy", "lz4", "gzip", "none"]
COMPRESSIONS: tuple[str, ...] = get_args(Compression)
_Timestamp = Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)]


class Document(msgspec.Struct, frozen=True, rename="camel", tag_field="kind"):
    """The base of all documents. Each is encoded with a version, and with a kind that says which it is."""


D = TypeVar("D", bound=Document)


class TableSettings(Document, frozen=True, tag="table"):
    """Settings that hold for every batch of a table."""

    cluster_id: str
    partition_by: tuple[str, ...]


class PartitionSpan(NamedTuple):
    """A batch's part of a partition: offsets `start_offset` to `end_offset` (exclusive), perhaps none.

    `leader_epoch`: the leader's at the time when the end was asked for, -1 if unknown.
    """

    topic: TopicName
    partition: Int32
    start_offset: Int64
    end_offset: Int64
    leader_epoch: Epoch

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class LandPlan(Document, frozen=True, tag="plan"):
    """The plan of a batch. `tasks` together are the spans that are not empty. `losses`: in words, records
    that were gone when it was planned."""

    batch: int
    planned_ms: Int64
    topic_ids: Mapping[TopicName, str]
    compression: Compression = "zstd"
    compression_level: Annotated[int, msgspec.Meta(ge=0, le=22)] | None = None
    read_committed: bool = False
    spans: tuple[PartitionSpan, ...] = ()
    tasks: tuple[tuple[PartitionRange, ...], ...] = ()
    losses: tuple[str, ...] = ()


class LandedFile(NamedTuple):
    """A data file with at least one row: `path` is relative to the table. `start_offset` to `end_offset`
    (exclusive) is the range that was read; the file has those of its rows that belong in one folder."""

    path: str
    topic: TopicName
    partition: Int32
    start_offset: Int64
    end_offset: Int64
    records: Int64
    bytes: Int64
    min_offset: Int64
    max_offset: Int64
    min_timestamp_ms: _Timestamp
    max_timestamp_ms: _Timestamp

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def range(self) -> PartitionRange:
        return PartitionRange(self.topic, self.partition, self.start_offset, self.end_offset)


class LandedSpan(NamedTuple):
    """A span as it came out. `skipped`: offsets that were gone, and passed over because that was allowed."""

    topic: TopicName
    partition: Int32
    start_offset: Int64
    end_offset: Int64
    leader_epoch: Epoch
    records: Int64
    skipped: Int64

    @property
    def where(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Manifest(Document, frozen=True, tag="manifest"):
    """A batch that is done."""

    batch: int
    committed_ms: Int64
    topic_ids: Mapping[TopicName, str]
    spans: tuple[LandedSpan, ...]
    files: tuple[LandedFile, ...]
    losses: tuple[str, ...] = ()


def encode_document(document: Document) -> bytes:
    return encode_fields(document, version=VERSION)


def decode_document(encoded: bytes, name: str, form: type[D], check: Callable[[D], None]) -> D:
    """Return the document that `encode_document` encoded; `name` is where it stands, for the message.

    Raises LandError for any other bytes, and for what `check` refuses with a ValueError or LandError.
    """
    try:
        check_version(encoded, VERSION)
        document = msgspec.json.decode(encoded, type=form)
        check(document)
    except (ValueError, RecursionError, LandError) as error:
        raise LandError(
            f"{name} is damaged, or not ours: {error!r}",
            "What landed before is untouched. Restore the file from a backup, or land to another place.",
        ) from error
    return document


def decode_settings(encoded: bytes, name: str) -> TableSettings:
    return decode_document(encoded, name, TableSettings, lambda found: check_partition_by(found.partition_by))


def decode_plan(encoded: bytes, name: str, *, batch: int) -> LandPlan:
    def check(plan: LandPlan) -> None:
        _check_batch(plan, batch)
        _check_tasks(plan.spans, plan.tasks)

    return decode_document(encoded, name, LandPlan, check)


def decode_manifest(encoded: bytes, name: str, *, batch: int) -> Manifest:
    def check(manifest: Manifest) -> None:
        _check_batch(manifest, batch)
        check_files(manifest.files)
        _check_records(manifest.spans, manifest.files)

    return decode_document(encoded, name, Manifest, check)


def _check_batch(document: LandPlan | Manifest, batch: int) -> None:
    if document.batch != batch:
        raise ValueError(f"batch {document.batch} where {batch} should be")
    spans: Sequence[PartitionSpan | LandedSpan] = document.spans
    check_once(span.where for span in spans)
    for span in spans:
        if span.end_offset < span.start_offset:
            raise ValueError(f"{span.where}: offsets {span.start_offset} to {span.end_offset}")
    missing = {span.topic for span in spans} - document.topic_ids.keys()
    if missing:
        raise ValueError(f"topicIds lacks {sorted(missing)}")


def check_files(files: Sequence[LandedFile]) -> None:
    """Raise ValueError for a path that leads out of the table, and for figures that can't be."""
    check_once(file.path for file in files)
    for file in files:
        check_path(file.path)
        least, most = file.min_offset, file.max_offset
        if (
            not file.start_offset <= least <= most < file.end_offset
            or not 0 < file.records <= most - least + 1
            or file.min_timestamp_ms > file.max_timestamp_ms
        ):
            raise ValueError(f"{file.path!r}: its figures contradict each other")


def _check_tasks(spans: Sequence[PartitionSpan], tasks: Sequence[Sequence[PartitionRange]]) -> None:
    """Raise ValueError unless the tasks are exactly the spans: a range in two tasks would land twice."""
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
        span = bounds.get(file.where)
        if span is None or not span.start_offset <= file.start_offset < file.end_offset <= span.end_offset:
            raise ValueError(f"{file.path} is of no span")
        by_partition[file.where] = by_partition.get(file.where, 0) + file.records
    for span in spans:
        if span.records + span.skipped > span.end_offset - span.start_offset:
            raise ValueError(f"{span.where}: more records than offsets")
        if by_partition.get(span.where, 0) != span.records:
            raise ValueError(f"{span.where}: its files don't have {span.records} records")


def check_once(values: Iterable[object]) -> None:
    """Raise ValueError if a value is there twice."""
    told = list(values)
    if len(set(told)) != len(told):
        raise ValueError("something is named twice")
