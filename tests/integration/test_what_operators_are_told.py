"""What operators are told is true, on one cluster of real processes with real clients: lag, time left and
progress, brokers that stay away, racks behind one name, certificates that end.

A group that keeps up and one that stops are watched from the beginning to the end of the module, while the
other tests run: an alarm of lag takes up to a minute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from localcluster.cluster import LocalCluster
from localcluster.rest import RestFailed
from localcluster.tls import HOST
from springtide.certificates import create_certificates
from tests.kit.chromium import chromium, until

GRACE_MS: Final = 3_000
RATE: Final = 100
"""Records a second."""
COMMIT_MS: Final = 1_000
LOOK_MS: Final = 5_000
"""How often a coordinator looks at lag."""
COMMITTED_BEFORE_STOP: Final = 8
"""The coordinator knows the habit of the group that will stop."""
ALARM_S: Final = 60
SLOW_S: Final = 30
"""What a busy machine may take besides."""
SMALL, LARGE = 100_000, 8_000_000
THROTTLE: Final = 600_000

Json = dict[str, Any]


@dataclass
class Sample:
    """What was told of a group. rest: its lag; lag, seconds: of the metrics; None: not told."""

    at: float
    rest: int | None
    lag: float | None
    seconds: float | None


@dataclass
class Group:
    """A stock consumer that commits by itself, each second, in a thread."""

    name: str
    commits: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    stopped_at: float | None = None
    stops: threading.Event = field(default_factory=threading.Event)

    def gap_max(self) -> float:
        """Return the longest pause between two commits, in seconds."""
        return max(b - a for a, b in pairwise(self.commits))

    def consume(self, bootstrap: str, over: threading.Event) -> None:
        def committed(error: object, offsets: object) -> None:
            if error is None:
                self.commits.append(time.monotonic())

        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.name,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": COMMIT_MS,
                "on_commit": committed,
            }
        )
        consumer.subscribe(["orders"])
        while not over.is_set():
            consumer.consume(100, timeout=0.1)
            if self.stops.is_set() and self.stopped_at is None:
                consumer.pause(consumer.assignment())
                self.stopped_at = time.monotonic()
        consumer.close()


@dataclass
class Watch:
    """A cluster, a producer, and two groups that are asked for each second."""

    cluster: LocalCluster
    keeps_up: Group = field(default_factory=lambda: Group("keeps-up"))
    stops: Group = field(default_factory=lambda: Group("stops"))
    #: Alarms about groups that were ever up: of which group, what it said, and when it was first seen.
    alarms: dict[str, tuple[str, float]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def get(self, path: str) -> Json:
        return self.cluster.api.get(path)

    def alarms_of(self, code: str) -> list[Json]:
        items: list[Json] = self.get("/clusters/prod/alarms")["items"]
        return [alarm for alarm in items if alarm["code"] == code]

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap_servers, "linger.ms": 5})
        begun, sent = time.monotonic(), 0
        while not self.over.wait(0.02):
            while sent < RATE * (time.monotonic() - begun):
                producer.produce("orders", b"a record")
                sent += 1
            producer.poll(0)
        producer.flush(10)

    def sample(self) -> None:
        (coordinator,) = self.cluster.coordinators.values()
        with httpx.Client(base_url=self.cluster.controller_urls[0], timeout=30) as client:
            while not self.over.wait(1):
                now = time.monotonic()
                try:
                    page = coordinator.metrics()
                    for alarm in client.get("/clusters/prod/alarms").json()["items"]:
                        if alarm["code"] == "group_lag_grows":
                            self.alarms.setdefault(alarm["group_id"], (alarm["detail"], now))
                    for group in (self.keeps_up, self.stops):
                        shown = client.get(f"/clusters/prod/groups/{group.name}").json()
                        group.samples.append(
                            Sample(
                                now,
                                shown.get("lag"),
                                metric(page, "kafka_consumergroup_lag", group.name),
                                metric(page, "kafka_consumergroup_lag_seconds", group.name),
                            )
                        )
                except (httpx.HTTPError, KeyError) as error:
                    self.failures.append(repr(error))


def metric(page: str, name: str, group: str) -> float | None:
    """Return the largest value of a group's partitions; None if it is not told."""
    found = re.findall(rf'^{name}{{[^}}]*consumergroup="{group}"[^}}]*}} (\S+)$', page, re.MULTILINE)
    return max(map(float, found)) if found else None


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what the condition gives as soon as it is true; fail after so many seconds."""
    ends = time.monotonic() + seconds
    while True:
        try:
            if value := condition():
                return value
        except RestFailed:
            pass
        assert time.monotonic() < ends, f"after {seconds} s still not: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    flags = ("--broker-stopped-alarm-ms", str(GRACE_MS))
    with LocalCluster(brokers=4, coordinators=1, controller_flags=flags) as cluster:
        cluster.form()
        cluster.create_topic("orders", partitions=2, assignments=[[1, 2], [2, 1]], replication_factor=2)
        watch = Watch(cluster)
        bootstrap = cluster.bootstrap_servers
        threads = [
            threading.Thread(target=watch.produce),
            threading.Thread(target=watch.keeps_up.consume, args=(bootstrap, watch.over)),
            threading.Thread(target=watch.stops.consume, args=(bootstrap, watch.over)),
            threading.Thread(target=watch.sample),
        ]
        for thread in threads:
            thread.start()
        try:
            yield watch
        finally:
            watch.over.set()
            for thread in threads:
                thread.join()


def test_a_group_that_will_stop_reads_first(watch: Watch) -> None:
    """Here, so that the minute until its alarm passes while the others run."""
    wait_for("commits", lambda: len(watch.stops.commits) >= COMMITTED_BEFORE_STOP)
    watch.stops.stops.set()
    wait_for("the pause", lambda: watch.stops.stopped_at)


def racks(watch: Watch, *names: str) -> None:
    for broker_id, rack in enumerate(names, start=1):
        answer = watch.cluster.rest.patch(f"/clusters/prod/brokers/{broker_id}", json={"rack": rack})
        assert answer.status_code == 200, answer.text


def separation(watch: Watch) -> Json:
    goal = {"goal": {"kind": "separate_replicas"}}
    plan: Json = watch.cluster.api.post("/clusters/prod/plans?dry_run=true", goal).json()
    return plan


def test_racks_of_brokers_behind_one_name_are_kept_apart_and_what_can_not_be_is_said(watch: Watch) -> None:
    hosts = {item["endpoint"].partition(":")[0] for item in watch.get("/clusters/prod/brokers")["items"]}
    assert hosts == {"127.0.0.1"}
    racks(watch, "a", "a", "b", "b")
    plan = separation(watch)
    assert (plan["outcome"], plan["after"]["crowded"]) == ("ready", 0), plan
    moved = {(move["topic"], move["partition"]): set(move["replicas_after"]) for move in plan["moves"]}
    assert all(moved["orders", number] & {3, 4} for number in (0, 1)), "one replica in each rack"
    (said,) = plan["skipped"]
    assert "share a host, and there are too few hosts to separate them" in said["detail"]
    assert said["topic"] == "__consumer_offsets", "three replicas in two racks"

    racks(watch, "a", "b", "c", "c")
    plan = separation(watch)
    assert (plan["after"]["crowded"], plan["skipped"]) == (0, []), "three racks are enough"
    loss = watch.get("/clusters/prod/resilience?lose=rack:a")
    assert (loss["lost_brokers"], loss["partitions"]["leaderless"]) == ([1], 0), loss


def fill(watch: Watch, topic: str, sizes: list[int]) -> None:
    producer = Producer({"bootstrap.servers": watch.cluster.bootstrap_servers, "acks": "all"})
    for partition, size in enumerate(sizes):
        for _ in range(size // 50_000):
            producer.produce(topic, bytes(50_000), partition=partition)
            producer.poll(0)
        producer.flush(60)


def test_the_time_left_is_true_from_the_tenth_second_on_and_progress_never_goes_back(watch: Watch) -> None:
    sizes = [*[SMALL] * 8, LARGE, LARGE]
    watch.cluster.create_topic(
        "sizes", partitions=len(sizes), replication_factor=2, assignments=[[1, 2]] * len(sizes)
    )
    fill(watch, "sizes", sizes)
    wanted = [{"topic": "sizes", "partition": n, "replicas": [1, 3]} for n in range(len(sizes))]
    goal = {"goal": {"kind": "assign", "assignments": wanted}}

    def planned() -> Json | None:
        plan: Json = watch.cluster.api.post("/clusters/prod/plans", goal).json()
        return plan if plan["totals"]["bytes"] >= sum(sizes) else None

    plan = wait_for("leaders have told their sizes", planned)
    options = {"throttle_bytes_per_s": THROTTLE, "max_concurrent_moves": 4}
    path = watch.cluster.api.post(f"/clusters/prod/plans/{plan['id']}:execute", options).headers["location"]
    looks: list[tuple[float, Json]] = []
    while not looks or looks[-1][1]["state"] in ("scheduled", "planning", "running"):
        looks.append((time.monotonic(), watch.get(httpx.URL(path).path)))
        time.sleep(1)
    end, last = looks[-1]
    assert last["state"] == "succeeded", last
    begun = looks[0][0]
    assert end - begun > 20, "it is not over before there is something to tell"

    for name in ("moves_total", "moves_done", "bytes_total", "bytes_done"):
        told = [shown["progress"][name] for _, shown in looks]
        assert told == sorted(told), name
        assert name.endswith("done") or len(set(told)) == 1, "nothing was added"
    progress = last["progress"]
    assert progress["bytes_done"] == progress["bytes_total"] == plan["totals"]["bytes"]
    assert progress["moves_done"] == progress["moves_total"] == len(sizes)
    assert len({shown["progress"]["bytes_done"] for _, shown in looks}) > 5, "it is told as it goes"

    wrong = []
    for at, shown in looks:
        left, eta = end - at, shown["progress"]["eta"]
        if at - begun >= 10 and left > 5:
            ratio = None if eta is None else eta["p50_ms"] / 1_000 / left
            if ratio is None or not 0.5 <= ratio <= 2:
                wrong.append((round(at - begun, 1), round(left, 1), ratio))
    assert wrong == []


def test_a_broker_that_stays_away_is_told_with_the_remedy_and_maintenance_as_such(watch: Watch) -> None:
    api = watch.cluster.api
    assert watch.alarms_of("broker_stopped") == []
    watch.cluster.stop_broker(3)

    def told(words: str) -> Callable[[], bool]:
        return lambda: any(words in alarm["detail"] for alarm in watch.alarms_of("broker_stopped"))

    away = "broker 3 was stopped in order and has been away for more than 3 s: "
    wait_for("the alarm", told(f"{away}its replicas are out of sync; start it, or drain and remove it"))
    assert watch.get("/clusters/prod")["health"] != "ok"
    page = httpx.get(f"{watch.cluster.controller_urls[0]}/metrics").text
    assert 'springtide_alarms{cluster="prod",code="broker_stopped"} 1.0' in page
    api.post("/clusters/prod/brokers/3:demote", {"reason": "a new kernel"})
    wait_for("what was asked for", told(f"{away}it is in maintenance, as was asked (demoted)"))
    api.post("/clusters/prod/brokers/3:return", {})
    wait_for("what is so again", told(f"{away}its replicas are out of sync"))
    draining = api.post("/clusters/prod/brokers/3:drain", {"reason": "old hardware"}).headers["location"]
    wait_for("what was asked for", told(f"{away}it is being drained, as was asked"))
    api.post(f"{httpx.URL(draining).path}:cancel", {})
    watch.cluster.start_broker(3)
    wait_for("its end", lambda: watch.alarms_of("broker_stopped") == [])


def springtide(watch: Watch, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "springtide", "--url", watch.cluster.controller_urls[0], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_a_group_that_stops_is_told_within_a_minute_wherever_one_looks(watch: Watch) -> None:
    stopped = watch.stops.stopped_at
    assert stopped is not None
    detail, seen_at = wait_for("the alarm", lambda: watch.alarms.get("stops"), ALARM_S + SLOW_S)
    assert seen_at - stopped <= ALARM_S + SLOW_S / 2, "but for what a busy machine takes"
    assert detail.startswith("group stops falls behind: its lag has grown from ")
    assert "group stops falls behind" in springtide(watch, "clusters", "alarms", "--cluster", "prod")
    page = httpx.get(f"{watch.cluster.controller_urls[0]}/metrics").text
    assert 'springtide_alarms{cluster="prod",code="group_lag_grows"} 1.0' in page

    # Nothing is committed any more: the lag is that of now, in records and in time.
    last, away_s = watch.stops.samples[-1], time.monotonic() - stopped
    assert last.lag is not None and last.lag > RATE / 2 * (away_s - SLOW_S), "of one of two partitions"
    assert last.seconds is not None and away_s - SLOW_S < last.seconds < away_s + SLOW_S
    shown = watch.get("/clusters/prod/groups/stops")
    assert (shown["state"], shown["members_total"]) == ("stable", 1), "it has not left"
    assert all(item["lag_ms"] > 1_000 for item in shown["partitions"])


def test_the_page_shows_it(watch: Watch, tmp_path: Path) -> None:
    with chromium(tmp_path) as browser:
        browser.open(f"{watch.cluster.controller_urls[0]}/#prod")
        until("the alarm", lambda: "group stops falls behind" in browser.text("body"))
        browser.open(f"{watch.cluster.controller_urls[0]}/#prod/groups/stops")
        until("lag in time", lambda: re.search(r"[0-9,]+ records\s+[0-9.]+ (s|min)", browser.text("#view")))


def test_a_group_that_keeps_up_never_seemed_to_fall_behind(watch: Watch) -> None:
    """Its lag is what is in flight: what is produced between two commits, however long one takes here."""
    assert "keeps-up" not in watch.alarms
    assert watch.failures == []
    in_flight_s = watch.keeps_up.gap_max() + COMMIT_MS / 1_000
    samples = watch.keeps_up.samples
    for told in ([s.rest for s in samples], [s.lag for s in samples]):
        known = [lag for lag in told if lag is not None]
        assert len(known) > len(samples) / 2
        assert max(known) <= RATE * in_flight_s, known
    late = [sample.seconds for sample in samples if sample.seconds is not None]
    assert max(late) <= in_flight_s + LOOK_MS / 1_000, late


def certify(cluster: LocalCluster, *, since: timedelta, days: int) -> None:
    """Write another certificate over the file that the broker's listeners have theirs from."""
    directory = cluster.directory / "certificates"
    for _ in create_certificates(directory, [HOST], days=days, now=datetime.now(UTC) - since):
        pass


def test_certificates_that_end_and_have_ended_are_told_and_a_renewed_one_ends_that() -> None:
    with LocalCluster(brokers=1, is_secure=True) as cluster:
        cluster.form()

        def told() -> dict[str, str]:
            items = cluster.api.get("/clusters/prod/alarms")["items"]
            return {item["code"]: item["detail"] for item in items if "certificate" in item["code"]}

        def health() -> str:
            return str(cluster.api.get("/clusters/prod")["health"])

        assert (told(), health()) == ({}, "ok")
        certify(cluster, since=timedelta(days=1), days=3)
        wait_for("a warning", lambda: "certificate_expires" in told())
        detail = told()["certificate_expires"]
        assert detail.startswith("a certificate of broker 1 ends at ") and "it needs no restart" in detail
        assert health() == "degraded"

        certify(cluster, since=timedelta(days=3), days=1)
        wait_for("the end", lambda: "certificate_expired" in told())
        assert set(told()) == {"certificate_expired"}, "one alarm for one certificate"
        detail = told()["certificate_expired"]
        assert detail.startswith("a certificate of broker 1 has ended at ")
        assert "new connections to broker 1 fail" in detail and "ssl.keystore.location" in detail
        assert health() == "critical"
        shown = cluster.api.get("/clusters")["items"]
        assert [one["health"] for one in shown] == ["critical"]

        certify(cluster, since=timedelta(0), days=30)
        wait_for("no alarm", lambda: told() == {})
        wait_for("health", lambda: health() == "ok")
