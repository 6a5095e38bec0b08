"""When the high watermark moves, and what the lease has to do with it."""

from __future__ import annotations

import pytest

from dataplane.core.effects import HIGH_WATERMARK_MOVED, NO_EFFECTS, CompleteProduce, Remark, RemarkKind
from dataplane.core.fetch_session import Contact
from dataplane.core.results import AppendResult, OffsetResult
from dataplane.core.watermarks import HighWatermark, committable_offset
from springtide.contract.epochs import ControllerEpoch, LeaderEpoch
from springtide.contract.session import BrokerStatus, HeartbeatResponse
from springtide.wire.errors import ErrorCode
from tests.kit.dataplane.replica import Bench, endpoint, held_lease, leader_of, log_of

LAPSED = AppendResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_i3_an_unknown_follower_holds_everything_back() -> None:
    bench = Bench(log=log_of(1, 1, 1))
    bench.apply(leader_epoch=2)
    assert bench.fetch(2, 3)[1] == NO_EFFECTS
    assert bench.high_watermark == 0
    assert bench.fetch(3, 2)[1] == (HIGH_WATERMARK_MOVED,)
    assert bench.high_watermark == 2


@pytest.mark.parametrize("is_coalesced", [False, True])
def test_i3_s7_a_leader_epoch_bump_forgets_what_followers_had_also_if_the_leader_stays(
    is_coalesced: bool,
) -> None:
    bench = Bench(log=log_of(*[0] * 10), high_watermark=8)
    bench.apply(leader_epoch=1)
    bench.fetch(2, 8)
    bench.fetch(3, 10)
    # Elsewhere: broker 2 led epoch 2, 3 truncated to 8, 2 died. Here only what follows is heard.
    bench.apply(leader_epoch=3 if is_coalesced else 2, partition_epoch=4, isr=(1, 3))
    assert bench.high_watermark == 8
    assert bench.fetch(3, 8, last_fetched_epoch=0)[1] == NO_EFFECTS
    assert bench.high_watermark == 8
    bench.fetch(3, 10, last_fetched_epoch=0)
    assert bench.high_watermark == 10


def test_i3_the_high_watermark_is_frozen_while_the_committed_isr_is_below_the_minimum() -> None:
    bench = Bench(log=log_of(1, 1))
    bench.apply(leader_epoch=2, isr=(1,), elr=(2, 3))
    bench.fetch(2, 2)
    bench.fetch(3, 2)
    assert bench.high_watermark == 0
    assert HIGH_WATERMARK_MOVED in bench.apply(leader_epoch=2, partition_epoch=2, isr=(1, 2))
    assert bench.high_watermark == 2


def test_s12_a_lower_minimum_counts_from_the_state_that_brings_it_and_a_higher_one_too() -> None:
    bench = Bench(log=log_of(1))
    bench.apply(leader_epoch=2, isr=(1,), elr=(2,))
    assert bench.high_watermark == 0
    assert HIGH_WATERMARK_MOVED in bench.apply(
        leader_epoch=2, partition_epoch=2, isr=(1,), min_insync_replicas=1
    )
    assert bench.high_watermark == 1
    bench.apply(leader_epoch=2, partition_epoch=3, isr=(1,), min_insync_replicas=2)
    assert bench.append()[0].error is ErrorCode.NOT_ENOUGH_REPLICAS
    bench.append(acks=1)
    assert bench.high_watermark == 1


def test_a_smaller_isr_commits_what_only_the_lost_member_held_back() -> None:
    """KAFKA-13091."""
    bench = Bench()
    bench.apply()
    bench.append("a")
    bench.fetch(2, 1)
    effects = bench.apply(partition_epoch=2, isr=(1, 2))
    assert effects[:2] == (HIGH_WATERMARK_MOVED, CompleteProduce(("a",), ErrorCode.NONE))


def test_a_caught_up_outsider_is_waited_for_only_while_it_may_join() -> None:
    """KAFKA-15021: waiting for one that can't join stops the partition."""
    bench = Bench()
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    bench.append("a")
    assert bench.fetch(2, 1)[1] == NO_EFFECTS
    bench.brokers[3] = endpoint(3, 30, active=False)
    assert leader_of(bench).on_broker_changed(3, now_ms=bench.now_ms) == (
        HIGH_WATERMARK_MOVED,
        CompleteProduce(("a",), ErrorCode.NONE),
    )


def test_a_caught_up_outsider_that_stops_fetching_is_waited_for_no_longer_than_the_lag_limit() -> None:
    bench = Bench(lag_ms_max=100)
    bench.apply(isr=(1, 2))
    bench.fetch(3, 0)
    bench.append("a")
    bench.fetch(2, 1)
    assert bench.high_watermark == 0
    assert bench.tick(101) == (HIGH_WATERMARK_MOVED, CompleteProduce(("a",), ErrorCode.NONE))


def test_i26_the_high_watermark_stays_within_the_log() -> None:
    assert HighWatermark(log_of(1, 1), checkpointed=9).offset == 2
    assert HighWatermark(log_of(1, start=5), checkpointed=0).offset == 5


def test_the_committable_offset_is_the_lowest_end_and_unknown_is_below_all() -> None:
    class End:
        def __init__(self, log_end_offset: int) -> None:
            self.log_end_offset = log_end_offset

    assert committable_offset(7, []) == 7
    assert committable_offset(7, [End(9), End(5)]) == 5
    assert committable_offset(7, [End(6), End(-1)]) == -1


# The lease.


def under_lease(*, isr: tuple[int, ...] = (1, 2, 3), min_insync_replicas: int = 2) -> Bench:
    """Leading; the controller session lapses at 1100."""
    bench = Bench(lease=held_lease(1_000, lease_ms=100))
    bench.apply(isr=isr, min_insync_replicas=min_insync_replicas)
    return bench


def test_s13_a_lapsed_leader_alone_stops_acking_serving_and_deleting() -> None:
    bench = under_lease(isr=(1,), min_insync_replicas=1)
    assert bench.append()[0].error is ErrorCode.NONE
    bench.now_ms += 100
    assert bench.append() == (LAPSED, NO_EFFECTS)
    assert bench.append(acks=1)[0] == LAPSED
    assert bench.consume(0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.replica.role.list_offset(
        -1, leader_epoch=LeaderEpoch(-1), now_ms=bench.now_ms
    ) == OffsetResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.delete(-1)[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_lapsed_leader_goes_on_while_enough_members_keep_fetching_from_it() -> None:
    bench = under_lease()
    bench.now_ms += 90
    bench.follow(2, 0)
    bench.follow(3, 0)
    bench.now_ms += 90  # the session is over, the last answers that were followed are 90 ms old
    assert bench.append("a")[0].is_waiting
    bench.follow(2, 1)
    assert bench.follow(3, 1)[1][-1] == CompleteProduce(("a",), ErrorCode.NONE)
    bench.now_ms += 100  # broker 2 and 3 were told of another leader: no fetch any more
    assert bench.append()[0] == LAPSED
    assert not bench.replica.role.may_serve(bench.now_ms)


def test_one_silent_member_is_enough_to_end_the_stand_in() -> None:
    bench = under_lease()
    bench.now_ms += 90
    bench.follow(2, 0)
    bench.follow(3, 0)
    bench.now_ms += 90
    bench.follow(2, 0)
    assert bench.replica.role.may_serve(bench.now_ms)
    bench.now_ms += 10
    assert not bench.replica.role.may_serve(bench.now_ms)


def test_s52_fetches_that_lay_in_the_socket_while_the_leader_was_paused_vouch_for_nothing() -> None:
    bench = under_lease()
    session = {member: Contact() for member in (2, 3)}
    for member, contact in session.items():
        bench.fetch(member, 0, contact=contact)
        contact.on_answer(bench.now_ms)
    bench.now_ms += 18_000
    for member, contact in session.items():
        contact.on_request(bench.now_ms)
        bench.fetch(member, 0, contact=contact)
    now_ms = bench.now_ms
    assert bench.append(acks=1)[0] == LAPSED
    assert bench.replica.role.list_offset(-1, leader_epoch=LeaderEpoch(-1), now_ms=now_ms) == OffsetResult(
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    assert bench.replica.role.describe_producers(now_ms).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.consume(0).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    for contact in session.values():  # those that follow what it sends after the pause do
        contact.on_answer(now_ms)
        contact.on_request(now_ms + 1)
    assert bench.replica.role.may_serve(now_ms + 1)


def test_s52_a_parked_fetch_that_is_looked_at_again_vouches_for_nothing() -> None:
    bench = under_lease()
    parked = Contact()
    bench.fetch(2, 0, contact=parked)
    bench.now_ms += 500
    bench.follow(3, 0)
    bench.fetch(2, 0, contact=parked)
    assert not bench.replica.role.may_serve(bench.now_ms)


def test_an_incremental_session_that_holds_the_partition_counts_as_fetching() -> None:
    bench = under_lease()
    contact = Contact()
    bench.fetch(2, 0, contact=contact)
    bench.fetch(3, 0, contact=contact)
    bench.now_ms += 500
    contact.on_answer(bench.now_ms - 50)
    contact.on_request(bench.now_ms)
    assert bench.replica.role.may_serve(bench.now_ms)
    leader_of(bench).on_replica_gone(3, contact)
    assert not bench.replica.role.may_serve(bench.now_ms)


def test_nothing_stands_in_for_a_lease_that_the_controller_took_away() -> None:
    bench = under_lease()
    bench.follow(2, 0)
    bench.follow(3, 0)
    bench.lease.on_heartbeat_acked(
        HeartbeatResponse(controller_epoch=ControllerEpoch(1), status=BrokerStatus.FENCED),
        sent_ms=bench.now_ms,
        now_ms=bench.now_ms,
    )
    assert bench.append()[0] == LAPSED


def test_a_lapse_freezes_the_high_watermark_and_fails_all_waiters_at_the_next_tick() -> None:
    bench = under_lease()
    bench.append("a")
    bench.follow(2, 1)
    bench.now_ms += 100
    assert bench.follow(3, 1)[0].error is ErrorCode.NONE  # followers are served, with a frozen high watermark
    bench.now_ms += 100
    assert bench.fetch(3, 1)[0].high_watermark == 0
    assert bench.tick() == (
        CompleteProduce(("a",), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        Remark(RemarkKind.LEASE_LAPSED, "lease lapsed: 1 waiting producers failed", is_warning=True),
    )


def test_a_lapsed_leader_makes_no_new_promises() -> None:
    bench = under_lease(isr=(1, 2))
    bench.now_ms += 100
    bench.fetch(3, 0)
    assert leader_of(bench).due_proposal(bench.now_ms) is None
    assert bench.replica.maximal_isr == (1, 2)
