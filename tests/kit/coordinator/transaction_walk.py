"""A random walk of producers, through refusals, failovers, timeouts, take-overs and copies: what must
hold at every step.

I31 (replay equals the live state, of any prefix of the log and any legal compaction of it), I32 (all or
nothing: what a transaction wrote is committed whole or not at all, as its producer was told; under version 2
each producer id and epoch has one outcome), and at the end I34 (no transaction stays open): each marker that
is due is taken by its partition, and each partition has one for all that was written.

The partitions follow the rules of leaders: producer epochs never fall, coordinator epochs never fall, a
version 2 marker needs a higher epoch, the first batch needs the coordinator's word, which a marker makes
stale. Late copies are of version 2 alone: what Kafka's version 1 loses by them it loses here too
(KAFKA-17754).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coordinator.core.machine import ShardRecord
from coordinator.core.transaction_records import (
    StoredTransaction,
    TransactionPartition,
    TransactionState,
    decode_key,
    decode_transaction,
    encode_key,
    encode_transaction,
)
from coordinator.core.transactions.markers import MarkerOrder
from coordinator.core.transactions.registry import HeldTimer
from coordinator.core.transactions.requests import (
    EndTransaction,
    EndTransactionReply,
    InitProducerReply,
    PartitionsReply,
)
from coordinator.core.transactions.state import EPOCH_MAX, PREDECESSORS, is_idle
from coordinator.core.transactions.store import TransactionStore
from springtide.wire.errors import ErrorCode
from tests.kit.coordinator.group_walk import compacted
from tests.kit.coordinator.machine_desk import WALL_MS
from tests.kit.coordinator.transaction_desk import TIMEOUT_MS, Producer, TransactionDesk

IDS = ("a", "b")
PLACES = [TransactionPartition("t", number) for number in range(3)]
NONE = ErrorCode.NONE
ACTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12)
"""Producers by number, and what each does next."""

State = tuple[dict[str, StoredTransaction], int]


def replayed(records: Iterable[ShardRecord]) -> State:
    store = TransactionStore()
    for offset, record in enumerate(records):
        store.apply(record, offset)
    return dict(store.transactions.latest_items()), store.partitions


@dataclass(slots=True)
class Transaction:
    """What a producer did and was told. records: outcomes of what it wrote, None while it is open."""

    number: int
    asked: bool | None = None
    told: bool | None = None
    records: list[bool | None] = field(default_factory=list)


@dataclass(slots=True)
class ProducerEntry:
    """What a partition knows of a producer id. open: the transaction and the place of each record in it."""

    epoch: int = -1
    coordinator_epoch: int = -1
    markers: int = 0
    open: list[tuple[Transaction, int]] = field(default_factory=list)


class Partition:
    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}

    def entry(self, producer_id: int) -> ProducerEntry:
        return self.producers.setdefault(producer_id, ProducerEntry())

    def append(self, producer: Producer, transaction: Transaction) -> bool:
        """Write a record, if the producer is not fenced here."""
        entry = self.entry(producer.producer_id)
        if producer.epoch < entry.epoch:
            return False
        entry.epoch = producer.epoch
        entry.open.append((transaction, len(transaction.records)))
        transaction.records.append(None)
        return True

    def mark(self, order: MarkerOrder, coordinator_epoch: int) -> ErrorCode:
        entry = self.entry(order.producer_id)
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        is_again = order.version == 2 and order.producer_epoch == entry.epoch
        if order.producer_epoch < entry.epoch or (is_again and entry.open):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        for transaction, place in entry.open:
            assert transaction.records[place] is None
            transaction.records[place] = order.is_commit
        entry.open.clear()
        entry.epoch, entry.coordinator_epoch = order.producer_epoch, coordinator_epoch
        entry.markers += 1
        return NONE


class WalkingProducer:
    """A producer of one id, as clients behave: a request is sent again until it is answered."""

    def __init__(self, walk: TransactionWalk, transactional_id: str, version: int) -> None:
        self.walk = walk
        self.transactional_id = transactional_id
        self.version = version
        self.restart()

    def restart(self) -> None:
        self.producer: Producer | None = None
        self.transaction: Transaction | None = None
        self.token: int | None = None
        #: What a producer of version 1 has added itself to this transaction: it writes nowhere else.
        self.added: set[TransactionPartition] = set()
        self.place = PLACES[0]
        self.guard = -1

    def give_up(self) -> None:
        """The answer is lost: the connection broke."""
        self.token = None

    def act(self, choice: int) -> None:
        desk = self.walk.desk
        if self.token is not None:
            reply = desk.replies.get(self.token)
            if reply is not None:
                self.token = None
                self._on_reply(reply)
            return
        if self.producer is None:
            self.token = desk.start_init(self.transactional_id)
        elif self.transaction is not None and self.transaction.asked is not None:
            self._end(self.producer, self.transaction.asked)
        elif self.transaction is not None and choice >= 3:
            self._end(self.producer, choice > 3)
        else:
            self.transaction = self.transaction or self.walk.new_transaction()
            self._write(self.producer, self.transaction, PLACES[choice % 3])

    def _end(self, producer: Producer, is_commit: bool) -> None:
        assert self.transaction is not None
        self.transaction.asked = is_commit
        self.token = self.walk.desk.start_end(
            producer, is_commit=is_commit, version=self.version, transactional_id=self.transactional_id
        )
        if self.version == 2:
            self.walk.sent.append((self.transactional_id, producer.pair, is_commit))

    def _write(self, producer: Producer, transaction: Transaction, place: TransactionPartition) -> None:
        entry = self.walk.partitions[place].entry(producer.producer_id)
        is_begun = self.version == 2 or place in self.added
        if is_begun and entry.open and entry.epoch == producer.epoch:
            self.walk.partitions[place].append(producer, transaction)
            return
        self.place, self.guard = place, entry.markers
        self.token = self.walk.desk.start_add(
            producer, place, transactional_id=self.transactional_id, version=self.version
        )

    def _on_reply(self, reply: object) -> None:
        if isinstance(reply, InitProducerReply) and reply.error is NONE:
            self.producer = Producer(reply.producer_id, reply.producer_epoch)
            assert 0 <= reply.producer_epoch < EPOCH_MAX
            self.walk.owners.append((self.transactional_id, self.producer.pair))
        elif isinstance(reply, PartitionsReply):
            self._on_added(reply.errors[0][1])
        elif isinstance(reply, EndTransactionReply):
            self._on_ended(reply)

    def _on_added(self, error: ErrorCode) -> None:
        producer, transaction = self.producer, self.transaction
        if producer is None or transaction is None:
            return
        if error in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
            self.restart()
        elif error is NONE:
            self.added.add(self.place)
            partition = self.walk.partitions[self.place]
            is_stale = partition.entry(producer.producer_id).markers != self.guard
            if is_stale or not partition.append(producer, transaction):
                transaction.asked = False

    def _on_ended(self, reply: EndTransactionReply) -> None:
        transaction, producer = self.transaction, self.producer
        assert transaction is not None and producer is not None
        if reply.error is NONE:
            transaction.told = transaction.asked
            self.transaction = None
            self.added.clear()
            if self.version == 2:
                assert 0 <= reply.producer_epoch < EPOCH_MAX
                assert (reply.producer_id, reply.producer_epoch) != producer.pair, "an end has not bumped"
                producer.producer_id, producer.epoch = reply.producer_id, reply.producer_epoch
                self.walk.owners.append((self.transactional_id, producer.pair))
        elif reply.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
            self.restart()


class TransactionWalk(RuleBasedStateMachine):
    """coordinator_epoch: of the process that serves the shard. past: orders that may be delivered once more,
    with the epoch that they were given under. sent: ends of version 2 that may arrive once more. owners: what
    producers were told to go on with, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = TransactionDesk()
        self.coordinator_epoch = 1
        self.partitions = {place: Partition() for place in PLACES}
        self.transactions: list[Transaction] = []
        self.past: list[tuple[MarkerOrder, int]] = []
        self.sent: list[tuple[str, tuple[int, int], bool]] = []
        self.owners: list[tuple[str, tuple[int, int]]] = []
        self.outcomes: dict[tuple[int, int], bool] = {}
        self.checked = 0
        self.before: dict[str, StoredTransaction] = {}
        self.producers = [WalkingProducer(self, name, version) for name in IDS for version in (2, 1, 2)]

    def new_transaction(self) -> Transaction:
        transaction = Transaction(len(self.transactions))
        self.transactions.append(transaction)
        return transaction

    # --- what happens ------------------------------------------------------------------------------

    @initialize(
        epochs=st.lists(st.sampled_from([-1, 0, EPOCH_MAX - 3, EPOCH_MAX - 2, EPOCH_MAX - 1]), min_size=2)
    )
    def ids_have_a_history(self, epochs: list[int]) -> None:
        for number, (name, epoch) in enumerate(zip(IDS, epochs, strict=False)):
            if epoch >= 0:
                stored = StoredTransaction(
                    producer_id=number,
                    producer_epoch=epoch,
                    timeout_ms=TIMEOUT_MS,
                    state=TransactionState.EMPTY,
                    updated_ms=WALL_MS,
                )
                self.desk.records.append(ShardRecord(encode_key(name), encode_transaction(stored)))
        self.desk.open()

    @rule(acts=ACTS)
    def producers_act(self, acts: list[tuple[int, int]]) -> None:
        for number, choice in acts:
            self.producers[number].act(choice)

    @rule(number=st.integers(0, 5), choices=st.lists(st.integers(0, 5), min_size=4, max_size=12))
    def a_producer_goes_on(self, number: int, choices: list[int]) -> None:
        """Each choice twice: a request, and its answer."""
        for choice in choices:
            self.producers[number].act(choice)
            self.producers[number].act(choice)
            self.markers_are_written(0, 3)

    @rule(number=st.integers(0, 5), choice=st.integers(3, 5), are_marked=st.booleans())
    def an_end_races_a_timeout(self, number: int, choice: int, are_marked: bool) -> None:
        self.a_producer_goes_on(number, [0, 0, 1])
        self.time_passes(71)
        for _ in range(3):
            self.producers[number].act(choice)
            if are_marked:
                self.markers_are_written(0, 3)

    @rule(number=st.integers(0, 5))
    def a_producer_restarts(self, number: int) -> None:
        self.producers[number].restart()

    @rule(number=st.integers(0, 5))
    def an_answer_is_lost(self, number: int) -> None:
        self.producers[number].give_up()

    @rule(first=st.integers(0, 1), count=st.integers(1, 3))
    def markers_are_written(self, first: int, count: int) -> None:
        """Some markers of some orders, in the order of partitions or from the second on."""
        for order in list(self.desk.orders.values()):
            places = order.partitions[first:][:count]
            for place in places:
                self._mark(order, place)
            self._tell(order, places)

    def _mark(self, order: MarkerOrder, place: TransactionPartition) -> None:
        error = self.partitions[place].mark(order, self.coordinator_epoch)
        assert error is NONE, f"a partition refuses a marker that is due: {order}, {error.name}"

    def _write_all(self, order: MarkerOrder) -> None:
        for place in order.partitions:
            self._mark(order, place)
        self._tell(order, order.partitions)

    def _tell(self, order: MarkerOrder, places: tuple[TransactionPartition, ...]) -> None:
        if not places:
            return
        self.desk.start_markers(order, *places)
        self.past.append((order, self.coordinator_epoch))

    @rule(place=st.sampled_from(PLACES))
    def a_marker_is_written_and_the_answer_is_lost(self, place: TransactionPartition) -> None:
        for order in self.desk.orders.values():
            if place in order.partitions:
                self._mark(order, place)

    @rule(number=st.integers(0, 1_000))
    def a_marker_arrives_late(self, number: int) -> None:
        late = [entry for entry in self.past if entry[0].version == 2]
        if late:
            order, epoch = late[number % len(late)]
            for place in order.partitions:
                self.partitions[place].mark(order, epoch)

    @rule(number=st.integers(0, 1_000))
    def an_end_arrives_late(self, number: int) -> None:
        """A copy of an EndTxn of version 2, of any age, with a fresh id at hand."""
        if not self.sent:
            return
        name, pair, is_commit = self.sent[number % len(self.sent)]
        desk = self.desk
        desk.ask(
            EndTransaction(
                token=desk.token(),
                transactional_id=name,
                producer_id=pair[0],
                producer_epoch=pair[1],
                is_commit=is_commit,
                version=2,
                fresh_producer_id=desk.fresh_id(),
            )
        )

    @rule(seconds=st.sampled_from([1, 11, 61]))
    def time_passes(self, seconds: int) -> None:
        self.desk.wait(seconds * 1_000)

    @rule(
        acts=ACTS,
        batches=st.integers(0, 3),
        is_refused=st.booleans(),
        is_waiting=st.sampled_from([True] + 3 * [False]),
    )
    def the_log_waits(
        self, acts: list[tuple[int, int]], batches: int, is_refused: bool, is_waiting: bool
    ) -> None:
        """Some batches are committed then, and the rest too, or refused; or the log waits on."""
        self.desk.is_holding = True
        self.producers_act(acts)
        self.desk.commit(batches)
        if is_refused:
            self.desk.refuse()
            self.desk.take_orders()
        if not is_waiting:
            self.the_log_goes_on()

    @rule()
    def the_log_goes_on(self) -> None:
        self.desk.is_holding = False
        self.desk.commit()

    @rule(acts=ACTS, written=st.integers(0, 2))
    def the_shard_moves(self, acts: list[tuple[int, int]], written: int) -> None:
        self.desk.is_holding = True
        self.producers_act(acts)
        self.coordinator_epoch += 1
        self.desk.fail_over(written=written)
        self.desk.is_holding = False

    # --- what must hold ----------------------------------------------------------------------------

    @invariant()
    def all_or_nothing_as_was_told(self) -> None:
        for transaction in self.transactions:
            known = {outcome for outcome in transaction.records if outcome is not None}
            assert len(known) < 2, f"torn: {transaction}"
            if known == {True}:
                assert transaction.asked, f"committed, and nobody asked: {transaction}"
            if transaction.told is not None:
                assert known <= {transaction.told}, f"not as it was told: {transaction}"

    @invariant()
    def the_log_makes_legal_moves(self) -> None:
        """Also what is under way may be taken back: only what is committed counts."""
        for record in self.desk.records[self.checked :]:
            name = decode_key(record.key)
            before = self.before.pop(name, None)
            if record.value is None:
                assert before is not None and is_idle(before)
                continue
            after = decode_transaction(record.value)
            self.before[name] = after
            if before is None:
                assert after.state is TransactionState.EMPTY
                continue
            assert before.state in PREDECESSORS[after.state], (before, after)
            if after.producer_id == before.producer_id:
                assert 0 <= after.producer_epoch - before.producer_epoch <= 1, (before, after)
            else:
                assert after.producer_epoch == 0, (before, after)
            if after.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
                self._see_outcome(after)
        self.checked = len(self.desk.records)

    def _see_outcome(self, end: StoredTransaction) -> None:
        if end.version == 2:
            key = (end.producer_id, end.producer_epoch)
            assert key not in self.outcomes, f"a second end under {key}"
            self.outcomes[key] = end.state is TransactionState.PREPARE_COMMIT

    @invariant()
    def no_two_producers_were_told_the_same(self) -> None:
        """A producer that asks again is told the same; here none asks for an epoch as the owner."""
        assert len(set(self.owners)) == len(self.owners)

    @invariant()
    def replay_is_the_live_state(self) -> None:
        desk = self.desk
        store = desk.machine.registry.store
        assert replayed(desk.records)[0] == dict(store.transactions.committed_items())
        under_way = [record for batch in desk.in_flight for record in batch.records]
        latest: State = (dict(store.transactions.latest_items()), store.partitions)
        assert replayed([*desk.records, *under_way]) == latest

    @rule(share=st.floats(0, 1), seed=st.integers(0, 2**16))
    def a_prefix_is_compacted(self, share: float, seed: int) -> None:
        records = self.desk.records[: round(share * len(self.desk.records))]
        assert replayed(compacted(records, seed)) == replayed(records)

    @invariant()
    def each_decided_end_is_in_the_book(self) -> None:
        """Markers that are in no book are written by none."""
        registry = self.desk.machine.registry
        for name, stored in registry.store.transactions.committed_items():
            is_decided = stored.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
            is_completed = is_decided and registry.store.is_under_way(name)
            assert (name in registry.markers.left) or not is_decided or is_completed
        assert len(self.desk.replies) + self._waiting() == self.desk.tokens, "a request is forgotten"

    def _waiting(self) -> int:
        held = self.desk.machine.registry.held
        assert {HeldTimer(name) for name in held} <= self.desk.timers.keys(), "it waits for ever"
        return sum(len(batch.replies) for batch in self.desk.in_flight) + sum(map(len, held.values()))

    def teardown(self) -> None:
        """The world becomes quiet: what is open is aborted in time, every marker is taken, and a new producer
        of each id commits a transaction."""
        desk = self.desk
        desk.is_holding = False
        desk.commit()
        for producer in self.producers:
            producer.restart()
        for _ in range(3):
            desk.wait(TIMEOUT_MS + desk.options.timeout_check_ms)
            for order in list(desk.orders.values()):
                self._write_all(order)
        for partition in self.partitions.values():
            assert [entry.open for entry in partition.producers.values() if entry.open] == []
        self.all_or_nothing_as_was_told()
        for name in IDS:
            owner = desk.producer(name)
            assert desk.add(owner, *PLACES, transactional_id=name) is NONE
            assert desk.end(owner, transactional_id=name).error is NONE
            self._write_all(desk.orders[name])
            assert desk.stored(name).state is TransactionState.COMPLETE_COMMIT
        self.the_log_makes_legal_moves()
        self.replay_is_the_live_state()
