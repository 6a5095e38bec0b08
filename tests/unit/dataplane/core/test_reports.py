"""What a report to the controller holds, and what it takes for a report to have told it."""

from __future__ import annotations

from dataplane.core.broker import Broker, OfReplica
from dataplane.core.effects import PROPOSAL_READY
from dataplane.core.hosted import Hosted
from springtide.contract.errors import ControllerError
from springtide.contract.lag_report import CreatedLogs, IsrProposalResult, ProblemCode
from springtide.contract.partition_state import NO_LEADER
from tests.kit.dataplane.replica import TOPIC_ID, Bench, leading, partition_state

KEY = (TOPIC_ID, 0)


def hosting(bench: Bench) -> tuple[Broker[Hosted], Hosted]:
    """A broker whose only replica is the bench's, just after its state was applied."""
    broker: Broker[Hosted] = Broker(bench.replica.broker_id)
    hosted = Hosted(topic="orders", topic_id=TOPIC_ID, partition=0, replica=bench.replica)
    broker.partitions[KEY] = hosted
    broker.note_news(hosted)
    return broker, hosted


def test_a_lag_is_told_once_and_again_after_news_or_a_full_state() -> None:
    bench = leading(isr=(1,), replicas=(1,), min_insync_replicas=1)
    broker, hosted = hosting(bench)
    assert [lag.log_end_offset for lag in broker.reports.changed_lags(0, count_max=9)] == [0]
    assert broker.reports.changed_lags(500, count_max=9) == []
    broker.note_news(hosted)
    assert broker.reports.changed_lags(1_000, count_max=9) == [], "news, but nothing changed"
    bench.append()
    broker.note_news(hosted)
    assert broker.reports.changed_lags(1_500, count_max=0) == []
    assert [lag.log_end_offset for lag in broker.reports.changed_lags(1_500, count_max=9)] == [1]
    broker.reports.on_full_state()
    assert len(broker.reports.changed_lags(2_000, count_max=9)) == 1


def test_a_replica_that_is_not_at_rest_is_looked_at_in_every_report() -> None:
    bench = leading()
    broker, _ = hosting(bench)
    bench.append()
    assert len(broker.reports.changed_lags(1_000, count_max=9)) == 1
    bench.append()
    (lag,) = broker.reports.changed_lags(1_500, count_max=9)
    assert (lag.log_end_offset, lag.high_watermark) == (2, 0)


def test_a_transaction_that_stays_open_is_told_again_every_ten_seconds() -> None:
    bench = leading(isr=(1,), replicas=(1,), min_insync_replicas=1)
    broker, hosted = hosting(bench)
    bench.begin(7)
    (lag,) = broker.reports.changed_lags(bench.now_ms, count_max=9)
    assert lag.transactions is not None and lag.transactions.count == 1
    began_ms = bench.now_ms - lag.transactions.oldest[0].open_ms

    def told(after_ms: int) -> list[int]:
        lags = broker.reports.changed_lags(began_ms + after_ms, count_max=9)
        return [lag.transactions.oldest[0].open_ms for lag in lags if lag.transactions is not None]

    assert [told(after_ms) for after_ms in (500, 9_999, 10_000, 19_999, 20_500)] == [
        [],
        [],
        [10_000],
        [],
        [20_500],
    ]
    bench.end(7)
    broker.note_news(hosted)
    (lag,) = broker.reports.changed_lags(began_ms + 21_000, count_max=9)
    assert lag.transactions is None
    assert told(60_000) == []


def test_a_proposal_is_taken_once_for_each_time_that_it_was_ready() -> None:
    bench = leading(isr=(1, 2))
    broker, _ = hosting(bench)
    _, effects = bench.follow(3, 0)
    assert PROPOSAL_READY in effects
    assert broker.reports.due_proposals(bench.now_ms) == []
    broker.reports.note_proposal(KEY)
    (proposal,) = broker.reports.due_proposals(bench.now_ms)
    assert [member.broker_id for member in proposal.isr] == [1, 2, 3]
    assert broker.reports.due_proposals(bench.now_ms) == []


def test_an_answer_says_how_the_in_sync_set_has_changed_and_one_for_a_forgotten_replica_is_dropped() -> None:
    bench = leading(isr=(1, 2))
    broker, hosted = hosting(bench)
    bench.follow(3, 0)
    broker.reports.note_proposal(KEY)
    (proposal,) = broker.reports.due_proposals(bench.now_ms)
    answer = IsrProposalResult(
        topic_id=TOPIC_ID,
        partition=0,
        proposal_id=proposal.proposal_id,
        state=partition_state(partition_epoch=2),
    )
    refused = IsrProposalResult(
        topic_id=TOPIC_ID, partition=7, proposal_id=1, error=ControllerError.INELIGIBLE_REPLICA
    )
    (step,) = broker.on_proposal_results([refused, answer], now_ms=bench.now_ms)
    assert isinstance(step, OfReplica)
    assert (step.hosted, step.isr_change) == (hosted, 1)
    broker.forget(hosted)
    assert hosted.is_forgotten
    assert broker.on_proposal_results([answer], now_ms=bench.now_ms) == []
    broker.reports.note_proposal(KEY)
    assert broker.reports.due_proposals(bench.now_ms) == []


def test_what_a_lost_report_held_is_told_by_the_next_one() -> None:
    bench = Bench()
    orphan = partition_state(leader=NO_LEADER, new_replicas=(1,))
    bench.replica.on_partition_state(orphan, now_ms=0)
    broker, hosted = hosting(bench)
    reports = broker.reports
    assert reports.on_applied(hosted, orphan)
    problem = bench.replica.problem(ProblemCode.DIVERGENT, "…").problem
    reports.note_problem(problem)
    reports.note_set_aside()
    created = (CreatedLogs(topic_id=TOPIC_ID, partitions=(0,)),)
    for _ in range(2):  # nobody has answered the first
        (end,) = reports.untold_log_ends(count_max=9)
        assert reports.untold_creations(count_max=9) == created
        assert reports.unreported_problems() == (problem,)
        assert reports.take_set_aside()
        reports.note_set_aside()
    assert not reports.on_log_ends_told([end])
    assert not reports.on_creations_told(created)
    reports.on_problems_reported([problem])
    assert reports.take_set_aside()
    assert (reports.untold_log_ends(count_max=9), reports.untold_creations(count_max=9)) == ([], ())
    assert (reports.unreported_problems(), reports.take_set_aside()) == ((), False)


def test_a_replica_that_is_forgotten_is_told_of_no_more() -> None:
    bench = Bench()
    orphan = partition_state(leader=NO_LEADER, new_replicas=(1,))
    bench.replica.on_partition_state(orphan, now_ms=0)
    broker, hosted = hosting(bench)
    broker.reports.on_applied(hosted, orphan)
    broker.forget(hosted)
    reports = broker.reports
    assert (reports.untold_log_ends(count_max=9), reports.untold_creations(count_max=9)) == ([], ())
    assert reports.changed_lags(0, count_max=9) == []
    assert broker.restless == {}
