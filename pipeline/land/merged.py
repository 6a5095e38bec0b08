"""Many manifests in one document, so that a table of a year's minutes is read in a thousand files. Pure.

    _springtide/merged/<n>.json    files of the MERGED_BATCHES batches before n, and progress after n batches

It follows from the manifests alone: a reader that does not find it reads them instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.land.documents import (
    Document,
    LandedFile,
    check_files,
    check_once,
    decode_document,
    encode_document,
)
from pipeline.land.planning import LandedPartition, LandProgress
from pipeline.stored import Epoch, Int32, Int64, TopicName

MERGED_BATCHES = 500


class Merged(NamedTuple):
    """`files` are those of the last MERGED_BATCHES batches of `progress`."""

    progress: LandProgress
    files: tuple[LandedFile, ...]


class _PartitionRow(NamedTuple):
    """A partition, and its LandedPartition."""

    topic: TopicName
    partition: Int32
    first_offset: Int64
    next_offset: Int64
    leader_epoch: Epoch
    records: Int64
    skipped: Int64


class _MergedDocument(Document, frozen=True, tag="merged"):
    batches: int
    topic_ids: Mapping[TopicName, str]
    partitions: tuple[_PartitionRow, ...]
    files: tuple[LandedFile, ...]


def is_due(batches: int) -> bool:
    """Return whether a table with so many batches gets a merged document."""
    return batches > 0 and batches % MERGED_BATCHES == 0


def encode_merged(merged: Merged) -> bytes:
    progress = merged.progress
    rows = tuple(_PartitionRow(*where, *state) for where, state in sorted(progress.partitions.items()))
    return encode_document(_MergedDocument(progress.batches, progress.topic_ids, rows, merged.files))


def decode_merged(encoded: bytes, name: str, *, batches: int) -> Merged:
    """Return what `encode_merged` encoded for so many batches. Raises LandError for anything else."""

    def check(document: _MergedDocument) -> None:
        if document.batches != batches:
            raise ValueError(f"{document.batches} batches where {batches} should be")
        check_once(row[:2] for row in document.partitions)
        for row in document.partitions:
            if row.records + row.skipped > row.next_offset - row.first_offset:
                raise ValueError(f"{row.topic!r}: more records than offsets")
        check_files(document.files)
        ends = {TopicPartition(*row[:2]): row.next_offset for row in document.partitions}
        for file in document.files:
            if file.end_offset > ends.get(file.where, -1):
                raise ValueError(f"{file.path} is of no partition here")

    found = decode_document(encoded, name, _MergedDocument, check)
    partitions = {TopicPartition(*row[:2]): LandedPartition(*row[2:]) for row in found.partitions}
    return Merged(LandProgress(batches, partitions, found.topic_ids), found.files)
