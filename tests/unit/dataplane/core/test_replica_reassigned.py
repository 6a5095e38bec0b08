"""What a reassignment is to a replica: a learner is served and not waited for, the dropped stop, and what
a leader saw of a replica that went and came again is forgotten."""

from __future__ import annotations

from dataplane.core.effects import (
    LEADERSHIP_CHANGED,
    PROPOSAL_READY,
    STOP_FETCHING,
    CompleteProduce,
    StartFetching,
)
from dataplane.core.results import LeaderAnswer
from springtide.contract.epochs import LeaderEpoch
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import Bench, batch_of, leader_of, partition_state

GROWING = {
    "replicas": (1, 2, 4, 3),
    "adding_replicas": (4,),
    "removing_replicas": (3,),
    "original_replicas": (1, 2, 3),
    "partition_epoch": 2,
}


def growing_leader() -> Bench:
    """Leads 1, 2, 3 with one committed record, and broker 4 is being added."""
    bench = Bench(1)
    bench.apply()
    bench.append()
    bench.fetch(2, 1)
    bench.fetch(3, 1)
    assert bench.high_watermark == 1
    bench.apply(**GROWING)
    return bench


def test_a_learner_is_refused_until_the_leader_knows_it_and_then_served_from_the_start() -> None:
    bench = Bench(1)
    bench.apply()
    bench.append()
    assert bench.fetch(4, 0)[0].error is ErrorCode.UNKNOWN_LEADER_EPOCH
    bench.apply(**GROWING)
    result, _ = bench.fetch(4, 0)
    assert result.error is ErrorCode.NONE
    assert result.records is not None and result.records.size_bytes > 0


def test_a_learner_that_lags_holds_up_nobody_and_makes_nobody_large_enough() -> None:
    bench = growing_leader()
    bench.fetch(4, 0)
    bench.now_ms += 60_000
    result, _ = bench.append()
    assert result.is_waiting
    bench.fetch(2, 2)
    _, effects = bench.fetch(3, 2)
    assert bench.high_watermark == 2, "without broker 4"
    assert any(isinstance(effect, CompleteProduce) for effect in effects)
    bench.apply(**{**GROWING, "partition_epoch": 3, "isr": (1,)})
    bench.fetch(4, 2)
    assert bench.append()[0].error is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_learner_that_has_everything_is_asked_for_and_waited_for_from_then_on() -> None:
    bench = growing_leader()
    _, effects = bench.fetch(4, 1)
    assert PROPOSAL_READY in effects
    proposal = leader_of(bench).due_proposal(bench.now_ms)
    assert proposal is not None
    assert {member.broker_id for member in proposal.isr} == {1, 2, 3, 4}
    assert bench.replica.maximal_isr == (1, 2, 4, 3)
    bench.append()
    bench.fetch(2, 2)
    bench.fetch(3, 2)
    assert bench.high_watermark == 1


def test_i3_s26_the_position_of_a_replica_that_went_and_came_again_in_one_batch_is_forgotten() -> None:
    """Broker 3 was in sync at offset 1; it was dropped, deleted its log, and is added again. The leader hears
    of the outcome only: the leader epoch says that all it knew is void."""
    bench = growing_leader()
    bench.apply(
        replicas=(1, 2, 3),
        adding_replicas=(3,),
        original_replicas=(1, 2),
        isr=(1, 2),
        leader_epoch=2,
        partition_epoch=5,
    )
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    bench.append()
    bench.fetch(2, 2)
    assert bench.high_watermark == 2, "committed without broker 3"
    assert leader_of(bench).due_proposal(bench.now_ms) is None, "it has fetched nothing in this leader epoch"
    bench.fetch(3, 0)
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    bench.fetch(3, 2)
    proposal = leader_of(bench).due_proposal(bench.now_ms)
    assert proposal is not None
    assert {member.broker_id for member in proposal.isr} == {1, 2, 3}


def test_a_leader_that_stays_keeps_its_producers_over_the_completion() -> None:
    bench = growing_leader()
    bench.fetch(4, 1)
    leader_of(bench).due_proposal(bench.now_ms)
    bench.append("waiting")
    complete = {"replicas": (1, 2, 4), "isr": (1, 2, 4), "leader_epoch": 2, "partition_epoch": 3}
    assert not any(isinstance(effect, CompleteProduce) for effect in bench.apply(**complete))
    bench.fetch(2, 2)
    _, effects = bench.fetch(4, 2)
    assert CompleteProduce(("waiting",), ErrorCode.NONE) in effects
    assert bench.fetch(3, 2)[0].error is ErrorCode.UNKNOWN_LEADER_EPOCH, "broker 3 is no replica any more"


def test_a_leader_that_goes_fails_its_producers_and_serves_nobody() -> None:
    bench = growing_leader()
    bench.append("waiting")
    effects = bench.apply(replicas=(2, 3, 4), isr=(2, 3, 4), leader=2, leader_epoch=2, partition_epoch=3)
    assert CompleteProduce(("waiting",), ErrorCode.NOT_LEADER_OR_FOLLOWER) in effects
    assert bench.replica.role.name == "none"
    assert bench.fetch(2, 2)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_learner_fetches_and_a_dropped_follower_stops() -> None:
    bench = Bench(4)
    effects = bench.apply(**GROWING)
    assert StartFetching(leader_id=1, leader_epoch=LeaderEpoch(1)) in effects
    bench.fetched(LeaderAnswer(records=batch_of(leader_epoch=1), high_watermark=1))
    assert (bench.log.log_end_offset, bench.high_watermark) == (1, 1)
    assert bench.apply(leader_epoch=2, partition_epoch=3) == (LEADERSHIP_CHANGED, STOP_FETCHING)
    assert bench.replica.role.name == "none"
    assert bench.replica.next_fetch() is None
    assert bench.replica.state == partition_state(leader_epoch=2, partition_epoch=3)


def test_a_leader_tells_of_learners_alone_how_many_bytes_they_lack() -> None:
    bench = growing_leader()

    def remaining() -> dict[int, int]:
        lag = leader_of(bench).lag(bench.now_ms)
        assert lag is not None
        return {follower.broker_id: follower.remaining_bytes for follower in lag.followers}

    assert remaining() == {2: -1, 3: -1, 4: -1}, "it has not fetched yet"
    bench.fetch(4, 0)
    assert remaining() == {2: -1, 3: -1, 4: bench.log.size_bytes}
    bench.append()
    one = bench.log.size_bytes // 2
    bench.fetch(4, 1)
    assert remaining() == {2: -1, 3: -1, 4: one}
    bench.fetch(4, 2)
    assert remaining() == {2: -1, 3: -1, 4: 0}
    bench.apply(**{**GROWING, "partition_epoch": 3, "isr": (1, 2, 3, 4)})
    assert remaining() == {2: -1, 3: -1, 4: -1}, "in sync: no learner any more"
