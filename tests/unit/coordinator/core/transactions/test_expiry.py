"""Transactional ids that expire."""

from __future__ import annotations

import pytest

from coordinator.core.transaction_records import TransactionState
from coordinator.core.transactions import expiry
from coordinator.core.transactions.options import TransactionOptions
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import FIRST_ID, ID, P0, Producer, TransactionDesk, at_epoch

DAY_MS = 24 * 60 * 60_000
HOUR_MS = 60 * 60_000
RARELY = TransactionOptions(timeout_check_ms=HOUR_MS)
"""Days pass quickly if nothing looks for open transactions."""


@pytest.mark.parametrize("is_used", [False, True])
def test_an_id_is_forgotten_seven_days_after_its_last_record(is_used: bool) -> None:
    desk = TransactionDesk(RARELY)
    producer = desk.producer()
    if is_used:
        desk.wait(DAY_MS)
        desk.commit_transaction(producer, P0)
    desk.wait(7 * DAY_MS - HOUR_MS)
    assert desk.describe().error is ErrorCode.NONE
    desk.wait(HOUR_MS)
    assert desk.describe().error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.records[-1].value is None
    assert desk.end(producer).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.producer() == Producer(FIRST_ID + 1, 0)


def test_what_is_known_of_a_client_goes_with_its_id_and_not_before() -> None:
    desk = TransactionDesk(RARELY)
    desk.producer()
    desk.wait(2 * HOUR_MS)
    clients = desk.machine.registry.clients
    assert list(clients) == [ID]
    desk.wait(8 * DAY_MS)
    assert not clients


def test_no_id_expires_while_clocks_disagree() -> None:
    desk = TransactionDesk(RARELY)
    desk.producer()
    desk.do_clocks_agree = False
    desk.wait(8 * DAY_MS)
    assert desk.state == "Empty"
    desk.do_clocks_agree = True
    desk.wait(HOUR_MS)
    assert desk.machine.registry.store.latest("payments") is None


@pytest.mark.parametrize(
    "state", [TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT]
)
def test_no_id_expires_with_an_open_transaction(state: TransactionState) -> None:
    desk = at_epoch(
        5, options=RARELY, state=state, partitions=frozenset({P0}), timeout_ms=2**31 - 1, started_ms=WALL_MS
    )
    desk.wait(8 * DAY_MS)
    assert desk.stored().state is state


def test_a_tombstone_that_was_refused_leaves_the_id() -> None:
    desk = TransactionDesk(RARELY)
    producer = desk.producer()
    desk.is_holding = True
    desk.wait(7 * DAY_MS)
    for error in (desk.add(producer), desk.end(producer).error, desk.init().error):
        assert error is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.refuse()
    desk.is_holding = False
    assert desk.add(producer) is ErrorCode.NONE


def test_a_producer_that_comes_while_its_id_expires_keeps_it() -> None:
    desk = TransactionDesk(TransactionOptions(expiration_ms=HOUR_MS))
    producer = desk.producer()
    desk.wait(HOUR_MS - 1)
    desk.is_holding = True
    desk.start_add(producer)
    desk.wait(1)
    assert len(desk.in_flight) == 1
    desk.commit()
    assert desk.state == "Ongoing"


def test_many_expire_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "EXPIRED_PER_STEP", 2)
    monkeypatch.setattr(expiry, "EXPIRY_KEYS_PER_STEP", 3)
    desk = TransactionDesk(TransactionOptions(expiration_ms=HOUR_MS))
    for name in "abcde":
        desk.producer(name)
    desk.is_holding = True
    desk.wait(HOUR_MS)
    assert [len(batch.records) for batch in desk.in_flight] == [2, 2, 1]
    desk.commit()
    assert len(desk.machine.registry.store.transactions) == 0
    desk.is_holding = False
    desk.wait(HOUR_MS)
    assert desk.machine.registry.clients == {}
