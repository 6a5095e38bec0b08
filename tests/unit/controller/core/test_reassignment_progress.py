"""What an operator sees of a running reassignment: how far it is, and why it does not get on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
import pytest

from controller.core.copying import SAMPLE_MS
from controller.core.events import ElectUnclean, Report
from controller.core.options import ControllerOptions
from controller.core.reassignment_progress import (
    AdvanceBook,
    BlockedReason,
    ReassignmentProgress,
    TargetProgress,
    behind_throttle,
)
from springtide.contract.epochs import LeaderEpoch, PartitionEpoch
from springtide.contract.lag_report import FollowerLag, LagReport, PartitionLag
from springtide.contract.partition_state import NO_LEADER
from springtide.contract.session import ShutdownKind
from tests.kit.controller.core_cluster import Cluster, topic_id

STALL_MS = 5_000


def moving(*target: int) -> Cluster:
    cluster = Cluster(
        ControllerOptions(reassignment_stall_ms=STALL_MS, auto_leader_rebalance=False), brokers=(1, 2, 3, 4)
    )
    cluster.create((1, 2, 3))
    cluster.reassign(*target)
    return cluster


def progress_of(cluster: Cluster) -> ReassignmentProgress:
    (progress,) = cluster.machine.reassignments(cluster.now_ms)
    return progress


def report(cluster: Cluster, *, remaining: Mapping[int, int] = MappingProxyType({}), **ends: int) -> None:
    """The leader tells how far its followers are; it is at 100 itself. remaining: bytes, by follower."""
    state = cluster.partition()
    lag = PartitionLag(
        topic_id=topic_id(),
        partition=0,
        leader_epoch=state.leader_epoch,
        log_start_offset=0,
        log_end_offset=100,
        high_watermark=90,
        size_bytes=7_000,
        followers=tuple(
            FollowerLag(
                broker_id=int(name[1:]),
                log_end_offset=end,
                lag_records=-1 if end < 0 else 100 - end,
                lag_ms=5,
                remaining_bytes=remaining.get(int(name[1:]), -1),
            )
            for name, end in ends.items()
        ),
    )
    epoch = cluster.broker(state.leader).broker_epoch
    cluster.step(
        Report(wall_ms=0, request=LagReport(broker_id=state.leader, broker_epoch=epoch, lags=(lag,)))
    )


def test_what_is_shown_is_what_the_leader_reported_last_in_its_epoch() -> None:
    cluster = moving(1, 2, 4)
    assert progress_of(cluster).size_bytes is None
    report(cluster, b2=100, b3=100, b4=40)
    assert progress_of(cluster) == ReassignmentProgress(
        topic_id=topic_id(),
        topic="orders-0",
        partition=0,
        partition_epoch=PartitionEpoch(1),
        original_replicas=(1, 2, 3),
        target_replicas=(1, 2, 4),
        targets=(
            TargetProgress(broker_id=1, is_learner=False, in_sync=True),
            TargetProgress(broker_id=2, is_learner=False, in_sync=True, log_end_offset=100, lag_records=0),
            TargetProgress(broker_id=4, is_learner=True, in_sync=False, log_end_offset=40, lag_records=60),
        ),
        size_bytes=7_000,
    )
    assert progress_of(cluster).remaining == 1
    cluster.kill(1)
    assert progress_of(cluster).size_bytes is None, "broker 1 reported in another leader epoch"


def test_a_replica_that_stands_still_blocks_and_one_that_advances_does_not() -> None:
    cluster = moving(1, 2, 4)
    report(cluster, b4=-1)
    cluster.now_ms += STALL_MS - 1
    assert progress_of(cluster).blocked is None
    cluster.now_ms += 1
    stuck = progress_of(cluster)
    assert (stuck.blocked, stuck.detail) == (
        BlockedReason.NO_PROGRESS,
        "broker 4 has not advanced for 5 s",
    )
    assert (stuck.targets[2].log_end_offset, stuck.targets[2].lag_records) == (None, None)
    report(cluster, b4=1)
    assert progress_of(cluster).blocked is None
    cluster.now_ms += STALL_MS
    report(cluster, b4=100)
    assert progress_of(cluster).blocked is None, "it has everything: its leader has only to ask for it"


@pytest.mark.parametrize(
    ("end", "blocked"), [(100, None), (99, BlockedReason.NO_PROGRESS), (-1, BlockedReason.NO_PROGRESS)]
)
def test_who_stands_at_the_end_has_nothing_to_copy(end: int, blocked: BlockedReason | None) -> None:
    cluster = moving(1, 2, 4)
    report(cluster, b4=end)
    cluster.now_ms += STALL_MS
    report(cluster, b4=end)
    assert progress_of(cluster).blocked is blocked


@pytest.mark.parametrize(
    ("remaining", "shown"),
    [(-1, (None, None)), (0, (0, 7_000)), (6_999, (6_999, 1)), (7_001, (7_001, 0))],
)
def test_what_a_learner_has_and_lacks_is_told_of_no_other_target(
    remaining: int, shown: tuple[int | None, int | None]
) -> None:
    cluster = moving(1, 2, 4)
    report(cluster, b2=100, b4=0, remaining={2: 10, 4: remaining})
    progress = progress_of(cluster)
    _, follower, learner = progress.targets
    assert (follower.remaining_bytes, follower.copied_bytes, learner.log_end_offset) == (None, None, 0)
    assert (learner.remaining_bytes, learner.copied_bytes) == shown
    lags_behind = msgspec.structs.replace(follower, in_sync=False)
    progress = msgspec.structs.replace(progress, targets=(lags_behind, learner))
    assert (progress.remaining_bytes, progress.copied_bytes) == shown
    lag = cluster.machine.lags[topic_id(), 0]
    found = behind_throttle(cluster.image, AdvanceBook(), lag, behind_ms=0)
    assert found == ({} if remaining < 0 else {4: None})


def test_how_fast_a_learner_copies_is_told_while_its_leader_knows_what_it_lacks() -> None:
    cluster = moving(1, 2, 4)
    rates = []
    for end, remaining in ((10, 6_000), (20, 1_000), (30, -1)):
        report(cluster, b4=end, remaining={4: remaining})
        rates.append(progress_of(cluster).targets[2].rate)
        cluster.now_ms += SAMPLE_MS
    assert rates == [None, 1_000, None]


def test_a_target_that_is_down_or_going_blocks() -> None:
    cluster = moving(1, 2, 4)
    cluster.heartbeat(4, wants_shutdown=True)
    assert progress_of(cluster).blocked is BlockedReason.TARGET_OFFLINE
    cluster.kill(4)
    assert progress_of(cluster).detail == "broker 4 is fenced"
    cluster.restart(4)
    assert progress_of(cluster).blocked is None


def test_a_partition_without_a_leader_blocks_and_the_learner_is_called_one() -> None:
    cluster = moving(1, 2, 4)
    cluster.kill(3, 2, 1)
    assert progress_of(cluster).blocked is BlockedReason.LEADERLESS
    verdicts = cluster.machine.explain((topic_id(), 0))
    assert [(v.broker_id, v.standing, v.could_lead) for v in verdicts] == [
        (1, "in_sync" if 1 in cluster.partition().isr else "eligible", True),
        (2, "eligible", True),
        (4, "learner", False),
        (3, "behind", False),
    ]


def test_a_leader_that_was_chosen_uncleanly_must_confirm_its_log_first() -> None:
    cluster = moving(1, 2, 4)
    cluster.kill(3, 2, 1)
    state = cluster.partition()
    assert state.leader == NO_LEADER
    cluster.step(
        ElectUnclean(
            wall_ms=0,
            actor="ann",
            topic_id=topic_id(),
            partition=0,
            broker_id=4,
            partition_epoch=state.partition_epoch,
        )
    )
    assert progress_of(cluster).blocked is BlockedReason.LEADER_RECOVERING


def test_a_leader_that_goes_waits_for_a_successor() -> None:
    cluster = Cluster(brokers=(1, 2, 3))
    cluster.create((1, 2, 3))
    cluster.propose(1, 2)
    cluster.heartbeat(2, wants_shutdown=True)
    cluster.reassign(2)
    assert progress_of(cluster).blocked is BlockedReason.NO_SUCCESSOR
    cluster.restart(2, last_shutdown=ShutdownKind.CLEAN)
    assert progress_of(cluster).blocked is None


def test_what_moves_no_more_is_not_shown_and_not_remembered_for_long() -> None:
    cluster = moving(1, 2, 4)
    cluster.cancel()
    assert cluster.machine.reassignments(cluster.now_ms) == ()
    book, image = AdvanceBook(), cluster.image
    for number in range(1_000):
        lag = PartitionLag(
            topic_id=topic_id(number),
            partition=0,
            leader_epoch=LeaderEpoch(0),
            log_start_offset=0,
            log_end_offset=1,
            high_watermark=0,
            size_bytes=1,
            followers=(FollowerLag(broker_id=4, log_end_offset=0, lag_records=1, lag_ms=1),),
        )
        book.note(image, lag, now_ms=0)
    kept = [n for n in range(1_000) if book.still_for_ms((topic_id(n), 0), 4, now_ms=7) == 7]
    assert 0 < len(kept) <= 101
    assert kept[-1] == 999
