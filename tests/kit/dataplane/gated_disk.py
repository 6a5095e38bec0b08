"""A real disk that a test makes slow or broken: operations wait at a gate, or fail as a full disk does."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from threading import Event

from dataplane.storage.disk import Buffer, File, PosixDisk, PosixFile

GATE_S_MAX = 100.0
REACHED_S_MAX = 20.0


class GatedDisk(PosixDisk):
    """`hold(operation, name)`: that operation on files whose path contains `name` waits until `release`; it
    must be one that a broker does in a thread. `fail_writes`: appends to logs fail with this errno.
    `free`: bytes that it says are free; None: the truth."""

    def __init__(self) -> None:
        self._held: tuple[str, str] = ("", "")
        self._gate = Event()
        self._gate.set()
        self.reached = Event()
        self.fail_writes: int | None = None
        self.free: int | None = None

    def hold(self, operation: str, name: str) -> None:
        self.reached.clear()
        self._gate.clear()
        self._held = (operation, name)

    def release(self) -> None:
        self._held = ("", "")
        self._gate.set()

    def at_gate(self, operation: str, path: str) -> None:
        if operation == self._held[0] and self._held[1] in path:
            self.reached.set()
            assert self._gate.wait(GATE_S_MAX), f"{operation} of {path} was held for too long"

    def free_bytes(self, path: str) -> int:
        return super().free_bytes(path) if self.free is None else self.free

    def open(self, path: str, *, create: bool = False) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return GatedFile(os.open(path, flags, 0o644), self, path)


class GatedFile(PosixFile):
    __slots__ = ("_disk", "_path")

    def __init__(self, fd: int, disk: GatedDisk, path: str) -> None:
        super().__init__(fd)
        self._disk = disk
        self._path = path

    def pread(self, length: int, position: int) -> bytes:
        self._disk.at_gate("pread", self._path)
        return super().pread(length, position)

    def can_sync_all(self) -> bool:
        return False  # each file is synced by itself, so that the gate can hold one

    def fsync(self) -> None:
        self._disk.at_gate("fsync", self._path)
        super().fsync()

    def pwrite(self, data: Buffer, position: int) -> None:
        self._check_write()
        super().pwrite(data, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check_write()
        super().pwritev(buffers, position)

    def _check_write(self) -> None:
        failing = self._disk.fail_writes
        if failing is not None and self._path.endswith(".log"):
            raise OSError(failing, errno.errorcode[failing], self._path)
