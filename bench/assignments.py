"""What assignments of `consumer` groups cost: `python -m bench assignments [--kafka-home DIR] [--quick]`.

One group of 1,000 members and 50,000 partitions, 100 topics of 500: assigned from nothing, and again with one
member more. Times are medians of rounds in milliseconds of one processor: of the assignor alone, beside
Kafka's own classes where they are given (run in Java, warm; its first round is compiled meanwhile). Memory is
what the assignment holds once it is made.

Then a shard's loop, without sockets: the members of such groups join one after the other, and each is told
what it has. The longest step is how long all other groups of the process wait. It is made of the machine's
step, of its records as they are applied and encoded, and of the question to the other process. At last each
member sends a heartbeat that changes nothing, of which the machine's part is told.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from bench.command import Narrator, add_kafka_home, add_output, add_quick
from bench.machine import keep, machine_facts
from bench.processor_time import peak_rss_mb
from bench.report import side_by_side
from coordinator.core.groups.consumer.assigning import Answer, KnownTopic, Parts, Subscriber, TargetQuestion
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatReply, TopicsKnown
from coordinator.core.groups.consumer.targets import ASSIGNORS, answer_to
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.machine import AnswerCame, StepOutcome, TimerDue
from coordinator.core.topic_partitions import PartitionsByTopic, count
from springtide.interpreter import spare_the_loop
from springtide.wire.records import NewRecord, encode_batch

T = TypeVar("T")

MEMBERS: Final = 1_000
OF_100: Final = 30
"""Topics of a member where subscriptions differ."""
JAVA: Final = Path(__file__).with_name("Assignors.java")
WALL_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    assignor: str
    topics: int
    partitions: int
    topics_each: int
    members: int = MEMBERS

    def subscriptions(self) -> list[tuple[int, ...]]:
        """Return the topics of each member, and of one more."""
        rng = random.Random(1)
        every = range(self.topics)
        return [tuple(sorted(rng.sample(every, self.topics_each))) for _ in range(self.members + 1)]

    @property
    def starts(self) -> list[int]:
        return [place * self.partitions for place in range(self.topics + 1)]


CASES: Final = (
    Case("uniform, all the same topics", "uniform", 100, 500, 100),
    Case("uniform, 30 topics of 100 each", "uniform", 100, 500, OF_100),
    Case("range, all the same topics", "range", 100, 500, 100),
)
LOOPS: Final = (
    Case("20,000 partitions, in the loop", "uniform", 100, 200, 100),
    Case("50,000 partitions, another process", "uniform", 100, 500, 100),
    Case("50,000 partitions, 30 topics of 100 each", "uniform", 100, 500, OF_100),
    Case("50,000 partitions of one member", "uniform", 100, 500, 100, members=1),
    Case("20,000 partitions of one member", "uniform", 100, 200, 100, members=1),
)
UNITS: Final = {
    "first_ms": "from nothing, the first time, ms",
    "fresh_ms": "from nothing, ms",
    "more_ms": "with one member more, ms",
    "moved": "partitions that move then",
    "held_mb": "memory that the assignment holds, MB",
}


@dataclass(slots=True)
class Found:
    """Milliseconds of one processor. moved: partitions that the one member more moves."""

    first_ms: float
    fresh_ms: float
    more_ms: float
    moved: int
    held_mb: float


@dataclass(slots=True)
class Loop:
    """step_ms: the longest step. answer_ms: of the other process, with both ways through JSON. beat_us: a
    heartbeat that changes nothing."""

    name: str
    step_ms: float
    answer_ms: float
    beat_us: float
    told: int


def add_options(parser: argparse.ArgumentParser) -> None:
    add_kafka_home(parser)
    add_quick(parser)
    add_output(parser, "bench-assignments")


def run(options: argparse.Namespace) -> int:
    tell, rounds = Narrator(), 1 if options.quick else 9
    spare_the_loop()
    assignors: dict[str, dict[str, dict[str, float | None]]] = {}
    for case in CASES:
        tell(case.name)
        sides = assignors[case.name] = {"springtide": asdict(_measured(case, rounds))}
        if options.kafka_home is not None:
            sides["kafka"] = asdict(_ask_kafka(case, options.kafka_home, 2 if options.quick else 41))
    loops = []
    for case in (LOOPS[0], LOOPS[-1]) if options.quick else LOOPS:
        tell(f"the loop: {case.name}")
        loops.append(_looped(case))
    keep(
        options.output,
        {
            "machine": machine_facts(),
            "assignors": assignors,
            "loops": [asdict(loop) for loop in loops],
            "peak_rss_mb": peak_rss_mb(os.getpid()),
        },
    )
    for name, sides in assignors.items():
        print(f"{name}\n{side_by_side(sides, UNITS)}\n")
    print("\n".join(loop_table(loops)))
    return 0


def _timed(work: Callable[[], T], rounds: int) -> tuple[list[float], T]:
    """Return the milliseconds of each round, and what the work returns."""
    took: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        found = work()
        took.append((time.process_time() - began) * 1_000)
    return took, found


def _held_mb(work: Callable[[], object]) -> float:
    """Return what the work's result holds."""
    tracemalloc.start()
    found = work()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del found
    return float(held) / 1e6


# --- assignors -------------------------------------------------------------------------------------


def _subscribers(case: Case, held: Parts, members: int) -> list[Subscriber]:
    return [
        Subscriber(f"m{place:06}", None, topics, held[place] if place < len(held) else [])
        for place, topics in enumerate(case.subscriptions()[:members])
    ]


def _measured(case: Case, rounds: int) -> Found:
    assign, starts = ASSIGNORS[case.assignor], case.starts
    fresh = _subscribers(case, [], MEMBERS)
    fresh_ms, held = _timed(lambda: assign(starts, fresh), rounds)
    more = _subscribers(case, held, MEMBERS + 1)
    more_ms, after = _timed(lambda: assign(starts, more), rounds)
    moved = sum(len({*own} - {*one.held}) for own, one in zip(after, more, strict=True))
    held_mb = _held_mb(lambda: assign(starts, fresh))
    return Found(fresh_ms[0], median(fresh_ms), median(more_ms), moved, held_mb)


def _ask_kafka(case: Case, home: Path, rounds: int) -> Found:
    members = "".join(",".join(map(str, topics)) + "\n" for topics in case.subscriptions())
    command = ["java", "-cp", f"{home}/libs/*", str(JAVA), case.assignor, str(case.topics)]
    command += [str(case.partitions), str(rounds)]
    told = subprocess.run(command, input=members.encode(), stdout=subprocess.PIPE, check=True)
    fresh, more = (line.split() for line in told.stdout.decode().splitlines())
    return Found(float(fresh[0]), float(fresh[1]), float(more[1]), int(more[2]), float(fresh[3]))


# --- a shard's loop --------------------------------------------------------------------------------


class _Loop:
    """Steps a machine; what it writes is committed at once."""

    def __init__(self) -> None:
        self.machine = GroupMachine(GroupOptions())
        self.now_ms = self.offset = 0
        self.longest_ms = self.answer_ms = 0.0
        self.told = 0
        self._due: dict[object, int] = {}
        self._take(lambda: self.machine.opened(0, WALL_MS))

    def _take(self, step: Callable[[], StepOutcome]) -> StepOutcome:
        began = time.process_time()
        outcome = step()
        for place, record in enumerate(outcome.records):
            self.machine.apply(record, self.offset + place)
        if outcome.records:
            self.offset += len(outcome.records)
            encode_batch([NewRecord(*record, WALL_MS) for record in outcome.records])
            self.machine.committed(self.offset)
        self.longest_ms = max(self.longest_ms, (time.process_time() - began) * 1_000)
        for timer in outcome.timers:
            self._due.pop(timer.key, None)
            if timer.at_ms is not None:
                self._due[timer.key] = timer.at_ms
        for question in outcome.asks:
            assert isinstance(question, TargetQuestion)
            answer = self._answer(question)
            self.hear(AnswerCame(question, answer))
        if outcome.work is not None:
            self._take(lambda: self.machine.written(outcome.work, self.now_ms, WALL_MS))
        return outcome

    def _answer(self, question: TargetQuestion) -> Answer:
        """Answer as the other process would."""
        began = time.process_time()
        asked = msgspec.json.decode(msgspec.json.encode(question), type=TargetQuestion)
        answer = msgspec.json.decode(msgspec.json.encode(answer_to(asked)), type=Answer)
        self.answer_ms = max(self.answer_ms, (time.process_time() - began) * 1_000)
        return answer

    def hear(self, event: object) -> StepOutcome:
        return self._take(lambda: self.machine.step(event, self.now_ms, WALL_MS + self.now_ms))

    def wait(self, until_ms: int) -> None:
        while due := min(self._due, key=self._due.__getitem__, default=None):
            if self._due[due] > until_ms:
                break
            self.now_ms = max(self.now_ms, self._due.pop(due))
            self.hear(TimerDue(due, None))
        self.now_ms = until_ms

    def beat(self, member_id: str, epoch: int, **said: object) -> ConsumerHeartbeatReply:
        request = ConsumerHeartbeat(
            token=1,
            group_id="g",
            member_id=member_id,
            member_epoch=epoch,
            **said,  # type: ignore[arg-type]
        )
        (reply,) = self.hear(request).replies
        assert isinstance(reply.message, ConsumerHeartbeatReply)
        return reply.message


def _looped(case: Case) -> Loop:
    loop = _Loop()
    names = [f"topic-{place:04}" for place in range(case.topics)]
    known = {name: KnownTopic(name, UUID(int=place + 1), case.partitions) for place, name in enumerate(names)}
    loop.hear(TopicsKnown(known))
    epochs: dict[str, int] = {}
    owned: dict[str, PartitionsByTopic] = {}
    for place, topics in enumerate(case.subscriptions()):
        member_id = f"m{place:06}"
        subscribed = tuple(names[topic] for topic in topics)
        said = {"topics": subscribed, "owned": {}, "rebalance_timeout_ms": 60_000}
        epochs[member_id] = loop.beat(member_id, 0, **said).member_epoch
        owned[member_id] = {}
        loop.wait(loop.now_ms + 4)
        if place == case.members - 1:  # the last one comes to a group at rest
            _settle(loop, epochs, owned)
    _settle(loop, epochs, owned)
    longest_ms = loop.longest_ms
    rounds = 1_000 // len(epochs) + 1
    took, _ = _timed(lambda: [loop.beat(member_id, epoch) for member_id, epoch in epochs.items()], rounds)
    beat_us = min(took) / len(epochs) * 1_000
    return Loop(case.name, longest_ms, loop.answer_ms, beat_us, sum(map(count, owned.values())))


def _settle(loop: _Loop, epochs: dict[str, int], owned: dict[str, PartitionsByTopic]) -> None:
    for _ in range(6):
        loop.wait(loop.now_ms + 5_000)
        for member_id, epoch in epochs.items():
            reply = loop.beat(member_id, epoch, owned=owned[member_id])
            epochs[member_id] = reply.member_epoch
            if reply.assigned is not None:
                owned[member_id] = reply.assigned


# --- table ----------------------------------------------------------------------------------------


def loop_table(loops: list[Loop]) -> list[str]:
    lines = ["| members join, then one more | longest step | answer | heartbeat |", "|---|---|---|---|"]
    return lines + [
        f"| {one.name} | {one.step_ms:.1f} ms | {one.answer_ms:.1f} ms | {one.beat_us:.1f} µs |"
        for one in loops
    ]
