"""A copy is told of the producers whose records are gone (6.10, a copy knows its producers)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.core.producer_state import (
    BatchMark,
    CorruptProducerSnapshot,
    Duplicate,
    ProducerStates,
    decode_told_states,
)
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader


def header(sequence: int, *, offset: int, pid: int = 7, epoch: int = 0) -> BatchHeader:
    return BatchHeader(offset, 100, 0, 2, 0, 0, 0, 50, 50 + offset, pid, epoch, sequence, 1)


def history(writers: list[int]) -> list[BatchHeader]:
    """A batch each, of these producers, at the offsets 0, 1, ..."""
    return [header(writers[:at].count(pid), offset=at, pid=pid) for at, pid in enumerate(writers)]


def states_after(headers: list[BatchHeader]) -> ProducerStates:
    states = ProducerStates()
    for each in headers:
        states.update(each, now_ms=1_000 + each.base_offset)
    return states


def copy_from(leader: ProducerStates, log: list[BatchHeader], start: int) -> ProducerStates:
    """A replica that begins at `start`, is told, and copies the rest of the log."""
    copy = ProducerStates()
    copy.clear(is_whole=False)
    copy.learn(decode_told_states(leader.below(start).encode(), log_offset=start))
    for each in log[start:]:
        copy.update(each, now_ms=1_000 + each.base_offset)
    return copy


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.data())
def test_a_copy_answers_a_producers_last_five_batches_and_its_next_as_the_leader_does(
    writers: list[int], data: st.DataObject
) -> None:
    log = history(writers)
    leader = states_after(log)
    copy = copy_from(leader, log, data.draw(st.integers(1, len(log))))
    assert copy.is_whole
    assert copy.active_producers() == leader.active_producers()
    for pid in set(writers):
        last = writers.count(pid) - 1
        for sequence in range(max(0, last - 4), last + 3):
            asked = header(sequence, offset=0, pid=pid)
            assert copy.check(asked) == leader.check(asked), sequence


def test_what_is_known_of_a_later_batch_stays() -> None:
    log = history([7, 7, 8])
    copy = states_after(log)
    copy.is_whole = False
    copy.learn(states_after(log[:1]))
    assert copy.active_producers() == states_after(log).active_producers()


def test_forgotten_ids_are_told_but_not_over_what_is_known() -> None:
    leader = states_after(history([7, 8]))
    leader.expire(now_ms=10**9)
    copy = states_after([header(5, offset=9)])
    copy.learn(decode_told_states(leader.below(5).encode(), log_offset=5))
    assert copy.check(header(40, offset=0, pid=8)) is ErrorCode.NONE
    assert copy.check(header(40, offset=0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_told_producers_expire_by_the_time_of_their_last_batch() -> None:
    copy = copy_from(states_after(history([7, 8])), [], 2)
    assert copy.expire(now_ms=1_100, expiration_ms=100) == 1
    assert [each.producer_id for each in copy.active_producers()] == [8]


def test_an_older_retry_beyond_the_start_is_no_duplicate_of_what_was_not_told() -> None:
    """Of a producer that has written beyond the start only the batches that are still remembered are told."""
    log = history([7] * 7)
    copy = copy_from(states_after(log), log, 4)
    assert copy.check(header(3, offset=0)) == Duplicate(3, 3, 53)
    assert copy.check(header(0, offset=0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("kind", ["beyond", "too many batches", "too many forgotten", "cut"])
def test_nothing_that_no_leader_can_know_is_believed(kind: str) -> None:
    told = states_after(history([7, 7]))
    if kind == "too many batches":
        told._producers[7].batches = (BatchMark(0, 0, 0, 0, 0),) * 6
    if kind == "too many forgotten":
        told._forgotten = dict.fromkeys(range(10_001))
    encoded = told.encode()
    with pytest.raises(CorruptProducerSnapshot):
        decode_told_states(
            encoded[:-1] if kind == "cut" else encoded, log_offset=1 if kind == "beyond" else 2
        )


@pytest.mark.parametrize(("last_offset", "end_offset"), [(1, 2), (2, 2), (1, 3)])
def test_what_is_told_ends_with_the_log_by_its_batches_and_by_its_own_word(
    last_offset: int, end_offset: int
) -> None:
    told = states_after(history([7, 7]))
    told._producers[7].batches = (BatchMark(0, 0, 0, 0, 0), BatchMark(1, 1, 1, last_offset, 0))
    told._end_offset = end_offset
    if (last_offset, end_offset) == (1, 2):
        assert len(decode_told_states(told.encode(), log_offset=2)) == 1
        return
    with pytest.raises(CorruptProducerSnapshot):
        decode_told_states(told.encode(), log_offset=2)


def test_nothing_is_told_of_an_empty_log() -> None:
    assert len(decode_told_states(ProducerStates().encode(), log_offset=0)) == 0


def test_a_leader_may_tell_as_much_as_it_keeps_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("PRODUCERS_MAX", "FORGOTTEN_MAX"):
        monkeypatch.setattr(f"dataplane.core.producer_state.{bound}", 2)
    for producers, forgotten, is_told in ((2, 2, True), (3, 2, False), (2, 3, False)):
        told = states_after(history([*range(producers)]))
        told._forgotten = dict.fromkeys(range(10, 10 + forgotten))
        if is_told:
            assert len(decode_told_states(told.encode(), log_offset=9)) == producers
            continue
        with pytest.raises(CorruptProducerSnapshot):
            decode_told_states(told.encode(), log_offset=9)


def test_a_snapshot_says_whether_it_is_whole() -> None:
    states = states_after(history([7]))
    assert decode_told_states(states.encode(), log_offset=1).is_whole
    states.is_whole = False
    assert not decode_told_states(states.encode(), log_offset=1).is_whole
