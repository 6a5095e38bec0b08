"""Values and a bench for the tests of one replica: no clock, no network, no disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataplane.core.effects import Effects
from dataplane.core.fetch import ConsumerFetch, ReplicaFetch
from dataplane.core.fetch_session import Contact, FetchPosition
from dataplane.core.follower import Follower
from dataplane.core.leader import Leader
from dataplane.core.replica import Replica
from dataplane.core.results import (
    AppendResult,
    DeletionResult,
    FetchResult,
    LeaderAnswer,
    ReplicaOptions,
    TxnContext,
)
from dataplane.core.transactions import IsolationLevel, MarkerToWrite
from springtide.contract.epochs import BrokerEpoch, ControllerEpoch, LeaderEpoch
from springtide.contract.partition_state import PartitionState
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.contract.updates import BrokerEndpoint
from springtide.node.lease import Lease
from springtide.wire.fetch_request import LogMark
from springtide.wire.markers import Outcome
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch
from tests.kit.memory.log import MemoryLog

TOPIC_ID = "c3ByaW5ndGlkZS10b3BpYw"
WALL_MS = 1_700_000_000_000


def partition_state(**changes: Any) -> PartitionState:
    """Brokers 1, 2, 3; broker 1 leads in leader epoch 1, partition epoch 1; all in sync; minimum 2."""
    fields: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "topic": "orders",
        "partition": 0,
        "replicas": (1, 2, 3),
        "leader": 1,
        "leader_epoch": 1,
        "partition_epoch": 1,
        "isr": (1, 2, 3),
        "min_insync_replicas": 2,
    }
    return PartitionState(**{**fields, **changes})


def endpoint(broker_id: int, broker_epoch: int, *, active: bool = True) -> BrokerEndpoint:
    return BrokerEndpoint(
        broker_id=broker_id, broker_epoch=BrokerEpoch(broker_epoch), host="h", port=9092, active=active
    )


def batch_of(
    values: Sequence[bytes] = (b"v",),
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    return encode_batch(
        [NewRecord(None, value, WALL_MS) for value in values],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )


def held_lease(now_ms: int = 0, *, lease_ms: int = 2**40) -> Lease:
    lease = Lease()
    lease.on_applied(controller_epoch=ControllerEpoch(1), sequence=1)
    lease.on_heartbeat_acked(
        HeartbeatResponse(
            controller_epoch=ControllerEpoch(1), status=BrokerStatus.ACTIVE, lease_ms=lease_ms, sequence=1
        ),
        sent_ms=now_ms,
        now_ms=now_ms,
    )
    assert lease.is_held(now_ms)
    return lease


class Bench:
    """One replica of broker `broker_id`, with the calls of its shell in short form."""

    def __init__(
        self,
        broker_id: int = 1,
        *,
        log: MemoryLog | None = None,
        lease: Lease | None = None,
        high_watermark: int = 0,
        **options: Any,
    ) -> None:
        self.now_ms = 1_000
        self.log = MemoryLog() if log is None else log
        self.lease = held_lease() if lease is None else lease
        self.brokers = {n: endpoint(n, 10 * n) for n in (1, 2, 3, 4)}
        self.replica = Replica(
            broker_id=broker_id,
            topic_id=TOPIC_ID,
            partition=0,
            log=self.log,
            lease=self.lease,
            brokers=self.brokers,
            options=ReplicaOptions(**options),
            checkpointed=high_watermark,
        )

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    def apply(self, **changes: Any) -> Effects:
        """The state of `partition_state(**changes)` arrives."""
        return self.replica.on_partition_state(partition_state(**changes), now_ms=self.now_ms)

    def append(
        self,
        waiter: object = "w",
        *,
        acks: int = -1,
        records: int = 1,
        timeout_ms: int = 10_000,
        txn: Any = None,
        **batch: Any,
    ) -> tuple[AppendResult, Effects]:
        """txn: a TxnContext; not declared, because callers spread dictionaries of numbers."""
        data = batch_of([b"v"] * records, **batch)
        return self.replica.role.append(
            decode_header(data),
            memoryview(data),
            acks=acks,
            waiter=waiter,
            expires_ms=self.now_ms + timeout_ms,
            now_ms=self.now_ms,
            wall_ms=WALL_MS + self.now_ms,
            txn=txn,
        )

    def begin(
        self, producer_id: int, epoch: int = 0, sequence: int = 0, *, is_v2: bool = False, **batch: Any
    ) -> tuple[AppendResult, Effects]:
        """A transactional batch, whose coordinator confirms what this leader asks."""
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence, **batch}
        result, effects = self.append(txn=TxnContext("t", is_v2), is_transactional=True, **fields)
        if result.must_verify is not None:
            txn = TxnContext("t", is_v2, result.must_verify)
            result, effects = self.append(txn=txn, is_transactional=True, **fields)
        return result, effects

    def end(
        self,
        producer_id: int,
        epoch: int = 0,
        outcome: Outcome = Outcome.COMMIT,
        *,
        coordinator_epoch: int = 1,
        version: int = 0,
        attempt: int = -1,
        leader_epoch: int = -1,
        waiter: object = "m",
    ) -> tuple[AppendResult, Effects]:
        """A coordinator's marker arrives."""
        return self.replica.role.write_marker(
            MarkerToWrite(
                producer_id=producer_id,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                outcome=outcome,
                transaction_version=version,
                attempt=attempt,
                leader_epoch=leader_epoch,
            ),
            waiter=waiter,
            expires_ms=self.now_ms + 10_000,
            now_ms=self.now_ms,
            wall_ms=WALL_MS + self.now_ms,
        )

    def commit_all(self) -> None:
        """Brokers 2 and 3 fetch all that there is."""
        for replica_id in (2, 3):
            self.fetch(replica_id, self.log.log_end_offset)
        assert self.high_watermark == self.log.log_end_offset

    def fetch(
        self,
        replica_id: int,
        fetch_offset: int,
        *,
        leader_epoch: int | None = None,
        last_fetched_epoch: int | None = None,
        broker_epoch: int | None = None,
        log_start_offset: int = 0,
        contact: Contact | None = None,
        mark: LogMark | None = None,
    ) -> tuple[FetchResult, Effects]:
        """A follower's fetch, by default in the current epoch with the log that this leader has."""
        if last_fetched_epoch is None:
            last_fetched_epoch = self.log.epochs.epoch_at(fetch_offset - 1) if fetch_offset else -1
        fetch = ReplicaFetch(
            replica_id,
            BrokerEpoch(10 * replica_id if broker_epoch is None else broker_epoch),
            FetchPosition(
                fetch_offset,
                LeaderEpoch(last_fetched_epoch),
                LeaderEpoch(self.replica.leader_epoch if leader_epoch is None else leader_epoch),
                log_start_offset,
            ),
            max_bytes=1 << 20,
            contact=contact,
            mark=mark,
        )
        return self.replica.role.on_replica_fetch(fetch, now_ms=self.now_ms)

    def follow(self, replica_id: int, fetch_offset: int) -> tuple[FetchResult, Effects]:
        """A fetch that comes at once in answer to what the leader sent just now."""
        contact = Contact()
        contact.on_answer(self.now_ms)
        contact.on_request(self.now_ms)
        return self.fetch(replica_id, fetch_offset, contact=contact)

    def delete(
        self, before_offset: int, waiter: object = "d", *, timeout_ms: int = 10_000
    ) -> tuple[DeletionResult, Effects]:
        return self.replica.role.delete_records(
            before_offset, waiter=waiter, expires_ms=self.now_ms + timeout_ms, now_ms=self.now_ms
        )

    def stored(self, log_start_offset: int) -> Effects:
        """The shell made the log start durable."""
        return self.replica.role.on_log_start_stored(log_start_offset, now_ms=self.now_ms)

    def consume(
        self,
        fetch_offset: int,
        *,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        is_debugging: bool = False,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        max_bytes: int = 1 << 20,
    ) -> FetchResult:
        position = FetchPosition(fetch_offset, LeaderEpoch(last_fetched_epoch), LeaderEpoch(leader_epoch))
        fetch = ConsumerFetch(position, max_bytes, is_debugging=is_debugging, isolation=isolation)
        return self.replica.role.on_consumer_fetch(fetch, now_ms=self.now_ms)[0]

    def fetched(
        self, fetched: LeaderAnswer, *, leader_epoch: int | None = None, fetch_offset: int | None = None
    ) -> Effects:
        """The leader's answer arrives, by default to the fetch that the replica would send now."""
        return as_follower(self.replica).on_fetched(
            fetched,
            asked=FetchPosition(
                self.log.log_end_offset if fetch_offset is None else fetch_offset,
                LeaderEpoch(self.log.epochs.latest),
                LeaderEpoch(self.replica.leader_epoch if leader_epoch is None else leader_epoch),
                self.log.log_start_offset,
            ),
            now_ms=self.now_ms,
            wall_ms=WALL_MS + self.now_ms,
        )

    def tick(self, after_ms: int = 0) -> Effects:
        self.now_ms += after_ms
        return self.replica.role.on_tick(self.now_ms)


def log_of(*epochs: int, start: int = 0) -> MemoryLog:
    """A log with one record per given leader epoch."""
    log = MemoryLog(log_start_offset=start)
    for epoch in epochs:
        data = batch_of(base_offset=log.log_end_offset, leader_epoch=epoch)
        log.append((decode_header(data),), (data,), now_ms=WALL_MS)
    return log


def records_of(log: MemoryLog, first_offset: int = 0) -> bytes:
    return b"".join(data for header, data in log.batches if header.base_offset >= first_offset)


def leading(**state: object) -> Bench:
    """Return a bench whose broker leads with an empty log, under `partition_state(**state)`."""
    bench = Bench()
    bench.apply(**state)
    return bench


def leader_of(bench: Bench) -> Leader:
    assert isinstance(bench.replica.role, Leader)
    return bench.replica.role


def as_follower(replica: Replica) -> Follower:
    assert isinstance(replica.role, Follower)
    return replica.role
