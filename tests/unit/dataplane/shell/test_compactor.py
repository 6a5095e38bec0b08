"""A broker compacts the logs that it holds: when, what is told of it, and what keeps it from it."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable

import trio

from dataplane.core.log_port import LogError
from dataplane.core.results import TxnContext
from dataplane.core.transactions import MarkerToWrite
from dataplane.shell.compactor import Compactor
from dataplane.shell.hosted import HostedPartition
from dataplane.storage.partition_log import PartitionLog
from dataplane.storage.segment import log_path
from springtide.contract.partition_state import TopicState
from springtide.wire.markers import Outcome
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records
from tests.kit.clocks import WALL_START_MS, EagerClock
from tests.kit.dataplane.node import SMALL_SEGMENTS, TOPIC_ID, InlineThreads, Node, Waiter, state
from tests.kit.dataplane.storage import read_all
from tests.kit.memory.disk import MemoryDisk

KEYS = 5


class Bench:
    """Broker 1 leads a compacted topic; `wrong` and `suspects` are what was told of logs."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        clock: EagerClock | None = None,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.node = Node(self.disk, configs=SMALL_SEGMENTS, clock=clock or EagerClock())
        self.wrong: list[str] = []
        self.suspects: list[int] = []
        self.compactor = Compactor(
            table=self.node.table,
            effects=self.node.effects,
            config=self.node.config,
            clock=self.node.timekeeper,
            threads=InlineThreads(),
            process=None,
            on_log_error=self._on_log_error,
            on_suspect=lambda _hosted, offset: self.suspects.append(offset),
        )

    def _on_log_error(self, _hosted: HostedPartition, error: LogError) -> None:
        self.wrong.append(str(error))

    async def lead(self, *isr: int, **configs: str) -> None:
        topic = TopicState(
            topic_id=TOPIC_ID,
            topic="orders",
            partitions=1,
            replication_factor=1,
            configs={"cleanup.policy": "compact", **{k.replace("_", "."): v for k, v in configs.items()}},
        )
        isr = isr or (1,)
        assert await self.node.apply(state(isr=isr, replicas=isr), topics=(topic,), full=True) == []

    @property
    def log(self) -> PartitionLog:
        return self.node.log()

    def produce(self, count: int, *, value: bytes | None = b"v" * 80, name: bytes = b"key") -> None:
        """`count` batches of one record, their keys in turn."""
        hosted = self.node.hosted()
        for _ in range(count):
            key = b"%b %d" % (name, self.log.log_end_offset % KEYS)
            data = encode_batch([NewRecord(key, value, WALL_START_MS)])
            _, effects = hosted.replica.role.append(
                decode_header(data),
                memoryview(data),
                acks=1,
                waiter=Waiter(),
                expires_ms=2**60,
                now_ms=self.node.clock.mono_ms(),
                wall_ms=self.node.timekeeper.wall_ms(),
            )
            self.node.effects.run(hosted, effects)

    async def look(self) -> None:
        await self.compactor.decide_rounds()
        await self.compactor.apply_rounds()

    def offsets(self) -> list[int]:
        data = memoryview(read_all(self.log))
        found = []
        while data:
            header = decode_header(data)
            if not header.is_control:
                found += [record.offset for record in iter_records(data[: header.size_bytes])]
            data = data[header.size_bytes :]
        return found

    def metrics(self) -> dict[str, float]:
        return {sample.name: sample.value for family in self.compactor.collect() for sample in family.samples}


def run(test: Callable[[Bench], Awaitable[None]], **configs: str) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.lead(**configs)
        await test(bench)

    trio.run(main)


def test_a_dirty_log_is_compacted_to_the_newest_of_each_key() -> None:
    async def test(bench: Bench) -> None:
        bench.produce(60)
        size_bytes = bench.log.size_bytes
        await bench.look()
        offsets = bench.offsets()
        last = bench.log.rounds.last
        assert last is not None and 40 < last.end_offset < 60
        assert offsets == list(range(last.end_offset - KEYS, 60))
        assert bench.log.size_bytes < size_bytes / 2
        metrics = bench.metrics()
        assert (metrics["springtide_compaction_rounds_total"], bench.compactor.passes) == (1, 1)
        assert metrics["kafka_log_logcleanermanager_max_dirty_percent"] == 100
        assert 0 < metrics["kafka_log_logcleaner_cleaner_recopy_percent"] < 50
        assert metrics["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 0
        await bench.look()  # the round's record has closed a segment
        end_offset = bench.log.log_end_offset
        await bench.look()
        assert bench.log.log_end_offset == end_offset, "what is clean needs no round"
        assert bench.metrics()["kafka_log_logcleanermanager_max_dirty_percent"] == 0

    run(test)


def test_what_followers_do_not_have_is_not_compacted() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.lead(1, 2)
        bench.produce(60)
        await bench.look()
        assert bench.log.log_end_offset == 60

    trio.run(main)


def test_a_round_ends_at_the_last_stable_offset_and_what_was_aborted_goes() -> None:
    async def test(bench: Bench) -> None:
        hosted, leader = bench.node.hosted(), bench.node.hosted().replica.leading
        assert leader is not None
        bench.produce(30)
        data = encode_batch(
            [NewRecord(b"key 1", b"aborted", WALL_START_MS)],
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        times = {"expires_ms": 2**60, "now_ms": bench.node.clock.mono_ms(), "wall_ms": WALL_START_MS}
        txn = TxnContext("t", is_v2=False)
        for _ in range(2):
            result, effects = leader.append(
                decode_header(data), memoryview(data), acks=1, waiter=Waiter(), txn=txn, **times
            )
            txn = TxnContext("t", is_v2=False, verified=result.must_verify)
        bench.node.effects.run(hosted, effects)
        assert hosted.replica.last_stable_offset == 30
        bench.produce(30)
        await bench.look()
        last = bench.log.rounds.last
        assert last is not None and 20 < last.end_offset <= 30, "as far as it may, not none at all"
        await bench.look()
        assert bench.compactor.rounds == 1
        ended = MarkerToWrite(producer_id=7, producer_epoch=0, coordinator_epoch=1, outcome=Outcome.ABORT)
        _, effects = leader.write_marker(ended, waiter=Waiter(), **times)
        bench.node.effects.run(hosted, effects)
        assert 30 in bench.offsets()
        bench.produce(60)
        await bench.look()
        assert bench.compactor.rounds == 2
        assert 30 not in bench.offsets()
        assert list(bench.log.aborted_in(0, 1_000)) == []

    run(test)


def test_young_records_wait_for_the_least_lag_and_old_ones_no_longer_than_the_greatest() -> None:
    async def young(bench: Bench) -> None:
        bench.produce(60)
        await bench.look()
        assert bench.compactor.rounds == 0
        bench.node.pass_ms(60_001)
        await bench.look()
        assert bench.compactor.rounds == 1

    run(young, min_compaction_lag_ms="60000")

    async def old(bench: Bench) -> None:
        bench.produce(4)
        await bench.look()
        assert bench.compactor.rounds == 0, "all in the active segment"
        bench.node.pass_ms(60_001)
        await bench.look()
        assert bench.compactor.rounds == 1
        bench.node.pass_ms(600_000)
        await bench.look()
        assert bench.compactor.rounds == 1, "the round's own record needs no other"

    run(old, max_compaction_lag_ms="60000")


def test_a_deletion_goes_with_a_round_after_its_time() -> None:
    async def test(bench: Bench) -> None:
        bench.produce(KEYS, name=b"deleted")
        bench.produce(KEYS, name=b"deleted", value=None)
        bench.produce(40)
        await bench.look()
        tombstones = list(range(KEYS, 2 * KEYS))
        assert bench.offsets()[:KEYS] == tombstones, "readers that began before need them"
        bench.produce(60)
        bench.node.pass_ms(999)
        await bench.look()
        assert bench.offsets()[:KEYS] == tombstones
        bench.produce(60)
        bench.node.pass_ms(1)
        await bench.look()
        assert bench.compactor.rounds == 3
        assert bench.offsets()[0] > 2 * KEYS

    run(test, delete_retention_ms="1000")


def test_a_log_with_a_hole_is_put_off_with_an_alarm_until_it_is_whole() -> None:
    async def test(bench: Bench) -> None:
        bench.produce(60)
        bench.log.durability.flush()
        path = log_path(bench.log.directory, 0)
        bench.disk.flip_bit(path, 100, bit=0)
        before = bytes(bench.disk.content(path))
        await bench.look()
        assert bench.suspects == [0]
        assert bytes(bench.disk.content(path)) == before
        metrics = bench.metrics()
        assert metrics["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 1
        assert metrics["kafka_log_logcleanermanager_uncleanable_bytes"] == bench.log.size_bytes
        assert metrics["springtide_compaction_failures_total"] == 1
        bench.disk.flip_bit(path, 100, bit=0)
        await bench.look()
        assert bench.compactor.passes == 1
        assert bench.metrics()["kafka_log_logcleanermanager_uncleanable_partitions_count"] == 0

    run(test)


def test_a_disk_that_fails_under_a_pass_is_told_as_such() -> None:
    async def test(bench: Bench) -> None:
        bench.produce(60)
        await bench.compactor.decide_rounds()
        bench.disk.fail_always("pwrite", OSError(errno.EIO, "broken"), path_contains=".cleaned")
        await bench.compactor.apply_rounds()
        assert len(bench.wrong) == 1
        assert bench.compactor.passes == 0

    run(test)


def test_a_round_that_a_killed_process_had_not_applied_is_applied_by_the_next() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.lead()
        bench.produce(60)
        await bench.compactor.decide_rounds()
        bench.node.log_dir.abandon()
        after = Bench(bench.disk)
        await after.lead()
        await after.compactor.apply_rounds()
        assert after.compactor.passes == 1
        assert after.log.rounds.is_settled

    trio.run(main)
