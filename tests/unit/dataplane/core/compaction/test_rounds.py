"""What a round says, when one is due, when tombstones go, and who has to start again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.compaction.rounds import (
    WAITING_MAX,
    Decided,
    Dirt,
    Round,
    decode_round,
    encode_round,
    is_due,
    is_round_key,
    must_restart,
    must_restart_after_cut,
    next_round,
)
from dataplane.core.titles import NewerFormat
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.record_batch import CorruptBatch, decode_header
from springtide.wire.records import iter_records

HOUR_MS = 3_600_000
INT64 = st.integers(-(2**63), 2**63 - 1)
DECIDED = st.builds(Decided, INT64, INT64)


def decide(last: Round | None, *, end: int, now_ms: int, log_ends: tuple[int, ...] = (9_999,)) -> Round:
    return next_round(
        last,
        end_offset=end,
        now_ms=now_ms,
        delete_retention_ms=24 * HOUR_MS,
        log_ends=log_ends,
        producers_floor=0,
    )


@given(st.builds(Round, INT64, INT64, INT64, INT64, st.lists(DECIDED, max_size=WAITING_MAX).map(tuple)))
def test_a_round_is_read_as_it_was_written(round_: Round) -> None:
    batch = encode_round(round_, leader_epoch=LeaderEpoch(3), base_offset=70)
    (record,) = iter_records(batch)
    header = decode_header(batch)
    assert (header.is_control, header.leader_epoch, record.offset) == (True, 3, 70)
    assert is_round_key(record.key)
    assert decode_round(record.value) == round_


@given(st.none() | st.binary(max_size=80))
def test_other_bytes_are_no_round(value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        decode_round(b"\xff\xff" + value if value is not None else None)
    if value:
        with pytest.raises(CorruptBatch):
            decode_round(b"\0\0" + value[:33])


def test_a_round_has_the_version_and_the_length_that_it_says() -> None:
    round_ = Round(9, 7, 0, 0, (Decided(1, 2), Decided(3, 4)))
    (record,) = iter_records(encode_round(round_))
    value = record.value or b""
    assert decode_round(value) == round_
    for other in (b"\xff\xff" + value[2:], value[:-16], value + bytes(16)):
        with pytest.raises(CorruptBatch):
            decode_round(other)


def test_a_later_version_is_of_a_later_release() -> None:
    with pytest.raises(NewerFormat, match="a round of compaction in the log is in format 1"):
        decode_round(b"\0\1")


def test_a_transaction_marker_is_no_round() -> None:
    assert not is_round_key(b"\x00\x00\x00\x01")
    assert not is_round_key(None)
    (record,) = iter_records(encode_round(Round(9, 7, 0, 0)))
    key = record.key or b""
    assert not is_round_key(key[:3]) and not is_round_key(key[:3] + b"\x55") and not is_round_key(key + b"\0")


@pytest.mark.parametrize(
    ("dirt", "due"),
    [
        (Dirt(10, clean_bytes=0, dirty_bytes=0, oldest_dirty_ms=None), False),
        (Dirt(10, clean_bytes=60, dirty_bytes=40, oldest_dirty_ms=HOUR_MS), False),
        (Dirt(10, clean_bytes=50, dirty_bytes=50, oldest_dirty_ms=HOUR_MS), False),
        (Dirt(10, clean_bytes=40, dirty_bytes=60, oldest_dirty_ms=HOUR_MS), True),
        (Dirt(10, clean_bytes=99, dirty_bytes=1, oldest_dirty_ms=0), True),  # older than the longest lag
    ],
)
def test_a_round_is_due_by_the_dirty_ratio_or_the_longest_lag(dirt: Dirt, due: bool) -> None:
    assert due == is_due(
        dirt, now_ms=2 * HOUR_MS, min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=HOUR_MS
    )


def test_tombstones_go_a_day_after_the_round_that_removed_what_they_delete() -> None:
    first = decide(None, end=100, now_ms=0)
    early = decide(first, end=200, now_ms=23 * HOUR_MS)
    late = decide(early, end=300, now_ms=25 * HOUR_MS)
    assert (first.tombstone_floor, early.tombstone_floor, late.tombstone_floor) == (0, 0, 100)
    assert late.waiting == (Decided(200, 23 * HOUR_MS),)


def test_a_tombstone_stays_until_each_replica_that_fetches_has_it() -> None:
    first = decide(None, end=100, now_ms=0)
    assert decide(first, end=200, now_ms=48 * HOUR_MS, log_ends=(500, 60)).tombstone_floor == 60


def test_the_floor_stays_when_a_new_replica_has_little_of_the_log() -> None:
    floors = []
    last: Round | None = None
    for day, log_ends in enumerate(((9_999,), (9_999,), (9_999, 5))):
        last = decide(last, end=100 * (day + 1), now_ms=30 * HOUR_MS * day, log_ends=log_ends)
        floors.append(last.tombstone_floor)
    assert floors == [0, 100, 100]


def test_the_floor_never_sinks_and_a_clock_that_goes_back_removes_nothing() -> None:
    high = Round(end_offset=200, decided_ms=50 * HOUR_MS, tombstone_floor=100, producers_floor=0)
    back = decide(high, end=300, now_ms=0, log_ends=(10,))
    assert (back.tombstone_floor, back.waiting) == (100, (Decided(200, 50 * HOUR_MS),))


def test_a_log_with_many_rounds_a_day_remembers_a_few_spread_over_the_day() -> None:
    round_ = None
    for minute in range(24 * 60):
        round_ = decide(round_, end=100 + minute, now_ms=minute * 60_000)
    assert round_ is not None
    assert len(round_.waiting) == WAITING_MAX
    times = [past.decided_ms for past in round_.waiting]
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) <= 3 * HOUR_MS


def test_a_replica_that_ends_below_the_floor_starts_again_unless_it_began_under_it() -> None:
    assert must_restart(log_end_offset=50, floor_known=0, leader_floor=100)
    assert not must_restart(log_end_offset=100, floor_known=0, leader_floor=100)
    assert not must_restart(log_end_offset=50, floor_known=100, leader_floor=100)


def test_a_log_that_loses_the_record_of_an_applied_round_starts_again() -> None:
    assert must_restart_after_cut(cut_to=120, applied_at=120)
    assert not must_restart_after_cut(cut_to=121, applied_at=120)
    assert not must_restart_after_cut(cut_to=0, applied_at=None)
