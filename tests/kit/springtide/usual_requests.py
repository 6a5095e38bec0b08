"""Requests and batches as most are, and as nobody should send them: a shortcut and the reference behind it
have to judge them alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from crc32c import crc32c

from springtide.wire.apis import APIS, ApiKey, UnsupportedApi
from springtide.wire.errors import ErrorCode
from springtide.wire.headers import decode_request_header, encode_request_header
from springtide.wire.primitives import MALFORMED_CAUSES, MalformedRequest
from springtide.wire.produce import (
    FLEXIBLE_SINCE,
    TOPIC_ID_SINCE,
    TRANSACTIONAL_ID_SINCE,
    _read_fixed_single,
    _read_single,
    encode_produce_request,
)
from springtide.wire.produced_records import check_produced_records
from springtide.wire.record_batch import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_FIELD_END,
    BatchHeader,
    check_produced_batch,
    decode_header,
    encode_header,
)
from springtide.wire.record_walk import walk_records_in_python
from springtide.wire.shortcuts import Shortcuts
from tests.kit.springtide.record_payloads import draw_cases

PRODUCE_VERSIONS = range(TRANSACTIONAL_ID_SINCE, APIS[ApiKey.PRODUCE].version_max + 1)
BASE_MS = 1_700_000_000_000
_USUAL_APIS = (ApiKey.PRODUCE, ApiKey.FETCH)
_BYTES = (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
_WIDTHS = (64, 32, 32, 8, 32, 16, 32, 64, 64, 64, 16, 32, 32)
"""Bits of a batch header's fields."""
_CRC = BatchHeader._fields.index("crc")
Function = Callable[..., tuple[object, ...] | None]


def request_header(frame: bytes) -> tuple[object, ...] | None:
    """Return what the shortcut has to, by the reference."""
    try:
        header = decode_request_header(frame)
    except (MalformedRequest, UnsupportedApi):
        return None
    api_key, version, _, client_id, position = header
    spec = APIS[api_key]
    if api_key not in _USUAL_APIS or version < spec.served_since or client_id is None:
        return None
    fixed = 10 + int.from_bytes(frame[8:10])
    return None if position != fixed + spec.is_flexible(version) else tuple(header)


def produce_request(version: int, frame: bytes, position: int) -> tuple[object, ...] | None:
    """The same for a Produce; `_read_single` and its like say what a usual shape is."""
    if version not in PRODUCE_VERSIONS:
        return None
    view = memoryview(frame)
    try:
        if version < FLEXIBLE_SINCE:
            request = _read_fixed_single(view, position)
        else:
            request = _read_single(view, position, version)
    except MALFORMED_CAUSES:
        return None
    return None if request is None or request.transactional_id is not None else tuple(request)


def plain_batch(
    batch: bytes, bytes_max: int, needs_keys: bool, ms_min: int | None, ms_max: int | None
) -> tuple[object, ...] | None:
    """The same for a batch: what both checks pass as it is, its CRC apart. Bounds are numbers of 64 bits."""
    bounds = [bound for bound in (bytes_max, ms_min, ms_max) if bound is not None]
    if len(batch) < HEADER_BYTES or not all(-(2**63) <= bound < 2**63 for bound in bounds):
        return None
    view = memoryview(batch)
    header = decode_header(view)
    right = header._replace(crc=crc32c(view[CRC_START:]))
    if check_produced_batch(view, max_message_bytes=bytes_max, header=right) is not ErrorCode.NONE:
        return None
    error, checked, _ = check_produced_records(
        view,
        right,
        decompressed_bytes_max=2**20,
        needs_keys=needs_keys,
        timestamp_ms_min=ms_min,
        timestamp_ms_max=ms_max,
    )
    if error is not ErrorCode.NONE or checked is not right or header.attributes:
        return None
    return tuple(header)


REFERENCE = Shortcuts(request_header, produce_request, plain_batch)  # type: ignore[arg-type]


def first_difference(name: str, other: Function, *, cases: int, seed: int = 1) -> tuple[object, ...] | None:
    """Return the first arguments for which another function does not answer as the reference; None if it
    always does."""
    draw = {"request_header": _frames, "produce_request": _produces, "plain_batch": _batches}[name]
    reference: Function = getattr(REFERENCE, name)
    return next((case for case in draw(random.Random(seed), cases) if other(*case) != reference(*case)), None)


def _mutated(rng: random.Random, data: bytes) -> bytes:
    """Change a byte or two, cut the end off, or add to it; mostly do nothing."""
    out = bytearray(data)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        if out:
            out[rng.randrange(len(out))] = rng.choice((*_BYTES, rng.randrange(256)))
    if rng.random() < 0.1:
        del out[rng.randrange(len(out) + 1) :]
    if rng.random() < 0.1:
        out += rng.choice((b"\0", b"\1", b"\xff" * 5))
    return bytes(out)


def _frames(rng: random.Random, count: int) -> Iterator[tuple[bytes]]:
    apis = [spec.api_key for spec in APIS.values()]
    for _ in range(count):
        spec = APIS[rng.choice((*_USUAL_APIS * 20, *apis))]
        head = encode_request_header(
            api_key=spec.api_key,
            api_version=rng.randint(spec.version_min, spec.version_max),
            correlation_id=rng.choice((0, 7, 2**31 - 1, -(2**31), 0x01020304)),
            client_id=rng.choice((None, "", "c", "rdkafka", "\N{ROCKET}", "x" * 300)),
        )
        if rng.random() < 0.2:
            version = rng.choice((-1, spec.version_min - 1, spec.served_since - 1, spec.version_max + 1))
            head = head[:2] + version.to_bytes(2, signed=True) + head[4:]
        yield (_mutated(rng, head + rng.choice((b"", b"\0", b"\2ab", b"body"))),)


def _produces(rng: random.Random, count: int) -> Iterator[tuple[int, bytes, int]]:
    for _ in range(count):
        version = rng.choice(PRODUCE_VERSIONS)
        names = ["t", "orders", "\N{ROCKET}", "x" * 126, "x" * 127, ""]
        topics = [rng.randbytes(16) if version >= TOPIC_ID_SINCE else rng.choice(names) for _ in range(2)]
        size = rng.choice((0, 1, 2, 70, 125, 126, 127, 128, 300, 16_383, 16_384))
        batches = [((rng.choice(topics), rng.choice((0, 1, 2**31 - 1, -1, 0x01020304))), b"r" * size)]
        if rng.random() < 0.1:
            batches *= 2
        body = encode_produce_request(
            version,
            batches,
            acks=rng.choice((-1, 0, 1, 0x0102, -(2**15))),
            timeout_ms=rng.choice((0, 30_000, -1)),
        )
        whole = b"".join(body)
        if rng.random() < 0.05:
            whole = whole.replace(b"\x80\x01", b"\x80", 1)  # a length that ends too early
        if not size and rng.random() < 0.2:
            whole = whole.replace(b"\1\0\0\0", b"\0\0\0")  # null records, and fewer tags
        head = rng.choice((b"", b"head"))
        frame = head + _mutated(rng, whole)
        asked = rng.randrange(16) if rng.random() < 0.05 else version
        yield asked, frame, len(head) if rng.random() < 0.97 else rng.randrange(len(frame) + 3)


def _batches(rng: random.Random, count: int) -> Iterator[tuple[bytes, int, bool, int | None, int | None]]:
    for payload, record_count, needs_keys in draw_cases(rng.randrange(2**32), count):
        _, least, most, _ = walk_records_in_python(payload, record_count, needs_keys)
        last_base = 2**63 - 1 - most
        edges = (last_base, last_base + 1, last_base + 9) if rng.random() < 0.1 else ()
        base = rng.choice(edges or (0, -1, BASE_MS, -least - 1, -most, -(2**63) - min(least, 0)))
        base = min(max(base, -(2**63)), 2**63 - 1)
        size = HEADER_BYTES + len(payload)
        latest = base + most if -1 <= base + most < 2**63 else -1
        fields = [0, size - LENGTH_FIELD_END, 5, 2, 0x89ABCDEF, 0, record_count - 1, base, latest]
        fields += rng.choice(([-1, -1, -1], [7, 1, 3], [2**63 - 1, 2**15 - 1, 2**31 - 1]))
        fields.append(record_count)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
            at = rng.randrange(len(fields))
            fields[at] = rng.choice((fields[at] + 1, fields[at] - 1, -1, -2, 0, 1, 0x10, 0x20, 2**31, 2**40))
        header = BatchHeader._make(_fitted(value, at) for at, value in enumerate(fields))
        batch = encode_header(header) + payload
        ms_min, ms_max = (
            rng.choice((None, None, limit, limit - 1, limit + 1)) for limit in (base + least, base + most)
        )
        bytes_max = rng.choice((2**20, 2**20, size, size - 1, 2**70))
        yield (
            batch[: rng.randrange(len(batch))] if rng.random() < 0.05 else batch,
            bytes_max,
            needs_keys,
            ms_min,
            ms_max,
        )


def _fitted(value: int, at: int) -> int:
    """Wrap a number to the width of a header's field."""
    bits = _WIDTHS[at]
    value &= 2**bits - 1
    return value - 2**bits if value >> (bits - 1) and at != _CRC else value
