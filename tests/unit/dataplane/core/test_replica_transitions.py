"""From role to role: what a state changes, what it may not, and what happens if it comes twice."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    NO_EFFECTS,
    PERSIST_EPOCHS,
    STOP_FETCHING,
    CopyDivergent,
    Remark,
    ReportProblem,
    StartFetching,
)
from dataplane.core.leader import Leader
from dataplane.core.leader_epochs import EpochStart
from dataplane.core.results import LeaderAnswer
from dataplane.core.role import Offline
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.partition_state import NO_LEADER
from springtide.wire.fetch_response import EpochEnd
from tests.kit.dataplane.replica import Bench, held_lease, leader_of, log_of, partition_state
from tests.kit.memory.log import MemoryLog


def test_i20_the_start_of_a_leader_epoch_is_recorded_even_if_no_record_follows() -> None:
    bench = Bench(log=log_of(1, 1))
    assert bench.apply(leader_epoch=4) == (PERSIST_EPOCHS, LEADERSHIP_CHANGED)
    assert bench.log.epochs.entries == (EpochStart(1, 0), EpochStart(4, 2))
    assert leader_of(bench).in_sync.epoch_start_offset == 2


def test_a_follower_that_is_elected_stops_fetching_first() -> None:
    bench = Bench(2)
    assert bench.apply() == (StartFetching(1, LeaderEpoch(1)),)
    assert bench.apply(leader=2, leader_epoch=2, partition_epoch=2) == (
        STOP_FETCHING,
        PERSIST_EPOCHS,
        LEADERSHIP_CHANGED,
    )
    assert isinstance(bench.replica.role, Leader)


def test_i6_older_partition_epochs_change_nothing() -> None:
    bench = Bench()
    bench.apply(partition_epoch=5)
    assert bench.apply(partition_epoch=4, leader=2, leader_epoch=9) == NO_EFFECTS
    assert isinstance(bench.replica.role, Leader)


def test_a_leader_epoch_never_goes_back() -> None:
    bench = Bench()
    bench.apply(leader_epoch=5)
    (note,) = bench.apply(leader_epoch=4, partition_epoch=2)
    assert isinstance(note, Remark)
    assert bench.replica.leader_epoch == 5


def test_i25_s33_delivering_a_state_again_finishes_what_was_left_half_done() -> None:
    bench = Bench(2)
    first = bench.apply()  # and the shell dies between storing the epoch and starting the fetcher
    assert bench.apply() == first == (StartFetching(1, LeaderEpoch(1)),)
    bench.apply(leader=NO_LEADER, leader_epoch=2, partition_epoch=2)
    assert bench.apply(leader=NO_LEADER, leader_epoch=2, partition_epoch=2) == (STOP_FETCHING,)


def test_i25_s33_a_hold_is_repeated_too() -> None:
    bench = Bench(2, log=log_of(1, 4))
    bench.apply(leader_epoch=5)
    held = bench.fetched(LeaderAnswer(diverging=EpochEnd(1, 1)))
    assert isinstance(held[1], CopyDivergent)
    assert bench.apply(leader_epoch=5) == held


def test_i25_s33_a_transition_that_fails_halfway_is_not_taken_for_applied() -> None:
    class Interrupted(Exception):
        pass

    class InterruptedLog(MemoryLog):
        is_broken = True

        def begin_leader_epoch(self, leader_epoch: int) -> None:
            if self.is_broken:
                raise Interrupted
            super().begin_leader_epoch(leader_epoch)

    log = InterruptedLog()
    bench = Bench(log=log)
    with pytest.raises(Interrupted):
        bench.apply()
    assert bench.replica.state is None
    log.is_broken = False
    assert bench.apply() == (PERSIST_EPOCHS, LEADERSHIP_CHANGED)
    assert bench.replica.state == partition_state()


def test_a_leader_epoch_that_can_not_be_written_takes_the_replica_offline() -> None:
    bench = Bench()
    bench.log.failing = "EIO"
    effects = bench.apply()
    assert isinstance(effects[-1], ReportProblem)
    assert isinstance(bench.replica.role, Offline)
    assert bench.replica.state == partition_state()


def test_who_is_no_replica_any_more_does_nothing() -> None:
    bench = Bench(2)
    bench.apply()
    effects = bench.apply(replicas=(1, 3), isr=(1, 3), leader_epoch=2, partition_epoch=2)
    assert effects == (LEADERSHIP_CHANGED, STOP_FETCHING)
    assert bench.replica.role.name == "none"
    assert bench.replica.next_fetch() is None


def test_who_is_elected_into_the_past_touches_nothing_and_calls_for_help() -> None:
    """A controller that was restored from a backup."""
    bench = Bench(log=log_of(1, 7))
    for _ in range(2):  # again to a controller that takes over
        *_, problem = bench.apply(leader_epoch=5)
        assert isinstance(problem, ReportProblem)
        assert (problem.problem.code, problem.problem.leader_epoch) == ("quarantined", 5)
        assert bench.replica.role.name == "none"
    assert bench.log.log_end_offset == 2


def test_a_leader_that_is_told_its_own_epoch_after_a_restart_keeps_where_it_began() -> None:
    bench = Bench(log=log_of(1, 3, 3), high_watermark=1)
    bench.apply(leader_epoch=3)
    assert leader_of(bench).in_sync.epoch_start_offset == 1


def test_i21_another_topic_id_never_reaches_the_log() -> None:
    bench = Bench()
    with pytest.raises(AssertionError):
        bench.apply(topic_id="b3RoZXItdG9waWMtaWQtLQ")


def test_options_reach_the_running_role() -> None:
    bench = Bench()
    bench.apply()
    options: Any = type(bench.replica.options)(is_append_time=True)
    bench.replica.options = options
    assert bench.append()[0].log_append_time_ms > 0


def test_a_lease_serves_all_replicas_of_a_broker() -> None:
    lease = held_lease(1_000, lease_ms=50)
    benches = [Bench(lease=lease), Bench(lease=lease)]
    for bench in benches:
        bench.apply(isr=(1,), min_insync_replicas=1)
        bench.now_ms += 50
    assert not any(bench.replica.role.may_serve(bench.now_ms) for bench in benches)


def test_a_replica_that_is_let_go_goes_at_once_in_every_role() -> None:
    """That closes its log: files of thousands of deleted logs must not wait for a garbage collection."""
    gc.disable()
    try:
        for leader in (2, 3):
            bench = Bench(2)
            bench.apply(leader=leader, leader_epoch=5)
            seen = weakref.ref(bench.replica)
            bench.replica.on_deleted()
            del bench
            assert seen() is None
    finally:
        gc.enable()
