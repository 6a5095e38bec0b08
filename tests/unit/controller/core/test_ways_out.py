"""What a person is told of replicas in quarantine and of logs that fall short."""

from __future__ import annotations

from controller.contract.holdings import SetAsideLog
from controller.contract.lag_report import ReplicaProblem
from controller.contract.partition_state import NO_LEADER
from controller.contract.session import ShutdownKind
from controller.core.effects import AlarmCode
from tests.kit.controller.core_cluster import Cluster, hear, report, seats, tell, topic_id, way_out

KEY = (topic_id(), 0)


def quarantine(cluster: Cluster, broker_id: int, *, leader_epoch: int | None = None) -> None:
    """The replica reports that it refused to cut 376 records that it knows to be committed."""
    problem = ReplicaProblem(
        topic_id=topic_id(),
        partition=0,
        code="quarantined",
        detail="asked to cut at 367",
        leader_epoch=cluster.partition().leader_epoch if leader_epoch is None else leader_epoch,
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
    assert "no live replica has told" in said
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
    assert "elect-leader orders-0 0 --election-type unclean` elects it as it is" in said
