"""The schedule that made Kafka lose acknowledged writes in 2013, against whole brokers, and its control.

Five brokers, one topic of five partitions with five replicas each, five writers with acks=all. First the
broker that leads most partitions is cut off from the other brokers, while it can still talk to the
controller: the in-sync set shrinks to it, or would. Then it is cut off from everybody, loses its leaderships,
and everything is mended. What was acknowledged and is not read afterwards is lost.

With this system's defaults nothing may be. The control runs the same under min.insync.replicas=1 and unclean
elections, which is what was measured then, and must lose: a run that could not see a loss proves nothing.
"""

from __future__ import annotations

import time
from collections import Counter

import trio

from tests.fullstack.cluster import Cluster
from tests.fullstack.options import Options
from tests.fullstack.producer import Producer
from tests.fullstack.run import Result, Story, run_story
from tests.proof.part import Part, save

NAME = "2013-tier-b"
BROKERS = 5
WRITERS = 5
FIRST_CUT_MS = 3_000
SECOND_CUT_MS = 9_000
LEADERLESS_MS_MAX = 20_000
LAG_MS_MAX = 1_500
PAUSE_MS = (300.0, 700.0)
"""Two records a second and writer, as then."""


def options_2013(*, is_control: bool) -> Options:
    return Options(
        brokers=BROKERS,
        controllers=1,
        partitions=WRITERS,
        replication_factor=BROKERS,
        min_insync_replicas=1 if is_control else 2,
        unclean=is_control,
        lag_ms_max=LAG_MS_MAX,
        segment_bytes=1024 * 1024,
        producer_pause_ms=PAUSE_MS,
    )


class Story2013(Story):
    """Times are of the schedule's shorter form: what matters is that the ISR can shrink before the second
    cut."""

    def __init__(self, result: Result) -> None:
        super().__init__(result, faults_ms=0, strikes=())

    async def strike(self, cluster: Cluster) -> None:
        await trio.sleep(FIRST_CUT_MS / 1000)
        leads = Counter(state.leader for key in cluster.keys if (state := cluster.truth(key)) is not None)
        victim = cluster.brokers[min(leads, key=lambda broker_id: (-leads[broker_id], broker_id))]
        others = [name for name in cluster.node_names if name != victim.name]
        brokers = [name for name in others if name.startswith("broker-")]
        cluster.world.note(f"{victim.name} leads {leads[victim.broker_id]} partitions, and is cut off")
        for name in brokers:
            cluster.network.cut(name, victim.name)
        await trio.sleep((SECOND_CUT_MS - FIRST_CUT_MS) / 1000)
        cluster.world.note(f"{victim.name} is cut off from everybody")
        for name in [*others, cluster.clients.machine.name]:
            cluster.network.cut(name, victim.name)

        def leads_nothing() -> bool:
            states = [cluster.truth(key) for key in cluster.keys]
            return all(state is not None and state.leader != victim.broker_id for state in states)

        await cluster.until(leads_nothing, ms=LEADERLESS_MS_MAX, what="the cut broker leads nothing")
        await trio.sleep(2)

    def new_producer(self, cluster: Cluster, partition: int) -> Producer:
        """Writer i knows broker i only."""
        producer = super().new_producer(cluster, partition)
        producer.know_only(cluster.clients.bootstrap[partition])
        return producer


def run_2013(seed: int, *, is_control: bool) -> Result:
    result = Result(seed=seed, options=options_2013(is_control=is_control))
    return run_story(result, Story2013(result), draw=False)


def part_of(ours: Result, control: Result, *, seconds: float) -> Part:
    failures = list(ours.failures)
    if control.lost == 0:
        failures.append("the control lost nothing: the schedule does not do what it says")
    figures = ours.verdict.figures if ours.verdict is not None else None
    lossy = control.verdict.figures if control.verdict is not None else None
    return Part(
        name=NAME,
        seconds=round(seconds, 1),
        figures={
            "records sent": 0 if figures is None else figures.total,
            "records acknowledged": ours.acked,
            "records read": 0 if figures is None else figures.final_read or 0,
            "leader elections": ours.elections,
            "control: records acknowledged": control.acked,
            "control: records lost": 0 if lossy is None else lossy.lost,
        },
        faults={"cut from the other brokers": 1, "cut from everybody": 1},
        failures=failures,
        lost=ours.lost,
        inconsistent=ours.inconsistent,
    )


def main(seed: int) -> int:
    began = time.monotonic()
    ours = run_2013(seed, is_control=False)
    control = run_2013(seed, is_control=True)
    part = part_of(ours, control, seconds=time.monotonic() - began)
    save(part)
    if not part.is_ok:
        print(ours.report())
    for name, figure in part.figures.items():
        print(f"{name:<32} {figure}")
    print(f"{'lost':<32} {part.lost}")
    print("\n".join(part.failures))
    return 0 if part.is_ok else 1
