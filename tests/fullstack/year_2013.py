"""The schedule that made Kafka lose acknowledged writes in 2013, against whole brokers, and its control.

Of 1000 integers 987 were acknowledged then, 468 were read back and 520 were lost: a leader that was cut off
from its followers shrank the in-sync set to itself, acknowledged alone, and lost its session in its turn;
whoever was elected next knew nothing of what it had acknowledged.

    0      five brokers, one topic of five partitions on all five; five writers, each of which knows its own
           broker only and writes 200 records, one at a time, with acks=all
    T/4    the broker that leads most partitions hears no other broker any more; controllers and clients reach
           it, and it reaches everybody
    T/2    it hears nobody but clients, and no other node hears it, until it leads nothing
    then   all is healed; when the writers are done, one consumer of each partition reads everything

T is how long the records take at the writers' pace, here five times that of 2013: what matters is that the
in-sync set can shrink before the second cut. With our defaults nothing may be lost. The control runs with
min.insync.replicas=1 and unclean elections, which is what was measured then, and must lose: a run that
could not see a loss proves nothing. Every record that it loses must lie in what some replica put aside.
"""

from __future__ import annotations

import time
from collections import Counter

import trio

from tests.fullstack import ending
from tests.fullstack.broker_node import BrokerNode
from tests.fullstack.cluster import Cluster
from tests.fullstack.failure import Failure
from tests.fullstack.options import Options
from tests.fullstack.producer import Producer
from tests.fullstack.run import Result, Story, run_story
from tests.proof.part import Part, save
from tests.simulation.schedule_2013 import THEN

NAME = "2013-tier-b"
BROKERS = WRITERS = 5
RECORDS = 1_000
PAUSE_MS = (60.0, 140.0)
LENGTH_MS = RECORDS // WRITERS * sum(PAUSE_MS) / 2
LEADERLESS_MS_MAX = 20_000
WRITERS_MS_MAX = 60_000
LAG_MS_MAX = 1_500


def options_2013(*, is_control: bool) -> Options:
    return Options(
        brokers=BROKERS,
        controllers=1,
        partitions=WRITERS,
        replication_factor=BROKERS,
        min_insync_replicas=1 if is_control else BROKERS // 2 + 1,
        unclean=is_control,
        lag_ms_max=LAG_MS_MAX,
        segment_bytes=1024 * 1024,
        producer_pause_ms=PAUSE_MS,
    )


class Story2013(Story):
    """`minimums`: of the partitions, as the controller has them."""

    def __init__(self, result: Result) -> None:
        super().__init__(result, faults_ms=0, strikes=())
        self.minimums: set[int] = set()

    def new_producer(self, cluster: Cluster, partition: int) -> Producer:
        """Writer i knows broker i only."""
        producer = Producer(
            cluster.clients,
            name=f"writer-{partition + 1}",
            topic=cluster.topic,
            partition=partition,
            pause_ms=PAUSE_MS,
            batch_records_max=1,
            records=RECORDS // WRITERS,
        )
        producer.know_only(cluster.clients.bootstrap[partition])
        return producer

    async def strike(self, cluster: Cluster) -> None:
        states = [cluster.truth(key) for key in cluster.keys]
        self.minimums = {state.min_insync_replicas for state in states if state is not None}
        await trio.sleep(LENGTH_MS / 4 / 1000)
        victim = self._leads_most(cluster)
        others = [name for name in cluster.node_names if name != victim.name]
        for name in others:
            if name.startswith("broker-"):
                cluster.network.cut(name, victim.name)
        cluster.world.note(f"{victim.name} hears no other broker")
        await trio.sleep(LENGTH_MS / 4 / 1000)
        for name in others:
            cluster.network.cut(name, victim.name)
            cluster.network.cut(victim.name, name)
        cluster.world.note(f"{victim.name} hears nobody but clients")
        await cluster.until(
            lambda: not self._leads(cluster, victim),
            ms=LEADERLESS_MS_MAX,
            what="the cut broker leads nothing",
        )
        ending.mend_everything(cluster)
        await cluster.until(
            lambda: all(writer.has_ended for writer in self.producers),
            ms=WRITERS_MS_MAX,
            what="every writer has written its records",
        )

    def _leads(self, cluster: Cluster, broker: BrokerNode) -> int:
        states = [cluster.truth(key) for key in cluster.keys]
        if None in states:  # no controller is active: nobody knows
            raise Failure("L3: no controller is active, and none was touched")
        return sum(state.leader == broker.broker_id for state in states if state is not None)

    def _leads_most(self, cluster: Cluster) -> BrokerNode:
        leads = Counter({broker_id: self._leads(cluster, b) for broker_id, b in cluster.brokers.items()})
        return cluster.brokers[leads.most_common(1)[0][0]]


def run_2013(seed: int, *, is_control: bool) -> Result:
    """`failures` of the control is what went wrong with the run; that it lost records is in its verdict."""
    result = Result(seed=seed, options=options_2013(is_control=is_control))
    story = Story2013(result)
    run_story(result, story, draw=False, may_lose=is_control)
    if story.minimums != {result.options.min_insync_replicas}:
        result.failures.append(f"min.insync.replicas was {story.minimums}")
    if result.figures["total"] != RECORDS:
        result.failures.append(f"{result.figures['total']} records were sent, not {RECORDS}")
    return result


def part_of(ours: Result, control: Result, *, seconds: float) -> Part:
    failures = [f"ours: {failure}" for failure in ours.failures]
    failures += [f"control: {failure}" for failure in control.failures]
    lost = control.figures["lost"]
    if not lost:
        failures.append("control: it lost nothing, so the schedule does not do what it says")
    elif control.hidden != lost:
        failures.append(f"control: of {lost} lost records only {control.hidden} lie in what was put aside")
    return Part(
        name=NAME,
        seconds=round(seconds, 1),
        figures={
            **ours.figures,
            "leader elections": ours.elections,
            **{f"control: {name}": figure for name, figure in control.figures.items()},
            "control: lost records found in divergent files": control.hidden,
            **{f"2013: {name}": figure for name, figure in THEN.items()},
        },
        faults={"listener closed to brokers": 2, "isolated": 2},
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
        print(f"{name:<48} {figure}")
    print("\n".join(part.failures))
    return 0 if part.is_ok else 1
