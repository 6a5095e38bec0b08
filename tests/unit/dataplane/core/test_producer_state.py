"""What a leader answers to a sequence, and what survives a snapshot."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.producer_state import (
    FORGOTTEN_MAX,
    CorruptProducerSnapshot,
    Duplicate,
    ProducerStates,
    ProducerView,
    decode_producer_states,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import SEQUENCE_MAX, BatchHeader

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
UNKNOWN = ErrorCode.UNKNOWN_PRODUCER_ID


def header(
    sequence: int, *, offset: int = 0, count: int = 1, pid: int = 7, epoch: int = 0, attributes: int = 0
) -> BatchHeader:
    return BatchHeader(
        offset, 100, 0, 2, 0, attributes, count - 1, 50, 50 + offset, pid, epoch, sequence, count
    )


def states_after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        states.update(each, now_ms=1000)
    return states


def test_a_producer_without_an_id_is_never_refused() -> None:
    states = states_after(header(-1, pid=-1))
    assert states.check(header(-1, pid=-1)) is ErrorCode.NONE
    assert len(states) == 0


def test_the_next_sequence_is_accepted_and_a_gap_is_not() -> None:
    states = states_after(header(0, count=3))
    assert states.check(header(3)) is ErrorCode.NONE
    assert states.check(header(4)) is OUT_OF_ORDER
    assert states.check(header(2, count=2)) is OUT_OF_ORDER  # half of it is stored


def test_a_producer_that_is_new_to_the_log_begins_at_zero() -> None:
    """Its first batch was refused, the second was on its way: taken, it vouches for the first (S84, a second
    batch is first)."""
    for states in (ProducerStates(), states_after(header(0, pid=6), header(0, pid=8))):
        assert states.check(header(34)) is UNKNOWN
        assert states.check(header(0)) is ErrorCode.NONE


def test_a_producer_that_was_forgotten_goes_on_where_it_was() -> None:
    """KIP-360: a producer that was silent for a day is not refused for it."""
    states = states_after(header(0), header(1))
    assert states.expire(now_ms=10**9, expiration_ms=1) == 1
    for each in (states, decode_producer_states(states.encode())):
        assert each.check(header(2)) is ErrorCode.NONE
        assert each.check(header(2, pid=8)) is UNKNOWN
    states.update(header(2, offset=2), now_ms=0)
    assert states.check(header(9)) is OUT_OF_ORDER, "it is known again"


def test_a_producer_that_others_pushed_out_goes_on_where_it_was() -> None:
    states = ProducerStates(producers_max=1)
    for pid in (7, 8):
        states.update(header(0, pid=pid), now_ms=0)
    assert states.check(header(1)) is ErrorCode.NONE
    states.clear()
    assert states.check(header(1)) is UNKNOWN, "a log that begins anew has forgotten none"


def test_an_id_that_a_client_named_begins_where_its_client_says() -> None:
    assert ProducerStates().check(header(41, pid=2**62)) is ErrorCode.NONE
    assert ProducerStates().check(header(41, pid=2**62 - 1)) is UNKNOWN


def test_the_ids_that_are_remembered_as_forgotten_are_bounded() -> None:
    states = ProducerStates(producers_max=1)
    for pid in range(FORGOTTEN_MAX + 2):
        states.update(header(0, pid=pid), now_ms=0)
    assert states.check(header(1, pid=0)) is UNKNOWN
    assert states.check(header(1, pid=1)) is ErrorCode.NONE


def test_a_snapshot_from_before_the_forgotten_ones_were_kept_is_read() -> None:
    for states, error in ((states_after(header(0)), ErrorCode.NONE), (ProducerStates(), UNKNOWN)):
        old = snapshot(states.encode()[10:-4], version=1)
        assert decode_producer_states(old).check(header(1)) is error


def snapshot(body: bytes, *, version: int = 2) -> bytes:
    return struct.pack(">4sHI", b"SPRD", version, crc32c(body)) + body


def test_a_snapshot_that_is_shorter_or_longer_than_it_says_is_corrupt() -> None:
    body = states_after(header(0)).encode()[10:]
    for other in (body[:-4], body[:-1], body + b"?"):
        with pytest.raises(CorruptProducerSnapshot):
            decode_producer_states(snapshot(other))


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one() -> None:
    states = states_after(header(0), header(1))
    assert states.check(header(2, epoch=1)) is OUT_OF_ORDER
    assert states.check(header(0, epoch=1)) is ErrorCode.NONE
    states.update(header(0, epoch=1, offset=2), now_ms=0)
    assert states.check(header(2, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("back", range(5))
def test_each_of_the_last_five_batches_is_a_duplicate_with_its_own_offsets(back: int) -> None:
    states = states_after(*(header(2 * i, count=2, offset=10 * i) for i in range(8)))
    i = 7 - back
    assert states.check(header(2 * i, count=2)) == Duplicate(10 * i, 10 * i + 1, 50 + 10 * i)


def test_a_duplicate_older_than_five_batches_has_no_offset_but_a_bound_to_wait_for() -> None:
    states = states_after(*(header(i, offset=10 * i) for i in range(8)))
    assert states.check(header(1)) == Duplicate(-1, 29, -1)


def test_a_duplicate_cut_elsewhere_is_found_by_its_sequences() -> None:
    states = states_after(header(0, count=4, offset=100), header(4, count=4, offset=200))
    assert states.check(header(2, count=4)) == Duplicate(102, 201, 250)
    assert states.check(header(0, count=2)) == Duplicate(100, 101, 150)


def test_sequences_before_the_first_seen_are_not_called_stored() -> None:
    """KIP-360: state that began in the middle proves nothing about what came before it."""
    states = states_after(header(10, offset=0), header(11, offset=1))
    assert states.check(header(9)) is OUT_OF_ORDER
    assert states.check(header(10)) == Duplicate(0, 0, 50)


def test_a_gap_in_the_log_ends_the_run_that_proves_older_sequences() -> None:
    states = states_after(*(header(i, offset=i) for i in range(6)), header(50, offset=6))
    assert states.check(header(0)) is OUT_OF_ORDER
    assert states.check(header(5)) == Duplicate(5, 5, 55)  # still one of the five


def test_sequences_that_went_back_in_the_log_end_the_run() -> None:
    states = states_after(*(header(i, offset=i) for i in range(6)), header(3, offset=6))
    assert states.check(header(1)) is OUT_OF_ORDER


def test_half_a_turn_back_before_and_after_can_not_be_told_apart() -> None:
    half = (SEQUENCE_MAX + 1) // 2
    for states in (
        states_after(header(0, count=half), header(half, count=half, offset=half)),
        states_after(header(0, count=SEQUENCE_MAX)),
    ):
        assert states.check(header(1)) is OUT_OF_ORDER


def test_a_small_gap_ends_the_run_too_and_what_fell_into_it_is_not_called_stored() -> None:
    """A leader that had forgotten the producer took sequence 7 first; this replica had not forgotten it."""
    states = states_after(*(header(i, offset=i) for i in range(6)), header(7, offset=6))
    assert states.check(header(6)) is OUT_OF_ORDER
    assert states.check(header(6, count=2)) is OUT_OF_ORDER


def test_sequences_wrap_to_zero() -> None:
    states = states_after(header(SEQUENCE_MAX - 1, count=2, offset=0))
    assert states.check(header(0)) is ErrorCode.NONE
    states.update(header(0, offset=2), now_ms=0)
    assert states.check(header(1)) is ErrorCode.NONE
    assert states.check(header(SEQUENCE_MAX - 1, count=2)) == Duplicate(0, 1, 50)
    assert states.check(header(SEQUENCE_MAX, count=2)) == Duplicate(1, 2, 52)  # across the wrap


def test_check_changes_nothing() -> None:
    states = states_after(header(0))
    before = states.encode()
    for sequence in (0, 1, 5):
        states.check(header(sequence))
        states.check(header(sequence, epoch=3))
    assert states.encode() == before


def test_a_control_batch_takes_the_epoch_but_no_sequence() -> None:
    states = states_after(header(0), header(-1, epoch=1, offset=1, attributes=0x20))
    assert states.check(header(0, epoch=1)) is ErrorCode.NONE
    assert states.check(header(1, epoch=1)) is OUT_OF_ORDER
    assert states.check(header(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_silent_producers_expire_and_the_busy_one_stays() -> None:
    states = ProducerStates()
    states.update(header(0, pid=1), now_ms=0)
    states.update(header(0, pid=2), now_ms=10)
    states.update(header(1, pid=1), now_ms=60)
    assert states.expire(now_ms=110, expiration_ms=101) == 0
    assert states.expire(now_ms=110, expiration_ms=100) == 1
    assert states.active_producers() == [ProducerView(1, 0, 1, 50)]


def test_too_many_producers_push_out_the_least_recent_and_are_counted() -> None:
    states = ProducerStates(producers_max=2)
    for pid in (1, 2, 1, 3):
        states.update(header(0, pid=pid), now_ms=0)
    assert [view.producer_id for view in states.active_producers()] == [1, 3]
    assert states.evictions == 1


headers = st.builds(
    header,
    st.integers(0, SEQUENCE_MAX),
    offset=st.integers(0, 2**40),
    count=st.integers(1, 100),
    pid=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 2**15 - 1),
)


@given(st.lists(headers, max_size=20), headers)
def test_a_snapshot_answers_as_the_state_did(history: list[BatchHeader], asked: BatchHeader) -> None:
    states = states_after(*history)
    restored = decode_producer_states(states.encode())
    assert restored.encode() == states.encode()
    for each in (asked, *history):
        assert restored.check(each) == states.check(each)


@given(st.data())
def test_no_damaged_snapshot_is_believed(data: st.DataObject) -> None:
    encoded = bytearray(states_after(header(0), header(1, pid=9)).encode())
    position = data.draw(st.integers(0, len(encoded) - 1))
    encoded[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptProducerSnapshot):
        decode_producer_states(bytes(encoded))
    with pytest.raises(CorruptProducerSnapshot):
        decode_producer_states(bytes(encoded[:position]))


def test_a_restored_state_keeps_its_room_for_more_producers() -> None:
    restored = decode_producer_states(states_after(header(0, pid=1)).encode())
    restored.update(header(0, pid=2), now_ms=0)
    assert len(restored) == 2


@given(st.lists(st.integers(1, 4), min_size=1, max_size=12), st.data())
def test_every_stored_sequence_range_is_a_duplicate_with_offsets_that_hold_it(
    counts: list[int], data: st.DataObject
) -> None:
    states, stored, offset, sequence = ProducerStates(), {}, 0, 0
    for count in counts:
        offset += data.draw(st.integers(0, 3))
        states.update(header(sequence, count=count, offset=offset), now_ms=0)
        for _ in range(count):
            stored[sequence] = offset
            sequence, offset = sequence + 1, offset + 1
    first = data.draw(st.integers(0, sequence - 1))
    last = data.draw(st.integers(first, sequence - 1))
    answer = states.check(header(first, count=last - first + 1))
    assert isinstance(answer, Duplicate)
    assert answer.base_offset in (-1, stored[first])
    assert answer.last_offset >= stored[last]


def test_a_control_batch_and_one_without_a_sequence_leave_no_batch_of_a_producer() -> None:
    states = states_after(header(0, attributes=0x20), header(-1, pid=8))
    assert states.last_batches_from == states.end_offset
    assert states.check(header(-1, pid=8)) is ErrorCode.NONE


def test_a_state_that_is_emptied_has_seen_nothing() -> None:
    states = states_after(header(0, offset=7))
    states.clear()
    assert (len(states), states.end_offset, states.has_batch_at_or_beyond(0)) == (0, 0, False)


def test_a_state_that_takes_over_another_keeps_its_own_bound() -> None:
    for take in (ProducerStates.replace_with, ProducerStates.learn):
        small = ProducerStates(producers_max=1)
        take(small, states_after(header(0, pid=6), header(0, pid=8, offset=1)))
        assert (len(small), small.evictions) == (1, 1)


def test_what_lies_below_an_offset_ends_with_its_last_batch() -> None:
    states = states_after(
        header(0, pid=8, count=2, offset=4), header(0, pid=6, offset=2), header(0, offset=9)
    )
    known = states.below(9)
    assert (known.end_offset, known.last_batches_from) == (6, 2)


def test_of_a_producer_that_wrote_on_below_an_offset_is_known_what_its_batches_there_show() -> None:
    known = states_after(*(header(i, offset=i) for i in range(7))).below(4)
    assert known.check(header(2, count=2)) == Duplicate(2, 3, 53)
    assert known.check(header(1)) is OUT_OF_ORDER
    gap = states_after(*(header(sequence, offset=at) for at, sequence in enumerate((0, 5, 6, 7)))).below(3)
    assert gap.check(header(5, count=2)) == Duplicate(1, 2, 52)
    assert gap.check(header(3)) is OUT_OF_ORDER


def test_who_learns_has_seen_as_much_as_either_of_both() -> None:
    early, late = header(0, pid=6, offset=2), header(0, pid=8, offset=5)
    for ours, theirs in ((early, late), (late, early)):
        states = states_after(ours)
        states.learn(states_after(theirs))
        assert states.end_offset == 6


def test_who_learns_expires_the_oldest_first() -> None:
    ours, theirs = ProducerStates(), ProducerStates()
    ours.update(header(0, pid=6, offset=5), now_ms=5_000)
    theirs.update(header(0, pid=8, offset=2), now_ms=1_000)
    ours.learn(theirs)
    assert ours.expire(now_ms=2_000, expiration_ms=1_000) == 1
    assert [producer.producer_id for producer in ours.active_producers()] == [6]


def test_a_sequence_without_a_producer_is_not_judged() -> None:
    assert ProducerStates().check(header(3, pid=-1)) is ErrorCode.NONE


def test_who_learns_takes_what_is_later() -> None:
    states = states_after(header(0))
    states.learn(states_after(header(0), header(1, offset=1)))
    assert states.check(header(2)) is ErrorCode.NONE
