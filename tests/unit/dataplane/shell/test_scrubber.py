"""A broker's scrub over real logs on a disk in memory: its pace, what it tells, and how it mends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
import trio.testing

from dataplane.core.effects import Effects
from dataplane.core.fetch import ConsumerFetch
from dataplane.core.fetch_session import FetchPosition
from dataplane.core.role import Offline
from dataplane.core.scrubbing import ScrubProgress
from dataplane.shell.hosted import HostedPartition
from dataplane.shell.scrubber import Scrubber, decode_progress, encode_progress
from dataplane.storage.divergent import list_copies
from dataplane.storage.health import DAMAGED_FILE
from dataplane.storage.log_dir import DIVERGENT
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.node.net import Channel, Listener, Poller
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import REPLICA_FETCH_VERSION
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchRequest, decode_fetch_request
from springtide.wire.fetch_response import Compacted, FetchedPartition, encode_fetch_response
from springtide.wire.framing import encode_response_frame
from springtide.wire.headers import decode_request_header
from tests.kit.clocks import VirtualClock
from tests.kit.dataplane.node import SMALL_SEGMENTS, TOPIC_ID, InlineThreads, Node, state
from tests.kit.memory.disk import MemoryDisk
from tests.kit.springtide.memory_net import MemoryChannel

PACE = {**SMALL_SEGMENTS, "log.scrub.interval.ms": "10000", "log.scrub.bytes.per.second": "1000"}


class LeaderNet:
    """Each connection is answered with these record batches, after so many that are answered with none."""

    def __init__(self) -> None:
        self.records = b""
        self.compacted: Compacted | None = None
        self.empty_answers = 0
        self.channels: list[MemoryChannel] = []

    async def connect(self, host: str, port: int) -> Channel:
        await trio.lowlevel.checkpoint()
        records = b"" if self.empty_answers else self.records
        self.empty_answers = max(0, self.empty_answers - 1)
        data = FetchedPartition(
            topic_id_bytes(TOPIC_ID), 0, 0, 20, 20, 0, (records,) if records else (), compacted=self.compacted
        )
        body = encode_fetch_response(REPLICA_FETCH_VERSION, [data])
        channel = MemoryChannel()
        self.channels.append(channel)
        for chunk in encode_response_frame(1, body, has_flexible_header=True):
            channel.incoming += bytes(chunk)  # type: ignore[arg-type]
        return channel

    async def listen(self, host: str, port: int) -> Listener:
        raise AssertionError

    def poller(self) -> Poller:
        raise AssertionError


class Bench:
    """Broker 1 with twenty committed batches on its disk."""

    async def begin(self, disk: MemoryDisk, **pace: str) -> None:
        self.disk = disk
        self.node = Node(disk, configs={**PACE, **pace}, clock=VirtualClock())
        self.net = LeaderNet()
        await self.node.apply(state(), full=True)
        self.node.produce(20)
        self.node.log().durability.flush()
        self.log_path = f"{self.node.log().directory}/{0:020d}.log"
        self.make_scrubber()

    def make_scrubber(self) -> None:
        self.scrubber = Scrubber(
            table=self.node.table,
            effects=self.node.effects,
            directory=self.node.directory,
            view=self.node.view,
            config=self.node.config,
            net=self.net,
            clock=self.node.clock,
            threads=InlineThreads(),
            broker_id=1,
            broker_epoch=lambda: BrokerEpoch(7),
        )
        self.node.connect(self.node.fetching, scrubbing=self.scrubber)

    def rot_the_second_batch(self) -> tuple[bytes, int]:
        """Return the log's bytes as they were, and the size of its first batch."""
        before = bytes(self.disk.content(self.log_path))
        first_size = 61 + int.from_bytes(before[8:12]) - 49
        self.disk.rot_bit(self.log_path, first_size + 90)
        return before, first_size

    def problems(self) -> list[str]:
        return [problem.code for problem in self.node.reports.untold.unreported_problems()]


def run(test: Callable[[Bench, trio.Nursery], Awaitable[None]], **pace: str) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.begin(MemoryDisk(), **pace)
        async with trio.open_nursery() as nursery:
            await test(bench, nursery)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.01))


def test_a_pass_takes_as_long_as_the_rate_says_and_none_is_begun_before_its_time() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        size_bytes = bench.node.log().size_bytes
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(size_bytes / 1_000 - 0.5)
        assert bench.scrubber.passes == 0
        await trio.sleep(1.5)
        assert (bench.scrubber.passes, bench.scrubber.bytes_read) == (1, size_bytes)
        await trio.sleep(16)
        assert (bench.scrubber.passes, bench.scrubber.bytes_read) == (2, 2 * size_bytes)
        assert bench.problems() == []

    run(test)


def test_a_rate_of_nothing_reads_nothing() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(100)
        assert bench.scrubber.bytes_read == 0

    run(test, **{"log.scrub.bytes.per.second": "0"})


def test_a_follower_without_a_seat_mends_what_its_scrub_found_from_the_leader() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        before, first_size = bench.rot_the_second_batch()
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(5)
        assert bench.problems() == ["rotten"]
        assert [(found.first_offset, found.next_offset) for found in node.log().rotten] == [(1, 2)]
        bench.net.records = before[first_size : 2 * first_size - 1] + b"?"
        follows = state(
            replicas=(1, 2), isr=(2,), leader=2, leader_epoch=2, partition_epoch=2, new_replicas=()
        )
        await node.apply(follows)
        await trio.sleep(5)
        assert node.log().rotten  # a leader's rot is not written over ours
        bench.net.records = before[first_size:]
        await trio.sleep(5)
        assert not node.log().rotten
        assert bench.disk.content(bench.log_path) == before
        assert bench.problems()[-1] == "mended"
        assert node.fetching.told[-1] == ("follow", (TOPIC_ID, 0), 2, 2)

    run(test)


def test_where_a_round_went_over_the_leaders_log_a_rotten_replica_copies_all_of_it_again() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        before, first_size = bench.rot_the_second_batch()
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(5)
        # Of the record that rotted nothing is left there: its key was written again.
        bench.net.records, bench.net.compacted = before[2 * first_size :], Compacted(0, 10)
        await node.apply(
            state(replicas=(1, 2), isr=(2,), leader=2, leader_epoch=2, partition_epoch=2, new_replicas=())
        )
        await trio.sleep(1)
        asked = [request_in(channel) for channel in bench.net.channels[-3:]]
        assert [fetch.replica_id for fetch in asked] == [-1, 1, -1]
        assert [fetch.partitions[0].fetch_offset for fetch in asked] == [1, 1, 20]
        (copy,) = node.spawned
        await copy()
        log = node.log()
        assert (log.log_start_offset, log.log_end_offset, list(log.rotten)) == (0, 0, [])
        assert node.fetching.told[-1] == ("follow", (TOPIC_ID, 0), 2, 2)
        (found,) = list_copies(bench.disk, f"{node.directory.log_dir.path}/{DIVERGENT}")
        assert (found.range.first_offset, found.range.next_offset, found.range.high_watermark) == (0, 20, 20)
        await trio.sleep(10)
        assert bench.problems()[-1] == "mended"

    run(test)


def test_what_rots_in_a_leader_above_its_high_watermark_is_found_and_told() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        await node.apply(state(replicas=(1, 2), isr=(1, 2), leader_epoch=2, partition_epoch=2))
        node.produce(20)
        node.log().durability.flush()
        active = node.log().segments[-1].base_offset
        assert active > 20
        bench.disk.rot_bit(f"{node.log().directory}/{active:020d}.log", 90)
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(10)
        assert node.hosted().replica.high_watermark == 20
        assert bench.problems() == ["rotten"]
        assert [found.first_offset for found in node.log().rotten] == [active]

    run(test)


def test_what_an_earlier_process_found_at_a_leader_is_told_as_gone_once_it_is_deleted() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        bench.rot_the_second_batch()
        with trio.move_on_after(10):
            await bench.scrubber.run()
        assert bench.problems() == ["rotten"]
        bench.make_scrubber()
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(10)
        hosted = node.hosted()
        now_ms = node.clock.mono_ms()
        _, effects = hosted.replica.role.delete_records(10, waiter=node, expires_ms=now_ms, now_ms=now_ms)
        node.effects.run(hosted, effects)
        await trio.sleep(10)
        assert not node.log().rotten
        assert bench.problems() == ["rotten", "mended"]

    run(test)


def test_what_is_met_again_below_the_logs_start_is_no_finding_beside_a_hole_above_it() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        _, size = bench.rot_the_second_batch()
        bench.disk.rot_bit(bench.log_path, 3 * size + 90)
        with trio.move_on_after(10):
            await bench.scrubber.run()
        assert [found.first_offset for found in node.log().rotten] == [1, 3]
        hosted = node.hosted()
        now_ms = node.clock.mono_ms()
        _, effects = hosted.replica.role.delete_records(2, waiter=node, expires_ms=now_ms, now_ms=now_ms)
        node.effects.run(hosted, effects)
        bench.make_scrubber()
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(15)
        assert [found.first_offset for found in node.log().rotten] == [3]
        assert bench.scrubber.findings == 0

    run(test)


def test_a_leader_that_gives_a_consumer_nothing_is_asked_as_by_its_follower() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        before, first_size = bench.rot_the_second_batch()
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(5)
        bench.net.records, bench.net.empty_answers = before[first_size:], 1
        await node.apply(
            state(replicas=(1, 2), isr=(2,), leader=2, leader_epoch=2, partition_epoch=2, new_replicas=())
        )
        await trio.sleep(1)
        assert bench.disk.content(bench.log_path) == before
        asked = [request_in(channel) for channel in bench.net.channels]
        assert [(fetch.replica_id, fetch.broker_epoch) for fetch in asked] == [(-1, -1), (1, 7)]
        (position,) = asked[1].partitions
        assert (position.fetch_offset, position.leader_epoch, position.last_fetched_epoch) == (1, 2, 1)

    run(test)


def test_damage_that_a_consumer_meets_is_found_and_told_before_the_pass_comes_there() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        node = bench.node
        before = bytes(bench.disk.content(bench.log_path))
        first_size = 61 + int.from_bytes(before[8:12]) - 49
        node.log()._tail.clear()
        bench.disk.content(bench.log_path)[2 * first_size + 16] = 9  # no batch begins here
        nursery.start_soon(bench.scrubber.run)
        hosted = node.hosted()
        error, effects = read_from(hosted, 2)
        assert error is ErrorCode.CORRUPT_MESSAGE
        node.effects.run(hosted, effects)
        await trio.sleep(0.5)
        assert bench.problems() == ["rotten"]
        assert [(found.first_offset, found.next_offset) for found in node.log().rotten] == [(2, 6)]
        assert [read_from(hosted, offset)[0] for offset in (0, 1, 2, 6)] == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.NONE,
        ]
        assert hosted.replica.role.name == "leader"

    run(test)


def request_in(channel: MemoryChannel) -> FetchRequest:
    frame = memoryview(bytes(channel.outgoing))[4:]
    return decode_fetch_request(REPLICA_FETCH_VERSION, frame, decode_request_header(frame).body_position)


def read_from(hosted: HostedPartition, offset: int) -> tuple[ErrorCode, Effects]:
    fetch = ConsumerFetch(FetchPosition(offset, LeaderEpoch(-1), LeaderEpoch(-1)), max_bytes=10**6)
    result, effects = hosted.replica.role.on_consumer_fetch(fetch, now_ms=0)
    return result.error, effects


def test_a_suspicion_is_looked_at_before_anything_else() -> None:
    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        size_bytes = bench.node.log().size_bytes
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(size_bytes / 1_000 + 1)
        bench.disk.rot_bit(bench.log_path, 90)
        bench.scrubber.check_soon(bench.node.hosted(), 0)
        await trio.sleep(2)
        assert bench.problems() == ["rotten"]

    run(test)


def test_rewritten_bytes_that_are_others_end_their_replica() -> None:
    """Each batch is whole, and the file is not what a compaction wrote."""

    async def test(bench: Bench, nursery: trio.Nursery) -> None:
        log = bench.node.log()
        log.segments[0].crc = 1
        nursery.start_soon(bench.scrubber.run)
        await trio.sleep(log.size_bytes / 1_000 + 2)
        assert isinstance(bench.node.hosted().replica.role, Offline)
        assert bench.disk.exists(f"{log.directory}/{DAMAGED_FILE}")

    run(test)


def test_a_checkpoint_with_a_flipped_bit_is_read_or_forgotten_and_ends_no_broker() -> None:
    written = encode_progress({(TOPIC_ID, 0): ScrubProgress(1_000)})
    for at in range(len(written)):
        for bit in range(8):
            decode_progress(written[:at] + bytes([written[at] ^ 1 << bit]) + written[at + 1 :])
    assert decode_progress(written[:-3]) == {}
