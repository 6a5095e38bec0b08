"""What compaction reads of a batch's records agrees with what readers find in them."""

from __future__ import annotations

import random

import pytest

from springtide.wire import record_spans
from springtide.wire.compression import Compression
from springtide.wire.record_batch import HEADER_BYTES, BatchHeader, CorruptBatch, decode_header
from springtide.wire.record_spans import (
    copy_records,
    has_value,
    largest_timestamp_delta,
    offset_of,
    place_of,
    read_payload,
    read_spans,
    value_of,
)
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch

MIB = 1024 * 1024
BASE = 2**40


def opened(batch: bytes) -> tuple[bytes, BatchHeader]:
    header = decode_header(batch)
    return read_payload(memoryview(batch), header), header


@pytest.mark.parametrize("compression", list(Compression))
def test_spans_say_what_reading_says_at_every_size_of_a_varint(compression: Compression) -> None:
    sizes = [0, 1, 50, 63, 64, 65, 8_191, 8_192, 70_000]
    records = [
        NewRecord(None if key < 0 else b"k" * key, None if value < 0 else b"v" * value, 1_000 + when)
        for key in [-1, *sizes]
        for value, when in zip(
            [-1, *sizes], [0, 1, -1, 63, 64, 8_192, 2**20, 2**27, 2**40, -(2**40)], strict=True
        )
    ]
    batch = encode_batch(records, base_offset=BASE, compression=compression)
    payload, header = opened(batch)
    spans = read_spans(payload, header)
    places, keys = spans.places, spans.keys
    read = list(iter_records(batch))
    assert keys == [record.key for record in read]
    assert [offset_of(place) for place in places] == [record.offset for record in read]
    assert all(place_of(record.offset) <= place for record, place in zip(read, places, strict=True))
    assert [header.base_timestamp + largest_timestamp_delta(payload, [place]) for place in places] == [
        record.timestamp for record in read
    ]
    assert [has_value(payload, place) for place in places] == [record.value is not None for record in read]
    assert [value_of(payload, place) for place in places] == [record.value for record in read]
    assert copy_records(payload, places) == payload == encode_batch(records)[HEADER_BYTES:]
    chosen = places[3::7]
    assert copy_records(payload, chosen) == b"".join(copy_records(payload, [place]) for place in chosen)


def test_two_byte_offset_deltas_are_read() -> None:
    batch = encode_batch([NewRecord(b"k", b"v", n) for n in range(20_000)])
    payload, header = opened(batch)
    places = read_spans(payload, header).places
    assert [offset_of(place) for place in places] == list(range(20_000))
    assert largest_timestamp_delta(payload, places) == 19_999


@pytest.mark.parametrize("value", [b"\x06v\x00", b"\x80\x80\x80\x80\x80\x80", b"\xfe\x01v\x00"])
def test_a_value_that_exceeds_its_record_is_refused(value: bytes) -> None:
    payload = b"%c\x00\x00\x00\x02k%s" % (2 * (5 + len(value)), value)
    header = decode_header(encode_batch([NewRecord()]))
    (place,) = read_spans(payload, header).places
    with pytest.raises(CorruptBatch):
        value_of(payload, place)


@pytest.mark.parametrize("deltas", [b"\x02\x00", b"\x00\x00", b"\x00\x04", b"\x01\x02"])
def test_spans_need_offsets_that_rise_within_the_header(deltas: bytes) -> None:
    """0, 1 is what the header says; of records with other offsets nobody can say which is the newest."""
    payload = b"".join(b"\x0c\x00\x00%c\x01\x01\x00" % delta for delta in deltas)
    header = decode_header(encode_batch([NewRecord(), NewRecord()]))
    with pytest.raises(CorruptBatch, match="offset delta"):
        read_spans(payload, header)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x0c",
        b"\x00\x00\x00\x00\x01\x01\x00",  # an empty record
        b"\x0b\x00\x00\x00\x01\x01\x00",  # a negative length
        b"\x0e\x00\x00\x00\x01\x01\x00",  # longer than the batch
        b"\x0c\x00\x00\x00\x03\x01\x00",  # a key of -2 bytes
        b"\x0c\x00\x00\x00\x06\x01\x00",  # a key that leaves no room for a value
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # bytes after the last record
        b"\x80\x80\x80\x80\x80\x01" + b"\x00" * 6,  # a length of six bytes
    ],
)
def test_what_breaks_the_layout_is_not_opened(payload: bytes) -> None:
    header = decode_header(encode_batch([NewRecord()]))
    with pytest.raises(CorruptBatch):
        read_spans(payload, header)


def test_records_beyond_the_cap_are_not_opened() -> None:
    for compression in (Compression.NONE, Compression.ZSTD):
        batch = encode_batch([NewRecord(b"k", b"\x00" * MIB)], compression=compression)
        with pytest.raises(CorruptBatch):
            read_payload(memoryview(batch), decode_header(batch), bytes_max=MIB)


def test_a_timestamp_delta_that_is_too_long_is_found_when_it_is_read() -> None:
    body = b"\x00" + b"\xff" * 10 + b"\x01\x00\x01\x01\x00"
    payload = bytes([2 * len(body)]) + body
    batch = seal_batch(
        decode_header(encode_batch([NewRecord()]))._replace(batch_length=49 + len(payload)), payload
    )
    opened_payload, header = opened(batch)
    places = read_spans(opened_payload, header).places
    with pytest.raises(CorruptBatch, match="too long"):
        largest_timestamp_delta(opened_payload, places)


def test_records_are_found_wherever_their_layout_changes() -> None:
    """Stretches of records that are laid out alike, with others between, and holes as compaction leaves
    them."""
    rng = random.Random(8)
    records: list[NewRecord] = []
    while len(records) < 2_000:
        key_bytes, value_bytes = rng.choice([1, 9, 63, 64]), rng.choice([-1, 0, 40, 60, 70, 9_000])
        when = rng.choice([0, 5, 70, 9_000])
        for _ in range(rng.choice([1, 3, 30, 200])):
            key = None if rng.random() < 0.01 else rng.randbytes(key_bytes)
            records.append(NewRecord(key, None if value_bytes < 0 else bytes(value_bytes), when))
    whole, header = opened(encode_batch(records, base_offset=BASE))
    for left in (list(range(len(records))), sorted(rng.sample(range(len(records)), 1_500))):
        all_places = read_spans(whole, header).places
        payload = copy_records(whole, [all_places[number] for number in left])
        spans = read_spans(payload, header._replace(record_count=len(left)))
        places, keys = spans.places, spans.keys
        assert [offset_of(place) - BASE for place in places] == left
        assert keys == [records[number].key for number in left]
        assert copy_records(payload, places) == payload


def test_damage_among_records_that_are_laid_out_alike_is_found_as_anywhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payload, header = opened(encode_batch([NewRecord(b"k" * 9, b"v" * 70) for _ in range(200)]))
    start = copy_records(payload, read_spans(payload, header).places[:100])

    def outcome(place: int, byte: int) -> object:
        broken = bytearray(payload)
        broken[len(start) + place] = byte
        try:
            return read_spans(bytes(broken), header)
        except CorruptBatch:
            return None

    damage = [(place, byte) for place in range(8) for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF)]
    found = [outcome(*each) for each in damage]
    monkeypatch.setattr(record_spans, "READ_ANY", 200)  # each one by itself
    assert found == [outcome(*each) for each in damage]
    assert None in found and any(found)
