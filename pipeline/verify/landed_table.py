"""A landed table's content as ranges to be counted: the shell of landed.py."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.client.values import ClusterMetadata
from pipeline.errors import LandError
from pipeline.land.documents import Manifest
from pipeline.land.table import LandTable, table_root
from pipeline.verify.landed import LandedRange, ranges_of


def landed_ranges(dest: str, metadata: ClusterMetadata) -> list[LandedRange]:
    """Return the ranges of topics that the cluster has now, without those of an earlier topic of the same
    name. Each file's own footer tells its records. Raises LandError for a table of another cluster, or one
    that is damaged."""
    table = LandTable(table_root(dest))
    settings = table.settings()
    if settings is None:
        raise LandError(f"{table.root} is no table: nothing was landed there")
    if metadata.cluster_id and settings.cluster_id != metadata.cluster_id:
        raise LandError(
            f"{table.root} is a table of cluster {settings.cluster_id}, not of {metadata.cluster_id}"
        )
    found: list[LandedRange] = []
    for manifest in table.manifests():
        plan = table.plan(manifest.batch)
        filters = plan is not None and plan.read_committed
        found += [
            one._replace(skipped=one.end_offset - one.start_offset) if filters else one
            for one in _ranges(table, manifest, metadata)
        ]
    return found


def _ranges(table: LandTable, manifest: Manifest, metadata: ClusterMetadata) -> list[LandedRange]:
    same = {
        name
        for name, topic_id in manifest.topic_ids.items()
        if name in metadata.topics and metadata.topics[name].topic_id == topic_id
    }
    files: Counter[tuple[str, int, int, int]] = Counter()
    for file in manifest.files:
        if file.topic in same:
            files[file.topic, file.partition, file.start_offset, file.end_offset] += _rows(table, file.path)
    return ranges_of(
        [
            (span.topic, span.partition, span.start_offset, span.end_offset, span.records, span.skipped)
            for span in manifest.spans
            if span.topic in same
        ],
        files,
        batch=manifest.batch,
    )


def _rows(table: LandTable, path: str) -> int:
    """Return a file's rows; 0 for a missing or damaged file, whose records are then missing."""
    try:
        return int(pq.read_metadata(table.root / path).num_rows)
    except (OSError, pa.ArrowException):
        return 0
