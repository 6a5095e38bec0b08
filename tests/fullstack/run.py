"""One seed, from its options to its verdict."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio
from fastapi.dependencies import models

from tests.checker.check import check
from tests.checker.from_clients import ends_of
from tests.checker.verdict import Anomaly, Figures, Verdict
from tests.fullstack import ending
from tests.fullstack.churn import Churn
from tests.fullstack.clock import VirtualClock, run_virtually
from tests.fullstack.cluster import Cluster, deletions
from tests.fullstack.consumer import Consumer
from tests.fullstack.failure import Failure
from tests.fullstack.faults import Replayer, planners_of
from tests.fullstack.guard import guarded, logging_into
from tests.fullstack.maintainer import Maintainer
from tests.fullstack.options import Options, draw_options
from tests.fullstack.producer import Producer
from tests.fullstack.world import World
from tests.simulation.schedule import Strike

FAULTS_MS = 12_000
TOTAL_MS_MAX = 300_000
FIRST_ACK_MS_MAX = 20_000
DRAIN_MS_MAX = 40_000
OPERATIONS_MS_MAX = 90_000
"""An operation that found no place for something plans again a minute later, at most."""
SHOWN = 120


@dataclass(kw_only=True)
class Result:
    """What one seed did. `failures`: a line each; none when everything held. operations: of operators, how
    many came to each state; operation_kinds: the same by kind and state."""

    seed: int
    options: Options
    strikes: tuple[Strike, ...] = ()
    failures: list[str] = field(default_factory=list)
    verdict: Verdict | None = None
    digest: str = ""
    events: int = 0
    simulated_ms: int = 0
    recovery_ms: int = -1
    acked: int = 0
    elections: int = 0
    isr_changes: int = 0
    controller_elections: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    operation_kinds: dict[str, int] = field(default_factory=dict)
    moments: Counter[str] = field(default_factory=Counter)
    recent: tuple[str, ...] = ()

    @property
    def faults(self) -> dict[str, int]:
        return dict(sorted(Counter(strike.kind for strike in self.strikes).items()))

    @property
    def lost(self) -> int:
        return 0 if self.verdict is None else self.verdict.figures.lost

    @property
    def inconsistent(self) -> int:
        return 0 if self.verdict is None else sum(self.verdict.bad.values())

    @property
    def hidden(self) -> int:
        """Lost records that some replica still has: in its log, or among what it put aside."""
        return 0 if self.verdict is None else self.verdict.figures.hidden

    @property
    def figures(self) -> dict[str, int]:
        """As the famous table of 2013 has them."""
        figures = Figures() if self.verdict is None else self.verdict.figures
        return {
            "total": figures.total,
            "acknowledged": figures.acked,
            "read": figures.final_read or 0,
            "lost": figures.lost,
        }

    def report(self) -> str:
        """What a person needs to begin."""
        options = ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(self.options).items())
        lines = [f"seed {self.seed} failed:" if self.failures else f"seed {self.seed} held:", *self.failures]
        lines += [f"options: {options}", f"faults: {self.faults}", *map(str, self.strikes)]
        lines += [f"at {self.simulated_ms} ms, {self.events} events, digest {self.digest}"]
        lines += [*self.recent[-SHOWN:], "" if self.verdict is None else self.verdict.report()]
        lines += [f"replay: python -m tests.fullstack run --seed {self.seed}"]
        return "\n".join(lines)


class Story:
    """The usual one: form a cluster, write and read while faults strike, mend, settle, compare."""

    def __init__(self, result: Result, *, faults_ms: int, strikes: tuple[Strike, ...] | None) -> None:
        self.result = result
        self.faults_ms = faults_ms
        self.anomalies: tuple[Anomaly, ...] = ()
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self._strikes = strikes
        self._churn: Churn | None = None
        self._maintainer: Maintainer | None = None

    async def __call__(self, cluster: Cluster) -> None:
        options = cluster.options
        await cluster.form()
        created = await cluster.operator.create_topic(
            cluster.topic,
            partitions=options.partitions,
            replication_factor=options.replication_factor,
            configs=options.topic_configs(),
        )
        if not created:
            raise Failure("L1: no topic can be created in a healthy cluster")
        self._start_clients(cluster)
        await cluster.until(
            lambda: all(producer.acked for producer in self.producers),
            ms=FIRST_ACK_MS_MAX,
            what="records are acknowledged in a healthy cluster",
        )
        await cluster.until(lambda: bool(cluster.keys), ms=FIRST_ACK_MS_MAX, what="a controller is active")
        if options.churn:
            self._churn = Churn(cluster)
            cluster.spawn(self._churn.run)
        if options.maintains:
            self._maintainer = Maintainer(cluster)
            cluster.spawn(self._maintainer.run)
        await self.strike(cluster)
        await self.finish(cluster)

    async def strike(self, cluster: Cluster) -> None:
        given = self._strikes
        planners = planners_of(cluster) if given is None else [Replayer(cluster, given)]
        for planner in planners:
            planner.start()
        await trio.sleep(self.faults_ms / 1000)
        await trio.sleep(cluster.suspended_ms / 1000)
        for planner in planners:
            planner.stop()
        strikes = [strike for planner in planners for strike in planner.strikes]
        self.result.strikes = tuple(sorted(strikes, key=lambda strike: strike.at_ms))

    def _start_clients(self, cluster: Cluster) -> None:
        for partition in range(cluster.options.partitions):
            self.producers.append(self.new_producer(cluster, partition))
            self.consumers.append(
                Consumer(
                    cluster.clients, name=f"consumer-{partition}", topic=cluster.topic, partition=partition
                )
            )
        clients: list[Producer | Consumer] = [*self.producers, *self.consumers]
        for client in clients:
            cluster.spawn(client.run)
        if cluster.groups is not None:
            cluster.groups.start()

    def new_producer(self, cluster: Cluster, partition: int) -> Producer:
        return Producer(
            cluster.clients,
            name=f"producer-{partition}",
            topic=cluster.topic,
            partition=partition,
            pause_ms=cluster.options.producer_pause_ms,
        )

    async def finish(self, cluster: Cluster) -> None:
        ending.mend_everything(cluster)
        mended_ms = cluster.world.now_ms
        for producer in self.producers:
            producer.stop()
        remaker = cluster.remaker
        remaker.stop()
        await cluster.until(lambda: not remaker.waiting, ms=DRAIN_MS_MAX, what="topics are made again")
        if self._churn is not None:
            churn = self._churn
            churn.stop()
            await cluster.until(lambda: churn.has_ended, ms=DRAIN_MS_MAX, what="operators got their answers")
        crowd = cluster.crowd
        await cluster.until(lambda: not crowd.waiting, ms=DRAIN_MS_MAX, what="operators got their answers")
        if self._maintainer is not None:
            maintainer = self._maintainer
            maintainer.stop()
            await cluster.until(lambda: maintainer.has_ended, ms=OPERATIONS_MS_MAX, what="operations end")
            self.result.operations = dict(sorted(maintainer.ended.items()))
            self.result.operation_kinds = dict(sorted(maintainer.kinds.items()))
        await ending.settle(cluster)
        self.result.recovery_ms = cluster.world.now_ms - mended_ms
        await cluster.until(
            lambda: all(producer.has_ended for producer in self.producers),
            ms=DRAIN_MS_MAX,
            what="every send has ended",
        )
        if cluster.groups is not None:
            self.result.failures += await cluster.groups.finish()
            self.result.moments = cluster.groups.moments
        await ending.settle(cluster)
        ends = {(cluster.topic, n): 0 for n in range(cluster.options.partitions)}
        ends |= ends_of(cluster.clients.history())
        await cluster.until(
            lambda: all(consumer.position >= ends[consumer.key] for consumer in self.consumers),
            ms=ending.FINAL_READ_MS_MAX,
            what="every consumer that read through the faults comes to the end",
        )
        for consumer in self.consumers:
            consumer.stop()
        await ending.read_finally(cluster, ends)
        self.result.failures += remaker.failures()
        self.anomalies = await ending.agree(cluster)
        await ending.check_audit_chain(cluster)
        gone = deletions(cluster.sql)
        if gone:
            raise Failure(f"I36: deleted by time, in a run of a minute: {gone}")
        await trio.sleep(1.5)  # followers learn the last high watermark
        self._count(cluster)
        watermarks = ending.high_watermarks(cluster)
        for broker in cluster.brokers.values():
            broker.crash()
        self.result.failures += ending.dump_replicas(cluster, watermarks)
        if cluster.shards is not None:
            self.result.failures += cluster.shards.check_writers()
        ending.dump_asides(cluster)

    def _count(self, cluster: Cluster) -> None:
        published = cluster.published()
        assert published is not None
        states = list(published.image.partitions.values())
        self.result.elections = sum(state.leader_epoch for state in states)
        self.result.isr_changes = sum(state.partition_epoch for state in states)
        self.result.controller_elections = cluster.active_controller().engine.controller_epoch  # type: ignore[union-attr]


def run_seed(
    seed: int,
    *,
    faults_ms: int = FAULTS_MS,
    options: Options | None = None,
    strikes: tuple[Strike, ...] | None = None,
) -> Result:
    """Deterministic: equal seeds give equal results, digests included, in any process."""
    result = Result(seed=seed, options=options or Options())
    story = Story(result, faults_ms=faults_ms, strikes=strikes)
    return run_story(result, story, draw=options is None)


def run_story(
    result: Result, story: Callable[[Cluster], Awaitable[None]], *, draw: bool, may_lose: bool = False
) -> Result:
    """Runs it, judges its history, and fills the result. may_lose: what the verdict holds against it is no
    failure of the run."""

    async def main(clock: VirtualClock) -> None:
        world = World(result.seed, clock)
        if draw:
            result.options = draw_options(world.random("options"), world.random("clients of groups"))
        with logging_into(world):
            cluster = Cluster(world, result.options)
            try:
                with trio.fail_after(TOTAL_MS_MAX / 1000) as cluster.limit:
                    await cluster.run(story)
            except* (Failure, trio.TooSlowError) as group:
                result.failures += [_first(group)]
            except* Exception as group:
                result.failures += ["crash: " + "".join(traceback.format_exception(group))]
            finally:
                result.recent = tuple(world.recent)
                result.simulated_ms = world.now_ms
                result.events = world.events
                result.digest = world.digest()
        history = cluster.clients.history()
        cluster.sql.dispose()
        verdict = check(history)
        verdict = verdict.with_anomalies(getattr(story, "anomalies", ()))
        result.verdict = verdict
        result.acked = verdict.figures.acked

    try:
        with guarded(result.seed):
            run_virtually(result.seed, main)
    finally:
        _forget_endpoints()
    if result.verdict is not None and not result.failures and not may_lose:
        result.failures += [f"{kind}: {count}" for kind, count in result.verdict.bad.items()]
    return result


def _forget_endpoints() -> None:
    """FastAPI remembers endpoints for ever. Those of a controller lead to everything that was in the run:
    megabytes a seed, which the collector would go through before each next one."""
    for cached in vars(models).values():
        if hasattr(cached, "cache_clear"):
            cached.cache_clear()


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
