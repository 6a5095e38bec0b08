"""What a round leaves of each batch of a log."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from dataplane.core.compaction import rewriting
from dataplane.core.compaction.newest import FINGERPRINT_BYTES, NewestRecords, fingerprints
from dataplane.core.compaction.rewriting import Rewrite
from dataplane.core.compaction.rounds import Round, encode_round
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.compression import Compression
from springtide.wire.record_batch import BatchHeader, TimestampType, decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records, seal_batch

Pair = tuple[bytes, bytes | None]


def batch(
    base_offset: int,
    *pairs: Pair,
    epoch: int = 0,
    producer: int = -1,
    compression: Compression = Compression.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
) -> bytes:
    """Return a batch whose records have the timestamps 1,000, 1,001, ..."""
    return encode_batch(
        [NewRecord(key, value, 1_000 + n) for n, (key, value) in enumerate(pairs)],
        base_offset=base_offset,
        leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        compression=compression,
        timestamp_type=timestamp_type,
    )


def up_to(end_offset: int, *, tombstone_floor: int = 0, producers_floor: int = 0) -> Round:
    return Round(end_offset, 0, tombstone_floor, producers_floor)


def rewrite(log: Sequence[bytes], round_: Round, *, keys_max: int = 100) -> list[bytes]:
    reaches = 0
    while reaches < round_.end_offset:
        one = Rewrite(round_, from_offset=reaches, keys_max=keys_max)
        for data in log:
            one.read(memoryview(data), decode_header(data))
        left = [one.rewritten(decode_header(data), memoryview(data).toreadonly) for data in log]
        log = [bytes(data) for data in left if data is not None]
        reaches = one.reaches
    return list(log)


def records(log: Sequence[bytes]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(r.offset, r.key, r.value) for data in log for r in iter_records(data)]


def headers(log: Sequence[bytes]) -> list[BatchHeader]:
    return [decode_header(data) for data in log]


def test_of_each_key_the_newest_record_stays() -> None:
    log = [batch(0, (b"k", b"1"), (b"l", b"1")), batch(2, (b"k", b"2")), batch(3, (b"m", b"1"))]
    assert records(rewrite(log, up_to(4))) == [(1, b"l", b"1"), (2, b"k", b"2"), (3, b"m", b"1")]


def test_a_batch_that_keeps_all_is_kept_byte_for_byte() -> None:
    log = [batch(0, (b"k", b"1"), (b"l", b"1"), compression=Compression.ZSTD), batch(2, (b"m", b"1"))]
    assert rewrite(log, up_to(3)) == log


def test_nothing_at_or_above_the_end_is_touched() -> None:
    log = [batch(0, (b"k", b"1")), batch(1, (b"k", b"2")), batch(2, (b"k", b"3"))]
    assert records(rewrite(log, up_to(2))) == [(1, b"k", b"2"), (2, b"k", b"3")]


@pytest.mark.parametrize("compression", list(Compression))
def test_a_batch_built_anew_keeps_all_but_what_its_records_change(compression: Compression) -> None:
    old = batch(0, (b"k", b"1"), (b"l", b"1"), (b"k", b"2"), epoch=4, producer=9, compression=compression)
    (new,) = rewrite([old, batch(3, (b"l", b"2"), epoch=4)], up_to(4))[:1]
    before, after = decode_header(old), decode_header(new)
    assert records([new]) == [(2, b"k", b"2")]
    assert [r.timestamp for r in iter_records(new)] == [1_002]
    assert after == before._replace(
        batch_length=after.batch_length, crc=after.crc, record_count=1, max_timestamp=1_002
    )
    assert after.last_sequence == before.last_sequence


def test_the_largest_timestamp_is_that_of_the_records_that_stay() -> None:
    log = [batch(0, (b"k", b"1"), (b"l", b"1")), batch(2, (b"l", b"2"))]
    assert headers(rewrite(log, up_to(3)))[0].max_timestamp == 1_000


def test_the_append_time_of_a_batch_stays() -> None:
    appended = batch(0, (b"k", b"1"), (b"l", b"1"), timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert headers(rewrite([appended, batch(2, (b"l", b"2"))], up_to(3)))[0].max_timestamp == 1_001


def test_the_last_batch_of_an_epoch_of_a_producer_and_of_the_range_stays_empty() -> None:
    log = [
        batch(0, (b"k", b"0"), epoch=1, compression=Compression.GZIP),  # last of its epoch
        batch(1, (b"k", b"1"), epoch=2, producer=7),  # last of its producer
        batch(2, (b"k", b"2"), epoch=2),
        batch(3, (b"k", b"3"), epoch=2),  # last of the range
        batch(4, (b"k", b"4"), epoch=2),
    ]
    left = [(h.base_offset, h.record_count, h.compression) for h in headers(rewrite(log, up_to(5)))]
    assert left == [(0, 0, 0), (1, 0, 0), (4, 1, 0)]
    left = [(h.base_offset, h.record_count, h.compression) for h in headers(rewrite(log, up_to(4)))]
    assert left == [(0, 0, 0), (1, 0, 0), (3, 1, 0), (4, 1, 0)]


def test_a_producer_that_the_leader_has_forgotten_is_forgotten() -> None:
    log = [batch(0, (b"k", b"1"), producer=7), batch(1, (b"k", b"2"))]
    assert [h.base_offset for h in headers(rewrite(log, up_to(2, producers_floor=1)))] == [1]


def test_tombstones_stay_until_the_floor_passes_them() -> None:
    log = [batch(0, (b"k", b"1")), batch(1, (b"k", None)), batch(2, (b"l", b"1"))]
    assert records(rewrite(log, up_to(3))) == [(1, b"k", None), (2, b"l", b"1")]
    assert records(rewrite(log, up_to(3, tombstone_floor=1))) == [(1, b"k", None), (2, b"l", b"1")]
    assert records(rewrite(log, up_to(3, tombstone_floor=2))) == [(2, b"l", b"1")]
    log = [batch(0, (b"k", b"1"), (b"l", b"1"), (b"k", None))]
    assert records(rewrite(log, up_to(3, tombstone_floor=2))) == [(1, b"l", b"1"), (2, b"k", None)]
    log = [batch(0, (b"k", None), (b"l", b"1")), batch(2, (b"l", b"2"))]
    assert records(rewrite(log, up_to(3))) == [(0, b"k", None), (2, b"l", b"2")]


def test_a_batch_without_a_producer_is_no_producers_last() -> None:
    log = [batch(0, (b"k", b"1")), batch(1, (b"k", b"2"), producer=7)]
    assert [h.base_offset for h in headers(rewrite(log, up_to(2)))] == [1]


def test_the_last_data_batch_stays_before_control_batches() -> None:
    end = encode_round(up_to(1), base_offset=2, leader_epoch=LeaderEpoch(0))
    log = [batch(0, (b"k", b"1")), batch(1, (b"k", None)), end]
    left = headers(rewrite(log, up_to(3, tombstone_floor=2)))
    assert [(h.base_offset, h.record_count) for h in left] == [(1, 0), (2, 0)]
    assert [h.base_offset for h in headers(rewrite([end], up_to(3)))] == [2]


def test_of_too_many_producers_the_one_that_wrote_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rewriting, "PRODUCERS_MAX", 2)
    log = [batch(n, (b"k", b"1"), producer=producer) for n, producer in enumerate((7, 8, 7, 9))]
    log.append(batch(4, (b"k", b"2")))
    assert [h.base_offset for h in headers(rewrite(log, up_to(5)))] == [2, 3, 4]


def test_many_passes_in_little_memory_end_like_one() -> None:
    """The tombstone of k is below the floor, and k's value is only found in a later pass than the first: a
    pass that dropped tombstones above its own reach would bring k back."""
    log = [batch(0, (b"m", b"1")), batch(1, (b"k", b"1")), batch(2, (b"l", b"1")), batch(3, (b"k", None))]
    round_ = up_to(4, tombstone_floor=4)
    assert rewrite(log, round_, keys_max=1) == rewrite(log, round_)
    assert records(rewrite(log, round_)) == [(0, b"m", b"1"), (2, b"l", b"1")]


def test_a_record_without_a_key_goes() -> None:
    unkeyed = encode_batch([NewRecord(None, b"v")], base_offset=0)
    assert records(rewrite([unkeyed, batch(1, (b"k", b"1"))], up_to(2))) == [(1, b"k", b"1")]


def test_a_batch_that_cannot_be_opened_stays_as_it_is() -> None:
    good = batch(0, (b"k", b"1"), compression=Compression.ZSTD)
    bad = good[:61] + b"\xff" * (len(good) - 61)
    for keys_max in (1, 100):
        assert rewrite([bad, batch(1, (b"k", b"2"))], up_to(2), keys_max=keys_max)[0] == bad
        assert (
            rewrite([bad, batch(1, (b"k", b"2"))], up_to(2, tombstone_floor=2), keys_max=keys_max)[0] == bad
        )


def test_a_batch_of_one_key_keeps_its_last_record() -> None:
    log = [batch(0, (b"k", b"1"), (b"k", b"2"), (b"k", None), (b"l", b"1")), batch(4, (b"m", b"1"))]
    assert records(rewrite(log, up_to(5))) == [(2, b"k", None), (3, b"l", b"1"), (4, b"m", b"1")]


def test_below_what_earlier_passes_read_keys_are_looked_at() -> None:
    log = [batch(0, (b"k", b"1"), (b"l", b"1")), batch(2, (b"m", b"1")), batch(3, (b"l", b"2"), (b"n", b"1"))]
    one = Rewrite(up_to(5), from_offset=2)
    for data in log:
        one.read(memoryview(data), decode_header(data))
    left = [one.rewritten(decode_header(data), memoryview(data).toreadonly) for data in log]
    assert records([bytes(data) for data in left if data is not None]) == [
        (0, b"k", b"1"),
        (2, b"m", b"1"),
        (3, b"l", b"2"),
        (4, b"n", b"1"),
    ]
    assert left[1:] == log[1:]


def test_control_batches_share_no_key_and_only_an_older_round_goes() -> None:
    """All markers have equal keys (KAFKA-14055)."""
    marker = encode_batch([NewRecord(b"\x00\x00\x00\x01", b"\x00" * 6)], leader_epoch=0, is_control=True)
    again = encode_batch(
        [NewRecord(b"\x00\x00\x00\x01", b"\x00" * 6)], base_offset=1, leader_epoch=0, is_control=True
    )
    log = [
        marker,
        again,
        encode_round(up_to(1), base_offset=2, leader_epoch=LeaderEpoch(0)),
        batch(3, (b"k", b"1")),
    ]
    assert rewrite(log, up_to(4)) == [marker, again, log[3]]
    assert rewrite(log, up_to(2)) == log


def test_keys_of_any_length_are_told_apart() -> None:
    newest = NewestRecords()
    keys = [b"x" * length for length in (0, 1, 15, 16, 39, 40, 41, 100)]
    data = batch(0, *((key, b"1") for key in keys))
    assert newest.add(memoryview(data), decode_header(data))
    assert len(newest) == len(keys)
    assert newest.missing([*keys, b"x" * 99, None, b"y", b"x" * 39 + b"y", b"x" * 99 + b"y"]) == [
        8,
        10,
        11,
        12,
    ]


def test_a_batch_that_cannot_be_opened_is_no_key_of_another() -> None:
    newest = NewestRecords()
    good = batch(0, (bytes(8), b"1"), compression=Compression.ZSTD)
    bad = good[:61] + b"\xff" * (len(good) - 61)
    assert newest.add(memoryview(bad), decode_header(bad))
    assert newest.missing([bytes(8), bytes(25)]) == [0, 1]


def test_a_map_without_room_takes_nothing_but_one_batch_always_fits() -> None:
    newest = NewestRecords(keys_max=1)
    first, second = batch(0, (b"k", b"1"), (b"l", b"1")), batch(2, (b"m", b"1"), (b"k", b"2"))
    assert newest.add(memoryview(first), decode_header(first))
    assert not newest.add(memoryview(second), decode_header(second))
    assert newest.missing([b"k", b"l", b"m"]) == [2]
    assert newest.count_in(decode_header(first)) == 2
    assert newest.numbers_in(decode_header(first), [b"k", b"l"]) == [0, 1]


def test_keys_that_are_known_take_no_room_and_a_record_without_one_is_no_keys_newest() -> None:
    newest = NewestRecords(keys_max=2)
    for base_offset in (0, 2):
        data = batch(base_offset, (b"k", b"1"), (b"l", b"1"))
        assert newest.add(memoryview(data), decode_header(data))
    assert newest.numbers_in(decode_header(data), [None, b"l"]) == [1]


def test_a_short_key_stands_for_itself_and_a_long_one_is_hashed() -> None:
    short, long = b"k" * (FINGERPRINT_BYTES - 1), b"k" * FINGERPRINT_BYTES
    assert fingerprints([None, short]) == [None, short]
    (hashed,) = fingerprints([long])
    assert isinstance(hashed, bytes) and len(hashed) == FINGERPRINT_BYTES and hashed != long


def test_of_many_batches_each_knows_its_newest_records() -> None:
    rng = random.Random(5)
    newest = NewestRecords()
    last: dict[bytes, int] = {}
    added: list[tuple[BatchHeader, list[bytes]]] = []
    for count, keys in [(3_000, 3_000), (1, 1), (2_500, 1_200), (40, 4_000)]:
        base = 10_000_000 * len(added)
        names = [b"%d" % rng.randrange(keys) for _ in range(count)]
        data = batch(base, *((name, b"") for name in names))
        assert newest.add(memoryview(data), decode_header(data))
        added.append((decode_header(data), names))
        last |= {name: base + number for number, name in enumerate(names)}
    found: list[int] = []
    for header, names in added:
        numbers = newest.numbers_in(header, [*names])
        assert len(numbers) == newest.count_in(header)
        found += [header.base_offset + number for number in numbers]
    assert found == sorted(last.values())


def test_a_timestamp_that_fits_no_header_keeps_its_batch_whole() -> None:
    """Ten bytes of a varlong hold more than 64 bits, and so may a base timestamp and a delta."""
    body = b"\x00" + b"\xfe" + b"\xff" * 8 + b"\x7f" + b"\x02\x02l\x01\x00"
    plain = batch(0, (b"k", b"1"), (b"k", b"2"))
    first = plain[61 : 61 + 1 + plain[61] // 2]
    payload = first + bytes((2 * len(body),)) + body
    bad = seal_batch(decode_header(plain)._replace(batch_length=49 + len(payload)), payload)
    assert rewrite([bad, batch(2, (b"k", b"2"))], up_to(3))[0] == bad
    edge = batch(0, (b"k", b"1"), (b"l", b"1"))
    edge = seal_batch(decode_header(edge)._replace(base_timestamp=2**63 - 1), edge[61:])
    assert rewrite([edge, batch(2, (b"k", b"2"))], up_to(3))[0] == edge
