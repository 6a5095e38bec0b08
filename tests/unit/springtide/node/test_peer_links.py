"""Connections to peers that are kept, and requests that are gathered for one peer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio
import trio.testing

from springtide.contract.epochs import BrokerEpoch
from springtide.contract.updates import BrokerEndpoint
from springtide.node.clock import BrokerClock, MachineClock
from springtide.node.net import SystemNet
from springtide.node.peer_links import PeerBatches, PeerLinks
from springtide.wire.messages import DescribeGroupsRequest, DescribeGroupsResponse
from springtide.wire.typed import write_message

VERSION = 5

Ask = Callable[..., Awaitable[DescribeGroupsResponse | None]]


class Peer:
    """A node that answers each request, and closes a connection after `answers_max`."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.answers_max = 1_000
        self.is_silent = False
        self.has_lost_one = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        answers = 0
        data = b""
        while True:
            while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4]):
                received = await stream.receive_some()
                if not received:
                    self.has_lost_one.set()
                    return
                data += received
            frame, data = data[4 : 4 + int.from_bytes(data[:4])], data[4 + int.from_bytes(data[:4]) :]
            self.requests += 1
            if self.is_silent:
                await trio.sleep_forever()
            body = write_message(DescribeGroupsResponse(throttle_time_ms=7), VERSION)
            answer = frame[4:8] + b"\0" + body  # a header with no tagged field
            await stream.send_all(len(answer).to_bytes(4) + answer)
            answers += 1
            if answers == self.answers_max:
                await stream.aclose()
                return


def with_peer(
    story: Callable[[Peer, Ask], Awaitable[None]],
) -> None:
    async def main() -> None:
        peer = Peer()
        links = PeerLinks(
            net=SystemNet(), clock=BrokerClock(MachineClock()), client_id="test", answer_bytes_max=1_000
        )
        async with trio.open_nursery() as nursery:
            listener, *_ = await nursery.start(partial(trio.serve_tcp, peer.serve, 0, host="127.0.0.1"))
            port = listener.socket.getsockname()[1]

            async def ask(*, timeout_ms: int = 5_000, epoch: int = 1) -> DescribeGroupsResponse | None:
                return await links.ask(
                    BrokerEndpoint(broker_id=1, broker_epoch=BrokerEpoch(epoch), host="127.0.0.1", port=port),
                    DescribeGroupsRequest(groups=("g",)),
                    DescribeGroupsResponse,
                    version=VERSION,
                    timeout_ms=timeout_ms,
                )

            await story(peer, ask)
            links.close()
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_connection_is_used_again() -> None:
    async def story(peer: Peer, ask: Ask) -> None:
        for _ in range(3):
            assert await ask() == DescribeGroupsResponse(throttle_time_ms=7)
        assert (peer.connections, peer.requests) == (1, 3)

    with_peer(story)


def test_requests_at_once_have_connections_of_their_own() -> None:
    async def story(peer: Peer, ask: Ask) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert (peer.connections, peer.requests) == (3, 3)

    with_peer(story)


def test_an_idle_connection_that_the_peer_closed_is_replaced() -> None:
    async def story(peer: Peer, ask: Ask) -> None:
        peer.answers_max = 1
        for _ in range(3):
            assert await ask() == DescribeGroupsResponse(throttle_time_ms=7)
        assert (peer.connections, peer.requests) == (3, 3)

    with_peer(story)


def test_connections_to_a_process_that_was_replaced_are_closed() -> None:
    async def story(peer: Peer, ask: Ask) -> None:
        await ask()
        assert await ask(epoch=2) == DescribeGroupsResponse(throttle_time_ms=7)
        with trio.fail_after(5):
            await peer.has_lost_one.wait()
        assert (peer.connections, peer.requests) == (2, 2)

    with_peer(story)


def test_a_silent_peer_is_given_up_with_its_connection() -> None:
    async def story(peer: Peer, ask: Ask) -> None:
        peer.is_silent = True
        assert await ask(timeout_ms=50) is None
        peer.is_silent = False
        assert await ask() == DescribeGroupsResponse(throttle_time_ms=7)
        assert peer.connections == 2

    with_peer(story)


def test_what_comes_while_requests_are_under_way_leaves_together() -> None:
    async def main() -> None:
        carried: list[tuple[int, list[int]]] = []
        may_go = trio.Event()

        async def carry(peer_id: int, batch: Sequence[int]) -> None:
            carried.append((peer_id, list(batch)))
            await may_go.wait()

        async with trio.open_nursery() as nursery:
            batches: PeerBatches[int] = PeerBatches(
                carry, spawn=nursery.start_soon, requests_max=2, items_max=3
            )
            for item in range(7):
                batches.put(1, item)
            batches.put(2, 10)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(carried) == [(1, [0, 1, 2]), (1, [3, 4, 5]), (2, [10])], "two under way to each"
            batches.put(1, 7)
            may_go.set()
        assert sorted(carried)[2:] == [(1, [6, 7]), (2, [10])]

    trio.run(main)
