"""The epoch of a coordinator, as markers carry it."""

from __future__ import annotations

from springtide.contract.partition_state import WRITER_IDS, WriterId, coordinator_epoch


def test_the_epoch_of_an_opening_is_the_partition_epoch_that_named_its_writer() -> None:
    assert coordinator_epoch(WriterId(WRITER_IDS.start)) == 0
    assert coordinator_epoch(WriterId(WRITER_IDS.start + 2**31 - 1)) == 2**31 - 1
