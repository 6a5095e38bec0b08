"""What an unclean election would lose, by what replicas tell of their logs; gap G3 of the rule book."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.events import ElectUnclean, LeadersElected, Refusal, RefusalCode
from controller.core.loss import (
    CandidateLoss,
    LogEnds,
    LossPreview,
    parting_offset,
    preview_loss,
    sealed_candidate,
)
from controller.core.records import Cause
from springtide.contract.epochs import BrokerEpoch, PartitionEpoch
from springtide.contract.lag_report import (
    LOG_EPOCHS_MAX,
    PartitionLag,
    ReplicaLogEnd,
)
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import Cluster, changed, log_end, report, tell, topic_id


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


@pytest.mark.parametrize(
    ("log", "other", "parting"),
    [
        # They share no epoch, and one starts later: below that the two can't be compared.
        (log_end(80, (1, 50), start=50), log_end(70, (0, 0)), (50, True)),
        (log_end(70, (0, 0)), log_end(80, (1, 50), start=50), (50, True)),
        # The candidate's own history may be the one that is too long.
        (
            log_end(3_000, *((epoch, epoch) for epoch in range(1_000, 1_000 + LOG_EPOCHS_MAX)), start=40),
            log_end(2_000, (0, 0)),
            (40, False),
        ),
    ],
)
def test_logs_without_a_common_epoch_part_where_both_have_begun(
    log: ReplicaLogEnd, other: ReplicaLogEnd, parting: tuple[int, bool]
) -> None:
    assert parting_offset(log, other) == parting


def test_a_loss_is_the_longest_of_what_others_hold_and_counts_what_they_still_have() -> None:
    cluster = leaderless(is_heard=False)
    tell(cluster, 3, 50, (0, 0))
    tell(cluster, 4, 51, (0, 0), high_watermark=51)
    (by_four,) = preview(cluster).candidates[2].held
    assert (by_four.records, by_four.committed) == (1, 1)  # one record is enough
    tell(cluster, 4, 90, (0, 0), start=70, high_watermark=80)
    (by_four,) = preview(cluster).candidates[2].held
    assert (by_four.first_offset, by_four.records, by_four.committed) == (70, 20, 10)
    cluster.restart(2)
    tell(cluster, 2, 52, (0, 0))
    three = preview(cluster).candidates[2]
    assert [one.records for one in three.held] == [2, 20]
    assert (three.lost_records, three.lost_committed) == (30, 30)  # 10 of 30 are gone by retention


@pytest.mark.parametrize("ends", [(60, 80), (80, 60)])
def test_of_several_logs_that_go_on_the_longest_counts(ends: tuple[int, int]) -> None:
    """From offset 50 on, 3 has what a leader wrote that had not all, and the others what was committed."""
    cluster = leaderless(is_heard=False)
    told = {b: log_end(end, (0, 0), (2, 50)) for b, end in zip((2, 4), ends, strict=True)}
    told[3] = log_end(70, (0, 0), (1, 50))
    found = preview_loss(cluster.image, cluster.partition(), told, None, floor=75)
    assert found is not None
    three = found.candidates[2]
    assert (three.lost_records, three.lost_committed) == (30, 25)


def test_a_log_without_epochs_holds_nothing_beyond_itself() -> None:
    cluster = leaderless()
    tell(cluster, 3, 90)
    assert preview(cluster).candidates[2].held == ()


def lossy(
    broker_id: int, committed: int, epoch: int, records: int, *, may_lead: bool = True
) -> CandidateLoss:
    return CandidateLoss(
        broker_id=broker_id,
        may_lead=may_lead,
        log=log_end(records, (epoch, 0)),
        lost_records=records,
        lost_committed=committed,
    )


UNHEARD = CandidateLoss(broker_id=9, may_lead=True, log=None)


@pytest.mark.parametrize(
    ("candidates", "least"),
    [
        ((), None),
        ((UNHEARD, lossy(1, 0, 9, 0, may_lead=False)), None),
        ((UNHEARD, lossy(1, 0, 9, 0, may_lead=False), lossy(2, 5, 1, 5)), 2),
        ((lossy(4, 1, 9, 0), lossy(3, 0, 1, 9)), 3),  # acknowledged records come first
        ((lossy(4, 2, 1, 0), lossy(3, 1, 1, 9)), 3),
        ((lossy(4, 0, 1, 0), lossy(3, 0, 2, 9)), 3),  # then the latest leader epoch
        ((lossy(4, 0, 1, 1), lossy(3, 0, 1, 0)), 3),  # then all records
        ((lossy(4, 0, 1, 9), lossy(3, 0, 1, 8)), 3),
        ((lossy(4, 0, 1, 1), lossy(3, 0, 1, 1)), 4),  # then the order of the assignment
    ],
)
def test_the_candidate_that_loses_least(candidates: tuple[CandidateLoss, ...], least: int | None) -> None:
    found = LossPreview(
        partition_epoch=PartitionEpoch(0),
        unheard=(),
        last_leader=-1,
        last_log_end_offset=-1,
        last_high_watermark=-1,
        known_committed=0,
        candidates=candidates,
    )
    assert (None if found.least is None else found.least.broker_id) == least
    for one in candidates:
        assert found.candidate(one.broker_id) is one
    assert found.candidate(0) is None


@pytest.mark.parametrize(("floor", "told", "last"), [(9, 8, 7), (7, 9, 8), (7, 8, 9)])
def test_committed_is_whatever_anybody_knows_to_be_committed(floor: int, told: int, last: int) -> None:
    cluster = leaderless()
    state, image = cluster.partition(), cluster.image
    ends = {3: log_end(50, (0, 0), high_watermark=told)}
    lag = msgspec.structs.replace(last_lag(cluster), leader_epoch=state.leader_epoch - 1, high_watermark=last)
    found = preview_loss(image, state, ends, lag, floor=floor)
    assert found is not None and found.known_committed == 9
    assert found.last_high_watermark == last
    # No leader of this very epoch can have reported: it has none.
    odd = msgspec.structs.replace(lag, leader_epoch=state.leader_epoch, high_watermark=99)
    found = preview_loss(image, state, ends, odd, floor=floor)
    assert found is not None
    assert (found.known_committed, found.last_high_watermark) == (max(floor, told), -1)


def test_what_the_last_leader_tells_itself_counts_and_not_what_it_reported_before() -> None:
    cluster = leaderless()
    state, lag = (
        cluster.partition(),
        msgspec.structs.replace(last_lag(cluster), leader_epoch=0, high_watermark=0),
    )
    ends = {3: log_end(90, (0, 0)), 1: log_end(95, (0, 0))}
    found = preview_loss(cluster.image, state, ends, lag)
    assert found is not None and found.candidates[2].lost_records == 5  # and not 30
    # Unheard, it holds 30 more at least; another replica may hold more than that.
    ends = {3: log_end(90, (0, 0)), 4: log_end(130, (0, 0))}
    found = preview_loss(cluster.image, state, ends, lag)
    assert found is not None and found.candidates[2].lost_records == 40


def test_only_a_replica_of_a_partition_without_a_leader_is_listened_to() -> None:
    cluster = leaderless()
    cluster.create((1, 2, 3, 4), number=1, configs={"min.insync.replicas": "1"})
    image, state = cluster.image, cluster.partition()
    led, now = cluster.partition(number=1), state.leader_epoch
    long = tuple((epoch, epoch) for epoch in range(LOG_EPOCHS_MAX + 1))
    good = log_end(90, *long[1:], leader_epoch=now)
    assert LogEnds().note(image, 3, BrokerEpoch(1), good)
    for broker_id, end in (
        (3, msgspec.structs.replace(good, topic_id=topic_id(9))),
        (3, msgspec.structs.replace(good, topic_id=topic_id(1), leader_epoch=led.leader_epoch)),
        (5, good),
        (3, msgspec.structs.replace(good, leader_epoch=now + 1)),
        (3, msgspec.structs.replace(good, leader_epoch=now - 1)),
        (3, msgspec.structs.replace(good, epochs=long)),
    ):
        ends = LogEnds()
        assert not ends.note(image, broker_id, BrokerEpoch(1), end)
        assert ends.keys == ()


def test_a_log_end_counts_for_the_registered_process_and_this_very_state() -> None:
    cluster = leaderless()
    image, state, ends = cluster.image, cluster.partition(), LogEnds()
    epoch, good = cluster.broker(3).broker_epoch, log_end(90, leader_epoch=state.leader_epoch)
    for other in (epoch - 1, epoch + 1):
        assert ends.note(image, 3, BrokerEpoch(other), good)
        assert ends.of(image, state) == {}
    assert ends.note(image, 3, epoch, good)
    assert ends.of(image, state) == {3: good}
    for other in (state.leader_epoch - 1, state.leader_epoch + 1):
        assert ends.of(image, changed(state, leader_epoch=other)) == {}
    del image.brokers[3]
    assert ends.of(image, state) == {}


def test_log_ends_of_partitions_that_have_a_leader_again_are_forgotten() -> None:
    cluster = leaderless()
    cluster.create((3,), number=1)
    ends, state = LogEnds(), cluster.partition()
    assert ends.note(cluster.image, 3, BrokerEpoch(1), log_end(90, leader_epoch=state.leader_epoch))
    cluster.ask(unclean(cluster, 3), LeadersElected)
    cluster.kill(3)
    cluster.ask(unclean(cluster, 4), LeadersElected)
    assert set(cluster.image.leaderless) == {(topic_id(1), 0)}
    other = cluster.partition(number=1)
    end = msgspec.structs.replace(log_end(9, leader_epoch=other.leader_epoch), topic_id=topic_id(1))
    assert ends.note(cluster.image, 3, BrokerEpoch(1), end)
    assert ends.keys == ((topic_id(1), 0),)


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


@pytest.mark.parametrize("held", [51, 50])
@pytest.mark.parametrize("high_watermark", [50, 51])
def test_one_record_beyond_a_sealed_log_refutes_it(held: int, high_watermark: int) -> None:
    cluster = without_power()
    tell(cluster, 1, held, (0, 0), high_watermark=high_watermark)
    tell_sealed(cluster, 2, 50)
    tell_sealed(cluster, 3, 50)
    assert cluster.partition().leader == (2 if held == high_watermark == 50 else -1)


def test_a_seal_of_a_chain_that_is_not_registered_proves_nothing() -> None:
    cluster = without_power()
    chain_epoch = cluster.broker(3).chain_epoch
    tell_sealed(cluster, 2, 50)
    for other in (chain_epoch - 1, chain_epoch + 1):
        tell(cluster, 3, 50, (0, 0), seal_chain_epoch=other)
        assert cluster.partition().leader == -1


@pytest.mark.parametrize("seat", [{"leader": 2}, {"isr": (2,)}, {"elr": (2,)}])
def test_seals_decide_only_where_no_seat_is_left(seat: dict[str, object]) -> None:
    cluster = without_power()
    ends = {b: log_end(50, (0, 0), seal_chain_epoch=cluster.broker(b).chain_epoch) for b in (2, 3)}
    assert sealed_candidate(cluster.image, cluster.partition(), ends) == 2
    assert sealed_candidate(cluster.image, changed(cluster.partition(), **seat), ends) is None


def test_the_seal_of_a_broker_that_is_down_elects_nobody() -> None:
    cluster = without_power()
    ends = {b: log_end(50, (0, 0), seal_chain_epoch=cluster.broker(b).chain_epoch) for b in (2, 3)}
    cluster.kill(3)
    assert sealed_candidate(cluster.image, cluster.partition(), ends) is None
