"""Load history as Parquet files under one path, on a mounted file system or on one that both Arrow and Spark
reach (s3://, gs://, hdfs://).

A file gets its name when it is whole; until then its name begins with a dot, and Spark passes over it. Files
are never changed, so several collectors may write to one history.
"""

from __future__ import annotations

import uuid
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pipeline.errors import JobError
from pipeline.files import mounted_path
from pipeline.plan.samples import file_name
from springtide.cli.call import UsageError

_COMPRESSION: Final = "zstd"


class LoadHistory:
    """location: a path, or a URL that Arrow knows. Raises UsageError for any other."""

    def __init__(self, location: str) -> None:
        path = mounted_path(location)
        try:
            if path is not None:
                self.url = path.resolve().as_uri()
                self._files, self._root = fs.LocalFileSystem(), str(path.resolve())
            else:
                self.url = location.rstrip("/")
                self._files, self._root = fs.FileSystem.from_uri(self.url)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UsageError(f"{location!r} is no place for a history: {error}") from error

    def table(self, name: str) -> str:
        """Return a table's folder, for Spark."""
        return f"{self.url}/{name}"

    def has(self, name: str) -> bool:
        """Return whether the table has a folder: its first file creates it. Raises JobError."""
        try:
            return bool(self._files.get_file_info(self._path(name)).type == fs.FileType.Directory)
        except OSError as error:
            raise JobError(f"the history {self.url} can't be read: {error}") from error

    def append(self, name: str, batches: list[pa.RecordBatch], *, first_ms: int, last_ms: int) -> str | None:
        """Write one more file; return its name under the history, None for no rows. Raises JobError."""
        rows = pa.Table.from_batches(batches)
        if not rows.num_rows:
            return None
        written = file_name(name, first_ms, last_ms, uuid.uuid4().hex[:8])
        path = PurePosixPath(self._path(written))
        aside = str(path.with_name(f".{path.name}"))
        try:
            self._files.create_dir(str(path.parent), recursive=True)
            with self._files.open_output_stream(aside) as file:
                pq.write_table(rows, file, compression=_COMPRESSION)
            self._files.move(aside, str(path))
        except OSError as error:
            raise JobError(f"the history {self.url} can't be written: {error}") from error
        return written

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"
