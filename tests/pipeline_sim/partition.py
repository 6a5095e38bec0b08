"""One partition of a simulated cluster, by Kafka's rules, with everything that may go wrong with it.

Three replicas. The leader's log is written, the others copy prefixes of it; the high watermark is what the
in-sync ones have. The producer state is the leader's, rebuilt from its log at every election, and forgotten
when a producer has been silent for the expiration time.

`is_wide`: duplicates as Springtide's brokers see them (anything within the gapless run); else as Kafka's do
(the last five batches, cut as they were).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd

REPLICAS = 3
REMEMBERED = 5
EXPIRATION_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """`records` are names that tell micro-batch, task and place; `batch_id` is for the oracle only."""

    base_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[str, ...]
    batch_id: int
    appended_ms: int

    @property
    def last_sequence(self) -> int:
        return self.base_sequence + len(self.records) - 1

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.records)


@dataclass(slots=True)
class ProducerMemory:
    epoch: int
    batches: list[StoredBatch] = field(default_factory=list)
    run_start: int = 0
    heard_ms: int = 0


@dataclass(frozen=True, slots=True)
class Appended:
    """The batch is in the leader's log; it is committed when the high watermark reaches `wanted`.

    base_offset: where it was appended now; -1: a duplicate.
    """

    wanted: int
    base_offset: int = -1


class SimulatedPartition:
    def __init__(self, *, is_wide: bool, topic_id: int = 0) -> None:
        self.is_wide = is_wide
        self.topic_id = topic_id
        self.leader = 0
        self.leader_epoch = 0
        self.log: list[StoredBatch] = []
        self.ends = [0] * REPLICAS
        self.in_sync = set(range(REPLICAS))
        self.high_watermark = 0
        self.producers: dict[int, ProducerMemory] = {}
        self.epoch_starts: list[tuple[int, int]] = [(0, 0)]
        self.cut: list[StoredBatch] = []
        """Batches that an unclean election took although they were committed."""

    @property
    def log_end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    # What clients ask.

    def describe(self, producer_id: int, now_ms: int) -> tuple[int, int]:
        """(epoch, last sequence), or (-1, -1)."""
        self._expire(now_ms)
        memory = self.producers.get(producer_id)
        if memory is None:
            return -1, -1
        return memory.epoch, memory.batches[-1].last_sequence

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """The largest epoch at or below, and where the next one begins."""
        found = EpochEnd(-1, -1)
        ends = [start for _, start in self.epoch_starts[1:]] + [self.log_end]
        for (epoch, _), end in zip(self.epoch_starts, ends, strict=True):
            if epoch <= leader_epoch:
                found = EpochEnd(epoch, end)
        return found

    def produce(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        records: tuple[str, ...],
        batch_id: int,
        now_ms: int,
    ) -> Appended | ErrorCode:
        self._expire(now_ms)
        checked = self._check(producer_id, producer_epoch, base_sequence, len(records))
        if isinstance(checked, ErrorCode | Appended):
            return checked
        batch = StoredBatch(
            self.log_end,
            self.leader_epoch,
            producer_id,
            producer_epoch,
            base_sequence,
            records,
            batch_id,
            now_ms,
        )
        self.log.append(batch)
        self._remember(batch)
        self._advance()
        return Appended(batch.next_offset, batch.base_offset)

    def _check(self, producer_id: int, epoch: int, first: int, count: int) -> ErrorCode | Appended | None:
        """None: append it."""
        memory = self.producers.get(producer_id)
        if memory is None:
            return None  # KIP-360: whatever its sequence
        if epoch < memory.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > memory.epoch:
            return None if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        last = first + count - 1
        newest = memory.batches[-1].last_sequence
        if first == newest + 1:
            return None
        for batch in memory.batches[-REMEMBERED:]:
            if (batch.base_sequence, batch.last_sequence) == (first, last):
                return Appended(batch.next_offset)
        if self.is_wide and memory.run_start <= first and last <= newest:
            return Appended(memory.batches[-1].next_offset)
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _remember(self, batch: StoredBatch) -> None:
        memory = self.producers.get(batch.producer_id)
        if memory is None or memory.epoch != batch.producer_epoch:
            memory = self.producers[batch.producer_id] = ProducerMemory(batch.producer_epoch)
        if not memory.batches or memory.batches[-1].last_sequence + 1 != batch.base_sequence:
            memory.run_start = batch.base_sequence
        memory.batches.append(batch)
        memory.heard_ms = batch.appended_ms

    def _expire(self, now_ms: int) -> None:
        for producer_id, memory in list(self.producers.items()):
            if now_ms - memory.heard_ms >= EXPIRATION_MS:
                del self.producers[producer_id]

    # What happens to it.

    def make_again(self) -> None:
        """The topic is deleted and created again: an empty log under the same name, leader and epoch."""
        self.__init__(is_wide=self.is_wide, topic_id=self.topic_id + 1)  # type: ignore[misc]

    def replicate(self, replica: int, to_offset: int) -> None:
        """A follower copies the log up to the end of the batch that holds `to_offset`."""
        ends = [batch.next_offset for batch in self.log if batch.next_offset <= to_offset]
        self.ends[replica] = max(self.ends[replica], ends[-1] if ends else 0)
        self._advance()

    def replicate_all(self) -> None:
        self.in_sync = set(range(REPLICAS))
        self.ends = [self.log_end] * REPLICAS
        self._advance()

    def shrink(self, replica: int) -> None:
        """A follower drops out of the in-sync set, and no longer holds the high watermark back."""
        if replica != self.leader:
            self.in_sync.discard(replica)
            self._advance()

    def expand(self, replica: int) -> None:
        if self.ends[replica] >= self.high_watermark:
            self.in_sync.add(replica)

    def elect(self, replica: int) -> bool:
        """Another leader, or the same again, under the next epoch. True if committed records are lost."""
        end = self.ends[replica]
        is_unclean = end < self.high_watermark
        self.cut += [
            batch
            for batch in self.log
            if batch.next_offset > end and batch.next_offset <= self.high_watermark
        ]
        self.log = [batch for batch in self.log if batch.next_offset <= end]
        self.ends = [min(each, end) for each in self.ends]
        self.leader = replica
        self.in_sync.add(replica)
        if is_unclean:
            self.in_sync = {replica}
            self.high_watermark = end
        self.leader_epoch += 1
        self.epoch_starts = [start for start in self.epoch_starts if start[1] < end]
        self.epoch_starts.append((self.leader_epoch, end))
        self.producers = {}
        for batch in self.log:
            self._remember(batch)
        self._advance()
        return is_unclean

    def _advance(self) -> None:
        self.ends[self.leader] = self.log_end
        self.high_watermark = max(self.high_watermark, min(self.ends[replica] for replica in self.in_sync))
