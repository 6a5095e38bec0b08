"""Which leader epochs a start believes, of what the file says and of what the batches say: each case was
found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import pytest

from dataplane.core.leader_epochs import EpochStart, LeaderEpochs
from dataplane.storage.recovery import OpenedLog
from springtide.contract.session import ShutdownKind
from tests.kit.dataplane.storage import DIRECTORY, append, batch, new_log, open_log
from tests.kit.memory.disk import MemoryDisk

Pairs = tuple[tuple[int, int], ...]
"""Of batches: base offset and leader epoch. Of epochs: leader epoch and start offset."""

CLEAN, CRASH = ShutdownKind.CLEAN, ShutdownKind.MACHINE_CRASH


def log_with(batches: Pairs, stored: Pairs, *, records: int = 1) -> MemoryDisk:
    """A log of these batches whose epoch file says `stored`. A batch a segment: the first is flushed."""
    disk, log = new_log()
    for offset, leader_epoch in batches:
        append(log, batch(offset, leader_epoch=leader_epoch, records=records, value=b"v" * 550))
    log.close_cleanly()
    content = disk.content(f"{DIRECTORY}/leader-epochs")
    content[:] = LeaderEpochs(EpochStart(*each) for each in stored).encode()
    return disk


@pytest.mark.parametrize(
    ("batches", "stored", "epochs"),
    [
        # An entry in a gap before the batch, of the batch's epoch: that epoch began there.
        (((0, 1), (4, 3)), ((1, 0), (3, 3)), ((1, 0), (3, 3))),
        (((0, 1), (4, 3)), ((1, 0), (3, 4)), ((1, 0), (3, 4))),
        # Of an epoch before it: nothing was written in that one.
        (((0, 1), (4, 3)), ((1, 0), (2, 2)), ((1, 0), (2, 2), (3, 4))),
        (((0, 1), (4, 3)), ((1, 0), (2, 1)), ((1, 0), (2, 1), (3, 4))),
        # Of a later one, or an older one than the last batch's: left over from a truncation.
        (((0, 1), (4, 3)), ((1, 0), (5, 2)), ((1, 0), (3, 1))),
        (((0, 1), (1, 5), (4, 6)), ((1, 0), (2, 3)), ((1, 0), (5, 1), (6, 2))),
        # At the end of the log, and beyond it.
        (((0, 1), (1, 1)), ((1, 0), (2, 2)), ((1, 0), (2, 2))),
        (((0, 1), (1, 1)), ((1, 0), (2, 3)), ((1, 0),)),
        (((0, 1), (1, 5)), ((1, 0), (2, 2)), ((1, 0), (5, 1))),
    ],
)
def test_after_a_crash_the_file_is_believed_where_it_can_stand_with_the_batches(
    batches: Pairs, stored: Pairs, epochs: Pairs
) -> None:
    entry = open_log(log_with(batches, stored), last_shutdown=CRASH)
    assert isinstance(entry, OpenedLog)
    assert entry.log.epochs.entries == epochs


def test_no_epoch_begins_within_a_batch() -> None:
    """The entry is left over from a log that was cut, and got a longer batch from its next leader."""
    entry = open_log(log_with(((0, 1),), ((1, 0), (2, 2)), records=3), last_shutdown=CRASH)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.epochs.entries, entry.log.log_end_offset) == (((1, 0),), 3)


def test_an_entry_where_the_scan_begins_has_to_agree_with_the_batch() -> None:
    """Entries before it are of flushed batches, and believed."""
    disk = log_with(((0, 1), (1, 1)), ((1, 0), (5, 1)))
    entry = open_log(disk, last_shutdown=CRASH, recovery_point=1)
    assert isinstance(entry, OpenedLog)
    assert entry.log.epochs.entries == ((1, 0),)


def test_a_scan_goes_on_in_the_epoch_that_the_file_says_of_what_was_flushed() -> None:
    disk = log_with(((0, 2), (1, 2)), ((4, 0),))
    entry = open_log(disk, last_shutdown=CRASH, recovery_point=1)
    assert isinstance(entry, OpenedLog)
    assert (entry.log.epochs.entries, entry.log.log_end_offset) == (((4, 0),), 1), "an epoch does not go back"


def test_batches_before_the_first_entry_tell_their_epochs_themselves() -> None:
    """An old checkpoint of the log start has uncovered them. The entry's own batch follows a gap."""
    entry = open_log(log_with(((0, 1), (1, 1), (4, 2)), ((2, 4),)), last_shutdown=CLEAN)
    assert isinstance(entry, OpenedLog)
    assert entry.log.epochs.entries == ((1, 0), (2, 4))
