"""One seed, from its options to its verdict: a safety phase under faults, then healing and liveness."""

from __future__ import annotations

import dataclasses
import gc
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.checker.verdict import Figures
from tests.simulation.cluster import Cluster, ClusterOptions, Violation
from tests.simulation.events import keyed_random
from tests.simulation.faults import FaultPlanner
from tests.simulation.judge import failure_of, judge
from tests.simulation.liveness import (
    CORE_MS_MAX,
    TRAFFIC_MS,
    can_serve,
    depended_on,
    draw_core,
    heal_core,
    missing_at_end,
    missing_in_core,
    not_told,
)
from tests.simulation.losses import concede
from tests.simulation.options import draw_options
from tests.simulation.schedule import Replayer, Strike

SET_UP_MS_MAX = 20_000
LIVENESS_MS_MAX = 60_000
TOLD_MS_MAX = 10_000
EVENTS_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one seed did. `failure` is None when every invariant held; otherwise it begins with `rule`.

    under_faults_ms: how long at least one fault was going on. checked: the checker's figures; None when the
    run ended before its history was whole. anomalies: how many of each bad kind it found. history_digest:
    covers every operation. marks: how often the run came to each.
    """

    seed: int
    options: ClusterOptions
    strikes: tuple[Strike, ...]
    events: int
    simulated_ms: int
    under_faults_ms: int
    acked: int
    isr_changes: int
    leader_changes: int
    controller_elections: int
    truncations_written_aside: int
    recovery_ms: int
    digest: str
    rule: str | None
    failure: str | None
    checked: Figures | None
    anomalies: dict[str, int]
    history_digest: str
    marks: dict[str, int]
    last_events: tuple[str, ...]

    @property
    def faults(self) -> dict[str, int]:
        """How often each kind struck."""
        return dict(sorted(Counter(strike.kind for strike in self.strikes).items()))

    def report(self) -> str:
        """What a person needs to begin: rule, seed, options, the last events, one command to replay it."""
        options = ", ".join(f"{k}={v}" for k, v in dataclasses.asdict(self.options).items())
        family = f" --family {self.options.family}" if self.options.family else ""
        return "\n".join(
            [
                f"seed {self.seed} failed: {self.failure}",
                f"options: {options}",
                f"faults: {self.faults}",
                f"at {self.simulated_ms} ms, {self.events} events, digest {self.digest}",
                *self.last_events,
                f"replay: python -m tests.simulation run --seed {self.seed}{family}",
            ]
        )


def run_seed(
    seed: int,
    *,
    options: ClusterOptions | None = None,
    strikes: Sequence[Strike] | None = None,
    faults_ms: int | None = None,
) -> Verdict:
    """Deterministic: equal arguments give equal verdicts, digests included, in any process.

    options: instead of those that the seed draws. strikes: played instead of what the seed would draw; a
    verdict's own strikes, given with its seed and length, give the same verdict. faults_ms: length of the
    safety phase, instead of the one in the options.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    cluster = Cluster(seed, options or draw_options(seed))
    try:
        return _judged(cluster, strikes, faults_ms)
    finally:
        cluster.dismantle()
        if was_enabled:
            gc.enable()


def _judged(cluster: Cluster, strikes: Sequence[Strike] | None, faults_ms: int | None) -> Verdict:
    seed, options = cluster.seed, cluster.options
    planner = FaultPlanner(cluster) if strikes is None else Replayer(cluster, strikes)
    rule: str | None = None
    failure: str | None = None
    checked: Figures | None = None
    anomalies: dict[str, int] = {}
    recovery_ms = -1
    try:
        recovery_ms = _run_phases(cluster, planner, options.faults_ms if faults_ms is None else faults_ms)
        # The checker knows nothing of losses that were chosen by hand, nor of what newer records replaced.
        if not cluster.oracle.conceded and not options.compacted:
            judged = judge(cluster)
            checked, anomalies = judged.figures, judged.bad
            if (found := failure_of(judged)) is not None:
                raise Violation(*found)
    except Violation as violation:
        rule, failure = violation.rule, str(violation)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        rule = f"crash {type(error).__name__}"
        failure = f"{rule}: {error} ({where.filename}:{where.lineno})"
    events = cluster.events
    return Verdict(
        seed=seed,
        options=options,
        strikes=tuple(planner.strikes),
        events=events.count,
        simulated_ms=events.now_ms,
        under_faults_ms=cluster.ongoing.lasted_ms,
        acked=cluster.acked,
        isr_changes=cluster.isr_changes,
        leader_changes=cluster.leader_changes,
        controller_elections=sum(c.elections for c in cluster.controllers),
        truncations_written_aside=sum(b.disk.asides for b in cluster.brokers.values()),
        recovery_ms=recovery_ms,
        digest=events.digest(),
        rule=rule,
        failure=failure,
        checked=checked,
        anomalies=anomalies,
        history_digest=cluster.history.digest(),
        marks=dict(cluster.marks.counts),
        last_events=tuple(events.recent[-EVENTS_SHOWN:]),
    )


def _run_phases(cluster: Cluster, planner: FaultPlanner | Replayer, faults_ms: int) -> int:
    events = cluster.events
    cluster.start()
    cluster.run_until(SET_UP_MS_MAX, lambda: cluster.acked > 0)
    if not cluster.acked:
        raise Violation("L1", "nothing was acknowledged in a healthy cluster")
    planner.start()
    if cluster.mixed is not None:
        cluster.mixed.begin(faults_ms)
    _expire_sessions(cluster)
    cluster.run_until(events.now_ms + faults_ms)
    planner.stop()
    if cluster.mixed is not None:
        cluster.mixed.end()
    if cluster.options.family == "pauses":  # it is about what comes after them
        cluster.run_until(max(events.now_ms, cluster.ongoing.last_end_ms))
    random = keyed_random(cluster.seed, "core")
    core = draw_core(cluster, random)
    # A recovery waits for every broker.
    is_one_enough = cluster.options.family != "metadata"
    if is_one_enough and can_serve(cluster, cluster.brokers) and not cluster.budget.is_exceeded:
        heal_core(cluster, core, random)
        core_ms = events.now_ms
        cluster.run_until(core_ms + TRAFFIC_MS)
        cluster.stop_clients()
        _settle(cluster, core, core_ms + CORE_MS_MAX)
    cluster.heal()
    healed_ms = events.now_ms
    cluster.start_again()
    cluster.run_until(healed_ms + 1_000)
    if cluster.budget.is_exceeded:
        concede(cluster)
        healed_ms = events.now_ms  # what went before was not the cluster's to do
    cluster.stop_clients()
    _wait(cluster, healed_ms + LIVENESS_MS_MAX, lambda: missing_at_end(cluster))
    recovery_ms = events.now_ms - healed_ms
    _wait(cluster, events.now_ms + TOLD_MS_MAX, lambda: not_told(cluster))
    cluster.check_end()
    return recovery_ms


def _settle(cluster: Cluster, core: frozenset[str], until_ms: int) -> None:
    """Wait for the core, which grows by those that it turns out to depend on."""
    while True:
        cluster.run_until(until_ms, partial(_is_over, cluster, core))
        others = depended_on(cluster, core)
        if not others:
            break
        core |= others
        cluster.ongoing.end_within(core)
        cluster.events.note(f"healed as well: {sorted(others)}")
        until_ms = cluster.events.now_ms + CORE_MS_MAX
    _wait(cluster, until_ms, lambda: missing_in_core(cluster, core))


def _is_over(cluster: Cluster, core: frozenset[str]) -> bool:
    """Whether there is nothing to wait for any more, or nothing that could come."""
    return missing_in_core(cluster, core) is None or bool(depended_on(cluster, core))


def _wait(cluster: Cluster, until_ms: int, missing: Callable[[], tuple[str, str] | None]) -> None:
    cluster.run_until(until_ms, lambda: missing() is None)
    found = missing()
    if found is not None:
        raise Violation(found[0], f"{found[1]}; waited until {until_ms} ms")


def _expire_sessions(cluster: Cluster) -> None:
    cluster.zookeeper.expire_due()
    pause_ms = cluster.options.session_timeout_ms / 10
    cluster.events.after(pause_ms, lambda: _expire_sessions(cluster))
