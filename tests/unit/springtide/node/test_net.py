"""TCP of this machine: what its connections begin with."""

from __future__ import annotations

import errno
import socket
from typing import Any, cast

import pytest
import trio

from springtide.node.net import LOCAL_CONGESTION_CONTROL, SocketChannel, SocketListener, SystemNet

HOST = "127.0.0.1"


@pytest.mark.parametrize(
    ("source", "is_local"), [(HOST, True), ("127.0.0.2", False)], ids=["this host", "another address"]
)
def test_only_connections_from_this_host_leave_its_congestion_control(source: str, is_local: bool) -> None:
    async def test() -> None:
        listener = await SystemNet().listen("0.0.0.0", 0)
        listener.begin()
        with socket.socket() as client:
            default = congestion_control(client)
            client.bind((source, 0))
            client.connect((HOST, listener.address[1]))
            channel = await listener.accept()
            assert isinstance(channel, SocketChannel)
            with channel.give_up() as accepted:
                assert congestion_control(accepted) == (LOCAL_CONGESTION_CONTROL if is_local else default)
        listener.close()

    trio.run(test)


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_a_listener_that_is_closed_when_a_connection_has_just_come_says_so() -> None:
    """The task that accepts is woken by the connection, and runs after the close."""

    class Closed:
        async def accept(self) -> None:
            raise OSError(errno.EBADF, "Bad file descriptor")

        def fileno(self) -> int:
            return -1

    listener = SocketListener(cast(Any, Closed()), ("127.0.0.1", 1), congestion_control=b"reno")
    with pytest.raises(trio.ClosedResourceError):
        trio.run(listener.accept)
