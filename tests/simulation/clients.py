"""Clients of the simulated cluster: producers that retry, producers that don't, and readers.

Metadata comes from a random broker that is up, so it may be old; a client ignores what is older than what it
knows (KIP-320).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from dataplane.core.fetch_session import FetchPosition
from dataplane.core.results import DeletionResult
from dataplane.core.transactions import IsolationLevel
from springtide.contract.partition_state import NO_LEADER, PartitionKey
from springtide.wire import produced_records
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import AbortedTransaction, EpochEnd
from springtide.wire.record_batch import HEADER_BYTES, crc_is_valid, decode_header, iter_headers
from springtide.wire.records import NewRecord, encode_batch, seal_batch
from tests.simulation.clock import WALL_START_MS
from tests.simulation.compaction import keyed
from tests.simulation.events import keyed_random
from tests.simulation.oracle import Content, content_of
from tests.simulation.violation import Violation

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

#: How long a client waits for an answer before it asks again, perhaps somebody else.
REQUEST_TIMEOUT_MS = 1_500
DELETION_TIMEOUT_MS = 5_000
BACKOFF_MS = (20.0, 400.0)
READ_BYTES_MAX = 4_096
FOLLOWER_READS = 0.4
"""Of a consumer's fetches, how many go to a replica that need not be the leader."""
DEBUGGING_READS = 0.1
"""Of those, how many come to see what that replica holds."""
HEADER_LIES = 0.2
"""Of the batches, how many have a maximum timestamp that is not their records'."""
HEADER_AGE_MS = 8 * 24 * 60 * 60 * 1000
ACKS_ALL = -1


def told_wrong(batch: bytes, at_ms: int, random: Random) -> bytes:
    """The batch as a client may write it that leaves its header's maximum timestamp, or fills it with what it
    likes. A leader makes it what it was."""
    if random.random() >= HEADER_LIES:
        return batch
    claimed = random.choice((-1, 0, at_ms - HEADER_AGE_MS, at_ms + HEADER_AGE_MS, 2**63 - 1))
    return seal_batch(decode_header(batch)._replace(max_timestamp=claimed), batch[HEADER_BYTES:])


class TxnOfClient(NamedTuple):
    """What a producer says of the transaction of its batch."""

    transactional_id: str
    is_v2: bool


class ProduceCall(NamedTuple):
    key: PartitionKey
    batch: bytes
    acks: int
    txn: TxnOfClient | None = None


class ProduceAnswer(NamedTuple):
    error: ErrorCode
    base_offset: int


class ReadCall(NamedTuple):
    """A consumer's fetch; with `offset` None, its question for the latest offset. is_debugging: it wants to
    see what this replica holds, whatever its role."""

    key: PartitionKey
    leader_epoch: int
    offset: int | None
    is_debugging: bool = False
    last_fetched_epoch: int = -1
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED


class MendCall(NamedTuple):
    """What a replica that mends asks its leader for as its follower, in no session -> LeaderAnswer."""

    broker_id: int
    broker_epoch: int
    key: PartitionKey
    position: FetchPosition


class ReadAnswer(NamedTuple):
    error: ErrorCode
    high_watermark: int
    parts: tuple[bytes, ...]
    log_start_offset: int = -1
    diverging: EpochEnd | None = None
    tombstone_floor: int = 0
    aborted: tuple[AbortedTransaction, ...] = ()


class DeleteCall(NamedTuple):
    """DeleteRecords -> DeletionResult."""

    key: PartitionKey
    before_offset: int


@dataclass(slots=True, eq=False)
class Sending:
    """One batch from its making until it is acknowledged. was_first: when it was last sent, everything before
    it had been acknowledged, so that nothing excuses an answer of "out of order"."""

    batch: bytes
    content: Content
    records: int
    was_first: bool = False
    is_out: bool = False
    open: Any = None  # of the history


@dataclass(slots=True)
class Producer:
    """An idempotent one retries each batch until it is acknowledged, with several in flight; the other kind
    sends each batch once."""

    producer_id: int
    key: PartitionKey
    random: Random
    sequence: int = 0
    acks: int = ACKS_ALL
    is_idempotent: bool = True
    in_flight_max: int = 1
    in_flight: deque[Sending] = field(default_factory=deque)
    acked: list[tuple[int, Content]] = field(default_factory=list)  # (base offset, what)
    stopped: bool = False
    #: It was given up, and does not start again.
    is_over: bool = False
    has_room_to_fill: bool = False
    attempts: int = 0
    #: A new one after each failure, when everything that was out has come back; then all is sent again in
    #: order, as a client with idempotence does.
    connection: int = 0
    is_failing: bool = False
    backoff_ms: float = 0.0
    #: Highest leader epoch that metadata ever told: older metadata is ignored, as clients do since KIP-320.
    leader_epoch: int = -1

    @property
    def name(self) -> str:
        return f"producer {self.producer_id}"

    @property
    def batch(self) -> bytes | None:
        """The first one that waits for its acknowledgement."""
        return self.in_flight[0].batch if self.in_flight else None


@dataclass(slots=True)
class Consumer:
    """Reads one partition from its beginning, and asks for its end now and then."""

    consumer_id: int
    key: PartitionKey
    random: Random
    position: int = 0
    end_seen: int = 0
    leader_epoch: int = -1
    stopped: bool = False


class Clients:
    """Drives them all."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.events = cluster.events
        self.acked = 0
        self.read = 0
        self.refused = 0

    def leader_of(self, client: Producer | Consumer) -> int | None:
        up = [
            b for b in self.cluster.brokers.values() if b.is_up and not b.is_paused and client.key in b.states
        ]
        if not up:
            return None
        state = client.random.choice(up).states[client.key]
        if state.leader == NO_LEADER or state.leader_epoch < client.leader_epoch:
            return None
        client.leader_epoch = state.leader_epoch
        return state.leader

    # --- producing --------------------------------------------------------------------------------------

    def produce(self, producer: Producer) -> None:
        """Make the next batch and send it; then again, after the producer's pace."""
        if producer.stopped:
            return
        if len(producer.in_flight) >= producer.in_flight_max or producer.is_failing:
            producer.has_room_to_fill = True  # the next acknowledgement goes on
            return
        options = self.cluster.options
        random = producer.random
        count = 1 + int(random.random() * options.records_max)
        first = producer.sequence
        values = tuple(f"{producer.producer_id}/{first + i}" for i in range(count))
        at_ms = WALL_START_MS + self.events.now_ms  # clients' clocks are right
        records = [NewRecord(timestamp=at_ms, key=None, value=value.encode()) for value in values]
        if options.compacted:
            records = keyed(records, first, random)
        if producer.is_idempotent:
            batch = encode_batch(
                records,
                producer_id=producer.producer_id,
                producer_epoch=0,
                base_sequence=first,
            )
        else:
            batch = encode_batch(records)
        producer.sequence = first + count
        lie = keyed_random(self.cluster.seed, "header lies", producer.producer_id, first)
        sent = memoryview(told_wrong(batch, at_ms, lie))
        stored = produced_records.check_produced_records(
            sent, decode_header(sent), decompressed_bytes_max=len(sent)
        )
        sending = Sending(bytes(sent), content_of(stored.header), count)
        history = self.cluster.history
        if history is not None:
            sending.open = history.begin_send(
                f"producer-{producer.producer_id}", producer.key, batch, acks=producer.acks, values=values
            )
        producer.in_flight.append(sending)
        self._send(producer, sending)
        self.events.after(options.pace_ms * (0.2 + 1.6 * random.random()), lambda: self.produce(producer))

    def _send(self, producer: Producer, sending: Sending) -> None:
        if producer.is_failing:
            return  # it goes out with the others, in order
        leader = self.leader_of(producer)
        if leader is None:
            self._fail(producer, sending)
            return
        producer.attempts += 1
        sending.was_first = producer.in_flight[0] is sending
        sending.is_out = True
        self.cluster.marks.on_asked(sending, leader)
        call = ProduceCall(producer.key, sending.batch, producer.acks)

        def lost() -> None:
            sending.is_out = False
            if sending.open is not None:
                sending.open.unanswered()
            self._fail(producer, sending)

        def answered(answer: ProduceAnswer) -> None:
            sending.is_out = False
            self._on_answer(producer, sending, answer)

        self.cluster.network.call(
            "client",
            f"broker-{leader}",
            call,
            answered,
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lost,
            connection=(producer.producer_id, producer.connection),
        )

    def _fail(self, producer: Producer, sending: Sending) -> None:
        """One attempt came to nothing: back off, twice as long as the last time, and send all again."""
        if not producer.is_idempotent or producer.key not in self.cluster.living:
            self._forget(producer, sending)
            if sending.open is not None:
                sending.open.give_up()
            return
        if not producer.is_failing:
            producer.is_failing = True
            low, high = BACKOFF_MS
            producer.backoff_ms = min(high, max(low, 2 * producer.backoff_ms))
            delay_ms = producer.backoff_ms * (0.5 + producer.random.random())
            self.events.after(delay_ms, lambda: self._send_again(producer))

    def _send_again(self, producer: Producer) -> None:
        if any(sending.is_out for sending in producer.in_flight):
            self.events.after(50, lambda: self._send_again(producer))
            return
        producer.is_failing = False
        producer.connection += 1
        for sending in list(producer.in_flight):
            self._send(producer, sending)
        if producer.has_room_to_fill and len(producer.in_flight) < producer.in_flight_max:
            producer.has_room_to_fill = False
            self.produce(producer)

    def _forget(self, producer: Producer, sending: Sending) -> None:
        if sending in producer.in_flight:
            producer.in_flight.remove(sending)
        if producer.has_room_to_fill:
            producer.has_room_to_fill = False
            self.produce(producer)

    def _on_answer(self, producer: Producer, sending: Sending, answer: ProduceAnswer) -> None:
        if sending.open is not None:
            # Only acks=all makes an offset one that nothing else will ever stand at.
            base_offset = answer.base_offset if producer.acks == ACKS_ALL else -1
            sending.open.answered(answer.error, base_offset)
        match answer.error:
            case ErrorCode.NONE:
                lost = sending.open is not None and sending.open.had_no_answer
                self.cluster.marks.on_acked(sending, lost=lost)
                if producer.acks == ACKS_ALL:
                    self.cluster.oracle.check_ack(producer.key, sending.content, answer.base_offset)
                    self.acked += sending.records
                    producer.acked.append((answer.base_offset, sending.content))
                    self._check_vouched(producer, sending)
                producer.backoff_ms = 0.0
                self._forget(producer, sending)
            case ErrorCode.INVALID_PRODUCER_EPOCH:
                raise Violation("I23", f"{producer.name} was told {answer.error.name}")
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode.UNKNOWN_PRODUCER_ID if (
                producer.key in self.cluster.oracle.conceded
            ):
                self._give_up(producer)  # what came before was given up by hand
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER | ErrorCode.UNKNOWN_PRODUCER_ID if (
                sending.was_first
                and producer.key in self.cluster.living  # else it has given up what was first
            ):
                raise Violation("I23", f"{producer.name} was told {answer.error.name}")
            case _:
                self.refused += 1
                self._fail(producer, sending)

    def _give_up(self, producer: Producer) -> None:
        """The application takes a new producer, with another id."""
        was_stopped = producer.stopped
        producer.in_flight.clear()
        producer.stopped = producer.is_over = True
        if not was_stopped and producer.key not in self.cluster.oracle.conceded:
            self.produce(self.cluster.add_producer(producer.key))

    def _check_vouched(self, producer: Producer, sending: Sending) -> None:
        """I4, as librdkafka judges: an acknowledged batch vouches for all that its producer sent before it,
        whatever was answered to those."""
        if producer.is_idempotent:
            for earlier in producer.in_flight:
                if earlier is sending:
                    break
                self.cluster.oracle.check_ack(producer.key, earlier.content, -1)

    # --- reading ----------------------------------------------------------------------------------------

    def consume(self, consumer: Consumer) -> None:
        cluster = self.cluster
        if consumer.stopped or consumer.key not in cluster.living or consumer.key in cluster.oracle.conceded:
            return
        pace_ms = self.cluster.options.consumer_pace_ms
        leader = self.leader_of(consumer)
        if leader is None:
            self.events.after(pace_ms, lambda: self.consume(consumer))
            return
        offset = None if consumer.random.random() < 0.1 else consumer.position
        target, is_debugging = leader, False
        if offset is not None and consumer.random.random() < FOLLOWER_READS:
            target = consumer.random.choice(self._replicas_of(consumer.key))
            is_debugging = consumer.random.random() < DEBUGGING_READS
        began_ns = self.events.now_ns

        def answered(answer: ReadAnswer) -> None:
            if answer.error is ErrorCode.NONE and consumer.key not in cluster.oracle.conceded:
                self._on_read(consumer, offset, answer, began_ns)
            elif answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._on_out_of_range(consumer, answer.log_start_offset)
            full = len(answer.parts) > 0
            self.events.after(1 if full else pace_ms, lambda: self.consume(consumer))

        self.cluster.network.call(
            "client",
            f"broker-{target}",
            ReadCall(consumer.key, consumer.leader_epoch, offset, is_debugging),
            answered,
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lambda: self.consume(consumer),
        )

    def _on_out_of_range(self, consumer: Consumer, log_start_offset: int) -> None:
        """What it was about to read was deleted: go on where the log begins."""
        if log_start_offset > consumer.position:
            consumer.position = log_start_offset
            self.cluster.history.assigned(
                f"consumer-{consumer.consumer_id}", consumer.key, from_offset=log_start_offset
            )

    def delete(self, key: PartitionKey, broker_id: int, before_offset: int) -> None:
        """Delete records once, at this broker."""

        def answered(result: DeletionResult) -> None:
            if result.error is ErrorCode.NONE:
                self.cluster.oracle.on_deleted(key, result.low_watermark)

        self.cluster.network.call(
            "client",
            f"broker-{broker_id}",
            DeleteCall(key, before_offset),
            answered,
            timeout_ms=DELETION_TIMEOUT_MS,
            on_timeout=lambda: None,
        )

    def _replicas_of(self, key: PartitionKey) -> tuple[int, ...]:
        state = self.cluster.truth(key)
        # It lives; but a ZooKeeper that went back may not know of it.
        return tuple(self.cluster.brokers) if state is None else state.replicas

    def _on_read(self, consumer: Consumer, offset: int | None, answer: ReadAnswer, began_ns: int) -> None:
        """I18 of what was read; I19: the end, once told, never goes back for who asks again."""
        oracle = self.cluster.oracle
        history = self.cluster.history
        process = f"consumer-{consumer.consumer_id}"
        if offset is None:
            oracle.check_read(consumer.key, 0, (), answer.high_watermark)
            if answer.high_watermark < consumer.end_seen:
                raise Violation(
                    "I19",
                    f"{consumer.key} told consumer {consumer.consumer_id} the end is "
                    f"{answer.high_watermark} after {consumer.end_seen}",
                )
            consumer.end_seen = answer.high_watermark
            if history is not None:
                history.listed_offsets(
                    process, consumer.key, invoked_ns=began_ns, high_watermark=answer.high_watermark
                )
            return
        if not all(_is_intact(memoryview(part)) for part in answer.parts):
            return  # rot that no scrub has found yet: a client refuses it, and asks again
        headers = [header for part in answer.parts for _, header in iter_headers(memoryview(part))]
        oracle.check_read(consumer.key, offset, headers, answer.high_watermark)
        if history is not None:
            history.polled(
                process,
                consumer.key,
                from_offset=offset,
                parts=answer.parts,
                invoked_ns=began_ns,
                high_watermark=None,  # a new leader's may lag, and no client relies on it
                log_start_offset=0,
            )
        if headers:
            consumer.position = headers[-1].next_offset
            self.read += sum(header.record_count for header in headers)


def _is_intact(batches: memoryview) -> bool:
    return all(
        crc_is_valid(batches[position : position + header.size_bytes], header)
        for position, header in iter_headers(batches)
    )
