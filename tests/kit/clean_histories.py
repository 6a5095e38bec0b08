"""Seeded histories of a log that keeps every promise, with what a real run has in it: overlapping sends,
unknown outcomes of both fates, refusals, retries without idempotence, several readers, faults, a final read
and the replicas' contents."""

from __future__ import annotations

from random import Random

from tests.checker.builder import HistoryBuilder
from tests.checker.history import NO_OFFSET, Batch, Function, Item, Key, Operation, Outcome, Sequence

PRODUCERS = 3
REPLICAS = 3
RECORDS_PER_BATCH_MAX = 4


def make_clean_history(
    seed: int, *, sends: int = 60, keys: tuple[Key, ...] = (("orders", 0), ("t2", 1))
) -> list[Operation]:
    """Operations in order of completion. Every partition has at least two acknowledged batches."""
    run = _Run(Random(seed))
    for number in range(sends):
        run.send(keys[number % len(keys)])
        if run.random.random() < 0.4:
            run.poll(run.random.choice(keys), f"c{run.random.randrange(2)}")
        if run.random.random() < 0.05:
            run.builder.fault("a leader was killed", at=(run.now_ms, run.now_ms + 3))
    for key in keys:
        run.finish(key)
    return sorted(run.builder.operations, key=lambda operation: operation.t_return_ns)


class _Run:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.builder = HistoryBuilder(f"run{random.randrange(10**6)}")
        self.now_ms = 0
        self.logs: dict[Key, list[str]] = {}
        self.batches: dict[Key, list[Batch]] = {}
        self.sequences: dict[tuple[str, Key], int] = {}
        self.positions: dict[tuple[str, Key], int] = {}

    def send(self, key: Key) -> None:
        """A producer's batch: mostly acknowledged, sometimes unknown (written or not), sometimes refused."""
        builder, random = self.builder, self.random
        number = random.randrange(PRODUCERS)
        process = f"p{number}"
        values = [builder.new_value(key, process) for _ in range(random.randint(1, RECORDS_PER_BATCH_MAX))]
        # Overlaps the sends after it, but a process's own sends begin in order.
        at = (self.now_ms, self.now_ms + random.randint(1, 8))
        self.now_ms += 2
        fate = random.random()
        if fate < 0.05:
            items = [(NO_OFFSET, value) for value in values]
            builder.send(process, key, items, type=Outcome.FAIL, error="NOT_ENOUGH_REPLICAS", at=at)
            return
        sequence = self.sequences.get((process, key), 0)
        producer = Sequence(id=number, epoch=0, sequence=sequence)
        log = self.logs.setdefault(key, [])
        if fate < 0.1:
            builder.send_unknown(process, key, values, at=at)
            return
        base = len(log)
        log.extend(values)
        self.sequences[(process, key)] = sequence + len(values)
        self.batches.setdefault(key, []).append(
            Batch(
                base_offset=base,
                record_count=len(values),
                leader_epoch=base // 40,
                producer_id=number,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
        if fate < 0.15:
            builder.send_unknown(process, key, values, producer=producer, at=at)
        else:
            items = [(base + position, value) for position, value in enumerate(values)]
            builder.send(process, key, items, producer=producer, at=at)

    def poll(self, key: Key, process: str) -> None:
        """Takes time after everything so far, so that what it returns was there."""
        self.now_ms += 10
        log = self.logs.get(key, [])
        position = self.positions.get((process, key))
        at = (self.now_ms, self.now_ms + 1)
        if position is None or self.random.random() < 0.1:
            position = self.random.randint(0, len(log))
            self.builder.assign(process, key, from_offset=position, at=(self.now_ms, self.now_ms))
        items = self.read(key, position, self.random.randint(1, 12))
        self.positions[(process, key)] = position + len(items)
        self.builder.poll(process, key, items, high_watermark=len(log), log_start_offset=0, at=at)
        self.now_ms += 2

    def read(self, key: Key, position: int, records: int) -> list[Item]:
        log = self.logs.get(key, [])
        return list(enumerate(log[position : position + records], start=position))

    def finish(self, key: Key) -> None:
        """Two more batches, the final read in several polls, and the replicas."""
        while sum(o.type is Outcome.OK and o.f is Function.SEND and o.key == key for o in self.ops) < 2:
            self.send(key)
        self.now_ms += 20
        process = "final"
        end = len(self.logs[key])
        self.builder.assign(process, key, from_offset=0, at=(self.now_ms, self.now_ms))
        position = 0
        while position < end:
            items = self.read(key, position, self.random.randint(3, 9))
            at = (self.now_ms, self.now_ms + 1)
            self.builder.poll(process, key, items, final=True, high_watermark=end, at=at)
            position += len(items)
            self.now_ms += 2
        for replica in range(REPLICAS):
            at = (self.now_ms, self.now_ms + 1)
            items = self.read(key, 0, end)
            self.builder.dump(
                f"broker-{replica}", key, items, batches=self.batches[key], high_watermark=end, at=at
            )
        self.now_ms += 2

    @property
    def ops(self) -> list[Operation]:
        return self.builder.operations
