"""A connection's order, bounds and patience, over a network in memory."""

from __future__ import annotations

import struct

import pytest

from springtide.node import connection as connection_module
from springtide.node.connection import IN_FLIGHT_REQUESTS_MAX, UNSENT_BYTES_MAX, Connection
from springtide.node.server import IDLE_BUFFER_MS, UNSENT_MS_MAX
from springtide.node.server_limits import PARTIAL_FRAME_MS_MAX
from tests.kit.clocks import ManualClock
from tests.kit.springtide.memory_net import Harness, frame


def test_requests_start_in_order_and_answers_leave_in_order_and_together() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.incoming += frame(b"a") + frame(b"b") + frame(b"c")
    harness.turn()
    assert harness.started == [b"a", b"b", b"c"]
    harness.answer(b"c")
    harness.answer(b"b")
    assert channel.outgoing == b""
    harness.answer(b"a")
    assert channel.outgoing == b"abc"
    assert channel.sends == 1


def test_a_frame_that_comes_byte_by_byte_is_one_request() -> None:
    harness = Harness()
    channel = harness.connect()
    for byte in frame(b"slow"):
        channel.incoming.append(byte)
        harness.turn()
    assert harness.started == [b"slow"]


@pytest.mark.parametrize("name", [b"bad", b"bug"])
def test_a_malformed_request_or_a_bug_of_ours_ends_only_its_connection(name: bytes) -> None:
    harness = Harness()
    broken, good = harness.connect(), harness.connect()
    broken.incoming += frame(name)
    good.incoming += frame(b"a")
    harness.turn()
    assert broken.is_closed
    assert not good.is_closed
    assert harness.started == [b"a"]
    assert harness.counters.connections_closed_malformed == (name == b"bad")


def test_beyond_the_bound_of_requests_in_flight_nothing_is_read_until_one_is_answered() -> None:
    harness = Harness()
    channel = harness.connect()
    names = [b"%04d" % number for number in range(IN_FLIGHT_REQUESTS_MAX + 10)]
    channel.incoming += b"".join(map(frame, names))
    for _ in range(20):
        harness.turn()
    assert harness.started == names[:IN_FLIGHT_REQUESTS_MAX]
    assert harness.poller.interest[channel][0] is False
    harness.answer(names[0])
    harness.turn()
    assert harness.started == names[: IN_FLIGHT_REQUESTS_MAX + 1]


def test_a_peer_that_takes_no_answers_gets_no_more_requests_started_and_is_closed_in_the_end() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.room_bytes = 0
    channel.incoming += frame(b"a")
    harness.turn()
    harness.answer(b"a", bytes(UNSENT_BYTES_MAX))
    channel.incoming += frame(b"b")
    harness.turn()
    assert harness.started == [b"a"]
    (connection,) = harness.server._connections
    assert harness.server._overdue(connection, connection.last_progress_ms + UNSENT_MS_MAX) is None
    overdue = harness.server._overdue(connection, connection.last_progress_ms + UNSENT_MS_MAX + 1)
    assert overdue == "it does not take its answers"


def test_what_the_kernel_did_not_take_leaves_when_it_can_and_requests_go_on() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.room_bytes = 3
    channel.incoming += frame(b"a")
    harness.turn()
    harness.answer(b"a", b"answer")
    assert channel.outgoing == b"ans"
    assert harness.poller.interest[channel] == (True, True)
    channel.room_bytes = 100
    harness.turn()
    assert channel.outgoing == b"answer"
    assert harness.poller.interest[channel] == (True, False)


def test_an_incomplete_frame_has_its_time_and_a_slow_large_one_has_more() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.incoming += struct.pack(">i", 100) + b"x"
    harness.turn()
    (connection,) = harness.server._connections
    since_ms = connection.partial_since_ms
    assert since_ms is not None
    assert harness.server._overdue(connection, since_ms + PARTIAL_FRAME_MS_MAX) is None
    assert harness.server._overdue(connection, since_ms + PARTIAL_FRAME_MS_MAX + 2) is not None
    channel.incoming += b"x" * 99
    harness.turn()
    assert connection.partial_since_ms is None


def test_an_idle_connection_is_overdue_but_not_one_that_waits_for_us() -> None:
    harness = Harness(idle_ms_max=1_000)
    channel = harness.connect()
    (connection,) = harness.server._connections
    later_ms = connection.last_progress_ms + 1_001
    assert harness.server._overdue(connection, later_ms) == "idle"
    channel.incoming += frame(b"a")
    harness.turn()
    assert harness.server._overdue(connection, connection.last_progress_ms + 1_001) is None


def test_connections_beyond_a_limit_are_refused() -> None:
    harness = Harness(connections_max=3, connections_per_ip_max=2)
    assert not harness.connect("a").is_closed
    assert not harness.connect("a").is_closed
    assert harness.connect("a").is_closed
    assert not harness.connect("b").is_closed
    assert harness.connect("c").is_closed
    assert harness.counters.connections_refused == 2


def test_a_connection_that_leaves_makes_room_and_takes_its_answers_with_it() -> None:
    harness = Harness(connections_per_ip_max=1)
    channel = harness.connect()
    channel.incoming += frame(b"a")
    channel.is_ended = True
    harness.turn()
    harness.turn()
    assert channel.is_closed
    harness.answer(b"a")
    assert channel.outgoing == b""
    assert not harness.connect().is_closed


def test_one_turn_starts_a_bounded_number_of_requests_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "TURN_REQUESTS_MAX", 2)
    harness = Harness()
    channel = harness.connect()
    channel.incoming += b"".join(frame(b"%d" % number) for number in range(5))
    harness.turn()
    assert len(harness.started) == 2
    harness.turn()
    assert len(harness.started) == 4
    harness.turn()
    assert len(harness.started) == 5


def look_after(harness: Harness) -> None:
    harness.server.look_after_connections()
    harness.turn()


def test_over_the_memory_of_all_nothing_more_is_started_until_there_is_room() -> None:
    harness = Harness(memory_bytes_max=50_000)
    holder, other = harness.connect(), harness.connect()
    holder.incoming += frame(b"h" * 60_000)
    harness.turn()
    look_after(harness)
    other.incoming += frame(b"a")
    harness.turn()
    assert harness.started == [b"h" * 60_000]
    assert harness.poller.interest[other][0] is False
    harness.answer(b"h" * 60_000, b"done")
    (connection, _) = harness.server._connections
    connection._reader.release()
    look_after(harness)
    assert harness.started[1:] == [b"a"]


def test_frames_that_nobody_completes_can_not_keep_the_broker_over_its_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(memory_bytes_max=50_000)
    hostile, good = harness.connect(), harness.connect()
    hostile.incoming += struct.pack(">i", 90_000_000) + bytes(60_000)
    harness.turn()
    look_after(harness)
    hostile.incoming += bytes(60_000)
    good.incoming += frame(b"a")
    harness.turn()
    harness.turn()
    assert harness.started == []
    (connection, _) = harness.server._connections
    assert harness.poller.interest[hostile][0] is False
    assert connection.partial_since_ms is not None
    late_ms = connection.partial_since_ms + PARTIAL_FRAME_MS_MAX + 1
    monkeypatch.setattr(harness.server, "clock", ManualClock(late_ms))
    look_after(harness)
    assert hostile.is_closed
    look_after(harness)
    assert harness.started == [b"a"]


def test_many_connections_that_were_busy_once_do_not_hold_the_broker_up_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(memory_bytes_max=1_000_000)
    channels = [harness.connect() for _ in range(20)]
    for number, channel in enumerate(channels):
        name = b"%d" % number + bytes(60_000)
        channel.incoming += frame(name)
        harness.turn()
        harness.answer(name, b"done")
    harness.server.look_after_connections()
    assert harness.server.is_over_memory()
    late_ms = harness.server.clock.mono_ms() + IDLE_BUFFER_MS + 1
    monkeypatch.setattr(harness.server, "clock", ManualClock(late_ms))
    look_after(harness)
    assert not harness.server.is_over_memory()
    channels[0].incoming += frame(b"again")
    harness.turn()
    assert harness.started[-1] == b"again"


def held(harness: Harness) -> Connection:
    (connection,) = harness.server._connections
    connection.hold()
    return connection


def test_a_connection_that_is_held_starts_and_reads_nothing_until_it_is_released() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.incoming += frame(b"a") + frame(b"b")
    connection = held(harness)
    harness.turn()
    harness.server.look_after_connections()
    harness.turn()
    assert harness.started == []
    assert harness.poller.interest[channel] == (False, False)
    connection.release()
    harness.turn()
    assert harness.started == [b"a", b"b"]


def test_a_request_that_holds_its_connection_starts_before_those_behind_it() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.incoming += frame(b"hold") + frame(b"b")
    harness.turn()
    assert harness.started == [b"hold"]
    harness.answer(b"hold")
    assert channel.outgoing == b"hold" and harness.started == [b"hold"]
    (connection,) = harness.server._connections
    connection.release()
    harness.turn()
    assert harness.started == [b"hold", b"b"]


def test_an_end_sends_the_complete_answers_at_the_head_and_drops_the_others() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.incoming += frame(b"a") + frame(b"b") + frame(b"c")
    harness.turn()
    harness.answers[b"a"].complete([b"a"])
    harness.answers[b"c"].complete([b"c"])
    (connection,) = harness.server._connections
    connection.end()
    assert channel.outgoing == b"a" and channel.is_closed
    harness.answer(b"b")
    assert channel.outgoing == b"a"


def test_an_end_waits_for_the_kernel_and_for_no_longer_than_any_answer() -> None:
    harness = Harness()
    channel = harness.connect()
    channel.room_bytes = 2
    channel.incoming += frame(b"a")
    harness.turn()
    harness.answers[b"a"].complete([b"answer"])
    (connection,) = harness.server._connections
    connection.end()
    assert channel.outgoing == b"an" and not channel.is_closed
    overdue = harness.server._overdue(connection, connection.last_progress_ms + UNSENT_MS_MAX + 1)
    assert overdue == "it does not take its answers"
    channel.room_bytes = 100
    harness.turn()
    assert channel.outgoing == b"answer" and channel.is_closed


def test_a_limit_counts_for_frames_whose_size_is_read_after_it() -> None:
    harness = Harness()
    channel = harness.connect()
    (connection,) = harness.server._connections
    connection.limit_requests(4)
    channel.incoming += frame(b"four")
    harness.turn()
    connection.limit_requests(5)
    channel.incoming += frame(b"-five")
    harness.turn()
    channel.incoming += frame(b"-_-six")
    harness.turn()
    assert harness.started == [b"four", b"-five"] and channel.is_closed


def test_a_release_does_not_end_a_mute_nor_the_end_of_a_mute_a_hold() -> None:
    harness = Harness()
    channel = harness.connect()
    connection = held(harness)
    connection.mute(harness.server.clock.mono_ms() + 1_000_000)
    channel.incoming += frame(b"a")
    connection.release()
    harness.turn()
    assert harness.started == []
    connection.hold()
    connection.end_mute(harness.server.clock.mono_ms())
    harness.turn()
    assert harness.started == []
    connection.release()
    harness.turn()
    assert harness.started == [b"a"]
