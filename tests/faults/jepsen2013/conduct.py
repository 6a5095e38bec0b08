"""Runs the schedule against a cluster of simulated hosts: watches the leaders, cuts, heals, drains.

What the controller says is asked again and again by a thread of its own, because the moment at which the cut
leader is alone, or no longer leads, is part of the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx

from localcluster.rest import parse_partition
from tests.checker.check import check
from tests.checker.from_clients import Recorder, ends_of, read_finally
from tests.checker.history import History, write_history
from tests.faults.hosts.cluster import HostCluster, broker_host, controller_host
from tests.faults.hosts.network import Cut, Direction
from tests.faults.jepsen2013.divergent_copies import dump_operations, find_in_copies, read_copies
from tests.faults.jepsen2013.report import WRITABLE_SECONDS_MAX, Result
from tests.faults.jepsen2013.schedule import (
    BROKERS,
    LED_BY_ONE,
    PARTITIONS,
    POLL_SECONDS,
    SETTLE_SECONDS,
    TOPIC,
    UNSAFE_CONFIGS,
    Plan,
    assignments,
    choose_victim,
)
from tests.faults.jepsen2013.tally import Course, Sighting, tally
from tests.faults.jepsen2013.writers import Writers, probe_until_writable

CONTROLLERS = 2
WATCH_SECONDS = 0.2
WATCH_ANSWER_SECONDS_MAX = 3.0
DATA_AGE = "Data-Age-Ms"
"""The header by which a standby says that it answers from a copy."""
REPLACED_SECONDS_MAX = 30.0
IN_SYNC_SECONDS_MAX = 60.0
DRAIN_SECONDS_MAX = 60.0
PROBE_SECONDS_MAX = 2 * WRITABLE_SECONDS_MAX

Tell = Callable[[str], None]


class NothingToCut(RuntimeError):
    """The chosen broker leads no partition: cutting it off would try nothing."""


class NoActiveController(RuntimeError):
    """No controller answered as the active one: what a standby shows may be a second old."""


class Watcher:
    """Notes what the active controller says about the topic, each time with the time of *asking*: it held at
    some moment since."""

    def __init__(self, cluster: HostCluster, recorder: Recorder) -> None:
        self.seen: list[Sighting] = []
        self._path = f"/clusters/{cluster.name}/topics/{TOPIC}/partitions"
        self._recorder = recorder
        self._controllers = [
            httpx.Client(base_url=url, timeout=WATCH_ANSWER_SECONDS_MAX) for url in cluster.controller_urls
        ]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher")

    def __enter__(self) -> Watcher:
        self.ask()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()
        for controller in self._controllers:
            controller.close()

    @property
    def latest(self) -> Sighting:
        return self.seen[-1]

    def ask(self) -> Sighting:
        """Raises NoActiveController, and TransportError when one of them does not answer at all."""
        for controller in self._controllers:
            at_ns = self._recorder.clock_ns()
            answer = controller.get(self._path)
            if answer.is_success and DATA_AGE not in answer.headers:
                views = [parse_partition(item) for item in answer.json()["items"]]
                seen = Sighting(
                    at_ns=at_ns,
                    leaders=tuple(view.leader for view in views),
                    isr=tuple(frozenset(view.isr) for view in views),
                )
                self.seen.append(seen)
                return seen
        raise NoActiveController(f"none of {len(self._controllers)} controllers is active")

    def _run(self) -> None:
        while not self._stopping.wait(WATCH_SECONDS):
            try:
                self.ask()
            except (httpx.TransportError, NoActiveController):
                continue  # What was not seen is not claimed.


class Schedule:
    """One run on a cluster that was formed and has no topic yet.

    histories: the folder for the history. victim: None for the broker that leads most.
    """

    def __init__(
        self,
        cluster: HostCluster,
        plan: Plan,
        *,
        tell: Tell,
        histories: Path,
        is_control: bool = False,
        is_idempotent: bool = False,
        led_by_one: int = LED_BY_ONE,
        victim: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._tell = tell
        self._histories = histories
        self._is_control = is_control
        self._is_idempotent = is_idempotent
        self._led_by_one = led_by_one
        self._victim = victim
        self._recorder = Recorder()
        self._started_ns = 0
        self._cuts: list[tuple[Cut, str, int]] = []

    def run(self) -> Result:
        began = time.monotonic()
        self._create_topic()
        with Watcher(self._cluster, self._recorder) as watcher:
            course = self._write_and_cut(watcher)
            self._wait_in_sync()
            self._tell(f"settling for {SETTLE_SECONDS:g} s")
            time.sleep(SETTLE_SECONDS)
        return self._judge(course, began)

    def _create_topic(self) -> None:
        placed = assignments(sorted(self._cluster.brokers), led_by_one=self._led_by_one)
        configs = dict(UNSAFE_CONFIGS) if self._is_control else {}
        self._tell(f"topic {TOPIC}: {PARTITIONS} partitions, {BROKERS} replicas, {configs or 'our defaults'}")
        self._cluster.api.post(
            "/topics",
            {"name": TOPIC, "cluster": self._cluster.name, "assignments": placed, "configs": configs},
        )
        self._cluster.wait_until_in_sync(TOPIC)

    def _write_and_cut(self, watcher: Watcher) -> Course:
        plan = self._plan
        bootstrap = {broker: process.endpoint for broker, process in self._cluster.brokers.items()}
        writers = Writers(self._recorder, plan, bootstrap, idempotent=self._is_idempotent)
        self._tell(f"{len(bootstrap)} writers send {plan.total} integers in {plan.seconds:g} s")
        writers.start()
        self._started_ns = writers.started_ns
        try:
            self._sleep_until(plan.first_cut_seconds)
            before = watcher.ask()
            victim = self._victim or choose_victim(dict(enumerate(before.leaders)))
            led = before.led_by(victim)
            if not led:
                raise NothingToCut(f"broker {victim} leads no partition; leaders: {list(before.leaders)}")
            others = [broker_host(broker) for broker in self._cluster.brokers if broker != victim]
            port = self._cluster.brokers[victim].port
            self._tell(
                f"broker {victim} leads partitions {sorted(led)}: the other brokers' packets to it drop"
            )
            first_cut_ns = self._cut(victim, others, port=port, note="leader cut off from brokers")
            self._sleep_until(plan.second_cut_seconds)
            latest = watcher.latest
            everybody = [*others, *map(controller_host, self._cluster.controllers)]
            self._tell(
                f"ISR of its partitions: {[sorted(latest.isr[number]) for number in sorted(led)]}; "
                "now the controllers' packets drop too"
            )
            second_cut_ns = self._cut(victim, everybody, port=None, note="leader cut off from everybody")
            self._wait_until_replaced(watcher, victim)
            self._heal()
            healed_ns = self._recorder.clock_ns()
            probe_until_writable(
                self._recorder,
                bootstrap=self._cluster.bootstrap_servers,
                timeout_seconds=PROBE_SECONDS_MAX,
            )
        except BaseException:
            writers.stop()
            raise
        finally:
            self._heal()
            writers.join()
        self._tell("every integer was sent and answered or given up")
        return Course(
            victim=victim,
            victim_led=led,
            started_ns=writers.started_ns,
            first_cut_ns=first_cut_ns,
            second_cut_ns=second_cut_ns,
            healed_ns=healed_ns,
            seen=watcher.seen,
        )

    def _sleep_until(self, seconds: float) -> None:
        """Since the beginning of the writes."""
        left_ns = self._started_ns + round(seconds * 1e9) - self._recorder.clock_ns()
        time.sleep(max(0.0, left_ns / 1e9))

    def _cut(self, victim: int, peers: list[str], *, port: int | None, note: str) -> int:
        """Drops what peers send to the victim; the time from which on it holds."""
        since_ns = self._recorder.clock_ns()
        cut = self._cluster.network.cut(broker_host(victim), peers, direction=Direction.IN, port=port)
        self._cuts.append((cut, f"{note}: broker {victim}", since_ns))
        return self._recorder.clock_ns()

    def _heal(self) -> None:
        for cut, note, since_ns in self._cuts:
            cut.heal()
            self._recorder.fault(note, since_ns=since_ns)
        if self._cuts:
            self._tell("the network is whole again")
        self._cuts.clear()

    def _wait_until_replaced(self, watcher: Watcher, victim: int) -> None:
        deadline = time.monotonic() + REPLACED_SECONDS_MAX
        while led := watcher.latest.led_by(victim):
            self._tell(f"broker {victim} still leads {sorted(led)}")
            if time.monotonic() > deadline:
                break  # Unwritable partitions are for the report to say.
            time.sleep(POLL_SECONDS)
        self._tell(f"leaders: {list(watcher.latest.leaders)}")

    def _wait_in_sync(self) -> None:
        """What a returning replica must drop, it has dropped and set aside by then."""
        self._cluster.wait_until_in_sync(TOPIC, timeout_seconds=IN_SYNC_SECONDS_MAX)

    def _judge(self, course: Course, began: float) -> Result:
        history = self._recorder.history()
        self._tell("draining with one consumer from the smallest offset")
        unread = read_finally(
            self._recorder,
            config={"bootstrap.servers": self._cluster.bootstrap_servers},
            keys=[(TOPIC, partition) for partition in range(PARTITIONS)],
            timeout_seconds=DRAIN_SECONDS_MAX,
            at_least={} if self._is_control else ends_of(history),
        )
        directories = {broker: process.data_directory for broker, process in self._cluster.brokers.items()}
        copies = read_copies(directories, TOPIC)
        for operation in dump_operations(copies, TOPIC, now_ns=self._recorder.clock_ns()):
            self._recorder.add(operation)
        history = self._recorder.history()
        counted = tally(history.operations, course)
        result = Result(
            plan=self._plan,
            is_control=self._is_control,
            is_idempotent=self._is_idempotent,
            tally=counted,
            course=course,
            verdict=check(history),
            seconds=time.monotonic() - began,
            unread=frozenset(partition for _, partition in unread),
            found=find_in_copies(counted.lost, copies),
        )
        self._save(history)
        return replace(result, seconds=time.monotonic() - began)

    def _save(self, history: History) -> None:
        self._histories.mkdir(parents=True, exist_ok=True)
        path = self._histories / f"{'control' if self._is_control else 'defaults'}.jsonl"
        with path.open("wb") as stream:
            write_history(stream, history.operations)
        self._tell(f"history: {path}")
