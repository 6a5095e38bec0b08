"""What a log remembers of rounds: which are to be applied, what it tells, and what a cut leaves of that."""

from __future__ import annotations

from dataplane.core.compaction.known import KnownRounds, PlacedRound, round_in
from dataplane.core.compaction.rounds import CONTROL_TYPE_ROUND, Round, encode_round
from springtide.wire.fetch_response import Compacted
from springtide.wire.record_batch import decode_header
from springtide.wire.records import NewRecord, encode_batch, iter_records


def placed(offset: int, *, end: int, floor: int = 0) -> PlacedRound:
    return PlacedRound(offset, Round(end, 7, floor, 0))


def known(*rounds: PlacedRound) -> KnownRounds:
    found = KnownRounds()
    for offset, round_ in rounds:
        batch = encode_round(round_, base_offset=offset)
        found.on_appended(decode_header(batch), memoryview(batch))
    return found


def test_a_round_is_due_once_it_is_committed_and_those_before_it_are_applied() -> None:
    first, second = placed(10, end=8), placed(20, end=18)
    rounds = known(first, second)
    assert rounds.last == second.round_
    assert rounds.due(10) is None
    assert rounds.due(11) == rounds.due(30) == first
    rounds.on_pass(first, reaches=5)
    assert (rounds.due(30), rounds.applied, rounds.reaches) == (first, None, 5), "a pass that got half way"
    rounds.on_pass(first, reaches=8)
    assert (rounds.due(30), rounds.applied, rounds.reaches) == (second, first, 8)
    rounds.on_pass(second, reaches=18)
    assert rounds.is_settled and rounds.last == second.round_


def test_a_log_that_is_read_again_finds_the_rounds_that_it_has_not_applied() -> None:
    first, second = placed(10, end=8), placed(20, end=18)
    rounds = known(first, second)
    rounds.on_pass(first, reaches=8)
    rounds.on_read_again()
    for offset, round_ in (first, second):
        batch = encode_round(round_, base_offset=offset)
        rounds.on_appended(decode_header(batch), memoryview(batch))
    assert rounds.due(30) == second


def test_what_is_no_round_changes_nothing() -> None:
    rounds = KnownRounds()
    for key, value in (
        (b"\0\0\0\1", b"a marker's"),
        (b"\0\0" + CONTROL_TYPE_ROUND.to_bytes(2, "big"), b"\0\0none"),
    ):
        batch = encode_batch([NewRecord(key, value)], is_control=True)
        rounds.on_appended(decode_header(batch), memoryview(batch))
    assert rounds.is_settled


def test_a_leader_tells_what_is_gone_from_its_log_and_from_those_it_was_copied_from() -> None:
    first = placed(10, end=8, floor=4)
    rounds = known(first)
    assert rounds.compacted is None
    rounds.on_pass(first, reaches=5)
    assert rounds.compacted == Compacted(tombstone_floor=4, end_offset=5)
    rounds.on_told(Compacted(6, 9), log_start_offset=0, log_end_offset=12)
    assert rounds.compacted == Compacted(tombstone_floor=6, end_offset=9)


def test_a_floor_is_known_to_a_log_that_was_empty_or_reaches_it() -> None:
    told = Compacted(50, 80)
    assert KnownRounds().must_restart(told, log_end_offset=49)
    assert not KnownRounds().must_restart(told, log_end_offset=50)
    below, empty, above = KnownRounds(), KnownRounds(), KnownRounds()
    assert below.on_told(told, log_start_offset=0, log_end_offset=49)
    assert empty.on_told(told, log_start_offset=30, log_end_offset=30)
    assert above.on_told(told, log_start_offset=0, log_end_offset=50)
    assert below.must_restart(told, log_end_offset=49)
    assert not empty.must_restart(told, log_end_offset=31), "it began under this floor"
    assert not above.on_told(told, log_start_offset=0, log_end_offset=51), "told again is no news"


def test_a_cut_takes_back_the_floors_and_rounds_above_it() -> None:
    rounds = known(placed(10, end=8), placed(20, end=18))
    rounds.on_told(Compacted(15, 15), log_start_offset=0, log_end_offset=21)
    rounds.on_cut(12)
    assert rounds.last == placed(10, end=8).round_
    assert rounds.must_restart(Compacted(13, 15), log_end_offset=12), "it may have lost a tombstone at 12"


def test_a_log_cut_where_newer_records_stood_lacks_older_ones() -> None:
    copied = KnownRounds()
    copied.on_told(Compacted(0, 15), log_start_offset=0, log_end_offset=0)
    assert copied.is_spoilt_by_cut(14) and not copied.is_spoilt_by_cut(15)
    applied = known(placed(10, end=8))
    applied.on_pass(placed(10, end=8), reaches=4)
    assert applied.is_spoilt_by_cut(10) and not applied.is_spoilt_by_cut(11)


def test_a_log_whose_end_a_crash_took_applies_its_rounds_anew() -> None:
    first = placed(10, end=8, floor=3)
    rounds = known(first)
    rounds.on_pass(first, reaches=8)
    rounds.on_cut(7)
    assert (rounds.applied, rounds.reaches) == (None, 0)
    assert rounds.is_spoilt_by_cut(10), "another leader's log may never have had what it lacks"
    assert rounds.compacted == Compacted(3, 11), "what it dropped is gone all the same"
    batch = encode_round(first.round_, base_offset=10)
    rounds.on_appended(decode_header(batch), memoryview(batch))
    assert rounds.due(11) == first


def test_a_producers_batch_and_one_of_two_records_are_no_round() -> None:
    (record,) = iter_records(encode_round(placed(0, end=8).round_))
    new = NewRecord(record.key, record.value)
    for batch in (
        encode_batch([new, new], is_control=True),
        encode_batch([new], is_control=True, producer_id=7, producer_epoch=0, base_sequence=0),
    ):
        assert round_in(decode_header(batch), memoryview(batch)) is None
    one = encode_batch([new], is_control=True)
    assert round_in(decode_header(one), memoryview(one)) == placed(0, end=8)


def test_what_is_known_does_not_fall_when_a_leader_or_a_round_tells_of_less() -> None:
    rounds = known(placed(10, end=8, floor=6), placed(20, end=18, floor=4))
    for each, end in ((placed(10, end=8, floor=6), 8), (placed(20, end=18, floor=4), 18)):
        rounds.on_pass(each, reaches=end)
    rounds.on_pass(placed(20, end=18, floor=4), reaches=12)
    assert (rounds.floor, rounds.reaches) == (6, 18)
    for told in (Compacted(9, 40), Compacted(7, 30)):
        rounds.on_told(told, log_start_offset=0, log_end_offset=25)
    assert (rounds.floor_known, rounds.whole_from) == (9, 40)
    rounds.on_cut(15)
    assert rounds.whole_from == 40


def test_a_process_that_starts_again_knows_the_floor_of_all_passes() -> None:
    begun = placed(10, end=8, floor=3)
    rounds = KnownRounds.restored(begun, reaches=8, floor=5, floor_known=2, whole_from=9)
    assert (rounds.floor, rounds.floor_known, rounds.whole_from) == (5, 2, 9)
    assert (rounds.applied, rounds.pending) == (begun, ())


def test_rounds_that_are_read_again_are_there_once() -> None:
    rounds = known(placed(10, end=8))
    rounds.on_read_again()
    assert rounds.pending == ()


def test_a_log_that_ends_at_a_round_has_lost_it() -> None:
    for end, applied in ((10, None), (11, placed(10, end=8))):
        rounds = known(placed(10, end=8))
        rounds.on_pass(placed(10, end=8), reaches=8)
        rounds.on_cut(end)
        assert rounds.applied == applied


def test_a_copy_goes_its_own_way() -> None:
    rounds = known(placed(10, end=8))
    other = rounds.copy()
    batch = encode_round(placed(20, end=18).round_, base_offset=20)
    other.on_appended(decode_header(batch), memoryview(batch))
    assert rounds.pending == (placed(10, end=8),) == other.pending[:1]
    assert len(other.pending) == 2
