"""The last hour in samples: averages, gaps that are no zeros, counters that begin anew, and bounds."""

from __future__ import annotations

import pytest

from controller.core import last_hour
from controller.core.last_hour import (
    SAMPLE_MS,
    SAMPLES_MAX,
    ClusterSample,
    GroupSample,
    LastHour,
    MemberSample,
    PartitionTotals,
    TopicSample,
)
from springtide.contract.groups import GroupLag
from springtide.contract.session import DiskSpace, ProcessLoad

START_MS = 7 * SAMPLE_MS
WALL_MS = 1_800_000_000_000
SECONDS = SAMPLE_MS // 1_000
COORDINATOR = 1001


class Watch:
    """An hour of a cluster with a broker 1, in which each member is heard every ten seconds."""

    def __init__(self, **bounds: int) -> None:
        self.hour = LastHour(**bounds)
        self.now_ms = START_MS
        self.requests = dict.fromkeys((1, COORDINATOR), 500)
        self.disks = {1: DiskSpace(free_bytes=30, total_bytes=100)}
        self.incarnation = "first"
        self.sample()

    def sample(self, **totals: int) -> None:
        assert self.hour.is_due(self.now_ms)
        known = PartitionTotals(**({"under_replicated": 0, "leaderless": 0} | totals))
        self.hour.sample(known, self.disks, now_ms=self.now_ms, wall_ms=WALL_MS + self.now_ms)
        assert not self.hour.is_due(self.now_ms + SAMPLE_MS - 1)

    def beat(self, member_id: int, *, requests: int = 0) -> None:
        self.requests[member_id] += requests
        load = ProcessLoad(connections=4, requests=self.requests[member_id])
        self.hour.note_member(member_id, self.incarnation, load, self.now_ms)

    def pass_sample(self, *members: int, requests: int = 0, **totals: int) -> None:
        """Half a minute passes in which only these members are heard, and take so many requests each."""
        for _ in range(3):
            self.now_ms += SAMPLE_MS // 3
            for member_id in members:
                self.beat(member_id, requests=requests // 3)
        self.sample(**totals)

    def write(self, came: int, went: int = 0, *, topic: str = "t", size: int = 0, grew: int = 0) -> None:
        self.hour.note_partition(topic, 1, came=came, went=went, size=size, size_before=size - grew)

    def lag(self, group_id: str, records: int, ms: int = 0, *, by: int = COORDINATOR) -> None:
        self.hour.note_lags(by, [GroupLag(group_id=group_id, records=records, ms=ms)])

    def lags_of(self, group_id: str) -> list[float | None]:
        return [sample.lag_records for sample in self.hour.of_group(group_id) or ()]


def test_rates_are_averages_over_a_sample_and_the_rest_is_as_of_its_end() -> None:
    watch = Watch()
    watch.pass_sample(1, requests=300)
    watch.write(30_000, 60_000)
    watch.lag("g", 7, 900)
    watch.pass_sample(1, COORDINATOR, requests=300, under_replicated=2, leaderless=1)
    assert watch.hour.times_ms == [WALL_MS + START_MS + count * SAMPLE_MS for count in (1, 2)]
    requests_of_both = (300 + 200) / SECONDS  # of the coordinator's first word nothing is known
    assert watch.hour.of_cluster()[1] == ClusterSample(1_000, 2_000, requests_of_both, 2, 1, 7, 900)
    assert watch.hour.of_members([1])[1] == MemberSample(1_000, 2_000, 300 / SECONDS, 4, 30, 100)
    assert watch.hour.latest_of_members([1]) == watch.hour.of_members([1])[-1]
    assert watch.hour.of_topic("t")[1] == TopicSample(1_000, 2_000, 0)
    assert watch.hour.of_group("g") == [GroupSample(None, None), GroupSample(7, 900)]


def test_what_passed_before_the_first_sample_begins_counts_for_none() -> None:
    hour = LastHour()
    assert hour.is_due(0)
    hour.note_partition("t", 1, came=10**9, went=0, size=1, size_before=1)
    hour.note_member(1, "first", None, 0)
    hour.sample(PartitionTotals(0, 0), {}, now_ms=0, wall_ms=0)
    assert hour.times_ms == []
    hour.note_member(1, "first", None, 1)
    hour.sample(PartitionTotals(0, 0), {}, now_ms=SAMPLE_MS, wall_ms=SAMPLE_MS)
    assert hour.of_cluster() == [ClusterSample(0, 0, None, 0, 0, None, None)]


def test_a_member_that_is_not_heard_has_a_gap_and_comes_back_without_a_peak() -> None:
    watch = Watch()
    watch.pass_sample(1, requests=300)
    watch.pass_sample()
    watch.requests[1] += 10**6
    watch.pass_sample(1, requests=300)
    assert [sample.requests for sample in watch.hour.of_members([1])] == [200 / SECONDS, None, 200 / SECONDS]
    assert watch.hour.of_members([1])[1] == MemberSample(None, None, None, None, None, None)
    assert watch.hour.of_cluster()[1].bytes_in is None


def test_a_process_that_restarts_gives_no_peak() -> None:
    watch = Watch()
    watch.pass_sample(1, requests=300)
    watch.incarnation, watch.requests[1] = "second", 10**6
    watch.pass_sample(1, requests=300)
    assert watch.hour.of_members([1])[-1].requests == 200 / SECONDS
    watch.requests[1] = 0  # its counter began anew
    watch.pass_sample(1, requests=300)
    assert watch.hour.of_members([1])[-1].requests == 200 / SECONDS


def test_a_member_of_an_older_release_tells_of_no_requests_and_no_connections() -> None:
    watch = Watch()
    watch.hour.note_member(1, "first", None, watch.now_ms)
    watch.now_ms += SAMPLE_MS
    watch.sample()
    assert watch.hour.of_members([1]) == [MemberSample(0, 0, None, None, 30, 100)]
    assert watch.hour.connections_of([1]) is None


def test_a_broker_is_the_sum_of_its_workers_and_has_the_disk_of_the_first() -> None:
    watch = Watch()
    watch.requests[2] = 0
    watch.disks[2] = DiskSpace(free_bytes=1, total_bytes=2)
    watch.pass_sample(1, 2, requests=300)
    assert watch.hour.of_members([1, 2]) == [MemberSample(0, 0, 400 / SECONDS, 8, 30, 100)]
    assert watch.hour.connections_of([1, 2, 3]) == 8


def test_a_silent_topic_has_zeros_and_the_size_that_it_had() -> None:
    watch = Watch()
    watch.hour.note_partition("t", 1, came=0, went=0, size=500, size_before=None)
    watch.pass_sample(1)
    watch.write(3_000, size=800, grew=300)
    watch.pass_sample(1)
    watch.write(0, size=200, grew=-600)
    watch.pass_sample(1)
    watch.pass_sample(1)
    assert [sample.size for sample in watch.hour.of_topic("t")] == [500, 800, 200, 200]
    assert [sample.bytes_in for sample in watch.hour.of_topic("t")] == [0, 100, 0, 0]
    assert watch.hour.of_topic("unknown")[0] == TopicSample(0, 0, None)
    watch.hour.forget_topic("t")
    assert watch.hour.size_of("t") is None


def test_of_too_many_topics_the_most_active_are_kept_and_the_others_are_not_known() -> None:
    watch = Watch(topics_max=2)
    watch.pass_sample(1)
    for name, came in (("a", 30), ("b", 900), ("c", 60)):
        watch.hour.note_partition(name, 1, came=came, went=0, size=came, size_before=0)
    watch.pass_sample(1)
    assert [sample.bytes_in for sample in watch.hour.of_topic("b")] == [0, 30]
    assert watch.hour.of_topic("a") == [TopicSample(0, 0, None), TopicSample(None, None, 30)]


def test_a_group_without_lag_has_zeros_from_its_first_word_on() -> None:
    watch = Watch()
    watch.pass_sample(1, COORDINATOR)
    watch.lag("g", 0)
    watch.pass_sample(1, COORDINATOR)
    watch.pass_sample(1, COORDINATOR)
    watch.lag("g", 9)
    watch.pass_sample(1, COORDINATOR)
    assert watch.lags_of("g") == [None, 0, 0, 9]
    assert watch.hour.of_group("unknown") is None


def test_a_group_is_not_known_while_its_coordinator_is_not_heard() -> None:
    watch = Watch()
    watch.lag("g", 4)
    watch.pass_sample(1, COORDINATOR)
    watch.pass_sample(1)
    watch.requests[COORDINATOR + 1] = 0
    watch.lag("g", 6, by=COORDINATOR + 1)
    watch.pass_sample(1, COORDINATOR + 1)
    assert watch.lags_of("g") == [4, None, 6]
    assert [sample.lag_records for sample in watch.hour.of_cluster()] == [4, None, 6]


def test_a_coordinator_that_lost_a_group_takes_nothing_from_the_one_that_has_it() -> None:
    watch = Watch()
    watch.lag("g", 4)
    watch.lag("g", 5, by=COORDINATOR + 1)
    watch.lag("g", -1)
    watch.lag("never known", -1)
    watch.requests[COORDINATOR + 1] = 0
    watch.pass_sample(COORDINATOR, COORDINATOR + 1)
    assert watch.lags_of("g") == [5]
    assert watch.hour.of_group("never known") is None


def test_a_group_that_is_gone_is_forgotten_after_an_hour() -> None:
    watch = Watch()
    watch.lag("g", 4)
    watch.pass_sample(1, COORDINATOR)
    watch.lag("g", -1)
    watch.pass_sample(1, COORDINATOR)
    assert watch.lags_of("g") == [4, None]
    for _ in range(SAMPLES_MAX):
        watch.pass_sample(1, COORDINATOR)
    assert watch.hour.of_group("g") is None


def test_of_too_many_groups_those_farthest_behind_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(groups_max=2)
    for name, records in (("a", 3), ("b", 90), ("c", 6), ("d", 0)):
        watch.lag(name, records)
    watch.pass_sample(1, COORDINATOR)
    assert [watch.lags_of(name) for name in "abcd"] == [[None], [90], [6], [None]]
    monkeypatch.setattr(last_hour, "GROUPS_KNOWN_MAX", 4)
    watch.lag("a", 3)
    watch.lag("e", 1)
    assert watch.hour.of_group("a") is not None
    assert watch.hour.of_group("b") is None


def test_an_hour_is_kept_and_a_pause_takes_its_place_in_it() -> None:
    watch = Watch()
    for _ in range(SAMPLES_MAX + 5):
        watch.pass_sample(1)
    assert len(watch.hour.times_ms) == SAMPLES_MAX
    watch.now_ms += 20 * SAMPLE_MS
    watch.write(21 * 3_000)
    watch.pass_sample(1)
    assert len(watch.hour.times_ms) == SAMPLES_MAX - 20
    assert watch.hour.times_ms[-1] - watch.hour.times_ms[-2] == 21 * SAMPLE_MS
    assert watch.hour.of_topic("t")[-1].bytes_in == 100


def test_a_member_that_was_removed_is_forgotten() -> None:
    watch = Watch()
    watch.pass_sample(1)
    watch.beat(1)
    watch.hour.forget_member(1)
    watch.now_ms += SAMPLE_MS
    watch.sample()
    assert watch.hour.of_members([1])[-1].bytes_in is None
    assert watch.hour.connections_of([1]) is None
