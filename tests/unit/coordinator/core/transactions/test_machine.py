"""The machine as the runtime sees it: what it can't take in, what it starts, and its life on a shard."""

from __future__ import annotations

import pytest

from coordinator.core.machine import ShardRecord, Timer
from coordinator.core.shard_ports import RequestCame
from coordinator.core.transaction_records import (
    NewerTransactionRecord,
    TransactionPartition,
    UnreadableTransactionRecord,
    encode_key,
)
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.registry import IdExpiryTimer, TimeoutTimer
from coordinator.core.transactions.requests import (
    AddToTransaction,
    DescribeTransactions,
    DescribeTransactionsReply,
    EndTransaction,
    EndTransactionReply,
    InitProducer,
    InitProducerReply,
    MarkersReply,
    MarkersWritten,
    NeedsProducerId,
    PartitionsReply,
    Request,
)
from springtide.levels import NEWEST, RELEASES
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.fenced_log import FencedLog
from tests.kit.coordinator.shard_desk import ControllerOfOne, ShardDesk

P0 = TransactionPartition("t", 0)


def machine() -> TransactionMachine:
    return TransactionMachine(TransactionOptions())


def test_an_opened_shard_looks_for_timeouts_and_expired_ids() -> None:
    outcome = machine().opened(100, 0)
    assert outcome.timers == (Timer(TimeoutTimer(), 10_100), Timer(IdExpiryTimer(), 3_600_100))
    assert (outcome.records, outcome.replies) == ((), ())


def test_a_record_of_a_later_release_is_told_with_its_id_and_the_release() -> None:
    subject = machine()
    text = f"transactional id 'x': version 9 is of a later release; this one, {RELEASES[NEWEST]}, reads up to"
    with pytest.raises(NewerTransactionRecord, match=text):
        subject.apply(ShardRecord(encode_key("x"), b"\x00\x09"), 7)
    with pytest.raises(UnreadableTransactionRecord, match="transactional id 'x'"):
        subject.apply(ShardRecord(encode_key("x"), b"\x00\x01"), 7)
    key = b"\x00\x05anything"
    subject.apply(ShardRecord(key, None), 6)
    text = f"at offset 7: its key is of type 5, .*{RELEASES[NEWEST]}, does not know"
    with pytest.raises(NewerTransactionRecord, match=text):
        subject.apply(ShardRecord(key, b"\x00\x00"), 7)
    with pytest.raises(UnreadableTransactionRecord):
        subject.apply(ShardRecord(b"\x00", b"\x00\x00"), 7)


# --- on a shard -------------------------------------------------------------------------------------


class Shard:
    """A shard of transactions in one process."""

    def __init__(self, log: FencedLog, controller: ControllerOfOne) -> None:
        self.desk = ShardDesk(log, controller, new_machine=machine)
        self.desk.open()
        self.tokens = 0

    def ask(self, kind: type[Request], **fields: object) -> object:
        self.tokens += 1
        request = kind(token=self.tokens, transactional_id="x", **fields)  # type: ignore[call-arg,arg-type]
        self.desk.step(RequestCame(self.tokens, request))
        return self.desk.answers.get(self.tokens)

    def init(self, fresh_id: int | None) -> object:
        return self.ask(InitProducer, timeout_ms=60_000, fresh_producer_id=fresh_id)

    def add(self, epoch: int = 0) -> object:
        return self.ask(AddToTransaction, producer_id=7, producer_epoch=epoch, partitions=(P0,), version=2)

    def end(self, epoch: int = 0) -> object:
        return self.ask(EndTransaction, producer_id=7, producer_epoch=epoch, is_commit=True, version=2)

    @property
    def machine(self) -> TransactionMachine:
        subject = self.desk.runtime.machine
        assert isinstance(subject, TransactionMachine)
        return subject

    def state(self) -> str:
        self.tokens += 1
        request = DescribeTransactions(token=self.tokens, transactional_ids=("x",))
        self.desk.step(RequestCame(self.tokens, request))
        reply = self.desk.answers[self.tokens]
        assert isinstance(reply, DescribeTransactionsReply)
        return reply.transactions[0].state


ADDED = PartitionsReply(((P0, ErrorCode.NONE),))


def test_a_transaction_goes_on_under_the_next_coordinator() -> None:
    log, controller = FencedLog(), ControllerOfOne()
    first = Shard(log, controller)
    assert first.init(None) == NeedsProducerId()
    assert first.init(7) == InitProducerReply(ErrorCode.NONE, 7, 0)
    assert first.add() == ADDED
    assert first.end() == EndTransactionReply(ErrorCode.NONE, 7, 1)
    (order,) = first.machine.markers.take_new()

    second = Shard(log, controller)
    assert second.machine.markers.take_new() == [order]
    written = {"producer_id": 7, "producer_epoch": 1, "partitions": (P0,)}
    assert second.ask(MarkersWritten, **written) == MarkersReply(0)
    assert (second.state(), second.end()) == ("CompleteCommit", EndTransactionReply(ErrorCode.NONE, 7, 1))
    first.desk.is_current = False
    assert first.add(1) is None
    first.desk.wait()
    assert first.desk.answers[first.tokens] is ErrorCode.NOT_COORDINATOR  # and not to wait for ever


@pytest.mark.parametrize("is_current", [True, False])
def test_without_the_lease_a_refusal_is_told_once_the_shard_is_known_to_be_owned(is_current: bool) -> None:
    """A process that was cut off must not fence a producer that a later one has let in."""
    log, controller = FencedLog(), ControllerOfOne()
    first = Shard(log, controller)
    first.init(7)
    second = Shard(log, controller)
    assert second.init(None) == InitProducerReply(ErrorCode.NONE, 7, 1)
    first.desk.is_current = is_current
    fenced = PartitionsReply(((P0, ErrorCode.PRODUCER_FENCED),))
    assert first.add(1) == (fenced if is_current else ErrorCode.NOT_COORDINATOR)


def test_a_log_that_refuses_leaves_all_as_it_was() -> None:
    log = FencedLog()
    shard = Shard(log, ControllerOfOne())
    shard.init(7)
    shard.add()
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert shard.end() is ErrorCode.NOT_ENOUGH_REPLICAS
    assert shard.init(None) is None
    shard.desk.wait()
    assert shard.desk.answers[shard.tokens] is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not shard.machine.markers.has_new
    assert shard.state() == "Ongoing"
    log.error = ErrorCode.NONE
    assert shard.end() is None
    shard.desk.wait()
    assert shard.desk.answers[shard.tokens] == EndTransactionReply(ErrorCode.NONE, 7, 1)
    assert [order.partitions for order in shard.machine.markers.take_new()] == [(P0,)]


def test_an_end_whose_record_is_refused_is_written_when_the_log_takes_it() -> None:
    log = FencedLog()
    shard = Shard(log, ControllerOfOne())
    shard.init(7)
    shard.add()
    shard.end()
    log.error = ErrorCode.NOT_ENOUGH_REPLICAS
    written = {"producer_id": 7, "producer_epoch": 1, "partitions": (P0,)}
    assert shard.ask(MarkersWritten, **written) is ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        shard.desk.wait()
    log.error = ErrorCode.NONE
    for _ in range(3):
        shard.desk.wait()
    assert (shard.state(), shard.machine.markers.left) == ("CompleteCommit", {})
