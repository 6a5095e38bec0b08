"""Producers with transactions in the simulated cluster: half of them of version 1, half of version 2.

A client is a script, which yields what it asks and gets the answer, or None for one that never came. It sends
what was not answered again; it commits, aborts, hangs until its transaction is aborted, or forgets all and
begins as a new process would.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.core.groups.requests import CommitPendingOffsets, OffsetPlace, OffsetsReply, OffsetToCommit
from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.requests import (
    AddToTransaction,
    EndTransaction,
    EndTransactionReply,
    InitProducer,
    InitProducerReply,
    PartitionsReply,
)
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.simulation.clients import ACKS_ALL, REQUEST_TIMEOUT_MS, ProduceAnswer, ProduceCall, TxnOfClient
from tests.simulation.clock import WALL_START_MS
from tests.simulation.events import keyed_random
from tests.simulation.transaction_calls import BUMPS_AT_END, PASSING, TxnCommitCall

if TYPE_CHECKING:
    from tests.simulation.transaction_judge import SimulatedTransaction
    from tests.simulation.transaction_shards import TransactionShards

PAYMENTS = "payments"
PARTITIONS = 2
TIMEOUT_MS = 2_500
PAUSE_MS = 60


class Asked(NamedTuple):
    """target: names the process to ask, each time anew. is_ordered: the request is never delivered twice."""

    target: Callable[[], str]
    request: Any
    is_ordered: bool


Script = Generator[Asked | float, Any, Any]


class GivesUp(Exception):
    """An error after which this transaction can only be aborted, or its producer is not the owner."""


class TransactionClient:
    def __init__(self, shards: TransactionShards, number: int) -> None:
        self.shards = shards
        self.name = f"transactions-{number}"
        self.version = 1 + number % 2
        self.random: Random = keyed_random(shards.cluster.seed, self.name)
        self.number = 0
        self.is_open = False
        self.stopped = False
        self.is_resting = True
        self._owner = (-1, -1)
        self._sequences: dict[int, int] = {}
        self._calls = 0
        self._script: Script | None = None

    @property
    def group_id(self) -> str:
        return f"group-of-{self.name}"

    def go_on(self) -> None:
        if self.is_resting and self.shards.payments_id:
            self.is_resting = False
            self._script = self._live()
            self._step(None)

    # --- the driver -------------------------------------------------------------------------------------

    def _step(self, answer: Any) -> None:
        assert self._script is not None
        try:
            asked = self._script.send(answer)
        except StopIteration:
            self.is_resting = True
            return
        cluster = self.shards.cluster
        if not isinstance(asked, Asked):
            cluster.events.after(asked, lambda: self._step(None))
            return
        self._calls += 1
        call = self._calls
        cluster.network.call(
            self.name,
            asked.target(),
            asked.request,
            lambda reply: self._on_answer(call, reply),
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lambda: self._on_answer(call, None),
            connection=(self.name, call) if asked.is_ordered else None,
        )

    def _on_answer(self, call: int, reply: Any) -> None:
        if call == self._calls:
            self._calls += 1
            self._step(reply)

    def _ask(self, target: Callable[[], str], request: Any, error_of: Callable[[Any], Any]) -> Script:
        """Ask until the answer is one that does not pass; return it."""
        while True:
            reply = yield Asked(target, request, self.version < BUMPS_AT_END)
            error = reply if reply is None or isinstance(reply, ErrorCode) else error_of(reply)
            if error not in PASSING:
                return reply
            yield PAUSE_MS * (0.3 + self.random.random())

    def _coordinator(self, topic: str) -> Callable[[], str]:
        return lambda: self.shards.owner_name(topic, self.random)

    # --- the script -------------------------------------------------------------------------------------

    def _live(self) -> Script:
        while not self.stopped:
            yield from self._own()
            try:
                while not self.stopped and (yield from self._transaction()):
                    yield 3 * self.shards.cluster.options.pace_ms * (0.2 + self.random.random())
            except GivesUp:
                self.shards.cluster.marks.reached("transaction.given.up")
            self.is_open = False

    def _own(self) -> Script:
        """Take the transactional id over, or ask for another epoch as its owner."""
        told = self._owner if self.random.random() < 0.3 else (-1, -1)
        while True:
            request = InitProducer(
                token=0,
                transactional_id=self.name,
                timeout_ms=TIMEOUT_MS,
                producer_id=told[0],
                producer_epoch=told[1],
                fresh_producer_id=self.shards.fresh_producer_id(),
            )
            reply = yield from self._ask(
                self._coordinator(TRANSACTIONS_TOPIC), request, lambda reply: reply.error
            )
            if isinstance(reply, InitProducerReply) and reply.error is ErrorCode.NONE:
                self._owner = (reply.producer_id, reply.producer_epoch)
                self._sequences.clear()
                return
            told = (-1, -1)

    def _transaction(self) -> Script:
        """One transaction; return whether the producer goes on with its id and epoch."""
        random, judge = self.random, self.shards.judge
        self.number += 1
        self.is_open = True
        transaction = judge.begin(self, self.number, self._owner)
        partitions = random.choice(((0,), (1,), (0, 1), (0, 1)))
        has_offsets = random.random() < 0.6
        try:
            if self.version < BUMPS_AT_END:
                yield from self._add(tuple(TransactionPartition(PAYMENTS, n) for n in partitions))
            for number in partitions:
                for _ in range(random.choice((1, 1, 2))):
                    yield from self._produce(transaction, number)
            if has_offsets:
                yield from self._commit_offsets(transaction)
            if random.random() < 0.1:  # about when its transaction is aborted
                yield TIMEOUT_MS * (0.8 + 0.6 * random.random())
            if random.random() < 0.12:
                judge.leave(transaction)
                return False
        except GivesUp:
            yield from self._end(transaction, is_commit=False)
            return False
        is_owner = yield from self._end(transaction, is_commit=random.random() < 0.75)
        self.is_open = False
        return is_owner

    def _add(self, partitions: tuple[TransactionPartition, ...]) -> Script:
        request = AddToTransaction(
            token=0,
            transactional_id=self.name,
            producer_id=self._owner[0],
            producer_epoch=self._owner[1],
            partitions=partitions,
            version=self.version,
        )
        reply = yield from self._ask(
            self._coordinator(TRANSACTIONS_TOPIC), request, lambda reply: reply.errors[0][1]
        )
        if not isinstance(reply, PartitionsReply) or reply.errors[0][1] is not ErrorCode.NONE:
            raise GivesUp

    def _produce(self, transaction: SimulatedTransaction, number: int) -> Script:
        sequence = self._sequences.get(number, 0)
        value = f"{self.name}/{self.number}/{number}/{sequence}"
        at_ms = WALL_START_MS + self.shards.cluster.events.now_ms
        records = [NewRecord(timestamp=at_ms, key=None, value=value.encode())]
        if self.shards.cluster.options.compacted:  # one key of all producers' is written, another one deleted
            key, other = self.random.sample((b"a", b"b", b"c"), 2)
            records = [records[0]._replace(key=key), records[0]._replace(key=other, value=None)]
        batch = encode_batch(
            records,
            producer_id=self._owner[0],
            producer_epoch=self._owner[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        txn = TxnOfClient(self.name, self.version >= BUMPS_AT_END)
        transaction.sent.append(value)
        reply: ProduceAnswer = yield from self._ask(
            lambda: self.shards.leader_name(number),
            ProduceCall(self.shards.payments_key(number), batch, ACKS_ALL, txn),
            lambda reply: reply.error,
        )
        if reply.error is not ErrorCode.NONE:
            raise GivesUp
        self._sequences[number] = sequence + len(records)
        transaction.acked.append(value)

    def _commit_offsets(self, transaction: SimulatedTransaction) -> Script:
        if self.version < BUMPS_AT_END:
            yield from self._add((TransactionPartition(GROUPS_TOPIC, 0),))
        request = CommitPendingOffsets(
            token=0,
            group_id=self.group_id,
            producer_id=self._owner[0],
            producer_epoch=self._owner[1],
            offsets=tuple(OffsetToCommit(OffsetPlace("input", n), self.number) for n in range(2)),
        )
        transaction.has_sent_offsets = True
        reply = yield from self._ask(
            self._coordinator(GROUPS_TOPIC),
            TxnCommitCall(self.name, self.version, request),
            lambda reply: reply.error,
        )
        if not isinstance(reply, OffsetsReply) or reply.error is not ErrorCode.NONE:
            raise GivesUp
        transaction.has_offsets = True

    def _end(self, transaction: SimulatedTransaction, *, is_commit: bool) -> Script:
        """End the transaction; return whether the producer goes on as the owner."""
        transaction.asked_commit = is_commit
        request = EndTransaction(
            token=0,
            transactional_id=self.name,
            producer_id=self._owner[0],
            producer_epoch=self._owner[1],
            is_commit=is_commit,
            version=self.version,
            fresh_producer_id=self.shards.fresh_producer_id(),
        )
        reply = yield from self._ask(
            self._coordinator(TRANSACTIONS_TOPIC), request, lambda reply: reply.error
        )
        if not isinstance(reply, EndTransactionReply) or reply.error is not ErrorCode.NONE:
            self.shards.judge.leave(transaction)
            return False
        self.shards.judge.ended(transaction, is_commit=is_commit)
        if self.version >= BUMPS_AT_END:
            if reply.producer_id != self._owner[0]:
                self.shards.cluster.marks.reached("transaction.new.producer.id")
            self._owner = (reply.producer_id, reply.producer_epoch)
            self._sequences.clear()
        return True
