"""A run from one seed: micro-batches of tasks, attempts that die, double or linger, partitions that fail.

Every step chooses one thing that could happen next. Faults stop after a while; then everything has to come
to an end, zombies included, and the logs are judged: each record once, in the order of its task's stream.
Records of a committed micro-batch that an unclean election takes are excused: they are salvage's, not the
sink's. So are those that went with a topic that was deleted and created again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import pairwise

from pipeline.errors import DeliveryFailed
from pipeline.sink.commit import SeenWhole, check_topics, lost, questions
from pipeline.sink.identity import derive_identity
from pipeline.sink.steps import Failure
from tests.pipeline_sim.attempt import MADE_AGAIN, Attempt, Exchange, Opening, Plant
from tests.pipeline_sim.exchanges import Clock
from tests.pipeline_sim.partition import REPLICAS, SimulatedPartition, StoredBatch

STEPS_MAX = 20_000
TOPIC = "t"
ZOMBIES_MAX = 4
ATTEMPTS_MAX = 3
"""Of one task at a time."""
DAY_MS = 25 * 60 * 60 * 1000
HOURS_MS = 7 * 60 * 60 * 1000
FAULTS = (
    "give up",
    "lose",
    "kill",
    "speculate",
    "linger",
    "driver",
    "elect",
    "elect same",
    "unclean",
    "shrink",
    "day",
    "hours",
    "foreign",
    "learn",
    "forget commit",
    "reorder",
    "make again",
)
"""`reorder`: attempts have their rows in orders of their own. `make again`: the topic with all partitions."""
CAN_LEAVE_GAPS = frozenset({"elect", "elect same", "unclean"})


@dataclass(slots=True)
class Verdict:
    """`missing`, `duplicates`, `inversions`: names of records. `failure`: why the run itself is wrong.
    `is_by_id`: brokers could be asked by topics' ids."""

    records: int = 0
    missing: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    inversions: list[str] = field(default_factory=list)
    gaps: int = 0
    failure: str = ""
    is_by_id: bool = True
    marks: Counter[str] = field(default_factory=Counter)

    @property
    def is_wrong(self) -> bool:
        return bool(self.missing or self.duplicates or self.inversions or self.failure)


class Simulation:
    def __init__(self, seed: int, *, plant: Plant, kinds: frozenset[str] | None = None) -> None:
        self.rng = random.Random(seed)
        self.plant = plant
        self.clock = Clock(1_000_000)
        self.is_wide = self.rng.random() < 0.5
        self.tasks = self.rng.randint(1, 3)
        partitions = self.rng.randint(1, 3) if kinds is None else 1
        self.partitions = [SimulatedPartition(is_wide=self.is_wide) for _ in range(partitions)]
        self.micro_batches = self.rng.randint(2, 3)
        drawn = [kind for kind in FAULTS if self.rng.random() < 0.55]
        self.kinds = drawn if kinds is None else sorted(kinds)
        self.is_reordered = "reorder" in self.kinds
        self.fault_rate = self.rng.choice((0.02, 0.06, 0.15))
        self.replication_rate = self.rng.choice((0.03, 0.1, 0.3))
        self.faulty_steps = self.rng.randint(200, 900)
        self.orphans: list[Exchange] = []
        self.openings: dict[tuple[int, int | None], Opening] = {}
        """By micro-batch; and those of topics that were made again, by their ids, too."""
        self.is_by_id = self.rng.random() < 0.7
        self.is_calm = False
        self.zombies: list[Attempt] = []
        self.streams: dict[tuple[int, int], list[tuple[int, tuple[str, ...]]]] = {}
        self.batch_id = 0
        self.running: dict[int, list[Attempt]] = {}
        self.finished: dict[int, Attempt] = {}
        self.commit: Generator[None, None, bool | None] | None = None
        self.excused: set[str] = set()
        self.foreign = 0
        self.verdict = Verdict(is_by_id=self.is_by_id)

    def run(self) -> Verdict:
        steps = 0
        self.start_batch()
        while self.batch_id < self.micro_batches or self.zombies:
            steps += 1
            if steps > STEPS_MAX:
                self.verdict.failure = f"micro-batch {self.batch_id} does not come to an end"
                break
            self.clock.now_ms += self.rng.randint(0, 20)
            is_calm = self.is_calm = steps > self.faulty_steps
            if is_calm or self.rng.random() < self.replication_rate:
                self.replicate(wholly=is_calm)
            if not is_calm and self.kinds and self.rng.random() < self.fault_rate:
                self.strike(self.rng.choice(self.kinds))
            self.go_on()
            if self.verdict.failure or self.verdict.gaps:
                break
        while self.orphans:
            self.fly_orphan()
        for partition in self.partitions:
            partition.replicate_all()
        self.judge()
        return self.verdict

    # What happens of itself.

    def go_on(self) -> None:
        choices: list[tuple[Attempt, str, int]] = []
        for attempts in (*self.running.values(), self.zombies):
            for attempt in attempts:
                choices += [(attempt, *choice) for choice in attempt.choices()]
        extra = (1 if self.orphans else 0) + (1 if self.commit is not None else 0)
        index = self.rng.randrange(len(choices) + extra) if choices or extra else -1
        if 0 <= index < len(choices):
            attempt, what, p = choices[index]
            attempt.act(what, p)
            self.settle_opening(attempt)
        elif self.orphans and (self.commit is None or self.rng.random() < 0.5):
            self.fly_orphan()
        elif self.commit is not None:
            self.advance_commit()
        self.tidy()

    def fly_orphan(self) -> None:
        index = self.rng.randrange(len(self.orphans))
        try:
            next(self.orphans[index])
        except StopIteration:
            del self.orphans[index]
            return
        if self.rng.random() < 0.05:  # an acks=all that nobody waits for
            del self.orphans[index]

    def settle_opening(self, attempt: Attempt) -> None:
        """Put if absent: the first to have asked all partitions opens the micro-batch for everybody."""
        key = attempt.batch_id, attempt.again_of
        if attempt.openings is not None or attempt.is_over:
            return
        if key in self.openings:
            attempt.openings = self.openings[key]
        elif len(attempt.found_openings) == len(self.partitions):
            assert attempt.found_id is not None
            if self.plant.opens_again_by_id and attempt.again_of not in (None, attempt.found_id):
                attempt.fail(MADE_AGAIN)
                return
            self.openings[key] = attempt.openings = Opening(attempt.found_id, attempt.found_openings)
        if attempt.openings is not None:
            attempt.orphans_of_all()

    def tidy(self) -> None:
        self.zombies = [zombie for zombie in self.zombies if not zombie.is_over]
        for task, attempts in self.running.items():
            for attempt in list(attempts):
                if attempt.is_done and task not in self.finished:
                    self.finished[task] = attempt
                    self.verdict.marks["scans"] += attempt.scans
                if attempt.failed is not None:
                    self.on_failed(attempt)
                if attempt.is_over:
                    attempts.remove(attempt)
            if not attempts and task not in self.finished:
                attempts.append(self.new_attempt(task))
        if self.commit is None and len(self.finished) == self.tasks and self.batch_id < self.micro_batches:
            self.commit = self.check_commit()

    def on_failed(self, attempt: Attempt) -> None:
        assert attempt.failed is not None
        failure = attempt.failed.failure
        self.verdict.marks[failure.name] += 1
        if failure is Failure.GAP:
            self.verdict.gaps += 1
            if self.is_by_id and CAN_LEAVE_GAPS.isdisjoint(self.kinds):
                self.verdict.failure = f"the sink can't go on: {attempt.failed}"
        elif failure is Failure.OVERTAKEN and self.is_reordered:
            pass
        elif failure is Failure.FORGOTTEN and self.is_of_an_old_topic(attempt):
            pass  # a broker that is behind hid the true reason
        elif failure not in (Failure.RECORDS_LOST, Failure.STALLED):
            self.verdict.failure = f"an attempt of the running micro-batch failed: {attempt.failed}"

    def is_of_an_old_topic(self, attempt: Attempt) -> bool:
        return attempt.openings is None or attempt.openings.topic_id != self.partitions[0].topic_id

    # Spark.

    def start_batch(self) -> None:
        self.commit = None
        self.finished = {}
        self.running = {task: [self.new_attempt(task)] for task in range(self.tasks)}

    def abandon(self) -> None:
        """The attempts of the running micro-batch go on as zombies, or die."""
        for attempts in self.running.values():
            for attempt in attempts:
                if self.rng.random() < 0.5 or len(self.zombies) >= ZOMBIES_MAX:
                    attempt.kill()
                elif not attempt.is_over:
                    self.zombies.append(attempt)
        self.running = {}

    def new_attempt(self, task: int) -> Attempt:
        identity = derive_identity(
            "sink",
            batch_id=self.batch_id if self.plant.epochs_rise else 0,
            task_index=task if self.plant.tasks_differ else 0,
        )
        attempt = Attempt(
            self.batch_id,
            task,
            identity,
            self.attempted(self.stream(self.batch_id, task)),
            self.partitions,
            self.clock,
            self.plant,
            self.orphans,
            self.told_id,
            self.is_by_id,
            openings=self.openings.get((self.batch_id, None)),
        )
        self.verdict.marks["attempts"] += 1
        return attempt

    def attempted(self, stream: list[tuple[int, tuple[str, ...]]]) -> list[tuple[int, tuple[str, ...]]]:
        """The task's rows as one attempt gets them."""
        if not self.is_reordered or self.rng.random() < 0.3:
            return stream
        rows = [(p, row) for p, few in stream for row in few]
        self.rng.shuffle(rows)
        found: list[tuple[int, tuple[str, ...]]] = []
        for p in range(len(self.partitions)):
            own = [row for q, row in rows if q == p]
            while own:
                count = self.rng.randint(1, 3)
                found.append((p, tuple(own[:count])))
                own = own[count:]
        self.rng.shuffle(found)
        return found

    def stream(self, batch_id: int, task: int) -> list[tuple[int, tuple[str, ...]]]:
        """The rows of a task, the same for every attempt, in the first one's order."""
        key = batch_id, task
        if key not in self.streams:
            positions = [0] * len(self.partitions)
            stream = []
            for _ in range(self.rng.randint(0, 10)):
                p = self.rng.randrange(len(self.partitions))
                first, count = positions[p], self.rng.randint(1, 3)
                positions[p] += count
                names = tuple(f"{batch_id}/{task}/{p}/{index}" for index in range(first, first + count))
                stream.append((p, names))
            self.streams[key] = stream
        return self.streams[key]

    def told_id(self) -> int:
        """The topic's id, as one broker has it."""
        is_behind = not self.is_calm and self.rng.random() < 0.2
        return max(self.partitions[0].topic_id - is_behind, 0)

    def check_commit(self) -> Generator[None, None, bool | None]:
        """None: something could not be asked; False: records are gone."""
        seen: list[tuple[int, SeenWhole]] = []
        for attempt in self.finished.values():
            seen += attempt.seen()
        asked = questions(seen)
        answers = {}
        for question in asked:
            partition = self.partitions[question.partition]
            leader = partition.leader
            yield
            if partition.leader != leader:
                return None
            answers[question] = partition.epoch_end(question.leader_epoch)
            yield
        is_whole = not lost(asked, answers) or not self.plant.commit_is_checked
        if not self.plant.commit_knows_topics:
            return is_whole
        opened = [(TOPIC, str(one.openings.topic_id)) for one in self.finished.values() if one.openings]
        is_told = self.is_calm or self.rng.random() < 0.8  # else by one that heard of the deletion only
        try:
            check_topics(opened, {TOPIC: str(self.partitions[0].topic_id)} if is_told else {})
        except DeliveryFailed:
            return False
        return is_whole if is_told else None

    def advance_commit(self) -> None:
        assert self.commit is not None
        try:
            next(self.commit)
            return
        except StopIteration as end:
            is_whole = end.value
        self.commit = None
        if is_whole is None:
            return
        if not is_whole:
            self.verdict.marks["commit refused"] += 1
            self.abandon()
            self.start_batch()
            return
        if "forget commit" in self.kinds and self.rng.random() < 0.2:
            self.verdict.marks["commit forgotten"] += 1
            self.abandon()
            self.start_batch()
            return
        self.abandon()
        self.batch_id += 1
        if self.batch_id < self.micro_batches:
            self.start_batch()

    # Faults.

    def replicate(self, *, wholly: bool) -> None:
        for partition in self.partitions:
            if wholly:
                partition.replicate_all()
            else:
                replica = self.rng.randrange(REPLICAS)
                if replica in partition.in_sync or self.rng.random() < 0.05:
                    partition.replicate(replica, self.rng.randint(0, partition.log_end))
                    partition.expand(replica)

    def strike(self, kind: str) -> None:
        self.verdict.marks[kind] += 1
        partition = self.rng.choice(self.partitions)
        attempts = [attempt for each in self.running.values() for attempt in each if not attempt.is_over]
        flying = [(a, p) for a in (*attempts, *self.zombies) for p in a.flights]
        match kind:
            case "give up" if flying:
                attempt, p = self.rng.choice(flying)
                attempt.give_up(p)
            case "lose" if flying:
                attempt, p = self.rng.choice(flying)
                attempt.give_up(p)
                self.orphans.pop()
            case "kill" if attempts:
                self.rng.choice(attempts).kill()
            case "speculate" if attempts:
                task = self.rng.choice(attempts).task
                if len(self.running[task]) < ATTEMPTS_MAX:
                    self.running[task].append(self.new_attempt(task))
            case "linger" if attempts and len(self.zombies) < ZOMBIES_MAX:
                attempt = self.rng.choice(attempts)
                self.running[attempt.task].remove(attempt)
                self.zombies.append(attempt)
            case "driver":
                self.abandon()
                self.start_batch() if self.batch_id < self.micro_batches else None
            case "elect":
                self.elect(partition, self.rng.choice(sorted(partition.in_sync)))
            case "elect same":
                self.elect(partition, partition.leader)
            case "unclean":
                self.elect(partition, self.rng.randrange(REPLICAS))
            case "shrink":
                for replica in range(REPLICAS):
                    if self.rng.random() < 0.6:
                        partition.shrink(replica)
            case "day" if self.rng.random() < 0.2:
                self.pass_time(DAY_MS, flying)
            case "hours" if self.rng.random() < 0.2:
                self.pass_time(HOURS_MS, flying)
            case "foreign":
                self.foreign += 1
                name = f"foreign/{self.foreign}"
                partition.produce(
                    producer_id=self.rng.randint(1, 2),
                    producer_epoch=0,
                    base_sequence=self.foreign,
                    records=(name,),
                    batch_id=-1,
                    now_ms=self.clock.now_ms,
                )
            case "make again" if self.rng.random() < 0.3:
                self.make_again()
            case "learn" if flying:
                attempt, p = self.rng.choice(flying)
                attempt.learn_leader(p)
            case _:
                pass

    def pass_time(self, ms: int, flying: list[tuple[Attempt, int]]) -> None:
        """No request is under way for so long: its connection ends. No record waits for so long to be
        replicated either. Processes may well stand still."""
        self.clock.now_ms += ms
        self.replicate(wholly=True)
        for attempt, p in flying:
            if p in attempt.flights:  # not lost already with another one of the same attempt
                attempt.give_up(p)
        self.orphans.clear()

    def elect(self, partition: SimulatedPartition, replica: int) -> None:
        if partition.elect(replica):
            self.verdict.marks["records cut"] += 1
            self.excuse(partition.cut)
            partition.cut = []

    def make_again(self) -> None:
        for partition in self.partitions:
            self.excuse(partition.log)
            partition.make_again()

    def excuse(self, taken: list[StoredBatch]) -> None:
        """What is gone of micro-batches that are committed, or were when the commit asked, is no fault."""
        committed_below = self.batch_id + (1 if self.commit is not None else 0)
        for batch in taken:
            if batch.batch_id < committed_below:
                self.excused.update(batch.records)

    # What is judged.

    def judge(self) -> None:
        verdict = self.verdict
        for p, partition in enumerate(self.partitions):
            found: dict[str, list[int]] = {}
            for batch in partition.log:
                for name in batch.records:
                    stream, _, index = name.rpartition("/")
                    if batch.batch_id >= 0:
                        found.setdefault(stream, []).append(int(index))
            for (batch_id, task), stream_rows in self.streams.items():
                stream = f"{batch_id}/{task}/{p}"
                stored = found.pop(stream, [])
                counted = Counter(stored)
                verdict.duplicates += [f"{stream}/{i}" for i, times in counted.items() if times > 1]
                verdict.inversions += [
                    f"{stream}/{later}"
                    for earlier, later in pairwise(stored)
                    if later < earlier and not self.is_reordered
                ]
                last = sum(len(rows) for q, rows in stream_rows if q == p) - 1
                verdict.records += last + 1
                if batch_id < self.batch_id:
                    wanted = {f"{stream}/{i}" for i in range(last + 1)}
                    verdict.missing += sorted(wanted - {f"{stream}/{i}" for i in counted} - self.excused)
            assert not found, "records that nobody wrote"


def run_seed(seed: int, *, plant: Plant | None = None, kinds: frozenset[str] | None = None) -> Verdict:
    """One run. With `kinds` all of these faults happen, no others, and to one partition."""
    return Simulation(seed, plant=plant or Plant(), kinds=kinds).run()
