"""Flushes and the recovery point: what is synced, when a flush is due, and how far it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from dataplane.core.compaction.rounds import Round, encode_round
from dataplane.core.leader_epochs import decode_leader_epochs
from dataplane.storage.durability import RecoveryPoint, flush_together
from dataplane.storage.epoch_file import EPOCHS_FILE
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.round_file import ROUNDS_FILE
from dataplane.storage.segment_list import Unflushed
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import DIRECTORY, NO_TAIL, append, batch, new_log, open_log, opened, read_all
from tests.kit.memory.disk import MemoryDisk

A_ROUND = Round(1, 0, tombstone_floor=0, producers_floor=0)


@pytest.mark.parametrize(
    ("cuts", "flushed", "offset"),
    [
        ([], 20, 20),
        ([], 4, 10),  # never back
        ([12], 20, 12),
        ([12], 11, 11),
        ([14, 12], 20, 12),
        ([12, 14], 20, 12),
    ],
)
def test_a_flush_counts_up_to_the_lowest_cut_since_it_began(
    cuts: list[int], flushed: int, offset: int
) -> None:
    point = RecoveryPoint(10, lambda: None)
    point.begin_flush()
    for cut in cuts:
        with point.cutting(cut):
            pass
    assert (point.end_flush(flushed), point.offset) == (offset, offset)


def test_a_recovery_point_is_never_lowered_to_more_than_it_is() -> None:
    point = RecoveryPoint(10, lambda: None)
    point.lower(12)
    assert point.offset == 10
    point.lower(8)
    assert point.offset == 8


def test_a_flush_is_due_by_messages_by_time_and_for_a_closed_segment() -> None:
    _, log = new_log(NO_TAIL)
    durability = log.durability

    def is_due(now_ms: int, **limits: int) -> bool:
        return durability.is_flush_due(
            replace(NO_TAIL, **limits), log_end_offset=log.log_end_offset, now_ms=now_ms
        )

    assert not is_due(99_000, flush_messages=0, flush_ms=0)  # nothing to flush
    append(log, batch(0), batch(1))
    assert not is_due(99_000)
    assert [is_due(0, flush_messages=count) for count in (1, 2, 3)] == [True, True, False]
    assert [is_due(1_000 + ms, flush_ms=50) for ms in (49, 50)] == [False, True]
    durability.flush(now_ms=7_000)
    append(log, batch(2))
    assert [is_due(0, flush_messages=count) for count in (1, 2)] == [True, False]
    assert [is_due(7_000 + ms, flush_ms=50) for ms in (49, 50)] == [False, True]
    durability.flush()
    append(log, batch(3))
    assert is_due(7_050, flush_ms=50)  # the time was not told
    log.roll(now_ms=0)
    assert is_due(0)
    durability.flush()
    assert not is_due(0)


CHANGES: dict[str, tuple[Callable[[PartitionLog], object], int]] = {
    "nothing": (lambda log: None, 0),
    "a batch": (lambda log: append(log, batch(2)), 0),
    "a new epoch": (lambda log: append(log, batch(2, leader_epoch=4)), 1),
    "an epoch that has begun": (lambda log: log.begin_leader_epoch(LeaderEpoch(4)), 1),
    "a round": (
        lambda log: append(log, encode_round(A_ROUND, leader_epoch=LeaderEpoch(0), base_offset=2)),
        1,
    ),
    "a roll": (lambda log: log.roll(now_ms=0), 1),
    "a snapshot": (lambda log: log.learn_producers(log.producers), 1),
}


@pytest.mark.parametrize("is_together", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_flush_syncs_the_names_if_there_are_new_ones_and_the_next_does_not(
    change: str, is_together: bool
) -> None:
    disk, log = new_log(NO_TAIL)
    append(log, batch(0), batch(1))
    log.durability.flush()
    operations: list[tuple[str, str]] = []
    disk.on_operation = lambda operation, path, is_done: (
        operations.append((operation, path)) if is_done else None
    )
    make, syncs = CHANGES[change]
    make(log)
    flushes: list[Callable[[], object]] = [log.durability.flush] * 2
    if is_together:
        flushes[0], syncs = (lambda: flush_together([log.durability], disk.sync_all)), 0
    operations.clear()
    flushes[0]()
    assert operations.count(("fsync_dir", DIRECTORY)) == syncs
    assert not log.durability._segments.has_unflushed
    operations.clear()
    flushes[1]()
    assert [path for operation, path in operations if not path.endswith(".log")] == []
    epochs = log.epochs.entries
    disk.crash_machine(Random(0))
    again = opened(
        open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=log.recovery_point)
    )
    assert (again.log_end_offset, again.epochs.entries) == (log.log_end_offset, epochs)


def test_a_flush_tells_whether_there_are_names_to_sync() -> None:
    _, log = new_log(NO_TAIL)
    segments = log.durability._segments
    assert segments.take_unflushed(include_active=True).is_directory_unsynced
    nothing = Unflushed(None, (), (), 0, is_directory_unsynced=False)
    assert segments.take_unflushed(include_active=False) == nothing
    for unflushed, are_there in (
        (nothing, False),
        (nothing._replace(is_directory_unsynced=True), True),
        (nothing._replace(closed=(segments.active,)), True),
        (nothing._replace(snapshots=("gone",)), True),
    ):
        assert segments.fsync(unflushed) is are_there


def test_a_flush_together_holds_the_locks_and_relies_on_what_it_was_given() -> None:
    _, log = new_log(NO_TAIL)
    append(log, batch(0))
    log.begin_leader_epoch(LeaderEpoch(4))
    found: list[tuple[bool, int]] = []
    flush_together([log.durability], lambda: found.append((log.durability.lock.locked(), log.recovery_point)))
    assert (found, log.recovery_point) == ([(True, 0)], 1)
    encoded = log._disk.content(f"{DIRECTORY}/{EPOCHS_FILE}")  # type: ignore[attr-defined]
    assert decode_leader_epochs(bytes(encoded)).entries[-1].leader_epoch == 4


def test_a_segment_that_is_closed_during_a_flush_waits_for_the_next() -> None:
    _, log = new_log(NO_TAIL)
    append(log, batch(0))
    log.roll(now_ms=0)
    append(log, batch(1))
    segments = log.durability._segments
    unflushed = segments.take_unflushed(include_active=False)
    assert unflushed.closed == log.segments[:1]
    log.roll(now_ms=0)
    segments.on_flushed(unflushed)
    assert segments.take_unflushed(include_active=False).closed == log.segments[1:2]
    segments.distrust()
    assert segments.take_unflushed(include_active=False).closed == log.segments[:2]


@pytest.mark.parametrize("seed", range(8))
def test_what_a_recovery_has_read_is_durable_after_it(seed: int) -> None:
    """The dead process had synced nothing of it: after a power cut its recovery point would be a lie."""
    disk = MemoryDisk()
    log = opened(open_log(disk, last_shutdown=ShutdownKind.FIRST_START, options=NO_TAIL))
    batches = [
        batch(offset, leader_epoch=offset // 6, producer_id=7 + offset, base_sequence=0, value=b"v" * 60)
        for offset in range(20)
    ]
    batches[10] = encode_round(A_ROUND, leader_epoch=LeaderEpoch(1), base_offset=10)
    batches.append(batch(20, leader_epoch=3))
    for each in batches:
        append(log, each)
    assert len(log.segments) > 3
    epochs, rounds = log.epochs.entries, log.rounds.pending
    disk.crash_process()
    if seed % 2:
        disk.unlink(f"{DIRECTORY}/{ROUNDS_FILE}")  # then the batches tell of the round
    log = opened(open_log(disk, last_shutdown=ShutdownKind.PROCESS_CRASH, options=NO_TAIL))
    assert log.recovery_point == 21
    assert log.durability._segments.snapshots.offsets[-1] == 21
    disk.crash_machine(Random(seed))
    again = opened(
        open_log(disk, last_shutdown=ShutdownKind.MACHINE_CRASH, recovery_point=21, options=NO_TAIL)
    )
    assert read_all(again) == b"".join(batches)
    assert (again.epochs.entries, again.rounds.pending) == (epochs, rounds)
    assert again.durability._segments.snapshots.offsets[-1] == 21
