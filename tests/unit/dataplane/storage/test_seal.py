"""A seal stands for what its replica vouched for, through every crash, and for nothing more."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from dataplane.core.leader_epochs import EpochStart, LeaderEpochs
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.recovery import OpenedLog
from dataplane.storage.seal import SEAL_FILE, Seal
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import DIRECTORY, append, batch, open_log
from tests.kit.memory.disk import MemoryDisk

CHAIN_EPOCH = 7
SEAL_PATH = f"{DIRECTORY}/{SEAL_FILE}"


def opened(disk: MemoryDisk, kind: ShutdownKind = ShutdownKind.CLEAN, **offsets: Any) -> PartitionLog:
    entry = open_log(disk, last_shutdown=kind, **offsets)
    assert isinstance(entry, OpenedLog)
    return entry.log


def sealed(disk: MemoryDisk, *, records: int = 3) -> PartitionLog:
    log = opened(disk, ShutdownKind.FIRST_START)
    for offset in range(records):
        append(log, batch(offset))
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    log.seal.store()
    return log


def test_a_log_is_vouched_for_up_to_its_end_until_it_is_sealed() -> None:
    log = opened(MemoryDisk(), ShutdownKind.FIRST_START)
    append(log, batch(0))
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (1, -1)
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (1, -1)  # not durable yet: it proves nothing
    append(log, batch(1))
    assert log.vouched_end_offset == 1
    log.seal.store()
    assert log.seal_chain_epoch == CHAIN_EPOCH


def test_what_is_written_behind_a_seal_counts_when_the_seal_is_gone_or_the_bytes_are_durable() -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    append(log, batch(3), batch(4))
    assert (log.vouched_end_offset, log.log_end_offset) == (3, 5)
    log.durability.flush()
    log.seal.vouch_for_flushed()
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (5, CHAIN_EPOCH)
    append(log, batch(5))
    assert log.vouched_end_offset == 5
    log.seal.remove()
    log.seal.open()
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (6, -1)
    assert not disk.exists(SEAL_PATH)


def test_a_log_that_was_cut_and_grew_again_before_its_seal_was_stored_stays_unsealed() -> None:
    disk = MemoryDisk()
    log = opened(disk, ShutdownKind.FIRST_START)
    append(log, batch(0), batch(1), batch(2))
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    log.truncate_to(1)
    append(log, batch(1, leader_epoch=1), batch(2, leader_epoch=1), batch(3, leader_epoch=1))
    log.seal.store()
    assert not disk.exists(SEAL_PATH), "it would promise records that are gone"
    assert (log.seal.current, log.vouched_end_offset, log.seal_chain_epoch) == (None, 4, -1)
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    log.seal.store()
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (4, CHAIN_EPOCH)


def test_a_sealed_log_that_is_cut_vouches_up_to_the_cut_and_not_into_a_batch_that_comes_later() -> None:
    log = sealed(MemoryDisk())
    log.truncate_to(1)
    append(log, batch(1, records=3, leader_epoch=1))
    assert (log.vouched_end_offset, log.log_end_offset) == (1, 4)
    log.seal.remove()
    log.seal.open()
    assert log.vouched_end_offset == 4


@pytest.mark.parametrize("seed", range(20))
def test_a_seal_is_found_after_a_power_cut_with_all_that_it_covers(seed: int) -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    append(log, batch(3), batch(4))
    disk.crash_machine(Random(seed))
    log = opened(disk, ShutdownKind.MACHINE_CRASH)
    assert log.log_end_offset >= 3
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (3, CHAIN_EPOCH)


@pytest.mark.parametrize("seed", range(20))
def test_a_seal_that_was_removed_does_not_come_back(seed: int) -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    append(log, batch(3))
    log.seal.remove()
    disk.crash_machine(Random(seed))
    log = opened(disk, ShutdownKind.MACHINE_CRASH)
    assert (log.vouched_end_offset, log.seal_chain_epoch) == (log.log_end_offset, -1)


def test_a_seal_that_the_log_no_longer_reaches_proves_nothing_and_goes() -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    log.truncate_to(1)
    log.durability.flush()
    disk.crash_process()
    assert opened(disk, ShutdownKind.PROCESS_CRASH).seal_chain_epoch == -1
    assert not disk.exists(SEAL_PATH)


def test_a_seal_of_an_epoch_that_was_replaced_proves_nothing() -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    log.truncate_to(2)
    append(log, batch(2, leader_epoch=4), batch(3, leader_epoch=4))
    log.durability.flush()
    disk.crash_process()
    assert opened(disk, ShutdownKind.PROCESS_CRASH).seal_chain_epoch == -1


def test_a_log_that_was_cut_while_its_seal_was_stored_gets_none() -> None:
    disk = MemoryDisk()
    log = opened(disk, ShutdownKind.FIRST_START)
    append(log, batch(0), batch(1))
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    log.truncate_to(1)
    log.seal.store()
    assert (log.seal_chain_epoch, disk.exists(SEAL_PATH)) == (-1, False)


def test_a_seal_that_can_not_be_read_is_none() -> None:
    disk = MemoryDisk()
    log = sealed(disk)
    log.close_cleanly()
    disk.content(SEAL_PATH)[:] = b"{"
    assert opened(disk, recovery_point=3).seal_chain_epoch == -1


@pytest.mark.parametrize(
    ("leader_epoch", "end_offset", "is_kept"),
    [
        (-1, 20, True),  # of a log without any epoch
        (-1, 19, True),
        (-1, 21, False),
        (5, 20, True),
        (5, 21, False),
        (2, 10, True),
        (2, 11, False),
        (3, 10, False),  # this history has no such epoch
        (6, 10, False),
    ],
)
def test_a_seal_is_kept_by_a_log_that_reaches_it_in_its_epoch(
    leader_epoch: int, end_offset: int, is_kept: bool
) -> None:
    seal = Seal(chain_epoch=BrokerEpoch(1), leader_epoch=LeaderEpoch(leader_epoch), end_offset=end_offset)
    epochs = LeaderEpochs([EpochStart(2, 0), EpochStart(5, 10)])
    assert seal.is_kept_by(epochs, log_end_offset=20) is is_kept


def test_a_recovery_point_below_the_seal_takes_nothing_back() -> None:
    disk = MemoryDisk()
    sealed(disk).close_cleanly()
    log = opened(disk, recovery_point=0)
    log.seal.vouch_for_flushed()
    assert log.vouched_end_offset == 3


def test_a_seal_outlives_the_end_of_a_leadership_that_wrote_nothing() -> None:
    """Its epoch goes from the history with a truncation that cuts no record (KAFKA-10706)."""
    disk = MemoryDisk()
    log = opened(disk, ShutdownKind.FIRST_START)
    append(log, batch(0), batch(1))
    log.begin_leader_epoch(LeaderEpoch(5))
    log.seal.begin(BrokerEpoch(CHAIN_EPOCH), end_offset=log.log_end_offset)
    log.seal.store()
    log.truncate_to(log.log_end_offset)
    log.durability.flush()
    disk.crash_machine(Random(1))
    again = opened(disk, ShutdownKind.MACHINE_CRASH)
    assert (again.log_end_offset, again.seal_chain_epoch) == (2, CHAIN_EPOCH)
