"""What truncations dropped, by name: opened in a thread, waited for, and told of when it can't be read."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from dataplane.core.log_port import LogSlice
from dataplane.core.results import FetchResult
from dataplane.shell import divergent_logs as divergent_logs_module
from dataplane.shell.divergent_logs import DivergentLogs, Listed
from dataplane.storage.disk import File
from dataplane.storage.divergent import DivergentCopy, copy_divergent
from dataplane.storage.health import DirectoryHealth
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.threads import TrioThreads
from springtide.wire.errors import ErrorCode
from springtide.wire.framing import FileChunk
from springtide.wire.record_batch import iter_headers
from tests.kit.dataplane.node import PATH, TOPIC_ID, Node, state
from tests.kit.memory.disk import MemoryDisk

ASIDE = f"{PATH}/divergent"
NAME = f"orders-0.{TOPIC_ID}.{3:020d}-{8:020d}.0"
KEY = (f"name:{NAME}", 0)
NOTHING_YET = FetchResult(ErrorCode.NONE, records=LogSlice((), 0, 3))


class Bench:
    """Copies on a disk in memory, and what is told of them."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.spawned: list[Callable[[], Awaitable[None]]] = []
        self.opened: list[PartitionKey] = []
        self.logs = DivergentLogs(
            disk=disk,
            directory=ASIDE,
            threads=TrioThreads(),
            spawn=self.spawned.append,
            on_opened=self.opened.append,
        )

    async def work(self) -> None:
        while self.spawned:
            await self.spawned.pop(0)()

    def fetch(self, name: str = NAME, *, offset: int = 3, partition: int = 0, **limits: Any) -> FetchResult:
        limits = {"max_bytes": 1 << 20, "at_least_one": True, **limits}
        return self.logs.fetch(name, (f"name:{name}", partition), fetch_offset=offset, **limits)

    async def read(self, name: str = NAME, **asked: Any) -> FetchResult:
        """As a client that comes again once it is woken."""
        self.fetch(name, **asked)
        await self.work()
        return self.fetch(name, **asked)


def offsets_of(result: FetchResult) -> list[int]:
    assert result.records is not None
    found: list[int] = []
    for part in result.records.parts:
        assert isinstance(part, FileChunk)
        file: File = part.source  # type: ignore[assignment]
        data = file.pread(part.length, part.position)
        found += [header.base_offset for _, header in iter_headers(memoryview(data))]
    return found


def with_copies(test: Callable[[Bench], Awaitable[None]], *first_offsets: int) -> None:
    """Copies of a log of eight records, from these offsets on; one from offset 3 unless said."""

    async def main() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(), full=True)
        node.produce(8)
        for first_offset in first_offsets or (3,):
            written = copy_divergent(
                disk,
                ASIDE,
                node.log(),
                first_offset=first_offset,
                high_watermark=5,
                leader_epoch=LeaderEpoch(2),
                reason="the leader's log has other records here",
                now_ms=1,
                health=DirectoryHealth(PATH),
            )
            assert isinstance(written, DivergentCopy)
        await test(Bench(disk))

    trio.run(main)


def test_who_asks_first_waits_until_it_is_open_and_is_woken() -> None:
    async def test(bench: Bench) -> None:
        assert bench.fetch() == NOTHING_YET
        assert bench.fetch() == NOTHING_YET
        assert len(bench.spawned) == 1, "it is opened once"
        await bench.work()
        assert bench.opened == [KEY]
        result = bench.fetch()
        assert (result.error, result.high_watermark, result.log_start_offset) == (ErrorCode.NONE, 5, 3)
        assert offsets_of(result) == [3, 4, 5, 6, 7]
        assert offsets_of(bench.fetch(offset=6)) == [6, 7]
        assert bench.spawned == []

    with_copies(test)


def test_the_limits_of_a_fetch_hold() -> None:
    async def test(bench: Bench) -> None:
        whole = await bench.read()
        assert whole.records is not None
        batch = whole.records.size_bytes // 5
        assert offsets_of(bench.fetch(max_bytes=2 * batch, at_least_one=False)) == [3, 4]
        nothing = bench.fetch(max_bytes=batch - 1, at_least_one=False)
        assert (offsets_of(nothing), nothing.found_no_room) == ([], True)
        assert offsets_of(bench.fetch(max_bytes=batch - 1, at_least_one=True)) == [3]
        at_the_end = bench.fetch(offset=8, at_least_one=False)
        assert (offsets_of(at_the_end), at_the_end.found_no_room) == ([], False)

    with_copies(test)


def test_offsets_that_it_does_not_hold_are_out_of_range_and_another_partition_is_unknown() -> None:
    async def test(bench: Bench) -> None:
        await bench.read()
        for offset in (0, 2, 9, 2**40):
            assert bench.fetch(offset=offset) == FetchResult(
                ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=3
            )
        assert bench.fetch(partition=1).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_copies(test)


def test_what_is_not_there_is_unknown_and_no_other_name_reaches_the_disk() -> None:
    async def test(bench: Bench) -> None:
        absent = NAME.removesuffix("0") + "1"
        assert (await bench.read(absent)).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for name in ("orders", "", f"../orders-0.{TOPIC_ID}", "x" * 249):
            assert bench.fetch(name).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert bench.spawned == []

    with_copies(test)


def test_a_copy_that_is_damaged_is_an_error_and_is_tried_again_for_the_next_who_asks() -> None:
    async def test(bench: Bench) -> None:
        bench.disk.flip_bit(f"{ASIDE}/{NAME}.batches", 70)
        assert (await bench.read()).error is ErrorCode.CORRUPT_MESSAGE
        bench.disk.flip_bit(f"{ASIDE}/{NAME}.batches", 70)
        assert offsets_of(await bench.read()) == [3, 4, 5, 6, 7]
        bench.disk.fail_next("pread", OSError(errno.EIO, "EIO"), path_contains=".batches")
        assert bench.fetch().error is ErrorCode.KAFKA_STORAGE_ERROR
        assert offsets_of(await bench.read()) == [3, 4, 5, 6, 7]

    with_copies(test)


def test_few_are_open_at_a_time_and_fewer_are_being_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divergent_logs_module, "OPEN_MAX", 2)
    monkeypatch.setattr(divergent_logs_module, "OPENING_MAX", 2)
    names = [f"orders-0.{TOPIC_ID}.{first:020d}-{8:020d}.0" for first in (3, 4, 5)]

    async def test(bench: Bench) -> None:
        for number, name in enumerate(names):
            bench.fetch(name, offset=3 + number)
        assert len(bench.spawned) == 2
        await bench.work()
        assert offsets_of(bench.fetch(names[0], offset=3))[0] == 3
        assert offsets_of(await bench.read(names[2], offset=5))[0] == 5
        # The one that was read longest ago has made room.
        assert bench.fetch(names[1], offset=4) == FetchResult(ErrorCode.NONE, records=LogSlice((), 0, 4))
        assert offsets_of(bench.fetch(names[0], offset=3))[0] == 3

    with_copies(test, 3, 4, 5)


def test_what_there_is_is_listed_and_a_bad_description_hides_no_other() -> None:
    async def test(bench: Bench) -> None:
        told: list[Listed] = []
        bench.disk.open(f"{ASIDE}/{NAME.replace('3', '4', 1)}.json", create=True).pwrite(b"[", 0)
        bench.logs.list(told.append)
        await bench.work()
        (listed,) = told
        assert [(found.name, found.range.high_watermark) for found in listed.found] == [(NAME, 5)]
        assert listed.failure is None
        bench.disk.fail_next("listdir", OSError(errno.EIO, "EIO"))
        bench.logs.list(told.append)
        await bench.work()
        assert "EIO" in str(told[1].failure)

    with_copies(test)
