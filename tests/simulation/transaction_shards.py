"""Transactions in the simulated cluster: coordinators that serve one shard of groups and one of transactions,
the topic that producers write to, and the producers.

Coordinators run the machines of the product. What their shell does is done here in the smallest form: markers
are sent until each is written, and a commit of offsets is verified with the transaction's coordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from controller.core.events import CreateTopic
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.groups.requests import EndPendingOffsets, MustVerify, PendingOffsetsEnded
from coordinator.core.machine import StepOutcome
from coordinator.core.transaction_records import (
    TransactionPartition,
    decode_transaction,
    encode_transaction,
)
from coordinator.core.transactions.machine import TransactionMachine
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.options import TransactionOptions
from coordinator.core.transactions.requests import (
    EndTransaction,
    InitProducer,
    InitProducerReply,
    MarkersWritten,
    PartitionsReply,
)
from dataplane.core.log_port import LogPort
from dataplane.core.replica import Replica
from dataplane.core.transactions import MarkerToWrite
from springtide.contract.partition_state import (
    NO_LEADER,
    PartitionKey,
    TopicState,
    coordinator_epoch,
)
from springtide.node.sharding import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from springtide.wire.errors import ErrorCode
from springtide.wire.markers import Outcome
from tests.simulation.controller_node import process_name
from tests.simulation.coordinator_node import CoordinatorNode
from tests.simulation.shard_seat import ShardSeat
from tests.simulation.shards import Shards
from tests.simulation.transaction_calls import PASSING, MarkerCall, TxnCommitCall, question_of
from tests.simulation.transaction_clients import PARTITIONS, PAYMENTS, TransactionClient
from tests.simulation.transaction_judge import TransactionJudge

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.cluster import Cluster

CLIENTS = 4
BATCH_BYTES_MAX = 20_000
FIRST_PRODUCER_ID = 50_000
#: Of the producers that begin, some have the epochs of one that has been at it for years.
OLD_EPOCHS = (0, 0, 32_760, 32_764)
CHECK_MS = 300
MARKER_PAUSE_MS = 80
_WRITTEN = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH)


class AgedMachine(TransactionMachine):
    """Its new producers begin with a high epoch at times."""

    __slots__ = ()

    def step(self, event: object, now_ms: int, wall_ms: int) -> StepOutcome:
        outcome = super().step(event, now_ms, wall_ms)
        if not isinstance(event, InitProducer) or not outcome.records:
            return outcome
        (record,) = outcome.records
        assert record.value is not None
        stored = decode_transaction(record.value)
        is_new = self.registry.store.latest(event.transactional_id) is None
        epoch = OLD_EPOCHS[stored.producer_id % len(OLD_EPOCHS)]
        if not is_new or not epoch:
            return outcome
        aged = record._replace(value=encode_transaction(replace(stored, producer_epoch=epoch)))
        (reply,) = outcome.replies
        told = InitProducerReply(ErrorCode.NONE, stored.producer_id, epoch)
        return replace(outcome, records=(aged,), replies=(replace(reply, message=told),))


class TransactionShards(Shards):
    """payments_id: of the topic that producers write to; "" until it is there."""

    def __init__(self, cluster: Cluster) -> None:
        self.payments_id = ""
        self._producer_ids = FIRST_PRODUCER_ID
        self._attempts = 0
        self._is_begun = False
        super().__init__(cluster)
        self.judge = TransactionJudge(self)
        self.clients: list[Any] = [TransactionClient(self, number) for number in range(CLIENTS)]

    # --- places -----------------------------------------------------------------------------------------

    @property
    def transactions_key(self) -> PartitionKey:
        return (self.topic_ids.get(TRANSACTIONS_TOPIC, ""), 0)

    def payments_key(self, number: int) -> PartitionKey:
        return (self.payments_id, number)

    @property
    def payments_keys(self) -> list[PartitionKey]:
        return [self.payments_key(number) for number in range(PARTITIONS)] if self.payments_id else []

    @property
    def wants_transactions(self) -> bool:
        return TRANSACTIONS_TOPIC not in self.topic_ids

    def keeps(self, key: PartitionKey) -> bool:
        return key == self.transactions_key or key[0] == self.payments_id

    def judges(self, key: PartitionKey) -> bool:
        return key[0] == self.payments_id or key[0] in self.topic_ids.values()

    def fresh_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids

    def owner_name(self, topic: str, random: Random) -> str:
        """Return the coordinator that a client believes to have the topic's first shard."""
        state = self.cluster.truth((self.topic_ids.get(topic, ""), 0))
        if state is None or state.shard is None or random.random() < 0.1:
            return random.choice(self.nodes).name
        return process_name(state.shard.owner)

    def leader_name(self, number: int) -> str:
        state = self.cluster.truth(self.payments_key(number))
        return "nobody" if state is None else f"broker-{state.leader}"

    def _machine(self, topic: str) -> Any:
        serving = [node.seats[topic] for node in self.nodes if node.seats[topic].is_serving]
        return serving[0].machine if len(serving) == 1 else None

    @property
    def group_machine(self) -> GroupMachine | None:
        machine: GroupMachine | None = self._machine(GROUPS_TOPIC)
        return machine

    @property
    def transaction_machine(self) -> TransactionMachine | None:
        machine: TransactionMachine | None = self._machine(TRANSACTIONS_TOPIC)
        return machine

    # --- coordinators -----------------------------------------------------------------------------------

    def seats_of(self, node: CoordinatorNode) -> dict[str, ShardSeat]:
        return {
            GROUPS_TOPIC: ShardSeat(
                node,
                partial(GroupMachine, GroupOptions()),
                batch_bytes_max=BATCH_BYTES_MAX,
                on_step=lambda seat: None,
            ),
            TRANSACTIONS_TOPIC: ShardSeat(
                node,
                partial(AgedMachine, TransactionOptions(timeout_check_ms=CHECK_MS)),
                batch_bytes_max=BATCH_BYTES_MAX,
                on_step=self._send_markers,
            ),
        }

    def take(self, node: CoordinatorNode, request: Any, answer: Callable[[Any], None]) -> None:
        if isinstance(request, TxnCommitCall):
            self._commit(node, request, answer)
        elif isinstance(request, EndPendingOffsets):
            node.seats[GROUPS_TOPIC].take(request, answer)
        else:
            if isinstance(request, InitProducer | EndTransaction):  # also of a copy: no id is fresh twice
                request = replace(request, fresh_producer_id=self.fresh_producer_id())
            node.seats[TRANSACTIONS_TOPIC].take(request, answer)

    def _commit(self, node: CoordinatorNode, call: TxnCommitCall, answer: Callable[[Any], None]) -> None:
        """As coordinator/handlers/txn_offset_commit.py does."""
        seat = node.seats[GROUPS_TOPIC]
        place = (TransactionPartition(GROUPS_TOPIC, 0),)

        def answered(reply: Any) -> None:
            if not isinstance(reply, MustVerify):
                answer(reply)
                return
            again = replace(call.request, guard=reply.guard)

            def verified(error: ErrorCode) -> None:
                if error is ErrorCode.NONE:
                    seat.take(again, answer)
                else:
                    answer(error)

            question = question_of(
                call.transactional_id,
                (call.request.producer_id, call.request.producer_epoch),
                place,
                version=call.version,
            )
            node.ask(self._owner_known(node), question, partial(_on_verified, verified))

        seat.take(call.request, answered)

    def _owner_known(self, node: CoordinatorNode) -> str:
        state = node.states.get(self.transactions_key)
        return "nobody" if state is None or state.shard is None else process_name(state.shard.owner)

    # --- markers ----------------------------------------------------------------------------------------

    def _send_markers(self, seat: ShardSeat) -> None:
        """Send what the last step has ordered, as coordinator/shell/marker_sender.py does."""
        runtime = seat.runtime
        if runtime is None or not seat.is_serving:
            return
        machine, writer = runtime.machine, runtime.writer
        assert isinstance(machine, TransactionMachine)
        if not machine.markers.has_new or writer is None:
            return
        epoch = coordinator_epoch(writer.writer)
        for order in machine.markers.take_new():
            for place in order.partitions:
                self._send_marker(seat, seat.begun, order, place, epoch)

    def _send_marker(
        self, seat: ShardSeat, begun: int, order: MarkerOrder, place: TransactionPartition, epoch: int
    ) -> None:
        if seat.begun != begun or not seat.is_serving:
            return
        node = seat.node
        self._attempts += 1
        topic_id = self.topic_ids[GROUPS_TOPIC] if place.topic == GROUPS_TOPIC else self.payments_id
        state = node.states.get((topic_id, place.partition))
        again = partial(self._send_marker, seat, begun, order, place, epoch)
        if state is None or state.leader == NO_LEADER:
            node.after(MARKER_PAUSE_MS, again)
            return
        outcome = Outcome.COMMIT if order.is_commit else Outcome.ABORT
        request: Any
        if place.topic == GROUPS_TOPIC:
            target = "nobody" if state.shard is None else process_name(state.shard.owner)
            request = EndPendingOffsets(
                token=0,
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                coordinator_epoch=epoch,
                outcome=outcome,
                transaction_version=order.version,
                attempt=self._attempts,
            )
        else:
            target = f"broker-{state.leader}"
            marker = MarkerToWrite(
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                coordinator_epoch=epoch,
                outcome=outcome,
                transaction_version=order.version,
                attempt=self._attempts,
                leader_epoch=state.leader_epoch,
            )
            request = MarkerCall((topic_id, place.partition), marker)

        def answered(reply: Any) -> None:
            error = reply.error if isinstance(reply, PendingOffsetsEnded) else reply
            if error in _WRITTEN:
                self._report(seat, begun, order, place)
            else:
                self.cluster.marks.reached("transaction.marker.sent.again")
                node.after(MARKER_PAUSE_MS, again)

        node.ask(target, request, answered)

    def _report(self, seat: ShardSeat, begun: int, order: MarkerOrder, place: TransactionPartition) -> None:
        if seat.begun != begun or not seat.is_serving:
            return

        def answered(reply: Any) -> None:
            if isinstance(reply, ErrorCode):
                seat.node.after(MARKER_PAUSE_MS, partial(self._report, seat, begun, order, place))

        seat.take(
            MarkersWritten(
                token=0,
                transactional_id=order.transactional_id,
                producer_id=order.producer_id,
                producer_epoch=order.producer_epoch,
                partitions=(place,),
            ),
            answered,
        )

    # --- life -------------------------------------------------------------------------------------------

    def is_there(self) -> bool:
        return super().is_there() and TRANSACTIONS_TOPIC in self.topic_ids

    def on_topic(self, topic: TopicState) -> None:
        super().on_topic(topic)
        if topic.topic == PAYMENTS and not self.payments_id:
            self.payments_id = topic.topic_id
            self._exist(self.payments_keys)

    def _look(self) -> None:
        """The operator makes the topic, and the producers begin."""
        super()._look()
        controller = self.cluster.active_controller()
        if not self.cluster.topic_created or self._is_begun:
            return
        if self.payments_id:
            self._is_begun = True
            for client in self.clients:
                client.go_on()
            for key in self.payments_keys:
                self.judge.read(key)
        elif controller is not None:
            controller.submit(
                CreateTopic(
                    wall_ms=self.cluster.events.now_ms,
                    actor="operator",
                    topic_id=self.cluster._new_topic_id(),
                    topic=PAYMENTS,
                    partitions=PARTITIONS,
                    replication_factor=self.cluster.options.replication_factor,
                    configs=self.cluster.options.topic_configs,
                ),
                lambda reply: None,  # what became of it, the next look shows
            )

    def start_again(self) -> None:
        for client in self.clients:
            client.stopped = False
            if self._is_begun:
                client.go_on()

    # --- judging ----------------------------------------------------------------------------------------

    def on_high_watermark(self, key: PartitionKey, log: LogPort, end_offset: int) -> None:
        if self.keeps(key):
            self.judge.on_committed(key)

    def on_replica_touched(self, broker: BrokerNode, key: PartitionKey, replica: Replica) -> None:
        if key[0] == self.payments_id:
            self.judge.on_replica_touched(broker, key, replica)

    def check(self, node: CoordinatorNode) -> None:
        pass

    def missing(self) -> tuple[str, str] | None:
        if not self._is_begun:
            return None
        waiting = [client.name for client in self.clients if not client.is_resting]
        if waiting:
            return "L1", f"{waiting[0]} waits for its coordinators"
        return self.judge.missing()

    def check_end(self) -> None:
        self.judge.check_end()


def _on_verified(verified: Callable[[ErrorCode], None], reply: Any) -> None:
    if isinstance(reply, PartitionsReply):
        verified(reply.errors[0][1])
    else:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if reply in PASSING else reply
        verified(error)
