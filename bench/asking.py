"""Connections to brokers, and questions that are asked once: for leaders, in-sync sets and offsets."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Sequence

from bench import protocol
from bench.protocol import BadAnswer, Leader
from bench.secured import SecuredSocket, secured

ANSWER_SECONDS_MAX = 30.0
SERVED_SECONDS_MAX = 60.0
SERVED_POLL_SECONDS = 0.05
_SIZE = struct.Struct(">i")


def connect(leader: Leader, tls: ssl.SSLContext | None) -> socket.socket | SecuredSocket:
    """A non-blocking connection that sends at once."""
    plain = socket.create_connection((leader.host, leader.port), timeout=ANSWER_SECONDS_MAX)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected = secured(plain, leader.host, tls)
    connected.setblocking(False)
    return SecuredSocket(connected) if isinstance(connected, ssl.SSLSocket) else connected


def ask_once(host: str, port: int, request: bytes, tls: ssl.SSLContext | None = None) -> memoryview:
    """One request on a connection of its own; the answer's frame without its size."""
    plain = socket.create_connection((host, port), timeout=ANSWER_SECONDS_MAX)
    with secured(plain, host, tls) as connected:
        return ask(connected, request)


def ask(connected: socket.socket, request: bytes) -> memoryview:
    """One request on a connection that blocks; the answer's frame without its size."""
    connected.sendall(request)
    with connected.makefile("rb") as stream:
        (size,) = _SIZE.unpack(stream.read(_SIZE.size))
        return memoryview(stream.read(size))


def first_address(bootstrap_servers: str) -> tuple[str, int]:
    host, _, port = bootstrap_servers.partition(",")[0].rpartition(":")
    return host, int(port)


def find_leaders(bootstrap_servers: str, topic: str, tls: ssl.SSLContext | None = None) -> list[Leader]:
    """The leaders of a topic's partitions, in order; asks the first of the servers."""
    leaders = protocol.decode_leaders(
        ask_once(*first_address(bootstrap_servers), protocol.encode_metadata(topic), tls)
    )
    if not leaders:
        raise BadAnswer(f"{topic} has no partition")
    return leaders


def wait_until_served(bootstrap_servers: str, topic: str, tls: ssl.SSLContext | None = None) -> None:
    """Return when the first of the servers knows every leader, and each leader serves its partitions: brokers
    hear of a new topic after its creator. Raises BadAnswer."""
    deadline = time.monotonic() + SERVED_SECONDS_MAX
    while True:
        try:
            for broker, partitions in partitions_by_broker(
                find_leaders(bootstrap_servers, topic, tls)
            ).items():
                numbers = [leader.partition for leader in partitions]
                request = protocol.encode_list_offsets(topic, numbers, protocol.LATEST)
                protocol.check_listed(ask_once(*broker, request, tls))
        except BadAnswer:
            if time.monotonic() > deadline:
                raise
            time.sleep(SERVED_POLL_SECONDS)
        else:
            return


def partitions_by_broker(leaders: Sequence[Leader]) -> dict[tuple[str, int], list[Leader]]:
    """The partitions that each broker leads, in order."""
    by_broker: dict[tuple[str, int], list[Leader]] = {}
    for leader in leaders:
        by_broker.setdefault((leader.host, leader.port), []).append(leader)
    return by_broker


def isr_sizes(bootstrap_servers: str, topic: str, tls: ssl.SSLContext | None = None) -> list[int]:
    """The sizes of the in-sync sets, as the first of the servers knows them."""
    metadata = ask_once(*first_address(bootstrap_servers), protocol.encode_metadata(topic), tls)
    return protocol.decode_isr_sizes(metadata)


def list_offset(leader: Leader, topic: str, timestamp: int, tls: ssl.SSLContext | None = None) -> int:
    request = protocol.encode_list_offsets(topic, [leader.partition], timestamp)
    return protocol.decode_listed_offset(ask_once(leader.host, leader.port, request, tls))
