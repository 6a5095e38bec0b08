"""A table's own files: settings, plans, manifests. Each is written once, whole and durable.

Batches are numbered without gaps, so the next one is found by its number, without listing a directory that
may have a million names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import LandError
from pipeline.files import SharedDisk, StoredFiles, shared_path
from pipeline.land.documents import (
    BYTES_MAX,
    LandedFile,
    LandPlan,
    Manifest,
    TableSettings,
    decode_manifest,
    decode_plan,
    decode_settings,
    encode_document,
)
from pipeline.land.merged import MERGED_BATCHES, Merged, decode_merged, encode_merged, is_due
from pipeline.land.planning import LandProgress

DIRECTORY = "_springtide"
_SETTINGS = "table.json"
_BATCHES = "batches"
_ASIDE = "aside"
_MERGED = "merged"
_RESTORE = "Restore it from a backup, or land to another place."


def table_root(location: str) -> Path:
    """Return the table's directory. Raises LandError for a place that is no mounted path."""
    return shared_path(location, LandError, what="the table").absolute()


class LandTable:
    """One destination. Every method may raise LandError."""

    def __init__(self, root: Path, disk: SharedDisk | None = None) -> None:
        self.root = root
        self._files = StoredFiles(LandError, bytes_max=BYTES_MAX, disk=disk)
        self._own = root / DIRECTORY

    def settings(self) -> TableSettings | None:
        """Return the settings; None if nothing was landed here yet."""
        path = self._own / _SETTINGS
        found = self._files.read(path)
        return None if found is None else decode_settings(found, str(path))

    def open(self, wanted: TableSettings) -> None:
        """Make the table unless it is there. Raises LandError unless it is as `wanted`."""
        self._put(self._own / _SETTINGS, encode_document(wanted))
        self.check(wanted)

    def check(self, wanted: TableSettings) -> None:
        """Raise LandError for a table that is there and is not as `wanted`."""
        found = self.settings()
        if found is None:
            return
        if found.cluster_id != wanted.cluster_id:
            raise LandError(
                f"{self.root} is a table of cluster {found.cluster_id}, not of {wanted.cluster_id}",
                "Land each cluster to a place of its own.",
            )
        if found.partition_by != wanted.partition_by:
            raise LandError(
                f"{self.root} is partitioned by {','.join(found.partition_by) or 'nothing'}, not by "
                f"{','.join(wanted.partition_by) or 'nothing'}",
                f"Say --partition-by {','.join(found.partition_by)!r}, or land to another place.",
            )

    def plan(self, batch: int) -> LandPlan | None:
        path = self._batch_path(batch, "plan")
        found = self._files.read(path)
        return None if found is None else decode_plan(found, str(path), batch=batch)

    def is_planned(self, batch: int) -> bool:
        return self._files.disk.read(self._batch_path(batch, "plan"), 1) is not None

    def manifest(self, batch: int) -> Manifest | None:
        path = self._batch_path(batch, "manifest")
        found = self._files.read(path)
        return None if found is None else decode_manifest(found, str(path), batch=batch)

    def manifests(self, first: int = 0) -> Iterator[Manifest]:
        """Yield the manifests from batch `first` to the last, in order."""
        while (manifest := self.manifest(first)) is not None:
            yield manifest
            first += 1

    def propose(self, plan: LandPlan) -> LandPlan:
        """Return the plan that holds: this one, or the one that another driver wrote first."""
        path = self._batch_path(plan.batch, "plan")
        return decode_plan(self._put(path, encode_document(plan)), str(path), batch=plan.batch)

    def commit(self, manifest: Manifest) -> Manifest:
        """Return the manifest that holds, and remove what was written aside for the batch."""
        path = self._batch_path(manifest.batch, "manifest")
        held = decode_manifest(self._put(path, encode_document(manifest)), str(path), batch=manifest.batch)
        self._files.disk.remove_tree(aside_directory(self.root, manifest.batch))
        return held

    def progress(self, known: LandProgress | None = None) -> LandProgress:
        """Return the progress after the last batch; `known`, an earlier answer, saves reading again."""
        progress = LandProgress() if known is None else known
        if progress.batches == 0 and (latest := self._merged_batches()):
            merged = self._merged(latest[-1])
            progress = progress if merged is None else merged.progress
        for manifest in self.manifests(progress.batches):
            progress = progress.after(manifest)
        return progress

    def history(self) -> tuple[LandProgress, tuple[LandedFile, ...]]:
        """Return the progress, and all files that count, in the order of batches."""
        progress = LandProgress()
        files: list[LandedFile] = []
        merged_batches = set(self._merged_batches())
        while True:
            following = progress.batches + MERGED_BATCHES
            merged = self._merged(following) if following in merged_batches else None
            if merged is not None and is_due(following):
                progress = merged.progress
                files += merged.files
            elif (manifest := self.manifest(progress.batches)) is not None:
                progress = progress.after(manifest)
                files += manifest.files
            else:
                return progress, tuple(files)

    def merge(self, progress: LandProgress) -> None:
        """Write the merged document that is due after so many batches, unless it is there."""
        path = self._merged_path(progress.batches)
        if is_due(progress.batches) and self._files.read(path) is None:
            files: list[LandedFile] = []
            for batch in range(progress.batches - MERGED_BATCHES, progress.batches):
                manifest = self.manifest(batch)
                if manifest is None:
                    raise LandError(f"the manifest of batch {batch} is missing in {self.root}", _RESTORE)
                files += manifest.files
            self._put(path, encode_merged(Merged(progress, tuple(files))))

    def _merged(self, batches: int) -> Merged | None:
        path = self._merged_path(batches)
        found = self._files.read(path)
        return None if found is None else decode_merged(found, str(path), batches=batches)

    def _merged_batches(self) -> list[int]:
        names = self._files.names(self._own / _MERGED)
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(name) for name in found if name.isascii() and name.isdigit() and len(name) == 20)

    def _merged_path(self, batches: int) -> Path:
        return self._own / _MERGED / f"{batches:020d}.json"

    def forget_aside(self, progress: LandProgress) -> None:
        """Remove what attempts at finished batches have left."""
        directory = self._own / _ASIDE
        for name in self._files.names(directory):
            if name.isascii() and name.isdigit() and int(name) < progress.batches:
                self._files.disk.remove_tree(directory / name)

    def _batch_path(self, batch: int, kind: str) -> Path:
        return self._own / _BATCHES / f"{batch:020d}.{kind}.json"

    def _put(self, path: Path, content: bytes) -> bytes:
        if len(content) > BYTES_MAX:
            raise LandError(
                f"{path} would be larger than {BYTES_MAX} bytes",
                "Lower --records-per-batch, or land fewer topics.",
            )
        return self._files.put_if_absent(path, content)


def aside_directory(root: Path, batch: int) -> Path:
    """Return where attempts at a batch write files that have no name yet, on the file system of the data."""
    return root / DIRECTORY / _ASIDE / str(batch)
