"""A disk that one simulated host has to itself: an ext4 image, and what can become of it.

The image is a sparse file on a tmpfs of its own; the tmpfs is the medium: what has reached it is durable. The
file system is a real one and forgets at a power cut exactly what was not synced: metadata is committed
every five minutes only, and renames do not flush (`noauto_da_alloc`), so that a missing fsync shows.

    cut power     FS_IOC_SHUTDOWN: nothing that is in memory reaches the medium any more
    fill          the file system is full: writes end with ENOSPC
    break_medium  the tmpfs is full: writes to new blocks fail later, when they are flushed
    is_sound      whether what failed left a file system that a machine would go on with
    throttle      a slow disk: at most so many bytes a second (cgroup v1, blkio)
    keep/put_back an older state of the whole disk, as of a restored backup
    format        an empty disk
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import subprocess
import time
from pathlib import Path

from tests.faults.hosts.sandbox import SandboxUnavailable, require_sandbox, run

MIB = 1024 * 1024
SIZE_BYTES = 192 * MIB
MEDIUM_SLACK_BYTES = 8 * MIB
MOUNT_OPTIONS = "loop,commit=300,noauto_da_alloc"

FS_IOC_SHUTDOWN = 0x8004587D
SHUTDOWN_WITHOUT_FLUSH = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written."""

UNMOUNT_SECONDS_MAX = 10.0
UNMOUNT_PAUSE_SECONDS = 0.02
CHECK_SECONDS_MAX = 60.0
BLOCK = b"\0" * MIB

BLKIO = Path("/sys/fs/cgroup/blkio")
CGROUP_PREFIX = "springtide-hosts-"
UNLIMITED = 0


def can_throttle() -> bool:
    """Whether the kernel limits a disk's speed by cgroup v1."""
    return BLKIO.is_dir() and os.access(BLKIO, os.W_OK)


class HostDisk:
    """One host's disk.

    Args:
        name: the host's.
        medium: folder for the tmpfs that holds the image.
        mount_point: where the host sees its file system.
        kept: folder outside for older states.
    """

    def __init__(self, *, name: str, medium: Path, mount_point: Path, kept: Path) -> None:
        self.name = name
        self.mount_point = mount_point
        self._medium = medium
        self._image = medium / "disk.img"
        self._ballast = medium / "ballast"
        self._kept = kept / f"{name}.img"
        self._cgroup = BLKIO / f"{CGROUP_PREFIX}{os.getpid()}-{name}"

    # --- life ---------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Makes the medium and an empty file system on it; not mounted yet."""
        require_sandbox()
        for folder in (self._medium, self.mount_point, self._kept.parent):
            folder.mkdir(parents=True, exist_ok=True)
        size = SIZE_BYTES + MEDIUM_SLACK_BYTES
        run("mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(self._medium))
        self.format()
        if can_throttle():
            self._cgroup.mkdir(exist_ok=True)

    def close(self) -> None:
        """Unmounts everything; what was on the disk is gone."""
        if self.is_mounted:
            self.unmount()
        if os.path.ismount(self._medium):
            _unmount(self._medium)
        with contextlib.suppress(OSError):
            self._cgroup.rmdir()

    @property
    def is_mounted(self) -> bool:
        return os.path.ismount(self.mount_point)

    @property
    def cgroup_procs(self) -> str:
        """Where a process of this host writes its pid to be slowed down with it; "-" where that is not to be
        had."""
        return str(self._cgroup / "cgroup.procs") if self._cgroup.is_dir() else "-"

    def mount(self) -> None:
        """As a machine does that starts: the journal is replayed."""
        run("mount", "-o", MOUNT_OPTIONS, str(self._image), str(self.mount_point))

    def unmount(self) -> None:
        """Flushes what power has not been cut from. The host's processes must have ended."""
        _unmount(self.mount_point)

    # --- faults -------------------------------------------------------------------------------------------

    def cut_power(self) -> None:
        """What is not on the medium now never gets there. Kill the processes, unmount, mount."""
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, FS_IOC_SHUTDOWN, struct.pack("I", SHUTDOWN_WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def fill(self) -> None:
        """Takes every free block of the file system; `free` gives them back."""
        _fill(self._filling)

    def free(self) -> None:
        self._filling.unlink(missing_ok=True)

    @property
    def _filling(self) -> Path:
        return self.mount_point / "filling"

    def break_medium(self) -> None:
        """From now on blocks that the image does not have yet can't be written: a write succeeds, and the
        fsync after it does not (EIO, or ENOSPC where the kernel passes the reason on). `mend_medium` ends
        it; the blocks that failed stay lost."""
        _fill(self._ballast)

    def mend_medium(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def unthrottle(self) -> None:
        self.throttle(UNLIMITED)

    def throttle(self, bytes_per_second: int) -> None:
        """Limits reads and writes of this host's processes."""
        number = self.mount_point.stat().st_dev
        limit = f"{os.major(number)}:{os.minor(number)} {bytes_per_second}"
        for direction in ("read", "write"):
            (self._cgroup / f"blkio.throttle.{direction}_bps_device").write_text(limit, encoding="ascii")

    def format(self) -> None:
        """An empty disk. Must not be mounted."""
        self._image.unlink(missing_ok=True)
        with self._image.open("wb") as image:
            image.truncate(SIZE_BYTES)
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self._image))

    def is_sound(self) -> bool:
        """Whether the file system has lost nothing of its own: no inode, no bitmap. Must not be mounted.

        A medium that broke may have dropped such blocks, too; what they described is then unreadable
        (EBADMSG), and no machine would go on with it. The journal is replayed.
        """
        command = ("e2fsck", "-f", "-p", str(self._image))
        done = subprocess.run(command, capture_output=True, timeout=CHECK_SECONDS_MAX, check=False)
        return done.returncode == 0

    def keep(self) -> None:
        """Copies the disk as it is, in place of an earlier copy. Must not be mounted."""
        run("cp", "--sparse=always", str(self._image), str(self._kept))

    def put_back(self) -> None:
        """The disk is again what it was at `keep`. Must not be mounted."""
        run("cp", "--sparse=always", str(self._kept), str(self._image))


def remove_stale_cgroups() -> None:
    """Cgroups are not namespaced: a run that was SIGKILLed leaves empty ones. Removes those whose run is
    gone; one that is in use can't be removed."""
    for folder in BLKIO.glob(f"{CGROUP_PREFIX}*"):
        pid = folder.name.removeprefix(CGROUP_PREFIX).partition("-")[0]
        if not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    file.write(BLOCK[:size])
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _unmount(folder: Path) -> None:
    """A process that was killed may hold its files for a moment after it was reaped."""
    deadline = time.monotonic() + UNMOUNT_SECONDS_MAX
    while True:
        try:
            run("umount", str(folder))
            return
        except SandboxUnavailable:
            if not os.path.ismount(folder):
                return
            if time.monotonic() > deadline:
                raise
            time.sleep(UNMOUNT_PAUSE_SECONDS)
