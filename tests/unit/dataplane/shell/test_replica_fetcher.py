"""What a follower sends its leaders, and what becomes of their answers: frames in, frames out."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
import trio.testing

from controller.contract.partition_state import PartitionState
from dataplane.shell.replica_fetcher import ReplicaFetchers
from springtide.node.net import READABLE, Buffer, Channel, Listener, OnReady, Poller
from springtide.node.topic_ids import topic_id_bytes, topic_id_text
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch import FetchedPartition, FetchRequest, decode_fetch_request, encode_fetch_response
from springtide.wire.framing import FrameReader, encode_response_frame
from springtide.wire.headers import decode_request_header
from tests.simulation.memory_disk import MemoryDisk
from tests.unit.dataplane.shell.shell_kit import (
    OTHER_ID,
    TOPIC_ID,
    Node,
    TrioClock,
    batch_of,
    endpoint,
    state,
)

FETCH_VERSION = 17
Mentioned = dict[str, int]


class LeaderEnd:
    """One connection as its leader sees it: the requests that came, and answers when the test says so."""

    def __init__(self, port: int) -> None:
        self.peer = "leader"
        self.port = port
        self.requests: list[FetchRequest] = []
        self._correlation_ids: list[int] = []
        self._incoming = bytearray()
        self._frames = FrameReader()
        self.is_closed = False
        #: The follower's, called when there is something to read.
        self.on_ready: OnReady | None = None

    def send(self, chunks: Sequence[Buffer]) -> int:
        data = b"".join(chunks)
        self._frames.writable()[: len(data)] = data
        self._frames.received(len(data))
        while (frame := self._frames.next_frame()) is not None:
            header = decode_request_header(frame)
            assert header.api_version == FETCH_VERSION
            self.requests.append(decode_fetch_request(FETCH_VERSION, frame, header.body_position))
            self._correlation_ids.append(header.correlation_id)
        return len(data)

    def recv_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self._incoming))
        if not count:
            raise BlockingIOError
        buffer[:count] = self._incoming[:count]
        del self._incoming[:count]
        return count

    def send_file(self, file_descriptor: int, *, position: int, length: int) -> int:
        raise AssertionError("followers send no files")

    def fileno(self) -> int:
        return id(self)

    async def wait_readable(self) -> None:
        raise AssertionError("the poller waits")

    async def wait_writable(self) -> None:
        raise AssertionError("there is always room")

    def close(self) -> None:
        self.is_closed = True

    # The leader's hand

    async def answer(
        self, *partitions: FetchedPartition, session_id: int = 77, error: int = ErrorCode.NONE
    ) -> None:
        """Answers the last request, and lets the follower act on it."""
        body = encode_fetch_response(FETCH_VERSION, partitions, session_id=session_id, error_code=error)
        frame = encode_response_frame(self._correlation_ids[-1], body, has_flexible_header=True)
        self._incoming += b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]
        assert self.on_ready is not None, "nobody listens to this connection any more"
        self.on_ready(READABLE)
        await trio.testing.wait_all_tasks_blocked()

    def mentioned(self) -> Mentioned:
        """Topic id and offset of each partition that the last request mentions."""
        return {
            topic_id_text(one.topic): one.fetch_offset
            for one in self.requests[-1].partitions
            if isinstance(one.topic, bytes)
        }

    def forgotten(self) -> list[str]:
        return [topic_id_text(topic) for topic, _ in self.requests[-1].forgotten if isinstance(topic, bytes)]


class Readable:
    """A poller that is never asked: a connection is read when the test has answered on it."""

    def add(self, channel: Channel, on_ready: OnReady) -> None:
        assert isinstance(channel, LeaderEnd)
        channel.on_ready = on_ready

    def remove(self, channel: Channel) -> None:
        assert isinstance(channel, LeaderEnd)
        channel.on_ready = None

    def set_interest(self, channel: Channel, *, is_readable: bool, is_writable: bool) -> None:
        assert is_readable

    async def wait(self) -> None:
        raise AssertionError

    def dispatch(self) -> None:
        raise AssertionError

    def wake(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


class Leaders:
    """The network: each connect is a LeaderEnd; ports that are `refusing` refuse."""

    def __init__(self) -> None:
        self.ends: list[LeaderEnd] = []
        self.refusing: tuple[int, ...] = ()

    async def connect(self, host: str, port: int) -> Channel:
        await trio.lowlevel.checkpoint()
        if port in self.refusing:
            raise ConnectionRefusedError
        self.ends.append(LeaderEnd(port))
        return self.ends[-1]

    async def listen(self, host: str, port: int) -> Listener:
        raise AssertionError

    def poller(self) -> Poller:
        raise AssertionError


class Bench:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.net = Leaders()
        self.fetchers = ReplicaFetchers(
            broker_id=1,
            broker_epoch=lambda: 5,
            table=node.table,
            view=node.view,
            net=self.net,
            clock=node.clock,
            rng=random.Random(1),
            config=node.config,
            counters=node.counters,
        )
        node.connect(self.fetchers)

    async def apply(self, *states: PartitionState, full: bool = False) -> None:
        brokers = (endpoint(1), endpoint(2, port=9002), endpoint(3, port=9003))
        assert await self.node.apply(*states, full=full, brokers=brokers) == []
        await trio.testing.wait_all_tasks_blocked()

    def end(self, port: int) -> LeaderEnd:
        """The latest connection to that leader."""
        return [end for end in self.net.ends if end.port == port][-1]


def following(leader: int = 2, topic_id: str = TOPIC_ID, epoch: int = 1) -> PartitionState:
    return state(
        topic_id=topic_id,
        topic="orders" if topic_id == TOPIC_ID else "other",
        replicas=(2, 3, 1),
        isr=(2, 3, 1),
        new_replicas=(1, 2, 3),
        leader=leader,
        leader_epoch=epoch,
        partition_epoch=epoch,
    )


def on_a_follower(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench(Node(MemoryDisk(), clock=TrioClock()))
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.fetchers.run, Readable())
            await test(bench)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock())


def data(
    records: bytes = b"",
    *,
    topic_id: str = TOPIC_ID,
    high_watermark: int = 0,
    error: ErrorCode = ErrorCode.NONE,
) -> FetchedPartition:
    return FetchedPartition(
        topic_id_bytes(topic_id),
        0,
        int(error),
        high_watermark,
        high_watermark,
        0,
        (records,) if records else (),
    )


def test_what_a_leader_sends_is_appended_and_the_next_request_says_so() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        first = end.requests[0]
        assert (first.replica_id, first.broker_epoch, first.session_epoch) == (1, 5, 0)
        assert end.mentioned() == {TOPIC_ID: 0}
        await end.answer(data(batch_of(3, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 3
        assert (end.requests[1].session_id, end.requests[1].session_epoch) == (77, 1)
        assert end.mentioned() == {TOPIC_ID: 3}
        await end.answer(data(high_watermark=3))
        assert bench.node.hosted().replica.high_watermark == 3

    on_a_follower(test)


def test_a_new_leader_gets_the_partition_and_the_old_one_is_told_that_it_is_gone() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        old = bench.end(9002)
        assert old.mentioned() == {TOPIC_ID: 0, OTHER_ID: 0}
        await old.answer(data(), data(topic_id=OTHER_ID))
        await bench.apply(following(leader=3, epoch=2))
        assert bench.end(9003).mentioned() == {TOPIC_ID: 0}
        assert bench.end(9003).requests[-1].partitions[0].leader_epoch == 2
        # Its long poll is answered at last, for both: what it says of the one that left counts no more.
        await old.answer(
            data(batch_of(1, leader_epoch=1)), data(batch_of(1, leader_epoch=1), topic_id=OTHER_ID)
        )
        assert bench.node.log().log_end_offset == 0
        assert bench.node.log(OTHER_ID).log_end_offset == 1
        assert old.forgotten() == [TOPIC_ID]
        assert old.mentioned() == {OTHER_ID: 1}

    on_a_follower(test)


def test_l6_an_erring_partition_rests_and_comes_back_and_the_others_go_on() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        await end.answer(
            data(error=ErrorCode.UNKNOWN_TOPIC_ID), data(batch_of(1, leader_epoch=1), topic_id=OTHER_ID)
        )
        assert end.forgotten() == [TOPIC_ID]
        assert end.mentioned() == {OTHER_ID: 1}
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(0.3)
        await trio.testing.wait_all_tasks_blocked()
        await end.answer(data(topic_id=OTHER_ID))
        assert end.mentioned() == {TOPIC_ID: 0}
        await end.answer(data(batch_of(2, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 2

    on_a_follower(test)


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        pytest.param(9_999, id="of a later release"),
    ],
)
def test_a_lost_session_is_begun_again_in_full(error: int) -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), following(topic_id=OTHER_ID), full=True)
        end = bench.end(9002)
        await end.answer(data(batch_of(2, leader_epoch=1)), data(topic_id=OTHER_ID))
        await end.answer(session_id=0, error=error)
        assert end.requests[-1].session_epoch == 0
        assert end.mentioned() == {TOPIC_ID: 2, OTHER_ID: 0}

    on_a_follower(test)


def test_a_partition_that_joins_does_not_wait_for_the_pending_long_poll() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        first = bench.end(9002)
        await first.answer(data())
        await bench.apply(following(topic_id=OTHER_ID))
        second = bench.end(9002)
        assert second is not first and first.is_closed
        assert second.requests[-1].session_epoch == 0
        assert second.mentioned() == {TOPIC_ID: 0, OTHER_ID: 0}

    on_a_follower(test)


def test_a_leader_that_refuses_is_asked_again_and_again_until_it_is_there() -> None:
    async def test(bench: Bench) -> None:
        bench.net.refusing = (9002,)
        await bench.apply(following(), full=True)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        for _ in range(10):
            clock.jump(1.0)
            await trio.testing.wait_all_tasks_blocked()
        assert bench.net.ends == []
        bench.net.refusing = ()
        clock.jump(1.0)
        await trio.testing.wait_all_tasks_blocked()
        assert bench.end(9002).mentioned() == {TOPIC_ID: 0}

    on_a_follower(test)


def test_a_batch_with_a_wrong_crc_is_not_appended_and_fetched_again() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        broken = bytearray(batch_of(1, leader_epoch=1))
        broken[-1] ^= 1
        await end.answer(data(bytes(broken)))
        assert bench.node.log().log_end_offset == 0
        assert end.is_closed  # nothing else is fetched there, and this partition rests
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(0.3)
        await trio.testing.wait_all_tasks_blocked()
        await bench.end(9002).answer(data(batch_of(1, leader_epoch=1)))
        assert bench.node.log().log_end_offset == 1

    on_a_follower(test)


def test_an_answer_to_a_question_that_was_not_asked_ends_the_connection() -> None:
    async def test(bench: Bench) -> None:
        await bench.apply(following(), full=True)
        end = bench.end(9002)
        end._correlation_ids[-1] += 5
        await end.answer(data(batch_of(1, leader_epoch=1)))
        assert end.is_closed
        assert bench.node.log().log_end_offset == 0

    on_a_follower(test)
