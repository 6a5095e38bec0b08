"""Producers in the middle of their sequences that a leader's log does not know (6.6, unknown ids)."""

from __future__ import annotations

import pytest

from dataplane.core.newcomers import LOWEST_KEPT_MS, NEWCOMERS_MAX, Newcomers
from dataplane.core.producer_state import ProducerStates
from springtide.wire.errors import ErrorCode
from springtide.wire.record_batch import BatchHeader, decode_header
from tests.kit.dataplane.replica import Bench, batch_of, held_lease, leader_of

AGAIN, TAKEN = ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE


def header(sequence: int, *, producer_id: int = 5, epoch: int = 0) -> BatchHeader:
    data = batch_of([b"v"], producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return decode_header(data)


def judged(asked: Newcomers, *sequences: int, now_ms: int = 0) -> list[ErrorCode]:
    return [asked.judge(header(sequence), now_ms=now_ms) for sequence in sequences]


def leading() -> Bench:
    bench = Bench(lease=held_lease())
    bench.apply()
    return bench


def answered(bench: Bench, sequence: int, **other: int) -> ErrorCode:
    result, _ = bench.append(producer_id=5, producer_epoch=0, base_sequence=sequence, **other)
    return result.error


def test_a_batch_is_taken_when_it_comes_again_and_those_behind_it_follow() -> None:
    bench = leading()
    assert [answered(bench, n) for n in (7, 8, 9)] == [AGAIN] * 3
    assert [answered(bench, n) for n in (7, 8, 9)] == [TAKEN] * 3


def test_one_behind_the_lowest_is_not_taken_however_often_it_comes() -> None:
    """Its client has the one before it still to send: what it is told of this one would vouch for that."""
    assert judged(Newcomers(), 7, 8, 8, 8) == [AGAIN] * 4


def test_the_one_before_it_comes_and_is_the_lowest_then() -> None:
    assert judged(Newcomers(), 8, 7, 8, 7) == [AGAIN, AGAIN, AGAIN, TAKEN]


def test_one_before_it_that_was_refused_for_another_reason_is_the_lowest_too() -> None:
    bench = leading()
    assert answered(bench, 8) is AGAIN
    bench.apply(isr=(1,), elr=(2, 3), partition_epoch=7)
    assert answered(bench, 7) is AGAIN, "too few replicas"
    bench.apply(isr=(1, 2, 3), partition_epoch=8)
    assert answered(bench, 8) is AGAIN
    assert [answered(bench, 7), answered(bench, 8)] == [TAKEN, TAKEN]


def test_after_a_batch_that_could_not_be_read_all_are_refused_once_more() -> None:
    bench = leading()
    assert answered(bench, 8) is AGAIN
    leader_of(bench).on_unread()
    assert [answered(bench, 8), answered(bench, 8)] == [AGAIN, TAKEN]


def test_another_leadership_asks_again() -> None:
    bench = leading()
    assert answered(bench, 8) is AGAIN
    bench.apply(leader_epoch=9, partition_epoch=9)
    assert [answered(bench, 8), answered(bench, 8)] == [AGAIN, TAKEN]


def test_each_producer_epoch_is_judged_for_itself() -> None:
    asked = Newcomers()
    assert asked.judge(header(8), now_ms=0) is AGAIN
    assert [asked.judge(header(8, epoch=1), now_ms=0) for _ in range(2)] == [AGAIN, TAKEN]


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_what_was_refused_under_another_epoch_is_before_nothing(before: int, after: int) -> None:
    asked = Newcomers()
    assert asked.judge(header(8, epoch=before), now_ms=0) is AGAIN
    assert [asked.judge(header(9, epoch=after), now_ms=0) for _ in range(2)] == [AGAIN, TAKEN]


def test_the_lowest_that_was_refused_again_is_waited_for_anew() -> None:
    asked = Newcomers()
    for now_ms in (50_000, 51_000):
        asked.note_refused(header(7), now_ms=now_ms)
    assert judged(asked, 8, 8, now_ms=50_999 + LOWEST_KEPT_MS) == [AGAIN, AGAIN]


def test_who_was_refused_last_is_remembered_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataplane.core.newcomers.NEWCOMERS_MAX", 2)
    asked = Newcomers()
    for producer_id, sequence in ((1, 8), (2, 8), (1, 7), (3, 8)):
        assert asked.judge(header(sequence, producer_id=producer_id), now_ms=0) is AGAIN
    assert asked.judge(header(7, producer_id=1), now_ms=0) is TAKEN


def test_where_the_lowest_was_given_up_the_one_behind_it_is_lowest_after_a_while() -> None:
    asked = Newcomers()
    assert judged(asked, 7) == [AGAIN]
    assert judged(asked, 8, 8, now_ms=LOWEST_KEPT_MS - 1) == [AGAIN, AGAIN]
    assert judged(asked, 8, 8, now_ms=LOWEST_KEPT_MS) == [AGAIN, TAKEN]


def test_so_many_are_remembered_and_the_first_one_is_refused_once_more() -> None:
    asked = Newcomers()
    for producer_id in range(NEWCOMERS_MAX + 1):
        assert asked.judge(header(8, producer_id=producer_id), now_ms=0) is AGAIN
    assert asked.judge(header(8, producer_id=NEWCOMERS_MAX), now_ms=0) is TAKEN
    assert asked.judge(header(8, producer_id=1), now_ms=0) is TAKEN
    assert asked.judge(header(8, producer_id=0), now_ms=0) is AGAIN


def test_a_log_that_may_have_had_the_producer_refuses_it_for_good() -> None:
    """The batch may be below its first offset, stored and answered with an answer that was lost."""
    bench = leading()
    bench.log.producers.replace_with(ProducerStates())
    bench.log.producers.clear(is_whole=False)
    assert [answered(bench, 8) for _ in range(3)] == [ErrorCode.UNKNOWN_PRODUCER_ID] * 3
