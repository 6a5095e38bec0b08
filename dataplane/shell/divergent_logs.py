"""Copies of what truncations dropped, served by name (docs/replication.md, 5.6, reading what was cut).

A copy is opened in a thread, which reads all of it once; a reader that asks meanwhile waits as at the end
of a log, and is woken. Open copies are few and kept for a while, because a reader comes back for the next
piece. If a copy could not be opened, the waiting readers get the error, and the next request tries again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from dataplane.core.log_port import LogSlice
from dataplane.core.results import FetchResult
from dataplane.storage.disk import Disk
from dataplane.storage.divergent import FoundCopy, find_copy, is_copy_name, list_copies, topic_of_copy
from dataplane.storage.divergent_log import DivergentLog, open_copy
from dataplane.storage.health import CorruptLog
from springtide.contract.partition_state import PartitionKey
from springtide.node.threads import Threads
from springtide.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

OPEN_MAX = 32
"""Copies kept open: a descriptor each, and 16 bytes of index for 64 KiB of file."""
OPENING_MAX = 4
"""Copies that threads read at a time. A request for another one gets nothing, and is repeated."""
FAILURES_MAX = 1_000

UNKNOWN = FetchResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(frozen=True, slots=True)
class Listed:
    """The copies found, by name. usable_bytes, total_bytes: left on the disk, and its
    size, or -1. failure: why none could be listed."""

    found: tuple[FoundCopy, ...] = ()
    usable_bytes: int = -1
    total_bytes: int = -1
    failure: str | None = None


class DivergentLogs:
    """`on_opened` marks a key's waiting fetches to be looked at again when the turn ends: with the task that
    `spawn` starts."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        threads: Threads,
        spawn: Callable[[Callable[[], Awaitable[None]]], None],
        on_opened: Callable[[PartitionKey], None],
    ) -> None:
        self.directory = directory
        self._disk = disk
        self._threads = threads
        self._spawn = spawn
        self._on_opened = on_opened
        self._open: OrderedDict[str, DivergentLog] = OrderedDict()  # least recently read first
        self._opening: dict[str, dict[PartitionKey, None]] = {}
        self._failed: dict[PartitionKey, ErrorCode] = {}

    def fetch(
        self, name: str, key: PartitionKey, *, fetch_offset: int, max_bytes: int, at_least_one: bool
    ) -> FetchResult:
        """Answer as a log answers a consumer's fetch. `key` is that of the fetch session. The high watermark
        is what the replica knew to be committed when it cut; records beyond it are given out all the same."""
        if not is_copy_name(name):
            return UNKNOWN
        failure = self._failed.pop(key, None)
        if failure is not None:
            return FetchResult(failure)
        log = self._open.get(name)
        if log is None:
            self._start_opening(name, key)
            return FetchResult(ErrorCode.NONE, records=LogSlice((), 0, fetch_offset))
        self._open.move_to_end(name)
        described = log.range
        if described.partition != key[1]:
            return UNKNOWN
        if not described.first_offset <= fetch_offset <= described.next_offset:
            return FetchResult(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=described.first_offset)
        try:
            records = log.read(fetch_offset, max_bytes=max_bytes, at_least_one=at_least_one)
        except (CorruptLog, OSError) as error:
            self._open.pop(name)
            _log.error("set_aside_log_unreadable path=%s cause=%s", log.path, error)
            return FetchResult(_error_code(error))
        return FetchResult(
            ErrorCode.NONE,
            described.high_watermark,
            described.first_offset,
            records,
            None,
            not at_least_one and not records.size_bytes and fetch_offset < described.next_offset,
        )

    @staticmethod
    def topic_of(name: str) -> tuple[str, str] | None:
        """Return the name and the id of the topic that a copy of this name is of; None if no copy has it. The
        name may be cut short."""
        return topic_of_copy(name)

    def _start_opening(self, name: str, key: PartitionKey) -> None:
        waiting = self._opening.get(name)
        if waiting is not None:
            waiting[key] = None
        elif len(self._opening) < OPENING_MAX:
            self._opening[name] = {key: None}
            self._spawn(partial(self._open_one, name))

    async def _open_one(self, name: str) -> None:
        opened: DivergentLog | ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            opened = await self._threads.run(partial(_open_blocking, self._disk, self.directory, name))
        finally:
            waiting = self._opening.pop(name)
            if isinstance(opened, DivergentLog):
                self._open[name] = opened
                if len(self._open) > OPEN_MAX:
                    self._open.popitem(last=False)
            else:
                for key in waiting:
                    self._failed[key] = opened
                while len(self._failed) > FAILURES_MAX:  # their fetches have ended, and no reader came back
                    del self._failed[next(iter(self._failed))]
        for key in waiting:
            self._on_opened(key)

    def list(self, done: Callable[[Listed], None]) -> None:
        """`done` is called on the loop. A description that can't be read is logged and left out."""

        async def work() -> None:
            listed = await self._threads.run(partial(_list_blocking, self._disk, self.directory))
            done(listed)

        self._spawn(work)


def _open_blocking(disk: Disk, directory: str, name: str) -> DivergentLog | ErrorCode:
    try:
        return open_copy(disk, find_copy(disk, directory, name))
    except FileNotFoundError:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except (CorruptLog, OSError) as error:
        _log.error("copy_unreadable name=%s cause=%s", name, error)
        return _error_code(error)


def _error_code(error: CorruptLog | OSError) -> ErrorCode:
    return ErrorCode.CORRUPT_MESSAGE if isinstance(error, CorruptLog) else ErrorCode.KAFKA_STORAGE_ERROR


def _list_blocking(disk: Disk, directory: str) -> Listed:
    try:
        found = list_copies(
            disk,
            directory,
            on_corrupt=lambda corrupt: _log.error("copy_description_corrupt cause=%s", corrupt),
        )
        data = directory.rpartition("/")[0]
        return Listed(tuple(found), disk.free_bytes(data), disk.total_bytes(data))
    except OSError as error:
        _log.error("copies_not_listed directory=%s cause=%s", directory, error)
        return Listed(failure=str(error))
