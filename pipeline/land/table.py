"""A table's own files: settings, plans, manifests. Each is put if absent, whole and durable, and stays.

Batches are numbered without gaps, so the next one is found by asking for it, and no directory with a million
names is listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.files import Disk, mounted_path, put_if_absent
from pipeline.land.documents import (
    BYTES_MAX,
    LandedFile,
    Manifest,
    Plan,
    TableSettings,
    decode_manifest,
    decode_plan,
    decode_settings,
    encode_manifest,
    encode_plan,
    encode_settings,
)
from pipeline.land.errors import LandError
from pipeline.land.merged import MERGED_BATCHES, Merged, decode_merged, encode_merged, is_due
from pipeline.land.planning import Progress

DIRECTORY = "_springtide"
_SETTINGS = "table.json"
_BATCHES = "batches"
_ASIDE = "aside"
_MERGED = "merged"
_RESTORE = "Restore it from a backup, or land to another place."


def table_root(location: str) -> Path:
    """The table's directory. Raises LandError for a place that is no mounted path."""
    path = mounted_path(location)
    if path is None:
        raise LandError(
            f"{location!r} is not on a mounted file system: manifests must be created atomically",
            "Give a path that driver and executors share (NFS, CephFS, a mounted HDFS).",
        )
    return path.absolute()


class Table:
    """One destination. Every method may raise LandError."""

    def __init__(self, root: Path, disk: Disk | None = None) -> None:
        self.root = root
        self._disk = disk or Disk()
        self._own = root / DIRECTORY

    # --- settings -------------------------------------------------------------------------------------

    def settings(self) -> TableSettings | None:
        """None if nothing was landed here yet."""
        path = self._own / _SETTINGS
        found = self._read(path)
        return None if found is None else decode_settings(found, str(path))

    def open(self, wanted: TableSettings) -> None:
        """Makes the table unless it is there; an existing one must be as `wanted`."""
        self._put(self._own / _SETTINGS, encode_settings(wanted))
        self.check(wanted)

    def check(self, wanted: TableSettings) -> None:
        """Whether a table that is there, if one is, is as `wanted`."""
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

    # --- batches --------------------------------------------------------------------------------------

    def plan(self, batch: int) -> Plan | None:
        path = self._batch_path(batch, "plan")
        found = self._read(path)
        return None if found is None else decode_plan(found, str(path), batch=batch)

    def manifest(self, batch: int) -> Manifest | None:
        path = self._batch_path(batch, "manifest")
        found = self._read(path)
        return None if found is None else decode_manifest(found, str(path), batch=batch)

    def manifests(self, first: int = 0) -> Iterator[Manifest]:
        """From batch `first` on, in order, to the last."""
        while (manifest := self.manifest(first)) is not None:
            yield manifest
            first += 1

    def propose(self, plan: Plan) -> Plan:
        """The plan that holds: this one, or that of whoever was first."""
        path = self._batch_path(plan.batch, "plan")
        return decode_plan(self._put(path, encode_plan(plan)), str(path), batch=plan.batch)

    def commit(self, manifest: Manifest) -> Manifest:
        """The manifest that holds. What was written aside for the batch is removed."""
        path = self._batch_path(manifest.batch, "manifest")
        held = decode_manifest(self._put(path, encode_manifest(manifest)), str(path), batch=manifest.batch)
        self._disk.remove_tree(aside_directory(self.root, manifest.batch))
        return held

    def progress(self, known: Progress | None = None) -> Progress:
        """After the last batch; `known` is an earlier answer, and saves reading what it is made of."""
        progress = Progress() if known is None else known
        if progress.batches == 0 and (latest := self._merged_batches()):
            merged = self._merged(latest[-1])
            progress = progress if merged is None else merged.progress
        for manifest in self.manifests(progress.batches):
            progress = progress.after(manifest)
        return progress

    def history(self) -> tuple[Progress, tuple[LandedFile, ...]]:
        """Progress, and all files that count, in the order of batches."""
        progress = Progress()
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

    def merge(self, progress: Progress) -> None:
        """Writes the merged document that is due after so many batches, unless it is there."""
        path = self._merged_path(progress.batches)
        if is_due(progress.batches) and self._read(path) is None:
            files: list[LandedFile] = []
            for batch in range(progress.batches - MERGED_BATCHES, progress.batches):
                manifest = self.manifest(batch)
                if manifest is None:
                    raise LandError(f"the manifest of batch {batch} is missing in {self.root}", _RESTORE)
                files += manifest.files
            self._put(path, encode_merged(Merged(progress, tuple(files))))

    def _merged(self, batches: int) -> Merged | None:
        path = self._merged_path(batches)
        found = self._read(path)
        return None if found is None else decode_merged(found, str(path), batches=batches)

    def _merged_batches(self) -> list[int]:
        names = self._disk.names(self._own / _MERGED)
        found = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(int(name) for name in found if name.isascii() and name.isdigit() and len(name) == 20)

    def _merged_path(self, batches: int) -> Path:
        return self._own / _MERGED / f"{batches:020d}.json"

    def forget_aside(self, progress: Progress) -> None:
        """Removes what attempts at finished batches have left."""
        directory = self._own / _ASIDE
        for name in self._disk.names(directory):
            if name.isascii() and name.isdigit() and int(name) < progress.batches:
                self._disk.remove_tree(directory / name)

    # --- files ----------------------------------------------------------------------------------------

    def _batch_path(self, batch: int, kind: str) -> Path:
        return self._own / _BATCHES / f"{batch:020d}.{kind}.json"

    def _read(self, path: Path) -> bytes | None:
        try:
            return _whole(self._disk.read(path, BYTES_MAX + 1), path)
        except OSError as error:
            raise LandError(f"{path} can't be read: {error}") from error

    def _put(self, path: Path, content: bytes) -> bytes:
        if len(content) > BYTES_MAX:
            raise LandError(
                f"{path} would be larger than {BYTES_MAX} bytes",
                "Lower --records-per-batch, or land fewer topics.",
            )
        try:
            found = _whole(put_if_absent(self._disk, path, content, bytes_max=BYTES_MAX + 1), path)
        except OSError as error:
            raise LandError(f"{path} can't be written: {error}") from error
        assert found is not None
        return found


def aside_directory(root: Path, batch: int) -> Path:
    """Where attempts at a batch write what has no name yet: on the file system of the data."""
    return root / DIRECTORY / _ASIDE / str(batch)


def _whole(found: bytes | None, path: Path) -> bytes | None:
    if found is not None and len(found) > BYTES_MAX:
        raise LandError(f"{path} is larger than {BYTES_MAX} bytes: nothing of ours")
    return found
