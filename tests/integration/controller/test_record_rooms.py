"""The process of a look, against a peer that is no broker: it sends what no broker would, and the process has
bounds of memory and time all the same."""

from __future__ import annotations

import base64
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
import pytest

from admin_api.records.room.questions import (
    ADDRESS_SPACE_BYTES_MAX,
    BATCH_BYTES_MAX,
    AskedLog,
    LookRefusal,
    LookSummary,
    RecordLook,
)
from admin_api.records.rooms import RecordRooms, RoomLost
from springtide.wire import codec
from springtide.wire.apis import ApiKey
from springtide.wire.compression import Compression
from springtide.wire.fetch_response import FetchedPartition, encode_fetch_response
from springtide.wire.framing import FileChunk, encode_response_frame
from springtide.wire.headers import decode_request_header
from springtide.wire.record_batch import BATCH_LENGTH_MIN, decode_header
from springtide.wire.records import NewRecord, encode_batch, seal_batch, write_varint

pytestmark = pytest.mark.timeout(120)

T = TypeVar("T")
MIB = 1024 * 1024
TOPIC_ID = base64.urlsafe_b64encode(bytes(15) + b"\x01").decode().rstrip("=")
#: An interpreter, its libraries and their data.
EMPTY_MIB_MAX = 60


@contextmanager
def peer(end: int, fetched: Callable[[int], list[bytes] | None]) -> Iterator[AskedLog]:
    """A peer with one partition. fetched: its batches from an offset on; None: it stays silent."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while len(size := self.rfile.read(4)) == 4:
                frame = memoryview(self.rfile.read(int.from_bytes(size)))
                head = decode_request_header(frame)
                position = head.body_position
                if head.api_key == ApiKey.LIST_OFFSETS:
                    self.list_offsets(head.api_version, head.correlation_id, frame, position)
                else:
                    asked: Any = codec.decode(codec.request_type(1, head.api_version), frame, position)
                    offset = asked.topics[0].partitions[0].fetch_offset
                    batches = fetched(offset)
                    if batches is None:
                        time.sleep(30)
                        return
                    told = FetchedPartition(asked.topics[0].topic_id.bytes, 0, 0, end, end, 0, batches)
                    self.answer(head.correlation_id, encode_fetch_response(head.api_version, [told]))

        def list_offsets(self, version: int, correlation_id: int, frame: memoryview, position: int) -> None:
            asked: Any = codec.decode(codec.request_type(ApiKey.LIST_OFFSETS, version), frame, position)
            at = asked.topics[0].partitions[0].timestamp
            row = {"partition_index": 0, "offset": 0 if at == -2 else end, "timestamp": -1}
            body = {"throttle_time_ms": 0, "topics": ({"name": "t", "partitions": ({**row, **NO_ERROR},)},)}
            answer = codec.build(codec.response_type(ApiKey.LIST_OFFSETS, version), body)
            self.answer(correlation_id, [codec.encode(answer)])

        def answer(self, correlation_id: int, chunks: Any) -> None:
            try:
                for chunk in encode_response_frame(correlation_id, chunks, has_flexible_header=True):
                    assert not isinstance(chunk, FileChunk)
                    self.wfile.write(chunk)
            except ConnectionError:
                pass  # it has had enough

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield AskedLog(0, "127.0.0.1", server.server_address[1], 0)
        finally:
            server.shutdown()


NO_ERROR = {"error_code": 0, "leader_epoch": 0}


#: Runs the process below a small one: what a large parent has counts for its child, too.
MEASURE = """
import resource, subprocess, sys
room = subprocess.run((sys.executable, "-P", "-m", "admin_api.records.room"), stderr=subprocess.DEVNULL)
print(room.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""


def look_in(log: AskedLog, **wanted: Any) -> tuple[int, int, LookSummary, dict[str, Any]]:
    """Run the process, and return its status, the most memory that it had (MiB), and its answer."""
    look = RecordLook(**{"topic": "t", "topic_id": TOPIC_ID, "logs": (log,), **wanted})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = (sys.executable, "-P", "-c", MEASURE)
    measured = subprocess.run(
        command, input=msgspec.json.encode((look, None)), capture_output=True, env=environment, check=True
    )
    status, most_kib = map(int, measured.stderr.split())
    line, _, body = measured.stdout.partition(b"\n")
    summary = msgspec.json.decode(line, type=LookSummary) if line else LookSummary()
    return status, most_kib // 1024, summary, msgspec.json.decode(body or b"{}")


def batch(*values: bytes, offset: int = 0, compression: Compression = Compression.NONE) -> bytes:
    return encode_batch(
        [NewRecord(value=value) for value in values], base_offset=offset, compression=compression
    )


def test_a_look_at_little_takes_little() -> None:
    with peer(1, lambda offset: [batch(b"hello")]) as log:
        status, most_mib, summary, answer = look_in(log)
    assert (status, summary.records, answer["items"][0]["value"]["data"]) == (0, 1, "hello")
    assert most_mib < EMPTY_MIB_MAX


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_costs_bounded_memory_and_the_records_behind_it_can_be_seen(compression: Compression) -> None:
    bomb = batch(bytes(400 * MIB), compression=compression)
    assert len(bomb) < 4 * MIB
    with peer(2, lambda offset: [bomb, batch(b"behind", offset=1)]) as log:
        status, most_mib, summary, answer = look_in(log, scanned_bytes_max=2**40)
    assert (status, summary.records, answer["unread"][0]["offset"]) == (0, 1, 0)
    assert answer["items"][0]["value"]["data"] == "behind"
    print(f"a bomb of 400 MiB in {compression.name}: {most_mib} MiB")
    assert most_mib < EMPTY_MIB_MAX + 2.5 * BATCH_BYTES_MAX / MIB


def test_a_large_value_is_shown_by_its_beginning_and_a_larger_one_is_named() -> None:
    large = batch(b"x" * (60 * MIB), compression=Compression.ZSTD)
    with peer(1, lambda offset: [large]) as log:
        status, most_mib, summary, answer = look_in(log, value="X", ignore_case=True)
    (item,) = answer["items"]
    assert (status, item["value"]["size_bytes"], item["value"]["truncated"]) == (0, 60 * MIB, True)
    assert summary.bytes < MIB
    print(f"a value of 60 MiB: {most_mib} MiB")
    assert most_mib < EMPTY_MIB_MAX + 3.5 * BATCH_BYTES_MAX / MIB

    with peer(1, lambda offset: [batch(b"x" * (100 * MIB))]) as log:
        status, most_mib, summary, _ = look_in(log)
    assert (status, summary.refused) == (0, LookRefusal.LEADER)
    assert "larger than" in summary.detail
    assert most_mib < EMPTY_MIB_MAX + MIB


def test_a_record_of_millions_of_headers_ends_within_the_memory_of_a_look() -> None:
    headers = 20_000_000
    record = bytearray(b"\x00\x00\x00\x01\x01")
    write_varint(record, headers)
    record += bytes(2 * headers)  # each of an empty name and an empty value
    payload = bytearray()
    write_varint(payload, len(record))
    payload += record
    header = decode_header(batch(b""))
    hostile = seal_batch(header._replace(batch_length=BATCH_LENGTH_MIN + len(payload)), payload)
    with peer(1, lambda offset: [hostile]) as log:
        status, most_mib, summary, answer = look_in(log)
    print(f"a record of {headers} headers: status {status}, {most_mib} MiB, {answer.get('unread')}")
    assert most_mib < ADDRESS_SPACE_BYTES_MAX / MIB
    assert status != 0 or answer["unread"][0]["why"] == "a record takes more memory than a look has"
    assert summary.records == 0


def looked(log: AskedLog, **wanted: Any) -> LookSummary:
    look = RecordLook(**{"topic": "t", "topic_id": TOPIC_ID, "logs": (log,), **wanted})
    summary, _ = anyio.run(partial(RecordRooms().look, look, has_tls=False))
    return summary


def test_a_silent_peer_and_a_killed_process_are_errors_of_the_one_look() -> None:
    with peer(1, lambda offset: None) as log, ThreadPoolExecutor() as pool:
        assert looked(log, ms_max=1_500).refused is LookRefusal.LEADER
        asked = pool.submit(looked, log)
        os.kill(a_child(), signal.SIGKILL)
        with pytest.raises(RoomLost, match="ended with status -9"):
            asked.result()
    with peer(1, lambda offset: [batch(b"hello")]) as log:
        assert looked(log).records == 1
    assert children() == []


def test_secrets_of_the_controllers_environment_are_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPRINGTIDE_TOKENS", "alice admin a-secret-of-some-length")
    with peer(1, lambda offset: None) as log, ThreadPoolExecutor() as pool:
        pool.submit(looked, log)
        place = Path(f"/proc/{a_child()}/environ")
        seen = place.read_text()
    assert "PYTHONPATH" in seen
    assert "SPRINGTIDE" not in seen


def a_child() -> int:
    return until(children)[0]


def until(found: Callable[[], T]) -> T:
    """Return what is found, as soon as it is."""
    for _ in range(6_000):
        if it := found():
            return it
        time.sleep(0.01)
    raise AssertionError("it took a minute")


def children() -> list[int]:
    """The processes of looks. Other tests of this process may have left it other children."""
    tasks = Path("/proc/self/task").iterdir()
    found = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    return [pid for pid in found if b"admin_api.records.room" in Path(f"/proc/{pid}/cmdline").read_bytes()]
