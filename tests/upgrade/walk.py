"""One walk on real processes under load of stock clients, and what came of it."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.processes import ProcessFailed
from localcluster.rest import Json, RestFailed
from tests.checker.check import check
from tests.checker.from_clients import Recorder, ends_of, read_finally
from tests.checker.group_judge import judge as judge_group
from tests.checker.history import Function, History, Key, Operation, Outcome, write_history
from tests.faults.groups.asked import committed_offsets, coordinator_of
from tests.faults.groups.lives import ALL_CLASSIC, Kind, Member
from tests.faults.groups.member import CONSUMER as CONSUMER_PROTOCOL
from tests.faults.groups.member import LIBRDKAFKA, SESSION_MS
from tests.faults.nemesis.disks import dump_replicas
from tests.faults.nemesis.load import Client, Load
from tests.faults.nemesis.placement import NotTold, compare_views
from tests.faults.nemesis.worker import CONSUMER, KAFKA_PYTHON, PRODUCER
from tests.upgrade import consumer_protocol
from tests.upgrade.beside import Beside
from tests.upgrade.history_kept import KeptHistory
from tests.upgrade.mixed_cluster import MixedCluster
from tests.upgrade.paths import PROCESSES, Phase, Release, Step, Walk

TOPIC, PARTITIONS, GROUP = "orders", 6, "billing"
TOPIC_CONFIG = {"min.insync.replicas": "2"}
CLIENTS = (
    Client("librdkafka-1", PRODUCER, 100),
    Client("kafka-python-1", KAFKA_PYTHON, 30),
    Client("reader-1", CONSUMER),
)
MEMBERS, JOINING = 3, 2
"""Of the group: of the classic protocol from the beginning, of the other one once the level is raised."""
USED_AFTER = ("there", "back")
"""Phases after which programs of both releases are used; and once more in the end."""
CALM_SECONDS = 1.0
"""Under load, after each phase."""
REFUSED_SECONDS = 4.0
"""In which a process would have registered that is not refused."""
CATCH_UP_SECONDS = 2.0
CAUGHT_UP_SECONDS_MAX = 60.0
FINAL_READ_SECONDS_MAX = 60.0
VIEWS_AGREE_SECONDS_MAX = 20.0
FINALIZED_SECONDS_MAX = 60.0

Tell = Callable[[str], None]


@dataclass
class Course:
    """What came of a walk. unreadable: places, one line each. failures: everything else that must not be."""

    walk: Walk
    records: int = 0
    lost: int = 0
    doubled: int = 0
    unreadable: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    rolled: int = 0
    level: int | None = None
    longest_stall_ms: int = 0
    seconds: float = 0.0

    @property
    def is_ok(self) -> bool:
        return not (self.lost or self.doubled or self.unreadable or self.failures)


def run_walk(walk: Walk, last: Path, directory: Path, tell: Tell) -> Course:
    """Build a cluster of the last release, load it, walk, and judge. last: that release's interpreter."""
    began_at = time.monotonic()
    course = Course(walk, faults=walk.faults())
    cluster = MixedCluster(directory, last, tell=tell)
    with cluster:
        cluster.form()
        cluster.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=TOPIC_CONFIG)
        party = _Party(cluster, course, tell)
        try:
            party.start()
            try:
                party.walk()
            except (ProcessFailed, TimeoutError, RestFailed) as failure:
                course.failures.append(f"on the way: {failure}")
            party.finish()
        finally:
            party.kill()
    course.seconds = time.monotonic() - began_at
    return course


class _Party:
    """The cluster with its clients, while the walk goes on."""

    def __init__(self, cluster: MixedCluster, course: Course, tell: Tell) -> None:
        self._cluster, self._course, self._tell = cluster, course, tell
        self._rng = random.Random(course.walk.seed)
        self._recorder = Recorder()
        self._load = Load(
            directory=cluster.directory,
            bootstrap_servers=cluster.bootstrap_servers,
            topic=TOPIC,
            partitions=PARTITIONS,
            clients=CLIENTS,
        )
        self._members = [self._member(number, ALL_CLASSIC) for number in range(MEMBERS)]
        self._history = KeptHistory(cluster)
        self._beside = Beside(cluster, TOPIC, cluster.directory / "table")
        self._made: list[str] = []

    def _member(self, number: int, kinds: Sequence[Kind]) -> Member:
        return Member(
            number,
            directory=self._cluster.directory,
            bootstrap=self._cluster.bootstrap_servers,
            topic=TOPIC,
            group=GROUP,
            kinds=kinds,
        )

    # --- the way ------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._load.start()
        for member in self._members:
            member.start()
        self._cluster.wait_until(
            "each member commits", lambda: all(member.committed_ns() for member in self._members)
        )

    def walk(self) -> None:
        self._look("before")
        for phase in self._course.walk.phases:
            self._go(phase)
            self._look(phase.name)
            if phase.name in USED_AFTER:
                self._beside.use(phase.name)
        self._course.failures += consumer_protocol.not_refused(self._cluster, GROUP, TOPIC)
        self._finalize()
        self._join()
        self._come_back_too_late(self._rng.choice([name for name in PROCESSES if "controller" not in name]))
        self._look("finalized")

    def _join(self) -> None:
        """Let members of the consumer protocol come to those of the classic one."""
        numbers = range(MEMBERS, MEMBERS + JOINING)
        joining = [self._member(number, [(LIBRDKAFKA, CONSUMER_PROTOCOL)]) for number in numbers]
        self._members += joining
        consumer_protocol.join(self._cluster, joining, self._tell)

    def _go(self, phase: Phase) -> None:
        for step in phase.steps:
            before = self._cluster.runs[step.process]
            how = "killed" if step.is_kill else "stopped"
            what = f"now {step.release} release" if step.release is not before else "started again"
            self._tell(f"{phase.name}: {step.process} {how}, {what}")
            since_ns = self._recorder.clock_ns()
            if not self._cluster.take(step):
                self._course.failures.append(f"{step.process} did not end when it was asked to")
            self._recorder.fault(f"{step.process} {how}, {what}", since_ns=since_ns)
            self._course.rolled += step.release is not before
            if step.waits:
                self._cluster.wait_until_whole(TOPIC)
            self._watch()

    def _watch(self) -> None:
        """Raise ProcessFailed if a client gave up that should not; start again a member by its own fault."""
        if ended := self._load.ended():
            raise ProcessFailed("; ".join(ended))
        for member in self._members:
            member.start_again()

    def _look(self, when: str) -> None:
        """Change a few things as an operator does, and compare the history with what it was."""
        self._cluster.wait_until_whole(TOPIC)
        name = f"made-{when}"
        # One that was killed a moment ago may have counted as active until it came back.
        self._cluster.wait_until(
            f"topic {name} is made",
            lambda: self._cluster.create_topic(name, partitions=2, replication_factor=3, wait=False),
        )
        self._cluster.wait_until_in_sync(name)
        self._made.append(name)
        self._cluster.api.post(
            f"/clusters/{self._cluster.name}/configs:alter",
            {"configs": {"log.retention.ms": str(86_400_000 + len(self._made))}},
        )
        time.sleep(CALM_SECONDS)
        self._history.compare(when)
        self._tell(f"{when}: {len(self._history.rows)} rows of history")

    def _finalize(self) -> None:
        """Finalize the level, which nothing hinders when all run this release."""
        cluster, path = self._cluster, f"/clusters/{self._cluster.name}"

        def upgrade() -> Json:
            told: Json = cluster.api.get(f"{path}/upgrade")
            return told

        cluster.wait_until(
            "the upgrade can be finalized",
            lambda: upgrade()["can_finalize"],
            timeout_seconds=FINALIZED_SECONDS_MAX,
        )
        cluster.api.post(f"{path}:finalize-upgrade", {"reason": "all run it"})
        told = upgrade()
        self._course.level = int(told["level"])
        if told["level"] != told["target_level"]:
            self._course.failures.append(f"finalized, and the level is {told['level']}")
        self._tell(f"finalized: level {self._course.level}")

    def _come_back_too_late(self, process: str) -> None:
        """Start a process as the last release once more: it must be refused, and its data stay as it is."""
        cluster = self._cluster
        kind, _, number = process.partition("-")
        path = f"/clusters/{cluster.name}/{kind}s/{number}"
        self._tell(f"finalized: {process} comes back as the last release")
        cluster.roll(process, Release.LAST)
        time.sleep(REFUSED_SECONDS)
        if (state := cluster.api.get(path)["state"]) == "active":
            self._course.failures.append(f"{process} of the last release is {state} above its level")
        # Killed, for 0.1 may end with a traceback when a process that never registered is told to stop.
        cluster.take(Step(process, Release.THIS, is_kill=True))
        cluster.wait_until_whole(TOPIC)

    # --- the end ------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """End the clients, read everything back, stop the brokers, read their disks, and judge."""
        course, cluster = self._course, self._cluster
        course.failures += self._load.stop(producers=True)
        done = self._load.operations()
        acknowledged = _acknowledged(done)
        self._let_group_catch_up(acknowledged)
        time.sleep(CATCH_UP_SECONDS)
        course.failures += self._load.stop(producers=False)
        done = self._load.operations()
        for member in self._members:
            member.process.begin_stop()
        course.failures += [f"{member.name} did not end" for member in self._members if not member.stop()]
        self._tell("reading everything back")
        self._beside.check_table({number: len(offsets) for number, offsets in acknowledged.items()})
        keys: list[Key] = [(TOPIC, number) for number in range(PARTITIONS)]
        unfinished = read_finally(
            self._recorder,
            config={"bootstrap.servers": cluster.bootstrap_servers},
            keys=keys,
            timeout_seconds=FINAL_READ_SECONDS_MAX,
            at_least=ends_of(History.of(done)),
        )
        course.unreadable += [
            f"the final read did not reach the end of partition {key[1]}" for key in sorted(unfinished)
        ]
        course.unreadable += self._unreadable_topics()
        course.failures += self._differences()
        for broker in cluster.brokers.values():
            broker.process.begin_stop()
        for broker in cluster.brokers.values():
            broker.process.stop()
        directories = {number: broker.data_directory for number, broker in cluster.brokers.items()}
        try:
            for dump in dump_replicas(directories, TOPIC, now_ns=self._recorder.clock_ns()):
                self._recorder.add(dump)
        except (OSError, ValueError) as error:
            course.unreadable.append(f"a replica's disk: {error}")
        course.unreadable += [*self._history.troubles, *self._beside.troubles, *cluster.unreadable()]
        self._judge(done, acknowledged)

    def kill(self) -> None:
        self._load.kill()
        for member in self._members:
            member.process.kill()

    def _let_group_catch_up(self, acknowledged: Mapping[int, set[int]]) -> None:
        (port, *_) = (broker.port for broker in self._cluster.brokers.values())

        def is_done() -> bool:
            for member in self._members:
                member.start_again()
            coordinator = coordinator_of(GROUP, port)
            if coordinator is None:
                return False
            committed = committed_offsets(GROUP, TOPIC, self._cluster.coordinators[coordinator].port)
            return all(committed.get(number, -1) > max(offsets) for number, offsets in acknowledged.items())

        try:
            self._cluster.wait_until(
                "the group has committed all", is_done, timeout_seconds=CAUGHT_UP_SECONDS_MAX
            )
        except (TimeoutError, ProcessFailed) as failure:
            self._course.failures.append(str(failure))

    def _unreadable_topics(self) -> list[str]:
        """Return which of the topics made on the way are not as they were made."""
        wrong: list[str] = []
        for name in self._made:
            try:
                if len(self._cluster.partitions(name)) != 2:
                    wrong.append(f"topic {name} has lost partitions")
            except RestFailed as error:
                wrong.append(f"topic {name}: {error}")
        return wrong

    def _differences(self) -> list[str]:
        """Return what REST and the brokers say otherwise than ZooKeeper after they had time to hear of it."""
        deadline = time.monotonic() + VIEWS_AGREE_SECONDS_MAX
        while True:
            try:
                found = [each.explanation for each in compare_views(self._cluster, TOPIC)]
            except (RestFailed, NotTold) as error:
                found = [f"the views could not be compared: {error}"]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.5)

    def _judge(self, done: Sequence[Operation], acknowledged: Mapping[int, set[int]]) -> None:
        course = self._course
        merged = sorted([*done, *self._recorder.history().operations], key=lambda each: each.t_return_ns)
        with (self._cluster.directory / "history.jsonl").open("wb") as stream:
            write_history(stream, merged)
        verdict = check(History.of(merged))
        course.records = verdict.figures.acked
        course.lost = verdict.figures.lost
        course.doubled = verdict.figures.duplicated
        course.longest_stall_ms = verdict.figures.longest_stall_ms
        if verdict.is_bad:
            course.failures += [f"{kind}: {count}" for kind, count in verdict.bad.items()]
        lives = [life for member in self._members for life in member.lives(())]
        found = judge_group(lives, acknowledged, session_ms=SESSION_MS)
        course.failures += found.failures


def _acknowledged(done: Sequence[Operation]) -> dict[int, set[int]]:
    """Return the offsets of the acknowledged records, by partition."""
    offsets: dict[int, set[int]] = defaultdict(set)
    for each in done:
        if each.f is Function.SEND and each.type is Outcome.OK and each.key is not None:
            offsets[each.key[1]] |= {offset for offset, _ in each.items if offset >= 0}
    return offsets
