"""Transaction markers: the bytes are Kafka's, and what only looks like one is refused."""

from __future__ import annotations

import pytest

from springtide.wire.markers import Marker, Outcome, encode_marker, read_marker
from springtide.wire.record_batch import CorruptBatch, crc_is_valid, decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch


def marker_batch(outcome: Outcome = Outcome.COMMIT) -> bytes:
    return encode_marker(
        outcome,
        coordinator_epoch=7,
        producer_id=4000,
        producer_epoch=3,
        base_offset=19,
        leader_epoch=5,
        timestamp_ms=1_700_000_000_000,
    )


def control_batch(key: bytes | None, value: bytes | None, **settings: object) -> bytes:
    made: dict[str, object] = {"producer_id": 4, "producer_epoch": 0, "is_transactional": True}
    return encode_batch((NewRecord(key, value),), is_control=True, **(made | settings))  # type: ignore[arg-type]


def read(batch: bytes) -> Marker | None:
    return read_marker(batch, decode_header(batch))


@pytest.mark.parametrize("outcome", Outcome)
def test_a_marker_is_read_as_it_was_written(outcome: Outcome) -> None:
    assert read(marker_batch(outcome)) == Marker(outcome, 7)


def test_a_marker_is_one_control_record_without_a_sequence() -> None:
    batch = marker_batch()
    header = decode_header(batch)
    assert crc_is_valid(memoryview(batch), header)
    assert (header.attributes, header.base_offset, header.leader_epoch) == (0x30, 19, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4000, 3, -1)
    assert header.size_bytes == len(batch) == 78  # as Kafka's EndTransactionMarker
    (record,) = iter_records(batch)
    assert record.key == bytes((0, 0, 0, 1))
    assert record.value == bytes((0, 0, 0, 0, 0, 7))
    assert record.timestamp == header.max_timestamp == 1_700_000_000_000


def test_a_value_of_a_later_version_may_be_longer() -> None:
    assert read(control_batch(bytes(4), bytes((0, 1, 0, 0, 0, 9, 1, 2)))) == Marker(Outcome.ABORT, 9)


@pytest.mark.parametrize("kind", [2, 6, 1_000])
def test_another_control_record_is_no_marker(kind: int) -> None:
    key = bytes(2) + kind.to_bytes(2, "big")
    assert read(control_batch(key, None, producer_id=-1, producer_epoch=-1, is_transactional=False)) is None


def test_records_of_a_client_are_no_marker() -> None:
    assert read(encode_batch((NewRecord(bytes(4), bytes(6)),), producer_id=4, producer_epoch=0)) is None


@pytest.mark.parametrize(
    "batch",
    [
        control_batch(None, bytes(6)),
        control_batch(bytes(3), bytes(6)),
        control_batch(bytes(4), None),
        control_batch(bytes(4), bytes(5)),
        control_batch(bytes(4), b"\xff\xff" + bytes(4)),
        control_batch(bytes(4), bytes(6), is_transactional=False),
        control_batch(bytes(4), bytes(6), producer_id=-1),
        control_batch(bytes(4), bytes(6), producer_epoch=-1),
        encode_batch(
            (NewRecord(bytes(4), bytes(6)),) * 2,
            is_control=True,
            is_transactional=True,
            producer_id=4,
            producer_epoch=0,
        ),
    ],
)
def test_what_only_says_that_it_is_a_marker_is_refused(batch: bytes) -> None:
    with pytest.raises(CorruptBatch):
        read(batch)


def test_a_damaged_marker_is_refused() -> None:
    batch = bytearray(marker_batch())
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        read(bytes(batch))


@pytest.mark.parametrize("outcome", Outcome)
def test_the_short_way_reads_what_the_long_way_reads(
    outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = marker_batch(outcome)
    for place in range(61, len(whole)):
        for bit in range(8):
            body = bytearray(whole[61:])
            body[place - 61] ^= 1 << bit
            changed = seal_batch(decode_header(whole), bytes(body))
            answers: list[object] = []
            for is_short in (True, False):
                with monkeypatch.context() as patch:
                    if not is_short:
                        patch.setattr("springtide.wire.markers._read_plain", lambda *_: None)
                    try:
                        answers.append(read(changed))
                    except CorruptBatch:
                        answers.append(CorruptBatch)
            assert answers[0] == answers[1], (place, bit)
