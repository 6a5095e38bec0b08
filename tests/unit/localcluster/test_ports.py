"""Ports stay reserved while nothing listens on them, and the server they are for can still take them."""

from __future__ import annotations

import socket

import pytest

from localcluster.ports import LOOPBACK, PortReservation, PortTaken, is_accepting


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


def test_ports_that_a_process_counts_on_from_one_are_reserved_together_or_not_at_all() -> None:
    with PortReservation() as mine, PortReservation() as theirs:
        first = mine.reserve_free(count=3)
        assert mine.ports == (first, first + 1, first + 2)
        before = theirs.reserve_free(preferred=first - 2, count=3)
        assert first not in theirs.ports
        with pytest.raises(PortTaken, match=f"port {first} on 127.0.0.1 is in use"):
            theirs.reserve(first - 1, count=2)
        assert theirs.ports == (before, before + 1, before + 2)
