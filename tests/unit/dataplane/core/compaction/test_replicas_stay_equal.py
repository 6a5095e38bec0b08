"""Replicas that apply rounds of compaction: they end equal, keep the newest of each key, and no deleted key
returns (I35, compacted replicas are equal). Logs are lists of batches here; what storage does around the same
calls is tested there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import (
    Round,
    decode_round,
    encode_round,
    is_round_key,
    must_restart,
    must_restart_after_cut,
    next_round,
)
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.compression import Compression
from springtide.wire.record_batch import BatchHeader, decode_header
from springtide.wire.records import NewRecord, Record, encode_batch, iter_records

KEYS = [b"a", b"bb", b"a key of more than sixteen bytes", b"another key of more than sixteen bytes"]
CODECS = [Compression.NONE, Compression.NONE, Compression.LZ4, Compression.GZIP]
DELETE_RETENTION_MS = 20


@dataclass
class Log:
    """One replica's log: whole batches in order, and what it remembers of rounds."""

    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    applied: Round | None = None
    applied_at: int | None = None
    floor_known: int = 0
    complete_from: int = 0
    """What was copied below this offset may lack older records, whose newer ones are not copied yet."""

    def headers(self) -> Iterator[tuple[memoryview, BatchHeader]]:
        for batch in self.batches:
            yield memoryview(batch), decode_header(batch)

    def append(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.end = decode_header(batch).next_offset

    def records(self) -> list[Record]:
        return [r for view, header in self.headers() if not header.is_control for r in iter_records(view)]

    def table(self) -> Mapping[bytes, bytes]:
        return table_of(self.records())

    def restart(self, leader: Log) -> None:
        self.batches, self.end, self.applied, self.applied_at = [], 0, None, None
        self.floor_known = leader.applied.tombstone_floor if leader.applied else 0
        self.complete_from = 0

    def apply_rounds(self, high_watermark: int, keys_max: int) -> None:
        """Apply the rounds in the log below the high watermark, oldest first."""
        for offset, round_ in list(self._rounds(high_watermark)):
            reaches = self.applied.end_offset if self.applied else 0
            while reaches < round_.end_offset:
                reaches = self._pass(round_, reaches, keys_max)
            self.applied, self.applied_at = round_, offset

    def _rounds(self, high_watermark: int) -> Iterator[tuple[int, Round]]:
        for view, header in self.headers():
            if header.is_control and header.record_count and header.next_offset <= high_watermark:
                (record,) = iter_records(view)
                round_ = decode_round(record.value)
                assert is_round_key(record.key)
                if self.applied_at is None or record.offset > self.applied_at:
                    yield record.offset, round_

    def _pass(self, round_: Round, from_offset: int, keys_max: int) -> int:
        rewrite = Rewrite(round_, from_offset=from_offset, keys_max=keys_max)
        for view, header in self.headers():
            rewrite.read(view, header)
        left = (rewrite.rewritten(header, view.toreadonly) for view, header in self.headers())
        self.batches = [bytes(batch) for batch in left if batch is not None]
        return rewrite.reaches


def table_of(records: list[Record]) -> dict[bytes, bytes]:
    """Return the newest value of each key that is not deleted."""
    table: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


class World:
    """A leader, a follower and a third that lags, starts anew and is sometimes elected uncleanly."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.logs = [Log(), Log(), Log()]
        self.leader = 0
        self.epoch = 0
        self.now_ms = 0
        self.history: list[Record] = []
        """Every record of the surviving line, compacted never."""

    def step(self) -> None:
        weights = {
            self.produce: 6,
            self.fetch: 6,
            self.decide: 6,
            self.apply: 6,
            self.elect: 0.3,
            self.wait: 4,
            self.wipe: 0.5,
        }
        self.rng.choices(list(weights), list(weights.values()))[0]()
        self.check()

    @property
    def leading(self) -> Log:
        return self.logs[self.leader]

    @property
    def high_watermark(self) -> int:
        """The log end of the second best: two of three hold it."""
        return sorted(log.end for log in self.logs)[1]

    def produce(self) -> None:
        records = [
            NewRecord(
                self.rng.choice(KEYS), self.rng.choice([None, b"%d" % self.rng.randrange(999)]), self.now_ms
            )
            for _ in range(self.rng.randint(1, 3))
        ]
        producer_id = self.rng.choice([-1, 7, 8])
        batch = encode_batch(
            records,
            base_offset=self.leading.end,
            leader_epoch=self.epoch,
            compression=self.rng.choice(CODECS),
            producer_id=producer_id,
            producer_epoch=min(0, producer_id),
            base_sequence=min(0, producer_id),
        )
        self.leading.append(batch)
        self.history += iter_records(batch)

    def fetch(self) -> None:
        self.copy(*self.rng.choice([(0, 9), (1, 9), (2, 1)]))

    def copy(self, who: int, batches_max: int) -> None:
        log, leader = self.logs[who], self.leading
        if log is leader:
            return
        floor = leader.applied.tombstone_floor if leader.applied else 0
        if must_restart(log_end_offset=log.end, floor_known=log.floor_known, leader_floor=floor):
            log.restart(leader)
        wanted = [
            batch
            for batch, (_, header) in zip(leader.batches, leader.headers(), strict=True)
            if header.next_offset > log.end
        ]
        for batch in wanted[:batches_max]:
            log.append(batch)
        if leader.applied:
            log.complete_from = max(log.complete_from, leader.applied.end_offset)
        if log.end >= floor:
            log.floor_known = max(log.floor_known, floor)

    def decide(self) -> None:
        last = self._last_round()
        ends = [h.next_offset for _, h in self.leading.headers() if h.next_offset <= self.high_watermark]
        ends = [end for end in ends if last is None or end > last.end_offset]
        if not ends or (last is not None and last != self.leading.applied):
            return
        round_ = next_round(
            last,
            end_offset=self.rng.choice(ends),
            now_ms=self.now_ms,
            delete_retention_ms=DELETE_RETENTION_MS,
            log_ends=[log.end for log in self.logs if self.rng.random() < 0.8],  # one may be away
            producers_floor=0,
        )
        self.leading.append(
            encode_round(round_, leader_epoch=LeaderEpoch(self.epoch), base_offset=self.leading.end)
        )

    def _last_round(self) -> Round | None:
        found = [
            decode_round(record.value)
            for view, header in self.leading.headers()
            if header.is_control and header.record_count
            for record in iter_records(view)
        ]
        return max(found, default=None)

    def apply(self) -> None:
        self.rng.choice(self.logs).apply_rounds(self.high_watermark, keys_max=self.rng.choice([1, 2, 9]))

    def wait(self) -> None:
        self.now_ms += self.rng.randrange(DELETE_RETENTION_MS)

    def wipe(self) -> None:
        """The third starts anew: a learner, which copies while rounds go on."""
        if self.leader != 2:
            self.logs[2].restart(self.leading)

    def elect(self) -> None:
        """Elect the follower with the longest log, or any that is whole (an unclean election): logs that are
        longer are cut."""
        whole = [n for n, log in enumerate(self.logs) if log.end >= log.complete_from]
        clean = max(whole, key=lambda n: self.logs[n].end)
        self.leader = self.rng.choice(whole) if self.rng.random() < 0.3 else clean
        self.epoch += 1
        end = self.leading.end
        self.history = [record for record in self.history if record.offset < end]
        for log in self.logs:
            if log.end > end:
                if must_restart_after_cut(cut_to=end, applied_at=log.applied_at) or log.complete_from > end:
                    log.restart(self.leading)
                else:
                    log.batches = [
                        b
                        for b, (_, h) in zip(log.batches, log.headers(), strict=True)
                        if h.next_offset <= end
                    ]
                    log.end = end

    def check(self) -> None:
        for log in self.logs:
            if log.end >= log.complete_from:
                assert log.table() == table_of([r for r in self.history if r.offset < log.end])
        for one in self.logs:
            for other in self.logs:
                if one.end == other.end and one.applied_at == other.applied_at and one.applied:
                    below = one.applied.end_offset
                    assert [b for b in one.batches if decode_header(b).base_offset < below] == [
                        b for b in other.batches if decode_header(b).base_offset < below
                    ]

    def settle(self) -> None:
        for _ in range(3):
            for who in range(3):
                self.copy(who, batches_max=10_000)
            for log in self.logs:
                log.apply_rounds(self.high_watermark, keys_max=2)
            self.check()
        assert self.logs[0].batches == self.logs[1].batches == self.logs[2].batches


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_replicas_end_equal_and_keep_the_newest_of_each_key(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(120):
        world.step()
    world.settle()
