"""The disk port on real files: what a kernel does by halves, what it can't tell, which names are synced."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import dataplane.storage.disk as disk_module
from dataplane.storage.disk import (
    AT_EMPTY_PATH,
    F_GET_RW_HINT,
    IOV_MAX,
    PROBE_BYTES,
    STATX_BTIME,
    STATX_BTIME_AT,
    STATX_MTIME,
    STATX_MTIME_AT,
    Disk,
    File,
    PosixDisk,
    mkdir_durably,
    read_whole,
    rename_durably,
)
from tests.kit.memory.disk import MemoryDisk

DISK = PosixDisk()
EXT4, NFS, PROC = 0xEF53, 0x6969, 0x9FA0


def file_of(folder: Path, content: bytes = b"") -> File:
    (folder / "file").write_bytes(content)
    return DISK.open(str(folder / "file"))


def test_a_read_that_the_kernel_cuts_short_goes_on_up_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, whole = file_of(tmp_path, bytes(range(100))), os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, at: whole(fd, min(length, 7), at))
    assert file.pread(50, 20) == bytes(range(20, 70))
    assert file.pread(50, 80) == bytes(range(80, 100)), "fewer only at the end"
    assert file.pread(50, 100) == b""


@pytest.mark.parametrize("count", [1, 2, IOV_MAX, IOV_MAX + 1])
@pytest.mark.parametrize("is_short", [False, True])
def test_every_byte_is_written_however_little_the_kernel_takes_at_once(
    count: int, is_short: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffers = [b"%05d" % number for number in range(count)]
    file, one, many = file_of(tmp_path, b"before"), os.pwrite, os.pwritev
    if is_short:
        monkeypatch.setattr(os, "pwrite", lambda fd, data, at: one(fd, data[:3], at))
        monkeypatch.setattr(os, "pwritev", lambda fd, data, at: many(fd, data[:1], at) - (count == 1))
    file.pwritev(buffers, 6)
    file.pwrite(b"behind", 6 + 5 * count)
    assert file.pread(1 << 20, 0) == b"before" + b"".join(buffers) + b"behind"
    file.truncate(4)
    assert (file.pread(10, 0), file.size_bytes()) == (b"befo", 4)


@pytest.mark.parametrize(
    ("length", "position", "expected"),
    [
        (1, 0, True),
        (2 * PROBE_BYTES, 0, True),  # all of [0, 3 * PROBE_BYTES) is there
        (2 * PROBE_BYTES, PROBE_BYTES, True),
        (2 * PROBE_BYTES + 1, PROBE_BYTES, False),  # the last byte is not
        (1, 3 * PROBE_BYTES, False),
        (1, 4 * PROBE_BYTES - 1, False),
        (2 * PROBE_BYTES, 3 * PROBE_BYTES, False),  # only the second half is there
        (1, 4 * PROBE_BYTES, True),
        (PROBE_BYTES + 1, 4 * PROBE_BYTES, False),  # the file ends before
        (1, 5 * PROBE_BYTES, False),
    ],
)
def test_bytes_are_cached_if_each_stretch_that_the_kernel_reads_ahead_is(
    length: int, position: int, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path)

    def preadv(fd: int, buffers: Sequence[bytearray], at: int, flags: int) -> int:
        assert (fd, flags) == (file.fileno(), os.RWF_NOWAIT)
        if at // PROBE_BYTES == 3:
            raise BlockingIOError
        return sum(map(len, buffers)) if at < 5 * PROBE_BYTES else 0

    monkeypatch.setattr(os, "preadv", preadv)
    assert file.is_cached(length, position) is expected


def test_whole_pages_are_forgotten_also_those_of_which_a_part_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, told = file_of(tmp_path), []
    monkeypatch.setattr(os, "posix_fadvise", lambda *arguments: told.append(arguments))
    file.forget(5_000, 5_000)
    assert told == [(file.fileno(), 4_096, 8_192, os.POSIX_FADV_DONTNEED)]


@pytest.mark.parametrize(
    ("platform", "release", "file_system", "syncs_all", "has_mark"),
    [
        ("linux", "5.8.0-generic", EXT4, True, True),
        ("linux", "6.1", EXT4, True, True),
        ("linux", "5.7.19", EXT4, False, True),
        ("linux", "unknown", EXT4, False, True),
        ("linux", "6.1", NFS, False, False),
        ("darwin", "23.1.0", EXT4, False, False),
    ],
)
def test_what_only_some_kernels_and_file_systems_can_do_is_asked_of_those(
    *,
    platform: str,
    release: str,
    file_system: int,
    syncs_all: bool,
    has_mark: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, hints = file_of(tmp_path), [0]

    def hint(_fd: int, operation: int, value: bytes) -> bytes:
        if operation != F_GET_RW_HINT:
            hints[:] = struct.unpack("@Q", value)
        return struct.pack("@Q", *hints)

    monkeypatch.setattr(fcntl, "fcntl", hint)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    monkeypatch.setattr(disk_module, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(disk_module, "_file_system_of", lambda _fd: file_system)
    assert file.can_sync_all() is syncs_all
    assert not file.has_mount_mark()
    assert file.set_mount_mark() is has_mark
    assert (file.has_mount_mark(), hints != [0]) == (has_mark, has_mark)
    hints[:] = [5]  # set by a process that could
    assert file.has_mount_mark() is has_mark


def test_a_kernel_that_knows_no_mount_mark_sets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.EINVAL, "no such operation")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(disk_module, "_file_system_of", lambda _fd: EXT4)
    file = file_of(tmp_path)
    assert (file.set_mount_mark(), file.has_mount_mark()) == (False, False)


def test_the_kernel_says_which_file_system_holds_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk_module.PosixFile(os.open("/proc/self/stat", os.O_RDONLY))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="6.1"))
    for known, expected in ((PROC, True), (EXT4, False)):
        monkeypatch.setattr(disk_module, "SYNCED_FILE_SYSTEMS", {known})
        assert file.can_sync_all() is expected
    file.close()
    file.close()
    assert not file.can_sync_all()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync_all()


MTIME, BTIME = STATX_MTIME, STATX_BTIME


@pytest.mark.parametrize(
    ("told", "born", "modified", "expected"),
    [
        (MTIME | BTIME, (7, 3), (7, 3), True),
        (MTIME | BTIME | 1, (7, 3), (7, 3), True),
        (MTIME | BTIME, (7, 3), (7, 4), False),
        (MTIME, (0, 0), (0, 0), False),
        (BTIME, (7, 3), (7, 3), False),
        (None, (7, 3), (7, 3), False),
    ],
)
def test_a_file_is_untouched_if_both_its_times_are_told_and_equal(
    *,
    told: int | None,
    born: tuple[int, int],
    modified: tuple[int, int],
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = file_of(tmp_path)

    def statx(fd: int, path: bytes, flags: int, _wanted: int, found: bytearray) -> int:
        assert (fd, path, flags) == (file.fileno(), b"", AT_EMPTY_PATH)
        struct.pack_into("=I", found, 0, told or MTIME | BTIME)
        struct.pack_into("=qI", found, STATX_BTIME_AT, *born)
        struct.pack_into("=qI", found, STATX_MTIME_AT, *modified)
        return 0 if told else -1

    monkeypatch.setattr(disk_module, "_statx", statx)
    assert file.is_untouched() is expected
    monkeypatch.setattr(disk_module, "_statx", None)
    assert not file.is_untouched(), "the C library has no such call"


def test_files_are_nobodys_programs_and_folders_come_with_their_parents(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "b")
    for _ in range(2):
        DISK.mkdir(path)
    mask = os.umask(0)
    try:
        DISK.open(f"{path}/file", create=True)
        lock = DISK.lock(f"{path}/lock")
    finally:
        os.umask(mask)
    assert {entry.stat().st_mode & 0o777 for entry in Path(path).iterdir()} == {0o644}
    with pytest.raises(disk_module.DirectoryLocked):
        DISK.lock(f"{path}/lock")
    lock.close()
    for name in ("file", "lock"):
        DISK.unlink(f"{path}/{name}")
    DISK.rmdir(path)
    assert DISK.listdir(str(tmp_path / "a")) == []


@pytest.mark.parametrize("error", [BlockingIOError(), OSError(errno.ENOLCK, "no locks here")])
def test_a_lock_that_is_not_to_be_had_leaves_no_file_open(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[int] = []

    def refuse(fd: int, _operation: int) -> None:
        locked.append(fd)
        raise error

    monkeypatch.setattr(fcntl, "flock", refuse)
    expected = disk_module.DirectoryLocked if isinstance(error, BlockingIOError) else OSError
    with pytest.raises(expected):
        DISK.lock(str(tmp_path / "lock"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(locked[0])


def test_a_directory_is_synced_and_a_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(
        os, "fsync", lambda fd: synced.append(os.path.samestat(os.fstat(fd), tmp_path.stat()))
    )
    DISK.fsync_dir(str(tmp_path))
    assert synced == [True]
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        DISK.fsync_dir(str(tmp_path / "file"))


def test_the_room_on_a_disk_is_that_which_others_than_root_have(monkeypatch: pytest.MonkeyPatch) -> None:
    status = SimpleNamespace(f_blocks=100, f_bfree=30, f_bavail=20, f_frsize=4_096)
    monkeypatch.setattr(os, "statvfs", lambda _path: status)
    assert (DISK.free_bytes("/data"), DISK.total_bytes("/data")) == (81_920, 409_600)


def test_a_small_file_that_is_large_is_not_read() -> None:
    disk = MemoryDisk()
    disk.open("/file", create=True).pwrite(b"12345", 0)
    assert read_whole(disk, "/file", bytes_max=5) == b"12345"
    with pytest.raises(OSError, match="more than 4"):
        read_whole(disk, "/file", bytes_max=4)


@pytest.mark.parametrize(
    ("change", "synced"),
    [
        (lambda disk: mkdir_durably(disk, "/new"), ["/"]),
        (lambda disk: mkdir_durably(disk, "new"), ["."]),
        (lambda disk: mkdir_durably(disk, "/a/new"), ["/a"]),
        (lambda disk: mkdir_durably(disk, "/a/b"), []),
        (lambda disk: rename_durably(disk, "/a/b", "/c/b"), ["/c", "/a"]),
    ],
)
def test_a_name_is_synced_in_each_directory_that_it_comes_into_or_leaves(
    change: Callable[[Disk], None], synced: list[str]
) -> None:
    disk, told = MemoryDisk(), []
    for path in ("/a/b", "/c"):
        disk.mkdir(path)
    disk.on_operation = lambda operation, path, is_done: (
        told.append(path) if operation == "fsync_dir" and is_done else None
    )
    change(disk)
    assert told == synced
