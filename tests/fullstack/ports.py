"""The other ports of a process in simulation: threads, the disk's fence, listeners to ask, ZooKeeper."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from controller.shell.clock import ControllerClock
from controller.shell.listeners import PROBE_TIMEOUT_MS, ListenerAnswer
from controller.shell.meta import (
    MetaSession,
    MetaUnavailable,
    Node,
    Operation,
    Outcome,
    SessionState,
    Unknown,
    Watch,
)
from dataplane.storage.disk import Buffer, Disk, File
from tests.fullstack.http import receive_some
from tests.fullstack.process_life import Life, Shield
from tests.fullstack.sockets import SimChannel, SimNet
from tests.fullstack.zookeeper import ZooKeeperHost
from tests.kit.memory.disk import MemoryDisk
from tests.kit.memory.zookeeper import MemoryMeta, keep_reading

T = TypeVar("T")

WORK_MS = (0.05, 3.0)
SLOW_STEP_MS = 100.0
"""How soon work under way notices that its disk is quicker or slower."""


def _fenced() -> OSError:
    return OSError(errno.EIO, "a handle of an earlier life")


class DiskHost:
    """A machine's disk, with what is wrong with it."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.memory = disk
        self.slowness = 1.0
        """Work takes so many times as long."""


class SimThreads:
    """Work in place, at some moment after it was asked for. Its caller hears of it a moment later."""

    def __init__(self, life: Life, host: DiskHost) -> None:
        self._life = life
        self._host = host
        self._random = life.world.random("threads", life.name, life.number)

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        if limiter is None:
            return await self._run(work)
        async with limiter:
            return await self._run(work)

    async def _run(self, work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        with Shield(self._life):
            await self._pause()
            self._life.world.trace(f"{self._life.name} work")
            result = work()
            await self._pause()
            return result
        raise _fenced()  # the process died meanwhile

    async def _pause(self) -> None:
        """As long as the disk is slow, and no longer: what is under way when it mends is done soon after."""
        left_ms = self._random.uniform(*WORK_MS)
        while left_ms * (slowness := self._host.slowness) > SLOW_STEP_MS:
            await self._life.clock.sleep_ms(SLOW_STEP_MS)
            left_ms -= SLOW_STEP_MS / slowness
        await self._life.clock.sleep_ms(left_ms * slowness)


class FencedFile:
    """An open file of one life."""

    def __init__(self, disk: FencedDisk, file: File, path: str) -> None:
        self._disk = disk
        self._file = file
        self._path = path

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a file in memory has no descriptor")

    def size_bytes(self) -> int:
        self._disk.check()
        return self._file.size_bytes()

    def pread(self, length: int, position: int) -> bytes:
        self._disk.check()
        return self._file.pread(length, position)

    def is_cached(self, length: int, position: int) -> bool:
        return self._file.is_cached(length, position)

    def forget(self, length: int, position: int) -> None:
        self._disk.check()
        self._file.forget(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._disk.change("pwrite", self._path)
        self._file.pwrite(data, position)

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        self._disk.change("pwritev", self._path)
        self._file.pwritev(buffers, position)

    def truncate(self, size_bytes: int) -> None:
        self._disk.change("truncate", self._path)
        self._file.truncate(size_bytes)

    def fsync(self) -> None:
        self._disk.change("fsync", self._path)
        self._file.fsync()

    def can_sync_all(self) -> bool:
        return self._file.can_sync_all()

    def sync_all(self) -> None:
        self._disk.change("sync_all", self._path)
        self._file.sync_all()

    def set_mount_mark(self) -> bool:
        self._disk.change("set_mount_mark", self._path)
        return self._file.set_mount_mark()

    def has_mount_mark(self) -> bool:
        self._disk.check()
        return self._file.has_mount_mark()

    def is_untouched(self) -> bool:
        self._disk.check()
        return self._file.is_untouched()

    def close(self) -> None:
        if not self._disk.life.is_dead:
            self._file.close()


class FencedDisk:
    """One life's view of a disk. `kill_at` ends the process in the middle of what it is writing: before its
    so many-th change, that change and all that would follow do not happen."""

    def __init__(self, disk: Disk, life: Life, kill: Callable[[], None]) -> None:
        self.life = life
        self.kill_at: int | None = None
        self._disk = disk
        self._kill = kill

    def check(self) -> None:
        if self.life.is_dead:
            raise _fenced()

    def change(self, operation: str, path: str) -> None:
        """About to change something."""
        self.check()
        if self.kill_at is not None:
            self.kill_at -= 1
            if self.kill_at < 0:
                self.kill_at = None
                self.life.world.note(f"{self.life.name} dies before a {operation} of {path}")
                self._kill()
                raise _fenced()
        self.life.world.trace(f"{self.life.name} {operation} {path}")

    def open(self, path: str, *, create: bool = False) -> File:
        if create and not self._disk.exists(path):
            self.change("create", path)
        self.check()
        return FencedFile(self, self._disk.open(path, create=create), path)

    def exists(self, path: str) -> bool:
        self.check()
        return self._disk.exists(path)

    def is_dir(self, path: str) -> bool:
        self.check()
        return self._disk.is_dir(path)

    def listdir(self, path: str) -> list[str]:
        self.check()
        return self._disk.listdir(path)

    def mkdir(self, path: str) -> None:
        self.change("mkdir", path)
        self._disk.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        self.change("rename", source)
        self._disk.rename(source, target)

    def unlink(self, path: str) -> None:
        self.change("unlink", path)
        self._disk.unlink(path)

    def rmdir(self, path: str) -> None:
        self.change("rmdir", path)
        self._disk.rmdir(path)

    def fsync_dir(self, path: str) -> None:
        self.change("fsync_dir", path)
        self._disk.fsync_dir(path)

    def free_bytes(self, path: str) -> int:
        self.check()
        return self._disk.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        self.check()
        return self._disk.total_bytes(path)

    def lock(self, path: str) -> File:
        self.change("lock", path)
        return FencedFile(self, self._disk.lock(path), path)


class SimListeners:
    """The controller's probes of other processes' listeners."""

    def __init__(self, life: Life, net: SimNet) -> None:
        self._life = life
        self._net = net

    async def ask(self, host: str, port: int) -> ListenerAnswer:
        with self._life.clock.timeout_ms(PROBE_TIMEOUT_MS):
            try:
                channel = await self._net.connect(host, port)
            except ConnectionRefusedError:
                return ListenerAnswer.REFUSED
            except OSError:
                return ListenerAnswer.SILENT
            channel.close()
            return ListenerAnswer.ACCEPTED
        return ListenerAnswer.SILENT

    async def hold(self, host: str, port: int, *, on_accepted: Callable[[], None]) -> bool:
        channel: SimChannel | None = None
        with self._life.clock.timeout_ms(PROBE_TIMEOUT_MS):
            try:
                channel = await self._net.connect(host, port)
            except OSError:
                return False
        if channel is None:
            return False
        on_accepted()
        try:
            while await receive_some(channel):
                pass
        except (OSError, trio.ClosedResourceError):
            pass
        finally:
            channel.close()
        return True


class _FencedWrite:
    def __init__(self, life: Life, outcome: Callable[[], object]) -> None:
        self._life = life
        self._outcome = outcome

    async def outcome(self) -> Outcome:
        outcome = await self._outcome()  # type: ignore[misc]
        await self._life.running()
        return outcome  # type: ignore[no-any-return]


class _FencedWatch:
    def __init__(self, life: Life, watch: Watch) -> None:
        self._life = life
        self._watch = watch
        self.node = watch.node

    async def changed(self) -> None:
        await self._watch.changed()
        await self._life.running()


class _NoOutcome:
    async def outcome(self) -> Outcome:
        await trio.lowlevel.checkpoint()
        return Unknown("the process is dead")


class FencedMeta:
    """One life's session with ZooKeeper. What a dead process still asks for reaches nobody."""

    def __init__(self, life: Life, meta: MemoryMeta, host: ZooKeeperHost) -> None:
        self._life = life
        self._meta = meta
        self._host = host

    @property
    def session(self) -> MetaSession:
        return self._meta.session

    @property
    def _is_unreachable(self) -> bool:
        """Dead, or an expired session that the process has not heard of: the server refuses it."""
        session = self._meta.session
        is_expired = (
            session.state is SessionState.CONNECTED and session.session_id not in self._host.server.sessions
        )
        return self._life.is_dead or is_expired

    def _check(self) -> None:
        if self._is_unreachable:
            raise MetaUnavailable("the process is dead, or its session")

    async def ensure_root(self) -> None:
        self._check()
        await self._meta.ensure_root()
        await self._life.running()

    async def session_changed(self, seen: MetaSession) -> MetaSession:
        await self._meta.session_changed(seen)
        await self._life.running()
        return self._meta.session

    def start_write(self, operations: Sequence[Operation]) -> _FencedWrite | _NoOutcome:
        if self._is_unreachable:
            return _NoOutcome()
        self._life.world.trace(f"{self._life.name} writes {[operation.path for operation in operations]}")
        self._host.lose_answer_by_chance(self._meta)
        return _FencedWrite(self._life, self._meta.start_write(operations).outcome)

    async def get(self, path: str) -> Node | None:
        self._check()
        node = await self._meta.get(path)
        await self._life.running()
        return node

    async def get_synced(self, path: str) -> Node | None:
        return await self.get(path)

    async def keep_reading(
        self, path: str, *, pause_ms: int, clock: ControllerClock, on_read: Callable[[int, Node | None], bool]
    ) -> None:
        await keep_reading(self, path, pause_ms=pause_ms, clock=clock, on_read=on_read)

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        self._check()
        nodes = await self._meta.get_many(paths)
        await self._life.running()
        return nodes

    async def children(self, path: str) -> list[str]:
        self._check()
        names = await self._meta.children(path)
        await self._life.running()
        return names

    async def watch(self, path: str) -> _FencedWatch:
        self._check()
        watch = await self._meta.watch(path)
        await self._life.running()
        return _FencedWatch(self._life, watch)
