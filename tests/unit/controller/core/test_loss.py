"""What an unclean election would lose, by what replicas tell of their logs; gap G3 of the rule book."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.contract.lag_report import (
    LOG_EPOCHS_MAX,
    PartitionLag,
)
from controller.contract.session import ShutdownKind
from controller.core.events import ElectUnclean, LeadersElected, Refusal, RefusalCode
from controller.core.loss import LossPreview, parting_offset
from controller.core.records import Cause
from tests.kit.controller.core_cluster import Cluster, log_end, report, tell, topic_id


def leaderless(*, is_heard: bool = True) -> Cluster:
    """Broker 1 led and is down, 2 was the last but one in sync and is down; 3 and 4 lagged and live."""
    cluster = Cluster(brokers=(1, 2, 3, 4))
    cluster.create((1, 2, 3, 4), configs={"min.insync.replicas": "2"})
    cluster.propose(1, 2, 3)
    cluster.propose(1, 2)
    if is_heard:
        report(cluster, 1, lags=(last_lag(cluster),))
    cluster.kill(2)
    cluster.kill(1)
    return cluster


def last_lag(cluster: Cluster) -> PartitionLag:
    return PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=cluster.partition().leader_epoch,
        log_start_offset=0,
        log_end_offset=120,
        high_watermark=100,
        size_bytes=12_000,
    )


def preview(cluster: Cluster) -> LossPreview:
    found = cluster.machine.loss_preview((topic_id(), 0))
    assert found is not None
    return found


def unclean(cluster: Cluster, broker_id: int, lost_records_max: int | None = None) -> ElectUnclean:
    return ElectUnclean(
        wall_ms=0,
        actor="ann",
        reason="1 and 2 are lost for good",
        topic_id=topic_id(),
        partition=0,
        broker_id=broker_id,
        partition_epoch=cluster.partition().partition_epoch,
        lost_records_max=lost_records_max,
    )


def test_each_replica_is_shown_with_its_log_and_what_others_hold_beyond_it() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0), high_watermark=80)
    tell(cluster, 4, 60, (0, 0), high_watermark=60)
    found = preview(cluster)
    assert (found.unheard, found.last_leader) == ((1, 2), 1)
    assert (found.last_log_end_offset, found.last_high_watermark) == (120, 100)
    one, two, three, four = found.candidates
    assert (one.log, one.lost_records, one.may_lead) == (None, None, False)
    assert (two.log, two.lost_records) == (None, None)
    # Nobody who told has more than 3, but the last leader said that it had, and what was committed.
    assert (three.held, three.lost_records, three.lost_committed) == ((), 30, 10)
    (by_three,) = four.held
    assert (by_three.broker_id, by_three.first_offset, by_three.next_offset) == (3, 60, 90)
    assert (by_three.records, by_three.committed, by_three.is_exact) == (30, 30, True)
    assert (four.lost_records, four.lost_committed) == (60, 40)
    assert found.least is three


def test_a_longer_log_of_an_older_epoch_does_not_hide_what_it_lacks() -> None:
    """3 wrote 40 records nobody else has; from offset 50 on, 4 has what a later leader wrote."""
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0))
    tell(cluster, 4, 70, (0, 0), (1, 50))
    three, four = preview(cluster).candidates[2:]
    (lost_with_three,) = three.held
    (lost_with_four,) = four.held
    assert (lost_with_three.first_offset, lost_with_three.next_offset) == (50, 70)
    assert (lost_with_four.first_offset, lost_with_four.next_offset) == (50, 90)


@pytest.mark.parametrize("high_watermark", [40, 60])
def test_of_two_logs_that_part_the_one_of_the_later_epoch_has_what_was_acknowledged(
    high_watermark: int,
) -> None:
    """The leader of epoch 1 was elected with every committed record, so 3's records from 50 on were not."""
    cluster = leaderless(is_heard=False)  # the leader went before a controller heard of what it committed
    tell(cluster, 3, 90, (0, 0), high_watermark=high_watermark)
    tell(cluster, 4, 70, (0, 0), (1, 50), high_watermark=high_watermark)
    three, four = preview(cluster).candidates[2:]
    assert (three.lost_records, three.lost_committed) == (20, max(0, high_watermark - 50))
    assert (four.lost_records, four.lost_committed) == (40, 0)
    assert preview(cluster).least == four


def test_nothing_is_lost_beyond_what_the_last_leader_never_reported() -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    cluster.propose(1, 2)
    cluster.kill(2)
    cluster.kill(1)
    tell(cluster, 3, 90, (0, 0), high_watermark=90)
    found = preview(cluster)
    assert (found.last_log_end_offset, found.last_high_watermark) == (-1, -1)
    assert found.candidates[2].lost_records == found.candidates[2].lost_committed == 0


@pytest.mark.parametrize(
    "wrong",
    [{"leader_epoch": 0}, {"leader_epoch": 99}],
)
def test_a_log_end_told_about_another_state_says_nothing(wrong: dict[str, int]) -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0), **wrong)
    assert preview(cluster).unheard == (1, 2, 3, 4)


def test_what_an_earlier_incarnation_told_is_forgotten_with_it() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0))
    assert preview(cluster).unheard == (1, 2, 4)
    cluster.kill(3)
    assert preview(cluster).unheard == (1, 2, 4)  # its log is what it was
    cluster.restart(3)
    assert preview(cluster).unheard == (1, 2, 3, 4)


def test_there_is_no_preview_while_somebody_leads_and_none_is_kept_of_before() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0))
    elected = cluster.ask(unclean(cluster, 3), LeadersElected)
    assert elected.loss is not None and elected.loss.candidates[2].lost_records == 30
    assert cluster.last.records[0].change.cause is Cause.UNCLEAN_LEADER_ELECTED
    assert cluster.machine.loss_preview((topic_id(), 0)) is None
    cluster.kill(3)
    assert preview(cluster).unheard == (1, 2, 3, 4)
    assert cluster.machine.loss_preview((topic_id(), 9)) is None


def test_a_bound_on_the_loss_is_kept_and_waits_for_live_replicas_to_tell() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0))
    unknown = cluster.ask(unclean(cluster, 3, 1_000), Refusal)
    assert (unknown.code, unknown.field) == (RefusalCode.LOSS_UNKNOWN, "lost_records_max")
    assert "[4]" in unknown.detail
    tell(cluster, 4, 60, (0, 0))
    refused = cluster.ask(unclean(cluster, 3, 29), Refusal)
    assert (refused.code, refused.limit) == (RefusalCode.LOSS_TOO_LARGE, 29)
    assert refused.facts == {"lost_records": 30, "lost_committed": 10}
    assert cluster.last.records == ()
    elected = cluster.ask(unclean(cluster, 3, 30), LeadersElected)
    assert elected.partitions[0].leader == 3


def test_a_new_controller_knows_nothing_until_it_is_told_again() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90, (0, 0))
    cluster.fail_over()
    assert preview(cluster).unheard == (1, 2, 3, 4)
    tell(cluster, 3, 90, (0, 0))
    found = preview(cluster)
    assert (found.unheard, found.last_log_end_offset) == ((1, 2, 4), -1)


def test_histories_too_long_to_be_told_whole_give_a_bound_and_say_so() -> None:
    many = tuple((epoch, epoch) for epoch in range(1_000, 1_000 + LOG_EPOCHS_MAX))
    offset, is_exact = parting_offset(log_end(2_000, (0, 0)), log_end(3_000, *many, start=40))
    assert (offset, is_exact) == (40, False)
    assert parting_offset(log_end(0), log_end(30, (0, 0))) == (0, True)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two logs, record by record the leader epoch it was written in, as replication can leave them: a common
    part, after which each went on under epochs of its own."""
    common = sorted(draw(st.lists(st.integers(0, 3), max_size=6)))
    last = common[-1] if common else 0
    one = sorted(draw(st.lists(st.sampled_from([last, 10, 12]), max_size=5)))
    # An epoch has one leader, so what two logs hold of it is the same as far as both go.
    two = sorted(draw(st.lists(st.sampled_from([last, 11, 13]), max_size=5)))
    return common + one, common + two


@given(histories())
def test_the_parting_offset_is_where_the_records_first_differ(logs: tuple[list[int], list[int]]) -> None:
    one, two = logs
    common = 0
    while common < min(len(one), len(two)) and one[common] == two[common]:
        common += 1
    offset, is_exact = parting_offset(log_end(len(one), *starts(one)), log_end(len(two), *starts(two)))
    assert (offset, is_exact) == (common, True)


def starts(records: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((epoch, records.index(epoch)) for epoch in sorted(set(records)))


# --- sealed logs (3.9, after total power loss) -----------------------------------------------------


def without_power(*, chain_epochs: bool = True) -> Cluster:
    """Brokers 1 to 3 lost power together and are back; nobody has a seat."""
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3), configs={"min.insync.replicas": "2"})
    for broker_id in (1, 2, 3):
        cluster.kill(broker_id)
    for broker_id in (1, 2, 3):
        cluster.register(
            broker_id,
            "b",
            last_shutdown=ShutdownKind.MACHINE_CRASH,
            previous_broker_epoch=None if chain_epochs else -2,
        )
    for broker_id in (1, 2, 3):
        cluster.heartbeat(broker_id)
    state = cluster.partition()
    assert (state.leader, state.isr, state.elr, set(state.last_known_elr)) == (-1, (), (), {2, 3})
    return cluster


def tell_sealed(cluster: Cluster, broker_id: int, end: int) -> None:
    chain_epoch = cluster.broker(broker_id).chain_epoch
    tell(cluster, broker_id, end, (0, 0), seal_chain_epoch=chain_epoch)


def test_of_two_sealed_logs_one_is_elected_without_an_operator() -> None:
    cluster = without_power()
    tell_sealed(cluster, 2, 50)
    assert cluster.partition().leader == -1  # one disk alone may have gone back
    tell_sealed(cluster, 3, 50)
    state = cluster.partition()
    assert (state.leader, state.isr, state.unclean_leader_epoch) == (2, (2,), -1)


def test_of_two_sealed_logs_the_longer_one_is_elected() -> None:
    cluster = without_power()
    tell_sealed(cluster, 2, 40)
    tell_sealed(cluster, 3, 50)
    assert cluster.partition().leader == 3


def test_a_seal_of_another_chain_of_incarnations_proves_nothing() -> None:
    cluster = without_power(chain_epochs=False)
    assert cluster.broker(2).chain_epoch == cluster.broker(2).broker_epoch
    for broker_id in (2, 3):
        tell(cluster, broker_id, 50, (0, 0), seal_chain_epoch=1)
    assert cluster.partition().leader == -1


def test_a_replica_that_holds_more_than_the_sealed_ones_keeps_the_decision_with_the_operator() -> None:
    cluster = without_power()
    tell(cluster, 1, 60, (0, 0))
    tell_sealed(cluster, 2, 50)
    tell_sealed(cluster, 3, 50)
    assert cluster.partition().leader == -1


def test_a_high_watermark_beyond_the_sealed_logs_keeps_the_decision_with_the_operator() -> None:
    cluster = without_power()
    tell(cluster, 1, 50, (0, 0), high_watermark=51)
    tell_sealed(cluster, 2, 50)
    tell_sealed(cluster, 3, 50)
    assert cluster.partition().leader == -1


def test_a_sealed_log_that_had_no_seat_at_the_end_proves_nothing() -> None:
    cluster = without_power()
    tell_sealed(cluster, 1, 50)  # 2 and 3 went on without it
    tell_sealed(cluster, 2, 50)
    assert cluster.partition().leader == -1
