"""One attempt of a task: what the sink's shell does in an executor, stepped by the simulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, Protocol
from zlib import crc32

from pipeline.sink.commit import SeenWhole
from pipeline.sink.delivery import DeliveryOptions, PartitionDelivery, PartitionOpening, plan_changed
from pipeline.sink.identity import ProducerIdentity
from pipeline.sink.steps import (
    Action,
    AwaitBatch,
    Batch,
    Checked,
    CheckWatermark,
    Delivered,
    Describe,
    Ended,
    Event,
    Failed,
    Failure,
    NoUsableAnswer,
    Offered,
    Opened,
    Pause,
    Scan,
    Scanned,
    Send,
    SendAnswered,
    Woken,
)
from tests.pipeline_sim import exchanges
from tests.pipeline_sim.exchanges import Clock
from tests.pipeline_sim.partition import SimulatedPartition

HELD_MAX = 2
"""Batches that one partition may hold before the task waits for it."""

PATIENT = DeliveryOptions(stalled_ms=10**15)
"""Time jumps here."""
MADE_AGAIN = Failed(Failure.RECORDS_LOST, "the topic was deleted and created again")
"""In the place of opening.py's error. Run again, the micro-batch goes to the new topic."""

Exchange = Generator[None, None, Any]


class Orphans(Protocol):
    def append(self, exchange: Exchange) -> None: ...


@dataclass(frozen=True, slots=True)
class Plant:
    """What a planted bug replaces."""

    delivery: type[PartitionDelivery] = PartitionDelivery
    options: DeliveryOptions = PATIENT
    commit_is_checked: bool = True
    epochs_rise: bool = True
    tasks_differ: bool = True
    scans_from_opening_only: bool = False
    scans_to_log_end: bool = False
    skips_by_count: bool = False
    produces_by_id: bool = True
    notices_topics: bool = True
    commit_knows_topics: bool = True
    opens_again_at_start: bool = True
    opens_again_by_id: bool = True


@dataclass(frozen=True, slots=True)
class Opening:
    """The topic as it was before a micro-batch wrote to it: opening.py's, of simulated partitions."""

    topic_id: int
    partitions: dict[int, PartitionOpening]


@dataclass(slots=True)
class Attempt:
    """`stream`: the task's rows, a few for one partition at a time."""

    batch_id: int
    task: int
    identity: ProducerIdentity
    stream: list[tuple[int, tuple[str, ...]]]
    partitions: list[SimulatedPartition]
    clock: Clock
    plant: Plant
    orphans: Orphans
    told_id: Callable[[], int]
    """The topic's id, as a broker tells it that may be behind."""
    is_by_id: bool = True
    """Brokers know Produce and Fetch by id."""
    openings: Opening | None = None
    """None until the micro-batch's opening is known to this attempt."""
    again_of: int | None = None
    """The topic's id, if it is not that of the micro-batch's first opening."""
    opened_ms: int | None = None
    is_topic_checked: bool = False
    found_id: int | None = None
    found_openings: dict[int, PartitionOpening] = field(default_factory=dict)
    deliveries: dict[int, PartitionDelivery] = field(default_factory=dict)
    flights: dict[int, Exchange] = field(default_factory=dict)
    pauses: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    delivered: dict[int, Delivered] = field(default_factory=dict)
    leaders: dict[int, tuple[int, int]] = field(default_factory=dict)
    read_back: dict[int, list[str]] = field(default_factory=dict)
    """By the scan that is under way, or was last."""
    stored: dict[int, Counter[str]] = field(default_factory=dict)
    """Records of earlier attempts that no row has accounted for yet."""
    next_sequence: dict[int, int] = field(default_factory=dict)
    position: int = 0
    is_ended: bool = False
    failed: Failed | None = None
    is_alive: bool = True
    scans: int = 0

    @property
    def is_done(self) -> bool:
        return self.is_ended and self.delivered.keys() == self.deliveries.keys()

    @property
    def is_over(self) -> bool:
        return not self.is_alive or self.failed is not None or self.is_done

    def seen(self) -> list[tuple[int, SeenWhole]]:
        return [(p, SeenWhole(d.leader_epoch, d.high_watermark)) for p, d in self.delivered.items()]

    # What it can do next, as numbers of things that the simulation chooses from.

    def choices(self) -> list[tuple[str, int]]:
        if self.openings is None:
            return [
                ("fly", p) if p in self.flights else ("open", p)
                for p in range(len(self.partitions))
                if p not in self.found_openings
            ]
        if not self.is_topic_checked:
            return [("check", 0)]
        found = [("fly", p) for p in self.flights] + [("wake", p) for p in self.pauses]
        if not self.is_ended and self._may_offer():
            found.append(("offer", 0))
        return found

    def _may_offer(self) -> bool:
        if self.position == len(self.stream):
            return True
        p = self.stream[self.position][0]
        if p not in self.deliveries:
            return True
        if self.deliveries[p].resumes_at is None:
            return False
        return len(self.deliveries[p]._held) < HELD_MAX or p in self.waiting

    def act(self, what: str, p: int) -> None:
        if what == "open":
            if self.found_id is None:
                self.found_id = self.told_id()
            self.learn_leader(p)
            self.flights[p] = exchanges.list_offset(self.partitions[p], self.leaders[p][0])
        elif what == "check":
            self.check_opening()
        elif what == "wake":
            self.pauses.discard(p)
            self.step(p, Woken())
        elif what == "offer":
            self.offer()
        else:
            try:
                next(self.flights[p])
            except StopIteration as end:
                del self.flights[p]
                self.land(p, end.value)

    def check_opening(self) -> None:
        """As writer.py's open_topic, and task.py behind it."""
        assert self.openings is not None
        now = self.told_id()
        if now == self.openings.topic_id:
            self.is_topic_checked = True
        elif self.again_of is None:
            self.again_of, self.opened_ms = now, self.openings.partitions[0].opened_ms
            self.openings, self.found_id, self.found_openings = None, None, {}
        else:
            self.fail(MADE_AGAIN)

    def fail(self, failed: Failed) -> None:
        self.failed = failed
        self.orphans_of_all()

    def offer(self) -> None:
        if self.position == len(self.stream):
            self.end()
            return
        p, rows = self.stream[self.position]
        if p not in self.deliveries:
            assert self.openings is not None
            self.deliveries[p] = self.plant.delivery(
                self.identity,
                self.openings.partitions[p],
                now_ms=self.clock.now_ms,
                options=self.plant.options,
            )
            self.step(p, Opened())
            return
        self.position += 1
        missing = self.missing(p, rows)
        if missing:
            first = self.next_sequence.setdefault(p, self.deliveries[p].resumes_at or 0)
            self.next_sequence[p] += len(missing)
            data = exchanges.data_of(missing)
            self.step(p, Offered(Batch(first, first + len(missing) - 1, data, crc32(data))))

    def missing(self, p: int, rows: tuple[str, ...]) -> list[str]:
        """As stored_rows.py has it."""
        stored = self.stored.get(p)
        if not stored:
            return list(rows)
        missing = []
        for row in rows:
            name = next(iter(stored), row) if self.plant.skips_by_count else row
            if stored[name]:
                stored[name] -= 1
                if not stored[name]:
                    del stored[name]
            else:
                missing.append(row)
        return missing

    def end(self) -> None:
        self.is_ended = True
        if any(stored.total() for stored in self.stored.values()):
            self.fail(plan_changed("some"))
        for p in list(self.deliveries):
            self.step(p, Ended())

    def give_up(self, p: int) -> None:
        """A timeout: whatever was asked goes on without us, or not."""
        self.orphans.append(self.flights.pop(p))
        self.land(p, NoUsableAnswer("timed out"))

    def land(self, p: int, event: Event) -> None:
        if self.openings is None:
            if isinstance(event, Checked):
                is_again = self.again_of is not None and self.plant.opens_again_at_start
                self.found_openings[p] = PartitionOpening(
                    0 if is_again else event.high_watermark,
                    event.leader_epoch,
                    self.clock.now_ms if self.opened_ms is None else self.opened_ms,
                )
            return
        if isinstance(event, NoUsableAnswer) or (isinstance(event, SendAnswered) and event.error):
            self.learn_leader(p)
        is_first = self.deliveries[p].resumes_at is None
        self.step(p, event)
        if is_first and isinstance(event, Scanned) and self.deliveries[p].resumes_at is not None:
            self.stored[p] = Counter(self.read_back[p])

    def learn_leader(self, p: int) -> None:
        self.leaders[p] = self.partitions[p].leader, self.partitions[p].leader_epoch

    def step(self, p: int, event: Event) -> None:
        if self.is_over:
            return
        self.waiting.discard(p)
        action = self.deliveries[p].step(event, now_ms=self.clock.now_ms)
        if action is not None:
            self.carry_out(p, action)

    def carry_out(self, p: int, action: Action) -> None:
        partition = self.partitions[p]
        if p not in self.leaders:
            self.learn_leader(p)
        leader, leader_epoch = self.leaders[p]
        topic_id = self.openings.topic_id if self.openings is not None and self.is_by_id else None
        match action:
            case AwaitBatch():
                self.waiting.add(p)
            case Describe():
                self.flights[p] = exchanges.describe(partition, leader, self.identity, self.clock)
            case Scan():
                self.scans += 1
                if self.plant.scans_from_opening_only:
                    action = Scan(action.start_offset, 10**9, action.known)
                self.read_back[p] = []
                self.flights[p] = exchanges.scan(
                    partition,
                    leader,
                    self.identity,
                    action,
                    self.read_back[p],
                    self.plant.scans_to_log_end,
                    topic_id,
                )
            case Send(batch=batch):
                if leader_epoch > action.leader_epoch:
                    self.step(p, NoUsableAnswer("the leader is another one"))
                    return
                self.flights[p] = exchanges.produce(
                    partition,
                    leader,
                    self.identity,
                    batch,
                    self.batch_id,
                    self.clock,
                    topic_id if self.plant.produces_by_id else None,
                )
            case CheckWatermark():
                self.flights[p] = exchanges.list_offset(partition, leader)
            case Pause():
                assert self.openings is not None
                if self.told_id() != self.openings.topic_id and self.plant.notices_topics:
                    self.fail(MADE_AGAIN)
                else:
                    self.pauses.add(p)
            case Delivered():
                self.delivered[p] = action
            case Failed():
                assert self.openings is not None
                is_doubtful = action.failure is Failure.FORGOTTEN and self.plant.notices_topics
                is_again = is_doubtful and self.told_id() != self.openings.topic_id
                self.fail(MADE_AGAIN if is_again else action)

    def orphans_of_all(self) -> None:
        for exchange in self.flights.values():
            self.orphans.append(exchange)
        self.flights.clear()

    def kill(self) -> None:
        self.is_alive = False
        self.orphans_of_all()
