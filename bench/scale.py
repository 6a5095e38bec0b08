"""What a cluster of very many partitions costs its controllers: `python -m bench scale`.

ZooKeeper and two controllers as processes; the brokers are stand-ins in this process, which say what brokers
say and hold no log (stand_in_brokers.py). Topics are created over REST or, with --write-rows, written into
ZooKeeper as a controller writes them, while none runs: then nothing is learnt about creation, and the rest
begins sooner. Then: what an idle cluster costs, pages of lists, the plan for one more broker, the active
controller killed by SIGKILL, a broker killed. Figures that have a goal are told beside it, and once more in
the end.

Every wait has a limit, and the whole run has one: what was measured until then is written all the same, to
build/scale-PARTITIONS-TOPICS.json.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

import httpx

from bench.command import Narrator, WrongCommand
from bench.machine import keep, machine_facts
from bench.processor_time import cpu_seconds, peak_rss_mb
from bench.stand_in_brokers import StandIn
from bench.written_rows import write_rows
from localcluster.cluster import ControllerProcess, LocalCluster
from localcluster.zookeeper import HEAP_BYTES

T = TypeVar("T")

BROKERS: Final = 6
REPLICATION_FACTOR: Final = 3
#: Of a run, by default: so long, and a second more for so many partitions.
RUN_SECONDS_MAX: Final = 600.0
PARTITIONS_PER_SECOND: Final = 200
SETTLE_SECONDS_MAX: Final = 60.0
SETTLED_PER_SECOND: Final = 1_000
PLAN_SECONDS_MAX: Final = 300.0
#: Above so many partitions there are no goals, and a warning of what the run needs.
LARGE: Final = 200_000
HEAP_BYTES_LARGE: Final = "4g"
#: Of controllers, ZooKeeper and stand-ins together.
MEMORY_BYTES_EACH: Final = 11_000
FAILOVER: Final = "controller failover: until the standby writes"
TOLD: Final = "controller failover: until all brokers have the FULL state"
ELECTED: Final = "a broker killed: new leaders applied, last survivor"
GOALS_S: Final = {FAILOVER: 3.0, TOLD: 3.0, ELECTED: 1.0}
IDLE_SECONDS: Final = 8.0
CLIENTS: Final = 8
BUSY_SECONDS: Final = 1.0
PAGES: Final = 5
TELL_EVERY_SECONDS: Final = 5.0
MANY: Final = "topic-{:06d}"


class OutOfTime(Exception):
    """The run's time is over."""


class TooLong(Exception):
    """One wait is over; the run goes on without it."""


class Scale:
    """One run. rows: what was measured, in order."""

    def __init__(
        self, cluster: LocalCluster, tell: Callable[[str], None], options: argparse.Namespace
    ) -> None:
        self._cluster, self._tell = cluster, tell
        self._partitions, self._topics = options.partitions, options.topics
        self._per_topic = self._partitions // self._topics
        self.goals = GOALS_S if self._partitions <= LARGE else {}
        self._ends_at = time.monotonic() + options.seconds
        self.rows: dict[str, float] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.brokers = [
            StandIn(number, cluster.name, cluster.controller_urls) for number in range(1, options.brokers + 2)
        ]
        self.http = httpx.Client(timeout=120, follow_redirects=True)

    def add(self, name: str, value: float, unit: str) -> None:
        self.rows[f"{name}, {unit}"] = round(value, 3)
        self._tell(f"{name:<70} {value:>12,.1f} {unit}{self._beside(name)}")

    def _beside(self, name: str) -> str:
        if name not in self.goals:
            return ""
        value, goal = self.rows.get(f"{name}, s"), self.goals[name]
        said = "NOT MEASURED" if value is None else "met" if value < goal else "MISSED"
        return f"  goal: below {goal:g} s, {said}"

    def tell_goals(self) -> None:
        for name in self.goals:
            self._tell(
                f"{name:<70} {self.rows.get(f'{name}, s', float('nan')):>12,.2f} s{self._beside(name)}"
            )

    def on_loop(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(timeout=60)

    def until(
        self,
        what: str,
        done: Callable[[], float],
        *,
        of: float = 1,
        pause: float = 0.005,
        seconds_max: float = float("inf"),
    ) -> float:
        """Wait until `done` gives `of`; tell how far it is, how fast, and how long it will take. Return the
        seconds. Raise OutOfTime, TooLong."""
        began = told = time.monotonic()
        first = count = done()
        while count < of:
            now = time.monotonic()
            if now > self._ends_at:
                raise OutOfTime(f"{what}: {count:,.0f} of {of:,.0f}")
            if now - began > seconds_max:
                raise TooLong(f"{what}: not within {seconds_max:,.0f} s")
            if now - told > TELL_EVERY_SECONDS and of == 1:
                told = now
                self._tell(f"  {what}: not after {now - began:,.0f} s")
            elif now - told > TELL_EVERY_SECONDS:
                told = now
                rate = (count - first) / (now - began)
                left = (of - count) / rate if rate else float("inf")
                self._tell(f"  {what}: {count:,.0f} of {of:,.0f}, {rate:,.0f}/s, {left:,.0f} s left")
            time.sleep(pause)
            count = done()
        return time.monotonic() - began

    # -- what runs --

    @property
    def members(self) -> list[StandIn]:
        """The stand-ins that are to be members; the last one waits."""
        return self.brokers[:-1]

    def active(self) -> ControllerProcess:
        return self._cluster.controllers[self._cluster.active_controller()]

    def form(self) -> None:
        for broker in self.brokers:
            self.on_loop(broker.start())
        endpoints = {broker.broker_id: f"{broker.host}:{broker.port}" for broker in self.members}
        self._cluster.api.add_brokers(self._cluster.name, endpoints)

    def memory(self, when: str) -> None:
        for controller in self._cluster.controllers.values():
            if controller.process.pid is not None:
                role = (controller.readiness() or {}).get("role", "busy")
                self.add(f"{when}: memory of the {role} controller", rss_mb(controller.process.pid), "MB")
                peak = peak_rss_mb(controller.process.pid)
                self.add(f"{when}: memory of the {role} controller at most", peak, "MB")

    # -- partitions come to be --

    def create(self) -> None:
        url = f"{self.active().url}/clusters/{self._cluster.name}/topics"
        made = 0
        began = time.monotonic()

        def create_one(number: int) -> None:
            nonlocal made
            if time.monotonic() > self._ends_at:
                return
            body = {
                "name": MANY.format(number),
                "partitions": self._per_topic,
                "replication_factor": REPLICATION_FACTOR,
            }
            answer = clients[number % CLIENTS].post(url, json=body)
            # SQL or ZooKeeper is behind, or controllers change; 409: it was made, and the answer was lost.
            while answer.status_code not in (201, 409) and time.monotonic() < self._ends_at:
                time.sleep(BUSY_SECONDS)
                answer = clients[number % CLIENTS].post(url, json=body)
            assert answer.status_code in (201, 409), answer.text
            made += 1

        def count() -> int:
            for job in jobs:
                if job.done():
                    job.result()
            return made

        clients = [httpx.Client(timeout=60, follow_redirects=True) for _ in range(CLIENTS)]
        with ThreadPoolExecutor(CLIENTS) as pool:
            jobs = [pool.submit(create_one, number) for number in range(self._topics)]
            self.until("topics created", count, of=self._topics, pause=0.5)
        self.add("creation: all 201", time.monotonic() - began, "s")
        self.add("creation: rate", self._partitions / (time.monotonic() - began), "partitions/s")
        told = self.until("told to all", lambda: min(b.told for b in self.members), of=self._partitions)
        self.add("creation: then until all brokers were told", told, "s")

    def write(self) -> None:
        """Stop the controllers, write the topics into ZooKeeper, start them again."""
        for index in self._cluster.controllers:
            self._cluster.kill_controller(index)
        began = time.monotonic()
        write_rows(
            self._cluster.zookeeper.connection_string,
            self._cluster.name,
            brokers=[broker.broker_id for broker in self.members],
            topics=self._topics,
            partitions=self._per_topic,
        )
        self.add("rows written into ZooKeeper", time.monotonic() - began, "s")
        first, second = self._cluster.controllers.values()
        began = time.monotonic()
        first.process.start()
        self.until("the first controller is active", lambda: self._is_active(first), pause=0.05)
        self.add("a controller started: active after", time.monotonic() - began, "s")
        spent = cpu_seconds([first.process.pid or 0])
        self.add("a controller started: its processor time until then", spent, "s")
        second.process.start()
        told = self.until("told to all", lambda: min(b.told for b in self.members), of=self._partitions)
        self.add("a controller started: then until all brokers have the FULL state", told, "s")

    @staticmethod
    def _is_active(controller: ControllerProcess) -> bool:
        return (controller.readiness() or {}).get("role") == "active"

    def settle(self) -> None:
        """Wait until logs are confirmed, lags reported, history written; not for ever."""
        self.until("brokers have told all", lambda: all(b.is_idle for b in self.members), pause=0.2)
        pids = [c.process.pid for c in self._cluster.controllers.values() if c.process.pid]

        def calm() -> bool:
            before = cpu_seconds(pids)
            time.sleep(1.0)
            return cpu_seconds(pids) - before < 0.25

        seconds_max = SETTLE_SECONDS_MAX + self._partitions / SETTLED_PER_SECOND
        took = self.until("controllers are calm", calm, seconds_max=seconds_max)
        self.add("until controllers are calm", took, "s")

    # -- what it costs --

    def idle(self) -> None:
        moved, began = sum(b.bytes_moved for b in self.members), time.monotonic()
        processes = [c.process for c in self._cluster.controllers.values() if c.process.pid]
        processes += [server.process for server in self._cluster.zookeeper.servers]
        before = [cpu_seconds([process.pid or 0]) for process in processes]
        time.sleep(IDLE_SECONDS)
        seconds = time.monotonic() - began
        rate = (sum(b.bytes_moved for b in self.members) - moved) / seconds / len(self.members)
        self.add("idle: bytes between a broker and the controller", rate, "B/s")
        for process, spent in zip(processes, before, strict=True):
            share = (cpu_seconds([process.pid or 0]) - spent) / seconds
            self.add(f"idle: processor share of {process.name}", 100 * share, "%")

    def pages(self) -> None:
        base = f"{self.active().url}/clusters/{self._cluster.name}"
        topic = MANY.format(self._topics // 2)
        for name, path in (
            ("topics", "topics"),
            ("topics, most partitions first", "topics?sort=-partitions"),
            ("partitions of the cluster", "partitions"),
            ("partitions of a topic", f"topics/{topic}/partitions"),
            ("cluster", "."),
            ("replication", "replication"),
            ("metrics", ""),
        ):
            took: list[float] = []
            query = path
            for _ in range(PAGES):
                began = time.monotonic()
                url = (
                    f"{self.active().url}/metrics"
                    if name == "metrics"
                    else f"{base}/{query}".removesuffix("/.")
                )
                answer = self.http.get(url)
                took.append((time.monotonic() - began) * 1_000)
                assert answer.status_code == 200, answer.text
                token = None if name == "metrics" else answer.json().get("next_page_token")
                if token is None:
                    break
                query = f"{path}{'&' if '?' in path else '?'}page_token={token}"
            self.add(f"GET {name}: first page", took[0], "ms")
            if len(took) > 1:
                self.add(f"GET {name}: later pages, median", median(took[1:]), "ms")

    def plan(self) -> None:
        joining = self.brokers[-1]
        body = {"brokers": [{"broker_id": joining.broker_id, "endpoint": f"{joining.host}:{joining.port}"}]}
        url = f"{self.active().url}/clusters/{self._cluster.name}/brokers?dry_run=true"
        pid = self.active().process.pid or 0
        began, spent = time.monotonic(), cpu_seconds([pid])
        pool = ThreadPoolExecutor(1)
        asked: Future[httpx.Response] = pool.submit(self.http.post, url, json=body, timeout=PLAN_SECONDS_MAX)
        pool.shutdown(wait=False)
        self.until("a plan", asked.done, seconds_max=PLAN_SECONDS_MAX)
        answer = asked.result()
        self.add("plan for one more broker (dry run)", time.monotonic() - began, "s")
        self.add("plan for one more broker (dry run): processor time", cpu_seconds([pid]) - spent, "s")
        assert answer.status_code == 200, answer.text
        self.add("plan for one more broker: moves", answer.json()["moves"], "moves")

    # -- deaths --

    def kill_controller(self) -> None:
        active = self.active()
        standby = next(c for c in self._cluster.controllers.values() if c is not active)
        epoch = max(b.full_epoch for b in self.members)
        pid = standby.process.pid or 0
        killed_at = time.time()
        began, spent = time.monotonic(), self._spent(pid)
        active.process.kill()
        body = {"configs": {"num.partitions": "2"}}  # a cluster may hold as many partitions as it may
        url = f"{standby.url}/clusters/{self._cluster.name}/configs:alter"

        def writes() -> bool:
            try:
                answer = self.http.post(url, json=body, follow_redirects=False)
            except httpx.TransportError:
                return False
            return answer.is_success

        self.add(FAILOVER, self.until("a write", writes), "s")
        self._add_spent("controller failover", pid, spent)
        said = standby.process.log_path.read_text("utf-8").splitlines()
        for event, what in (
            ("active_proven_dead", "the other was proven dead"),
            ("elected", "elected"),
            ("active", "active"),
        ):
            self._add_moment(f"controller failover: of it, until {what}", said, event, killed_at)
        self.until("FULL states", lambda: all(b.full_epoch > epoch for b in self.members))
        last = max(b.full_at for b in self.members) - began
        self.add(TOLD, last, "s")
        self.add("a FULL state", max(b.full_bytes for b in self.members) / 1e6, "MB")

    def kill_broker(self) -> None:
        dead, survivors = self.members[0], self.members[1:]
        for broker in survivors:
            broker.watch(dead.broker_id)
        led = survivors[0].waits_for
        pid = self.active().process.pid or 0
        killed_at = time.time()
        began, spent = time.monotonic(), self._spent(pid)
        self._loop.call_soon_threadsafe(dead.die)
        done: dict[int, float] = {}

        def applied() -> int:
            for broker in survivors:
                if broker.waits_for <= 0 and broker.broker_id not in done:
                    done[broker.broker_id] = time.monotonic() - began
            return len(done)

        self.until("survivors with new leaders", applied, of=len(survivors), pause=0.002)
        self._add_spent("a broker killed", pid, spent)
        said = self.active().process.log_path.read_text("utf-8").splitlines()
        self._add_moment(
            "a broker killed: of it, until it was proven dead", said, "broker_proven_dead", killed_at
        )
        self.add("a broker killed: partitions that it led", led, "partitions")
        self.add("a broker killed: new leaders applied, median of survivors", median(done.values()), "s")
        self.add(ELECTED, max(done.values()), "s")

    def _spent(self, pid: int) -> tuple[float, float]:
        """Return the processor time of a controller, and of ZooKeeper."""
        servers = [server.process.pid or 0 for server in self._cluster.zookeeper.servers]
        return cpu_seconds([pid]), cpu_seconds(servers)

    def _add_spent(self, name: str, pid: int, before: tuple[float, float]) -> None:
        for who, now, spent in zip(("the controller", "ZooKeeper"), self._spent(pid), before, strict=True):
            self.add(f"{name}: processor time of {who} until then", now - spent, "s")

    def _add_moment(self, name: str, said: Sequence[str], event: str, since: float) -> None:
        """Add when a controller logged the event for the first time since then."""
        for line in said:
            stamp, _, rest = line.partition(" ")
            if rest.split(" ")[2:3] == [event] and (at := datetime.fromisoformat(stamp).timestamp()) > since:
                self.add(name, at - since, "s")
                return


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * 4096 / 1e6


def measure(directory: Path, tell: Callable[[str], None], options: argparse.Namespace) -> dict[str, float]:
    cluster = LocalCluster(
        directory,
        brokers=0,
        controllers=2,
        zookeepers=options.zookeepers,
        force_sync=not options.no_sync,
        zookeeper_heap=HEAP_BYTES_LARGE if options.partitions > LARGE else HEAP_BYTES,
        on_progress=tell,
    )
    with cluster:
        scale = Scale(cluster, tell, options)
        try:
            scale.form()
            scale.memory("empty")
            steps: list[Callable[[], None]] = [scale.write if options.write_rows else scale.create]
            steps += [scale.settle, lambda: scale.memory("full"), scale.idle, scale.pages, scale.plan]
            steps += [scale.kill_controller, lambda: scale.memory("after the failover")]
            steps += [scale.settle, scale.kill_broker, lambda: scale.memory("in the end")]
            for step in steps:
                try:
                    step()
                except TooLong as too_long:
                    tell(str(too_long))
        except OutOfTime as over:
            tell(f"out of time: {over}")
        finally:
            for index in cluster.controllers:
                cluster.kill_controller(
                    index
                )  # Handing over a large cluster takes long, and no one needs it.
        scale.tell_goals()
        return scale.rows


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--partitions", type=int, default=100_000, metavar="N")
    parser.add_argument("--topics", type=int, default=10_000, metavar="N", help="a divisor of --partitions")
    parser.add_argument("--brokers", type=int, default=BROKERS, metavar="N")
    parser.add_argument("--zookeepers", type=int, default=1, metavar="N")
    parser.add_argument("--seconds", type=float, metavar="S", help="at most; default: by --partitions")
    parser.add_argument("--write-rows", action="store_true", help="do not create topics, write their rows")
    parser.add_argument("--no-sync", action="store_true", help="ZooKeeper does not wait for the disk")


def run(options: argparse.Namespace) -> int:
    if options.partitions % options.topics:
        raise WrongCommand(f"--topics {options.topics} does not divide --partitions {options.partitions}")
    if options.seconds is None:
        options.seconds = RUN_SECONDS_MAX + options.partitions / PARTITIONS_PER_SECOND
    if options.partitions > LARGE:
        needed, there = options.partitions * MEMORY_BYTES_EACH / 1e9, machine_facts()["memory_gb"]
        print(
            f"This takes about {needed:.0f} GB of memory of {there:g}, and {options.seconds:,.0f} s at most."
        )
    with tempfile.TemporaryDirectory(prefix="springtide-bench-scale-") as directory:
        rows = measure(Path(directory), Narrator(), options)
    path = Path("build") / f"scale-{options.partitions}-{options.topics}.json"
    keep(path, {"options": vars(options), "machine": machine_facts(), "rows": rows})
    print(f"\n{path}")
    return 0
