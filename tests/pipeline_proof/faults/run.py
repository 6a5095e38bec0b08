"""One run: a stream copies a topic while the schedule strikes, to its end; then all is read and judged.

The driver is started again whenever it has died, as a scheduler would, and so is a query that failed. Nothing
else helps the stream along.
"""

from __future__ import annotations

import queue
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from localcluster.rest import RestFailed
from tests.pipeline_proof.connector import FORMAT
from tests.pipeline_proof.faults.arena import (
    RECORDS_EACH,
    SINK_PARTITIONS,
    SOURCE,
    SOURCE_PARTITIONS,
    Arena,
)
from tests.pipeline_proof.faults.drivers import (
    Driver,
    DriverLost,
    Drivers,
    ancestor_jvm,
    kill,
    local_ports,
    reap,
    resume,
)
from tests.pipeline_proof.faults.gate import Fate
from tests.pipeline_proof.faults.schedule import ENDS_DRIVER, Kind, Schedule, Setting, Strike
from tests.pipeline_proof.faults.verdict import Verdict, judge

RECORDS_PER_BATCH = 1_600
BATCHES = SOURCE_PARTITIONS * RECORDS_EACH // RECORDS_PER_BATCH
BATCH_BYTES = 4_096
OTHER_BATCH_BYTES = 8_192
REQUESTS = 200
"""Of a run without faults, at least. One request may bear batches of several partitions."""
STILL_SECONDS_MAX = 600.0
"""Without a request and without a commit."""
STARTS_MAX = 12
POLL_SECONDS = 0.003
BROKER_DOWN_SECONDS = 1.0
ZOMBIE_SECONDS_MAX = 15.0
FORGOTTEN_SECONDS = 5.0
"""Longer than the forgetful brokers' producer.id.expiration.ms and a round of their check."""
FORGETFUL_CONFIG = {
    "producer.id.expiration.ms": "3000",
    "producer.id.expiration.check.interval.ms": "500",
}
FORGETFUL_TRUST = "1s"
MASTERS = {
    Setting.LOCAL: "local[2,8]",
    Setting.FORGETFUL: "local[2,8]",
    Setting.CLUSTERED: "local-cluster[2,1,700]",
}
EXACTLY_ONCE = "exactly-once"
OFFICIAL = "spark-kafka"
"""Spark's own Kafka sink, for comparison. It is at least once, and its tasks send from the JVM itself, so
whatever strikes a sender strikes its driver."""
OFFICIAL_OPTIONS = {"kafka.request.timeout.ms": "3000", "kafka.delivery.timeout.ms": "20000"}
"""By default it would wait for half a minute for each answer that is lost."""
BEGUN_OTHERWISE = "begun in another way"


class RunFailed(RuntimeError):
    """The stream did not come to its end."""


@dataclass(slots=True)
class Result:
    """struck: how often each kind did. failures: of queries, as Spark told them; each was started again."""

    schedule: Schedule
    delivery: str
    verdict: Verdict
    seconds: float
    struck: Counter[str]
    driver_ends: int
    query_failures: list[str]
    requests: int
    zombie_requests: int


@dataclass(slots=True)
class Run:
    """State of one run. Strikes come from gates' threads; they only kill, stop and leave notes."""

    arena: Arena
    drivers: Drivers
    schedule: Schedule
    delivery: str
    directory: Path
    tell: Callable[[str], None]
    is_last: bool = False
    driver: Driver | None = None
    notes: queue.Queue[tuple[Strike, int]] = field(default_factory=queue.Queue)
    struck: Counter[str] = field(default_factory=Counter)
    zombies: list[psutil.Process] = field(default_factory=list)
    down: dict[int, float] = field(default_factory=dict)
    """Broker to the time at which it is started again."""
    not_before: float = 0.0
    """When the next driver may begin."""
    is_plan_changed: bool = False
    driver_ends: int = 0
    expected_ends: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def topic(self) -> str:
        return f"copy-{self.schedule.seed}-{self.delivery}"

    @property
    def master(self) -> str:
        return MASTERS[self.schedule.setting]

    @property
    def is_another_to_come(self) -> bool:
        """Whether this run's driver is going to die, or another run follows."""
        return not self.is_last or self.driver_ends < sum(kind in ENDS_DRIVER for kind in self.schedule.kinds)

    def go(self) -> Result:
        """Raises RunFailed, DriverLost, and what the cluster raises when it can't be mended."""
        began = time.monotonic()
        cluster, storm = self.arena.cluster, self.arena.storm
        cluster.create_topic(self.topic, partitions=SINK_PARTITIONS, replication_factor=3)
        storm.begin(self.schedule, self.on_strike)
        try:
            self.copy()
        except BaseException:
            if self.driver is not None:
                self.driver.close()
            raise
        finally:
            self.end_zombies()
            storm.end()
            self.start_brokers(at_once=True)
        time.sleep(self.schedule.late_seconds if self.schedule.late else 0.0)
        self.mend()
        stored = self.arena.read(self.topic)
        verdict = judge(dict.fromkeys(range(SOURCE_PARTITIONS), RECORDS_EACH), stored)
        for fate, times in storm.fates.items():
            if fate is not Fate.PASS:
                self.struck[f"request: {fate.name.lower().replace('_', ' ')}"] += times
        return Result(
            schedule=self.schedule,
            delivery=self.delivery,
            verdict=verdict,
            seconds=time.monotonic() - began,
            struck=self.struck,
            driver_ends=self.driver_ends,
            query_failures=self.failures,
            requests=storm.requests,
            zombie_requests=storm.zombie_requests,
        )

    # The stream.

    def query(self) -> dict[str, Any]:
        sink = {
            "kafka.bootstrap.servers": self.arena.bootstrap,
            "topic": self.topic,
            "delivery": self.delivery,
            "checkpointLocation": str(self.directory / "checkpoint"),
            "batchBytes": str(OTHER_BATCH_BYTES if self.is_plan_changed else BATCH_BYTES),
        }
        if self.schedule.setting is Setting.FORGETFUL:
            sink["producerStateTrusted"] = FORGETFUL_TRUST
        if self.delivery == OFFICIAL:
            sink = {name: sink[name] for name in ("kafka.bootstrap.servers", "topic", "checkpointLocation")}
            sink |= OFFICIAL_OPTIONS
        return {
            "sink_format": FORMAT if self.delivery == OFFICIAL else "springtide",
            "source": {
                "kafka.bootstrap.servers": self.arena.bootstrap,
                "subscribe": SOURCE,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(RECORDS_PER_BATCH),
                "coalesce": "false",
            },
            "sink": sink,
        }

    def copy(self) -> None:
        """Until a query has come to its end by itself."""
        commits = [strike for strike in self.schedule.strikes if strike.kind is Kind.KILL_DRIVER_AT_COMMIT]
        for _ in range(STARTS_MAX):
            if self.driver is None:
                self.driver = self.drivers.take(self.master)
                if self.is_another_to_come:
                    self.drivers.prepare(self.master)
            while time.monotonic() < self.not_before:
                self.work(commits)
            self.driver.submit(self.query())
            try:
                answer = self.follow(self.driver, commits)
            except DriverLost:
                self.driver = None
                self.driver_ends += 1
                if self.driver_ends > self.expected_ends:
                    raise
                continue
            if answer["failed"] is None:
                self.drivers.give_back(self.driver)
                return
            self.on_failed(str(answer["failed"]))
        raise RunFailed(f"not at its end after {STARTS_MAX} starts: {self.failures[-1:]}")

    def follow(self, driver: Driver, commits: list[Strike]) -> dict[str, Any]:
        """What came of the query. Raises DriverLost, RunFailed."""
        commit_log = self.directory / "checkpoint" / "commits"
        seen, seen_at = (-1, -1), time.monotonic()
        while True:
            self.work(commits)
            answer = driver.answer()
            if answer is not None:
                return answer
            now = (self.arena.storm.requests, len(list(commit_log.glob("*"))))
            if now != seen:
                seen, seen_at = now, time.monotonic()
            elif time.monotonic() - seen_at > STILL_SECONDS_MAX:
                raise RunFailed(f"nothing happened for {STILL_SECONDS_MAX:g} s")

    def on_failed(self, why: str) -> None:
        """A changed plan must have been refused; anything else is started again as it is."""
        if self.is_plan_changed:
            self.is_plan_changed = False
            if BEGUN_OTHERWISE not in why:
                raise RunFailed(
                    f"other options in the middle of a micro-batch were not refused as such: {why}"
                )
            return
        self.failures.append(why.strip().splitlines()[-1][:400])
        self.tell(f"the query failed and is started again: {self.failures[-1]}")

    def work(self, commits: list[Strike]) -> None:
        """A moment of what gates' threads leave to this one."""
        while not self.notes.empty():
            strike, broker_id = self.notes.get()
            self.on_note(strike, broker_id)
        self.start_brokers(at_once=False)
        for strike in list(commits):
            done = self.directory / "checkpoint" / "springtide-sink" / str(strike.at) / "committed.json"
            if done.exists() and self.driver is not None:
                commits.remove(strike)
                self.expected_ends += 1
                self.driver.kill()
                is_late = (self.directory / "checkpoint" / "commits" / str(strike.at)).exists()
                self.struck[Kind.KILL_DRIVER if is_late else strike.kind] += 1
        time.sleep(POLL_SECONDS)

    # Strikes.

    def on_strike(self, strike: Strike, broker_id: int, source_port: int) -> None:
        """In a gate's thread, while the request waits there. What the next driver must know is noted down
        before this one dies."""
        driver = self.driver
        if driver is None or not driver.is_running:
            return
        match strike.kind:
            case Kind.KILL_WORKER | Kind.KILL_EXECUTOR | Kind.ZOMBIE if self.delivery != OFFICIAL:
                sender = driver.sender(source_port)
                target = ancestor_jvm(sender) if sender and strike.kind is Kind.KILL_EXECUTOR else sender
                if sender is None or target is None:
                    return
                self.struck[strike.kind] += 1
                if strike.kind is Kind.ZOMBIE:
                    self.make_zombie(strike, driver, sender)
                else:
                    kill(target)
            case Kind.KILL_BROKER:
                if not self.down:
                    self.struck[strike.kind] += 1
                    self.down[broker_id] = time.monotonic() + BROKER_DOWN_SECONDS
                    self.arena.cluster.kill_broker(broker_id)
            case Kind.STOP_BROKER | Kind.MOVE_LEADERS:
                self.notes.put((strike, broker_id))
            case _:
                self.struck[Kind.KILL_DRIVER if self.delivery == OFFICIAL else strike.kind] += 1
                self.expected_ends += 1
                if strike.kind is Kind.FORGET:
                    self.not_before = time.monotonic() + FORGOTTEN_SECONDS
                if strike.kind is Kind.CHANGE_PLAN:
                    self.is_plan_changed = self.delivery == EXACTLY_ONCE
                driver.kill(only_jvm=strike.kind is Kind.KILL_JVM)

    def make_zombie(self, strike: Strike, driver: Driver, sender: psutil.Process) -> None:
        """Everything dies but the sender, which stands still until its successors are at work."""
        storm = self.arena.storm
        sender.suspend()
        self.zombies.append(sender)
        storm.watch_zombie(partial(local_ports, sender))
        storm.at_request(storm.requests + strike.resumes_after, lambda: resume(sender))
        self.expected_ends += 1
        driver.kill(spare=sender)

    def on_note(self, strike: Strike, broker_id: int) -> None:
        """What takes longer than a request may be held up for."""
        cluster = self.arena.cluster
        match strike.kind:
            case Kind.STOP_BROKER:
                if self.down:
                    return
                cluster.stop_broker(broker_id)
                self.down[broker_id] = time.monotonic() + BROKER_DOWN_SECONDS
            case _:
                path = f"/clusters/{cluster.name}/brokers/{broker_id}"
                try:
                    cluster.api.post(f"{path}:demote", {"reason": "pipeline proof"})
                    cluster.api.post(f"{path}:return", {"reason": "pipeline proof"})
                except RestFailed as refused:
                    self.tell(f"{strike.kind}: {refused}")
                    return
        self.struck[strike.kind] += 1

    def start_brokers(self, *, at_once: bool) -> None:
        for broker_id, due in list(self.down.items()):
            if at_once or time.monotonic() >= due:
                del self.down[broker_id]
                self.arena.cluster.start_broker(broker_id)

    def end_zombies(self) -> None:
        """They go on to their own end, and are ended if that does not come."""
        for zombie in self.zombies:
            resume(zombie)
            try:
                zombie.wait(timeout=ZOMBIE_SECONDS_MAX)
            except psutil.TimeoutExpired:
                self.tell("a zombie went on and on, and was killed")
                kill(zombie)
                reap([zombie])

    def mend(self) -> None:
        """Every replica in sync and every leadership at home, for the next run."""
        cluster = self.arena.cluster
        for topic in (SOURCE, self.topic):
            cluster.wait_until_in_sync(topic)
        cluster.api.post(f"/clusters/{cluster.name}/partitions:elect-preferred", {})
