"""What faults of a calm cluster cost its groups: how long no commit is answered, and that none is rebalanced.

In virtual time only what waits costs anything: round trips, pauses of clients, timeouts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise

import trio

from coordinator.shell.shard_metrics import collect_shards
from springtide.contract.partition_state import PartitionState
from springtide.node.sharding import shard_of
from tests.checker.group_diary import UNTOLD, Committed
from tests.fullstack.cluster import Cluster
from tests.fullstack.coordinator_node import CoordinatorNode
from tests.fullstack.groups import GROUP, LOOK_ELSEWHERE, MEMBERS, LastLook, Member, PlainClient
from tests.fullstack.kafka import ConnectionLost
from tests.fullstack.options import SHARDS_SIMULATED, Options
from tests.fullstack.run import Result, run_story
from tests.fullstack.shards import Shards

CALM_MS = 1_500
BACKOFF_MS = (100, 100)
"""What stock clients wait before they try again."""
NS_PER_MS = 1_000_000


class Prober(PlainClient):
    """Commits every pace_ms, and after a failure waits as stock clients do."""

    pace_ms = 10

    async def run(self) -> None:
        self._positions = {0: 0}
        while not self.is_stopped:
            try:
                error = await self.commit(self.group, {"member_id": ""})
            except ConnectionLost:
                error = ""
            if error in LOOK_ELSEWHERE or not error:
                self._road.forget()
            await self.pause((self.pace_ms, self.pace_ms) if error == "none" else BACKOFF_MS)

    def longest_gap_ms(self, since_ns: int) -> int:
        answered = [entry.at_ns for entry in self._diary if isinstance(entry, Committed)]
        times = [since_ns, *(at_ns for at_ns in answered if at_ns > since_ns), self._now_ns]
        return max(after - before for before, after in pairwise(times)) // NS_PER_MS


class Steady(Member):
    """Stays, and only sends heartbeats."""

    async def _turn(self) -> None:
        await self._beat()
        await self.pause((200, 200))


class Calm:
    """A cluster whose groups are whole, and a prober for each shard."""

    def __init__(self, cluster: Cluster, pace_ms: int) -> None:
        assert cluster.shards is not None
        self.cluster = cluster
        self.shards: Shards = cluster.shards
        self.members = [Steady(cluster, name) for name in MEMBERS]
        self.probers = [Prober(cluster, name) for name in ("p", "q")]
        assert {shard_of(prober.group, SHARDS_SIMULATED) for prober in self.probers} == {0, 1}
        for prober in self.probers:
            prober.pace_ms = pace_ms

    async def begin(self) -> None:
        cluster = self.cluster
        await cluster.form()
        assert await cluster.operator.create_topic(
            cluster.topic, partitions=2, replication_factor=3, configs={}
        )
        clients: list[Steady | Prober] = [*self.members, *self.probers]
        for client in clients:
            cluster.spawn(client.run)
        await cluster.until(self.has_one_generation, ms=20_000, what="the members have one generation")
        await self.rest()

    def has_one_generation(self) -> bool:
        return UNTOLD not in self.generations and len(set(self.generations)) == 1

    async def rest(self, ms: int = CALM_MS) -> None:
        await trio.sleep(ms / 1_000)

    @property
    def generations(self) -> list[int]:
        return [member.generation for member in self.members]

    @property
    def states(self) -> list[PartitionState]:
        return list(self.shards.states().values())

    def owner(self) -> CoordinatorNode:
        shard = self.shards.shard
        assert shard is not None
        return next(node for node in self.shards.nodes if node.coordinator_id == shard.owner)

    def endings(self) -> float:
        """Return how many shards have been closed."""
        coordinators = [node.coordinator for node in self.shards.nodes if node.coordinator is not None]
        return sum(
            sample.value
            for coordinator in coordinators
            for family in collect_shards((coordinator.shards,))
            for sample in family.samples
            if sample.name == "springtide_shard_endings_total"
        )

    def refusals(self) -> int:
        moments = [prober.moments for prober in self.probers]
        return sum(each[what] for each in moments for what in each if what.startswith("commit refused"))

    def longest_gap_ms(self, since_ns: int) -> int:
        return max(prober.longest_gap_ms(since_ns) for prober in self.probers)


def in_calm(story: Callable[[Calm], Awaitable[None]], *, pace_ms: int) -> None:
    async def whole(cluster: Cluster) -> None:
        calm = Calm(cluster, pace_ms)
        await calm.begin()
        await story(calm)

    result = Result(seed=1, options=Options(controllers=2, coordinators=2))
    run_story(result, whole, draw=False)
    assert not result.failures, result.report()


def test_a_coordinator_that_is_killed_costs_less_than_a_second_and_one_that_is_drained_a_fifth() -> None:
    async def story(calm: Calm) -> None:
        now_ns, generations = calm.cluster.world.now_ns, calm.generations
        refusals = calm.refusals()
        drained = calm.owner()
        calm.shards.wanted[drained.coordinator_id] = (True, False)
        await calm.cluster.until(lambda: calm.owner() is not drained, ms=5_000, what="the drain has an end")
        await calm.rest()
        assert 20 < calm.longest_gap_ms(now_ns) < 200
        assert calm.refusals() - refusals == 1, "one client is sent on, once, and its new coordinator answers"
        del calm.shards.wanted[drained.coordinator_id]
        await calm.cluster.until(lambda: calm.shards.missing() is None, ms=5_000, what="it stands by")
        await calm.rest()
        now_ns = calm.cluster.world.now_ns
        calm.owner().crash()
        await calm.rest()
        assert 20 < calm.longest_gap_ms(now_ns) < 1_000
        assert calm.generations == generations

    in_calm(story, pace_ms=10)


def test_a_broker_that_is_killed_closes_no_shard() -> None:
    async def story(calm: Calm) -> None:
        generations, endings = calm.generations, calm.endings()
        for leader in {state.leader for state in calm.states}:
            broker = calm.cluster.brokers[leader]
            broker.crash()
            await calm.rest()
            broker.start()
            await calm.rest(8_000)
        assert calm.endings() == endings
        assert calm.generations == generations

    in_calm(story, pace_ms=200)


def test_without_enough_replicas_members_stay_and_learn_what_is_committed() -> None:
    async def story(calm: Calm) -> None:
        generations, endings = calm.generations, calm.endings()
        refused = sum(prober.moments["commit refused: coordinator_not_available"] for prober in calm.probers)
        for broker_id in (1, 2):
            calm.cluster.brokers[broker_id].crash()
        await calm.rest(15_000)
        told = [p.moments["commit refused: coordinator_not_available"] for p in calm.probers]
        assert sum(told) > refused
        look = LastLook(calm.cluster, "look")
        with trio.fail_after(1):
            await look.look(GROUP, (0, 1))
        assert calm.generations == generations
        for broker_id in (1, 2):
            calm.cluster.brokers[broker_id].start()
        await calm.rest(10_000)
        assert calm.endings() == endings
        assert calm.longest_gap_ms(calm.cluster.world.now_ns - CALM_MS * NS_PER_MS) < 1_000

    in_calm(story, pace_ms=200)


def test_controllers_that_are_away_for_a_minute_cost_no_group_anything() -> None:
    async def story(calm: Calm) -> None:
        now_ns, generations = calm.cluster.world.now_ns, calm.generations
        for controller in calm.cluster.controllers:
            controller.crash()
        await calm.rest(60_000)
        assert calm.longest_gap_ms(now_ns) < 1_000
        for controller in calm.cluster.controllers:
            controller.start()
        await calm.rest(15_000)
        assert calm.longest_gap_ms(now_ns) < 1_000
        assert calm.generations == generations

    in_calm(story, pace_ms=500)
