"""What a person is told of replicas in quarantine and of logs that fall short."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.core.effects import AlarmCode
from controller.core.loss import CandidateLoss, LossPreview
from controller.core.ways_out import QuarantinedReplicas, way_out_of_quarantine, way_out_without_leader
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.holdings import SetAsideLog
from springtide.contract.lag_report import PartitionLag, ProblemCode, ReplicaProblem
from springtide.contract.partition_state import NO_LEADER
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import (
    Cluster,
    changed,
    hear,
    log_end,
    report,
    seats,
    tell,
    topic_id,
    way_out,
)

KEY = (topic_id(), 0)


def quarantine(cluster: Cluster, broker_id: int, *, leader_epoch: int | None = None) -> None:
    """The replica reports that it refused to cut 376 records that it knows to be committed."""
    problem = ReplicaProblem(
        topic_id=topic_id(),
        partition=0,
        code=ProblemCode.QUARANTINED,
        detail="asked to cut at 367",
        leader_epoch=LeaderEpoch(cluster.partition().leader_epoch if leader_epoch is None else leader_epoch),
        first_offset=367,
        next_offset=750,
        high_watermark=743,
    )
    report(cluster, broker_id, problems=(problem,))


def short_one_leads() -> Cluster:
    """Broker 1 leads with a log that is shorter than those of 2, which has a seat, and 3."""
    cluster = Cluster()
    cluster.create((1, 2, 3))
    assert cluster.propose(1, 2).error.value == "none"
    assert cluster.propose(1).error.value == "none"
    assert seats(cluster.partition()) == (1, (1,), (2,))
    hear(cluster, 367)
    return cluster


def test_a_replica_in_quarantine_is_named_with_what_it_holds_and_the_broker_to_stop() -> None:
    cluster = short_one_leads()
    assert way_out(cluster) is None
    quarantine(cluster, 2)
    said = way_out(cluster)
    assert said is not None
    assert "broker 1 was elected, and its log goes to 367" in said
    assert "broker 2 holds a log that ends at 750, knows records below 743 to be committed" in said
    assert "stop broker 1" in said
    (alarm,) = (a for a in cluster.machine.alarms() if a.key.code is AlarmCode.REPLICA_QUARANTINED)
    assert "preview-loss orders-0 0` names the way out" in alarm.detail


def test_the_way_out_that_is_named_works() -> None:
    cluster = short_one_leads()
    quarantine(cluster, 2)
    cluster.kill(1)
    tell(cluster, 2, 750, (0, 0), high_watermark=743)
    assert cluster.partition().leader == 2
    assert way_out(cluster) is None


def test_what_was_told_of_another_leader_or_before_the_replica_was_in_sync_does_not_count() -> None:
    cluster = short_one_leads()
    quarantine(cluster, 2, leader_epoch=99)
    assert way_out(cluster) is None
    quarantine(cluster, 2)
    assert cluster.propose(1, 2).error.value == "none"
    assert way_out(cluster) is None


def copied_back() -> Cluster:
    """The only replica returns with an older copy of its log, and the controller failed over before."""
    cluster = Cluster()
    cluster.create((3,))
    hear(cluster, 743)
    cluster.kill(3)
    cluster.fail_over()
    return cluster


def test_what_the_row_says_to_be_committed_counts_as_lost_after_a_failover() -> None:
    cluster = copied_back()
    cluster.restart(3)
    tell(cluster, 3, 367, (0, 0))
    found = cluster.machine.loss_preview(KEY)
    assert found is not None
    (three,) = found.candidates
    assert (found.last_high_watermark, found.known_committed) == (-1, 743)
    assert (three.lost_records, three.lost_committed) == (376, 376)
    said = way_out(cluster)
    assert said is not None and "records below 743 are known to be committed" in said
    assert "broker 3 lacks least, 376 of them" in said


def test_a_member_that_is_away_is_to_be_brought_back() -> None:
    cluster = copied_back()
    assert cluster.partition().leader == NO_LEADER
    said = way_out(cluster)
    assert said is not None and said.startswith("bring back broker 3 with its disk")
    assert "no live replica has reported" in said
    assert "start broker" not in said


def test_a_log_that_was_set_aside_is_named_before_anything_is_lost() -> None:
    cluster = copied_back()
    log = SetAsideLog(
        directory="orders-0.7",
        topic_id=topic_id(),
        topic="orders",
        partition=0,
        why="damaged",
        log_start_offset=0,
        log_end_offset=743,
    )
    cluster.machine.set_aside.told[3] = (log,)
    said = way_out(cluster)
    assert said is not None and "quarantine/orders-0.7 that ends at 743" in said


def test_a_log_that_could_not_prove_itself_may_lack_what_nobody_knows_of() -> None:
    """The controller that had heard of its high watermark is gone, and an older copy lies over the log."""
    cluster = Cluster()
    cluster.create((3,))
    cluster.kill(3)
    cluster.restart(3, last_shutdown=ShutdownKind.MACHINE_CRASH)
    tell(cluster, 3, 367, (0, 0))
    said = way_out(cluster)
    assert said is not None
    assert "broker 3 lacks nothing that is known to be committed; but it could not prove" in said
    assert "if a newer disk or copy is left of broker 3, stop that broker, bring it back, start it" in said
    assert "elect-leader orders-0 0 --election-type unclean` elects it now" in said


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "broker 2 (cut)"),
        ({"next_offset": 0}, "broker 2 holds a log that ends at 0 (cut)"),
        ({"high_watermark": 0}, "broker 2, knows records below 0 to be committed (cut)"),
        ({"first_offset": 0}, "broker 2, and refused to cut it at 0 (cut)"),
        (
            {"next_offset": 9, "high_watermark": 8, "first_offset": 7},
            "broker 2 holds a log that ends at 9, knows records below 8 to be committed, and refused to cut "
            "it at 7 (cut)",
        ),
    ],
)
def test_of_a_replica_in_quarantine_is_said_what_is_known(known: dict[str, Any], said: str) -> None:
    problem = ReplicaProblem(
        topic_id=topic_id(), partition=0, code=ProblemCode.QUARANTINED, detail="cut", **known
    )
    found = way_out_of_quarantine(short_one_leads().partition(), {2: problem}, None)
    assert found is not None and f"in quarantine: {said}. If" in found


def test_the_end_of_the_leaders_log_is_what_it_reported_in_this_leader_epoch() -> None:
    state = short_one_leads().partition()
    told = {2: ReplicaProblem(topic_id=topic_id(), partition=0, code=ProblemCode.QUARANTINED, detail="cut")}

    def lag(leader_epoch: int) -> PartitionLag:
        return PartitionLag(
            topic_id=topic_id(),
            partition=0,
            leader_epoch=LeaderEpoch(leader_epoch),
            log_start_offset=0,
            log_end_offset=367,
            high_watermark=0,
            size_bytes=0,
        )

    now = state.leader_epoch
    for last, end in (
        (lag(now), "367"),
        (lag(now - 1), "an end that is not known yet"),
        (lag(now + 1), "an end that is not known yet"),
        (None, "an end that is not known yet"),
    ):
        found = way_out_of_quarantine(state, told, last)
        assert found is not None and f"its log goes to {end}, but" in found


def test_a_leader_in_quarantine_counts_and_a_member_beside_it_does_not() -> None:
    cluster = short_one_leads()
    state = changed(cluster.partition(), leader=2, isr=(1, 2, 3))
    problem = ReplicaProblem(
        topic_id=topic_id(),
        partition=0,
        code=ProblemCode.QUARANTINED,
        detail="cut",
        leader_epoch=state.leader_epoch,
    )
    replicas = QuarantinedReplicas()
    for broker_id in (1, 2, 3):
        replicas.note(state, broker_id, problem)
    assert list(replicas.of(state)) == [2]
    replicas.forget(cluster.image)
    assert list(replicas.of(state)) == [2]
    for other in (state.leader_epoch - 1, state.leader_epoch + 1):
        replicas.note(state, 2, msgspec.structs.replace(problem, leader_epoch=other))
        assert replicas.of(state) == {}
    replicas.note(state, 2, problem)
    cluster.image.partitions.clear()
    replicas.forget(cluster.image)
    assert replicas.of(state) == {}


def candidate(broker_id: int, committed: int | None, *, may_lead: bool = True) -> CandidateLoss:
    return CandidateLoss(
        broker_id=broker_id,
        may_lead=may_lead,
        log=None if committed is None else log_end(50, (0, 0)),
        lost_records=committed,
        lost_committed=committed,
    )


def said_without_leader(*candidates: CandidateLoss, elr: tuple[int, ...] = ()) -> str:
    cluster = Cluster()
    cluster.create((1, 2, 3))
    preview = LossPreview(
        partition_epoch=PartitionEpoch(0),
        unheard=tuple(c.broker_id for c in candidates if c.log is None),
        last_leader=1,
        last_log_end_offset=-1,
        last_high_watermark=-1,
        known_committed=70,
        candidates=candidates,
    )
    state = changed(cluster.partition(), leader=NO_LEADER, isr=(), elr=elr, last_known_elr=(1,))
    return way_out_without_leader(cluster.image, state, preview, {})


def test_a_newer_copy_is_looked_for_where_no_log_is_known_to_reach_what_is_committed() -> None:
    said = said_without_leader(candidate(1, None), candidate(2, 5), candidate(3, 0, may_lead=False))
    assert "records below 70 are known to be committed" in said
    assert "broker 2 lacks least, 5 of them: if a newer disk or copy is left of broker 1 or 2, stop" in said
    assert said.endswith("; start broker 1: it has not reported what it holds")


def test_one_that_lacks_nothing_is_said_to() -> None:
    said = said_without_leader(candidate(1, 3), candidate(2, 0), candidate(3, 0))
    assert said.startswith("broker 2 lacks nothing that is known to be committed; `springtide elect-leader")
    assert "start broker" not in said


@pytest.mark.parametrize(("elr", "records", "is_offered"), [((1,), 0, False), ((1,), 3, True), ((), 0, True)])
def test_an_unclean_election_is_offered_where_it_gives_something_up_or_nobody_has_a_seat(
    elr: tuple[int, ...], records: int, is_offered: bool
) -> None:
    said = said_without_leader(msgspec.structs.replace(candidate(2, 0), lost_records=records), elr=elr)
    assert ("`springtide elect-leader orders-0 0 --election-type unclean`" in said) is is_offered
    assert (f"it lacks {records} records that others reported" in said) is (records > 0)


def set_aside_log(topic: int, partition: int, records: int) -> SetAsideLog:
    return SetAsideLog(
        directory=f"{topic}-{partition}.{records}",
        topic_id=topic_id(topic),
        topic="orders",
        partition=partition,
        why="damaged",
        log_start_offset=5,
        log_end_offset=5 + records,
    )


@pytest.mark.parametrize(
    ("topic", "partition", "records", "is_named"),
    [(1, 0, 1, True), (1, 0, 0, False), (0, 0, 9, False), (2, 0, 9, False), (1, 1, 9, False)],
)
def test_only_logs_of_this_partition_that_hold_records_are_named(
    topic: int, partition: int, records: int, is_named: bool
) -> None:
    cluster = Cluster()
    cluster.create((1, 2, 3), number=1)
    state = changed(cluster.partition(number=1), leader=NO_LEADER, isr=())
    preview = LossPreview(
        partition_epoch=PartitionEpoch(0),
        unheard=(),
        last_leader=1,
        last_log_end_offset=-1,
        last_high_watermark=-1,
        known_committed=0,
        candidates=(),
    )
    logs = (set_aside_log(topic, partition, records),)
    said = way_out_without_leader(cluster.image, state, preview, {3: logs})
    assert (f"quarantine/{topic}-{partition}.{records} that ends at {5 + records}" in said) is is_named
    assert said.endswith("no live replica has reported the end of its log yet")
