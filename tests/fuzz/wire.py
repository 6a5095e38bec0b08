"""Requests of every API and version, and record batches under every compression."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress

from springtide.native.record_walk import choose_implementation
from springtide.wire.apis import APIS, ApiKey, UnsupportedApi
from springtide.wire.codec import decode, encode, request_type
from springtide.wire.compression import Compression, compress
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_request import decode_fetch_request
from springtide.wire.headers import decode_request_header, encode_request_header
from springtide.wire.primitives import MalformedRequest
from springtide.wire.produce import decode_produce_request
from springtide.wire.produced_records import check_produced_records
from springtide.wire.record_batch import (
    BATCH_LENGTH_MIN,
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    check_produced_batch,
    decode_header,
    iter_headers,
)
from springtide.wire.record_spans import read_payload, read_spans
from springtide.wire.record_walk import walk_records_in_python
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch
from tests.fuzz.target import Target, seeded
from tests.kit.springtide.random_message import random_message

SPOKEN = [
    (spec.api_key, version)
    for spec in APIS.values()
    for version in range(spec.served_since, spec.version_max + 1)
]
_SELECTOR = struct.Struct(">H")
_API = struct.Struct(">hh")
DECOMPRESSED_BYTES_MAX = 64 * 1024
COMPRESSED_AS_IS = 8
BATCH_AS_IS = 16
NEEDS_KEYS = 32
CHOSEN = choose_implementation({})
"""In C where it was built; where not, it is compared with itself."""


def decode_request(data: bytes) -> bool:
    """Decode one frame. Its first two bytes choose the API and the version; the last choice leaves both to
    the frame. Shortcuts answer as the decoders do, or not at all."""
    if len(data) < _SELECTOR.size:
        return False
    choice = _SELECTOR.unpack_from(data)[0] % (len(SPOKEN) + 1)
    frame = data[_SELECTOR.size :]
    if choice < len(SPOKEN):
        frame = _API.pack(*SPOKEN[choice]) + frame
    usual: tuple[object, ...] | None = CHOSEN.shortcuts.request_header(frame)
    try:
        header = decode_request_header(frame)
        assert usual in (None, header)
        usual = None
        version, position = header.api_version, header.body_position
        match header.api_key:
            case ApiKey.PRODUCE:
                usual = CHOSEN.shortcuts.produce_request(version, frame, position)
                assert usual in (None, decode_produce_request(version, frame, position))
            case ApiKey.FETCH:
                decode_fetch_request(version, frame, position)
            case api_key:
                decode(request_type(api_key, version), frame, position)
    except (MalformedRequest, UnsupportedApi):
        assert usual is None
        return False
    return True


def requests() -> Sequence[bytes]:
    rng = seeded()
    found = []
    for number, (api_key, version) in enumerate(SPOKEN):
        head = encode_request_header(api_key=api_key, api_version=version, correlation_id=7, client_id="c")
        body = encode(random_message(request_type(api_key, version), rng))
        found.append(_SELECTOR.pack(number) + head[_API.size :] + body)
    return found


def check_batch(data: bytes) -> bool:
    """Check one batch as a leader does that distrusts its producers, then read it as others do. The walk over
    its records that a broker chooses, and the reference in Python, have to say the same of them.

    A byte of flags and two bytes of the record count are in front of the payload, unless the flags say that
    the whole batch follows."""
    if len(data) < 3:
        return False
    flags = data[0]
    view = memoryview(data[1:] if flags & BATCH_AS_IS else _sealed(flags, data))
    try:
        list(iter_headers(view))
        header = decode_header(view)
    except CorruptBatch:
        return False
    if check_produced_batch(view, max_message_bytes=1024 * 1024, header=header) is not ErrorCode.NONE:
        return False
    cap = DECOMPRESSED_BYTES_MAX
    needs_keys = bool(flags & NEEDS_KEYS)
    error, checked, _ = check_produced_records(
        view, header, decompressed_bytes_max=cap, needs_keys=needs_keys
    )
    plain = CHOSEN.shortcuts.plain_batch(view, 1024 * 1024, needs_keys, None, None)
    assert plain is None or (error is ErrorCode.NONE and checked is header and plain == header)
    with suppress(CorruptBatch):
        list(iter_records(view, decompressed_bytes_max=cap))
    with suppress(CorruptBatch):
        payload = read_payload(view, header, bytes_max=cap)
        for is_asked in (False, True):
            reference = walk_records_in_python(payload, header.record_count, is_asked)
            assert CHOSEN.walk_records(payload, header.record_count, is_asked) == reference
        read_spans(payload, header)
    return error is ErrorCode.NONE


def _sealed(flags: int, data: bytes) -> bytes:
    """Return a batch whose header is as it should be. What is not compressed yet is compressed."""
    kind, count, payload = flags & 7, int.from_bytes(data[1:3]), data[3:]
    if kind <= Compression.ZSTD and not flags & COMPRESSED_AS_IS:
        payload = compress(Compression(kind), payload)
    header = BatchHeader(
        0, BATCH_LENGTH_MIN + len(payload), -1, 2, 0, kind, count - 1, 0, 0, -1, -1, -1, count
    )
    return seal_batch(header, payload)


def batches() -> Sequence[bytes]:
    records = [
        NewRecord(b"key", b"value" * 20, 1_700_000_000_000, (("trace", b"1"), ("empty", None))),
        NewRecord(None, None),
        NewRecord(b"", b"v"),
    ]
    found = []
    for compression in Compression:
        plain = encode_batch(records)[HEADER_BYTES:]
        packed = encode_batch(records, compression=compression)
        count = len(records).to_bytes(2)
        found.append(bytes([compression]) + count + plain)
        found.append(bytes([compression | COMPRESSED_AS_IS]) + count + packed[HEADER_BYTES:])
        found.append(bytes([BATCH_AS_IS]) + packed)
    return found


REQUEST = Target(decode_request, requests)
BATCH = Target(check_batch, batches)
