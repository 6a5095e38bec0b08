"""Many manifests in one document, so that a table of a year's minutes is read in a thousand files. Pure.

    _springtide/merged/<n>.json    files of the MERGED_BATCHES batches before n, and progress after n batches

It says nothing that manifests don't: it follows from them alone, and whoever misses it reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pipeline.client.values import TopicPartition
from pipeline.land.documents import (
    LandedFile,
    check_once,
    decode_document,
    encode_document,
    number,
    read_file,
    texts,
)
from pipeline.land.layout import check_topic
from pipeline.land.planning import PartitionState, Progress

MERGED_BATCHES = 500
_PARTITION_MAX = 2**31 - 1


class Merged(NamedTuple):
    """`files` are those of the last MERGED_BATCHES batches of `progress`."""

    progress: Progress
    files: tuple[LandedFile, ...]


def is_due(batches: int) -> bool:
    """Whether a table with so many batches gets a merged document."""
    return batches > 0 and batches % MERGED_BATCHES == 0


def encode_merged(merged: Merged) -> bytes:
    progress = merged.progress
    return encode_document(
        "merged",
        {
            "batches": progress.batches,
            "topicIds": dict(sorted(progress.topic_ids.items())),
            "partitions": [[*where, *progress.partitions[where]] for where in sorted(progress.partitions)],
            "files": [list(file) for file in merged.files],
        },
    )


def decode_merged(encoded: bytes, name: str, *, batches: int) -> Merged:
    """Raises LandError for anything but what `encode_merged` made for so many batches."""

    def build(document: Mapping[str, Any]) -> Merged:
        if number(document["batches"]) != batches:
            raise ValueError(f"{document['batches']} batches where {batches} should be")
        partitions = dict(_partition(each) for each in document["partitions"])
        if len(partitions) != len(document["partitions"]):
            raise ValueError("a partition is named twice")
        files = tuple(read_file(each) for each in document["files"])
        check_once(file.path for file in files)
        for file in files:
            state = partitions.get(TopicPartition(file.topic, file.partition))
            if state is None or file.end_offset > state.next_offset:
                raise ValueError(f"{file.path} is of no partition here")
        topic_ids = texts(document["topicIds"])
        return Merged(Progress(batches, partitions, topic_ids), files)

    return decode_document(encoded, name, "merged", build)


def _partition(values: Any) -> tuple[TopicPartition, PartitionState]:
    topic, partition, first, following, epoch, records, skipped = values
    state = PartitionState(
        number(first),
        number(following),
        number(epoch, least=-1, most=_PARTITION_MAX),
        number(records),
        number(skipped),
    )
    if state.records + state.skipped > state.next_offset - state.first_offset:
        raise ValueError(f"{topic!r}: more records than offsets")
    return TopicPartition(check_topic(topic), number(partition, most=_PARTITION_MAX)), state
