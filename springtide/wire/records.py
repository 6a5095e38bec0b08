"""The records inside a batch: reading them one by one, and writing batches.

Not for the hot path: this makes an object per record. Timestamp lookup, dump-log, tests and tools read with
`iter_records`; tests and tools write with `encode_batch`. A leader checks records with produced_records.py.

Every field's length is checked against the end of its record, and decompression is bounded by the caller's
cap (see compression.py).

A record (KIP-98), after its zigzag varint length: attributes byte, timestamp delta varlong, offset delta
varint, key length varint and key, value length varint and value, header count varint, and per header key
length varint, key, value length varint, value. Length -1 is null, where null is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crc32c import crc32c

from .compression import (
    Buffer,
    Compression,
    CorruptCompressedData,
    DecompressedTooLarge,
    compress,
    decompress,
)
from .record_batch import (
    ATTRIBUTE_APPEND_TIME,
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_LENGTH_MIN,
    CRC_START,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    CorruptBatch,
    TimestampType,
    crc_is_valid,
    decode_header,
    encode_header,
)

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""Default cap of `iter_records`: above what any sane max.message.bytes expands to."""

VARINT_SHIFT_MAX = 28  # five bytes
VARLONG_SHIFT_MAX = 63  # ten bytes

RecordHeader = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record of a log: absolute offset, Unix milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...] = ()


class NewRecord(NamedTuple):
    """One record to be written. Its offset comes from its place in the batch."""

    key: bytes | None = None
    value: bytes | None = None
    timestamp: int = 0
    headers: tuple[RecordHeader, ...] = ()


class BadRecords(Exception):
    """The bytes break the record layout."""


def iter_records(view: Buffer, *, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the records of the one batch that begins `view`; bytes after it are ignored.

    Raise CorruptBatch: before the first record if header, CRC or compressed bytes are bad or the output would
    exceed the cap; at a record with a bad layout. Keys and values are copies.
    """
    view = memoryview(view)
    header = decode_header(view)
    if header.magic != MAGIC:
        raise CorruptBatch(f"unknown magic {header.magic}")
    if not crc_is_valid(view, header):
        raise CorruptBatch("CRC does not match")
    try:
        payload = open_payload(view, header, decompressed_bytes_max)
        append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        position = 0
        for _ in range(header.record_count):
            position, record = _read_record(payload, position, header, append_time)
            yield record
    except (CorruptCompressedData, DecompressedTooLarge, BadRecords) as error:
        raise CorruptBatch(str(error) or type(error).__name__) from error
    if position != len(payload):
        raise CorruptBatch("bytes after the last record")


def encode_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Return one batch with its CRC, as a producer (base offset 0) or a log (any base offset) holds it."""
    records = tuple(records)
    assert records, "a batch has at least one record"
    base_timestamp = records[0].timestamp
    body = bytearray()
    for offset_delta, record in enumerate(records):
        encoded = _encode_record(record, offset_delta=offset_delta, base_timestamp=base_timestamp)
        write_varint(body, len(encoded))
        body += encoded
    payload = compress(compression, body)
    attributes = int(compression)
    attributes |= ATTRIBUTE_APPEND_TIME if timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    attributes |= ATTRIBUTE_TRANSACTIONAL if is_transactional else 0
    attributes |= ATTRIBUTE_CONTROL if is_control else 0
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=BATCH_LENGTH_MIN + len(payload),
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return seal_batch(header, payload)


def seal_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """Return `header` and `payload`, unchecked, under a valid CRC. Tests make bad batches with it."""
    crc = crc32c(payload, crc32c(encode_header(header)[CRC_START:]))
    return encode_header(header._replace(crc=crc)) + bytes(payload)


def write_varint(out: bytearray, value: int) -> None:
    """Append the zigzag varint (or varlong) of `value`, a signed 64-bit integer."""
    raw = (value << 1) ^ (value >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def open_payload(view: memoryview, header: BatchHeader, decompressed_bytes_max: int) -> Buffer:
    """Return the bytes of the records of the batch that begins `view`; a view where they are not compressed,
    and then as large as they are. Raise CorruptCompressedData, DecompressedTooLarge."""
    compression = header.attributes & ATTRIBUTE_COMPRESSION
    records = view[HEADER_BYTES : header.batch_length + LENGTH_FIELD_END]
    if not compression:
        return records  # the frame limit has bounded it
    if compression > Compression.ZSTD:
        raise CorruptCompressedData(f"unknown codec {compression}")
    return decompress(Compression(compression), records, decompressed_bytes_max=decompressed_bytes_max)


def read_varint(buffer: Buffer, position: int, end: int, shift_max: int) -> tuple[int, int]:
    """Return (position after it, value) of a zigzag varint of at most five (ten) bytes that ends before
    `end`."""
    raw = shift = 0
    while True:
        if position >= end or shift > shift_max:
            raise BadRecords("varint runs too long")
        byte = buffer[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return position, (raw >> 1) ^ -(raw & 1)
        shift += 7


def _read_sized(buffer: Buffer, position: int, end: int) -> tuple[int, bytes | None]:
    position, length = read_varint(buffer, position, end, VARINT_SHIFT_MAX)
    if length < -1 or length > end - position:
        raise BadRecords(f"length {length} exceeds its record")
    if length < 0:
        return position, None
    return position + length, bytes(buffer[position : position + length])


def record_end(payload: Buffer, position: int) -> tuple[int, int]:
    """Return (position of the attributes, position after the record) of the one that begins here."""
    position, length = read_varint(payload, position, len(payload), VARINT_SHIFT_MAX)
    if length < 0 or length > len(payload) - position:
        raise BadRecords(f"record length {length} exceeds the batch")
    if length == 0:
        raise BadRecords("empty record")
    return position, position + length


def _read_record(
    payload: Buffer, position: int, header: BatchHeader, append_time: int | None
) -> tuple[int, Record]:
    position, end = record_end(payload, position)
    position, timestamp_delta = read_varint(payload, position + 1, end, VARLONG_SHIFT_MAX)
    position, offset_delta = read_varint(payload, position, end, VARINT_SHIFT_MAX)
    position, key = _read_sized(payload, position, end)
    position, value = _read_sized(payload, position, end)
    position, header_count = read_varint(payload, position, end, VARINT_SHIFT_MAX)
    if header_count < 0 or header_count * 2 > end - position:
        raise BadRecords(f"header count {header_count} exceeds its record")
    headers: list[RecordHeader] = []
    for _ in range(header_count):
        position, name = _read_sized(payload, position, end)
        if name is None:
            raise BadRecords("header key is null")
        try:
            text = name.decode()
        except UnicodeDecodeError:
            raise BadRecords("header key is not UTF-8") from None
        position, header_value = _read_sized(payload, position, end)
        headers.append((text, header_value))
    if position != end:
        raise BadRecords("record is longer than its fields")
    timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
    return end, Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers))


def _encode_record(record: NewRecord, *, offset_delta: int, base_timestamp: int) -> bytearray:
    out = bytearray(1)  # attributes: unused in format 2
    write_varint(out, record.timestamp - base_timestamp)
    write_varint(out, offset_delta)
    _write_sized(out, record.key)
    _write_sized(out, record.value)
    write_varint(out, len(record.headers))
    for name, value in record.headers:
        _write_sized(out, name.encode())
        _write_sized(out, value)
    return out


def _write_sized(out: bytearray, data: bytes | None) -> None:
    write_varint(out, -1 if data is None else len(data))
    if data is not None:
        out += data
