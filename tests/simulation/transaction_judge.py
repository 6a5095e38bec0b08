"""What must hold of the simulated transactions, by what clients were told and what is committed.

I32  one outcome per transaction, and all or nothing for readers of committed records, offsets included. A
     transaction whose commit was answered is there, one that was aborted or given up is not, and one whose
     commit was never answered is there as a whole or not at all
I33  the last stable offset is below no committed record that is stable and above none that is not: that of a
     replica is what the committed log up to its high watermark says, whoever leads
I34  after the end no transaction is open anywhere, and no offset pending
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from coordinator.core.opening import OPENING_KEY
from coordinator.core.transaction_records import (
    StoredTransaction,
    TransactionState,
    decode_key,
    decode_transaction,
)
from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.replica import Replica
from dataplane.core.transactions import IsolationLevel
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import NO_LEADER, PartitionKey, PartitionState
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction
from springtide.wire.markers import Outcome, read_marker
from springtide.wire.record_batch import iter_headers
from springtide.wire.records import Record, iter_records
from tests.simulation.clients import REQUEST_TIMEOUT_MS, ReadAnswer, ReadCall
from tests.simulation.compaction import uncommitted
from tests.simulation.oracle import headers_of
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.transaction_clients import TransactionClient
    from tests.simulation.transaction_shards import TransactionShards

READ_BYTES_MAX = 1 << 20
_ENDS = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@dataclass(slots=True, eq=False)
class SimulatedTransaction:
    """sent: values, of which `acked` were acknowledged. asked_commit: how its client asked to end it last;
    None: not at all. outcome: what was answered; None: it is not known."""

    client: str
    number: int
    owner: tuple[int, int]
    sent: list[str] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)
    has_sent_offsets: bool = False
    has_offsets: bool = False
    asked_commit: bool | None = None
    outcome: Outcome | None = None

    @property
    def title(self) -> str:
        return f"transaction {self.number} of {self.client} {self.owner}"


class CommittedReader:
    """Reads one partition as a consumer with isolation.level=read_committed."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.values: list[str] = []

    def take(self, parts: Iterable[bytes], aborted: Iterable[AbortedTransaction]) -> list[str]:
        """Take one answer in; return the values that it adds."""
        waiting = sorted(aborted, key=lambda one: one.first_offset)
        active: set[int] = set()
        added: list[str] = []
        for part in parts:
            for place, header in iter_headers(memoryview(part)):
                batch = memoryview(part)[place : place + header.size_bytes]
                while waiting and waiting[0].first_offset <= header.next_offset - 1:
                    active.add(waiting.pop(0).producer_id)
                if header.is_control:
                    marker = read_marker(batch, header) if header.is_transactional else None
                    if marker is not None and marker.outcome is Outcome.ABORT:
                        active.discard(header.producer_id)
                elif header.base_offset >= self.position and header.producer_id not in active:
                    added += _values(iter_records(batch))
                self.position = max(self.position, header.next_offset)
        self.values += added
        return added


class TransactionJudge:
    """opened: by partition and offset, where the transactions begin that are open to a replica whose high
    watermark it is, by producer."""

    def __init__(self, shards: TransactionShards) -> None:
        self.shards = shards
        self.transactions: dict[tuple[str, int], SimulatedTransaction] = {}
        self.readers: dict[PartitionKey, CommittedReader] = {}
        self.opened: defaultdict[PartitionKey, dict[int, dict[int, int]]] = defaultdict(lambda: {0: {}})
        self._open: defaultdict[PartitionKey, dict[int, int]] = defaultdict(dict)
        self._judged: defaultdict[PartitionKey, int] = defaultdict(int)
        self._stored: dict[str, StoredTransaction] = {}

    # --- what clients are told --------------------------------------------------------------------------

    def begin(self, client: TransactionClient, number: int, owner: tuple[int, int]) -> SimulatedTransaction:
        made = SimulatedTransaction(client.name, number, owner)
        self.transactions[client.name, number] = made
        return made

    def ended(self, transaction: SimulatedTransaction, *, is_commit: bool) -> None:
        transaction.outcome = Outcome.COMMIT if is_commit else Outcome.ABORT
        self.shards.answered += 1
        self.shards.cluster.marks.reached(f"transaction.{transaction.outcome.name.lower()}")

    def leave(self, transaction: SimulatedTransaction) -> None:
        self.shards.cluster.marks.reached("transaction.left")

    def _transaction_of(self, value: str) -> SimulatedTransaction:
        client, number, _ = value.split("/", 2)
        return self.transactions[client, int(number)]

    # --- what is committed ------------------------------------------------------------------------------

    def on_committed(self, key: PartitionKey) -> None:
        """The ghost of a partition has grown."""
        ghost = self.shards.cluster.oracle.ghosts[key]
        first = self._judged[key]
        self._judged[key] = len(ghost.headers)
        for header, data in zip(ghost.headers[first:], ghost.data[first:], strict=True):
            if key == self.shards.transactions_key:
                if not header.is_control:
                    self._on_records(data)
                continue
            opened = self._open[key]
            if header.is_control and header.is_transactional:
                opened.pop(header.producer_id, None)
            elif header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
            self.opened[key][header.next_offset] = dict(opened)

    def _on_records(self, data: bytes) -> None:
        """I32: what is decided stays so."""
        for record in iter_records(memoryview(data)):
            if record.key is None or bytes(record.key) == OPENING_KEY or record.value is None:
                continue
            name, stored = decode_key(bytes(record.key)), decode_transaction(bytes(record.value))
            before = self._stored.get(name)
            self._stored[name] = stored
            if before is None:
                continue
            if before.state in _ENDS and stored.state is not _ENDS[before.state]:
                raise Violation("I32", f"{name} was {before.state.name} and becomes {stored.state.name}")
            is_same = before.producer_id == stored.producer_id
            if is_same and stored.producer_epoch < before.producer_epoch:
                raise Violation("I32", f"{name}: the epoch falls to {stored.producer_epoch}")

    def on_replica_touched(self, broker: BrokerNode, key: PartitionKey, replica: Replica) -> None:
        """I33 of one replica. What is deleted is not waited for. A transaction's first records may be gone
        with the log's beginning, or by rounds, and then a copy, or the next process, knows it by those that
        are left."""
        high_watermark = replica.high_watermark
        opened = self.opened[key].get(high_watermark)
        if opened is None:
            return
        found, log = replica.last_stable_offset, replica.log
        expected = min(opened.values(), default=high_watermark)
        if expected < log.log_start_offset:
            self.shards.cluster.marks.reached("transaction.deleted.while.open")
        if expected < max(log.log_start_offset, log.rounds.compacted_to):
            expected = max(expected, log.log_start_offset)
            left = (
                header.base_offset
                for header in headers_of(log, expected, high_watermark)
                if not header.is_control
                and opened.get(header.producer_id, high_watermark) <= header.base_offset
            )
            expected = max(expected, min(found, next(left, high_watermark)))
        if found != expected:
            raise Violation(
                "I33",
                f"{key} broker {broker.broker_id}: last stable offset {found} at the high watermark "
                f"{high_watermark}, where the log says {expected}",
            )

    # --- what is read -----------------------------------------------------------------------------------

    def read(self, key: PartitionKey) -> None:
        """Let the partition's reader ask its leader, again and again."""
        cluster = self.shards.cluster
        reader = self.readers.setdefault(key, CommittedReader())
        state = cluster.truth(key)

        def again() -> None:
            cluster.events.after(2 * cluster.options.consumer_pace_ms, lambda: self.read(key))

        def answered(answer: ReadAnswer) -> None:
            if answer.error is ErrorCode.NONE:
                self._check_read(reader.take(answer.parts, answer.aborted))
            elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                reader.position = max(reader.position, answer.log_start_offset)
            again()

        if state is None or state.leader == NO_LEADER:
            again()
            return
        cluster.network.call(
            f"reader of {_title(key)}",
            f"broker-{state.leader}",
            ReadCall(key, state.leader_epoch, reader.position, isolation=IsolationLevel.READ_COMMITTED),
            answered,
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=again,
            connection=(key, self, cluster.events.count),
        )

    def _check_read(self, values: Iterable[str]) -> None:
        for value in values:
            transaction = self._transaction_of(value)
            if transaction.outcome is Outcome.ABORT or transaction.asked_commit is False:
                raise Violation("I32", f"{value} of the aborted {transaction.title} is read")

    # --- the end ----------------------------------------------------------------------------------------

    def missing(self) -> tuple[str, str] | None:
        """I34: what is open still."""
        shards, cluster = self.shards, self.shards.cluster
        for key in shards.payments_keys:
            state = cluster.truth(key)
            leader = None if state is None else cluster.brokers[state.leader].replicas.get(key)
            if leader is None or leader.leading is None:
                return "L2", f"{key} has no leader"
            if leader.last_stable_offset != leader.high_watermark:
                opened = leader.log.producers.transactions.open
                return "I34", f"{key} holds open transactions {dict(opened)}"
        machine = shards.transaction_machine
        if machine is None:
            return "L1", "nobody serves the transactions"
        for name, stored in self._stored.items():
            if stored.state in _ENDS or stored.state is TransactionState.ONGOING:
                return "I34", f"{name} is {stored.state.name}"
        groups = shards.group_machine
        if groups is None:
            return "L1", "nobody serves the groups"
        if pending := dict(groups.registry.store.pending.of.latest_items()):
            return "I34", f"offsets are pending: {pending}"
        return None

    def check_end(self) -> None:
        visible: set[str] = set()
        for key in self.shards.payments_keys:
            written = self._committed(key)
            values = _values(written)
            if len(set(values)) != len(values):
                raise Violation("I23", f"{key}: a value is there twice: {values}")
            state = self.shards.cluster.truth(key)
            assert state is not None
            for broker_id in state.isr:
                self._check_replica(key, broker_id, state, written)
            known = self.readers[key].values if key in self.readers else []
            if _of(values, known) != known:
                raise Violation("I32", f"{key}: a reader saw {known}, and {values} is committed")
            visible |= set(values)
        offsets = self._offsets()
        for transaction in self.transactions.values():
            self._check(transaction, visible, offsets)

    def _committed(self, key: PartitionKey) -> list[Record]:
        """Return all that was ever committed to a partition, by its log as it was written."""
        ghost = self.shards.cluster.oracle.ghosts[key]
        unread = uncommitted(ghost, ghost.end_offset)
        return [
            record
            for header, data in zip(ghost.headers, ghost.data, strict=True)
            if not header.is_control and header.base_offset not in unread
            for record in iter_records(data)
        ]

    def _check_replica(
        self, key: PartitionKey, broker_id: int, state: PartitionState, written: list[Record]
    ) -> None:
        """I32 of what a replica in sync gives readers of committed records: all that is committed and was not
        deleted; where it is compacted, of each key at least the newest record."""
        broker = self.shards.cluster.brokers[broker_id]
        replica = broker.replicas[key]
        start_offset = replica.log.log_start_offset
        reader = CommittedReader(start_offset)
        while reader.position < replica.high_watermark:
            position = FetchPosition(reader.position, state.leader_epoch, LeaderEpoch(-1))
            fetch = ConsumerFetch(position, READ_BYTES_MAX, isolation=IsolationLevel.READ_COMMITTED)
            result, _ = replica.role.on_consumer_fetch(fetch, now_ms=broker.now_ms)
            parts = () if result.records is None else result.records.parts
            before = reader.position
            reader.take([bytes(part) for part in parts], result.aborted or ())  # type: ignore[arg-type]
            if reader.position == before:
                if broker_id != state.leader:  # it may not be read now
                    break
                raise Violation("I34", f"{key} gives no committed record at {before}: {result.error.name}")
        due = [record for record in written if start_offset <= record.offset < reader.position]
        newest = {record.key or record.value: record for record in due}
        found, values = reader.values, _values(due)
        if found != _of(values, found) or not set(_values(newest.values())) <= set(found):
            raise Violation(
                "I32", f"{key} on broker {broker_id}: {found} is read, where {values} is committed"
            )

    def _offsets(self) -> dict[str, set[int]]:
        """Return the committed offsets of each client's group: one, if all places have the same."""
        machine = self.shards.group_machine
        assert machine is not None
        found: defaultdict[str, set[int]] = defaultdict(set)
        for key, value in machine.registry.store.offsets.committed_items():
            found[key.group_id].add(value.offset)
        return found

    def _check(
        self, transaction: SimulatedTransaction, visible: set[str], offsets: dict[str, set[int]]
    ) -> None:
        seen = [value for value in transaction.sent if value in visible]
        committed = offsets.get(f"group-of-{transaction.client}", {0})
        if len(committed) > 1:
            raise Violation("I32", f"{transaction.client}: offsets are torn: {committed}")
        (last,) = committed
        lacking = [value for value in transaction.acked if value not in visible]
        if transaction.outcome is Outcome.COMMIT and lacking:
            raise Violation("I32", f"{transaction.title} is committed, and {lacking} is not there")
        if transaction.outcome is Outcome.COMMIT and transaction.has_offsets and last < transaction.number:
            raise Violation("I32", f"{transaction.title} is committed, and its offset is lost: {last}")
        if transaction.outcome is Outcome.ABORT or not transaction.asked_commit:
            if seen:
                raise Violation("I32", f"{transaction.title} never committed, and {seen} is there")
            if transaction.has_sent_offsets and last == transaction.number:
                raise Violation("I32", f"{transaction.title} never committed, and its offset is")
        if seen and lacking:
            raise Violation("I32", f"{transaction.title} is torn: {seen} without {lacking}")
        if seen and transaction.has_offsets and last < transaction.number:
            raise Violation("I32", f"{transaction.title} is there without its offset, which is {last}")
        if lacking and transaction.has_sent_offsets and last == transaction.number:
            raise Violation("I32", f"the offset of {transaction.title} is there without {lacking}")


def _title(key: PartitionKey) -> str:
    return f"payments-{key[1]}"


def _values(records: Iterable[Record]) -> list[str]:
    return [bytes(record.value).decode() for record in records if record.value is not None]


def _of(values: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return those values that are known, in their order."""
    known = set(known)
    return [value for value in values if value in known]
