"""The loads' TLS: what a plain socket that does not block would do."""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.secured import SecuredSocket, client_context, secured
from tests.kit.springtide.certificates import PrivateCa


def test_what_does_not_fit_is_sent_again_and_all_that_has_come_is_taken_at_once(tmp_path: Path) -> None:
    ca = PrivateCa(tmp_path)
    listener = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listener.load_cert_chain(ca.keystore("broker"))
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as other_side:
        shaking = other_side.submit(listener.wrap_socket, theirs, server_side=True)
        connected = secured(ours, "127.0.0.1", client_context(ca.file))
        with shaking.result() as broker, connected:
            assert isinstance(connected, ssl.SSLSocket)
            connected.setblocking(False)
            client = SecuredSocket(connected)
            frame = bytes(range(256)) * 100
            sent = 0
            with pytest.raises(BlockingIOError):
                while True:
                    sent += client.send(frame)
            reading = other_side.submit(lambda: broker.makefile("rb").read(sent + 3 * len(frame)))
            unsent = 3 * len(frame)
            while unsent:
                try:
                    unsent -= client.sendmsg([frame, frame, frame][-(unsent // len(frame)) :])
                except BlockingIOError:
                    continue
            assert reading.result() == frame * (sent // len(frame) + 3)
            broker.sendall(frame)
            broker.sendall(b"end")
            room = memoryview(bytearray(2 * len(frame)))
            assert client.recv_into(room) == len(frame) + 3
            assert bytes(room[: len(frame) + 3]) == frame + b"end"
            with pytest.raises(BlockingIOError):
                client.recv_into(room)
