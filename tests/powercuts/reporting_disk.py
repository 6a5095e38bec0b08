"""The real disk, telling after each operation that it is done: the same operations, in the same order and
number, of which the disk in memory tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dataplane.storage.disk import Buffer, File, PosixDisk


class ReportingFile:
    def __init__(self, file: File, on_done: Callable[[], None], *, syncs_all: bool) -> None:
        self._file = file
        self._syncs_all = syncs_all
        self._on_done = on_done
        self.fileno = file.fileno
        self.size_bytes = file.size_bytes
        self.pread = file.pread
        self.is_cached = file.is_cached
        self.forget = file.forget
        self.set_mount_mark = file.set_mount_mark
        self.has_mount_mark = file.has_mount_mark
        self.is_untouched = file.is_untouched
        self.close = file.close

    def pwrite(self, data: Buffer, position: int) -> None:
        self._file.pwrite(data, position)
        self._on_done()

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self._file.pwritev(buffers, position)
        self._on_done()

    def truncate(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)
        self._on_done()

    def fsync(self) -> None:
        self._file.fsync()
        self._on_done()

    def can_sync_all(self) -> bool:
        return self._syncs_all and self._file.can_sync_all()

    def sync_all(self) -> None:
        self._file.sync_all()
        self._on_done()


class ReportingDisk(PosixDisk):
    """syncs_all: whether the storage engine may sync many files at once, where the kernel can."""

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self.syncs_all = True

    def open(self, path: str, *, create: bool = False) -> File:
        is_new = create and not self.exists(path)
        file = super().open(path, create=create)
        if is_new:
            self._on_done()
        return ReportingFile(file, self._on_done, syncs_all=self.syncs_all)

    def lock(self, path: str) -> File:
        is_new = not self.exists(path)
        file = super().lock(path)
        if is_new:
            self._on_done()
        return file

    def mkdir(self, path: str) -> None:
        is_new = not self.exists(path)
        super().mkdir(path)
        if is_new:
            self._on_done()

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._on_done()

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self._on_done()

    def rmdir(self, path: str) -> None:
        super().rmdir(path)
        self._on_done()

    def fsync_dir(self, path: str) -> None:
        super().fsync_dir(path)
        self._on_done()
