"""What assignments of `consumer` groups cost: `python -m bench assignments [--kafka-home DIR] [--quick]`.

One group of 1,000 members and 50,000 partitions, 100 topics of 500: assigned from nothing, and again with one
member more. Each row is the median of rounds in milliseconds of one processor: of the assignor alone, beside
Kafka's own classes where they are given (run in Java, warm; its first round is compiled meanwhile).

Then a shard's loop, without sockets: the members of such groups join one after the other, and each is told
what it has. The longest step is how long all other groups of the process wait. It is made of the machine's
step, of its records as they are applied and encoded, and of the question to the other process.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import time
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
from coordinator.core.groups.consumer.assigning import Answer, KnownTopic, Parts, Subscriber, TargetQuestion
from coordinator.core.groups.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatReply, TopicsKnown
from coordinator.core.groups.consumer.targets import ASSIGNORS, answer_to
from coordinator.core.groups.machine import GroupMachine
from coordinator.core.groups.options import GroupOptions
from coordinator.core.machine import AnswerCame, StepOutcome, TimerDue
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

    def subscriptions(self) -> list[tuple[int, ...]]:
        """Return the topics of each member, and of one more."""
        rng = random.Random(1)
        every = range(self.topics)
        return [tuple(sorted(rng.sample(every, self.topics_each))) for _ in range(MEMBERS + 1)]

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
)


@dataclass(slots=True)
class Row:
    """Milliseconds of one processor. moved: partitions that the one member more moves. parts: the smallest
    and the largest. kafka_: Kafka's; kafka_first_ms: its first round."""

    name: str
    fresh_ms: float
    more_ms: float
    moved: int
    parts: tuple[int, int]
    kafka_first_ms: float | None = None
    kafka_fresh_ms: float | None = None
    kafka_more_ms: float | None = None
    kafka_moved: int | None = None


@dataclass(slots=True)
class Loop:
    """step_ms: the longest step. answer_ms: of the other process, with both ways through JSON."""

    name: str
    step_ms: float
    answer_ms: float
    told: int


def add_options(parser: argparse.ArgumentParser) -> None:
    add_kafka_home(parser)
    add_quick(parser)
    add_output(parser, "bench-assignments")


def run(options: argparse.Namespace) -> int:
    tell, rounds = Narrator(), 1 if options.quick else 9
    spare_the_loop()
    rows = [_measured(case, rounds) for case in CASES]
    if options.kafka_home is not None:
        for row, case in zip(rows, CASES, strict=True):
            tell(f"Kafka: {case.name}")
            _ask_kafka(row, case, options.kafka_home, 2 if options.quick else 41)
    loops = []
    for case in LOOPS[:1] if options.quick else LOOPS:
        tell(f"the loop: {case.name}")
        loops.append(_looped(case))
    keep(
        options.output,
        {
            "machine": machine_facts(),
            "assignors": [asdict(row) for row in rows],
            "loops": [asdict(loop) for loop in loops],
            "peak_rss_mb": peak_rss_mb(os.getpid()),
        },
    )
    print("\n".join((*table(rows), "", *loop_table(loops))))
    return 0


def _timed(work: Callable[[], T], rounds: int) -> tuple[float, T]:
    """Return the median of milliseconds, and what the work returns."""
    took: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        found = work()
        took.append((time.process_time() - began) * 1_000)
    return median(took), found


# --- assignors -------------------------------------------------------------------------------------


def _subscribers(case: Case, held: Parts, members: int) -> list[Subscriber]:
    return [
        Subscriber(f"m{place:06}", None, topics, held[place] if place < len(held) else [])
        for place, topics in enumerate(case.subscriptions()[:members])
    ]


def _measured(case: Case, rounds: int) -> Row:
    assign, starts = ASSIGNORS[case.assignor], case.starts
    fresh = _subscribers(case, [], MEMBERS)
    fresh_ms, held = _timed(lambda: assign(starts, fresh), rounds)
    more = _subscribers(case, held, MEMBERS + 1)
    more_ms, after = _timed(lambda: assign(starts, more), rounds)
    moved = sum(len({*own} - {*one.held}) for own, one in zip(after, more, strict=True))
    sizes = [len(own) for own in after]
    return Row(case.name, fresh_ms, more_ms, moved, (min(sizes), max(sizes)))


def _ask_kafka(row: Row, case: Case, home: Path, rounds: int) -> None:
    members = "".join(",".join(map(str, topics)) + "\n" for topics in case.subscriptions())
    command = ["java", "-cp", f"{home}/libs/*", str(JAVA), case.assignor, str(case.topics)]
    command += [str(case.partitions), str(rounds)]
    told = subprocess.run(command, input=members.encode(), stdout=subprocess.PIPE, check=True)
    fresh, more = (line.split() for line in told.stdout.decode().splitlines())
    row.kafka_first_ms, row.kafka_fresh_ms = float(fresh[0]), float(fresh[1])
    row.kafka_more_ms, row.kafka_moved = float(more[1]), int(more[2])


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
    owned: dict[str, frozenset[object]] = {}
    nothing: frozenset[object] = frozenset()
    for place, topics in enumerate(case.subscriptions()):
        member_id = f"m{place:06}"
        subscribed = tuple(names[topic] for topic in topics)
        said = {"topics": subscribed, "owned": nothing, "rebalance_timeout_ms": 60_000}
        epochs[member_id] = loop.beat(member_id, 0, **said).member_epoch
        owned[member_id] = nothing
        loop.wait(loop.now_ms + 4)
        if place == MEMBERS - 1:  # the last one comes to a group at rest
            _settle(loop, epochs, owned)
    _settle(loop, epochs, owned)
    return Loop(case.name, loop.longest_ms, loop.answer_ms, sum(map(len, owned.values())))


def _settle(loop: _Loop, epochs: dict[str, int], owned: dict[str, frozenset[object]]) -> None:
    for _ in range(6):
        loop.wait(loop.now_ms + 5_000)
        for member_id, epoch in epochs.items():
            reply = loop.beat(member_id, epoch, owned=owned[member_id])
            epochs[member_id] = reply.member_epoch
            if reply.assigned is not None:
                owned[member_id] = reply.assigned


# --- tables ----------------------------------------------------------------------------------------


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| 1,000 members, 50,000 partitions | ours | one more | moved | Kafka | one more | moved | first |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        kafka = [_ms(row.kafka_fresh_ms), _ms(row.kafka_more_ms)]
        moved = "" if row.kafka_moved is None else str(row.kafka_moved)
        ours = [_ms(row.fresh_ms), _ms(row.more_ms), str(row.moved)]
        lines.append(f"| {' | '.join((row.name, *ours, *kafka, moved, _ms(row.kafka_first_ms)))} |")
    return lines


def loop_table(loops: list[Loop]) -> list[str]:
    lines = ["| 1,000 members join, then one more | longest step | answer |", "|---|---|---|"]
    return lines + [f"| {one.name} | {_ms(one.step_ms)} | {_ms(one.answer_ms or None)} |" for one in loops]


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} ms"
