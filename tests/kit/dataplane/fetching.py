"""A follower's fetchers over connections that the test answers as their leader."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import trio
import trio.testing

from dataplane.shell.leader_fetcher import RECONNECT_MS_MAX
from dataplane.shell.replica_fetcher import ReplicaFetchers
from springtide.contract.epochs import BrokerEpoch
from springtide.contract.partition_state import PartitionState
from springtide.node.net import READABLE, Buffer, Channel, Listener, OnReady, Poller
from springtide.node.topic_ids import topic_id_bytes, topic_id_text
from springtide.wire.apis import ApiKey
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import FetchRequest, decode_fetch_request
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.framing import FrameReader, encode_response_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.messages import ApiVersionsApiVersion, ApiVersionsResponse
from springtide.wire.primitives import write_uvarint
from springtide.wire.typed import write_message
from tests.kit.clocks import VirtualClock
from tests.kit.dataplane.node import TOPIC_ID, Node, endpoint, state
from tests.kit.memory.disk import MemoryDisk

FETCH_VERSION = 17
SPOKEN = (4, 18)
"""The lowest and highest version of Fetch that a leader speaks unless a test says otherwise."""
Mentioned = dict[str, int]


def told_versions(correlation_id: int, spoken: tuple[int, int] = SPOKEN) -> bytes:
    """The answer to ApiVersions of a leader that speaks these versions of Fetch."""
    lowest, highest = spoken
    one = ApiVersionsApiVersion(api_key=ApiKey.FETCH, min_version=lowest, max_version=highest)
    body = [write_message(ApiVersionsResponse(api_keys=(one,)), 0)]
    frame = encode_response_frame(correlation_id, body, has_flexible_header=False)
    return b"".join(bytes(chunk) for chunk in frame)  # type: ignore[arg-type]


class LeaderEnd:
    """One connection as its leader sees it: the requests that came, and answers when the test says so."""

    sends_files = True
    is_handshaking = False
    peer_certificate: bytes | None = None

    def __init__(self, port: int, spoken: tuple[int, int] = SPOKEN) -> None:
        self.peer = "leader"
        self.port = port
        self.spoken = spoken
        #: Of the latest request.
        self.api_version = -1
        #: What answers have besides, in the tags of their one partition.
        self.tags: dict[int, bytes] = {}
        self.requests: list[FetchRequest] = []
        self._correlation_ids: list[int] = []
        self._incoming = bytearray()
        self._frames = FrameReader()
        self.is_closed = False
        #: The follower's, called when there is something to read.
        self.on_ready: OnReady | None = None

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        data = b"".join(chunks)
        self._frames.writable()[: len(data)] = data
        self._frames.received(len(data))
        while (frame := self._frames.next_frame()) is not None:
            header = decode_request_header(frame)
            if header.api_key == ApiKey.API_VERSIONS:
                self._incoming += told_versions(header.correlation_id, self.spoken)
                continue
            self.api_version = header.api_version
            self.requests.append(decode_fetch_request(self.api_version, frame, header.body_position))
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

    def _tags(self) -> bytes:
        out = bytearray((len(self.tags),))
        for tag, content in self.tags.items():
            write_uvarint(out, tag)
            write_uvarint(out, len(content))
            out += content
        return bytes(out)

    # The leader's hand

    async def answer(
        self,
        *partitions: FetchedPartition,
        session_id: int = 77,
        error: int = ErrorCode.NONE,
        request: int = -1,
    ) -> None:
        """Answers the last request, or the one of that number, and lets the follower act on it."""
        body = encode_fetch_response(self.api_version, partitions, session_id=session_id, error_code=error)
        if self.tags:
            body = [b"".join(map(bytes, body)).removesuffix(bytes(3)) + self._tags() + bytes(2)]  # type: ignore[arg-type]
        frame = encode_response_frame(self._correlation_ids[request], body, has_flexible_header=True)
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

    def linger(self, wait_ms: int) -> bool:
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
        #: Of connections that are made from now on.
        self.spoken = SPOKEN

    async def connect(self, host: str, port: int) -> Channel:
        await trio.lowlevel.checkpoint()
        if port in self.refusing:
            raise ConnectionRefusedError
        self.ends.append(LeaderEnd(port, self.spoken))
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
            broker_epoch=lambda: BrokerEpoch(5),
            effects=node.effects,
            view=node.view,
            net=self.net,
            poller=Readable(),
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

    async def restart(self, broker_id: int, *, port: int, epoch: int = 11) -> None:
        """Let that leader's process end, and another register."""
        self.end(port).close()
        brokers = (endpoint(1), endpoint(2, port=9002), endpoint(3, port=9003))
        told = [one for one in brokers if one.broker_id != broker_id]
        told.append(endpoint(broker_id, epoch, port=port))
        assert await self.node.apply(brokers=tuple(told)) == []
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        await trio.testing.wait_all_tasks_blocked()
        clock.jump(RECONNECT_MS_MAX / 1_000)
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
        bench = Bench(Node(MemoryDisk(), clock=VirtualClock()))
        async with trio.open_nursery() as nursery:
            await nursery.start(bench.fetchers.run)
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
