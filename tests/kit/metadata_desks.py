"""Ask each broker over a connection of its own, as no client lets a test do."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.headers import decode_response_header
from tests.kit.dataplane.raw import frame_of

TIMEOUT_S: Final = 30
METADATA_VERSION = 12


@contextmanager
def desks_of(bootstrap_servers: str) -> Iterator[list[socket.socket]]:
    """Open a connection to each broker."""
    with ExitStack() as stack:
        addresses = [address.rsplit(":", 1) for address in bootstrap_servers.split(",")]
        yield [
            stack.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
            for host, port in addresses
        ]


def told_of(desk: socket.socket, topic: str) -> Any:
    """Return what this broker's Metadata says of the topic at this moment."""
    fields = {"topics": ({"topic_id": None, "name": topic},), "allow_auto_topic_creation": False}
    send(desk, ApiKey.METADATA, METADATA_VERSION, fields)
    frame = memoryview(_exactly(desk, int.from_bytes(_exactly(desk, 4))))
    _, position = decode_response_header(frame, api_key=ApiKey.METADATA, api_version=METADATA_VERSION)
    answer: Any = codec.decode(codec.response_type(ApiKey.METADATA, METADATA_VERSION), frame, position)
    (told,) = answer.topics
    return told


def send(desk: socket.socket, api: ApiKey, version: int, fields: Mapping[str, Any]) -> None:
    """Send a request, whose answer may be left unread."""
    desk.sendall(frame_of(api, version, codec.encode(codec.build(codec.request_type(api, version), fields))))


def _exactly(desk: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        received = desk.recv(count - len(found))
        assert received, "the broker ended the connection"
        found += received
    return found
