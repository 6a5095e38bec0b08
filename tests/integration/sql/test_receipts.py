"""What a receipt reads, on both databases: which partitions, from which row on, and what is missing."""

from __future__ import annotations

import msgspec
import pytest

from controller.audit import history
from controller.audit.change import AuditedChange, partition_id
from controller.audit.receipts import PARTITIONS_PER_READ, read_receipt
from controller.database.sql import Database
from tests.kit.controller.audited import OPERATION, change, receipt, state
from tests.kit.controller.sql import run_in_place

pytestmark = pytest.mark.anyio


def of(
    number: int, at_ms: int, epoch: int, *isr: int, before: bool = True, by: bool = False
) -> AuditedChange:
    after = state(epoch, partition=number, isr=isr)
    return change(
        at_ms,
        state(epoch - 1, partition=number) if before else None,
        after,
        operation_id=OPERATION if by else None,
    )


async def written(store: Database, *changes: AuditedChange) -> None:
    await store.write(history.append_changes, changes=changes, recorded_at_ms=1)


async def test_each_partition_counts_from_the_row_that_held_when_it_began(database_url: str) -> None:
    store = Database.open(database_url, run_sync=run_in_place)
    await written(
        store,
        of(0, 10, 0, 1, before=False),  # below its minimum, long before
        of(0, 20, 1, 1, 2, 3),
        of(0, 150, 2, 1, 2, by=True),
        of(0, 160, 3, 1, 2, 3),
        of(0, 400, 4, 1),  # below its minimum, long after
        of(1, 150, 0, 1, before=False),  # of another operation
    )
    found = await receipt(store, begin_ms=100, end_ms=200)
    measured = found.measured
    assert (measured.partitions, measured.states, found.is_covered) == (1, 3, True)
    assert measured.worst is not None
    assert (measured.worst.slack, measured.worst.partition_ms) == (0, 10)
    assert (measured.below.partitions, measured.holes_total) == (0, 0)
    assert found.anchor is not None
    assert (found.anchor.seq, len(found.anchor.hash or "")) == (4, 64)
    assert (await receipt(store, begin_ms=5, end_ms=200)).measured.below.partitions == 1
    store.close()


async def test_a_hole_inside_or_right_after_the_time_is_one_and_elsewhere_not(database_url: str) -> None:
    store = Database.open(database_url, run_sync=run_in_place)
    await written(store, of(0, 10, 0, 1, 2, 3, before=False), of(0, 50, 5, 1, 2, 3, by=True))
    assert (await receipt(store, begin_ms=20, end_ms=60)).measured.holes_total == 1
    # The hole lies before the row that holds at the beginning.
    assert (await receipt(store, begin_ms=51, end_ms=60)).measured.holes_total == 0
    # What lay between the last row in the time and the first after it is missing.
    assert (await receipt(store, begin_ms=20, end_ms=30)).measured.holes_total == 1
    assert (await receipt(store, begin_ms=20, end_ms=30, is_over=False)).measured.holes_total == 0
    store.close()


async def test_more_partitions_than_one_statement_takes(database_url: str) -> None:
    store = Database.open(database_url, run_sync=run_in_place)
    count = PARTITIONS_PER_READ * 2 + 7
    await written(store, *(of(number, 10, 0, 1, 2, 3, before=False) for number in range(count)))
    await written(store, *(of(number, 50, 1, 1, 2, by=True) for number in range(count)))
    found = await receipt(store, begin_ms=20, end_ms=60)
    assert (found.measured.partitions, found.measured.states) == (count, 2 * count)
    assert found.measured.worst is not None
    assert (found.measured.worst.slack, found.measured.worst.partitions) == (0, count)
    assert [one.partition for one in found.measured.worst.first] == list(range(20))
    store.close()


async def test_names_that_were_asked_for_count_without_a_row(database_url: str) -> None:
    store = Database.open(database_url, run_sync=run_in_place)
    await written(store, of(0, 10, 0, 1, 2, 3, before=False))
    gone = msgspec.structs.replace(of(0, 30, 1, 1, 2, 3), after=None)
    await written(store, gone)
    found = await read_receipt(
        store,
        cluster="prod",
        operation_id=OPERATION,
        named={partition_id("t1", 0): "orders", partition_id("t9", 4): "lost"},
        begin_ms=20,
        end_ms=60,
        is_over=True,
    )
    assert (found.measured.partitions, found.measured.holes) == (1, (("lost", 4),))
    assert found.measured.worst is not None
    assert found.measured.worst.first[0].until_ms == 30
    store.close()
