"""What the data directory does in threads: copies before a cut, and files that must not go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
import trio.testing

from dataplane.core.effects import CopyDivergent
from dataplane.core.results import DeletionResult
from dataplane.shell.data_directory import _why_cut, encode_seen, read_seen
from springtide.contract.epochs import ControllerEpoch, LeaderEpoch
from springtide.levels import Level
from springtide.node.controller_client import Seen
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.node import PATH, TOPIC_ID, Node, state
from tests.kit.memory.disk import MemoryDisk

T = TypeVar("T")


class SlowThreads:
    """Threads whose works end when the test says so, each in its own time."""

    def __init__(self) -> None:
        self.may_begin: list[trio.Event] = []

    async def run(self, work: Callable[[], T], *, limiter: trio.CapacityLimiter | None = None) -> T:
        self.may_begin.append(trio.Event())
        await self.may_begin[-1].wait()
        return work()


BELOW_HIGH_WATERMARK = (
    "below the high watermark: an unclean election, or this replica starts again without a seat"
)


def aside(*, first_offset: int, cut_offset: int) -> CopyDivergent:
    return CopyDivergent(
        hold_id=1,
        first_offset=first_offset,
        next_offset=9,
        leader_epoch=LeaderEpoch(5),
        high_watermark=6,
        cut_offset=cut_offset,
    )


@pytest.mark.parametrize(
    ("first_offset", "cut_offset", "why"),
    [
        (7, 7, "the leader's log has other records here"),
        (6, 6, "the leader's log has other records here"),
        (5, 5, BELOW_HIGH_WATERMARK),
        (2, 0, BELOW_HIGH_WATERMARK),
        (6, 20, "the leader has deleted these offsets; whether it had the same records here is not known"),
    ],
)
def test_a_copys_description_says_why_it_was_made(first_offset: int, cut_offset: int, why: str) -> None:
    assert _why_cut(aside(first_offset=first_offset, cut_offset=cut_offset)) == why


def test_the_controller_epoch_on_disk_never_goes_back_whatever_thread_is_done_first() -> None:
    """I5 (one writer of metadata): else a controller that was replaced long ago would be believed after a
    restart."""

    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        threads = SlowThreads()
        node.directory._threads = threads
        async with trio.open_nursery() as nursery:

            def begin_spawned() -> None:
                for work in node.spawned:
                    nursery.start_soon(work)
                node.spawned.clear()

            for controller_epoch in (7, 8, 9):
                node.directory.start_saving_seen(Seen(ControllerEpoch(controller_epoch)))
                begin_spawned()
                await trio.testing.wait_all_tasks_blocked()
            while begun := [event for event in reversed(threads.may_begin) if not event.is_set()]:
                begun[0].set()
                await trio.testing.wait_all_tasks_blocked()
        assert read_seen(disk, PATH) == Seen(ControllerEpoch(9))

    trio.run(test)


def test_a_failing_disk_does_not_keep_later_controller_epochs_from_being_saved() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        disk.fail_next("fsync", OSError("EIO"), path_contains="controller-epoch")
        for controller_epoch in (7, 8):
            node.directory.start_saving_seen(Seen(ControllerEpoch(controller_epoch)))
            for work in node.spawned:
                await work()
            node.spawned.clear()
        assert read_seen(disk, PATH) == Seen(ControllerEpoch(8))

    trio.run(test)


@pytest.mark.parametrize("lineage", ["VGtHPo", ""])
@pytest.mark.parametrize("level", [0, 1])
def test_what_a_broker_was_told_is_kept_and_at_level_0_as_release_0_1_kept_it(
    level: int, lineage: str
) -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        seen = Seen(ControllerEpoch(8), lineage, 220, Level(level))
        node.directory.start_saving_seen(seen)
        for work in node.spawned:
            await work()
        assert read_seen(disk, PATH) == seen
        assert encode_seen(seen) == f"{'1: ' if level else ''}8 220 {lineage}".encode()

    trio.run(test)


def test_release_0_1_finds_no_epoch_in_what_is_kept_above_its_level() -> None:
    """Else it would witness a lineage that never was, and the controllers would stop."""
    epoch, *_ = encode_seen(Seen(ControllerEpoch(8), "VGtHPo", 220, Level(1))).split()
    with pytest.raises(ValueError, match="invalid literal"):
        int(epoch)


def test_i37_a_log_start_is_told_once_it_is_durable_and_again_if_a_log_was_cut_meanwhile() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(), full=True)
        node.produce(3)
        told: list[int] = []

        threads = SlowThreads()
        node.directory._threads = threads
        node.log().advance_log_start(2)
        node.directory.start_storing_log_start(node.hosted(), told.append)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.spawned.pop())
            await trio.testing.wait_all_tasks_blocked()
            node.log_dir.offsets.cuts += 1
            threads.may_begin[0].set()
            await trio.testing.wait_all_tasks_blocked()
            assert told == []
            threads.may_begin[1].set()
        assert told == [2]
        disk.crash_process()
        assert Node(disk).log_dir.logs[TOPIC_ID, 0].log_start_offset == 2

    trio.run(test)


def test_a_disk_that_fails_to_store_a_log_start_is_over() -> None:
    async def test() -> None:
        disk = MemoryDisk()
        node = Node(disk)
        await node.apply(state(), full=True)
        node.produce(3)
        disk.fail_next("fsync", OSError("EIO"), path_contains="log-start-offset-checkpoint")
        answers: list[DeletionResult] = []
        result, effects = node.hosted().replica.role.delete_records(
            2, waiter=answers.append, expires_ms=2**60, now_ms=node.clock.mono_ms()
        )
        assert result.is_waiting
        node.effects.run(node.hosted(), effects)
        await node.work()
        assert [answer.error for answer in answers] == [ErrorCode.KAFKA_STORAGE_ERROR]

    trio.run(test)
