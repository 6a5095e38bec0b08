"""Bounds of a follower's rules, each found by a mutant that no other test noticed (tests/mutation)."""

from __future__ import annotations

import pytest

from dataplane.core.effects import (
    LOG_START_MOVED,
    NO_EFFECTS,
    STOP_FETCHING,
    VOUCH,
    BackOff,
    CopyDivergent,
    Remark,
    ReportProblem,
    StartFetching,
)
from dataplane.core.leader_epochs import UNDEFINED_END
from dataplane.core.log_port import RottenRange
from dataplane.core.producer_state import ProducerStates
from dataplane.core.results import LeaderAnswer
from dataplane.core.role import Offline
from springtide.contract.epochs import BrokerEpoch, LeaderEpoch
from springtide.wire.errors import ErrorCode
from springtide.wire.fetch_response import EpochEnd
from springtide.wire.record_batch import decode_header
from tests.kit.dataplane.later_release import round_of_version
from tests.kit.dataplane.replica import Bench, as_follower, batch_of, log_of
from tests.kit.memory.log import MemoryLog

FETCH = StartFetching(1, LeaderEpoch(5))


def following(log: MemoryLog, *, high_watermark: int = 0, **state: object) -> Bench:
    bench = Bench(2, log=log, high_watermark=high_watermark)
    bench.apply(**{"leader_epoch": 5, **state})
    return bench


def problems_of(effects: object) -> list[tuple[str, int, int]]:
    assert isinstance(effects, tuple)
    problems = [effect.problem for effect in effects if isinstance(effect, ReportProblem)]
    return [(problem.code, problem.first_offset, problem.next_offset) for problem in problems]


def codes_of(effects: object) -> list[str]:
    return [code for code, _, _ in problems_of(effects)]


# What a leader knows of producers.


def told(*, last_offset: int) -> bytes:
    states = ProducerStates()
    data = batch_of(base_offset=last_offset, producer_id=7, producer_epoch=0, base_sequence=0)
    states.update(decode_header(data), now_ms=1)
    return states.encode()


def copy(*, is_whole: bool) -> Bench:
    bench = following(log_of(start=4), high_watermark=4)
    bench.log.producers.is_whole = is_whole
    return bench


@pytest.mark.parametrize(("is_whole", "learnt"), [(False, [7]), (True, [])])
def test_only_a_copy_that_does_not_know_its_producers_is_taught(is_whole: bool, learnt: list[int]) -> None:
    bench = copy(is_whole=is_whole)
    assert bench.fetched(LeaderAnswer(producers=told(last_offset=3))) == NO_EFFECTS
    assert [producer.producer_id for producer in bench.log.producers.active_producers()] == learnt
    assert bench.log.producers.is_whole


def test_producers_that_no_leader_can_know_are_refused_and_told() -> None:
    bench = copy(is_whole=False)
    effects = bench.fetched(LeaderAnswer(producers=told(last_offset=4)))
    assert isinstance(effects[0], BackOff)
    assert codes_of(effects) == ["batch_refused"]
    assert not bench.log.producers.is_whole


# What a leader sends.


def test_bytes_that_are_no_batch_are_refused() -> None:
    bench = following(log_of())
    whole = bytearray(batch_of(base_offset=0, leader_epoch=1))
    whole[8:12] = (5).to_bytes(4, "big")  # its length
    effects = bench.fetched(LeaderAnswer(records=bytes(whole), high_watermark=1))
    assert codes_of(effects) == ["batch_refused"]
    assert bench.log.log_end_offset == 0


def test_a_round_of_a_later_release_is_not_taken_and_costs_nothing_that_is_here() -> None:
    """It is sound, and so is the leader's log: this broker must not go on as if it were not there (I35, equal
    rounds leave equal replicas)."""
    bench = following(log_of(1, 1), high_watermark=2)
    records = round_of_version(1, base_offset=2) + batch_of(base_offset=3, leader_epoch=1)
    effects = bench.fetched(LeaderAnswer(records=records, high_watermark=4))
    assert isinstance(effects[0], BackOff)
    assert codes_of(effects) == ["batch_refused"]
    (report,) = (effect for effect in effects if isinstance(effect, ReportProblem))
    assert (
        "a round of compaction in the log is in format 1, written by a later release" in report.problem.detail
    )
    assert (bench.log.log_start_offset, bench.log.log_end_offset, bench.log.rounds.pending) == (0, 2, ())
    records = round_of_version(0, base_offset=2)
    assert codes_of(bench.fetched(LeaderAnswer(records=records, high_watermark=3))) == ["batch_taken"]
    assert [placed.offset for placed in bench.log.rounds.pending] == [2]


def test_a_batch_that_lies_below_an_empty_logs_start_is_none_of_it() -> None:
    bench = following(log_of(start=5), high_watermark=5)
    below = batch_of([b"v"] * 2, base_offset=2, leader_epoch=2)
    assert codes_of(bench.fetched(LeaderAnswer(records=below, high_watermark=5))) == ["batch_refused"]
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (5, 5)


def test_a_batch_that_ends_before_it_begins_is_refused() -> None:
    bench = following(log_of())
    backwards = bytearray(batch_of(base_offset=0, leader_epoch=1))
    backwards[23:27] = (-1).to_bytes(4, "big", signed=True)  # its last offset delta
    assert codes_of(bench.fetched(LeaderAnswer(records=bytes(backwards)))) == ["batch_refused"]


def test_a_batch_that_begins_within_the_log_and_ends_beyond_it_is_none_of_it() -> None:
    bench = following(log_of(1, 1))
    across = batch_of([b"v"] * 2, base_offset=1, leader_epoch=1)
    assert codes_of(bench.fetched(LeaderAnswer(records=across))) == ["batch_refused"]
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (0, 2)


def test_a_log_that_begins_anew_within_a_batch_tells_the_start_that_it_has() -> None:
    bench = following(log_of(start=5), high_watermark=5)
    bench.fetched(LeaderAnswer(records=batch_of([b"v"] * 4, base_offset=3, leader_epoch=2)))
    position = bench.replica.next_fetch()
    assert position is not None
    assert (position.log_start_offset, position.fetch_offset) == (3, 7)
    assert LOG_START_MOVED in bench.fetched(LeaderAnswer(high_watermark=7, log_start_offset=5))
    position = bench.replica.next_fetch()
    assert position is not None
    assert position.log_start_offset == 3, "the higher one is not stored yet"


def test_the_highest_log_start_that_a_leader_told_is_told_back() -> None:
    bench = following(log_of(1, 1), high_watermark=0)
    for log_start in (1, 0):
        bench.fetched(LeaderAnswer(log_start_offset=log_start))
    mark = as_follower(bench.replica).log_mark()
    assert mark is not None
    assert mark.log_start_offset == 1
    bench = following(log_of(1), high_watermark=1)
    bench.fetched(LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=5))
    mark = as_follower(bench.replica).log_mark()
    assert mark is not None
    assert mark.log_start_offset == 5


def test_a_log_whose_last_batches_can_not_be_compared_has_a_mark_without_any() -> None:
    bench = following(log_of(1, 1))
    bench.log.rotten.append(RottenRange(0, 1, "a wrong bit"))
    mark = as_follower(bench.replica).log_mark()
    assert mark is not None
    assert mark.batches == ()


def test_a_refusal_is_told_anew_at_another_offset_only() -> None:
    bench = following(log_of())
    first = batch_of(base_offset=0, leader_epoch=1)
    second = batch_of(base_offset=1, leader_epoch=1)
    told = []
    for records in (first[:-1] + b"?", first[:-1] + b"?", first + second[:-1] + b"?", first):
        told.append(problems_of(bench.fetched(LeaderAnswer(records=records, high_watermark=1))))
    assert told == [[("batch_refused", 0, -1)], [], [], [("batch_taken", 0, -1)]]
    assert codes_of(bench.fetched(LeaderAnswer(records=second[:-1] + b"?"))) == ["batch_refused"]


def test_a_refusal_is_told_anew_where_the_log_was_cut_and_where_it_began_anew() -> None:
    bench = following(log_of(1, 2))
    no_batch = LeaderAnswer(records=b"?" * 100)
    told = [problems_of(bench.fetched(no_batch))]
    for answer in (
        LeaderAnswer(diverging=EpochEnd(1, 1)),
        LeaderAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=5),
    ):
        (hold,) = (each for each in bench.fetched(answer) if isinstance(each, CopyDivergent))
        as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
        told.append(problems_of(bench.fetched(no_batch)))
    assert told == [[("batch_refused", offset, -1)] for offset in (2, 1, 5)]


# Where logs part.


@pytest.mark.parametrize("end", [UNDEFINED_END, EpochEnd(9, 1), EpochEnd(1, -1)])
def test_a_divergence_at_an_unknown_point_cuts_nothing(end: EpochEnd) -> None:
    bench = following(log_of(1, 1))
    back_off, remark = bench.fetched(LeaderAnswer(diverging=end))
    assert isinstance(back_off, BackOff)
    assert isinstance(remark, Remark)
    assert remark.is_warning
    assert bench.replica.next_fetch() is not None


def test_a_divergence_that_would_cut_nothing_is_asked_for_again_later() -> None:
    bench = following(log_of(1, 1))
    back_off, remark = bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 2)))
    assert isinstance(back_off, BackOff)
    assert isinstance(remark, Remark)
    assert remark.is_warning


@pytest.mark.parametrize(
    ("epochs", "end", "cut"),
    [
        ((1, 2, 2), EpochEnd(1, 1), 1),
        ((1, 2, 2), EpochEnd(1, 3), 1),
        ((1, 3, 3), EpochEnd(2, 2), 1),
        ((1, 1, 1, 3), EpochEnd(2, 2), 3),
        ((1, 2, 2), EpochEnd(2, 2), 2),
    ],
)
def test_a_log_is_cut_where_both_can_be_the_same_before(
    epochs: tuple[int, ...], end: EpochEnd, cut: int
) -> None:
    bench = following(log_of(*epochs))
    (hold,) = (each for each in bench.fetched(LeaderAnswer(diverging=end)) if isinstance(each, CopyDivergent))
    assert (hold.first_offset, hold.cut_offset) == (cut, cut)


def test_a_log_that_is_cut_below_its_start_begins_there_and_one_that_is_cut_at_it_stays() -> None:
    """Only the first has to ask for producers: what it knows is of other records."""
    for cut, start, is_whole in ((2, 2, False), (4, 4, True)):
        bench = following(log_of(3, 3, start=4), high_watermark=4, unclean_leader_epoch=5)
        (hold,) = (
            each
            for each in bench.fetched(LeaderAnswer(diverging=EpochEnd(1, cut)))
            if isinstance(each, CopyDivergent)
        )
        assert (hold.first_offset, hold.cut_offset) == (4, cut)
        as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
        assert (bench.log.log_start_offset, bench.log.log_end_offset) == (start, start)
        assert bench.log.producers.is_whole == is_whole


def test_what_came_from_this_very_leader_is_not_cut_for_it() -> None:
    for epoch, is_quarantined in ((5, True), (4, False)):
        bench = following(log_of(1, epoch, epoch))
        effects = bench.fetched(LeaderAnswer(diverging=EpochEnd(epoch, 2)))
        assert (codes_of(effects) == ["quarantined"]) == is_quarantined


# A copy that is written aside.


def holding() -> tuple[Bench, CopyDivergent]:
    bench = following(log_of(1, 2, 2))
    _, hold = bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 1)))
    assert isinstance(hold, CopyDivergent)
    return bench, hold


def test_only_the_copy_that_is_asked_for_lets_the_log_be_cut_and_only_once() -> None:
    bench, hold = holding()
    role = as_follower(bench.replica)
    assert role.on_divergent_copied(hold.hold_id + 1, error=None, now_ms=0) == NO_EFFECTS
    assert bench.log.log_end_offset == 3
    problem, fetch = role.on_divergent_copied(hold.hold_id, error=None, now_ms=0)
    assert (codes_of((problem,)), fetch) == (["divergent"], FETCH)
    assert bench.log.log_end_offset == 1
    assert role.on_divergent_copied(hold.hold_id, error=None, now_ms=0) == NO_EFFECTS
    assert as_follower(following(log_of()).replica).on_divergent_copied(1, error=None, now_ms=0) == NO_EFFECTS


def test_a_copy_that_failed_is_asked_for_once_when_its_time_has_come() -> None:
    bench, hold = holding()
    role = as_follower(bench.replica)
    assert role.is_at_rest is True
    role.on_divergent_copied(hold.hold_id, error="full", now_ms=bench.now_ms)
    assert role.is_at_rest is False
    assert bench.tick(1_000_000) == (hold,)
    assert role.is_at_rest is True
    assert bench.tick(1_000_000) == NO_EFFECTS


def test_a_log_that_can_not_be_cut_goes_offline() -> None:
    bench, hold = holding()
    bench.log.failing = "broken"
    assert as_follower(bench.replica).on_divergent_copied(hold.hold_id, error=None, now_ms=0)
    assert isinstance(bench.replica.role, Offline)


# The rest.


def test_a_follower_whose_log_does_not_vouch_for_all_that_it_holds_fetches_nothing() -> None:
    log = log_of(1)
    log.begin_seal(BrokerEpoch(1))
    data = batch_of(base_offset=1, leader_epoch=1)
    log.append((decode_header(data),), (data,), now_ms=1)
    bench = Bench(2, log=log)
    assert bench.apply(leader_epoch=5)[-2:] == (STOP_FETCHING, VOUCH)


def test_a_follower_that_has_a_vouched_log_fetches_on() -> None:
    bench = following(log_of(1))
    assert bench.replica.role.on_vouched(now_ms=0) == (FETCH,)


def test_consumers_read_from_a_follower_only_while_it_fetches() -> None:
    bench = following(log_of(1, 2, 2), high_watermark=0)
    bench.fetched(LeaderAnswer(high_watermark=1))
    assert bench.consume(0, leader_epoch=5).error is ErrorCode.NONE
    bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 1)))
    assert bench.consume(0, leader_epoch=5).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
