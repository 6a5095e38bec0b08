"""What a simulated broker answers: followers, who fetch in sessions, and clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.core.transaction_records import TransactionPartition
from coordinator.core.transactions.requests import PartitionsReply
from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.fetch_session import (
    INITIAL_EPOCH,
    NO_SESSION,
    AskedPartition,
    FetchPosition,
    FetchSession,
    FetchSessions,
    FollowedPartition,
    FollowerRequest,
    SessionRequest,
)
from dataplane.core.fetches import Evaluate, Fetch, FetchedAnswer, WaitingFetches
from dataplane.core.guards import Guard
from dataplane.core.results import (
    LATEST_TIMESTAMP,
    DeletionResult,
    FetchResult,
    LeaderAnswer,
    OffsetResult,
    TxnContext,
)
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionKey
from springtide.node.sharding import TRANSACTIONS_TOPIC
from springtide.wire import produced_records
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import LogMark
from springtide.wire.record_batch import decode_header
from springtide.wire.records import DECOMPRESSED_BYTES_MAX
from tests.simulation.clients import (
    READ_BYTES_MAX,
    DeleteCall,
    MendCall,
    ProduceAnswer,
    ProduceCall,
    ReadAnswer,
    ReadCall,
)
from tests.simulation.controller_node import process_name
from tests.simulation.transaction_calls import PASSING, MarkerCall, question_of
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

#: The bytes of so many partitions fit into one answer.
FETCHED_AT_ONCE_MAX = 4
PRODUCE_WAIT_MS = 3_000


class FetchCall(NamedTuple):
    """What a follower sends its leader."""

    broker_id: int
    broker_epoch: int
    asked: FollowerRequest
    marks: Mapping[PartitionKey, LogMark]


class HurryCall(NamedTuple):
    """A follower has more to ask for: answer the fetch of its that waits."""

    broker_id: int


class FetchAnswer(dict[PartitionKey, LeaderAnswer]):
    """error: of the whole; then there are no partitions."""

    def __init__(
        self,
        error: ErrorCode,
        session_id: int = NO_SESSION,
        partitions: Mapping[PartitionKey, LeaderAnswer] = MappingProxyType({}),
    ) -> None:
        super().__init__(partitions)
        self.error = error
        self.session_id = session_id


class NodeFetches(WaitingFetches):
    """The fetches that wait at a node in one life, on its clock."""

    def __init__(self, node: BrokerNode, evaluate: Evaluate) -> None:
        super().__init__(
            sessions=FetchSessions(count(1 + 1_000_000 * node.life)),
            evaluate=evaluate,
            respond=_respond,
            holds_lease=lambda _: True,  # only consumers ask, and none has a session here
        )
        self._node = node
        self._timer_ms: int | None = None

    def note(self, what: Callable[[PartitionKey], None], key: PartitionKey) -> None:
        """At the end of this turn, look again at every fetch that waits for this partition."""
        if not self.has_news:
            self._node.after(0, lambda: self.answer_woken(now_ms=self._node.now_ms))
        what(key)

    def _arm(self, fetch: Fetch) -> None:
        super()._arm(fetch)
        self._ring_at(fetch.deadline_ms)

    def _ring_at(self, deadline_ms: int) -> None:
        if self._timer_ms is None or deadline_ms < self._timer_ms:
            self._timer_ms = deadline_ms
            self._node.after(max(0, deadline_ms - self._node.now_ms), partial(self._ring, deadline_ms))

    def _ring(self, deadline_ms: int) -> None:
        if self._timer_ms == deadline_ms:
            self._timer_ms = None
            wait_ms = self.end_waits(now_ms=self._node.now_ms)
            if wait_ms is not None:
                self._ring_at(self._node.now_ms + wait_ms)


class BrokerRequests:
    """Of one life. owed: produce calls that wait in a replica, and by when each has to be answered.
    connections: the session of each follower's connection."""

    def __init__(self, node: BrokerNode) -> None:
        self.node = node
        self.fetches = NodeFetches(node, self.evaluate)
        self.connections: dict[int, FetchSession] = {}
        self.owed: dict[int, int] = {}
        self.produce_count = 0

    def on_request(self, source: str, request: Any, answer: Callable[[Any], None]) -> None:
        node = self.node
        node.run_in_life(node.life, partial(self._dispatch, request, answer))

    def _dispatch(self, request: Any, answer: Callable[[Any], None]) -> None:
        node = self.node
        match request:
            case FetchCall():
                self._on_fetch(request, answer)
            case HurryCall(broker_id=broker_id):
                if (session := self.connections.get(broker_id)) is not None:
                    self.fetches.end_wait_of(session, now_ms=self.node.now_ms)
                answer(None)
            case ProduceCall():
                self._produce(request, answer)
            case MarkerCall():
                self._write_marker(request, answer)
            case MendCall(broker_id=broker_id, key=key, position=position):
                max_bytes = min(position.max_bytes, node.cluster.options.fetch_bytes_max)
                fetch = ReplicaFetch(broker_id, BrokerEpoch(request.broker_epoch), position, max_bytes)
                answer(_answer_of(self._serve(key, fetch)))
            case ReadCall() | DeleteCall() if node.is_resumed:
                pass  # it would be as old as its snapshot, until somebody finds out (3.10)
            case ReadCall():
                answer(self._read(request))
            case DeleteCall():
                self._delete(request, answer)
            case _:
                raise AssertionError(request)

    def _on_fetch(self, call: FetchCall, answer: Callable[[FetchAnswer], None]) -> None:
        """As dataplane/handlers/fetch.py does."""
        node = self.node
        asked, sessions = call.asked, self.fetches.sessions
        self.fetches.answer_woken(now_ms=node.now_ms)  # of the event before, which a request finds ended
        earlier = self.connections.get(call.broker_id)
        if earlier is not None and asked.session_epoch == INITIAL_EPOCH:  # it comes over a new connection
            if isinstance(earlier.parked, Fetch):
                self.fetches.drop(earlier.parked)
            sessions.close(earlier)
        opened = sessions.open(
            SessionRequest(
                session_id=asked.session_id,
                session_epoch=asked.session_epoch,
                replica_id=call.broker_id,
                broker_epoch=BrokerEpoch(call.broker_epoch),
                partitions=[
                    AskedPartition(key, position, call.marks.get(key)) for key, position in asked.partitions
                ],
                forgotten=asked.forgotten,
            ),
            now_ms=node.now_ms,
        )
        if isinstance(opened, ErrorCode):
            answer(FetchAnswer(opened))
            return
        self.connections[call.broker_id] = opened
        for key in asked.forgotten:
            if key in node.replicas and (leader := node.replicas[key].leading) is not None:
                leader.on_replica_gone(call.broker_id, opened.contact)
        wait_ms = 0 if asked.has_more else node.cluster.options.fetch_wait_ms
        self.fetches.take(
            Fetch(
                session=opened,
                min_bytes=1,
                max_bytes=FETCHED_AT_ONCE_MAX * node.cluster.options.fetch_bytes_max,
                deadline_ms=node.now_ms + wait_ms,
                context=answer,
                is_gone=lambda: False,
            ),
            now_ms=node.now_ms,
        )

    def evaluate(
        self,
        session: FetchSession,
        followed: FollowedPartition,
        max_bytes: int,
        at_least_one: bool,
        now_ms: int,
    ) -> FetchResult:
        """Return what a follower is told of one partition. Its news wait for this turn's end."""
        fetch = ReplicaFetch(
            session.replica_id,
            session.broker_epoch,
            followed.position,
            min(max_bytes, self.node.cluster.options.fetch_bytes_max),
            at_least_one,
            session.contact,
            followed.take_mark(),
        )
        return self._serve(followed.key, fetch)

    def _read(self, request: ReadCall) -> ReadAnswer:
        """A consumer's fetch, or its question for the end."""
        node = self.node
        replica = node.replicas.get(request.key)
        if replica is None:
            return ReadAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, ())
        node.cluster.oracle.on_replica_touched(node, request.key)
        if request.offset is None:
            found = replica.role.list_offset(
                LATEST_TIMESTAMP, leader_epoch=LeaderEpoch(request.leader_epoch), now_ms=node.now_ms
            )
            assert isinstance(found, OffsetResult)
            return ReadAnswer(found.error, found.offset, ())
        position = FetchPosition(
            request.offset, LeaderEpoch(request.last_fetched_epoch), LeaderEpoch(request.leader_epoch)
        )
        fetch = ConsumerFetch(
            position, READ_BYTES_MAX, is_debugging=request.is_debugging, isolation=request.isolation
        )
        result, effects = replica.role.on_consumer_fetch(fetch, now_ms=node.now_ms)
        node.cluster.marks.on_read(replica, result, is_debugging=request.is_debugging)
        node.run(request.key, effects)
        parts = () if result.records is None else result.records.parts
        return ReadAnswer(
            result.error,
            result.high_watermark,
            tuple(bytes(part) for part in parts if isinstance(part, memoryview)),
            result.log_start_offset,
            result.diverging,
            0 if result.compacted is None else result.compacted.tombstone_floor,
            result.aborted or (),
        )

    def _delete(self, request: DeleteCall, answer: Callable[[DeletionResult], None]) -> None:
        """A client's DeleteRecords."""
        node = self.node
        replica = node.replicas.get(request.key)
        if replica is None:
            answer(DeletionResult(ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return
        high_watermark = replica.high_watermark
        result, effects = replica.role.delete_records(
            request.before_offset,
            waiter=answer,
            expires_ms=node.now_ms + PRODUCE_WAIT_MS,
            now_ms=node.now_ms,
        )
        if result.error is ErrorCode.NONE:
            node.cluster.oracle.on_deletion_begun(
                request.key, high_watermark if request.before_offset < 0 else request.before_offset
            )
        if not result.is_waiting:
            answer(result)
        node.run(request.key, effects)
        node.cluster.oracle.on_replica_touched(node, request.key)

    def _serve(self, key: PartitionKey, fetch: ReplicaFetch) -> FetchResult:
        node = self.node
        replica = node.replicas.get(key)
        if replica is None:
            node.cluster.marks.reached("fetch.of.an.unknown.partition")
            return FetchResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        result, effects = replica.role.on_replica_fetch(fetch, now_ms=node.now_ms)
        position, replica_id = fetch.position, fetch.replica_id
        node.cluster.marks.on_fetch_served(replica, replica_id, position, result, effects)
        if result.error is ErrorCode.NONE and result.diverging is None and not result.producers:
            node.cluster.oracle.on_fetch_served(node, key, replica_id, fetch.broker_epoch, position)
        node.run(key, effects)
        node.cluster.oracle.on_replica_touched(node, key)
        return result

    def _write_marker(self, request: MarkerCall, answer: Callable[[ErrorCode], None]) -> None:
        """As dataplane/handlers/write_txn_markers.py does."""
        node = self.node
        replica = node.replicas.get(request.key)
        if replica is None:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        result, effects = replica.role.write_marker(
            request.marker,
            waiter=answer,
            expires_ms=node.now_ms + PRODUCE_WAIT_MS,
            now_ms=node.now_ms,
            wall_ms=node.time.wall_ms(),
        )
        if not result.is_waiting:
            answer(result.error)
        node.run(request.key, effects)
        node.cluster.oracle.on_replica_touched(node, request.key)

    def _verify(self, request: ProduceCall, guard: Guard, answer: Callable[[Any], None]) -> None:
        """Ask the transaction's coordinator, and append again once it has confirmed it (KIP-890)."""
        node, txn = self.node, request.txn
        assert txn is not None
        header, state = decode_header(request.batch), node.replicas[request.key].state
        owner = node.view.shard_owner(TRANSACTIONS_TOPIC, 0)
        if owner is None or state is None:
            answer(ProduceAnswer(ErrorCode.NOT_ENOUGH_REPLICAS, -1))
            return
        question = question_of(
            txn.transactional_id,
            (header.producer_id, header.producer_epoch),
            (TransactionPartition(state.topic, state.partition),),
            version=1 + txn.is_v2,
        )

        def verified(reply: Any) -> None:
            error = reply.errors[0][1] if isinstance(reply, PartitionsReply) else reply
            if error is ErrorCode.NONE:
                node.cluster.marks.reached("transaction.verified")
                self._produce(request, answer, guard)
            else:
                told = ErrorCode.NOT_ENOUGH_REPLICAS if error in PASSING else error
                answer(ProduceAnswer(told, -1))

        lost = partial(verified, None)
        node.call(process_name(owner.broker_id), question, verified, lost, timeout_ms=PRODUCE_WAIT_MS / 3)

    def _produce(
        self, request: ProduceCall, answer: Callable[[Any], None], guard: Guard | None = None
    ) -> None:
        node, txn = self.node, request.txn
        replica = node.replicas.get(request.key)
        if replica is None:
            answer(ProduceAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1))
            return
        now_ms = node.now_ms
        base_offset = -1

        state = replica.state
        holder = None if state is None else node.cluster.oracle.holders.get(state.topic)

        def complete(error: ErrorCode) -> None:
            self.owed.pop(waiter_id, None)
            node.cluster.oracle.check_name(state, error, holder)
            answer(ProduceAnswer(error, base_offset))

        self.produce_count += 1
        waiter_id = self.produce_count
        checked = produced_records.check_produced_records(
            memoryview(request.batch),
            decode_header(request.batch),
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
        )
        assert checked.error is ErrorCode.NONE, checked
        end_offset = replica.log.log_end_offset
        result, effects = replica.role.append(
            checked.header,
            checked.batch,
            acks=request.acks,
            waiter=complete,
            expires_ms=now_ms + PRODUCE_WAIT_MS,
            now_ms=now_ms,
            wall_ms=node.time.wall_ms(),
            txn=None if txn is None else TxnContext(txn.transactional_id, txn.is_v2, guard),
        )
        if result.must_verify is not None:
            self._verify(request, result.must_verify, answer)
            return
        base_offset = result.base_offset
        node.cluster.marks.on_produced(replica, result, end_offset)
        if result.is_waiting:
            self.owed[waiter_id] = now_ms + PRODUCE_WAIT_MS
        elif node.is_resumed and result.error in _FORGOT_ITS_PRODUCER:
            pass  # it has forgotten what came before: an error, fatal to a client, and no lie
        else:
            node.cluster.oracle.check_name(state, result.error, holder)
            answer(ProduceAnswer(result.error, result.base_offset))
        node.run(request.key, effects)
        node.cluster.oracle.on_replica_touched(node, request.key)

    def check_owed(self, now_ms: int) -> None:
        """L1 (no waiter hangs): what is owed to producers is answered when its time is up, whatever has
        become of the replica. After a pause the tick that answers comes first."""
        node = self.node
        for due_ms in self.owed.values():
            if now_ms > due_ms + 2 * node.cluster.options.tick_ms:
                raise Violation("L1", f"{node.name} still owes a producer an answer")
            return  # the others were promised later


_FORGOT_ITS_PRODUCER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


def _respond(fetch: Fetch, session: FetchSession, answers: list[FetchedAnswer]) -> None:
    assert callable(fetch.context)
    told = {answer.followed.key: _answer_of(answer.result) for answer in answers}
    fetch.context(FetchAnswer(ErrorCode.NONE, session.session_id, told))


def _answer_of(result: FetchResult) -> LeaderAnswer:
    parts = () if result.records is None else result.records.parts
    return LeaderAnswer(
        error=result.error,
        high_watermark=result.high_watermark,
        log_start_offset=result.log_start_offset,
        diverging=result.diverging,
        records=b"".join(parts) if parts else b"",  # type: ignore[arg-type]  # none lies in a file
        compacted=result.compacted,
        producers=result.producers,
    )
