"""Connections to brokers that wait: the process has nothing else to do, and its look has an end."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Final

from admin_api.records.room.questions import BATCH_BYTES_MAX, AskedLog, RecordLook
from admin_api.records.room.reading import BatchTooLarge, BrokerLost
from springtide.tls import KafkaTls, TlsFilesInvalid
from springtide.wire.apis import ApiKey
from springtide.wire.client import WireAnswer, WireClient, request_body
from springtide.wire.fetch_request import FetchPartition, FetchRequest, encode_fetch_request
from springtide.wire.fetch_response import FetchedPartition, decode_fetch_response
from springtide.wire.framing import FrameError
from springtide.wire.primitives import MalformedRequest
from springtide.wire.questions import ListedOffset, Place, list_offsets, listed_offsets

CLIENT_ID: Final = "springtide-records"
CONNECT_S_MAX: Final = 2.0
ANSWER_S_MAX: Final = 4.0
FETCH_BYTES: Final = 256 * 1024
"""Of one answer, if its first batch is no larger."""
#: The first that names a topic by its id: a topic that was made again is never read in its place.
_FETCH_VERSION: Final = 13
_LIST_OFFSETS_VERSION: Final = 7
_Address = tuple[str, int]
_FAILURES: Final = (OSError, FrameError, MalformedRequest, TlsFilesInvalid, UnicodeError, OverflowError)


class Brokers:
    """Implements Leaders over TCP. tls: None speaks in the clear. left_s: returns how much of the look's time
    is left."""

    def __init__(self, look: RecordLook, tls: KafkaTls | None, *, left_s: Callable[[], float]) -> None:
        self._topic_id = base64.urlsafe_b64decode(look.topic_id + "==")
        self._files = tls
        self._left_s = left_s
        self._open: dict[_Address, _Connection] = {}
        self._tls: ssl.SSLContext | None = None

    def list_offsets(self, leader: _Address, asked: Mapping[Place, int]) -> dict[Place, ListedOffset]:
        body = request_body(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, list_offsets(asked))
        try:
            answer = self._connected(leader).ask(ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, body)
            return listed_offsets(answer.message())
        except _FAILURES as error:
            raise self._lost(leader, error) from error

    def fetch(self, log: AskedLog, offset: int) -> FetchedPartition:
        leader = (log.host, log.port)
        asked = FetchPartition(self._topic_id, log.partition, fetch_offset=offset, max_bytes=FETCH_BYTES)
        request = FetchRequest(max_bytes=FETCH_BYTES, partitions=[asked])
        body = encode_fetch_request(_FETCH_VERSION, request)
        try:
            answer = self._connected(leader).ask(ApiKey.FETCH, _FETCH_VERSION, body)
            told = decode_fetch_response(_FETCH_VERSION, answer.frame, answer.position)
        except FrameError as error:
            self._close(leader)
            raise BatchTooLarge(str(error)) from error
        except _FAILURES as error:
            raise self._lost(leader, error) from error
        if told.error_code:
            return FetchedPartition(asked.topic, asked.partition, told.error_code)
        if len(told.partitions) != 1 or told.partitions[0].partition != log.partition:
            raise self._lost(leader, MalformedRequest("its answer is about other partitions"))
        return told.partitions[0]

    def _connected(self, leader: _Address) -> _Connection:
        found = self._open.get(leader)
        if found is None:
            found = self._open[leader] = _Connection(leader, self._context(), left_s=self._left_s)
        return found

    def _context(self) -> ssl.SSLContext | None:
        if self._files is not None and self._tls is None:
            self._tls = self._files.context()
        return self._tls

    def _lost(self, leader: _Address, error: BaseException) -> BrokerLost:
        self._close(leader)
        host = f"[{leader[0]}]" if ":" in leader[0] else leader[0]
        told = (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__
        return BrokerLost(f"{host}:{leader[1]}: {told}")

    def _close(self, leader: _Address) -> None:
        connection = self._open.pop(leader, None)
        if connection is not None:
            connection.close()


class _Connection:
    """One question at a time."""

    def __init__(self, leader: _Address, tls: ssl.SSLContext | None, *, left_s: Callable[[], float]) -> None:
        self._left_s = left_s
        self._client: WireClient[None] = WireClient(CLIENT_ID, answer_bytes_max=BATCH_BYTES_MAX)
        self._socket = socket.create_connection(leader, timeout=min(CONNECT_S_MAX, self._wait_s()))
        if tls is not None:
            try:
                self._socket = tls.wrap_socket(self._socket, server_hostname=leader[0])
            except OSError:
                self._socket.close()
                raise

    def ask(self, api_key: ApiKey, api_version: int, body: bytes) -> WireAnswer[None]:
        self._socket.settimeout(self._wait_s())
        self._socket.sendall(b"".join(self._client.ask(api_key, api_version, [body], None)))
        while (answer := self._client.next_answer()) is None:
            self._socket.settimeout(self._wait_s())
            self._client.received(self._socket.recv_into(self._client.frames.writable()))
        return answer

    def close(self) -> None:
        self._socket.close()

    def _wait_s(self) -> float:
        left_s = self._left_s()
        if left_s <= 0:
            raise TimeoutError("no answer in time")
        return min(left_s, ANSWER_S_MAX)
