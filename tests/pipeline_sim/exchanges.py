"""What a client's request is to the simulation: a generator that yields wherever the network has its say.

Each `yield` is one way of the network, or a wait at the broker. Whoever runs it may stop listening at any of
them; the request then still arrives later, or never. The generator's value is the event for the delivery.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from zlib import crc32

from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.log_trace import LogTrace, TracedBatch
from pipeline.sink.steps import (
    Batch,
    Checked,
    Described,
    NoUsableAnswer,
    Scan,
    Scanned,
    SendAnswered,
    is_whole,
    scan_start,
)
from springtide.wire.errors import ErrorCode
from tests.pipeline_sim.partition import Appended, SimulatedPartition

NOT_LEADER = NoUsableAnswer("not the leader")


@dataclass(slots=True)
class Clock:
    now_ms: int


def records_of(batch: Batch) -> tuple[str, ...]:
    return tuple(batch.data.decode().split())


def data_of(records: Sequence[str]) -> bytes:
    return " ".join(records).encode()


def list_offset(
    partition: SimulatedPartition, leader: int
) -> Generator[None, None, Checked | NoUsableAnswer]:
    yield
    if partition.leader != leader:
        return NOT_LEADER
    if partition.high_watermark < partition.epoch_starts[-1][1]:  # KIP-207
        return NoUsableAnswer("offset not available")
    checked = Checked(partition.leader_epoch, partition.high_watermark)
    yield
    return checked


def describe(
    partition: SimulatedPartition, leader: int, identity: ProducerIdentity, clock: Clock
) -> Generator[None, None, Described | NoUsableAnswer]:
    yield
    if partition.leader != leader:
        return NOT_LEADER
    epoch, last = partition.describe(identity.producer_id, clock.now_ms)
    yield
    checked = yield from list_offset(partition, leader)
    if isinstance(checked, NoUsableAnswer):
        return checked
    end_offset = -1
    if epoch == identity.producer_epoch:
        yield
        if partition.leader != leader:
            return NOT_LEADER
        end_offset = partition.epoch_end(checked.leader_epoch).end_offset
        yield
    return Described(checked.leader_epoch, epoch, last, end_offset)


def scan(
    partition: SimulatedPartition,
    leader: int,
    identity: ProducerIdentity,
    scan: Scan,
    read_back: list[str],
    is_to_log_end: bool,
    topic_id: int | None = None,
) -> Generator[None, None, Scanned | NoUsableAnswer]:
    """`read_back` is given the records of the identity. is_to_log_end: a planted bug. topic_id: that is
    asked for; None: whichever has the name."""
    before = yield from list_offset(partition, leader)
    if isinstance(before, NoUsableAnswer):
        return before
    yield
    if partition.leader != leader:
        return NOT_LEADER
    known = scan.known
    if known is not None and is_whole(known, partition.epoch_end(known.leader_epoch)):
        start, trace = known.offset, LogTrace(identity, after_sequence=known.sequence)
    else:
        start = scan_start(scan, partition.epoch_end(scan.leader_epoch), log_start_offset=0)
        trace = LogTrace(identity)
    end_offset = partition.log_end if is_to_log_end else before.high_watermark
    position = start
    while position < end_offset:
        yield
        if partition.leader != leader:
            return NOT_LEADER
        if topic_id not in (None, partition.topic_id):
            return NoUsableAnswer("unknown topic id")
        found = [
            batch
            for batch in partition.log
            if batch.next_offset > position and batch.next_offset <= end_offset
        ][:3]
        if not found:
            return NoUsableAnswer("nothing there")
        position = found[-1].next_offset
        ours = [batch for batch in found if batch.producer_id == identity.producer_id]
        for batch in ours:
            if batch.producer_epoch == identity.producer_epoch:
                read_back.extend(batch.records)
        trace.add(
            TracedBatch(
                batch.producer_epoch, batch.base_sequence, len(batch.records), crc32(data_of(batch.records))
            )
            for batch in ours
        )
    after = yield from list_offset(partition, leader)
    if isinstance(after, NoUsableAnswer):
        return after
    if after.leader_epoch != before.leader_epoch:
        return NoUsableAnswer("the leader changed meanwhile")
    return trace.summary(leader_epoch=after.leader_epoch, end_offset=max(start, end_offset))


def produce(
    partition: SimulatedPartition,
    leader: int,
    identity: ProducerIdentity,
    batch: Batch,
    batch_id: int,
    clock: Clock,
    topic_id: int | None = None,
) -> Generator[None, None, SendAnswered | NoUsableAnswer]:
    """topic_id: as of `scan`."""
    yield
    if partition.leader != leader:
        return SendAnswered(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if topic_id not in (None, partition.topic_id):
        return SendAnswered(ErrorCode.UNKNOWN_TOPIC_ID)
    result = partition.produce(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=batch.base_sequence,
        records=records_of(batch),
        batch_id=batch_id,
        now_ms=clock.now_ms,
    )
    if isinstance(result, Appended):
        log = partition.topic_id, partition.leader_epoch
        while partition.high_watermark < result.wanted:
            yield
            if (partition.topic_id, partition.leader_epoch) != log:
                return SendAnswered(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        yield
        return SendAnswered(ErrorCode.NONE, base_offset=result.base_offset)
    yield
    return SendAnswered(result)
