"""A follower's place in the common pass: requests the kernel takes in pieces, answers longer than a turn."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence

import trio
import trio.testing

from dataplane.shell.leader_fetcher import TURN_BYTES_MAX
from dataplane.shell.replica_fetcher import ReplicaFetchers
from springtide.contract.epochs import BrokerEpoch
from springtide.node.net import Buffer, Channel, Listener, Poller
from springtide.node.topic_ids import topic_id_bytes
from springtide.wire.apis import ApiKey
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.framing import encode_response_frame
from tests.kit.clocks import VirtualClock
from tests.kit.dataplane.fetching import told_versions
from tests.kit.dataplane.node import TOPIC_ID, Node, batch_of, endpoint, state
from tests.kit.memory.disk import MemoryDisk
from tests.kit.springtide.memory_net import MemoryChannel, MemoryPoller

FETCH_VERSION = 17
FIRST_CORRELATION_ID = 1


class LeaderChannel(MemoryChannel):
    """A connection to a leader that tells its versions at once, and the rest when the test says so."""

    def send(self, chunks: Sequence[Buffer], *, is_more_at_hand: bool = False) -> int:
        data = b"".join(chunks)
        if int.from_bytes(data[4:6], "big") != ApiKey.API_VERSIONS:
            return super().send(chunks, is_more_at_hand=is_more_at_hand)
        self.incoming += told_versions(int.from_bytes(data[8:12], "big"))
        return len(data)


class OneLeader:
    """A network whose every connection is the same channel."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.channel = channel

    async def connect(self, host: str, port: int) -> Channel:
        await trio.lowlevel.checkpoint()
        return self.channel

    async def listen(self, host: str, port: int) -> Listener:
        raise AssertionError

    def poller(self) -> Poller:
        raise AssertionError


class Follower:
    """Broker 1, which follows broker 2 over `channel`; `poller` does one pass when the test says so."""

    def __init__(self) -> None:
        self.node = Node(MemoryDisk(), clock=VirtualClock())
        self.channel = LeaderChannel()
        self.poller = MemoryPoller()
        self.fetchers = ReplicaFetchers(
            broker_id=1,
            broker_epoch=lambda: BrokerEpoch(5),
            effects=self.node.effects,
            view=self.node.view,
            net=OneLeader(self.channel),
            poller=self.poller,
            clock=self.node.clock,
            rng=random.Random(1),
            config=self.node.config,
            counters=self.node.counters,
        )
        self.node.connect(self.fetchers)

    async def follow(self) -> None:
        replicas = (2, 1)
        one = state(replicas=replicas, new_replicas=replicas, isr=replicas, leader=2)
        assert await self.node.apply(one, full=True, brokers=(endpoint(1), endpoint(2))) == []
        await trio.testing.wait_all_tasks_blocked()

    def answer(self, records: bytes) -> None:
        body = encode_fetch_response(
            FETCH_VERSION,
            [FetchedPartition(topic_id_bytes(TOPIC_ID), 0, 0, 0, 0, 0, (records,))],
            session_id=7,
        )
        for chunk in encode_response_frame(FIRST_CORRELATION_ID, body, has_flexible_header=True):
            assert isinstance(chunk, bytes)
            self.channel.incoming += chunk


def on_a_follower(test: Callable[[Follower], Awaitable[None]]) -> None:
    async def main() -> None:
        follower = Follower()
        async with trio.open_nursery() as nursery:
            await nursery.start(follower.fetchers.run)
            await test(follower)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock())


def test_a_request_that_the_kernel_takes_in_pieces_is_whole_and_then_only_answers_are_waited_for() -> None:
    async def test(follower: Follower) -> None:
        channel = follower.channel
        channel.room_bytes = 10
        await follower.follow()
        assert follower.poller.interest[channel] == (True, True)
        follower.poller.dispatch()  # no room yet
        assert len(channel.outgoing) == 10
        channel.room_bytes = 2**20
        follower.poller.dispatch()
        assert len(channel.outgoing) == 4 + int.from_bytes(channel.outgoing[:4], "big")
        assert follower.poller.interest[channel] == (True, False)

    on_a_follower(test)


def test_an_answer_longer_than_a_turn_is_taken_in_turns_and_applied_when_it_is_whole() -> None:
    async def test(follower: Follower) -> None:
        channel = follower.channel
        await follower.follow()
        follower.answer(batch_of(3, size=TURN_BYTES_MAX, leader_epoch=1))
        asked = len(channel.outgoing)
        turns = 0
        while channel.incoming:
            assert follower.node.log().log_end_offset == 0
            follower.poller.dispatch()
            turns += 1
        assert turns >= 2
        assert follower.node.log().log_end_offset == 3
        assert len(channel.outgoing) > asked, "the next request has left"

    on_a_follower(test)


def test_a_leader_that_ends_the_connection_is_asked_anew_from_the_start_of_a_session() -> None:
    async def test(follower: Follower) -> None:
        channel = follower.channel
        await follower.follow()
        first = bytes(channel.outgoing)
        channel.is_ended = True
        follower.poller.dispatch()
        await trio.testing.wait_all_tasks_blocked()
        assert channel.is_closed
        assert channel not in follower.poller.interest
        channel.outgoing.clear()
        channel.is_ended = False
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(channel.outgoing) == len(first)
        assert channel.outgoing[-60:] == first[-60:]

    on_a_follower(test)
