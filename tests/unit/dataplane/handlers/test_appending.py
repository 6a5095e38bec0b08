"""Batches on their way into a log: at once, parked, and what may have changed when they are released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dataplane.core.guards import Guard
from dataplane.core.results import AppendResult, TxnContext
from dataplane.core.verifications import ClaimedPlace, ClaimedTransaction, ReleasedBatches
from dataplane.handlers.appending import ProduceTerms, append, on_released
from dataplane.shell.metrics import BrokerCounters
from dataplane.shell.produces import Produces
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.node import Waiter
from tests.kit.dataplane.transactional import batch_of

GUARD = Guard(7, 0, 0)
TXN = TxnContext("t", True)
BATCH = batch_of([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=0)


class Broker:
    """A leader that answers with `results`, one by one. appended: (transaction, wall time) of each."""

    def __init__(self, *results: AppendResult) -> None:
        self.results = list(results)
        self.appended: list[tuple[TxnContext | None, int]] = []
        self.parked: list[tuple[Any, ...]] = []
        self.noted = 0
        self.replica = SimpleNamespace(role=SimpleNamespace(append=self._append), leading="this leadership")
        self.hosted: Any = SimpleNamespace(
            topic="orders", topic_id="O", partition=0, replica=self.replica, bytes_in=0, messages_in=0
        )
        self.connection = SimpleNamespace(closed=False)
        self.request: Any = SimpleNamespace(
            api_version=12, answer=SimpleNamespace(connection=self.connection), now_ms=1
        )
        self.context: Any = SimpleNamespace(
            verification=SimpleNamespace(park=lambda *what, **how: self.parked.append((*what, how))),
            produces=Produces(BrokerCounters()),
            table=SimpleNamespace(note_waiters=self._note_waiters),
            mono_ms=lambda: 50,
            wall_ms=lambda: 5_000,
        )

    def _append(self, *_what: Any, txn: TxnContext | None, wall_ms: int, **_how: Any) -> Any:
        self.appended.append((txn, wall_ms))
        return self.results.pop(0), ()

    def _note_waiters(self, _hosted: Any) -> None:
        self.noted += 1

    def produce(self, txn: TxnContext | None = TXN) -> Waiter:
        waiter = Waiter()
        terms = ProduceTerms(self.request, -1, 1_000, txn)
        header, records = decode_header(BATCH), memoryview(BATCH)
        append(self.context, terms, self.hosted, header, records, waiter, now_ms=1, wall_ms=2)
        return waiter

    def release(self, error: ErrorCode = ErrorCode.NONE) -> None:
        batches = tuple(one[3] for one in self.parked)
        self.parked = []
        on_released(self.context, ReleasedBatches(batches, GUARD, error, 5))


def written(offset: int, *, is_waiting: bool = False) -> AppendResult:
    return AppendResult(ErrorCode.NONE, offset, is_waiting=is_waiting)


ASKS = AppendResult(ErrorCode.NONE, must_verify=GUARD)


def test_a_batch_is_parked_with_what_its_coordinator_is_asked() -> None:
    broker = Broker(ASKS)
    waiter = broker.produce()
    transaction, place, guard, _, how = broker.parked[0]
    assert transaction == ClaimedTransaction("t", 7, 0, False)
    assert place == ClaimedPlace("orders", 0, "O")
    assert guard is GUARD
    assert how == {"size_bytes": len(BATCH), "expires_ms": 1_000, "now_ms": 1}
    assert (waiter.settled, broker.hosted.messages_in) == (None, 0)


def test_what_is_confirmed_is_appended_in_order_with_the_guard() -> None:
    broker = Broker(ASKS, ASKS, written(0), written(2, is_waiting=True))
    first, second = broker.produce(), broker.produce()
    broker.release()
    verified = TxnContext("t", True, GUARD)
    assert broker.appended[2:] == [(verified, 5_000)] * 2
    assert first.settled == written(0)
    assert second.settled is None and second.result.base_offset == 2
    assert (broker.hosted.messages_in, broker.hosted.bytes_in, broker.noted) == (4, 2 * len(BATCH), 1)


def test_a_batch_whose_guard_no_longer_holds_may_be_asked_about_again() -> None:
    broker = Broker(ASKS, ASKS)
    broker.produce()
    broker.release()
    assert len(broker.parked) == 1


@pytest.mark.parametrize(
    ("version", "told"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_what_is_refused_is_told_in_the_requests_version(version: int, told: ErrorCode) -> None:
    broker = Broker(ASKS)
    broker.request.api_version = version
    waiter = broker.produce()
    broker.release(ErrorCode.TRANSACTION_ABORTABLE)
    assert waiter.settled == AppendResult(told)
    assert len(broker.appended) == 1


def test_another_leadership_appends_nothing_though_it_is_of_this_broker() -> None:
    broker = Broker(ASKS)
    waiter = broker.produce()
    broker.replica.leading = "the next leadership"
    broker.release()
    assert waiter.settled == AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert len(broker.appended) == 1


def test_for_a_client_that_has_left_nothing_is_appended() -> None:
    broker = Broker(ASKS)
    waiter = broker.produce()
    broker.connection.closed = True
    broker.release()
    assert waiter.settled is not None and waiter.settled.error is not ErrorCode.NONE
    assert len(broker.appended) == 1


def test_a_batch_without_a_transaction_is_appended_at_once() -> None:
    broker = Broker(written(0))
    assert broker.produce(None).settled == written(0)
    assert broker.appended == [(None, 2)]
