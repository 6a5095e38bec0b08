"""Connections that are not read from for a while, over a network in memory."""

from __future__ import annotations

import struct

import pytest
import trio
import trio.testing

from springtide.node import mutes
from springtide.node.connection import Connection, PendingAnswer
from springtide.node.server import HANDSHAKE_MS_MAX, UNSENT_MS_MAX
from springtide.node.server_limits import PARTIAL_FRAME_MS_MAX
from tests.kit.clocks import ManualClock, VirtualClock
from tests.kit.springtide.memory_net import Harness, frame

MUTED_MS = 700
LATE_MS = 1_000_000


class MutingHarness(Harness):
    """Each request mutes its connection, as one above a quota does."""

    def dispatch(self, connection: Connection, frame: memoryview, answer: PendingAnswer) -> None:
        super().dispatch(connection, frame, answer)
        connection.mute(self.server.clock.mono_ms() + MUTED_MS)


def the_connection(harness: Harness) -> Connection:
    (connection,) = harness.server._connections
    return connection


def pass_ms(harness: Harness, clock: ManualClock, duration_ms: int) -> int | None:
    clock.now_ms += duration_ms
    wait_ms = harness.server.mutes.expire()
    harness.server.look_after_connections()
    harness.turn()
    return wait_ms


def test_requests_behind_the_one_that_mutes_wait_whether_read_or_not() -> None:
    clock = ManualClock()
    harness = MutingHarness(clock=clock)
    channel = harness.connect()
    channel.incoming += frame(b"a") + frame(b"b")
    harness.turn()
    channel.incoming += frame(b"c")
    assert pass_ms(harness, clock, MUTED_MS - 1) == 1
    assert harness.started == [b"a"]
    assert harness.poller.interest[channel] == (False, False)
    assert pass_ms(harness, clock, 1) is None
    assert harness.started == [b"a", b"b"]
    pass_ms(harness, clock, MUTED_MS)
    pass_ms(harness, clock, MUTED_MS)
    assert harness.started == [b"a", b"b", b"c"]


def test_answers_of_a_muted_connection_leave_at_once_and_other_connections_go_on() -> None:
    clock = ManualClock()
    harness = MutingHarness(clock=clock)
    channel, other = harness.connect(), harness.connect()
    channel.incoming += frame(b"a") + frame(b"b")
    harness.turn()
    harness.answer(b"a")
    assert channel.outgoing == b"a"
    other.incoming += frame(b"c")
    harness.turn()
    assert harness.started == [b"a", b"c"]


def test_a_mute_is_made_longer_but_not_shorter() -> None:
    clock = ManualClock(now_ms=1_000)
    harness = Harness(clock=clock)
    channel = harness.connect()
    connection = the_connection(harness)
    connection.mute(1_500)
    connection.mute(1_800)
    connection.mute(1_200)
    channel.incoming += frame(b"a")
    assert pass_ms(harness, clock, 799) == 1
    assert harness.started == []
    pass_ms(harness, clock, 1)
    assert harness.started == [b"a"]


def test_a_muted_connection_is_not_idle_and_has_its_time_anew_afterwards() -> None:
    clock = ManualClock()
    harness = Harness(clock=clock, idle_ms_max=1_000)
    channel = harness.connect()
    the_connection(harness).mute(clock.now_ms + LATE_MS)
    pass_ms(harness, clock, LATE_MS - 1)
    pass_ms(harness, clock, 1)
    pass_ms(harness, clock, 1_000)
    assert not channel.is_closed
    pass_ms(harness, clock, 1)
    assert channel.is_closed


def test_an_incomplete_request_of_a_muted_connection_has_its_time_anew_afterwards() -> None:
    clock = ManualClock()
    harness = Harness(clock=clock)
    channel = harness.connect()
    channel.incoming += struct.pack(">i", 100) + b"x"
    harness.turn()
    the_connection(harness).mute(clock.now_ms + LATE_MS)
    pass_ms(harness, clock, LATE_MS - 1)
    assert not channel.is_closed
    pass_ms(harness, clock, 1)
    pass_ms(harness, clock, PARTIAL_FRAME_MS_MAX)
    assert not channel.is_closed
    pass_ms(harness, clock, 2)
    assert channel.is_closed


def test_a_muted_peer_must_take_its_answers() -> None:
    clock = ManualClock()
    harness = MutingHarness(clock=clock)
    channel = harness.connect()
    channel.room_bytes = 0
    channel.incoming += frame(b"a")
    harness.turn()
    harness.answer(b"a")
    the_connection(harness).mute(clock.now_ms + LATE_MS)
    pass_ms(harness, clock, UNSENT_MS_MAX + 1)
    assert channel.is_closed


def test_a_connection_above_the_rate_of_its_address_is_not_read_from_and_closed_after_the_wait() -> None:
    clock = ManualClock()
    delays = {"10.0.0.1": MUTED_MS, "10.0.0.2": 0}
    harness = Harness(clock=clock, connection_delay_ms=lambda peer, _listener: delays[peer])
    fast, slow = harness.connect("10.0.0.1"), harness.connect("10.0.0.2")
    fast.is_handshaking = True
    for channel in (fast, slow):
        channel.incoming += frame(channel.peer.encode())
    pass_ms(harness, clock, MUTED_MS - 1)
    assert harness.started == [b"10.0.0.2"]
    assert not fast.is_closed
    pass_ms(harness, clock, 1)
    assert fast.is_closed
    assert harness.started == [b"10.0.0.2"]
    assert harness.counters.connections_throttled == 1


def test_a_handshake_has_no_time_while_its_connection_is_muted() -> None:
    clock = ManualClock()
    harness = Harness(clock=clock, connection_delay_ms=lambda _peer, _listener: HANDSHAKE_MS_MAX + 2)
    channel = harness.connect()
    channel.is_handshaking = True
    pass_ms(harness, clock, HANDSHAKE_MS_MAX + 1)
    assert not channel.is_closed


def test_mutes_of_connections_that_left_are_swept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutes, "ENDED_MAX", 10)
    harness = Harness(clock=ManualClock())
    for _ in range(1_000):
        channel = harness.connect()
        the_connection(harness).mute(LATE_MS)
        channel.is_ended = True
        the_connection(harness).close()
    assert len(harness.server.mutes) <= 20


def test_the_task_ends_each_mute_in_its_time() -> None:
    async def run() -> None:
        clock = VirtualClock()
        harness = Harness(clock=clock)
        first, second = harness.connect(), harness.connect()
        one, two = harness.server._connections
        start_ms = clock.mono_ms()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(harness.server.mutes.run)
            await trio.testing.wait_all_tasks_blocked()
            one.mute(start_ms + 10_000)
            two.mute(start_ms + 5_000)
            await clock.sleep_ms(7_000)
            assert (one.muted_until_ms, two.muted_until_ms) == (start_ms + 10_000, 0)
            await clock.sleep_ms(7_000)
            assert one.muted_until_ms == 0
            nursery.cancel_scope.cancel()
        assert harness.poller.interest == {first: (True, False), second: (True, False)}

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))
