"""Transactions that last too long, and those that an operator ends."""

from __future__ import annotations

import pytest

from coordinator.core.transaction_records import TransactionState
from coordinator.core.transactions import timeouts
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import P0, P1, TransactionDesk, at_epoch

CHECK_MS = 10_000


def test_a_transaction_is_aborted_after_its_timeout_and_its_producer_is_fenced() -> None:
    desk = TransactionDesk()
    producer = desk.producer(timeout_ms=25_000)
    desk.wait(CHECK_MS)
    desk.add(producer, P0, P1)
    desk.wait(20_000)
    assert desk.state == "Ongoing"
    desk.wait(CHECK_MS)
    assert desk.state == "PrepareAbort"
    order = desk.write_markers()
    assert (order.is_commit, order.producer_epoch, order.partitions) == (False, 1, (P0, P1))
    assert desk.add(producer) is ErrorCode.PRODUCER_FENCED
    assert desk.producer().epoch == 2


def test_each_transaction_has_its_own_time() -> None:
    desk = TransactionDesk()
    producer = desk.producer(timeout_ms=15_000)
    for _ in range(4):
        desk.commit_transaction(producer, P0)
        desk.wait(CHECK_MS)
        desk.add(producer, P1)
        desk.wait(5_000)
        reply = desk.end(producer)
        producer.epoch = reply.producer_epoch
        desk.write_markers()
    assert desk.state == "CompleteCommit"
    desk.wait(60_000)
    assert desk.machine.registry.deadlines == {}


def test_more_partitions_give_no_more_time() -> None:
    desk = TransactionDesk()
    producer = desk.producer(timeout_ms=15_000)
    desk.add(producer, P0)
    desk.wait(9_000)
    desk.add(producer, P1)
    desk.wait(11_000)
    assert desk.state == "PrepareAbort"


def test_an_abort_that_was_refused_is_tried_again_and_burns_no_epoch() -> None:
    desk = TransactionDesk()
    desk.add(desk.producer(), P0)
    desk.is_holding = True
    for _ in range(3):
        desk.wait(60_000)
        desk.refuse()
    assert (desk.state, desk.stored().producer_epoch) == ("Ongoing", 0)
    desk.is_holding = False
    desk.wait(CHECK_MS)
    assert (desk.state, desk.stored().producer_epoch) == ("PrepareAbort", 1)


def test_an_end_that_is_under_way_is_not_overtaken() -> None:
    desk = TransactionDesk()
    producer = desk.producer()
    desk.add(producer, P0)
    desk.is_holding = True
    desk.start_end(producer)
    desk.wait(90_000)
    assert len(desk.in_flight) == 1
    desk.refuse()
    desk.is_holding = False
    desk.wait(CHECK_MS)
    assert desk.state == "PrepareAbort", "its time was forgotten with the end that was refused"


def test_the_rest_of_the_time_runs_in_the_next_process() -> None:
    desk = TransactionDesk()
    desk.add(desk.producer(), P0)
    desk.wait(45_000)
    desk.fail_over()
    desk.wait(CHECK_MS)
    assert desk.state == "Ongoing"
    desk.wait(CHECK_MS)
    assert desk.state == "PrepareAbort"


@pytest.mark.parametrize(("started_ms", "after_ms"), [(WALL_MS - 10**9, CHECK_MS), (WALL_MS + 10**9, 60_000)])
def test_a_clock_that_differs_costs_a_transaction_its_time_at_most_once(
    started_ms: int, after_ms: int
) -> None:
    desk = at_epoch(5, TransactionState.ONGOING, partitions=frozenset({P0}), started_ms=started_ms)
    desk.wait(after_ms - 1)
    assert desk.state == "Ongoing"
    desk.wait(1)
    assert desk.state == "PrepareAbort"


def test_many_are_aborted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "ENDS_PER_STEP", 2)
    desk = TransactionDesk()
    names = list("abcde")
    for name in names:
        desk.add(desk.producer(name), P0, transactional_id=name)
    desk.is_holding = True
    desk.wait(60_000)
    assert [len(batch.records) for batch in desk.in_flight] == [2, 2, 1]
    desk.commit()
    assert sorted(desk.orders) == names


def test_markers_of_those_decisions_that_were_written_are_due_if_the_rest_was_refused() -> None:
    """A step whose records are more than a batch holds is written in parts; its work is the last one's."""
    desk = TransactionDesk()
    for name in "ab":
        desk.add(desk.producer(name), P0, transactional_id=name)
    desk.is_holding = True
    desk.wait(60_000)
    (batch,) = desk.in_flight
    desk.records.append(batch.records.pop(0))
    desk.machine.committed(len(desk.records))
    batch.first_offset += 1
    desk.refuse()
    desk.take_orders()
    assert list(desk.orders) == ["a"]
    assert desk.stored("b").state is TransactionState.ONGOING
