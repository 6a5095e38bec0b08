"""Ports stay reserved while nothing listens on them, and the server they are for can still take them."""

from __future__ import annotations

import socket

import pytest

from localcluster.ports import LOOPBACK, PortReservation, PortTaken, ephemeral_range, is_accepting


def listen_like_a_server(port: int) -> socket.socket:
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((LOOPBACK, port))
    server.listen()
    return server


def test_a_server_listens_on_its_reserved_port_and_comes_back_there() -> None:
    with PortReservation() as ports:
        port = ports.reserve_free()
        for _ in range(2):
            assert not is_accepting(port)
            with listen_like_a_server(port):
                assert is_accepting(port)
        assert not is_accepting(port)


def test_two_reservations_never_share_a_port() -> None:
    with PortReservation() as mine, PortReservation() as theirs:
        port = mine.reserve_free()
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is in use"):
            theirs.reserve(port)
        assert theirs.reserve_free(preferred=port) != port


def test_a_reserved_port_is_refused_to_a_program_that_does_not_share() -> None:
    with PortReservation() as ports, socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((LOOPBACK, ports.reserve_free()))


def test_ports_that_a_process_counts_on_from_one_are_reserved_together_or_not_at_all() -> None:
    with PortReservation() as mine, PortReservation() as theirs:
        first = mine.reserve_free(count=3)
        assert mine.ports == (first, first + 1, first + 2)
        before = theirs.reserve_free(preferred=first - 2, count=3)
        assert first not in theirs.ports
        with pytest.raises(PortTaken, match=f"port {first} on 127.0.0.1 is in use"):
            theirs.reserve(first - 1, count=2)
        assert theirs.ports == (before, before + 1, before + 2)


def test_a_free_port_is_outside_the_kernels_range_for_outgoing_connections() -> None:
    low, high = ephemeral_range()
    with PortReservation() as ports:
        drawn = [ports.reserve_free() for _ in range(20)]
    assert len(set(drawn)) == 20
    assert not any(low <= port <= high for port in drawn)


def test_a_closed_reservation_gives_its_ports_back() -> None:
    with PortReservation() as ports:
        port = ports.reserve_free()
    with PortReservation() as again:
        assert again.reserve(port) == port


def test_a_port_with_connections_in_time_wait_can_be_reserved_again() -> None:
    with PortReservation() as ports:
        port = ports.reserve_free()
        with listen_like_a_server(port) as server, socket.create_connection((LOOPBACK, port)) as client:
            accepted, _ = server.accept()
            accepted.close()  # The end that closes first keeps TIME_WAIT: here the server's.
            assert client.recv(1) == b""
    with PortReservation() as again:
        assert again.reserve(port) == port
