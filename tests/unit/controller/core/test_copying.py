"""How far learners' copies are, how fast they get on, and when they will be through: from reports alone."""

from __future__ import annotations

import pytest

from controller.core import copying
from controller.core.copying import SAMPLE_MS, CopyBook, CopyEstimate, eta_ms
from controller.core.effects import AlarmCode
from controller.core.events import (
    AlterReassignments,
    BrokersConfigured,
    ClusterConfigured,
    ConfigureBrokers,
    ConfigureCluster,
    ReassignmentsAltered,
    ReassignmentTarget,
    Report,
)
from controller.core.options import ControllerOptions
from controller.core.reassignment_progress import BlockedReason, ReassignmentProgress, TargetProgress
from springtide.contract.epochs import LeaderEpoch
from springtide.contract.lag_report import FollowerLag, LagReport, PartitionLag
from springtide.contract.throttles import FOLLOWER_RATE, LEADER_RATE
from tests.kit.controller.core_cluster import Cluster, changed, topic_id

GB = 10**9
BEHIND_MS = 30_000


class Move:
    """orders-0 moves from (1, 2, 3) to (1, 2, 4); its leader reports when told."""

    def __init__(self, rate: int | None = None) -> None:
        options = ControllerOptions(
            auto_leader_rebalance=False, throttle_behind_ms=BEHIND_MS, reassignment_stall_ms=10**9
        )
        self.cluster = Cluster(options, brokers=(1, 2, 3, 4))
        self.cluster.create((1, 2, 3))
        self.size, self.log_start, self.end = GB, 0, 1_000_000
        self.missing = GB
        self.set_rate(rate)

    def set_rate(self, rate: int | None) -> None:
        target = ReassignmentTarget(topic_id=topic_id(), partition=0, replicas=(1, 2, 4))
        event = AlterReassignments(
            wall_ms=0, actor="ann", operation_id="m", targets=(target,), throttled_rate=rate
        )
        self.cluster.ask(event, ReassignmentsAltered)

    def report(self, *, after_ms: int = SAMPLE_MS, copied: int = 0, written: int = 0) -> None:
        self.cluster.now_ms += after_ms
        self.size += written
        self.missing += written - copied
        state = self.cluster.partition()
        lag = PartitionLag(
            topic_id=topic_id(),
            partition=0,
            leader_epoch=state.leader_epoch,
            log_start_offset=self.log_start,
            log_end_offset=self.end,
            high_watermark=self.end,
            size_bytes=self.size,
            followers=(
                FollowerLag(broker_id=2, log_end_offset=self.end, lag_records=0, lag_ms=0),
                FollowerLag(
                    broker_id=4, log_end_offset=5, lag_records=9, lag_ms=-1, remaining_bytes=self.missing
                ),
            ),
        )
        epoch = self.cluster.broker(state.leader).broker_epoch
        self.cluster.step(
            Report(wall_ms=0, request=LagReport(broker_id=state.leader, broker_epoch=epoch, lags=(lag,)))
        )

    @property
    def progress(self) -> ReassignmentProgress:
        (progress,) = self.cluster.machine.reassignments(self.cluster.now_ms)
        return progress

    @property
    def learner(self) -> TargetProgress:
        return self.progress.targets[2]

    @property
    def alarms(self) -> list[AlarmCode]:
        return [alarm.key.code for alarm in self.cluster.machine.alarms()]


def test_what_is_copied_and_what_remains_adds_up_to_the_leaders_log() -> None:
    move = Move()
    assert (move.learner.remaining_bytes, move.progress.remaining_bytes) == (None, None), "not heard of yet"
    move.report(copied=300_000_000)
    assert (move.learner.copied_bytes, move.learner.remaining_bytes) == (300_000_000, 700_000_000)
    assert (move.progress.copied_bytes, move.progress.remaining_bytes) == (300_000_000, 700_000_000)
    assert move.progress.targets[1].remaining_bytes is None, "it was a replica before"
    move.report(copied=0, written=50_000_000)
    assert (move.learner.copied_bytes, move.learner.remaining_bytes) == (300_000_000, 750_000_000)


def test_the_estimate_counts_what_closes_the_gap_and_the_rate_what_is_copied() -> None:
    move = Move()
    move.report()
    for _ in range(4):
        move.report(copied=50_000_000, written=25_000_000)
    assert move.learner.rate == 10_000_000, "50 MB in five seconds"
    assert move.missing == 900_000_000
    assert move.learner.eta_ms_p50 == move.learner.eta_ms_p90 == 180_000, "5 MB a second nearer"


def test_p90_is_slower_than_p50_when_the_speed_varies() -> None:
    move = Move()
    move.report()
    for copied in (10, 50, 50, 50, 50, 50, 50, 50, 50, 100):
        move.report(copied=copied * 1_000_000)
    fast, slow = move.learner.eta_ms_p50, move.learner.eta_ms_p90
    assert (fast, slow) == (move.missing // 10_000, move.missing // 10_000)
    for copied in (5, 5, 50):
        move.report(copied=copied * 1_000_000)
    assert move.learner.eta_ms_p50 == move.missing // 10_000
    assert move.learner.eta_ms_p90 == move.missing // 1_000


def test_no_estimate_without_evidence_nor_while_the_gap_does_not_close() -> None:
    move = Move()
    for _ in range(3):
        move.report(copied=50_000_000)
        assert (move.learner.eta_ms_p50, move.learner.eta_ms_p90) == (None, None), "too few intervals"
    move.report(copied=50_000_000)
    assert move.learner.eta_ms_p50 is not None
    for _ in range(12):
        move.report(copied=25_000_000, written=25_000_000)
    assert (move.learner.eta_ms_p50, move.learner.eta_ms_p90) == (None, None)
    assert move.learner.rate == 5_000_000


def test_reports_close_together_are_one_sample() -> None:
    move = Move()
    for _ in range(100):
        move.report(after_ms=SAMPLE_MS // 10, copied=1_000_000)
    assert move.learner.rate == 1_000_000 * 10_000 // SAMPLE_MS
    assert move.learner.eta_ms_p50 == move.missing * 1_000 // 2_000_000


def test_what_retention_deletes_is_not_taken_for_copying() -> None:
    move = Move()
    move.report()
    move.report(copied=50_000_000)
    move.log_start, move.size = 500, move.size - 400_000_000
    move.missing -= 400_000_000  # it lacked that too
    move.report(copied=0)
    assert move.learner.rate == 10_000_000


def test_another_leader_begins_the_estimate_anew() -> None:
    move = Move()
    for _ in range(5):
        move.report(copied=50_000_000)
    move.cluster.kill(1)
    move.report(copied=50_000_000)
    assert move.learner.remaining_bytes is not None
    assert (move.learner.rate, move.learner.eta_ms_p50) == (None, None)


def test_a_copy_that_is_complete_has_no_time_left() -> None:
    move = Move()
    for _ in range(5):
        move.report(copied=200_000_000)
    assert move.missing == 0
    assert (move.learner.eta_ms_p50, move.learner.eta_ms_p90) == (0, 0)


def test_the_lowest_rate_that_bounds_a_learner_is_shown_and_only_of_a_learner() -> None:
    move = Move(rate=3_000)
    cluster = move.cluster
    assert move.learner.throttled_rate == 3_000
    cluster.ask(ConfigureCluster(wall_ms=0, actor="ann", configs={FOLLOWER_RATE: "2000"}), ClusterConfigured)
    assert move.learner.throttled_rate == 2_000
    own = ConfigureBrokers(wall_ms=0, actor="ann", broker_ids=(4,), configs={FOLLOWER_RATE: "5000"})
    cluster.ask(own, BrokersConfigured)
    assert move.learner.throttled_rate == 3_000
    leaders = ConfigureBrokers(wall_ms=0, actor="ann", broker_ids=(1,), configs={LEADER_RATE: "1000"})
    cluster.ask(leaders, BrokersConfigured)
    assert move.learner.throttled_rate == 1_000
    assert [target.throttled_rate for target in move.progress.targets[:2]] == [None, None]
    cluster.propose(1, 2, 4)
    assert not cluster.partition().is_reassigning


def fall_behind(move: Move, *, reports: int = 8) -> None:
    for _ in range(reports):
        move.report(copied=5_000_000, written=10_000_000)


def test_a_learner_throttled_below_what_is_produced_is_an_alarm_and_the_reason_shown() -> None:
    move = Move(rate=1_000_000)
    fall_behind(move, reports=6)
    assert move.alarms == [], "not for long enough"
    fall_behind(move, reports=1)
    assert move.alarms == [AlarmCode.THROTTLED_BELOW_PRODUCE_RATE]
    assert move.progress.blocked is BlockedReason.THROTTLED_BELOW_PRODUCE_RATE
    assert move.progress.detail == (
        "broker 4 may copy 1000000 bytes/s and falls behind what is produced: raise the rate"
    )
    move.cluster.effects.clear()
    fall_behind(move)
    assert move.cluster.effects == [], "told once"


def test_the_alarm_ends_when_the_gap_closes_again() -> None:
    move = Move(rate=1_000_000)
    fall_behind(move)
    move.set_rate(50_000_000)
    for _ in range(6):
        move.report(copied=100_000_000)
    assert (move.alarms, move.progress.blocked) == ([], None)


@pytest.mark.parametrize("how", ["lifted", "cancelled", "completed"])
def test_the_alarm_ends_with_the_throttle(how: str) -> None:
    move = Move(rate=1_000_000)
    fall_behind(move)
    assert move.alarms == [AlarmCode.THROTTLED_BELOW_PRODUCE_RATE]
    if how == "lifted":
        move.set_rate(None)
        fall_behind(move, reports=1)
        assert move.progress.blocked is None, "it falls behind, but nobody holds it back"
    elif how == "cancelled":
        move.cluster.cancel()
    else:
        move.cluster.propose(1, 2, 4)
    assert move.alarms == []


def test_falling_behind_without_a_throttle_is_no_alarm_of_this_kind() -> None:
    move = Move()
    fall_behind(move, reports=20)
    assert (move.alarms, move.progress.blocked) == ([], None)


# The book itself.


def moving(*numbers: int) -> Cluster:
    """orders-N moves from (1, 2, 3) to (1, 2, 4) for each N, so that broker 4 learns."""
    cluster = Cluster(ControllerOptions(auto_leader_rebalance=False), brokers=(1, 2, 3, 4))
    for number in numbers:
        cluster.create((1, 2, 3), number=number)
        assert cluster.reassign(1, 2, 4, number=number).refusal is None
    return cluster


def tell(
    book: CopyBook, cluster: Cluster, now_ms: int, missing: int, *, number: int = 0, **fields: int
) -> None:
    state = cluster.partition(number=number)
    lag = PartitionLag(
        topic_id=state.topic_id,
        partition=0,
        leader_epoch=LeaderEpoch(fields.get("leader_epoch", state.leader_epoch)),
        log_start_offset=fields.get("log_start_offset", 0),
        log_end_offset=9,
        high_watermark=9,
        size_bytes=fields.get("size", GB),
        followers=(follower(missing, fields.get("broker_id", 4)),),
    )
    book.note(cluster.image, state, lag, now_ms)


def follower(missing: int, broker_id: int = 4) -> FollowerLag:
    return FollowerLag(
        broker_id=broker_id, log_end_offset=0, lag_records=0, lag_ms=0, remaining_bytes=missing
    )


def estimate(book: CopyBook, cluster: Cluster, missing: int = 1, number: int = 0) -> CopyEstimate:
    return book.estimate(cluster.partition(number=number), follower(missing), behind_ms=BEHIND_MS)


def rate(book: CopyBook, cluster: Cluster, number: int = 0) -> int | None:
    return estimate(book, cluster, number=number).rate


def test_learners_beyond_the_bound_are_shown_without_an_estimate_until_others_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "LEARNERS_MAX", 2)
    cluster, book = moving(0, 1, 2), CopyBook()
    found = []
    for round_number in range(3):
        for number in range(3):
            for turn in range(2):
                at_ms = (2 * round_number + turn) * SAMPLE_MS
                tell(book, cluster, at_ms, GB - at_ms * 1_000, number=number, leader_epoch=round_number)
        if round_number == 0:
            found.append([rate(book, cluster, number) for number in range(3)])
            cluster.cancel(number=1)
            for number in (0, 2):
                state = cluster.partition(number=number)
                cluster.image.partitions[state.topic_id, 0] = changed(state, leader_epoch=2)
    found.append([rate(book, cluster, number) for number in range(3)])
    assert found == [[1_000_000, 1_000_000, None], [1_000_000, None, 1_000_000]]


def test_only_learners_that_said_what_they_lack_are_noted_and_those_that_lack_nothing_are() -> None:
    cluster, book = moving(0), CopyBook()
    for broker_id, missing in ((2, 5), (4, -1)):
        for at_ms in (0, SAMPLE_MS):
            tell(book, cluster, at_ms, missing, broker_id=broker_id)
        state = cluster.partition()
        assert book.estimate(state, follower(0, broker_id), behind_ms=1) == CopyEstimate()
    for at_ms in (0, SAMPLE_MS):
        tell(book, cluster, at_ms, 0)
    assert rate(book, cluster) == 0


def test_samples_of_another_leader_are_no_estimate() -> None:
    cluster, book = moving(0), CopyBook()
    for at_ms in (0, SAMPLE_MS):
        tell(book, cluster, at_ms, 5)
    later = changed(cluster.partition(), leader_epoch=cluster.partition().leader_epoch + 1)
    assert rate(book, cluster) == 0
    assert book.estimate(later, follower(5), behind_ms=1) == CopyEstimate()


def test_samples_are_so_far_apart_and_not_less() -> None:
    cluster, book = moving(0), CopyBook()
    for at_ms, missing in ((9_000, 100_000), (9_000 + SAMPLE_MS - 1, 50_000), (9_000 + SAMPLE_MS, 90_000)):
        tell(book, cluster, at_ms, missing)
    assert rate(book, cluster) == 10_000 * 1_000 // SAMPLE_MS


@pytest.mark.parametrize(
    ("missing", "now_missing", "is_behind"),
    [(11, 11, True), (10, 10, False), (9, 9, False), (11, 1, True), (11, 0, False)],
)
def test_a_learner_falls_behind_if_it_lacks_more_than_before_and_anything(
    missing: int, now_missing: int, is_behind: bool
) -> None:
    cluster, book = moving(0), CopyBook()
    tell(book, cluster, 0, 10)
    tell(book, cluster, BEHIND_MS, missing)
    assert estimate(book, cluster, now_missing).is_falling_behind is is_behind


def test_the_speeds_that_half_and_nine_of_ten_intervals_reached() -> None:
    cluster, book = moving(0), CopyBook()
    missing, found = GB, []
    for number, speed in enumerate((0, 3, 1, 2, 4, 5, 6, 7, 8, 9, 10)):
        missing -= speed * 1_000 * SAMPLE_MS // 1_000
        tell(book, cluster, number * SAMPLE_MS, missing)
        told = estimate(book, cluster, 1_000_000)
        found.append((told.eta_ms_p50, told.eta_ms_p90))
    eta = [0, *(-(-1_000_000 // speed) for speed in range(1, 11))]
    assert found[:3] == [(None, None)] * 3
    assert found[3:] == [
        (eta[of_half], eta[1 if count < 10 else 2])
        for count, of_half in zip(range(3, 11), (2, 2, 3, 3, 4, 4, 5, 5), strict=True)
    ]


def test_a_gap_that_grows_by_more_than_was_written_is_no_copying_backwards() -> None:
    cluster, book = moving(0), CopyBook()
    for number, missing in enumerate((100_000, 50_000, 90_000)):
        tell(book, cluster, number * SAMPLE_MS, missing)
    assert rate(book, cluster) == 50_000 * 1_000 // (2 * SAMPLE_MS)


@pytest.mark.parametrize(
    ("remaining", "speed", "ms"), [(0, 0, 0), (1, 0, None), (1, 1, 1_000), (1, 1_001, 1), (1, -1, None)]
)
def test_the_time_that_a_copy_still_takes(remaining: int, speed: int, ms: int | None) -> None:
    assert eta_ms(remaining, speed) == ms


def test_a_learner_has_the_place_of_one_that_ended_from_its_first_report_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copying, "LEARNERS_MAX", 1)
    cluster, book = moving(0, 1), CopyBook()
    tell(book, cluster, 0, 100_000)
    cluster.cancel()
    for at_ms, missing in ((0, 100_000), (SAMPLE_MS, 50_000)):
        tell(book, cluster, at_ms, missing, number=1)
    assert rate(book, cluster, 1) == 50_000 * 1_000 // SAMPLE_MS
