"""The schedule of Jepsen's first test of Kafka (2013), step by step, on the simulated cluster.

Then, of 1000 integers 987 were acknowledged, 468 were read back and 520 were lost: a leader that was cut off
from its followers shrank the in-sync set to itself, acknowledged alone, and lost its session in its turn;
whoever was elected next knew nothing of what it had acknowledged.

    0           five brokers, one topic of five partitions on all five; five writers, each of which knows its
                own broker only, write the integers in turn with acks=all and one retry after a second
    min(10 s,   the broker that leads most partitions hears no other broker any more on its listener;
    T/4)        controllers and clients reach it, and it reaches everybody
    T/2         it hears nobody but clients, and nobody hears it, until it leads nothing
    then        all is healed; when the writers are done and 10 s have passed, one consumer reads everything

T is how long the integers take at the given rate. With our defaults nothing may be lost. The *control* gives
the promise away, min.insync.replicas=1 and unclean elections, and must lose records: a harness that finds
nothing there finds nothing. Every record it loses must lie in what some replica put aside.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from dataplane.core.leader import Leader
from springtide.contract.partition_state import NO_LEADER, PartitionKey
from springtide.wire.errors import ErrorCode
from springtide.wire.records import NewRecord, encode_batch
from tests.checker.history import Function, Outcome
from tests.checker.verdict import Verdict as CheckerVerdict
from tests.proof.part import Part
from tests.simulation.clients import ProduceAnswer, ProduceCall
from tests.simulation.cluster import Cluster
from tests.simulation.events import MS, keyed_random
from tests.simulation.history import OpenSend
from tests.simulation.judge import Unreadable, judge
from tests.simulation.network import Message
from tests.simulation.options import ClusterOptions
from tests.simulation.oracle import Oracle
from tests.simulation.violation import Violation

BROKERS = PARTITIONS = REPLICATION_FACTOR = WRITERS = 5
INTEGERS = 1_000
RATE = 2.0
"""Integers a second and writer."""
RETRY_MS = 1_000
REQUEST_TIMEOUT_MS = 5_000
POLL_MS = 1_000
REST_MS = 10_000
SET_UP_MS_MAX = 30_000
OLD_LEADER_MS_MAX = 60_000
WRITERS_MS_MAX = 600_000
WRITABLE_MS_MAX = 15_000
HEALTHY_PERCENT_MIN = 95.0

THEN = {"total": 1_000, "acknowledged": 987, "read": 468, "lost": 520}
"""What was reported of Apache Kafka 0.8.0 beta1."""

DEFAULTS = ClusterOptions(
    brokers=BROKERS,
    controllers=2,
    partitions=PARTITIONS,
    replication_factor=REPLICATION_FACTOR,
    min_insync_replicas=REPLICATION_FACTOR // 2 + 1,
    producers=0,
    lag_ms_max=10_000,
    fetch_wait_ms=500,
    poll_wait_ms=3_000,
    tick_ms=500,
    report_ms=500,
)
CONTROL = dataclasses.replace(DEFAULTS, min_insync_replicas=1, unclean_election=True)


class Unwatched(Oracle):
    """For the control run, which breaks what the oracle holds: only the history is judged."""

    def on_replica_touched(self, *_: object) -> None:
        pass

    on_fetch_served = on_high_watermark_moved = on_zookeeper_write = on_replica_touched  # type: ignore[assignment]


@dataclass(slots=True)
class Writer:
    """One idempotent producer that knows one broker. After it gave a batch up it begins a new producer epoch,
    as clients do (KIP-360): what it gave up can't arrive any more once the new one has."""

    number: int
    integers: list[int]
    random: Random
    due_ms: float = 0.0
    producer_epoch: int = 0
    sequences: dict[PartitionKey, int] = field(default_factory=dict)
    leader_epochs: dict[PartitionKey, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"writer-{self.number}"


@dataclass(frozen=True, slots=True)
class Run:
    """victim: the broker that was cut off. healthy_percent: writes that succeeded, from the first cut to the
    healing, of those to partitions that it did not lead. writable_ms: after the healing, until every
    partition had acknowledged a write that began since."""

    seed: int
    victim: int
    checked: CheckerVerdict
    healthy_percent: float
    refused: int
    writable_ms: int
    simulated_ms: int
    failures: tuple[str, ...]

    def figures(self) -> dict[str, int]:
        f = self.checked.figures
        return {"total": f.total, "acknowledged": f.acked, "read": f.final_read or 0, "lost": f.lost}


class Jepsen2013:
    """One run. rate: integers a second and writer."""

    def __init__(self, seed: int, options: ClusterOptions, *, rate: float = RATE) -> None:
        self.seed = seed
        self.interval_ms = 1_000 / rate
        self.length_ms = INTEGERS / (WRITERS * rate) * 1_000
        self.cluster = Cluster(seed, options)
        self.events = self.cluster.events
        if options.unclean_election:
            self.cluster.oracle = Unwatched(self.cluster)
            self.cluster.zookeeper.on_write = None
        self.writers = [
            Writer(n, list(range(n - 1, INTEGERS, WRITERS)), keyed_random(seed, "writer", n))
            for n in range(1, WRITERS + 1)
        ]
        self.writing = WRITERS
        self.victim = 0

    # --- the schedule -----------------------------------------------------------------------------------

    def run(self) -> Run:
        """Raises Violation where the schedule itself can't be played."""
        cluster, events = self.cluster, self.events
        cluster.start()
        self._expire_sessions()
        if not cluster.run_until(SET_UP_MS_MAX, self._is_ready):
            raise Violation("L1", "the cluster did not come up")
        began_ms = events.now_ms
        for writer in self.writers:
            writer.due_ms = began_ms
            self._next(writer)
        cluster.run_until(began_ms + int(min(10_000, self.length_ms / 4)))
        first_cut_ms = events.now_ms
        self.victim = self._leads_most()
        led = {key for key in cluster.keys if self._leader(key) == self.victim}
        self._close_listener()
        cluster.run_until(began_ms + int(self.length_ms / 2))
        self._isolate()
        patience_ms = events.now_ms + OLD_LEADER_MS_MAX
        while any(self._leader(key) == self.victim for key in cluster.keys):
            if events.now_ms > patience_ms:
                raise Violation("L2", f"broker {self.victim} leads on, cut off from everybody")
            cluster.run_until(events.now_ms + POLL_MS)
        self._heal(since_ms=first_cut_ms)
        healed_ms = events.now_ms
        if not cluster.run_until(healed_ms + WRITERS_MS_MAX, lambda: not self.writing):
            raise Violation("L2", f"{self.writing} writers did not come to their end")
        cluster.run_until(events.now_ms + REST_MS)
        return self._judge(led, first_cut_ms, healed_ms)

    def _is_ready(self) -> bool:
        for key in self.cluster.keys:
            leader = self._leader(key)
            replica = None if leader == NO_LEADER else self.cluster.brokers[leader].replicas.get(key)
            if replica is None or not isinstance(replica.role, Leader):
                return False
        return all(len(b.states) == PARTITIONS for b in self.cluster.brokers.values())

    def _leader(self, key: PartitionKey) -> int:
        state = self.cluster.truth(key)
        return NO_LEADER if state is None else state.leader

    def _leads_most(self) -> int:
        """Of several, one after the other as seeds go on: each broker has its turn."""
        leaders = [self._leader(key) for key in self.cluster.keys]
        most = max(leaders.count(broker) for broker in self.cluster.brokers)
        candidates = [broker for broker in sorted(self.cluster.brokers) if leaders.count(broker) == most]
        return candidates[self.seed % len(candidates)]

    def _close_listener(self) -> None:
        """Requests of other brokers do not reach the victim's listener. What it asks others is answered."""
        target = self.cluster.brokers[self.victim].name
        others = {b.name for b in self.cluster.brokers.values()} - {target}

        def drop(message: Message, arrive: object) -> bool:
            return message.target == target and message.source in others and not message.is_reply

        self.cluster.network.interceptors.append(drop)
        self.events.note(f"the listener of {target} is closed to brokers")

    def _isolate(self) -> None:
        """Nothing from any node reaches the victim. A connection that is dead one way carries nothing the
        other way either (no acknowledgement comes back), so both are cut."""
        target = self.cluster.brokers[self.victim].name
        for other in self.cluster.node_names:
            if other != target:
                self.cluster.network.cut(other, target)
                self.cluster.network.cut(target, other)
        self.events.note(f"{target} is isolated")

    def _heal(self, *, since_ms: int) -> None:
        self.cluster.network.interceptors.clear()
        self.cluster.network.cuts.clear()
        self.cluster.history.faulted(f"broker-{self.victim} is cut off", since_ms=since_ms)
        self.events.note("healed")

    def _expire_sessions(self) -> None:
        self.cluster.zookeeper.expire_due()
        self.events.after(200, self._expire_sessions)

    # --- writers ----------------------------------------------------------------------------------------

    def _next(self, writer: Writer) -> None:
        if not writer.integers:
            self.writing -= 1
            return
        value = writer.integers.pop(0)
        key = self.cluster.keys[writer.random.randrange(PARTITIONS)]
        batch = encode_batch(
            [NewRecord(value=str(value).encode())],
            producer_id=writer.number,
            producer_epoch=writer.producer_epoch,
            base_sequence=writer.sequences.get(key, 0),
        )
        self._attempt(writer, key, batch, self.cluster.history.begin_send(writer.name, key, batch), retries=1)

    def _attempt(
        self, writer: Writer, key: PartitionKey, batch: bytes, send: OpenSend, *, retries: int
    ) -> None:
        def failed() -> None:
            if retries:
                self.events.after(
                    RETRY_MS, lambda: self._attempt(writer, key, batch, send, retries=retries - 1)
                )
                return
            send.give_up()
            writer.producer_epoch += 1
            writer.sequences.clear()
            self._rest(writer)

        def answered(answer: ProduceAnswer) -> None:
            send.answered(answer.error, answer.base_offset)
            if answer.error is ErrorCode.NONE:
                writer.sequences[key] = writer.sequences.get(key, 0) + 1
                self._rest(writer)
            else:
                failed()

        def lost() -> None:
            send.unanswered()
            failed()

        leader = self._leader_as_known(writer, key)
        if leader == NO_LEADER:
            failed()
            return
        self.cluster.network.call(
            writer.name,
            f"broker-{leader}",
            ProduceCall(key, batch, -1),
            answered,
            timeout_ms=REQUEST_TIMEOUT_MS,
            on_timeout=lost,
        )

    def _leader_as_known(self, writer: Writer, key: PartitionKey) -> int:
        """By the metadata of the writer's own broker, unless it knows better already (KIP-320)."""
        state = self.cluster.brokers[writer.number].states[key]
        if state.leader_epoch < writer.leader_epochs.get(key, -1):
            return NO_LEADER
        writer.leader_epochs[key] = state.leader_epoch
        return state.leader

    def _rest(self, writer: Writer) -> None:
        """At a fixed rate; a writer that was held up goes on at once, and no faster than its rate after."""
        now_ms = self.events.now_ns / MS
        writer.due_ms = max(writer.due_ms + self.interval_ms, now_ms)
        self.events.after(writer.due_ms - now_ms, lambda: self._next(writer))

    # --- the end ----------------------------------------------------------------------------------------

    def _judge(self, led: set[PartitionKey], first_cut_ms: int, healed_ms: int) -> Run:
        failures: list[str] = []
        checked = judge(self.cluster)
        during = [
            o
            for o in self.cluster.history.operations
            if o.f is Function.SEND
            and o.key not in led
            and first_cut_ms * MS <= o.t_invoke_ns < healed_ms * MS
        ]
        healthy = 100 * sum(o.type is Outcome.OK for o in during) / max(1, len(during))
        writable_ms = self._writable_ms(healed_ms)
        if checked.figures.total != INTEGERS:
            failures.append(f"{checked.figures.total} integers were written, not {INTEGERS}")
        if writable_ms > WRITABLE_MS_MAX:
            failures.append(f"a partition took {writable_ms} ms to be writable after the healing")
        refused = sum(
            "NOT_ENOUGH_REPLICAS" in o.error
            for o in self.cluster.history.operations
            if o.f is Function.SEND and o.key in led
        )
        return Run(
            seed=self.seed,
            victim=self.victim,
            checked=checked,
            healthy_percent=healthy,
            refused=refused,
            writable_ms=writable_ms,
            simulated_ms=self.events.now_ms,
            failures=tuple(failures),
        )

    def _writable_ms(self, healed_ms: int) -> int:
        """Until each partition acknowledged a write that began after the healing; the rate allows no finer
        answer."""
        first: dict[PartitionKey, int] = {}
        for o in self.cluster.history.operations:
            if o.f is Function.SEND and o.type is Outcome.OK and o.t_invoke_ns >= healed_ms * MS:
                assert o.key is not None
                first[o.key] = min(first.get(o.key, o.t_return_ns), o.t_return_ns)
        if len(first) < PARTITIONS:
            return WRITERS_MS_MAX
        return max(first.values()) // MS - healed_ms


def play_default(seed: int, *, rate: float = RATE, options: ClusterOptions = DEFAULTS) -> Run:
    """With our defaults: whatever the checker finds is a failure, and so is a lack of availability."""
    run = Jepsen2013(seed, options, rate=rate).run()
    failures = [f"{kind}: {number}" for kind, number in run.checked.bad.items()]
    if run.healthy_percent < HEALTHY_PERCENT_MIN:
        failures.append(f"only {run.healthy_percent:.1f} % of the writes to healthy partitions succeeded")
    if not run.refused:
        failures.append("the leader that was cut off refused nothing")
    return _with(run, failures)


def play_control(seed: int, *, rate: float = RATE) -> Run:
    """The promise given away: it must lose, and every loss must lie in something that was put aside."""
    run = Jepsen2013(seed, CONTROL, rate=rate).run()
    figures = run.checked.figures
    failures: list[str] = []
    if not figures.lost:
        failures.append(
            "the control run lost nothing: this harness would not have found what was lost in 2013"
        )
    elif figures.hidden != figures.lost:
        failures.append(f"of {figures.lost} lost records only {figures.hidden} lie in a divergent file")
    return _with(run, failures)


def _with(run: Run, failures: Sequence[str]) -> Run:
    return dataclasses.replace(run, failures=(*run.failures, *failures))


def lost_records(run: Run) -> list[str]:
    """One line for each record that was lost (as many as the verdict keeps): which, and who still has it."""
    return [a.explanation for a in run.checked.anomalies if a.kind == "lost-acked"]


def play(seeds: Sequence[int]) -> tuple[Part, str]:
    """The default run with each seed, the control with the first; the part and a table for people."""
    began = time.monotonic()
    failures: list[str] = []
    runs: list[Run] = []
    for seed in seeds:
        try:
            runs.append(play_default(seed))
            failures += [f"seed {seed}: {failure}" for failure in runs[-1].failures]
        except (Violation, Unreadable) as error:
            failures.append(f"seed {seed}: {error}")
    control = play_control(seeds[0])
    failures += [f"control: {failure}" for failure in control.failures]
    lost = sum(run.checked.figures.lost for run in runs)
    part = Part(
        name="2013-tier-a",
        seconds=round(time.monotonic() - began, 1),
        figures={
            "runs with our defaults": len(runs),
            "total": sum(run.figures()["total"] for run in runs),
            "acknowledged": sum(run.figures()["acknowledged"] for run in runs),
            "read": sum(run.figures()["read"] for run in runs),
            "writes to healthy partitions that succeeded, least": round(
                min((run.healthy_percent for run in runs), default=0.0), 1
            ),
            "refused by the leader that was cut off": sum(run.refused for run in runs),
            "ms until all partitions were writable, most": max((r.writable_ms for r in runs), default=0),
            **{f"control: {name}": value for name, value in control.figures().items()},
            "control: lost records found in divergent files": control.checked.figures.hidden,
            **{f"2013: {name}": value for name, value in THEN.items()},
        },
        faults={"listener closed to brokers": len(runs) + 1, "isolated": len(runs) + 1},
        failures=failures,
        lost=lost,
        inconsistent=sum(run.checked.bad.get("inconsistent-offsets", 0) for run in runs),
    )
    return part, _table(runs, control, failures)


def _table(runs: Sequence[Run], control: Run, failures: Sequence[str]) -> str:
    lines = [f"{'':<38}{'total':>7}{'acked':>7}{'read':>7}{'lost':>7}"]

    def row(name: str, figures: dict[str, int]) -> str:
        return f"{name:<38}" + "".join(f"{value:>7}" for value in figures.values())

    lines.append(row("Apache Kafka 0.8.0 beta1, 2013", THEN))
    for run in runs:
        name = f"ours, seed {run.seed}, broker {run.victim} cut off"
        lines.append(
            f"{row(name, run.figures())}   {run.healthy_percent:.1f} % of healthy writes, "
            f"{run.refused} refused, writable after {run.writable_ms} ms"
        )
    lines.append(row("control: minimum 1, unclean elections", control.figures()))
    lines.append(f"the control's {control.checked.figures.lost} losses, as the checker names them:")
    lines += [f"  {line}" for line in lost_records(control)]
    lines += [f"FAILED {failure}" for failure in failures]
    return "\n".join(lines)
