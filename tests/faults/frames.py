"""Kafka requests as bytes, written by hand: what a hostile or broken client could send.

Nothing here uses Springtide's codec, so a mistake there cannot hide behind the same mistake here. Layouts
are those of the protocol guide, in versions without flexible fields where one exists.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from crc32c import crc32c

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 10, 18, 22, 23
DESCRIBE_LOG_DIRS, DESCRIBE_PRODUCERS = 35, 61

REPLICATED_MS_MAX = 15_000
"""How long a leader may wait for its followers: nothing here tries what comes after, and a busy machine takes
its time. Less than a Wire waits for the answer."""


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def compact_string(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def sized(raw: bytes) -> bytes:
    return struct.pack(">i", len(raw)) + raw


def array(*items: bytes) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def varint(number: int) -> bytes:
    return uvarint((number << 1) ^ (number >> 63))


def request(
    api_key: int, api_version: int, body: bytes, *, correlation_id: int = 1, flexible: bool = False
) -> bytes:
    """A request without its size prefix."""
    header = struct.pack(">hhi", api_key, api_version, correlation_id) + string("frames")
    return header + (b"\x00" if flexible else b"") + body


def frame(payload: bytes) -> bytes:
    """The payload with its size in front: what goes on the wire."""
    return sized(payload)


def record(value: bytes, *, offset_delta: int = 0, key: bytes | None = None) -> bytes:
    body = b"\x00" + varint(0) + varint(offset_delta)
    body += varint(-1) if key is None else varint(len(key)) + key
    body += varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


@dataclass(frozen=True)
class Batch:
    """A record batch whose every field can be made wrong; the CRC is computed last unless given."""

    records: bytes = record(b"value")
    count: int = 1
    last_offset_delta: int = 0
    magic: int = 2
    attributes: int = 0
    first_timestamp_ms: int = 1_600_000_000_000
    max_timestamp_ms: int = 1_600_000_000_000
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    crc: int | None = None
    length_error: int = 0

    def encode(self) -> bytes:
        checked = struct.pack(
            ">hiqqqhii",
            self.attributes,
            self.last_offset_delta,
            self.first_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        checked += self.records
        crc = crc32c(checked) if self.crc is None else self.crc
        after_length = struct.pack(">ibI", -1, self.magic, crc) + checked
        return struct.pack(">qi", 0, len(after_length) + self.length_error) + after_length


def produce(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1, correlation_id: int = 1
) -> bytes:
    """Produce v7 to one partition."""
    partitions = array(
        struct.pack(">i", partition) + (struct.pack(">i", -1) if records is None else sized(records))
    )
    body = struct.pack(">hhi", -1, acks, REPLICATED_MS_MAX) + array(string(topic) + partitions)
    return request(PRODUCE, 7, body, correlation_id=correlation_id)


def fetch(
    topic: str,
    *,
    partition: int = 0,
    fetch_offset: int = 0,
    leader_epoch: int = -1,
    replica_id: int = -1,
    session_id: int = 0,
    session_epoch: int = -1,
    max_wait_ms: int = 0,
    correlation_id: int = 1,
) -> bytes:
    """Fetch v11 from one partition."""
    of_partition = struct.pack(">iiqqi", partition, leader_epoch, fetch_offset, -1, 1 << 20)
    body = struct.pack(">iiiibii", replica_id, max_wait_ms, 1, 1 << 20, 0, session_id, session_epoch)
    body += array(string(topic) + array(of_partition)) + array() + string("")
    return request(FETCH, 11, body, correlation_id=correlation_id)


def list_offsets(topic: str, *, partition: int = 0, leader_epoch: int = -1, timestamp_ms: int = -1) -> bytes:
    """ListOffsets v4 for one partition."""
    of_partition = struct.pack(">iiq", partition, leader_epoch, timestamp_ms)
    return request(LIST_OFFSETS, 4, struct.pack(">ib", -1, 0) + array(string(topic) + array(of_partition)))


def offset_for_leader_epoch(
    topic: str, *, partition: int = 0, current: int = -1, leader_epoch: int = 0
) -> bytes:
    """OffsetForLeaderEpoch v3 for one partition."""
    of_partition = struct.pack(">iii", partition, current, leader_epoch)
    return request(
        OFFSET_FOR_LEADER_EPOCH, 3, struct.pack(">i", -1) + array(string(topic) + array(of_partition))
    )


def metadata(*topics: str, version: int = 4) -> bytes:
    """Metadata v4 to v7, which ask alike; topics are never created."""
    return request(METADATA, version, array(*(string(topic) for topic in topics)) + b"\x00")


def metadata_flexible(topic: str) -> bytes:
    """Metadata v9, the first flexible one."""
    body = uvarint(2) + compact_string(topic) + b"\x00" + b"\x00\x00\x00" + b"\x00"
    return request(METADATA, 9, body, flexible=True)


def describe_log_dirs(topic: str) -> bytes:
    """DescribeLogDirs v1."""
    return request(DESCRIBE_LOG_DIRS, 1, array(string(topic) + array(struct.pack(">i", 0))))


def describe_producers(topic: str) -> bytes:
    """DescribeProducers v0, which is flexible."""
    body = uvarint(2) + compact_string(topic) + uvarint(2) + struct.pack(">i", 0) + b"\x00" + b"\x00"
    return request(DESCRIBE_PRODUCERS, 0, body, flexible=True)


def api_versions(*, correlation_id: int = 1) -> bytes:
    """ApiVersions v0: the smallest request there is, used as a probe."""
    return request(API_VERSIONS, 0, b"", correlation_id=correlation_id)


def api_versions_flexible() -> bytes:
    body = compact_string("frames") + compact_string("1.0") + b"\x00"
    return request(API_VERSIONS, 3, body, flexible=True)


def init_producer_id() -> bytes:
    """InitProducerId v1 without a transactional id."""
    return request(INIT_PRODUCER_ID, 1, struct.pack(">hi", -1, 60_000))


def find_coordinator(key: str) -> bytes:
    """FindCoordinator v1 for a group."""
    return request(FIND_COORDINATOR, 1, string(key) + b"\x00")


@cache
def valid_requests(topic: str) -> tuple[bytes, ...]:
    """One well-formed request of each kind: the seeds that mutations start from."""
    return (
        api_versions(),
        api_versions_flexible(),
        metadata(topic),
        metadata(),
        metadata_flexible(topic),
        produce(topic, Batch().encode()),
        produce(
            topic,
            Batch(records=record(b"a") + record(b"b", offset_delta=1), count=2, last_offset_delta=1).encode(),
        ),
        fetch(topic),
        list_offsets(topic),
        list_offsets(topic, timestamp_ms=1_600_000_000_000),
        offset_for_leader_epoch(topic),
        init_producer_id(),
        describe_producers(topic),
        describe_log_dirs(topic),
        find_coordinator("a-group"),
    )


def only_partition_error(api_key: int, response: bytes) -> int:
    """The error code of the only partition in a response (without size, with correlation id) to a request
    of here."""
    position = 4
    if api_key in (FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH):
        position += 4  # throttle_time_ms
    if api_key == FETCH:
        (session_error,) = struct.unpack_from(">h", response, position)
        if session_error:
            return int(session_error)
        position += 6  # error code, session id
    (topics,) = struct.unpack_from(">i", response, position)
    assert topics == 1, response
    (name_bytes,) = struct.unpack_from(">h", response, position + 4)
    position += 6 + name_bytes
    (partitions,) = struct.unpack_from(">i", response, position)
    assert partitions == 1, response
    # OffsetForLeaderEpoch alone puts the error before the partition.
    (code,) = struct.unpack_from(">h", response, position + (4 if api_key == OFFSET_FOR_LEADER_EPOCH else 8))
    return int(code)


def base_offset(produce_response: bytes) -> int:
    """The base offset of the only partition in a Produce v7 response."""
    (name_bytes,) = struct.unpack_from(">h", produce_response, 8)
    (offset,) = struct.unpack_from(">q", produce_response, 8 + 2 + name_bytes + 4 + 4 + 2)
    return int(offset)
