"""A machine of transactions on a desk: its producers, its operators, and the shell that writes markers.

The shell is honest but slow: it holds the orders until a test lets it write them.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from coordinator.core.machine import ShardRecord
from coordinator.core.transaction_records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    StoredTransaction,
    TransactionPartition,
    TransactionState,
    encode_key,
    encode_transaction,
)
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.requests import (
    NO_CLIENT,
    AddToTransaction,
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsReply,
    EndTransaction,
    EndTransactionReply,
    InitProducer,
    InitProducerReply,
    ListTransactions,
    ListTransactionsReply,
    MarkersReply,
    MarkersWritten,
    NeedsProducerId,
    PartitionsReply,
    ProducerClient,
    Request,
    VerifyPartitions,
)
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.machine_desk import WALL_MS, MachineDesk

ID = "payments"
TIMEOUT_MS = 60_000
FIRST_ID = 4_000
CLIENT = ProducerClient("payments-app", "10.0.0.7")
P0, P1 = TransactionPartition("t", 0), TransactionPartition("t", 1)


@dataclass(slots=True)
class Producer:
    """What a producer goes by: the id and epoch that it was told last."""

    producer_id: int
    epoch: int

    @property
    def pair(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class TransactionDesk(MachineDesk[TransactionMachine]):
    """orders: by transactional id, those that the shell has taken. named: the producer ids that were asked
    for."""

    def __init__(self, options: TransactionOptions | None = None) -> None:
        self.options = options or TransactionOptions()
        self.orders: dict[str, MarkerOrder] = {}
        self.named = 0
        super().__init__(lambda: TransactionMachine(self.options))

    def open(self) -> None:
        self.orders.clear()
        super().open()
        self.take_orders()

    def take_orders(self) -> None:
        """As the shell does; an order is over when the machine's book has it no more."""
        left = self.machine.markers.left
        for name, order in list(self.orders.items()):
            if name not in left or left[name][:2] != (order.producer_id, order.producer_epoch):
                del self.orders[name]
        for order in self.machine.markers.take_new():
            assert order.transactional_id not in self.orders, "one end of an id at a time"
            self.orders[order.transactional_id] = order

    def commit(self, batches: int | None = None) -> None:
        super().commit(batches)
        self.take_orders()

    def stored(self, transactional_id: str = ID) -> StoredTransaction:
        stored = self.machine.registry.store.latest(transactional_id)
        assert stored is not None
        return stored

    @property
    def state(self) -> str:
        return self.stored().state.title

    # --- requests ----------------------------------------------------------------------------------

    def ask(self, request: Request) -> int:
        self.step(request)
        return request.token

    def fresh_id(self) -> int:
        self.named += 1
        return FIRST_ID + self.named - 1

    def start_init(
        self,
        transactional_id: str = ID,
        *,
        owner: tuple[int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
        timeout_ms: int = TIMEOUT_MS,
        client: ProducerClient = CLIENT,
    ) -> int:
        """Send InitProducerId, as a shell does: again with a fresh producer id if one is needed."""

        def make(fresh_id: int | None) -> InitProducer:
            return InitProducer(
                token=self.token(),
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                producer_id=owner[0],
                producer_epoch=owner[1],
                fresh_producer_id=fresh_id,
                client=client,
            )

        token = self.ask(make(None))
        if self.replies.get(token) == NeedsProducerId():
            token = self.ask(make(self.fresh_id()))
        return token

    def init(self, transactional_id: str = ID, **fields: object) -> InitProducerReply:
        return self.answer(self.start_init(transactional_id, **fields), InitProducerReply)  # type: ignore[arg-type]

    def producer(self, transactional_id: str = ID, **fields: object) -> Producer:
        """Return a producer that takes the id over, with a shell that writes markers meanwhile."""
        for _ in range(2):
            reply = self.init(transactional_id, **fields)
            if reply.error is ErrorCode.NONE:
                return Producer(reply.producer_id, reply.producer_epoch)
            assert reply.error is ErrorCode.CONCURRENT_TRANSACTIONS, reply
            self.write_markers(transactional_id)
        raise AssertionError("the id can't be taken over")

    def start_add(
        self,
        producer: Producer,
        *partitions: TransactionPartition,
        transactional_id: str = ID,
        version: int = 2,
        client: ProducerClient = NO_CLIENT,
    ) -> int:
        return self.ask(
            AddToTransaction(
                token=self.token(),
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                partitions=partitions or (P0,),
                version=version,
                client=client,
            )
        )

    def added(self, token: int) -> ErrorCode:
        """Return what all partitions of an AddToTransaction were told."""
        (error,) = {error for _, error in self.answer(token, PartitionsReply).errors}
        return error

    def add(self, producer: Producer, *partitions: TransactionPartition, **fields: object) -> ErrorCode:
        return self.added(self.start_add(producer, *partitions, **fields))  # type: ignore[arg-type]

    def verify(self, producer: Producer, *partitions: TransactionPartition) -> list[ErrorCode]:
        request = VerifyPartitions(
            token=self.token(),
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            partitions=partitions,
        )
        return [error for _, error in self.answer(self.ask(request), PartitionsReply).errors]

    def start_end(
        self,
        producer: Producer,
        *,
        is_commit: bool = True,
        version: int = 2,
        transactional_id: str = ID,
        client: ProducerClient = NO_CLIENT,
    ) -> int:
        """Send EndTxn, as a shell does; see start_init."""

        def make(fresh_id: int | None) -> EndTransaction:
            return EndTransaction(
                token=self.token(),
                transactional_id=transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                is_commit=is_commit,
                version=version,
                fresh_producer_id=fresh_id,
                client=client,
            )

        token = self.ask(make(None))
        if self.replies.get(token) == NeedsProducerId():
            token = self.ask(make(self.fresh_id()))
        return token

    def end(self, producer: Producer, **fields: object) -> EndTransactionReply:
        return self.answer(self.start_end(producer, **fields), EndTransactionReply)  # type: ignore[arg-type]

    def commit_transaction(self, producer: Producer, *partitions: TransactionPartition) -> None:
        """Let a whole transaction of version 2 be committed, markers and all; the producer goes on."""
        assert self.add(producer, *partitions) is ErrorCode.NONE
        reply = self.end(producer)
        assert reply.error is ErrorCode.NONE
        producer.producer_id, producer.epoch = reply.producer_id, reply.producer_epoch
        self.write_markers()

    # --- the shell ---------------------------------------------------------------------------------

    def start_markers(self, order: MarkerOrder, *partitions: TransactionPartition) -> int:
        return self.ask(
            MarkersWritten(
                token=self.token(),
                transactional_id=order.transactional_id,
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                partitions=partitions or order.partitions,
            )
        )

    def markers_left(self, order: MarkerOrder, *partitions: TransactionPartition) -> int:
        return self.answer(self.start_markers(order, *partitions), MarkersReply).left

    def write_markers(self, transactional_id: str = ID) -> MarkerOrder:
        """Write all markers of the order of an id."""
        order = self.orders.pop(transactional_id)
        self.start_markers(order)
        return order

    # --- tools -------------------------------------------------------------------------------------

    def describe(self, transactional_id: str = ID) -> DescribedTransaction:
        request = DescribeTransactions(token=self.token(), transactional_ids=(transactional_id,))
        (described,) = self.answer(self.ask(request), DescribeTransactionsReply).transactions
        return described

    def listed(self, **fields: object) -> ListTransactionsReply:
        request = ListTransactions(token=self.token(), **fields)  # type: ignore[arg-type]
        return self.answer(self.ask(request), ListTransactionsReply)


def at_epoch(
    epoch: int,
    state: TransactionState = TransactionState.EMPTY,
    *,
    options: TransactionOptions | None = None,
    **fields: object,
) -> TransactionDesk:
    """Return a desk whose log has the id under producer id 77 at an epoch."""
    desk = TransactionDesk(options)
    stored = StoredTransaction(
        producer_id=77,
        producer_epoch=epoch,
        timeout_ms=TIMEOUT_MS,
        state=state,
        updated_ms=WALL_MS,
        previous_producer_id=77,
    )
    desk.records.append(ShardRecord(encode_key(ID), encode_transaction(replace(stored, **fields))))
    desk.open()
    return desk
